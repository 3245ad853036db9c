"""The sessions of the list: counted when asked for, and found by their ids without a new list."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.web import sessions
from sessiontree.web.sessions import Sessions, id_of
from tests.support.sessions import by_hand


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    by_hand(tmp_path / "sessions/one.jsonl", "a", "b", id="one")
    return tmp_path / "sessions"


def test_turns_are_counted_if_they_are_asked_for(folder: Path) -> None:
    listed = Sessions([str(folder)])
    assert [one.turns for one in listed.read()] == [None]
    assert [one.turns for one in listed.read(counted=True)] == [2]
    assert [one.turns for one in listed.read()] == [None]


def test_what_cannot_be_listed_is_a_problem_until_it_is_gone(folder: Path) -> None:
    wrong = folder / "wrong.jsonl"
    wrong.write_text("no session\n")
    listed = Sessions([str(folder)])
    assert [one.id for one in listed.read()] == ["one"]
    (problem,) = listed.problems
    assert str(wrong) in problem
    wrong.unlink()
    listed.read()
    assert listed.problems == []


def test_a_newer_session_is_found_by_a_new_list_but_not_at_every_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("sessiontree.web.sessions.time.monotonic", lambda: now)
    listed = Sessions([str(folder)])
    first = listed.named(id_of(str(folder / "one.jsonl")))
    assert first is not None
    assert first.id == "one"
    newer = by_hand(folder / "two.jsonl", "c", id="two")
    now += sessions._LEAST_SECONDS
    assert listed.named(id_of(str(newer))) is None
    now += 0.001
    found = listed.named(id_of(str(newer)))
    assert found is not None
    assert found.id == "two"
    assert listed.named("no-such") is None
