"""The last turns of a large file of another agent are those that all of the file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.viewers import sessions
from sessiontree import Session
from sessiontree.library.one import opened_by_ends
from sessiontree.views.turns import Turn, latest
from tests.support.sessions import chat
from tests.support.table import for_each


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transcript of Claude Code of 5 MB."""
    file = tmp_path_factory.mktemp("large") / f"{sessions.SESSION}.jsonl"
    sessions.write(file, sessions.made(), 5)
    return file


def told(turn: Turn) -> tuple[Any, ...]:
    return turn.prompt, turn.answer, turn.work.calls, turn.work.usage


def check(file: Path, *, has_own_uuids: bool = True) -> None:
    ends = opened_by_ends(str(file))
    assert ends is not None
    with ends, Session.open(file, readonly=True) as whole:
        found, expected = latest(ends.cursor), latest(whole.cursor)
        assert whole.damage == []
    assert len(found) > 5
    expected = expected[-len(found) :]
    assert list(map(told, found)) == list(map(told, expected))
    same = [turn.uuid for turn in found] == [turn.uuid for turn in expected]
    assert same == has_own_uuids


def test_the_last_turns_of_a_transcript_of_claude_code(large: Path) -> None:
    check(large)


@for_each("agent", ["codex", "pi"])
def test_the_last_turns_of_other_agents(agent: Any, large: Path, tmp_path: Path) -> None:
    with Session.open(large, readonly=True) as session:
        made = session.convert(agent, tmp_path / "made.jsonl").file
    check(Path(made), has_own_uuids=agent != "codex")  # its lines have none


def test_a_last_line_of_some_megabytes(large: Path, tmp_path: Path) -> None:
    """The end is longer then, so that it has a prompt."""
    lines = [*sessions.made(), *sessions.made(8, 1)]
    lines[-1]["message"]["content"][0]["text"] += "x" * 2_000_000
    file = tmp_path / "s.jsonl"
    sessions.write(file, [*lines], 40)
    ends = opened_by_ends(str(file))
    assert ends is not None
    with ends:
        assert latest(ends.cursor)[-1].prompt is not None


def test_a_small_file_and_a_session_of_sessiontree_are_opened_whole(tmp_path: Path) -> None:
    small = tmp_path / "small.jsonl"
    sessions.write(small, sessions.made(turns=1), 0.1)
    assert opened_by_ends(str(small)) is None
    own = chat(tmp_path / "own.jsonl", *[f"{number} " + "x" * 9_000 for number in range(300)])
    assert own.stat().st_size > 2 << 20
    assert opened_by_ends(str(own)) is None
    assert opened_by_ends(str(tmp_path / "gone.jsonl")) is None
