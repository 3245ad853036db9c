"""What the engine may rely on in every log, whatever keeps its bytes.

Each log is one entry of `LOGS`: a class that makes logs, opens one again as another
program would, and says what others can reach it. A further backend adds its entry and
passes the same tests; what only a file can suffer (a call that fails, a power cut) is
tested on `FileLog` at the end. `MemoryLog` cannot lose power: it ends with its process,
so the crash states are those of `FileLog` alone.
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
from typing import Final, Protocol

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

from sessiontree.errors import (
    ReadOnlyError,
    SessionBusyError,
    SessionExistsError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.fs import DISK, Disk
from sessiontree.storage.log import FileLog, Log, MemoryLog, Moved
from tests.support.crashdisk import CrashDisk, crash_states
from tests.support.faultydisk import FULL, SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE, Fault, FaultyDisk
from tests.support.files import Record

HEADER: Final = b'{"type":"session"}\n'
LINE: Final = b'{"type":"message"}\n'
OTHER: Final = b'{"type":"custom!"}\n'
TORN: Final = b'{"type":"mess'
PATIENCE: Final = 20


class Backend(Protocol):
    """What the tests need to know of one kind of log.

    Attributes:
        is_shared: whether other processes can open its logs.
    """

    is_shared: bool

    def __init__(self, folder: Path) -> None: ...

    def make(self, content: bytes) -> Log:
        """A log with this content, open to write."""

    def again(self, log: Log) -> Log:
        """The same log, opened as another program would."""


class Files:
    is_shared = True

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
    is_shared = False

    def __init__(self, folder: Path) -> None:
        pass

    def make(self, content: bytes) -> Log:
        return MemoryLog("memory", [content])

    def again(self, log: Log) -> Log:
        return log.beside()


LOGS: Final[dict[str, type[Backend]]] = {"file": Files, "memory": InMemory}


@pytest.fixture(params=LOGS)
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return LOGS[request.param](tmp_path)


@pytest.fixture
def log(logs: Backend) -> Iterator[Log]:
    with contextlib.closing(logs.make(HEADER)) as log:
        yield log


@pytest.fixture
def other(logs: Backend, log: Log) -> Iterator[Log]:
    """The same log in another program."""
    with contextlib.closing(logs.again(log)) as other:
        yield other


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


def test_append_returns_the_offset_at_which_the_block_reads_back(log: Log, other: Log) -> None:
    first = append(log, LINE, len(HEADER))
    second = append(log, OTHER * 2, first + len(LINE))
    assert (first, second) == (len(HEADER), len(HEADER + LINE))
    assert log.read(first, len(LINE)) == LINE
    assert log.read(second, 10_000) == OTHER * 2
    assert log.read(log.size(), 1) == b""
    assert log.size() == log.written == len(HEADER + LINE + OTHER * 2)
    assert content(other) == content(log) == HEADER + LINE + OTHER * 2


@pytest.mark.parametrize("distance", [-1, 1, -len(HEADER)])
def test_append_off_the_end_raises_moved_and_writes_nothing(log: Log, distance: int) -> None:
    for outer in (contextlib.nullcontext, log.hold):
        with outer(), pytest.raises(Moved):
            append(log, LINE, len(HEADER) + distance)
    assert content(log) == HEADER


def test_append_to_a_replaced_log_of_the_same_size_raises_moved(log: Log, other: Log) -> None:
    append(log, LINE, len(HEADER))
    with other.hold():
        other.rewrite(iter([HEADER, OTHER]))
    before = content(log)
    with pytest.raises(Moved):
        append(log, LINE, log.size())
    assert content(log) == before == HEADER + LINE
    log.reopen()
    assert content(log) == HEADER + OTHER


def test_a_torn_end_is_ended_before_the_block(logs: Backend) -> None:
    with contextlib.closing(logs.make(HEADER + TORN)) as log:
        offset = append(log, LINE, len(HEADER + TORN))
        assert offset == len(HEADER + TORN) + 1
        assert log.read(offset, len(LINE)) == LINE
        append(log, LINE, offset + len(LINE))
        assert content(log) == HEADER + TORN + b"\n" + LINE + LINE


@pytest.mark.parametrize("holding", [False, True])
@pytest.mark.parametrize("opened", ["shared", "beside", "again"])
def test_writers_at_once_lose_nothing_and_never_overlap(
    logs: Backend, log: Log, opened: str, holding: bool
) -> None:
    ways: dict[str, Callable[[], Log]] = {
        "shared": lambda: log,
        "beside": log.beside,
        "again": lambda: logs.again(log),
    }
    start = threading.Barrier(3)

    def write(writer: int) -> list[tuple[int, bytes]]:
        mine = ways[opened]()
        blocks = [b"%d-%d\n" % (writer, number) * (number % 3 + 1) for number in range(25)]
        start.wait(PATIENCE)
        try:
            return [(one(mine, block), block) for block in blocks]
        finally:
            if mine is not log:
                mine.close()

    def one(mine: Log, block: bytes) -> int:
        if not holding:
            return add(mine, block)
        with mine.hold():
            return append(mine, block, mine.size())

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(write, range(3)))
    assert all(offsets == sorted(offsets) for offsets in found)
    written = sorted(itertools.chain.from_iterable(found))
    assert content(log) == HEADER + b"".join(block for _, block in written)
    assert all(log.read(offset, len(block)) == block for offset, block in written)


def test_hold_keeps_other_writers_out_and_a_thread_may_hold_again(log: Log, other: Log) -> None:
    with ThreadPoolExecutor(1) as threads, log.hold():
        waiting = threads.submit(add, other, OTHER)
        with log.hold():
            end = append(log, LINE, log.size()) + len(LINE)
        with pytest.raises(TimeoutError):
            waiting.result(0.05)
        assert log.ends_at(end)
        assert append(log, LINE, end) == end
    assert waiting.result(PATIENCE) == end + len(LINE)
    assert content(log) == HEADER + LINE + LINE + OTHER


def test_hold_lets_go_after_an_error(log: Log, other: Log) -> None:
    with pytest.raises(ZeroDivisionError), log.hold(), log.hold():
        raise ZeroDivisionError
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(add, other, LINE).result(PATIENCE) == len(HEADER)


@pytest.mark.slow
def test_keep_keeps_others_out_until_the_log_is_closed_and_says_who_does(
    logs: Backend, log: Log, other: Log
) -> None:
    log.keep()
    append(log, LINE, len(HEADER))
    with log.hold():
        append(log, LINE, log.size())
    if logs.is_shared:
        with pytest.raises(SessionBusyError, match=f"process {os.getpid()}"), other.hold():
            pass
        with pytest.raises(SessionBusyError):
            append(other, OTHER, other.size())
    log.close()
    add(other, OTHER)
    assert content(other) == HEADER + LINE + LINE + OTHER


@pytest.mark.slow
def test_a_follower_wakes_for_each_writer_and_finds_whole_lines(log: Log, other: Log) -> None:
    stop = threading.Event()
    seen = threading.Semaphore(0)
    lines: list[bytes] = []

    def follow(following: Log) -> None:
        offset = len(HEADER)
        for _ in following.changes(stop):
            for line in following.read(offset, 10_000).splitlines(keepends=True):
                assert line.endswith(b"\n")
                lines.append(line)
                offset += len(line)
                seen.release()

    with contextlib.closing(log.to_read()) as following, ThreadPoolExecutor(1) as threads:
        done = threads.submit(follow, following)
        try:
            for number, writer in enumerate([log, other, log]):
                add(writer, b'{"n":%d}\n' % number)
                assert seen.acquire(timeout=PATIENCE)
        finally:
            stop.set()
        done.result(PATIENCE)
    assert lines == [b'{"n":%d}\n' % number for number in range(3)]


def test_a_log_opened_to_read_refuses_to_write_and_writes_nothing(log: Log) -> None:
    names = log.parts()
    with contextlib.closing(log.to_read()) as reader:
        assert reader.readonly
        assert content(reader) == HEADER
        _check_refuses(reader, ReadOnlyError, "opened to read")
    assert content(log) == HEADER
    assert log.parts() == names


@pytest.mark.parametrize("end", ["close", "release"])
def test_a_closed_log_refuses_to_read_and_to_write(log: Log, end: str) -> None:
    assert not log.closed
    getattr(log, end)()
    getattr(log, end)()
    assert log.closed
    _check_refuses(log, ReadOnlyError, "is closed")
    for look in (log.size, lambda: log.read(0, 1)):
        with pytest.raises(ReadOnlyError, match="is closed"):
            look()
    log.reopen()
    assert content(log) == HEADER


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


def test_an_ended_log_refuses_to_write_and_says_why(log: Log) -> None:
    log.ended = "this is over"
    _check_refuses(log, ReadOnlyError, "this is over")
    with contextlib.closing(log.beside()) as beside:
        append(beside, LINE, len(HEADER))
    assert content(log) == HEADER + LINE


def _check_refuses(log: Log, error: type[Exception], why: str) -> None:
    def hold() -> None:
        with log.hold():
            pass

    for write in (log.check_writable, hold, lambda: append(log, LINE, len(HEADER))):
        with pytest.raises(error, match=why):
            write()


def test_rewrite_makes_another_log_and_leaves_the_open_one_as_it_was(log: Log, other: Log) -> None:
    before = log.identity
    assert log.beside().identity == other.identity == before
    with log.hold():
        assert log.rewrite(iter([HEADER, OTHER])) == ""
        for old in (log, other):
            assert old.was_replaced()
            assert old.identity == before
            assert content(old) == HEADER
            assert not old.ends_at(old.size())
            assert not old.still_ends_at(old.size())
        successor = log.successor()
        add(successor, LINE)
        log.release()
    assert successor.identity != before
    assert not successor.was_replaced()
    assert content(successor) == HEADER + OTHER + LINE
    other.reopen()
    for opener in (other, other.beside(), other.to_read(), other.successor()):
        with contextlib.closing(opener):
            assert opener.identity == successor.identity
            assert content(opener) == HEADER + OTHER + LINE
    successor.close()


def test_ends_at_follows_the_log_in_force(log: Log, other: Log) -> None:
    for look in (log.ends_at, log.still_ends_at):
        with log.hold():
            assert look(log.size())
            assert not look(log.size() + 1)
    append(other, LINE, len(HEADER))
    for look in (log.ends_at, log.still_ends_at):
        with log.hold():
            assert not look(len(HEADER))
            assert look(len(HEADER + LINE))


def test_a_rewrite_keeps_the_old_content_under_its_suffix(log: Log, other: Log) -> None:
    with log.hold():
        name = log.rewrite(iter([OTHER]), ".old")
    assert name == log.part_name(".old")
    assert b"".join(other.read_part(".old")) == HEADER
    other.reopen()
    assert content(other) == OTHER


def test_a_rewrite_never_takes_the_place_of_another_part(log: Log) -> None:
    log.write_part(".old", iter([b"kept"]))
    with pytest.raises(SessionExistsError, match="is there already"), log.hold():
        log.rewrite(iter([OTHER]), ".old")
    assert b"".join(log.read_part(".old")) == b"kept"
    assert not log.was_replaced()


def test_parts_are_written_read_replaced_and_removed(log: Log, other: Log) -> None:
    before = log.parts()
    log.write_part(".b", iter([b"one", b"two"]))
    log.write_part(".a", iter([]))
    assert [part for part in other.parts() if part not in before] == [".a", ".b"]
    assert b"".join(other.read_part(".b")) == b"onetwo"
    assert (other.part_size(".b"), other.part_size(".a")) == (6, 0)
    other.write_part(".b", iter([b"three"]))
    assert b"".join(log.read_part(".b")) == b"three"
    assert log.part_name(".b").endswith(".b")
    log.remove_part(".b")
    assert [part for part in other.parts() if part not in before] == [".a"]
    for look in (log.part_size, log.remove_part, lambda part: list(log.read_part(part))):
        with pytest.raises(FileNotFoundError):
            look(".b")
    assert content(log) == HEADER


class _Model(RuleBasedStateMachine):
    """Two programs write to one log; plain bytes say what it holds."""

    backend: type[Backend]

    @initialize()
    def make(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        logs = self.backend(Path(self._folder.name))
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


@pytest.mark.parametrize("name", LOGS)
def test_a_log_holds_what_plain_bytes_would(name: str) -> None:
    run_state_machine_as_test(
        type(name, (_Model,), {"backend": LOGS[name]}),
        settings=settings(max_examples=20, stateful_step_count=15, deadline=None),
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


@pytest.mark.parametrize("short", [SHORT_BY_ALL_BUT_ONE, SHORT_BY_ONE])
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


@pytest.mark.parametrize(
    ("kind", "error", "left"),
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


@pytest.mark.parametrize("kind", ["open", "lock", "stat"])
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


@pytest.mark.parametrize("write", [_appended, _replaced])
@pytest.mark.parametrize("start", [HEADER, HEADER + TORN])
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


@pytest.mark.parametrize("torn", [b"", TORN])
@pytest.mark.parametrize(
    ("foreign", "before"),
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


@pytest.mark.parametrize("kind", ["stat", "size"])
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
