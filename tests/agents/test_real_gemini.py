"""What Gemini CLI resumes of a chat is what sessiontree reads of it.

The real CLI runs offline with answers from a file; its own recorder makes random chats. Set
`GEMINI_CLI` to the `gemini.js` of the npm package `@google/gemini-cli`, for Node 20 or newer.
`python -m tests.agents.test_real_gemini` makes the samples in `fixtures/agents/gemini` anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store, import_session
from sessiontree.agents.gemini.messages import content_of
from tests.agents.cleaning import cleaned

PROGRAM = os.environ.get("GEMINI_CLI", "")
CHATS = int(os.environ.get("SESSIONTREE_AGENT_SESSIONS", "50"))
"""The random chats; a hundred take a second."""

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents" / "gemini" / "0.61.0"
_installed = pytest.mark.skipif(
    not (PROGRAM and shutil.which("node")),
    reason="Gemini CLI is not installed: set GEMINI_CLI to the path of its gemini.js",
)

Json = dict[str, Any]
Told = list[tuple[str, Any]]
"""Roles, and contents or the ids of results."""


def said_by(script: str, *arguments: object) -> Iterator[Json]:
    """The JSON lines of a script beside this module, which asks Gemini CLI."""
    program = str(Path(__file__).with_name(f"{script}.mjs"))
    command = ["node", program, str(Path(PROGRAM).parent), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    yield from map(json.loads, done.stdout.splitlines())


def read(file: Path | str) -> Told:
    """What sessiontree reads of a chat."""
    with Session.open(file, readonly=True) as session:
        assert session.damage == session.verify() == [], file
        assert session.notes == [], file
        messages = session.context(verbatim=True).messages
    return list(as_told(messages))


def as_told(messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for message in messages:
        content = message["content"]
        if message["role"] == "toolResult":
            yield "result", message["toolCallId"]
        elif content:
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield message["role"], blocks


def resumed(history: list[Json]) -> Told:
    """The same of what Gemini CLI resumes, which has each result up to three times."""
    told: Told = []
    for turn in history:
        parts = turn["content"]["parts"]
        ids = [part["functionResponse"]["id"] for part in parts if "functionResponse" in part]
        for id in ids:
            if ("result", id) not in told:
                told.append(("result", id))
        rest = [part for part in parts if "functionResponse" not in part]
        role = "assistant" if turn["content"]["role"] == "model" else "user"
        if rest:
            told.append((role, list(map(_as_block, rest))))
    return told


def _as_block(part: Json) -> Any:
    if "functionCall" not in part:
        return content_of([part])[0]
    call = part["functionCall"]
    named = {"id": call["id"], "name": call["name"], "arguments": call["args"]}
    return {"type": "toolCall", **named}


@_installed
def test_random_chats_are_read_as_gemini_resumes_them(tmp_path: Path) -> None:
    for number, made in enumerate(said_by("gemini_random", tmp_path / "chats", CHATS)):
        told = resumed(made["history"])
        assert read(made["file"]) == told, made["file"]
        done = import_session(made["file"], tmp_path / str(number))
        assert read(done.file) == told, made["file"]
        assert import_session(made["file"], tmp_path / str(number)).new == 0


def answer(*parts: Json, tokens: int = 10) -> Json:
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 5, "totalTokenCount": tokens + 5}
    usage |= {"cachedContentTokenCount": 3, "thoughtsTokenCount": 2}
    content = {"role": "model", "parts": list(parts)}
    candidates = [{"content": content, "finishReason": "STOP"}]
    return {"candidates": candidates, "usageMetadata": usage}


def called(name: str, **arguments: Any) -> Json:
    return {"functionCall": {"name": name, "args": arguments}}


THOUGHT = {"text": "**Looking** I list the folder", "thought": True}
LIST = called("list_directory", dir_path=".")


def run(home: Path, prompt: str, answers: Iterable[Json], *arguments: str) -> None:
    """Gemini CLI, with answers from a file and no network."""
    project = home / "project"
    project.mkdir(parents=True, exist_ok=True)
    (project / "notes.txt").write_text("a note\n")
    fake = home / "answers.jsonl"
    lines = [{"method": "generateContentStream", "response": [each]} for each in answers]
    fake.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = {"HOME": str(home), "PATH": os.environ["PATH"], "GEMINI_API_KEY": "none"}
    given |= {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    command = ["node", PROGRAM, "-m", "gemini-2.5-pro", "--fake-responses-non-strict", str(fake)]
    command += [*arguments, "-p", prompt]
    subprocess.run(
        command,
        cwd=project,
        env=given,
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def play(home: Path) -> Path:
    """The chat of two runs, the second of which resumes the first."""
    run(home, "list the files", [answer(THOUGHT, LIST), answer({"text": "One file."})])
    both = answer(THOUGHT, LIST, called("read_file", file_path="gone.txt"), tokens=20)
    answers = [both, answer({"text": "Still one file."}, tokens=30)]
    run(home, "list them again", answers, "--resume", "latest")
    run(home, "thanks", [answer({"text": "Gladly."})], "--resume", "latest")
    return min((home / ".gemini" / "tmp" / "project" / "chats").glob("*.jsonl"))


PLAYED = ["user", "assistant", "result", "assistant"]
PLAYED += ["user", "assistant", "result", "result", "assistant", "user", "assistant"]


@_installed
def test_a_chat_of_the_real_program_is_one_session_without_side_branches(tmp_path: Path) -> None:
    file = play(tmp_path)
    ((asked),) = said_by("gemini_history", file)
    told = read(file)
    assert told == resumed(asked["history"])
    assert [role for role, _ in told] == PLAYED
    with Session.open(file, readonly=True) as session:
        assert len(session.branches()) == 1
        assert session.header["cwd"] == str(tmp_path / "project")
        assert session.stats().usage.output == 5 * (5 + 2)
    (listed,) = Store(file.parent).list(report=pytest.fail)
    assert (listed.first_message, listed.cwd) == ("list the files", str(tmp_path / "project"))


def test_the_samples_are_read_as_gemini_resumed_them() -> None:
    files = sorted(SAMPLES.rglob("session-*.jsonl"))
    assert files
    histories = json.loads((SAMPLES / "resumed.json").read_text())
    for file in files:
        assert read(file) == resumed(histories[file.name])


def write_samples(home: Path) -> None:
    play(home)
    shutil.rmtree(SAMPLES, ignore_errors=True)
    chats = home / ".gemini" / "tmp" / "project"
    histories: dict[str, Any] = {}
    for file in sorted((chats / "chats").glob("*.jsonl")):
        made = SAMPLES / "tmp" / "project" / "chats" / file.name
        made.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            cleaned(json.loads(line), str(home), "/home/user")
            for line in file.read_text().splitlines()
        ]
        made.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        (asked,) = said_by("gemini_history", made)
        histories[file.name] = asked["history"]
    (SAMPLES / "tmp" / "project" / ".project_root").write_text("/home/user/project")
    (SAMPLES / "resumed.json").write_text(json.dumps(histories, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_samples(Path(folder))
