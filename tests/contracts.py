"""The contracts of logs, of sessions and of writers, as checks for tests of each kind.

`check_log` holds a log against what the engine relies on. `check_session` holds a session file, for
example one that an adapter wrote, against what all of sessiontree does with a session. `check_cuts`
holds a writer against a program that is killed.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar
from uuid import uuid4

import pytest

from sessiontree.errors import (
    ReadOnlyError,
    SessionBusyError,
    SessionExistsError,
    UsageError,
    hearing,
)
from sessiontree.session import Session
from sessiontree.storage.log import Log, Moved
from sessiontree.storage.place import Place
from sessiontree.store import PathLike, Store

T = TypeVar("T")

_HEADER: Final = b'{"type":"session"}\n'
_LINE: Final = b'{"type":"message"}\n'
_OTHER: Final = b'{"type":"custom!"}\n'
_TORN: Final = b'{"type":"mess'
_PATIENCE: Final = 20.0


class Logs(Protocol):
    """What `check_log` needs to know of a kind of log."""

    def make(self, content: bytes) -> Log:
        """Return a new log with this content, open to write."""

    def again(self, log: Log) -> Log:
        """Return the same log, opened to write as another program would."""


class PlaceLogs:
    """The logs of a place."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def make(self, content: bytes) -> Log:
        name = f"project/{uuid4()}.jsonl"
        self._place.create(name, iter([content]))
        return self._place.log(name)

    def again(self, log: Log) -> Log:
        return self._place.log(self._place.name(log.name))


def check_log(logs: Logs) -> None:
    """Check that logs keep what the engine relies on."""
    for rule in LOG_RULES:
        rule(logs)


def check_session(file: PathLike) -> None:
    """Check that a session file works with all that sessiontree does, and is not changed by it."""
    path = Path(os.fspath(file))
    with hearing(lambda warning, _: None), Session.open(path, readonly=True) as session:
        before = path.read_bytes()
        damage = [str(each) for each in session.verify()]
        assert not damage, f"the file has damage: {damage}"
        uuids = [entry.uuid for entry in session.entries()]
        assert len(set(uuids)) == len(uuids), "a uuid names one entry"
        for branch in session.branches():
            tip = branch.leaf
            assert session.path(tip)[0].uuid == session.header.uuid, "a path begins at the header"
            session.context(tip)
            session.context(tip, verbatim=True)
        assert list(session.tree()), "the session has a tree"
        session.outline()
        assert list(session.render(all=True)), "the session can be drawn"
        assert session.to_markdown(), "the session is a page of Markdown"
        with tempfile.TemporaryDirectory() as folder:
            _check_copies(session, Path(folder), uuids)
    assert path.read_bytes() == before, "reading changes nothing"


def _check_copies(session: Session, folder: Path, uuids: list[str]) -> None:
    whole = session.export_branch(session.header.uuid, folder / "whole.jsonl")
    with Session.open(whole) as copy:
        assert [entry.uuid for entry in copy.entries()][1:] == uuids[1:], "a copy has all entries"
        assert not copy.repair(dry_run=True).mended, "there is nothing to repair"
        assert copy.context(copy.leaf.uuid).messages == session.context().messages, (
            "a copy has the same context"
        )
        copy.append_message({"role": "user", "content": "one more"})
    listed = [info.id for info in Store(folder).list()]
    assert len(listed) == 1, "a store lists the session"


def check_cuts(
    file: PathLike,
    write: Callable[[], object],
    read: Callable[[], T],
    *,
    allowed: Callable[[T], bool] | None = None,
    step: int = 1,
) -> None:
    """Check a write that is cut off at any byte, as when a program is killed.

    The file then reads as before the write or as after it, and the next write is kept.

    Args:
        file: the file, which is there.
        write: writes to it.
        read: reads all that was written, as a value that can be compared.
        allowed: what the file may read as after a cut, by default as before or as after the write.
        step: the number of bytes between two cuts.
    """
    path = Path(os.fspath(file))
    before, first = read(), path.read_bytes()
    write()
    after, whole = read(), path.read_bytes()
    assert whole.startswith(first), "a file only grows"
    assert after != before, f"the write is read back, but both times {after!r:.200} was read"
    try:
        for size in range(len(first), len(whole), step):
            path.write_bytes(whole[:size])
            found = read()
            sound = found in (before, after) if allowed is None else allowed(found)
            assert sound, (
                f"cut at byte {size}, the file reads as {found!r:.200}; before the write it was "
                f"{before!r:.200}, and after it {after!r:.200}"
            )
            write()
            assert read() != before, f"cut at byte {size}, the next write is lost"
    finally:
        path.write_bytes(whole)


@contextmanager
def _two(logs: Logs, content: bytes = _HEADER) -> Iterator[tuple[Log, Log]]:
    """A log, and the same in another program."""
    with ExitStack() as stack:
        log = stack.enter_context(closing(logs.make(content)))
        yield log, stack.enter_context(closing(logs.again(log)))


def _content(log: Log) -> bytes:
    return log.read(0, log.size())


def _append(log: Log, block: bytes, at: int) -> int:
    with log.alone():
        return log.append(block, at)


def _add(log: Log, block: bytes) -> int:
    """Append at the end, wherever that is by then."""
    while True:
        with suppress(Moved):
            return _append(log, block, log.size())


def append_returns_the_offset_at_which_the_block_reads_back(logs: Logs) -> None:
    with _two(logs) as (log, other):
        first = _append(log, _LINE, len(_HEADER))
        second = _append(log, _OTHER * 2, first + len(_LINE))
        assert (first, second) == (len(_HEADER), len(_HEADER + _LINE))
        assert log.read(first, len(_LINE)) == _LINE
        assert log.read(second, 10_000) == _OTHER * 2
        assert log.read(log.size(), 1) == b""
        assert log.size() == log.written == len(_HEADER + _LINE + _OTHER * 2)
        assert _content(other) == _content(log) == _HEADER + _LINE + _OTHER * 2


def append_off_the_end_raises_moved_and_writes_nothing(logs: Logs) -> None:
    with _two(logs) as (log, _):
        for distance in (-1, 1, -len(_HEADER)):
            with pytest.raises(Moved):
                _append(log, _LINE, len(_HEADER) + distance)
            with log.hold(), pytest.raises(Moved):
                _append(log, _LINE, len(_HEADER) + distance)
        assert _content(log) == _HEADER


def append_to_a_replaced_log_of_the_same_size_raises_moved(logs: Logs) -> None:
    with _two(logs) as (log, other):
        _append(log, _LINE, len(_HEADER))
        with other.hold():
            other.rewrite(iter([_HEADER, _OTHER]))
        with pytest.raises(Moved):
            _append(log, _LINE, log.size())
        assert _content(log) == _HEADER + _LINE
        log.reopen()
        assert _content(log) == _HEADER + _OTHER


def a_torn_end_is_ended_before_the_block(logs: Logs) -> None:
    with closing(logs.make(_HEADER + _TORN)) as log:
        offset = _append(log, _LINE, len(_HEADER + _TORN))
        assert offset == len(_HEADER + _TORN) + 1
        assert log.read(offset, len(_LINE)) == _LINE
        _append(log, _LINE, offset + len(_LINE))
        assert _content(log) == _HEADER + _TORN + b"\n" + _LINE + _LINE


def writers_at_once_lose_nothing_and_never_overlap(logs: Logs) -> None:
    for holding, opened in itertools.product((False, True), ("shared", "beside", "again")):
        with closing(logs.make(_HEADER)) as log:
            _check_writers(logs, log, opened, holding)


def _check_writers(logs: Logs, log: Log, opened: str, holding: bool) -> None:
    ways: dict[str, Callable[[], Log]] = {
        "shared": lambda: log,
        "beside": log.beside,
        "again": lambda: logs.again(log),
    }
    start = threading.Barrier(3)

    def write(writer: int) -> list[tuple[int, bytes]]:
        mine = ways[opened]()
        blocks = [b"%d-%d\n" % (writer, number) * (number % 3 + 1) for number in range(25)]
        start.wait(_PATIENCE)
        try:
            return [(one(mine, block), block) for block in blocks]
        finally:
            if mine is not log:
                mine.close()

    def one(mine: Log, block: bytes) -> int:
        if not holding:
            return _add(mine, block)
        with mine.hold():
            return _append(mine, block, mine.size())

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(write, range(3)))
    assert all(offsets == sorted(offsets) for offsets in found)
    written = sorted(itertools.chain.from_iterable(found))
    assert _content(log) == _HEADER + b"".join(block for _, block in written)
    assert all(log.read(offset, len(block)) == block for offset, block in written)


def hold_keeps_other_writers_out_and_a_thread_may_hold_again(logs: Logs) -> None:
    with _two(logs) as (log, other):
        with ThreadPoolExecutor(1) as threads, log.hold():
            waiting = threads.submit(_add, other, _OTHER)
            with log.hold():
                end = _append(log, _LINE, log.size()) + len(_LINE)
            with pytest.raises(TimeoutError):
                waiting.result(0.05)
            assert log.ends_at(end)
            assert _append(log, _LINE, end) == end
        assert waiting.result(_PATIENCE) == end + len(_LINE)
        assert _content(log) == _HEADER + _LINE + _LINE + _OTHER


def hold_lets_go_after_an_error(logs: Logs) -> None:
    with _two(logs) as (log, other):
        with suppress(ZeroDivisionError), log.hold(), log.hold():
            raise ZeroDivisionError
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(_add, other, _LINE).result(_PATIENCE) == len(_HEADER)


def keep_keeps_others_out_until_the_log_is_closed_and_says_who_does(logs: Logs) -> None:
    with _two(logs) as (log, other):
        if not log.keeps_out:
            with pytest.raises(UsageError):
                log.keep()
            return
        log.keep()
        _append(log, _LINE, len(_HEADER))
        with log.hold():
            _append(log, _LINE, log.size())
        with pytest.raises(SessionBusyError), other.hold():
            pass
        with pytest.raises(SessionBusyError):
            _append(other, _OTHER, other.size())
        log.close()
        _add(other, _OTHER)
        assert _content(other) == _HEADER + _LINE + _LINE + _OTHER


def a_follower_wakes_for_each_writer_and_finds_whole_lines(logs: Logs) -> None:
    stop, seen, lines = threading.Event(), threading.Semaphore(0), list[bytes]()

    def follow(following: Log) -> None:
        offset = len(_HEADER)
        for _ in following.changes(stop):
            for line in following.read(offset, 10_000).splitlines(keepends=True):
                lines.append(line)
                offset += len(line)
                seen.release()

    with (
        _two(logs) as (log, other),
        closing(log.to_read()) as following,
        ThreadPoolExecutor(1) as threads,
    ):
        done = threads.submit(follow, following)
        try:
            for number, writer in enumerate([log, other, log]):
                _add(writer, b'{"n":%d}\n' % number)
                assert seen.acquire(timeout=_PATIENCE), "a follower wakes for a writer"
        finally:
            stop.set()
        done.result(_PATIENCE)
    assert lines == [b'{"n":%d}\n' % number for number in range(3)]


def a_log_opened_to_read_refuses_to_write_and_writes_nothing(logs: Logs) -> None:
    with closing(logs.make(_HEADER)) as log:
        names = log.parts.list()
        with closing(log.to_read()) as reader:
            assert reader.readonly
            assert _content(reader) == _HEADER
            _check_refuses(reader)
        assert _content(log) == _HEADER
        assert log.parts.list() == names


def a_closed_log_refuses_to_read_and_to_write(logs: Logs) -> None:
    for end in ("close", "release"):
        with closing(logs.make(_HEADER)) as log:
            assert not log.closed
            getattr(log, end)()
            getattr(log, end)()
            assert log.closed
            _check_refuses(log)
            with pytest.raises(ReadOnlyError):
                log.size()
            with pytest.raises(ReadOnlyError):
                log.read(0, 1)
            log.reopen()
            assert _content(log) == _HEADER


def an_ended_log_refuses_to_write_and_says_why(logs: Logs) -> None:
    with closing(logs.make(_HEADER)) as log:
        log.ended = "this is over"
        _check_refuses(log, "this is over")
        with closing(log.beside()) as beside:
            _append(beside, _LINE, len(_HEADER))
        assert _content(log) == _HEADER + _LINE


def _check_refuses(log: Log, why: str | None = None) -> None:
    def hold() -> None:
        with log.hold():
            pass

    for write in (log.check_writable, hold, lambda: _append(log, _LINE, len(_HEADER))):
        with pytest.raises(ReadOnlyError, match=why):
            write()


def a_rewrite_makes_another_log_and_leaves_the_open_one_as_it_was(logs: Logs) -> None:
    with _two(logs) as (log, other):
        before = log.identity
        with closing(log.beside()) as beside:
            assert beside.identity == other.identity == before
        with log.hold():
            assert log.rewrite(iter([_HEADER, _OTHER])) == ""
            for old in (log, other):
                assert old.was_replaced()
                assert old.identity == before
                assert _content(old) == _HEADER
                assert not old.ends_at(old.size())
                assert not old.still_ends_at(old.size())
            successor = log.successor()
            _add(successor, _LINE)
            log.release()
        with closing(successor):
            assert successor.identity != before
            assert not successor.was_replaced()
            assert _content(successor) == _HEADER + _OTHER + _LINE
            other.reopen()
            assert other.identity == successor.identity
            assert _content(other) == _HEADER + _OTHER + _LINE


def ends_at_follows_the_log_in_force(logs: Logs) -> None:
    with _two(logs) as (log, other):
        for size, is_end in ((len(_HEADER), True), (len(_HEADER) + 1, False)):
            with log.hold():
                assert log.ends_at(size) == log.still_ends_at(size) == is_end
        _append(other, _LINE, len(_HEADER))
        for size, is_end in ((len(_HEADER), False), (len(_HEADER + _LINE), True)):
            with log.hold():
                assert log.ends_at(size) == log.still_ends_at(size) == is_end


def a_rewrite_keeps_the_old_content_under_its_suffix(logs: Logs) -> None:
    with _two(logs) as (log, other):
        with log.hold():
            name = log.rewrite(iter([_OTHER]), ".old")
        assert name == log.parts.name(".old")
        assert b"".join(other.parts.read(".old")) == _HEADER
        other.reopen()
        assert _content(other) == _OTHER


def a_rewrite_never_takes_the_place_of_another_part(logs: Logs) -> None:
    with closing(logs.make(_HEADER)) as log:
        log.parts.write(".old", iter([b"kept"]))
        with pytest.raises(SessionExistsError), log.hold():
            log.rewrite(iter([_OTHER]), ".old")
        assert b"".join(log.parts.read(".old")) == b"kept"
        assert not log.was_replaced()


def parts_are_written_read_replaced_and_removed(logs: Logs) -> None:
    with _two(logs) as (log, other):
        before = log.parts.list()
        log.parts.write(".b", iter([b"one", b"two"]))
        log.parts.write(".a", iter([]))
        assert [part for part in other.parts.list() if part not in before] == [".a", ".b"]
        assert b"".join(other.parts.read(".b")) == b"onetwo"
        assert (other.parts.size(".b"), other.parts.size(".a")) == (6, 0)
        other.parts.write(".b", iter([b"three"]))
        assert b"".join(log.parts.read(".b")) == b"three"
        assert log.parts.name(".b").partition("?")[0].endswith(".b")  # an address may have options
        log.parts.remove(".b")
        assert [part for part in other.parts.list() if part not in before] == [".a"]
        for look in (log.parts.size, log.parts.remove, lambda part: list(log.parts.read(part))):
            with pytest.raises(FileNotFoundError):
                look(".b")
        assert _content(log) == _HEADER


LOG_RULES: Final[tuple[Callable[[Logs], None], ...]] = (
    append_returns_the_offset_at_which_the_block_reads_back,
    append_off_the_end_raises_moved_and_writes_nothing,
    append_to_a_replaced_log_of_the_same_size_raises_moved,
    a_torn_end_is_ended_before_the_block,
    writers_at_once_lose_nothing_and_never_overlap,
    hold_keeps_other_writers_out_and_a_thread_may_hold_again,
    hold_lets_go_after_an_error,
    keep_keeps_others_out_until_the_log_is_closed_and_says_who_does,
    a_follower_wakes_for_each_writer_and_finds_whole_lines,
    a_log_opened_to_read_refuses_to_write_and_writes_nothing,
    a_closed_log_refuses_to_read_and_to_write,
    an_ended_log_refuses_to_write_and_says_why,
    a_rewrite_makes_another_log_and_leaves_the_open_one_as_it_was,
    ends_at_follows_the_log_in_force,
    a_rewrite_keeps_the_old_content_under_its_suffix,
    a_rewrite_never_takes_the_place_of_another_part,
    parts_are_written_read_replaced_and_removed,
)
"""The rules of a log, each a function that takes the kind of log."""
