"""The coding agent is killed at random, and no request of it is ever wrong.

A model on loopback is overloaded, breaks off and cuts connections; Ctrl-C comes at random, and so
do branches, rewinds and compactions. Each request is valid by the APIs' rules. Each begins with the
whole request before it, byte for byte, unless the session says why not. So a prompt cache works.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from tests.examples.lives import Lives, lives
from tests.examples.model_server import Asked, Fault, ModelServer, model_server
from tests.examples.rules import Api, Object, blocks_of
from tests.support.soak import in_soak
from tests.support.table import for_each

pytestmark = pytest.mark.slow

APIS: Final[tuple[Api, ...]] = ("anthropic", "responses", "chat")
WINDOW: Final = 80_000
MOVES: Final = {"branch", "branch_summary", "stack_summary", "compaction", "context_edit", "merge"}
PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
WORDS: Final = (
    "the",
    "parser",
    "reads",
    "a",
    "token",
    "and",
    "tree",
    "grows",
    "until",
    "it",
    "ends",
)


@pytest.fixture(scope="module")
def forked() -> Iterator[Lives]:
    with lives(CONTEXT_WINDOW=str(WINDOW)) as forked:
        yield forked


class Chaos:
    """What the model says and when things break, all from one seed."""

    def __init__(self, seed: str, model: ModelServer, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.process = 0
        self._numbers = 0
        self._kill_at = self._interrupt_at = 0
        model.script = self.answer
        model.next_fault = self.fault
        model.on_event = self.after_event
        model.on_request = self.file_size

    def file_size(self, key: str) -> int:
        file = self.folder / "chat.jsonl"
        return file.stat().st_size if file.exists() else 0

    def begin(self, process: int) -> None:
        self.process = process
        self._kill_at = self.random.randint(1, 120)
        self._interrupt_at = self.random.randint(1, 40) if self.random.random() < 0.3 else 0

    def after_event(self, key: str) -> None:
        self._kill_at -= 1
        self._interrupt_at -= 1
        if self._interrupt_at == 0:
            self.end(signal.SIGINT)
        if self._kill_at == 0:
            delay = self.random.choice((0, 0, self.random.random() / 20))
            threading.Timer(delay, self.end, (signal.SIGKILL, self.process)).start()

    def end(self, number: int, process: int | None = None) -> None:
        if process in (None, self.process):  # which may be over
            with suppress(ProcessLookupError):
                os.kill(self.process, number)

    def fault(self) -> Fault | None:
        return self.random.choices((None, "overloaded", "error", "cut"), weights=(92, 3, 2, 3))[0]

    def words(self, count: int) -> str:
        self._numbers += 1
        return f"{self._numbers}: " + " ".join(self.random.choices(WORDS, k=count)) + "."

    def answer(self, api: Api, body: Object) -> list[Object]:
        """Thinking, a text, and calls: in about half of the requests."""
        blocks: list[Object] = []
        if api != "chat":
            blocks.append({"type": "thinking", "thinking": self.words(10)})
        names = {json.dumps(tool) for tool in body.get("tools") or ()}
        calls = list(self.calls("task" in str(names))) if names else []
        if not calls or self.random.random() < 0.5:
            blocks.append({"type": "text", "text": self.words(120)})
        return blocks + calls

    def calls(self, can_delegate: bool) -> Iterator[Object]:
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            name, given = self.random.choice(
                [
                    ("bash", {"command": f"echo {self.words(150)!r}"}),
                    ("bash", {"command": "sleep 0.01; ls; exit 3"}),
                    ("read", {"path": "picture.png"}),
                    ("read", {"path": self.random.choice(("notes.md", "nowhere.md"))}),
                    ("write", {"path": "notes.md", "text": self.words(200)}),
                    ("task", {"prompt": self.words(20)})
                    if can_delegate
                    else ("bash", {"command": ""}),
                ]
            )
            yield {"type": "tool_use", "name": name, "input": given}

    def line(self) -> str:
        return self.random.choices(
            [
                f"Prompt {self.words(60)}",
                *("/rewind", "/branch-here @~2", "/undo", "/push aside", "/pop", ""),
                *("/compact only the names", "!echo shell", "/image picture.png See this"),
                *("/tree", "/branches", "/cost", "/rename Chaos"),
            ],
            weights=[70, 2, 2, 2, 2, 2, 4, 1, 3, 3, 1, 1, 1, 1],
        )[0]


def live(forked: Lives, chaos: Chaos, model: ModelServer, api: Api) -> int:
    lines = "".join(f"{chaos.line()}\n" for _ in range(12))
    process = forked.start(chaos.folder, lines, model.environment(api), "--api", api, "chat.jsonl")
    chaos.begin(process)
    return forked.wait()


def broken_prefixes(requests: list[Asked], file: Path) -> list[str]:
    """The requests that do not begin with the one before, though the session did not move."""
    moves = [offset for offset, entry in entries(file) if is_move(entry)]
    last: dict[str, Asked] = {}
    found = []
    for number, asked in enumerate(requests):
        name = conversation(asked)
        before = last.get(name)
        last[name] = asked
        if before is None or begins_with(asked.prefix, before):
            continue
        if name == "main" and any(before.facts <= at < asked.facts for at in moves):
            continue
        pairs = zip(before.prefix, asked.prefix, strict=False)
        here = next((pair for pair in pairs if pair[0] != pair[1]), "it is shorter")
        since = [
            f"{entry['type']} {entry.get('lane', 'main')}"
            for offset, entry in entries(file)
            if before.facts <= offset < asked.facts
        ]
        found.append(f"request {number} of {name}: {here}; written since: {since}")
    return found


def begins_with(prefix: list[str], before: Asked) -> bool:
    """True if a request repeats the one before."""
    return prefix[: len(before.prefix)] == before.prefix


def entries(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    offset = 0
    for line in file.read_bytes().splitlines(keepends=True):
        yield offset, json.loads(line)
        offset += len(line)


def is_move(entry: dict[str, Any]) -> bool:
    return entry["type"] in MOVES and "lane" not in entry


def conversation(asked: Asked) -> str:
    """The lane that a request is of: the main agent has the tool `task`, a summary has no tools."""
    tools = str(asked.body.get("tools"))
    if "'task'" in tools:
        return "main"
    items = asked.body.get("messages") or asked.body["input"]
    user = next(item for item in items if item["role"] == "user")
    return words_of(user["content"]) + tools[:4]


def last_text(body: Object) -> str:
    """The texts of the last message, or of the last result."""
    item = (body["messages"] if "messages" in body else body["input"])[-1]
    return words_of(item.get("content", item.get("output")))


def words_of(content: Any) -> str:
    """The texts of a content and of the results in it."""
    blocks = [] if content is None else blocks_of(content)
    return " ".join(block.get("text") or words_of(block.get("content")) for block in blocks)


def answer(api: Api, body: Object) -> list[Object]:
    thinking = [] if api == "chat" else [{"type": "thinking", "thinking": "Let me see."}]
    return [*thinking, *reply(last_text(body), body)]


def reply(said: str, body: Object) -> list[Object]:
    if not body.get("tools"):
        return [{"type": "text", "text": "In short: names."}]
    if "Count twice" in said:
        inputs: list[Object] = [{"command": "echo one"}, {"command": "echo two"}]
        return [{"type": "tool_use", "name": "bash", "input": given} for given in inputs]
    if "Delegate" in said:
        return [{"type": "tool_use", "name": "task", "input": {"prompt": "Look around"}}]
    if "Look around" in said:
        return [{"type": "tool_use", "name": "bash", "input": {"command": "echo seen"}}]
    if "Die" in said:
        return [{"type": "tool_use", "name": "bash", "input": {"command": "kill -9 $PPID"}}]
    return [{"type": "text", "text": f"Heard {said[-60:]}"}]


SCRIPT: Final = """\
Count twice
Delegate
/image picture.png What is this?
/push aside
Aside
/pop
/rewind
/undo
/branch-here @~1
Elsewhere
/rename A chat
/fork fork.jsonl
/export-branch @ part.jsonl
/branches
/tree
/cost
!echo shell
/compact names
After
/resume
/nonsense
Die
"""


@for_each("api", APIS)
def test_an_agent_has_tools_subagents_images_and_commands_on_each_api(
    forked: Lives, tmp_path: Path, api: Api
) -> None:
    (tmp_path / "picture.png").write_bytes(PIXEL)
    with model_server(answer) as model:
        variables = {"HOME": str(tmp_path), **model.environment()}
        forked.start(tmp_path, SCRIPT, variables, "--api", api, "chat.jsonl")
        assert forked.wait() == -signal.SIGKILL
        forked.start(tmp_path, "Later\n", variables, "--api", api, "chat.jsonl")
        assert forked.wait() == 0
    assert model.faults == []
    printed = (tmp_path / "stdout").read_text()
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    for text in (
        *("seen", "What is this?", "Heard"),
        *(
            "Elsewhere",
            "fork.jsonl",
            "part.jsonl",
            "A chat",
            "shell",
            "There is no command /nonsense",
        ),
    ):
        assert text in printed, text
    sent = [json.dumps(asked.body) for asked in model.requests]
    assert any("iVBOR" in text for text in sent)
    assert "Interrupted" in sent[-2]  # the killed command
    assert "In short: names." in sent[-1]  # the summary
    for file in ("chat.jsonl", "fork.jsonl", "part.jsonl"):
        with Session.open(tmp_path / file, readonly=True) as session:
            assert session.name == ("A chat" if file != "part.jsonl" else session.name)
            assert not session.verify()


@in_soak("kills, apis", (1, APIS), (34, APIS))
def test_an_agent_that_is_killed_sends_valid_requests_with_stable_prefixes(
    forked: Lives, kills: int, apis: tuple[Api, ...], tmp_path: Path, record_property: Any
) -> None:
    figures = {}
    for api in apis:
        folder = tmp_path / api
        folder.mkdir()
        (folder / "picture.png").write_bytes(PIXEL)
        with model_server(lambda api, body: [], window=WINDOW) as model:
            chaos = Chaos(f"{api} {kills}", model, folder)
            killed = started = 0
            while killed < kills:
                started += 1
                code = live(forked, chaos, model, api)
                assert code in (0, -signal.SIGKILL), (folder / "stderr").read_text()
                killed += code != 0
                with Session.open(folder / "chat.jsonl", readonly=True) as session:
                    assert not session.verify()
        assert not model.faults, "\n".join(model.faults)
        broken = broken_prefixes(model.requests, folder / "chat.jsonl")
        assert not broken, "\n".join(broken)
        tokens = sum(asked.tokens for asked in model.requests)
        cached = sum(asked.cached for asked in model.requests)
        figures[api] = {
            "starts": started,
            "kills": killed,
            "requests": len(model.requests),
            "tokens": tokens,
            "cached": round(cached / tokens, 3),
        }
        print(api, figures[api], flush=True)
    record_property("figures", figures)
    if kills > 1:
        assert all(figure["cached"] >= 0.9 for figure in figures.values())
