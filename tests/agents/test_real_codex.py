"""What the real Codex sends to its model is what our context of its files says.

Codex runs offline, against a model on loopback: random turns, reverts, forks, compactions and
injected items. After the last turn of a thread the request that Codex sent is compared with the
context of the newest file of the thread.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store, import_session
from sessiontree.agents.codex.names import rollout_of
from sessiontree.storage.rollouts import in_force
from tests.agents import codex_driver
from tests.agents.codex_driver import Codex, Json, running
from tests.support.table import for_each

PROGRAM = codex_driver.program()
SESSIONS = int(os.environ.get("SESSIONTREE_AGENT_SESSIONS", "12"))
"""The random sessions; each takes under two seconds."""

_installed = pytest.mark.skipif(
    PROGRAM is None, reason="Codex is not installed: set CODEX to the path of its program"
)

_OF_FILE = ("internal_chat_message_metadata_passthrough",)
"""The keys of an item in a file that are not sent."""


def sent(item: Mapping[str, Any]) -> Json:
    return {key: value for key, value in item.items() if key not in _OF_FILE and value is not None}


class Thread:
    """A thread as the test knows it: its turns in force, and its last request."""

    def __init__(self, id: str, turns: list[str]) -> None:
        self.id = id
        self.turns = turns
        self.request: Json | None = None


def played(codex: Codex, chance: random.Random, steps: int) -> list[Thread]:
    """Threads made by random steps; each ends with a turn, whose request is kept."""
    threads = [Thread(codex.start(), [])]
    for step in range(steps):
        thread = chance.choice(threads)
        what = chance.choices(
            ["turn", "tool", "revert", "fork", "compact", "inject"], [5, 2, 3, 2, 1, 1]
        )[0]
        if what in ("revert", "fork", "compact") and not thread.turns:
            what = "turn"
        if what == "turn":
            thread.turns.append(codex.turn(thread.id, f"prompt {step}"))
        elif what == "tool":
            calls = [
                codex_driver.shell(f"c{step}-{n}", f"echo {n}") for n in range(chance.randint(1, 2))
            ]
            thread.turns.append(
                codex.turn(thread.id, f"run {step}", calls, [codex_driver.text(f"ran {step}")])
            )
        elif what == "revert":
            place = chance.randrange(len(thread.turns))
            codex.call("thread/revert", threadId=thread.id, beforeTurnId=thread.turns[place])
            del thread.turns[place:]
        elif what == "fork":
            id = codex.call("thread/fork", threadId=thread.id)["thread"]["id"]
            threads.append(Thread(id, []))
        elif what == "compact":
            codex.compact(thread.id)
            thread.turns.clear()
        else:
            item = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"injected {step}"}],
            }
            codex.call("thread/inject_items", threadId=thread.id, items=[item])
    for thread in threads:
        codex.turn(thread.id, "last")
        thread.request = codex.model.requests[-1]
    return threads


def files_of(home: Path) -> dict[str, Path]:
    """The file in force of each thread."""
    paths = map(str, home.rglob("rollout-*.jsonl"))
    return {found.thread: Path(path) for path in in_force(paths) if (found := rollout_of(path))}


def context_of(file: Path) -> list[Any]:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        context = session.context()
        assert context.warnings == []
        return [sent(item) for item in context.messages]


@_installed
@for_each("seed", range(2))
def test_codex_sends_what_the_context_says(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.soak
@_installed
@for_each("seed", range(2, SESSIONS))
def test_codex_sends_what_the_context_of_many_sessions_says(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


def check(seed: int, tmp_path: Path) -> None:
    assert PROGRAM is not None
    with running(PROGRAM, tmp_path / "codex") as codex:
        threads = played(codex, random.Random(seed), steps=8)
        home = codex.home
    files = files_of(home)
    assert set(files) == {thread.id for thread in threads}
    assert {row.id for row in Store(home / "sessions").list()} == set(files)
    for thread in threads:
        assert thread.request is not None
        here = context_of(files[thread.id])
        system, *told = [sent(item) for item in thread.request["input"]]
        assert here[:-1] == told, thread.id
        assert system["role"] == "developer"  # the system prompt, adapted to the tools in force
        imported = import_session(files[thread.id], tmp_path / "imported")
        assert context_of(Path(imported.file)) == here
