"""A batch: many entries, one write, one sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, UsageError
from tests.support.conversation import assistant, said, talk, user
from tests.support.faultydisk import FaultyDisk
from tests.support.files import uuids
from tests.support.table import for_each


@for_each("durability, calls", [("fsync", ["write", "sync"]), ("os", ["write"])])
def test_a_batch_is_one_write_and_the_sync(file: Path, durability: Any, calls: list[str]) -> None:
    disk = FaultyDisk()
    with Session.create(file, cwd="/p", durability=durability, fs=disk) as session:
        first = session.append_message(user("p0"))
        disk.arm()
        with session.batch():
            entries = [session.append_message(user(f"p{n + 1}")) for n in range(50)]
            session.append("custom", customType="x", uuid="mine")
            session.append("branch", parent=first)
            side = session.append("custom", customType="y", parent=first.uuid)
            session.append("custom", customType="z", parent=side)
            session.rename("talk")
            session.append("branch_summary", summary="s", fromUuid="mine")
            assert disk.on(file) == []
        assert [disk.counts["lock"], disk.on(file)] == [1, calls]
        assert disk.counts["write"] + disk.counts["sync"] == len(calls)
        with session.batch():
            pass
        assert disk.on(file) == calls
    with Session.open(file, readonly=True) as session:
        assert uuids(session)[2:-6] == [entry.uuid for entry in entries]
        assert len(uuids(session)) == 2 + 50 + 6
        assert said(session.context()) == ["p0", "s"]
        assert session.leaf.parent_uuid == session.find(type="custom")[-1].uuid
        assert session.damage == []


def test_an_entry_in_a_batch_asks_nothing_of_the_disk(file: Path) -> None:
    disk = FaultyDisk()
    with Session.create(file, cwd="/p", fs=disk) as session, session.batch():
        session.append_message(user("p0"))
        disk.arm()
        session.append_message(user("p1"))
        assert disk.calls == []
        disk.heal()


def test_looking_inside_a_batch_sees_what_was_appended(file: Path) -> None:
    with Session.create(file, cwd="/p") as session, session.batch():
        first = session.append_message(user("p1"))
        assert session.leaf == first
        assert said(session.context()) == ["p1"]
        second = session.append_message(assistant("a1"))
        assert session.path() == [session.header, first, second]
        assert session.children(first) == [second]
        assert session.entry(second.uuid[:10]) == second
        assert [entry.offset >= 0 for entry in session.entries()] == [True] * 3
        session.label(second, "x")
        assert session.entry("x") == second
        assert [branch.leaf for branch in session.branches()] == [second.uuid]
        assert len(list(session.tree())) == 4


def test_an_exception_inside_keeps_what_was_appended(file: Path) -> None:
    with Session.create(file, cwd="/p") as session:
        with pytest.raises(UsageError, match="no entry"), session.batch():
            _talk_and_fail(session)
        assert said(session.context()) == ["p1", "a1"]
        talk(session, "p2")
    with Session.open(file, readonly=True) as session:
        assert said(session.context()) == ["p1", "a1", "p2"]


def _talk_and_fail(session: Session) -> None:
    talk(session, "p1", "a1")
    session.entry("nowhere")


def test_a_refusal_inside_as_of_another_batch_does_not_end_the_batch(file: Path) -> None:
    with Session.create(file, cwd="/p") as session:
        with session.batch():
            talk(session, "p1")
            with pytest.raises(UsageError, match="open already"), session.batch():
                pass
            with pytest.raises(UsageError):
                session.append_message(user(float("nan")))
            with pytest.raises(UsageError):
                session.append("custom", customType="x", uuid=session.leaf.uuid)
            talk(session, "p2")
        assert said(session.context()) == ["p1", "p2"]


def test_a_session_closed_inside_a_batch_keeps_what_was_appended(file: Path) -> None:
    session = Session.create(file, cwd="/p")
    with session.batch():
        talk(session, "p1")
        session.close()
    with Session.open(file) as session:
        assert said(session.context()) == ["p1"]
        talk(session, "p2")


def test_a_batch_sees_what_others_wrote_before_it(file: Path) -> None:
    with Session.create(file, cwd="/p") as session, Session.open(file) as other:
        theirs = other.append_message(user("theirs"))
        with session.batch():
            label = session.label(theirs, "x")
            mine = session.append_message(user("mine"))
        assert label.parent_uuid == theirs.uuid
        assert mine.parent_uuid == session.header.uuid
    with Session.open(file, readonly=True) as reader:
        assert reader.damage == []
        assert said(reader.context()) == ["mine"]


def test_a_locked_session_is_at_the_leaf_in_the_file(file: Path) -> None:
    with Session.create(file, cwd="/p") as session, Session.open(file) as other:
        theirs = other.append_message(user("theirs"))
        with session.locked():
            assert session.leaf == theirs
            mine = session.append_message(assistant("mine"))
        assert mine.parent_uuid == theirs.uuid
        assert said(session.context()) == ["theirs", "mine"]


def test_the_entries_of_a_batch_know_their_places_in_the_file(file: Path) -> None:
    with Session.create(file) as session:
        with session.batch():
            batch = [session.append_message({"role": "user", "content": "x"}) for _ in range(3)]
        content = file.read_bytes()
        assert [content[entry.offset :].startswith(entry.line) for entry in batch] == [True] * 3


def test_a_refresh_within_a_batch_reads_nothing_of_others(file: Path) -> None:
    with Session.create(file) as session, Session.open(file) as other:
        with session.batch():
            mine = session.append_message(user("mine"))
            session.refresh()
            assert session.leaf == mine
            assert uuids(session) == [session.header.uuid, mine.uuid]
        other.refresh()
        theirs = other.append_message(user("theirs"))
        session.refresh()
        assert (session.leaf, uuids(session)[-1]) == (mine, theirs.uuid)
