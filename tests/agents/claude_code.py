"""Drives the real Claude Code against a model on loopback, and keeps what it sent.

The program is in the wheel of claude-agent-sdk. What the user types decides what the model does:
each prompt is a word of `Conversation`, which `answer` understands.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.examples.provider import Provider, Refused, provider

Message = dict[str, Any]

_REMINDER = re.compile(r"\s*<(system-reminder|task-notification)>.*?</\1>\s*", re.DOTALL)
_TYPED = re.compile(
    r"<system-reminder>\nThe user sent a new message while you were working:\n"
    r"(.*?)\n\nThis is how .*?</system-reminder>",
    re.DOTALL,
)
_COMMANDS = {
    ".claude/commands/look.md": "READ 0 $ARGUMENTS\n",
    ".claude/skills/greet/SKILL.md": "---\nname: greet\ndescription: greets\n---\nHELLO skill\n",
}
"""The slash command `/look` and the skill `/greet` of each project."""

_COMPACTS = "Respond with TEXT ONLY"
TOOLS = "Read,Agent,Task,Bash,Edit,Write"


def program() -> Path | None:
    """The path of the program, or None."""
    found = importlib.util.find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "_bundled" / "claude"
    return path if path.is_file() else None


class Conversation:
    """One session of the program in a folder of its own, and the requests of its model."""

    def __init__(self, folder: Path, served: Provider, model: _Model) -> None:
        self._model = model
        self.id = str(uuid.uuid4())
        self._config, self._home, self._project = folder / "c", folder / "h", folder / "project"
        for each in (self._config, self._home, self._project):
            each.mkdir()
        for number in range(4):
            (self._project / f"{number}.txt").write_text(f"content {number}\n")
        for path, text in _COMMANDS.items():
            (self._project / path).parent.mkdir(parents=True)
            (self._project / path).write_text(text)
        self._served = served
        self._is_new = True

    @property
    def project(self) -> Path:
        return self._project

    @property
    def file(self) -> Path:
        (found,) = self._config.glob(f"projects/*/{self.id}.jsonl")
        return found

    def say(self, prompt: str, *options: str, fails: bool = False) -> None:
        """Type a prompt; wait for the end of the turn."""
        command = [str(program()), "-p", prompt, "--output-format", "json"]
        done = subprocess.run(
            [*command, "--allowedTools", TOOLS, *self._at(), *options],
            cwd=self._project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-2000:]

    def say_during(self, prompt: str, typed: str) -> None:
        """Type a prompt, and another while the model answers; wait for the end of the turn."""
        command = [str(program()), "-p", "--verbose", "--allowedTools", TOOLS, *self._at()]
        command += ["--input-format", "stream-json", "--output-format", "stream-json"]
        count = len(self._served.requests)
        with subprocess.Popen(
            command,
            cwd=self._project,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            self._model.may_answer.clear()
            for text in (prompt, typed):
                message = {"role": "user", "content": text}
                running.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
                running.stdin.flush()
                while len(self._served.requests) == count:
                    time.sleep(0.02)
            time.sleep(1)  # the program takes the second prompt from its input
            self._model.may_answer.set()
            for line in running.stdout:
                if json.loads(line)["type"] == "result":
                    running.stdin.close()
        assert running.returncode == 0

    def say_stored(self, root: Path, prompt: str, *options: str) -> str:
        """Say a prompt through the SDK, with a store of ours; the id of the session.

        Options are those of `tests.agents.claude_stored`.
        """
        paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-m", "tests.agents.claude_stored", str(root), prompt, *options],
            cwd=self._project,
            env={**self._environment(), **paths},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.split()[-1]

    def _at(self) -> tuple[str, str]:
        found = ("--session-id", self.id) if self._is_new else ("--resume", self.id)
        self._is_new = False
        return found

    def _environment(self) -> dict[str, str]:
        return {
            **self._served.environment(),
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "CLAUDE_CONFIG_DIR": str(self._config),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def go_back(self, entry: str, prompt: str) -> None:
        """Go on from an earlier entry, as the user does with /rewind."""
        self.say(prompt, "--resume-session-at", entry)

    def branch_off(self, prompt: str) -> None:
        """Go on in a copy of the session, which has an id of its own."""
        copy = str(uuid.uuid4())
        self.say(prompt, "--fork-session", "--session-id", copy)
        self.id = copy


@contextmanager
def conversation(folder: Path) -> Iterator[tuple[Conversation, Provider]]:
    model = _Model()
    with provider(model.answer) as served:
        yield Conversation(folder, served, model), served


class _Model:
    """Answers a prompt by the word in capitals that it begins with."""

    def __init__(self) -> None:
        self._calls = 0
        self._answers = 0
        self._lock = threading.Lock()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, request: dict[str, Any]) -> list[Message]:
        assert self.may_answer.wait(60)
        with self._lock:
            last = seen(request["messages"])[-1]["content"]
            texts = [block["text"] for block in last if block["type"] == "text"]
            word, _, rest = (texts[-1] if texts else "").strip().partition(" ")
            if any(_COMPACTS in text for text in texts):
                return [{"type": "text", "text": "<summary>They talked.</summary>"}]
            if any(block["type"] == "tool_result" for block in last):
                return [self._text("done")]
            if word == "REFUSE":
                raise Refused
            if word == "READ":
                return [self._text("reading"), *map(self._read, rest.split())]
            if word == "EDIT":
                name, old, new = rest.split()
                return [self._call("Edit", file_path=f"{name}.txt", old_string=old, new_string=new)]
            if word == "WRITE":
                name, content = rest.split(maxsplit=1)
                return [self._call("Write", file_path=f"{name}.txt", content=content + "\n")]
            if word == "ASK":
                agents = rest.split()
                return [self._agent("READ 0 1 2", agent) for agent in agents]
            return [self._text("hello")]

    def _text(self, text: str) -> Message:
        self._answers += 1
        return {"type": "text", "text": f"{text} {self._answers}"}

    def _read(self, name: str) -> Message:
        return self._call("Read", file_path=f"{name}.txt")

    def _agent(self, prompt: str, kind: str) -> Message:
        return self._call("Agent", description=kind, prompt=prompt, subagent_type=kind)

    def _call(self, name: str, **given: str) -> Message:
        self._calls += 1
        return {"type": "tool_use", "id": f"toolu_{self._calls:04}", "name": name, "input": given}


def seen(messages: list[Message]) -> list[Message]:
    """Messages of a request without what the program adds for the model alone.

    Left out: system messages, reminders, notes of tasks, and marks of the cache. A reminder of what
    the user typed during a turn is the user's message.
    Messages of one role in a row are one, and results are in the order of their calls' ids.
    """
    found: list[Message] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        role = message["role"]
        if role == "system":
            role, blocks = "user", [b for b in blocks if _TYPED.search(b["text"])]
        kept = [bare for block in blocks for bare in _bare(block)]
        if not kept:
            continue
        if found and found[-1]["role"] == role:
            found[-1]["content"] += kept
        else:
            found.append({"role": role, "content": kept})
    for message in found:
        message["content"].sort(key=lambda block: block.get("tool_use_id", "z"))
    return found


def _bare_summary(text: str) -> str:
    """A summary without the words around it in a context of sessiontree."""
    framed = text.startswith("The earlier part of this conversation was replaced by this summary:")
    return text.partition("<summary>\n")[2].removesuffix("\n</summary>") if framed else text


def _bare(block: Message) -> Iterator[Message]:
    bare = {key: value for key, value in block.items() if key not in ("cache_control", "is_error")}
    if block["type"] == "text":
        text = _REMINDER.sub("", _TYPED.sub(r"\1", _bare_summary(block["text"]))).strip()
        if text:
            yield {**bare, "text": text}
    elif block["type"] == "tool_result":
        content = block.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [part["text"] for part in parts if part["type"] == "text"]
        inside = (
            part | {"text": _REMINDER.sub("", part.get("text", "")).strip()} for part in parts
        )
        yield {**bare, "content": [part for part in inside if part["text"]]}
        for typed in (found for text in texts for found in _TYPED.findall(text)):
            yield {"type": "text", "text": typed}
    elif block["type"] == "tool_use":
        yield {key: bare[key] for key in ("type", "id", "name", "input")}
    else:
        yield bare


def sent(served: Provider) -> list[str]:
    """Each request for an answer, as JSON to compare."""
    requests = (seen(request["messages"]) for request in served.requests)
    return sorted(
        json.dumps(each, sort_keys=True)
        for each in requests
        if _COMPACTS not in json.dumps(each[-1])
    )
