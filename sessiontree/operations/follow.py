"""Following: each entry that is added to a session, once, in order, as it comes.

Invariants:

- Only lines that end with a newline are given, never half an entry.
- An entry is given if it was not known when the following began, and never twice. Nothing
  added later is missed: the file is read again once the watch on it is set up, and now and
  then without a notice.
- After a file was replaced (migrated, repaired) the new file is read. Entries that were in
  the old one are not given again.
- Damage in what is added is reported.
- Another agent's file is read anew after each change, and gives the entries that it did not have
  before. Reading takes at most a fifth of the time. An end that is being written is no damage. A
  move of the leaf is given with the entry that follows it.
- Following ends with the task of asyncio that began it: a thread that waits for an entry would
  keep the event loop from closing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple

from sessiontree.core.codec import decode, decoder, lines_in, report_header
from sessiontree.core.damage import Damage, ignore
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.migrate import migrate
from sessiontree.core.spill import Fetch
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.opening import SessionFile, foreign_refusal, open_file, reopened, sniff_file
from sessiontree.engine.writer import current_task
from sessiontree.errors import FileReplacedError, NotASessionError, SessionNotFoundError
from sessiontree.storage.lines import count_newlines, whole_lines
from sessiontree.storage.log import Log, closed_on_failure

GONE_SECONDS: Final = 2.0  # without a session: some programs remove a file and make it anew
_TAIL_LENGTH: Final = 64

_START_LENGTH: Final = 512

_PAUSE: Final = 4
"""The pause after another agent's file was read, as a multiple of the time that this took."""


class Options(NamedTuple):
    """What a follower needs besides the file."""

    # called with the identity of the file, and each damage in what was added
    report: Callable[[tuple[int, int], Damage], None]
    # the identity of a file, and the offset up to which its damage is known
    known: tuple[tuple[int, int], int]
    fetch: Fetch  # gives the strings that entries spilled
    stop: threading.Event  # ends the following when it is set


class AnyEvent(threading.Event):
    """An event that is set as soon as one of two others is."""

    def __init__(self, one: threading.Event, other: threading.Event) -> None:
        super().__init__()
        self._events = one, other

    def is_set(self) -> bool:
        """Whether one of the two is set."""
        return any(event.is_set() for event in self._events)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the first event, or for the timeout; then look at both."""
        return self._events[0].wait(timeout) or self.is_set()


def follow(log: Log, known: LogTree, of: Log, options: Options) -> Iterator[Entry]:
    """The entries added to a file from now on.

    The log is opened for this follower alone, and closed at the end. `known` is what the session
    knows already, of a file that may have been replaced since.
    """
    entries = _follow(log, known, of, options, current_task())
    next(entries)
    return entries


def _follow(
    log: Log, known: LogTree, of: Log, options: Options, task: object
) -> Generator[Any, None, None]:
    with closed_on_failure(log):
        follower = _Follower(log, known, of, options)
    try:
        yield None  # the start is fixed; the rest runs when the first entry is asked for
        yield from follower.entries()
        for _ in log.changes(options.stop):
            if _is_done(task):
                return
            yield from follower.entries()
    finally:
        follower.file.log.close()


def follow_translated(file: SessionFile, options: Options) -> Iterator[Entry]:
    """The entries added to another agent's file from now on; see `follow`.

    The file is opened again for this follower alone.
    """
    entries = _follow_translated(file, options, current_task())
    next(entries)
    return entries


def _follow_translated(
    file: SessionFile, options: Options, task: object
) -> Generator[Any, None, None]:
    known = {entry.uuid for entry in _NewLines(file.log).entries(file.log.size())}
    told = {_name(damage) for damage in file.damage_in_original([])}
    log = file.original.to_read()
    try:
        follower = _Rereader(open_file(log, migrate=False), known, told, options)
        yield None
        yield from follower.entries()
        for _ in log.changes(options.stop):
            if _is_done(task):
                return
            yield from follower.new_entries()
    finally:
        log.close()


class _Rereader:
    """Gives the entries that another agent's file did not have when it was last read.

    The translation of a line may depend on any other line, and an agent may write a file anew, so
    the file is read whole.
    """

    def __init__(
        self, file: SessionFile, known: set[str], told: set[Finding], options: Options
    ) -> None:
        self._file = file
        self._start = file.original.read(0, _START_LENGTH)
        self._known = known
        self._told = told
        self._options = options
        self._next = 0.0
        self._gone_since: float | None = None

    def new_entries(self) -> Iterator[Entry]:
        """The entries added since the last call, unless it is too early to look."""
        started = time.monotonic()
        if started < self._next or not self._is_changed(started):
            return
        found = list(self.entries())
        self._next = time.monotonic() + _PAUSE * (time.monotonic() - started)
        yield from found

    def entries(self) -> Iterator[Entry]:
        log = self._file.log
        found = list(_NewLines(log).entries(log.size()))
        start, self._start = self._start, self._file.original.read(0, _START_LENGTH)
        is_other = not self._start.startswith(start)
        if is_other and self._known.isdisjoint(entry.uuid for entry in found):
            raise FileReplacedError(
                f"{log.name} was replaced by another session; follow that one", log.name
            )
        for damage in self._file.damage_in_original([]):
            # what is cut short may be being written
            if damage.kind != "cut short" and _name(damage) not in self._told:
                self._told.add(_name(damage))
                self._options.report(self._file.original.identity, damage)
        ends = {entry.lane: entry for entry in found}
        for entry in found:
            # A branch at the end may only say which entry the leaf is by the agent's own rule.
            if entry.type == "branch" and entry is ends[entry.lane]:
                continue
            if entry.uuid not in self._known:
                self._known.add(entry.uuid)
                yield entry

    def _is_changed(self, now: float) -> bool:
        """Read the file again if it changed; a file that is being written anew is waited for."""
        try:
            if not self._file.is_outdated():
                return False
            self._file = reopened(self._file)
        except (SessionNotFoundError, NotASessionError):
            self._gone_since = self._gone_since or now
            if now - self._gone_since > GONE_SECONDS:
                raise
            return False
        self._gone_since = None
        return True


Finding = tuple[str, int, str]


def _name(damage: Damage) -> Finding:
    return damage.file, damage.offset, damage.kind


def _is_done(task: object) -> bool:
    done = getattr(task, "done", None)  # a task of trio has none: trio does not leave threads
    return done is not None and done()


class _Follower:
    def __init__(self, log: Log, known: LogTree, of: Log, options: Options) -> None:
        self._options = options
        self.file = _NewLines(log, options)
        identity, size = options.known
        self.file.known = size if log.identity == identity else 0
        self._seen: set[str] = set()
        self._gone_since: float | None = None
        if self.file.is_version_1 or log.identity != of.identity:
            self._seen = {entry.uuid for entry in _NewLines(of).entries(known.complete)}
        else:
            self.file.skip(known.complete)
        if not known.reads_to_end:  # a last line without a newline is known if it decodes
            rest = of.read(known.complete, known.size - known.complete)
            entry = decode(rest, known.complete, ignore)
            if entry is not None:
                self._seen.add(entry.uuid)

    def entries(self) -> Iterator[Entry]:
        """The entries added since the last call.

        A file that was rewritten in place, or is another session's, is a FileReplacedError. A
        missing session is an error after a while.
        """
        self._look()
        met = set()
        for entry in self.file.entries(self.file.log.size()):
            if entry.uuid in self._seen:
                met.add(entry.uuid)
            else:
                yield entry
        self._seen -= met  # the rest was in an earlier file, and may come back

    def _look(self) -> None:
        try:
            if self.file.log.was_replaced():
                self._go_over()
            self._gone_since = None
        except (SessionNotFoundError, NotASessionError):
            now = time.monotonic()
            self._gone_since = self._gone_since or now
            if now - self._gone_since > GONE_SECONDS:
                raise
        self.file.check()

    def _go_over(self) -> None:
        old = self.file.log
        log = old.to_read()
        with closed_on_failure(log):
            first = next(_NewLines(log).entries(log.size()), None)
            if first is None:  # its first line is being written
                log.close()
                return
            before = {entry.uuid for entry in _NewLines(old).entries(self.file.at)} | self._seen
            if before and first.uuid not in before:
                raise FileReplacedError(
                    f"{old.name} was replaced by another session; follow that one", old.name
                )
            file = _NewLines(log, self._options)
        self.file = file
        self._seen = before
        old.close()


class _NewLines:
    def __init__(self, log: Log, options: Options | None = None) -> None:
        self.log = log
        self.at = 0  # the offset after the last line that was given or skipped
        self.known = 0  # damage before this offset is not reported
        self._options = options
        self._decode = decoder(self._report, options.fetch if options else None)
        self._tail = b""
        self._has_begun = False  # a header is now a second one
        start = sniff_file(log)
        if start.agent is not None:
            raise foreign_refusal(start.agent, log.name)
        self.is_version_1 = start.kind == "version 1"  # a file without its header is not
        self._waiting: deque[bytes] = deque()
        self._migrated = migrate(iter(self._waiting.popleft, None), 1)

    def skip(self, offset: int) -> None:
        """Begin at an offset, which is after a newline."""
        start = max(0, offset - _TAIL_LENGTH)
        self.at = offset
        self._tail = self.log.read(start, offset - start)
        self._has_begun = offset > 0

    def entries(self, end: int) -> Iterator[Entry]:
        for offset, block in whole_lines(self.log.read, self.at, end):
            self.check()  # after the read: the file may have been rewritten before it
            for line in lines_in(block):
                entry = self._decode(self._current(line), offset)
                if entry is not None and entry.type == HEADER and self._has_begun:
                    report_header(entry, offset, self._report)
                    entry = None
                offset += len(line) + 1
                self.at = offset
                self._tail = line[-_TAIL_LENGTH:] + b"\n"
                if entry is not None:
                    self._has_begun = True
                    yield entry

    def _report(self, kind: str, offset: int, cause: str) -> None:
        if self._options is not None and offset >= self.known:
            number = 1 + count_newlines(self.log.read, 0, offset)
            found = Damage(self.log.name, number, offset, kind, cause)
            self._options.report(self.log.identity, found)

    def _current(self, line: bytes) -> bytes:
        """A line in the current version; the migration takes and gives one at a time."""
        if not self.is_version_1:
            return line
        self._waiting.append(line)
        return next(self._migrated)

    def check(self) -> None:
        """Refuse a file that another program cut or rewrote in place: its last line is gone."""
        start = self.at - len(self._tail)
        if self.log.read(start, len(self._tail)) != self._tail:
            path = self.log.name
            raise FileReplacedError(
                f"{path} was rewritten in place by another program, so its new entries are "
                "unknown; follow it again",
                path,
            )
