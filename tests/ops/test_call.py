"""What methods share: the lock of a session that is written, and what is told of it."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessiontree import Session, SessionBusyError
from sessiontree.calls.scope import Scope
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.params import Call
from sessiontree.storage import lock
from tests.support.conversation import user
from tests.support.sessions import chat, version_1
from tests.support.table import for_each


class Told(SimpleNamespace):
    """What a call tells, as pairs."""

    def __init__(self) -> None:
        super().__init__(all=[])

    def guidance(self, kind: str, next: str, *more: Any) -> None:
        self.all.append((kind, next))


def call_in(folder: Path, *, write: bool = True) -> tuple[Call, list[tuple[str, str]]]:
    told = Told()
    scope = Scope(str(folder), agents=False, write=write)
    catalog: Any = None
    tell: Any = told
    return Call(scope, tell, threading.Event(), catalog), told.all


def test_a_session_that_is_written_is_locked_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.0)
    file = chat(tmp_path / "s.jsonl", "one")
    call, told = call_in(tmp_path)
    with Session.open(file) as other:
        with call.writing(str(file)), pytest.raises(SessionBusyError):
            other.append_message(user("two"))
        other.append_message(user("two"))
    assert told == []


def test_a_session_is_written_at_the_newest_leaf_of_its_lane(tmp_path: Path) -> None:
    file = chat(tmp_path / "s.jsonl", "one")
    call, told = call_in(tmp_path)
    with call.writing(str(file), "review") as session:
        first = session.append_message(user("on review"))
    with call.writing(str(file), "review") as session:
        assert session.leaf.uuid == first.uuid
    with call.writing(str(file), "main") as session:
        assert session.leaf.parent_uuid == session.header.uuid
    with call.writing(str(file), scratch=True) as session:
        assert str(session.append_message(user("a try")).lane).startswith("scratch/")
    (only,) = told
    assert only == (
        "warning",
        "review is a new lane, and begins at the leaf; branch.lanes lists all",
    )


def test_a_file_of_version_1_is_told_when_it_is_migrated(tmp_path: Path) -> None:
    file = version_1(tmp_path / "s.jsonl", "one")
    call, told = call_in(tmp_path)
    with call.writing(str(file)):
        pass
    assert told == []
    with call.writing(str(file)) as session:
        session.append_message(user("two"))
    assert told == [("warning", f"{file} is of version 2 now; the original is kept as {file}.v1")]
    with call.writing(str(file)) as session:
        session.append_message(user("three"))
    assert len(told) == 1


@for_each(("lines", "more"), [(1, ""), (2, " (2 findings)"), (9, " (9 findings)")])
def test_the_first_damage_and_the_number_of_findings_are_told(
    tmp_path: Path, lines: int, more: str
) -> None:
    file = chat(tmp_path / "s.jsonl", "one")
    with file.open("ab") as out:
        out.write(b"no json\n" * lines)
    call, told = call_in(tmp_path)
    with call.reading(str(file)) as session:
        list(session.entries())
    ((kind, said),) = told
    assert kind == "damage"
    assert said.endswith(f"{more}; health.check tells all")
    assert (" findings)" in said) == bool(more)


def test_without_leave_to_write_nothing_is_opened(tmp_path: Path) -> None:
    call, _ = call_in(tmp_path, write=False)
    with pytest.raises(Refusal), call.writing(str(tmp_path / "no-such.jsonl")):
        pass
