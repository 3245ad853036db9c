"""What the engine may rely on in every log, whatever keeps its bytes.

Each log is one entry of `LOGS`, which makes logs and opens one again as another
program would. A further backend adds its entry and
passes the same tests; what only a file can suffer (a call that fails, a power cut) is
tested on the disk at the end. Memory cannot lose power: it ends with its process.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sessiontree.errors import ReadOnlyError, SessionBusyError, StorageError, WriteFailedError
from sessiontree.storage.fs import CREATE, DISK, Disk
from sessiontree.storage.log import FileLog, Log, Moved
from sessiontree.storage.memory import MemoryFiles
from sessiontree.storage.objects.bucket import Bucket
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.places import place_of
from tests.contracts import (
    LOG_RULES,
    Logs,
    PlaceLogs,
    a_follower_wakes_for_each_writer_and_finds_whole_lines,
    keep_keeps_others_out_until_the_log_is_closed_and_says_who_does,
)
from tests.places.server import server
from tests.support.crashdisk import CrashDisk, crash_states
from tests.support.faultydisk import FULL, SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE, Fault, FaultyDisk
from tests.support.files import Record
from tests.support.soak import amount
from tests.support.table import for_each

HEADER: Final = b'{"type":"session"}\n'
LINE: Final = b'{"type":"message"}\n'
OTHER: Final = b'{"type":"custom!"}\n'
TORN: Final = b'{"type":"mess'
PATIENCE: Final = 20


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def make(self, content: bytes) -> Log:
        path = self._folder / f"{next(self._numbers)}.jsonl"
        path.write_bytes(content)
        return FileLog(DISK, str(path), durability="os")

    def again(self, log: Log) -> Log:
        return FileLog(DISK, log.name, durability="os")


class InMemory:
    def __init__(self, folder: Path) -> None:
        self._files = MemoryFiles()
        self._numbers = itertools.count()

    def make(self, content: bytes) -> Log:
        name = f"{next(self._numbers)}.jsonl"
        self._files.write(self._files.open(name, CREATE), content)
        return FileLog(self._files, name)

    def again(self, log: Log) -> Log:
        return FileLog(self._files, log.name)


def in_postgres(folder: Path) -> Logs:
    return PlaceLogs(place_of(f"{server().address('postgres')}?schema=contract")[0])


def in_objects(folder: Path) -> Logs:
    from obstore.store import MemoryStore

    return PlaceLogs(ObjectPlace(Bucket("s3://contract", MemoryStore())))


SLOW: Final = (
    keep_keeps_others_out_until_the_log_is_closed_and_says_who_does,
    a_follower_wakes_for_each_writer_and_finds_whole_lines,
)

LOGS: Final[dict[str, Callable[[Path], Logs]]] = {
    "file": Files,
    "memory": InMemory,
    "postgres": in_postgres,
    "objects": in_objects,
}


@pytest.fixture(params=LOGS)
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Logs:
    return LOGS[request.param](tmp_path)


@pytest.fixture
def log(logs: Logs) -> Iterator[Log]:
    with contextlib.closing(logs.make(HEADER)) as log:
        yield log


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=pytest.mark.slow) if rule in SLOW else rule for rule in LOG_RULES],
    ids=lambda rule: rule.__name__,
)
def test_a_log_keeps(rule: Callable[[Logs], None], logs: Logs) -> None:
    rule(logs)


def content(log: Log) -> bytes:
    return log.read(0, log.size())


def append(log: Log, block: bytes, at: int) -> int:
    with log.alone():
        return log.append(block, at)


def add(log: Log, block: bytes) -> int:
    """Append at the end, wherever that is by then."""
    while True:
        with contextlib.suppress(Moved):
            return append(log, block, log.size())


def test_a_log_that_is_closed_while_a_thread_waits_to_hold_it_is_not_held(log: Log) -> None:
    begun, held = threading.Event(), threading.Event()

    def wait_to_hold() -> None:
        begun.set()
        with log.hold():
            held.set()

    with ThreadPoolExecutor(1) as pool:
        with log.hold():
            waiting = pool.submit(wait_to_hold)
            begun.wait(PATIENCE)
            time.sleep(0.05)  # until it waits; if it is slower, it finds the log closed
            log.close()
        with pytest.raises(ReadOnlyError, match="is closed"):
            waiting.result(PATIENCE)
    assert not held.is_set()


def _check_refuses(log: Log, error: type[Exception], why: str) -> None:
    def hold() -> None:
        with log.hold():
            pass

    for write in (log.check_writable, hold, lambda: append(log, LINE, len(HEADER))):
        with pytest.raises(error, match=why):
            write()


class _Model(RuleBasedStateMachine):
    """Two programs write to one log; plain bytes say what it holds."""

    backend: str

    @initialize()
    def make(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        logs = LOGS[self.backend](Path(self._folder.name))
        first = logs.make(HEADER)
        self.opened = [first, logs.again(first)]
        self.states = [HEADER]
        self.seen = [0, 0]

    @rule(writer=st.integers(0, 1), lines=st.lists(st.binary(max_size=9), min_size=1, max_size=3))
    def append(self, writer: int, lines: list[bytes]) -> None:
        block = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
        log, known = self.opened[writer], self.states[self.seen[writer]]
        if self.seen[writer] != len(self.states) - 1:
            with pytest.raises(Moved):
                append(log, block, len(known))
            return
        end = known if known.endswith(b"\n") else known + b"\n" if known else b""
        assert append(log, block, len(known)) == len(end)
        self.states[-1] = end + block

    @rule(writer=st.integers(0, 1), by=st.integers(-3, 3).filter(bool))
    def append_elsewhere(self, writer: int, by: int) -> None:
        at = len(self.states[self.seen[writer]]) + by
        with pytest.raises(Moved):
            append(self.opened[writer], LINE, at)

    @rule(
        writer=st.integers(0, 1), content=st.sampled_from([b"", HEADER, HEADER + TORN, HEADER * 2])
    )
    def rewrite(self, writer: int, content: bytes) -> None:
        is_stale = self.seen[writer] != len(self.states) - 1
        if is_stale and self.backend == "objects":  # whose writers may be behind when they hold it
            with pytest.raises(Moved), self.opened[writer].hold():
                self.opened[writer].rewrite(iter([content]))
            return
        with self.opened[writer].hold():
            self.opened[writer].rewrite(iter([content]))
        self.states.append(content)

    @rule(writer=st.integers(0, 1))
    def reopen(self, writer: int) -> None:
        self.opened[writer].reopen()
        self.seen[writer] = len(self.states) - 1

    @invariant()
    def both_read_what_the_model_holds(self) -> None:
        for log, seen in zip(self.opened, self.seen, strict=True):
            assert content(log) == self.states[seen]
            assert log.was_replaced() == (seen != len(self.states) - 1)
            assert log.ends_at(len(self.states[seen])) != log.was_replaced()
        one, other = self.opened
        assert (one.identity == other.identity) == (self.seen[0] == self.seen[1])

    def teardown(self) -> None:
        for log in self.opened:
            log.close()
        self._folder.cleanup()


@for_each("name", list(LOGS))
def test_a_log_holds_what_plain_bytes_would(name: str) -> None:
    run_state_machine_as_test(
        type(name, (_Model,), {"backend": name}),
        settings=settings(max_examples=amount(20), stateful_step_count=15, deadline=None),
    )


def _faulty(tmp_path: Path) -> tuple[FaultyDisk, FileLog]:
    disk = FaultyDisk()
    path = tmp_path / "chat.jsonl"
    path.write_bytes(HEADER)
    return disk, FileLog(disk, str(path))


def test_a_file_is_closed_after_the_write_of_another_thread(tmp_path: Path) -> None:
    _, log = _faulty(tmp_path)
    with ThreadPoolExecutor(1) as threads, contextlib.closing(log):
        beside = log.beside()
        with log.hold():
            waiting = threads.submit(beside.close)
            with pytest.raises(TimeoutError):
                waiting.result(0.05)
            assert not beside.closed
        waiting.result(PATIENCE)


@for_each("short", [SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE])
def test_short_writes_are_continued_until_the_block_is_whole(tmp_path: Path, short: int) -> None:
    disk, log = _faulty(tmp_path)
    with contextlib.closing(log):
        disk.arm(Fault("write", 1, short, stays=True))
        append(log, LINE, len(HEADER))
        assert disk.fired
        assert content(log) == HEADER + LINE


class TakesNothing(Disk):
    """A disk that takes no byte and does not say why."""

    def write(self, fd: int, block: bytes) -> int:
        return 0


def test_a_write_that_takes_nothing_is_a_failed_write(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(HEADER)
    with contextlib.closing(FileLog(TakesNothing(), str(path))) as log:
        with pytest.raises(WriteFailedError, match="the system wrote nothing"):
            append(log, LINE, len(HEADER))
        assert content(log) == HEADER


@for_each(
    "kind, error, left",
    [
        ("write", errno.EIO, b""),
        ("write", FULL, LINE[: len(LINE) // 2]),
        ("sync", errno.EIO, LINE),
        ("size", errno.EIO, LINE),
    ],
)
def test_after_an_unknown_outcome_nothing_is_written_until_reopening_settles_it(
    tmp_path: Path, kind: str, error: int, left: bytes
) -> None:
    disk, log = _faulty(tmp_path)
    append(log, OTHER, len(HEADER))  # the first one makes the lock file
    end = log.size()
    calls = 3 if kind == "size" else 1  # first the lock, then the end, are looked at
    disk.arm(Fault(kind, calls, error, stays=False))
    with pytest.raises(WriteFailedError, match="open the session again"), log.hold():
        append(log, LINE, end)
    assert disk.fired == 1
    disk.after.clear()
    _check_refuses(log, WriteFailedError, "is unknown")
    assert not [call for call, _ in disk.after if call in ("write", "sync")]
    assert content(log) == HEADER + OTHER + left
    log.close()
    disk.heal()
    with contextlib.closing(FileLog(disk, log.path)) as again:
        stop = again.size()
        newline = b"" if left in (b"", LINE) else b"\n"
        assert append(again, LINE, stop) == stop + len(newline)
        assert content(again) == HEADER + OTHER + left + newline + LINE


@for_each("kind", ["open", "lock", "stat"])
def test_a_lock_that_cannot_be_taken_leaves_the_log_writable(tmp_path: Path, kind: str) -> None:
    disk, log = _faulty(tmp_path)
    with contextlib.closing(log):
        disk.arm(Fault(kind, 1, errno.EIO, stays=True))
        with pytest.raises(StorageError, match=r"cannot lock .*; a writer"):
            append(log, LINE, len(HEADER))
        assert content(log) == HEADER
        disk.heal()
        assert append(log, LINE, len(HEADER)) == len(HEADER)


def _appended(disk: CrashDisk, path: str) -> Iterator[bytes]:
    """What a writer is told is kept, after each of its appends."""
    with contextlib.closing(FileLog(disk, path)) as log:
        kept = content(log)
        for block in (LINE, OTHER * 3, b"x" * 50 + b"\n", LINE):
            offset = append(log, block, len(kept))
            kept = kept.ljust(offset, b"\n") + block
            yield kept


def _replaced(disk: CrashDisk, path: str) -> Iterator[bytes]:
    """A writer that replaces the log, twice, and goes on."""
    log = FileLog(disk, path)
    for suffix in ("", ".old"):
        with log.hold():
            log.rewrite(iter([HEADER, OTHER]), suffix)
            log.reopen()
        yield HEADER + OTHER
        append(log, LINE, len(HEADER + OTHER))
        yield HEADER + OTHER + LINE
    log.close()


@for_each("write", [_appended, _replaced])
@for_each("start", [HEADER, HEADER + TORN])
def test_a_power_cut_costs_a_file_nothing_that_an_append_acknowledged(
    write: Callable[[CrashDisk, str], Iterator[bytes]], start: bytes, record_property: Record
) -> None:
    path = "/model/chat.jsonl"
    disk = CrashDisk({path: start})
    promises = [(0, start)]
    promises += [(len(disk.snapshots) - 1, kept) for kept in write(disk, path)]
    states = 0
    for moment, snapshot in enumerate(disk.snapshots):
        before = [kept for at, kept in promises if at <= moment][-1]
        later = [kept for at, kept in promises if at > moment][:1]
        for files in crash_states(snapshot):
            states += 1
            with contextlib.closing(FileLog(CrashDisk(files), path)) as log:
                left = content(log)
                assert left.startswith(before) or left in later, snapshot.call
                offset = append(log, LINE, len(left))
                assert content(log) == left.ljust(offset, b"\n") + LINE
                assert content(log)[:offset].endswith(b"\n")
    record_property("crash states", states)
    assert states > 40


class Interleaved(Disk):
    """A disk on which a program without the lock writes just before a block, once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.foreign = b""

    def write(self, fd: int, block: bytes) -> int:
        if self.foreign:
            self._path.write_bytes(self._path.read_bytes() + self.foreign)
            self.foreign = b""
        return super().write(fd, block)


@for_each("torn", [b"", TORN])
@for_each(
    "foreign, before",
    [(b"\n", 1), (b"x\n", 2), (OTHER, len(OTHER)), (b"x", None), (b"\nx", None)],
)
def test_a_block_behind_what_another_program_appended_is_found_or_refused(
    tmp_path: Path, torn: bytes, foreign: bytes, before: int | None
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER + torn)
    disk = Interleaved(path)
    log = FileLog(disk, str(path))
    disk.foreign = foreign
    end = log.size()
    if before is None and not torn:  # behind a torn line the block starts with a newline
        with pytest.raises(WriteFailedError, match="shares a line with that"):
            log.append(LINE, end)
        with pytest.raises(WriteFailedError, match="shares a line with that"):
            log.append(LINE, log.size())
    else:
        at = log.append(LINE, end)
        assert at == end + len(foreign) + bool(torn)
        assert log.read(at, len(LINE)) == LINE
        assert log.append(LINE, log.size()) == at + len(LINE)
    assert path.read_bytes().startswith(HEADER + torn + foreign)
    log.close()


def test_a_file_that_is_cut_while_it_is_written_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER)

    class Cut(Disk):
        def write(self, fd: int, block: bytes) -> int:
            done = super().write(fd, block)
            path.write_bytes(b"x" * (len(HEADER) + len(block) + 1))
            return done

    log = FileLog(Cut(), str(path))
    with pytest.raises(WriteFailedError, match="is not at its end"):
        log.append(LINE, len(HEADER))
    with pytest.raises(WriteFailedError, match="is not at its end"):
        log.append(LINE, log.size())
    log.close()


def test_a_log_whose_file_cannot_be_looked_at_says_so_and_is_closed(tmp_path: Path) -> None:
    for nth in (1, 2):
        disk, log = _faulty(tmp_path)
        disk.arm(Fault("stat", nth, errno.EIO, stays=False))
        with pytest.raises(StorageError, match=os.strerror(errno.EIO)):
            log.successor()
        assert list(disk.descriptors.values()) == [log.name]
        log.close()
        assert disk.descriptors == {}


@for_each("kind", ["stat", "size"])
def test_an_end_that_cannot_be_looked_at_is_an_error(tmp_path: Path, kind: str) -> None:
    disk, log = _faulty(tmp_path)
    with contextlib.closing(log), log.hold():
        assert log.still_ends_at(log.size())
        disk.arm(Fault(kind, 1, errno.EIO, stays=True))
        asked = log.ends_at if kind == "stat" else log.still_ends_at
        with pytest.raises(StorageError, match="nothing was written"):
            asked(len(HEADER))
        disk.heal()
        assert log.still_ends_at(log.size())


def test_all_that_a_file_opened_is_closed_with_it_and_not_with_a_log_beside_it(
    tmp_path: Path,
) -> None:
    disk, log = _faulty(tmp_path)
    disk.arm()
    beside = log.beside()
    end = log.append(LINE, log.size())
    log.keep()
    beside.close()
    assert f"{log.name}.lock" in disk.descriptors.values()
    with contextlib.closing(FileLog(DISK, log.name)) as other, pytest.raises(SessionBusyError):
        other.append(OTHER, end + len(LINE))
    log.append(OTHER, log.size())
    log.close()
    assert disk.descriptors == {}
