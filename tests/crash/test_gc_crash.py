"""Whatever moment the power fails at in gc, each entry is in the session or in the archive.

The disk lists every state that a crash may leave after each call (`crashdisk.py`).
A gc that takes out before it has archived, or does not sync, must be caught.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.core.handle import Handle
from sessiontree.engine import gc
from sessiontree.errors import BlobError, BlobMissingError
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.log import FileLog
from tests.support.conversation import user
from tests.support.crashdisk import CrashDisk, crash_states
from tests.support.faultydisk import KINDS, Fault, FaultyDisk
from tests.support.table import for_each

FILE = "/model/chat.jsonl"
LATER = datetime.now(UTC) + timedelta(days=8)
MUCH_LATER = LATER + timedelta(days=40)


def said(text: str) -> dict[str, str]:
    return user(text * 30)


def with_garbage(fs: FileSystem, file: str = FILE) -> tuple[list[bytes], list[bytes]]:
    """A session in which something was tried; the lines that last, and those that do not."""
    with Session.create(file, cwd="/p", fs=fs, spill_over=40) as main:
        lasting = [main.header, main.append_message(said("p1"))]
        with main.scratch() as trial:
            gone = [trial.append_message(said("tried")), trial.append_message(said("p1"))]
        with main.scratch() as trial:
            kept = trial.append_message(said("kept"))
            lasting += [kept, trial.keep()]
        lasting.append(main.append_message(said("p2")))
    return [entry.line for entry in lasting], [entry.line for entry in gone]


def collected(fs: FileSystem, file: str = FILE) -> None:
    for moment in (LATER, LATER, MUCH_LATER):
        with Session.open(file, fs=fs) as main:
            main.gc(now=moment)


def wrong_in(
    files: dict[str, bytes], lasting: list[bytes], gone: list[bytes], over: bool
) -> Iterator[str]:
    lines = files[FILE].splitlines()
    if [line for line in lines if line in lasting] != lasting:
        yield "an entry that lasts is gone"
    archives = [path for path in files if ".archive-" in path and not path.endswith(".tmp")]
    archived = b"\n".join(files[path] for path in archives)
    for line in gone:
        if line not in lines and line not in archived and not over:
            yield "an entry is neither in the session nor in the archive"
        if archived.count(line) > 1:
            yield "an entry was archived twice"
    with Session.open(FILE, fs=CrashDisk(files), readonly=True) as session:
        try:
            for entry in session.entries():
                dict(entry.body)
        except BlobError as error:
            yield f"a blob that an entry needs is gone: {error}"
        if session.verify():
            yield "the session is damaged"


def examine(disk: CrashDisk, lasting: list[bytes], gone: list[bytes]) -> tuple[int, set[str]]:
    """The states that were looked at, and what was wrong in them."""
    wrong: set[str] = set()
    states = 0
    over = False
    for snapshot in disk.snapshots:
        over = over or (snapshot.call.startswith("unlink") and ".archive-" in snapshot.call)
        for files in crash_states(snapshot):
            states += 1
            wrong.update(wrong_in(files, lasting, gone, over))
    return states, wrong


def test_no_crash_in_a_collection_loses_an_entry_or_a_blob_that_lasts() -> None:
    before = CrashDisk()
    lasting, gone = with_garbage(before)
    disk = CrashDisk(before.files())
    collected(disk)
    states, wrong = examine(disk, lasting, gone)
    assert states > 80
    assert wrong == set()
    left = disk.files()
    assert [path for path in left if "archive" in path] == []
    assert left[FILE].splitlines() == lasting
    assert len([path for path in left if len(os.path.basename(path)) == 64]) == 3


def test_a_collection_after_a_crash_in_one_ends_where_it_would_have() -> None:
    before = CrashDisk()
    lasting, gone = with_garbage(before)
    disk = CrashDisk(before.files())
    with Session.open(FILE, fs=disk) as main:
        main.gc(now=LATER)
    seen: set[frozenset[str]] = set()
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            again = CrashDisk(files)
            with Session.open(FILE, fs=again) as main:
                main.gc(now=LATER)
            assert set(wrong_in(again.files(), lasting, gone, over=False)) == set()
            assert again.files()[FILE].splitlines() == lasting
            seen.add(frozenset(files))
    assert len(seen) > 3


Mutant = Callable[[pytest.MonkeyPatch], None]


def replaces_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries leave the session before they are in the archive."""
    later: list[Callable[[], None]] = []
    archive = gc._archive

    def late(*args: object) -> None:
        later.append(lambda: archive(*args))  # type: ignore[arg-type]

    rewrite = FileLog.rewrite

    def rewritten(log: FileLog, lines: Iterator[bytes], kept_as: str = "") -> str:
        name = rewrite(log, lines, kept_as)
        while later:
            later.pop()()
        return name

    monkeypatch.setattr(gc, "_archive", late)
    monkeypatch.setattr(FileLog, "rewrite", rewritten)


def forgets_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrashDisk, "sync_folder", lambda self, path: None)


def forgets_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CrashDisk, "sync", lambda self, fd: None)


@pytest.mark.slow
@for_each("mutant", [replaces_first, forgets_the_folder, forgets_the_bytes])
def test_a_collection_that_cheats_is_caught(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CrashDisk()
    lasting, gone = with_garbage(before)
    disk = CrashDisk(before.files())
    mutant(monkeypatch)
    with Session.open(FILE, fs=disk) as main:
        main.gc(now=LATER)
    monkeypatch.undo()
    found = False
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            try:
                found = found or any(wrong_in(files, lasting, gone, over=False))
            except Exception:
                found = True  # not even to be opened
    assert found


class Raced(CrashDisk):
    """Lets another program collect before its nth call, or as soon as the lock is free then."""

    def __init__(self) -> None:
        super().__init__()
        self.due = 0
        self._held = False

    def __getattribute__(self, name: str) -> Any:
        if name in KINDS or name in ("lock", "stat"):
            if self.due > 1:
                self.due -= 1
            elif self.due and not self._held:
                self.due = 0
                with Session.open(FILE, fs=self) as other:
                    other.gc(now=LATER)
        return super().__getattribute__(name)

    def lock(self, fd: int) -> bool:
        self._held = True
        return True

    def unlock(self, fd: int) -> None:
        self._held = False


def append_an_old_blob(nth: int) -> tuple[bool, Raced, bool]:
    """Point to a blob that nothing named so far, as another program collects.

    Returns:
        Whether it was appended, the disk, and whether the other came to it.
    """
    disk = Raced()
    with Session.create(FILE, cwd="/p", fs=disk) as session:
        handle = Handle.blob(*session.blobs.put(b"a screenshot"), "image/png")
    with contextlib.suppress(BlobMissingError), Session.open(FILE, fs=disk) as session:
        disk.due = nth
        session.append_handle(handle)
    return b'"handle"' in disk.files()[FILE], disk, not disk.due


def is_whole(disk: Raced) -> bool:
    with Session.open(FILE, fs=disk) as session:
        session.gc(now=LATER)
        return session.verify() == []


@pytest.mark.slow
def test_a_handle_of_a_blob_that_gc_takes_at_the_same_time_is_refused_or_has_its_blob() -> None:
    ended = set()
    for nth in range(1, 40):
        appended, disk, was_raced = append_an_old_blob(nth)
        assert is_whole(disk)
        ended.add((appended, was_raced))
    assert ended == {(False, True), (True, True), (True, False)}


@pytest.mark.slow
def test_a_fork_made_as_gc_runs_has_all_its_entries_and_blobs() -> None:
    """From a trial that gc is taking out at that moment, its blobs as old as it is."""
    raced = 0
    for nth in range(1, 80):
        disk = Raced()
        with Session.create(FILE, cwd="/p", fs=disk, spill_over=40) as main:
            main.append_message(said("p1"))
            with main.scratch() as trial:
                tried = [trial.append_message(said("tried")), trial.append_message(said("again"))]
        with Session.open(FILE, fs=disk, readonly=True) as session:
            disk.due = nth
            session.fork("/model/copy.jsonl", at=tried[-1].uuid)
            raced += not disk.due
        with Session.open("/model/copy.jsonl", fs=disk) as copy:
            assert [entry.line for entry in copy.path()[2:4]] == [entry.line for entry in tried]
            copy.gc(now=MUCH_LATER)
            assert copy.verify() == []
            assert copy.context(strict=True).messages[-1] == said("again")
        assert is_whole(disk)
    assert raced > 20


def test_a_handle_that_is_appended_without_a_look_under_the_lock_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Blobs, "has", lambda self, blob: True)
    assert not all(is_whole(append_an_old_blob(nth)[1]) for nth in range(1, 40))


@pytest.mark.slow
@for_each("stays", [False, True])
@for_each("kind", KINDS)
def test_no_failing_call_in_a_collection_loses_anything(
    tmp_path: Path, kind: str, stays: bool
) -> None:
    nth = 0
    while True:
        nth += 1
        file = str(tmp_path / f"{nth}.jsonl")
        disk = FaultyDisk()
        lasting, gone = with_garbage(disk, file)
        disk.arm(Fault(kind, nth, errno.EIO, stays))
        with contextlib.suppress(SessionTreeError), Session.open(file, fs=disk) as main:
            main.gc(now=LATER)
        files = {str(path): path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        lines = files[file].splitlines()
        assert [line for line in lines if line in lasting] == lasting
        archived = b"".join(v for k, v in files.items() if k.startswith(f"{file}.archive-"))
        assert all(line in lines or line in archived for line in gone)
        disk.heal()
        with Session.open(file) as main:
            main.gc(now=LATER)
            assert [entry.line for entry in main.entries()] == lasting
        if not disk.fired:
            break
