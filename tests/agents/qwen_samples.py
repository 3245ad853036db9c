"""Makes `fixtures/agents/qwen`: `QWEN_CODE=… python -m tests.agents.qwen_samples`.

The real Qwen Code plays one session with parallel calls, one of which fails, an edit and a
subagent, and a fork of it with a compression. Long texts and paths are replaced. `sent.json` has,
for each session, the messages of the last request that Qwen Code sent for it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from tests.agents.cleaning import DAY, cleaned
from tests.agents.qwen_driver import PROGRAM, Json, QwenCode, call, running, text

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "qwen"
SHOWN: Final = "/home/user"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."
Told = list[tuple[str, list[Any]]]
"""Roles; and texts, the names of calls, and the texts of results."""


def played(qwen: QwenCode) -> dict[str, list[Json]]:
    """The messages of the last request for each session."""
    notes = qwen.project / "notes.md"
    notes.write_text("# Notes\nRetries hammer the API.\n")
    read = call("read_file", file_path=str(notes))
    fails = call("run_shell_command", command="echo two; exit 3", is_background=False)
    edit = call("edit", file_path=str(notes), old_string="hammer", new_string="wait for")
    qwen.run("-p", PROMPT, answers=[[text("I read them."), read, fails], [text("I edit."), edit]])
    task = {"description": "Count lines", "prompt": "Count the lines of the notes."}
    count = call("agent", subagent_type="general-purpose", **task)
    qwen.run("-c", "-p", "How many lines are there?", answers=[[count]])
    (first,) = qwen.chats()
    requests = {first.stem: qwen.requests[-1]}
    qwen.run("-c", "--fork-session", "-p", "Say it in German.")
    qwen.run("-c", "-p", "/compress")
    qwen.run("-c", "-p", "And now?")
    return {**requests, qwen.chats()[-1].stem: qwen.requests[-1]}


def sent(messages: list[Json]) -> Told:
    """What a request says, without the system prompt and what Qwen Code tells by itself."""
    told: Told = []
    for message in messages:
        content = message["content"]
        parts = [text(content)] if isinstance(content, str) else content or []
        texts = (part.get("text") for part in parts)  # None for an image
        said = [words for words in texts if words != "" and not _is_by_itself(words)]
        said += [made["function"]["name"] for made in message.get("tool_calls", [])]
        if message["role"] != "system":
            told.append((message["role"], said))
    return joined(told)


def _is_by_itself(words: str | None) -> bool:
    return words is not None and words.lstrip().startswith(_BY_ITSELF)


_BY_ITSELF: Final = ("<system-reminder>", "<environment_details>")


def read(messages: Iterable[Mapping[str, Any]]) -> Told:
    """The same of the messages of a context."""
    told = [(_ROLES.get(role := message["role"], role), _said(message)) for message in messages]
    return joined(told)


def joined(told: Told) -> Told:
    """The messages; those of the user that follow each other are one, as they are sent."""
    made: Told = []
    for role, said in filter(itemgetter(1), told):
        if made and made[-1][0] == role == "user":
            made[-1] = (role, made[-1][1] + said)
        else:
            made.append((role, said))
    return made


_ROLES: Final[dict[str, str]] = {"toolResult": "tool", "compactionSummary": "user"}


def _said(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("summary", message.get("content"))
    blocks = [text(content)] if isinstance(content, str) else content or []
    return [block.get("text", block.get("name")) for block in blocks]


def write(qwen: QwenCode, requests: dict[str, list[Json]], folder: str) -> Path:
    """Write the files of the sessions and of the subagent; the folder with them."""
    files = [*qwen.chats(), *qwen.home.glob("projects/*/subagents/*/agent-*.json*")]
    version = str(json.loads(files[0].read_text().splitlines()[0])["version"])
    target = SAMPLES / version
    shutil.rmtree(target, ignore_errors=True)
    for file in files:
        lines = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
        made = [_shown(json.loads(line), folder) + "\n" for line in lines]
        path = target / _shown(str(file.relative_to(qwen.home / "projects")), folder).strip('"')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(made))
    told = json.dumps({id: sent(messages) for id, messages in requests.items()})
    (target / "sent.json").write_text(_shown(json.loads(told), folder) + "\n")
    return target


def _shown(value: Any, folder: str) -> str:
    """A value as JSON, with another path, also where it is the name of a folder."""
    slugs = (re.sub(r"[^a-zA-Z0-9]", "-", path) for path in (folder, SHOWN))
    made: str = json.dumps(cleaned(cleaned(value, folder, SHOWN, DAY), *slugs))
    return made.replace(folder, SHOWN)  # paths may be keys


def main() -> None:
    if not PROGRAM:
        sys.exit("Qwen Code is not installed: set QWEN_CODE to the path of its cli-entry.js")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as qwen:
        qwen.options = ()
        sys.stdout.write(f"{write(qwen, played(qwen), folder)}\n")


if __name__ == "__main__":
    main()
