"""Whatever moment the power fails at, what was acknowledged is there afterwards.

Each story runs on a disk that lists all states a crash may leave after every call
(`crashdisk.py`). In each state the session is opened, checked, written to and
opened again; and the recovery itself is crashed at each of its calls.

The harness is itself tested: disks that rename before the sync, or acknowledge before
it, must each be caught, and so must one that leaves out any single sync, of a file or
of a folder.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from sessiontree import Entry, Session
from sessiontree.errors import NotASessionError, SessionNotFoundError
from tests.support.conversation import user
from tests.support.crashdisk import CrashDisk, crash_states
from tests.support.files import VERSION_1, Record, uuids
from tests.support.soak import in_soak
from tests.support.table import for_each

FILE = "/model/chat.jsonl"
COPY = "/model/copy.jsonl"

COMPACTED_1 = VERSION_1 + (
    b'{"type":"compaction","summary":"s","firstKeptEntryIndex":2,"tokensBefore":9}\n'
)


class Story:
    """What a program did on a disk, and what it was told was kept.

    Attributes:
        attempted: the uuids of the entries it tried to write, in order.
        original: the file it began with, which must be found afterwards, whole.
    """

    def __init__(self, disk: CrashDisk, original: bytes = b"") -> None:
        self.disk = disk
        self.original = original
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

    def write(self, session: Session, *names: str) -> None:
        """Append messages with these uuids, in a batch if there are several."""
        self.attempted += names
        with session.batch() if len(names) > 1 else contextlib.nullcontext():
            for uuid in names:
                session.append("message", message=_said(uuid), uuid=uuid)
        self._acknowledged += [(self._now(), uuid) for uuid in names]

    def wrote(self, entry: Entry) -> None:
        """Take note of an entry that was written otherwise."""
        self.attempted.append(entry.uuid)
        self._acknowledged.append((self._now(), entry.uuid))

    def check(self, look: Look, files: dict[str, bytes], moment: int) -> None:
        """Assert what was promised by a moment, of what a crash left then."""
        assert not look.wrong, look.wrong
        is_kept = any(content.startswith(self.original) for content in files.values())
        assert is_kept or not self.original, "the original is gone"
        if look.uuids is None:
            assert not 0 <= self._created <= moment, "the session is gone"
            return
        found = [uuid for uuid in look.uuids if uuid in self.attempted]
        lost = {uuid for at, uuid in self._acknowledged if at <= moment} - set(found)
        assert not lost, f"lost {sorted(lost)}"
        assert found == [uuid for uuid in self.attempted if uuid in found], "order changed"
        if look.copied is None:
            assert not 0 <= self._copied <= moment, "the copy is gone"
        else:
            assert look.copied[1:][:2] in (["a", "b"], ["b"]), "the copy is not whole"


def _said(text: str) -> dict[str, Any]:
    return user(text * 20)


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
        story.wrote(session.label("b", "here"))
        story.wrote(session.branch("a"))
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
    torn = whole + b'{"type":"message","uu'
    story = Story(make({FILE: torn}), torn)
    story.created()
    with _opened(story.disk) as session:
        story.write(session, "c")
        story.write(session, "d")
    return story


def migrate(make: Callable[..., CrashDisk]) -> Story:
    story = Story(make({FILE: COMPACTED_1}), COMPACTED_1)
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
        session.export_branch("b", COPY)
        story.copied()
    return story


def repair(make: Callable[..., CrashDisk]) -> Story:
    whole = _with_entries(CrashDisk()).disk.files()[FILE]
    header, first, second = whole.splitlines()
    damaged = header + b"\r\n\n" + first + second + b'\n{"type":"mess'
    story = Story(make({FILE: damaged}), damaged)
    story.created()
    with _opened(story.disk) as session:
        session.repair()
        story.attempted += ["a", "b"]
        story.write(session, "c")
    return story


STORIES = (create_and_append, batch, append_after_torn_end, migrate, copy, export, repair)


class Look(NamedTuple):
    """What reading a set of files shows, whatever was promised of them.

    Attributes:
        uuids: the entries that can be read; None where there is no session.
        copied: those of the copy; None where there is none.
        wrong: what no crash may leave, in words.
    """

    uuids: list[str] | None
    copied: list[str] | None
    wrong: str = ""


def look_at(files: dict[str, bytes]) -> Look:
    disk = CrashDisk(files)
    found = copied = None
    try:
        with contextlib.suppress(SessionNotFoundError), _opened(disk, readonly=True) as session:
            found = uuids(session)
        if COPY in files:
            with _opened(disk, COPY, readonly=True) as made:
                copied = uuids(made)
                assert not made.damage, f"the copy is damaged: {made.damage[0]}"
        assert disk.files() == files, "reading changed something"
    except NotASessionError as error:
        return Look(found, copied, f"half a session was left: {error}")
    except AssertionError as error:
        return Look(found, copied, str(error))
    return Look(found, copied)


def recover(files: dict[str, bytes]) -> tuple[CrashDisk, str]:
    """Append, open again, and repair; the disk on which that was done, and what went wrong."""
    disk = CrashDisk(files)
    try:
        with _opened(disk) as session:
            before = uuids(session)
            session.append("message", message=_said("z"), uuid="z")
        with _opened(disk, readonly=True) as session:
            assert uuids(session) == [*before, "z"], "the entry after the crash is not there"
            assert session.leaf.uuid == "z", "the entry after the crash is not the leaf"
        if b'"format"' in files[FILE]:
            assert disk.files()[FILE].startswith(files[FILE]), "bytes of the file were changed"
        with _opened(disk) as session:
            left = session.repair().evidence
            assert [uuid for uuid in uuids(session) if uuid in [*before, "z"]] == [*before, "z"]
            assert not session.repair().mended, "a second repair found something to do"
        if left:
            assert not _beside(disk.files()), "what was left beside is there still"
    except AssertionError as error:
        return disk, str(error)
    return disk, ""


class Examination:
    """Checks every state that a crash may leave of a story, and of the recovery from it.

    Files of the same content are opened once, whenever they come about; what was
    promised by then is asked of each state. A file written beside has a random name,
    which makes no other state.

    Attributes:
        states: how many were checked, counted at each moment they may come about.
    """

    def __init__(self, story: Story) -> None:
        self.states = 0
        self._story = story
        self._seen: set[State] = set()
        self._looks: dict[tuple[bytes | None, ...], Look] = {}
        self._recovered: dict[State, tuple[list[dict[str, bytes]], str]] = {}

    @property
    def distinct(self) -> int:
        """How many of the states differ in content."""
        return len(self._seen)

    def wrong(self) -> Iterator[str]:
        """What is wrong in them, as it is found."""
        for moment, snapshot in enumerate(self._story.disk.snapshots):
            for files in crash_states(snapshot):
                yield from self._wrong_in(files, moment, f"after {snapshot.call}")

    def _wrong_in(self, files: dict[str, bytes], moment: int, when: str) -> Iterator[str]:
        look, wrong = self._judged(files, moment)
        if wrong:
            yield f"{when}: {wrong}"
        if wrong or look.uuids is None:
            return
        again, wrong = self._recover(files)
        if wrong:
            yield f"{when}, in recovery: {wrong}"
        for left in again:
            _, wrong = self._judged(left, moment)
            if wrong:
                yield f"{when}, and a crash in recovery: {wrong}"

    def _judged(self, files: dict[str, bytes], moment: int) -> tuple[Look, str]:
        self.states += 1
        self._seen.add(_state(files))
        read = files.get(FILE), files.get(COPY)
        look = self._looks.get(read)
        if look is None:
            look = self._looks[read] = look_at(files)
        try:
            self._story.check(look, files, moment)
        except AssertionError as error:
            return look, str(error)
        return look, ""

    def _recover(self, files: dict[str, bytes]) -> tuple[list[dict[str, bytes]], str]:
        """The states that a crash in recovery may leave, and what went wrong without one."""
        state = _state(files)
        if state not in self._recovered:
            disk, wrong = recover(files)
            again: dict[State, dict[str, bytes]] = {}
            for left in itertools.chain.from_iterable(map(crash_states, disk.snapshots)):
                again.setdefault(_state(left), left)
            self._recovered[state] = list(again.values()), wrong
        return self._recovered[state]


State = frozenset[tuple[str, bytes]]


def _state(files: dict[str, bytes]) -> State:
    return frozenset((_BESIDE.sub(".tmp", path), content) for path, content in files.items())


def _beside(files: dict[str, bytes]) -> list[str]:
    return [path for path in files if path.startswith(FILE) and _BESIDE.search(path)]


_BESIDE = re.compile(r"\.[0-9]+-[0-9a-f]+\.tmp\Z")


@pytest.fixture(autouse=True)
def _clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the same crash leaves the same bytes."""
    monkeypatch.setattr("sessiontree.engine.writer.now", lambda: "2026-01-01T00:00:00.000Z")


@pytest.mark.slow
@for_each("tell", STORIES)
def test_no_crash_loses_what_was_acknowledged(
    tell: Callable[..., Story], record_property: Record
) -> None:
    examination = Examination(tell(CrashDisk))
    assert list(examination.wrong()) == []
    assert examination.distinct > 1000
    record_property("crash states", examination.states)
    record_property("distinct crash states", examination.distinct)


class RenameBeforeSync(CrashDisk):
    """Syncs a new file only after it was given its name."""

    _late: int | None = None

    def sync(self, fd: int) -> None:
        if self._is_beside(fd):
            self._late = self._open[fd]
        else:
            super().sync(fd)

    def _is_beside(self, fd: int) -> bool:
        return any(
            path.endswith(".tmp") and number == self._open[fd]
            for path, number in self._names.items()
        )

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._sync_late(source)

    def replace(self, source: str, target: str) -> None:
        super().replace(source, target)
        self._sync_late(target)

    def _sync_late(self, path: str) -> None:
        number = self._names[path]
        if number == self._late:
            self._durable[number] = bytes(self._current[number])
            self._note("sync")


class AcknowledgeBeforeSync(CrashDisk):
    """Syncs what was appended only when the next call to the disk comes."""

    _late: tuple[int, bytes] | None = None

    def sync(self, fd: int) -> None:
        number = self._open[fd]
        self._late = number, bytes(self._current[number])

    def _note(self, call: str) -> None:
        if self._late is not None:
            number, synced = self._late
            self._durable[number] = synced
            self._late = None
        super()._note(call)


HALF = "after %s .* half a session"
CAUGHT = (
    *((RenameBeforeSync, tell, HALF % "link") for tell in (create_and_append, batch, copy, export)),
    *((RenameBeforeSync, tell, HALF % "replace") for tell in (migrate, repair)),
    (AcknowledgeBeforeSync, create_and_append, r"lost \['a'\]"),
    (AcknowledgeBeforeSync, batch, r"lost \['c', 'd', 'e'\]"),
    (AcknowledgeBeforeSync, append_after_torn_end, r"lost \['c'\]"),
    *((AcknowledgeBeforeSync, tell, r"lost \['c'\]") for tell in (migrate, copy, repair)),
)
"""How each disk that cheats is found out, in each story in which it matters."""


@pytest.mark.slow
@for_each("mutant, tell, how", CAUGHT)
def test_a_disk_that_cheats_is_caught(
    mutant: Callable[..., CrashDisk], tell: Callable[..., Story], how: str
) -> None:
    found = Examination(tell(mutant)).wrong()
    assert any(re.search(how, wrong) for wrong in found), "was not found out"


class Forgetful(CrashDisk):
    """Leaves out one sync, of a file or of a folder."""

    def __init__(self, left_out: int, files: dict[str, bytes] | None = None) -> None:
        self.syncs_left = left_out
        super().__init__(files)

    def _is_left_out(self) -> bool:
        self.syncs_left -= 1
        return self.syncs_left == 0

    def sync(self, fd: int) -> None:
        if not self._is_left_out():
            super().sync(fd)

    def sync_folder(self, path: str) -> None:
        if not self._is_left_out():
            super().sync_folder(path)


@pytest.mark.slow
@in_soak("stories", STORIES[::6], STORIES)
def test_no_sync_could_be_left_out(stories: Sequence[Callable[..., Story]]) -> None:
    for tell in stories:
        left_out = itertools.count(1)
        while True:
            story = tell(functools.partial(Forgetful, number := next(left_out)))
            assert isinstance(story.disk, Forgetful)
            if story.disk.syncs_left > 0:
                break
            assert next(Examination(story).wrong(), None), f"{tell}: sync {number} does nothing"
        assert number > 2
