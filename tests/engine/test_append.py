"""An append: what it costs, where the entry goes, and what others wrote before it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, WriteFailedError
from sessiontree.core.entry import Entry
from sessiontree.storage.fs import Disk
from tests.support.faultydisk import FULL, Fault, FaultyDisk
from tests.support.files import HELLO, uuids_at
from tests.support.table import for_each


@for_each("durability, calls", [("fsync", ["write", "sync"]), ("os", ["write"])])
def test_an_append_is_one_write_and_the_sync_that_was_asked_for(
    path: Path, durability: Any, calls: list[str]
) -> None:
    disk = FaultyDisk()
    with Session.open(path, durability=durability, fs=disk) as session:
        disk.arm()
        session.append_message(HELLO)
        assert disk.on(path) == calls
        session.label("@", "here")
        assert disk.on(path) == calls * 2
        session.branch(session.header, summary="s", name="both")
        assert disk.on(path) == calls * 3


@for_each("exclusive", [False, True])
def test_an_append_looks_once_at_the_file_and_once_at_its_lock(path: Path, exclusive: bool) -> None:
    disk = FaultyDisk()
    with Session.open(path, exclusive=exclusive, fs=disk) as session:
        session.append_message(HELLO)
        disk.arm()
        session.append_message(HELLO)
        looks = [file for kind, file in disk.calls if kind == "stat" and file != str(path.parent)]
        assert looks == [f"{path}.lock", str(path)]


ONCE: Final = {"stat": 2, "lock": 1, "write": 1, "sync": 1, "unlock": 1}
WAYS: Final[dict[str, tuple[Callable[[Session], object], int]]] = {
    "message": (lambda s: s.append_message(HELLO), 2),
    "message below": (lambda s: s.append_message(HELLO, parent=s.header), 2),
    "entry": (lambda s: s.append("custom", customType="x"), 2),
    "run": (lambda s: s.writer.append_all([("message", {"message": HELLO})] * 3), 3),
    "annotation": (lambda s: s.rename("n"), 3),
}


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_append_makes_few_calls_of_the_file_system(
    path: Path, way: str, is_watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.log.TRUSTED_SECONDS", 1e9)
    append, sizes = WAYS[way]
    disk = FaultyDisk()
    with Session.open(path, fs=disk, hooks=[Watching()] if is_watched else []) as session:
        session.append_message(HELLO)
        session.rename("before")
        disk.arm()
        append(session)
        calls = Counter(kind for kind, file in disk.calls if file != str(path.parent))
    assert calls == ONCE | {"size": 3 if is_watched else sizes}


class Watching:
    """A hook, with which an entry is written the long way."""

    def after_append(self, session: Session, entry: Entry) -> None:
        pass


@for_each("metadata", [None, {"by": "me"}])
@for_each("lane", ["main", "side"])
def test_an_entry_is_written_alike_with_hooks_in_a_batch_and_plainly(
    path: Path, lane: str, metadata: dict[str, str] | None
) -> None:
    def append(session: Session) -> Entry:
        return session.append_message(HELLO, metadata=metadata)

    with Session.open(path, lane=lane) as session:
        plain = append(session)
        with session.batch():
            batched = append(session)
    with Session.open(path, lane=lane, hooks=[Watching()]) as session:
        hooked = append(session)
        with Session.open(path, readonly=True, lane=lane) as reader:
            stored = [reader.entry(entry.uuid) for entry in (plain, batched, hooked)]
    own = ("uuid", "parentUuid", "timestamp", "crc")
    kept = [[(k, None if k in own else v) for k, v in entry.body.items()] for entry in stored]
    assert kept[0] == kept[1] == kept[2]
    for entry, given in zip(stored, (plain, batched, hooked), strict=True):
        assert (entry.line, entry.offset) == (given.line, given.offset)
    assert [stored[1].parent_uuid, stored[2].parent_uuid] == [plain.uuid, batched.uuid]


def test_a_move_that_changes_nothing_writes_nothing(path: Path) -> None:
    disk = FaultyDisk()
    with Session.open(path, fs=disk) as session:
        disk.arm()
        session.switch("@")
        session.path()
        session.context()
    assert {kind for kind, _ in disk.calls} <= {"open", "read", "size", "stat", "close"}


def test_a_write_cut_short_by_a_full_disk_does_not_cost_other_writers(path: Path) -> None:
    disk = FaultyDisk()
    with Session.open(path) as other, Session.open(path, fs=disk) as session:
        disk.arm(Fault("write", 1, FULL, stays=False))
        with pytest.raises(WriteFailedError, match="No space left"):
            session.append_message(HELLO)
        entry = other.append_message(HELLO)
        assert other.path()[-1] == entry
        assert [found.kind for found in other.damage] == ["torn"]
    assert uuids_at(path)[-1] == entry.uuid


def test_an_entry_that_another_program_left_without_a_newline_keeps_its_place(path: Path) -> None:
    with Session.open(path) as session:
        theirs = session.leaf.line.replace(session.leaf.uuid.encode(), b"theirs")
        theirs = theirs.replace(session.header.uuid.encode(), session.leaf.uuid.encode())
        with path.open("ab") as file:
            file.write(theirs)
        assert session.label(session.leaf, "here").parent_uuid == "theirs"
    with Session.open(path, readonly=True) as session:
        assert session.context().messages == [HELLO, HELLO]


class Barging(Disk):
    """A disk on which a program that knows of no lock appends `bytes`, once, just before we do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = b""

    def write(self, fd: int, block: bytes) -> int:
        with self.path.open("ab") as file:
            file.write(self.bytes)
        self.bytes = b""
        return super().write(fd, block)


THEIRS = b'{"type":"x-theirs","uuid":"theirs","parentUuid":null}\n'


@for_each("unended", [b"", b'{"type":"mess'])
@for_each("theirs", [THEIRS, THEIRS * 2, b'{"torn\n'])
def test_lines_appended_without_the_lock_at_the_same_moment_are_no_damage_to_ours(
    path: Path, theirs: bytes, unended: bytes
) -> None:
    disk = Barging(path)
    with path.open("ab") as file:
        file.write(unended)
    with Session.open(path, fs=disk) as session:
        before = session.leaf
        disk.bytes = theirs
        ours = session.append_message(HELLO)
        after = session.append_message(HELLO)
        assert [ours.parent_uuid, after.parent_uuid] == [before.uuid, ours.uuid]
        assert session.path()[-3:] == [before, ours, after]
        assert session.entry(ours.uuid).line == ours.line
        assert not {damage.kind for damage in session.damage} - {"torn", "json", "missing parent"}
        assert [entry.uuid for entry in session.entries()][-2:] == [ours.uuid, after.uuid]
    assert uuids_at(path)[-2:] == [ours.uuid, after.uuid]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_watched", [False, True])
def test_an_entry_appended_without_the_lock_at_the_same_moment_is_a_conflict(
    path: Path, way: str, is_watched: bool
) -> None:
    disk = Barging(path)
    with Session.open(path, fs=disk, hooks=[Watching()] if is_watched else []) as session:
        session.append_message(HELLO)
        disk.bytes = THEIRS.replace(b"null", f'"{session.header.uuid}"'.encode())
        WAYS[way][0](session)
        assert session.conflict is not None
        assert session.conflict.uuid == "theirs"


def test_a_line_that_ours_was_fused_with_without_the_lock_is_told_at_once(path: Path) -> None:
    disk = Barging(path)
    with Session.open(path, fs=disk) as session:
        disk.bytes = b'{"type":"mess'
        for _ in range(2):
            with pytest.raises(WriteFailedError, match="repair the file, which splits them"):
                session.append_message(HELLO)
    with Session.open(path) as session:
        assert session.repair().remaining == []
    assert len(uuids_at(path)) == 3  # what was written and not acknowledged is there


def test_an_entry_shares_no_line_with_a_file_rewritten_in_place_at_the_same_size(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.log.TRUSTED_SECONDS", 0.0)
    with Session.open(path) as session:
        session.append_message(HELLO)
        with path.open("r+b") as other:
            other.seek(-1, os.SEEK_END)
            other.write(b"x")
        entry = session.append_message(HELLO)
        assert path.read_bytes().endswith(b"x\n" + entry.line + b"\n")
        assert entry.offset == len(path.read_bytes()) - len(entry.line) - 1
    with Session.open(path, readonly=True) as session:
        assert session.leaf == entry
