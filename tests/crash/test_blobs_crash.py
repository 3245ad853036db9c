"""A session never names a blob that is missing or wrong, whatever fails and whenever.

The disk lists every state that a crash may leave after each call (`crashdisk.py`).
In each of them: what has a blob's name has its bytes; what `put` said was kept is
there; and every entry that can be read can be read whole. Then each call of the
real disk fails, once and for good (`faultydisk.py`): no half blob has a blob's name,
no line names what was not kept, and the session goes on once the disk is sound.

Disks and writers that cheat on any of this must each be caught.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.core.handle import Blob
from sessiontree.errors import BlobDamagedError, BlobError, SessionNotFoundError, WriteFailedError
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.log import FileLog
from tests.support.children import PATIENCE, running, tell
from tests.support.conversation import user
from tests.support.crashdisk import CrashDisk, crash_states
from tests.support.faultydisk import KINDS, Fault, FaultyDisk, NoLinks, faults
from tests.support.files import Record
from tests.support.table import for_each

FILE = "/model/chat.jsonl"
COPY = "/model/copy.jsonl"
CONTENT = b"a screenshot" * 9
BLOB = Blob(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


def said(uuid: str) -> str:
    return f"what {uuid} said " * 5


class Promises:
    """What a program did to the blobs of a file on a disk, and what it was told.

    Attributes:
        states: the crash states that were looked at.
        only_synced: whether all that was stored was synced. What was not may have a
            blob's name and other bytes after a crash; nobody was told that it is kept.
    """

    def __init__(self, disk: CrashDisk, *, only_synced: bool = True) -> None:
        self.disk = disk
        self.only_synced = only_synced
        self.states = 0
        self._kept: list[tuple[int, str, Blob]] = []

    def put(self, blobs: Blobs, content: bytes | list[bytes]) -> None:
        self.kept(blobs, blobs.put(content))

    def kept(self, blobs: Blobs, blob: Blob) -> None:
        self._kept.append((len(self.disk.snapshots) - 1, blobs.file, blob))

    def broken(self) -> Iterator[str]:
        """Each promise that some crash breaks."""
        for moment, snapshot in enumerate(self.disk.snapshots):
            kept = [(file, blob) for at, file, blob in self._kept if at <= moment]
            for files in crash_states(snapshot):
                self.states += 1
                yield from (f"after {snapshot.call}: {story}" for story in _lost(files, kept))
                if self.only_synced:
                    yield from (f"after {snapshot.call}: {story}" for story in _misnamed(files))


def _misnamed(files: dict[str, bytes]) -> Iterator[str]:
    for path, content in files.items():
        name = os.path.basename(path)
        if re.fullmatch("[0-9a-f]{64}", name) and hashlib.sha256(content).hexdigest() != name:
            yield f"{name:.6} has other bytes than its own"


def _lost(files: dict[str, bytes], kept: list[tuple[str, Blob]]) -> Iterator[str]:
    for file, blob in kept:
        try:
            Blobs(CrashDisk(files), file).read(*blob)
        except BlobError as error:
            yield f"what was kept is lost: {error}"


def put_whole(disk: CrashDisk) -> Promises:
    story = Promises(disk)
    blobs = Blobs(disk, FILE)
    story.put(blobs, CONTENT)
    story.put(blobs, b"another")
    story.put(blobs, CONTENT)
    return story


def put_in_blocks(disk: CrashDisk) -> Promises:
    story = Promises(disk)
    story.put(Blobs(disk, FILE), [CONTENT[:50], CONTENT[50:]])
    story.put(Blobs(disk, FILE), [CONTENT[:10], CONTENT[10:]])
    return story


def put_what_a_program_left_unsynced(disk: CrashDisk) -> Promises:
    """It wrote with the durability `os`, or died before its first sync."""
    story = Promises(disk, only_synced=False)
    Blobs(disk, FILE, "os").put(CONTENT)
    Blobs(disk, FILE, "os").put(b"another")
    story.put(Blobs(disk, FILE), CONTENT)
    story.put(Blobs(disk, FILE), [b"ano", b"ther"])
    return story


def link(disk: CrashDisk) -> Promises:
    """Also blobs that were never synced where they come from."""
    story = Promises(disk, only_synced=False)
    theirs, ours = Blobs(disk, FILE, "os"), Blobs(disk, COPY)
    blobs = [theirs.put(CONTENT), theirs.put(b"another")]
    assert ours.link_from(theirs, blobs) == []
    for blob in blobs:
        story.kept(ours, blob)
    return story


def copy(disk: CrashDisk) -> Promises:
    story = Promises(disk)
    theirs, ours = Blobs(CrashDisk(), FILE), Blobs(disk, COPY)
    blob = theirs.put(CONTENT)
    assert ours.link_from(theirs, [blob]) == []
    story.kept(ours, blob)
    return story


STORIES = (put_whole, put_in_blocks, put_what_a_program_left_unsynced, link, copy)


@for_each("tell", STORIES)
def test_a_blob_that_was_kept_survives_any_crash(
    tell: Callable[[CrashDisk], Promises], record_property: Record
) -> None:
    story = tell(CrashDisk())
    assert list(story.broken()) == []
    record_property("crash states", story.states)


class Interrupted(CrashDisk):
    """Lets another program do something before its nth call."""

    def __init__(self, nth: int, other: Callable[[], object]) -> None:
        super().__init__()
        self._left = nth
        self._other = other

    def __getattribute__(self, name: str) -> Any:
        if name in KINDS and name != "close":
            self._left -= 1
            if self._left == 0:
                self._other()
        return super().__getattribute__(name)


@for_each("content", [CONTENT, [CONTENT[:5], CONTENT[5:]]])
def test_two_programs_that_store_the_same_at_once_both_keep_it(
    content: bytes | list[bytes],
) -> None:
    """One stores it whole before each call of the other."""
    interrupted = 0
    for nth in range(1, 30):
        disk = Interrupted(nth, lambda: story.put(Blobs(disk, FILE), CONTENT))  # noqa: B023
        story = Promises(disk)
        story.put(Blobs(disk, FILE), content)
        assert list(story.broken()) == []
        assert [path for path in disk.files() if path.endswith(".tmp")] == []
        assert not [path for path in disk.files() if "damaged" in path]
        interrupted += disk._left <= 0
    assert interrupted > 8


class Cheating(CrashDisk):
    """A disk whose syncs do not all do what they say."""

    def descriptor_is_of_a_blob(self, fd: int) -> bool:
        paths = [path for path, number in self._names.items() if number == self._open[fd]]
        return any(".blobs/" in path for path in paths)


class NoBlobSync(Cheating):
    def sync(self, fd: int) -> None:
        if not self.descriptor_is_of_a_blob(fd):
            super().sync(fd)


class NoBlobFolderSync(Cheating):
    def sync_folder(self, path: str) -> None:
        if not path.endswith(".blobs"):
            super().sync_folder(path)


class ForgetsTheFolderItself(Cheating):
    """Syncs the names of all files, and not that of the folder of blobs."""

    def sync_folder(self, path: str) -> None:
        unsynced = [change for change in self._changes if change[0] == path + "/"]
        super().sync_folder(path)
        names = [name for name in self._durable_names if name.endswith(".blobs/")]
        if names:
            self._changes += unsynced
            for name in names:
                del self._durable_names[name]


class NamesBeforeTheSync(Cheating):
    """Syncs a file only when its folder is synced."""

    _late: int | None = None

    def sync(self, fd: int) -> None:
        if self.descriptor_is_of_a_blob(fd):
            self._late = self._open[fd]
        else:
            super().sync(fd)

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        if self._late is not None and path.endswith(".blobs"):
            self._durable[self._late] = bytes(self._current[self._late])


CHEATS = (NoBlobSync, NoBlobFolderSync, ForgetsTheFolderItself)


@for_each(
    "cheat, tell",
    [
        *itertools.product(CHEATS, STORIES),
        *itertools.product([NamesBeforeTheSync], [put_whole, put_in_blocks, copy]),
    ],
)
def test_a_disk_that_cheats_with_blobs_is_caught(
    cheat: Callable[[], CrashDisk], tell: Callable[[CrashDisk], Promises]
) -> None:
    assert any(tell(cheat()).broken())


class Talk:
    """A session whose every content string is a blob, and the entries it was told were kept."""

    def __init__(self, disk: CrashDisk) -> None:
        self.disk = disk
        self._kept: list[tuple[int, str]] = []
        self._copied = -1
        self.states = 0

    def append(self, session: Session, uuid: str, text: str | None = None) -> None:
        session.append("message", uuid=uuid, message=_message(text or said(uuid)))
        self.kept(uuid)

    def kept(self, uuid: str) -> None:
        self._kept.append((self._now(), uuid))

    def copied(self) -> None:
        self._copied = self._now()

    def _now(self) -> int:
        return len(self.disk.snapshots) - 1

    def broken(self) -> Iterator[str]:
        for moment, snapshot in enumerate(self.disk.snapshots):
            kept = {uuid for at, uuid in self._kept if at <= moment}
            copied = {"a", "b"} if 0 <= self._copied <= moment else set()
            for files in crash_states(snapshot):
                self.states += 1
                for path, must in ((FILE, kept), (COPY, copied)):
                    story = _incomplete(files, path, must)
                    if story:
                        yield f"after {snapshot.call}: {story}"


def _message(text: str) -> dict[str, Any]:
    return user([{"type": "text", "text": text}])


def _incomplete(files: dict[str, bytes], path: str, must: set[str]) -> str:
    """What is wrong with the session that a crash left."""
    try:
        with Session.open(path, fs=CrashDisk(files), readonly=True) as session:
            texts = {e.uuid: e["message"]["content"][0]["text"] for e in session.path()[1:]}
            session.context(strict=True)
    except SessionNotFoundError as error:
        return str(error) if must else ""
    except BlobError as error:
        return f"an entry is not whole: {error}"
    wrong = [uuid for uuid, text in texts.items() if text not in (said(uuid), said("shared"))]
    return f"wrong {wrong}, lost {must - set(texts)}" if wrong or must - set(texts) else ""


def _started(disk: CrashDisk) -> Session:
    return Session.create(FILE, cwd="/p", fs=disk, spill_over=0)


def appending(disk: CrashDisk) -> Talk:
    talk = Talk(disk)
    with _started(disk) as session:
        for uuid in "abc":
            talk.append(session, uuid)
        talk.append(session, "d", said("shared"))
        talk.append(session, "e", said("shared"))
    return talk


def in_a_batch(disk: CrashDisk) -> Talk:
    talk = Talk(disk)
    with _started(disk) as session:
        with session.batch():
            for uuid in "abc":
                session.append("message", uuid=uuid, message=_message(said(uuid)))
        for uuid in "abc":
            talk.kept(uuid)
    return talk


def forking(disk: CrashDisk) -> Talk:
    talk = Talk(disk)
    with _started(disk) as session:
        talk.append(session, "a")
        talk.append(session, "b")
        session.fork(COPY)
        talk.copied()
    return talk


TALKS = (appending, in_a_batch, forking)


@for_each("tell", TALKS)
def test_no_crash_leaves_an_entry_without_its_blob(
    tell: Callable[[CrashDisk], Talk], record_property: Record
) -> None:
    talk = tell(CrashDisk())
    assert list(talk.broken()) == []
    record_property("crash states", talk.states)
    assert talk.states > 50


@for_each("tell", TALKS)
@for_each("cheat", CHEATS)
def test_a_disk_that_cheats_with_the_blobs_of_a_session_is_caught(
    cheat: Callable[[], CrashDisk], tell: Callable[[CrashDisk], Talk]
) -> None:
    assert any(tell(cheat()).broken())


def test_a_writer_that_writes_the_line_before_the_blob_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = Blobs.put
    late: list[Callable[[], object]] = []

    def put_later(self: Blobs, content: bytes | Iterable[bytes]) -> Blob:
        assert isinstance(content, bytes)
        late.append(functools.partial(put, self, content))
        return Blob(hashlib.sha256(content).hexdigest(), len(content))

    monkeypatch.setattr(Blobs, "put", put_later)
    monkeypatch.setattr(Blobs, "has", lambda self, blob: True)
    disk = CrashDisk()
    talk = Talk(disk)
    with _started(disk) as session:
        session.append("message", uuid="a", message=_message(said("a")))
        for put_now in late:
            put_now()
        talk.kept("a")
    assert any("missing" in story for story in talk.broken())


Operation = Callable[[FaultyDisk, Path], Iterator[None]]
"""What stands before its `yield` runs on a sound disk, what follows on one that fails."""


def store_whole(disk: FaultyDisk, folder: Path) -> Iterator[None]:
    blobs = Blobs(disk, str(folder / "chat.jsonl"))
    yield
    blobs.put(CONTENT)


def store_blocks(disk: FaultyDisk, folder: Path) -> Iterator[None]:
    blobs = Blobs(disk, str(folder / "chat.jsonl"))
    yield
    blobs.put([CONTENT[:9], CONTENT[9:]])


def store_again(disk: FaultyDisk, folder: Path) -> Iterator[None]:
    Blobs(disk, str(folder / "chat.jsonl")).put(CONTENT)
    blobs = Blobs(disk, str(folder / "chat.jsonl"))
    yield
    blobs.put(CONTENT)


def mend(disk: FaultyDisk, folder: Path) -> Iterator[None]:
    blobs = Blobs(disk, str(folder / "chat.jsonl"))
    blobs.put(CONTENT)
    (folder / "chat.jsonl.blobs" / BLOB.sha256).write_bytes(b"damaged")
    yield
    Blobs(disk, str(folder / "chat.jsonl")).put(CONTENT)


def take_along(disk: FaultyDisk, folder: Path) -> Iterator[None]:
    theirs = Blobs(disk, str(folder / "original.jsonl"))
    theirs.put(CONTENT)
    yield
    for error in Blobs(disk, str(folder / "chat.jsonl")).link_from(theirs, [BLOB]):
        raise error


OPERATIONS: tuple[Operation, ...] = (store_whole, store_blocks, store_again, mend, take_along)

SURVIVED = {"close", "unlink"}
"""What may fail without a word: it ends, or tidies up, what is kept by then."""


def _play(operation: Operation, disk: FaultyDisk, folder: Path, fault: Fault | None) -> Any:
    folder.mkdir()
    steps = operation(disk, folder)
    next(steps)
    disk.arm(fault)
    try:
        next(steps, None)
    except SessionTreeError as error:
        return error
    finally:
        disk.heal()
    return None


def _half_made(folder: Path) -> list[str]:
    return [
        path.name
        for path in (folder / "chat.jsonl.blobs").glob("*")
        if len(path.name) == 64 and hashlib.sha256(path.read_bytes()).hexdigest() != path.name
    ]


@for_each("make", [FaultyDisk, NoLinks])
@for_each("operation", OPERATIONS)
def test_no_failing_call_leaves_half_a_blob_or_costs_the_damaged_one(
    operation: Operation, make: Callable[[], FaultyDisk], tmp_path: Path
) -> None:
    disk = make()
    assert _play(operation, disk, tmp_path / "sound", None) is None
    planned = list(faults(disk.counts, (errno.EIO, errno.ENOSPC)))
    assert len(planned) > 10
    for number, fault in enumerate(planned):
        disk = make()
        folder = tmp_path / str(number)
        error = _play(operation, disk, folder, fault)
        story = f"{operation.__name__}, {fault}: {error}"
        assert disk.fired, story
        assert not disk.descriptors, f"left open: {story}"
        assert error is None or (str(folder) in str(error) and "; " in str(error)), story
        if error is None:
            assert fault.is_short or fault.kind in {*SURVIVED, "link"}, story
            assert Blobs(disk, str(folder / "chat.jsonl")).read(*BLOB) == CONTENT, story
        elif operation is not mend:
            assert _half_made(folder) == [], story
        if operation is mend:
            contents = [path.read_bytes() for path in (folder / "chat.jsonl.blobs").iterdir()]
            assert b"damaged" in contents, story
        left = list(folder.glob("*.blobs/*.tmp"))
        assert left == [] or fault.kind == "unlink", story
        assert Blobs(disk, str(folder / "chat.jsonl")).put(CONTENT) == BLOB, story
        assert _half_made(folder) == [], story


@pytest.mark.slow
def test_a_session_goes_on_when_a_blob_could_not_be_stored(tmp_path: Path) -> None:
    """Nothing of it was written, so nothing is in doubt."""
    file = tmp_path / "sound.jsonl"
    disk = FaultyDisk()
    with Session.create(file, fs=disk, spill_over=0) as session:
        disk.arm(None)
        session.append_message(_message(said("a")))
    refused = 0
    for number, fault in enumerate(faults(disk.counts, (errno.EIO, errno.ENOSPC))):
        file = tmp_path / f"{number}.jsonl"
        disk = FaultyDisk()
        with Session.create(file, fs=disk, spill_over=0) as session:
            disk.arm(fault)
            error: SessionTreeError | None = None
            try:
                session.append_message(_message(said("a")))
            except SessionTreeError as raised:
                error = raised
            disk.heal()
            if ".blobs" in disk.fired_for and error is not None:
                refused += 1
                assert not isinstance(error, WriteFailedError), str(fault)
                assert len(list(session.entries())) == 1, str(fault)
            if not isinstance(error, WriteFailedError):
                entry = session.append_message(_message(said("b")))
                assert session.leaf == entry
        with Session.open(file) as session:
            for entry in list(session.entries())[1:]:
                assert entry["message"]["content"][0]["text"] in (said("a"), said("b"))
        assert _half_made(tmp_path) == []
    assert refused > 10


STORING = """
import sys
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import DISK

blobs = Blobs(DISK, sys.argv[1])
sys.stdin.readline()
for n in range(40):
    content = b"%d" % n * 5000
    blobs.put(content if n % 2 else [content[:999], content[999:]])
"""


@pytest.mark.slow
def test_processes_that_store_the_same_blobs_at_once_leave_them_whole(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(running(STORING, file)) for _ in range(4)]
        for child in children:
            tell(child)
        assert [child.wait(PATIENCE) for child in children] == [0] * 4
    names = os.listdir(f"{file}.blobs")
    assert sorted(names) == sorted(hashlib.sha256(b"%d" % n * 5000).hexdigest() for n in range(40))
    assert list(Blobs(FaultyDisk(), str(file)).verify()) == []


def test_a_picked_entry_has_its_blobs_though_they_were_collected_a_moment_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob that nothing names yet goes when somebody else holds the lock."""
    ours = tmp_path / "ours.jsonl"
    with (
        Session.create(tmp_path / "theirs.jsonl", spill_over=0) as theirs,
        Session.create(ours) as session,
    ):
        picked = theirs.append_message(_message(said("a")))
        log = session.reader.log
        assert isinstance(log, FileLog)
        lock = log.lock
        take = lock.take

        def take_after_a_collection() -> None:
            if not lock.depth:
                for blob in session.blobs.blobs():
                    session.blobs.remove(blob.sha256)
            take()

        monkeypatch.setattr(lock, "take", take_after_a_collection)
        entry = session.cherry_pick(picked)
    with Session.open(ours) as session:
        assert session.entry(entry.uuid)["message"] == _message(said("a"))


def test_a_link_planted_in_the_place_of_a_blob_stops_the_append_and_nothing_else(
    tmp_path: Path,
) -> None:
    file = tmp_path / "chat.jsonl"
    secret = tmp_path / "secret"
    secret.write_text(said("a"))
    with Session.create(file, spill_over=0) as session:
        before = file.read_bytes()
        folder = tmp_path / "chat.jsonl.blobs"
        folder.mkdir()
        (folder / hashlib.sha256(said("a").encode()).hexdigest()).symlink_to(secret)
        with pytest.raises(BlobDamagedError, match="symbolic link"):
            session.append_message(_message(said("a")))
        assert file.read_bytes() == before
        session.append_message(_message(said("b")))
