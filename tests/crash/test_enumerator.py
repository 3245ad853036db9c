"""Whatever moment the power fails at, what was acknowledged is there afterwards.

Each story runs on a disk that lists all states a crash may leave after every call
(`crashdisk.py`). In each state the session is opened, checked, written to and
opened again; and the recovery itself is crashed at each of its calls.

The harness is itself tested: disks that forget to sync the data, or the folder,
that rename before the sync, or acknowledge before it, must each be caught.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.errors import FileMissingError, NotASessionError

from .crashdisk import CrashDisk, crash_states

FILE = "/model/chat.jsonl"
COPY = "/model/copy.jsonl"

VERSION_1 = b"".join(
    line + b"\n"
    for line in (
        b'{"type":"session","id":"old","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/p"}',
        b'{"type":"message","message":{"role":"user","content":"one"}}',
        b'{"type":"message","message":{"role":"assistant","content":"two"}}',
        b'{"type":"compaction","summary":"s","firstKeptEntryIndex":2,"tokensBefore":9}',
    )
)


class Story:
    """What a program did on a disk, and what it was told was kept.

    Attributes:
        attempted: the uuids of the entries it tried to write, in order.
    """

    def __init__(self, disk: CrashDisk) -> None:
        self.disk = disk
        self.attempted: list[str] = []
        self._acknowledged: list[tuple[int, str]] = []
        self._created = -1
        self._copied = -1

    def created(self) -> None:
        self._created = self._now()

    def copied(self) -> None:
        self._copied = self._now()

    def _now(self) -> int:
        return len(self.disk.snapshots) - 1

    def write(self, session: Session, *uuids: str) -> None:
        """Append messages with these uuids, in a batch if there are several."""
        self.attempted += uuids
        if len(uuids) == 1:
            session.append("message", message=_said(uuids[0]), uuid=uuids[0])
        else:
            with session.batch():
                for uuid in uuids:
                    session.append("message", message=_said(uuid), uuid=uuid)
        self._acknowledged += [(self._now(), uuid) for uuid in uuids]

    def kept_at(self, moment: int) -> list[str]:
        return [uuid for at, uuid in self._acknowledged if at <= moment]

    def must_exist_at(self, moment: int) -> bool:
        return 0 <= self._created <= moment

    def must_be_copied_at(self, moment: int) -> bool:
        return 0 <= self._copied <= moment


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text * 20}


def _opened(disk: CrashDisk, path: str = FILE, **how: Any) -> Session:
    return Session.open(path, fs=disk, **how)


def _with_entries(disk: CrashDisk) -> Story:
    with Session.create(FILE, cwd="/p", fs=disk) as session:
        story = Story(disk)
        story.created()
        story.write(session, "a")
        story.write(session, "b")
    return story


def create_and_append(make: Callable[..., CrashDisk]) -> Story:
    story = Story(disk := make())
    with Session.create(FILE, cwd="/p", fs=disk) as session:
        story.created()
        for uuid in "abc":
            story.write(session, uuid)
        session.label("b", "here")
        session.branch("a")
        story.write(session, "d")
    return story


def batch(make: Callable[..., CrashDisk]) -> Story:
    story = _with_entries(make())
    with _opened(story.disk) as session:
        story.write(session, "c", "d", "e")
        story.write(session, "f")
    return story


def append_after_torn_end(make: Callable[..., CrashDisk]) -> Story:
    whole = _with_entries(CrashDisk()).disk.files()[FILE]
    story = Story(make({FILE: whole + b'{"type":"message","uu'}))
    story.created()
    with _opened(story.disk) as session:
        story.write(session, "c")
        story.write(session, "d")
    return story


def migrate(make: Callable[..., CrashDisk]) -> Story:
    story = Story(make({FILE: VERSION_1}))
    story.created()
    with _opened(story.disk) as session:
        story.write(session, "c")
    return story


def copy(make: Callable[..., CrashDisk]) -> Story:
    story = _with_entries(make())
    with _opened(story.disk) as session:
        session.fork(COPY)
        story.copied()
        story.write(session, "c")
    return story


def export(make: Callable[..., CrashDisk]) -> Story:
    story = _with_entries(make())
    with _opened(story.disk) as session:
        session.export("b", COPY)
        story.copied()
    return story


def repair(make: Callable[..., CrashDisk]) -> Story:
    whole = _with_entries(CrashDisk()).disk.files()[FILE]
    header, first, second = whole.splitlines()
    damaged = header + b"\r\n\n" + first + second + b'\n{"type":"mess'
    story = Story(make({FILE: damaged}))
    story.created()
    with _opened(story.disk) as session:
        session.repair()
        story.attempted += ["a", "b"]
        story.write(session, "c")
    return story


STORIES = (create_and_append, batch, append_after_torn_end, migrate, copy, export, repair)


def examine(story: Story) -> tuple[int, list[str]]:
    """The number of states looked at, and what went wrong in them."""
    states = 0
    wrong: list[str] = []
    for moment, snapshot in enumerate(story.disk.snapshots):
        for files in crash_states(snapshot):
            states += 1
            try:
                recovered = _recover(story, moment, files)
            except AssertionError as error:
                wrong.append(f"after {snapshot.call}: {error}")
                continue
            if recovered is None:
                continue
            for again in itertools.chain.from_iterable(map(crash_states, recovered.snapshots)):
                states += 1
                try:
                    _check(story, moment, again)
                except AssertionError as error:
                    wrong.append(f"after {snapshot.call}, and a crash in recovery: {error}")
    return states, wrong


def _recover(story: Story, moment: int, files: dict[str, bytes]) -> CrashDisk | None:
    """Open, check, append and open again; the disk on which that was done."""
    if not _check(story, moment, files):
        return None
    disk = CrashDisk(files)
    with _opened(disk) as session:
        before = _uuids(session)
        session.append("message", message=_said("z"), uuid="z")
    with _opened(disk, readonly=True) as session:
        assert _uuids(session) == [*before, "z"], "the entry after the crash is not there"
        assert session.leaf.uuid == "z", "the entry after the crash is not the leaf"
    for path, content in files.items():
        if path == FILE and b'"format"' in content:
            assert disk.files()[path].startswith(content), "bytes of the file were changed"
    return disk


def _check(story: Story, moment: int, files: dict[str, bytes]) -> bool:
    """Assert what was promised of a state; whether there is a session to go on with."""
    disk = CrashDisk(files)
    try:
        with _opened(disk, readonly=True) as session:
            found = [uuid for uuid in _uuids(session) if uuid in story.attempted]
            kept = story.kept_at(moment)
            assert found == [uuid for uuid in story.attempted if uuid in found], "order changed"
            assert not set(kept) - set(found), f"lost {sorted(set(kept) - set(found))}"
            assert disk.files() == files, "reading changed something"
    except FileMissingError as error:
        if story.must_exist_at(moment):
            raise AssertionError(f"the session is gone: {error}") from error
        return False
    except NotASessionError as error:
        raise AssertionError(f"half a session was left: {error}") from error
    if COPY in files:
        with _opened(disk, COPY, readonly=True) as made:
            assert _uuids(made)[1:][:2] in (["a", "b"], ["b"]), "the copy is not whole"
            assert not made.damage
    else:
        assert not story.must_be_copied_at(moment), "the copy is gone"
    return True


def _uuids(session: Session) -> list[str]:
    return [entry.uuid for entry in session.entries()]


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_no_crash_loses_what_was_acknowledged(
    tell: Callable[..., Story], record_property: Callable[[str, object], None]
) -> None:
    states, wrong = examine(tell(CrashDisk))
    record_property("states", states)
    assert states > 50
    assert wrong == []


class NoDataSync(CrashDisk):
    def sync(self, fd: int) -> None:
        pass


class NoFolderSync(CrashDisk):
    def sync_folder(self, path: str) -> None:
        pass


class RenameBeforeSync(CrashDisk):
    """Syncs a new file only after it was given its name."""

    _late: int | None = None

    def sync(self, fd: int) -> None:
        self._late = self._open[fd]

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        if self._late is not None:
            self._durable[self._late] = bytes(self._current[self._late])


class AcknowledgeBeforeSync(CrashDisk):
    """Syncs what was written only when the next write comes."""

    def sync(self, fd: int) -> None:
        pass

    def write(self, fd: int, block: bytes) -> int:
        number = self._open[fd]
        self._durable[number] = bytes(self._current[number])
        return super().write(fd, block)


@pytest.mark.parametrize(
    ("mutant", "tell"),
    [
        (NoDataSync, create_and_append),
        (NoDataSync, batch),
        (NoDataSync, migrate),
        (NoDataSync, repair),
        (NoFolderSync, create_and_append),
        (NoFolderSync, copy),
        (NoFolderSync, export),
        (RenameBeforeSync, create_and_append),
        (RenameBeforeSync, migrate),
        (RenameBeforeSync, copy),
        (AcknowledgeBeforeSync, create_and_append),
        (AcknowledgeBeforeSync, batch),
        (AcknowledgeBeforeSync, append_after_torn_end),
    ],
    ids=lambda part: part.__name__,
)
def test_a_disk_that_cheats_is_caught(
    mutant: Callable[..., CrashDisk], tell: Callable[..., Story]
) -> None:
    _, wrong = examine(tell(mutant))
    assert wrong
