"""Following: each entry that is added to a session, once, in order, as it comes.

Only lines that are ended by a newline are given, so a follower never sees half an
entry, and a torn end is waited out. A file that is replaced (migrated, repaired)
is read on in the new one: what stood in the old one is not given again.

Invariants: what is given was not known when the following began, and was not
given before; whatever is added after that moment is given, for the file is looked
at again once the watch over it stands, and now and then without being told; what is
added and cannot be given is told of.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple

from sessiontree.core.codec import decode, decoder, lines_in
from sessiontree.core.damage import Damage, ignore
from sessiontree.core.entry import Entry
from sessiontree.core.migrate import migrate
from sessiontree.core.spill import Fetch
from sessiontree.engine.opening import foreign_refusal, sniff_file
from sessiontree.engine.view import View
from sessiontree.errors import FileReplacedError, NotASessionError, SessionNotFoundError
from sessiontree.storage.lines import count_newlines, whole_lines
from sessiontree.storage.log import Log

GONE_SECONDS: Final = 2.0
"""How long a path may name no session: some programs remove a file and make it anew."""

_MARK_LENGTH: Final = 64


class Told(NamedTuple):
    """Whom a follower tells, and asks.

    Attributes:
        damaged: told of each finding in what was added, and of the identity of the file.
        known: the identity of a file, and the offset up to which its damage is known.
        fetch: gives the strings that entries spilled.
        stop: ends the following when it is set.
    """

    damaged: Callable[[tuple[int, int], Damage], None]
    known: tuple[tuple[int, int], int]
    fetch: Fetch
    stop: threading.Event


def follow(log: Log, known: View, of: Log, told: Told) -> Iterator[Entry]:
    """The entries added to a file from now on.

    Args:
        log: the file, opened to read for this alone; closed at the end.
        known: what is not to be given.
        of: the file that this is known of: another one, where it was replaced since.
        told: whom to tell of damage, and when to stop.
    """
    entries = _follow(log, known, of, told)
    next(entries)
    return entries


def _follow(log: Log, known: View, of: Log, told: Told) -> Generator[Any, None, None]:
    try:
        follower = Follower(log, known, of, told)
    except BaseException:
        log.close()
        raise
    try:
        yield None  # the beginning is fixed; what follows runs when the first entry is asked for
        yield from follower.entries()
        for _ in log.changes(told.stop):
            yield from follower.entries()
    finally:
        follower.close()


class Follower:
    """Gives what is added to a file after what is known of it; see `follow`."""

    def __init__(self, log: Log, known: View, of: Log, told: Told) -> None:
        self._told = told
        self._file = _Lines(log, told)
        identity, size = told.known
        self._file.known = size if log.identity == identity else 0
        self._seen: set[str] = set()
        self._gone_since: float | None = None
        if self._file.is_version_1 or log.identity != of.identity:
            self._seen = {entry.uuid for entry in _Lines(of).entries(known.complete)}
        else:
            self._file.skip(known.complete)
        if not known.reads_to_end:  # a last line that decodes whole is known without its newline
            rest = of.read(known.complete, known.size - known.complete)
            entry = decode(rest, known.complete, ignore)
            if entry is not None:
                self._seen.add(entry.uuid)

    def close(self) -> None:
        self._file.log.close()

    def entries(self) -> Iterator[Entry]:
        """What was added since the last time.

        Raises:
            FileReplacedError: the file was rewritten in place, or is another session's.
            SessionNotFoundError, NotASessionError: there has been no session for a while.
        """
        self._notice()
        met = set()
        for entry in self._file.entries(self._file.log.size()):
            if entry.uuid in self._seen:
                met.add(entry.uuid)
            else:
                yield entry
        self._seen -= met  # what is left was in a file before this one, and may come back

    def _notice(self) -> None:
        """Go over to the file that now stands at the path."""
        try:
            if self._file.log.was_replaced():
                self._go_over()
            self._gone_since = None
        except (SessionNotFoundError, NotASessionError):
            now = time.monotonic()
            self._gone_since = self._gone_since or now
            if now - self._gone_since > GONE_SECONDS:
                raise
        self._file.check()

    def _go_over(self) -> None:
        old = self._file.log
        log = old.to_read()
        try:
            first = next(_Lines(log).entries(log.size()), None)
            if first is None:  # its first line is being written
                log.close()
                return
            before = {entry.uuid for entry in _Lines(old).entries(self._file.at)} | self._seen
            if before and first.uuid not in before:
                raise FileReplacedError(
                    f"{old.name} was replaced by another session; follow that one anew", old.name
                )
            file = _Lines(log, self._told)
        except BaseException:
            log.close()
            raise
        old.close()
        self._file = file
        self._seen = before


def _is_version_1(log: Log) -> bool:
    """Whether a file is of version 1; one that lost its header is not.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: it is no session of ours.
    """
    start = sniff_file(log)
    if start.format is not None:
        raise foreign_refusal(start.format, log.name)
    return start.kind == "version 1"


class _Lines:
    """The whole lines of one file, as entries, each once.

    Attributes:
        log: the file, open.
        at: the offset after the last line that was given or skipped.
        known: damage before this offset is not spoken of.
    """

    def __init__(self, log: Log, told: Told | None = None) -> None:
        self.log = log
        self.at = 0
        self.known = 0
        self._told = told
        self._decode = decoder(self._report, told.fetch if told else None)
        self._mark = b""
        self.is_version_1 = _is_version_1(log)
        self._waiting: deque[bytes] = deque()
        self._migrated = migrate(iter(self._waiting.popleft, None), 1)

    def skip(self, offset: int) -> None:
        """Begin at an offset, which is after a newline."""
        start = max(0, offset - _MARK_LENGTH)
        self.at = offset
        self._mark = self.log.read(start, offset - start)

    def entries(self, end: int) -> Iterator[Entry]:
        """The entries from where this stands up to an offset."""
        for offset, block in whole_lines(self.log.read, self.at, end):
            for line in lines_in(block):
                entry = self._decode(self._current(line), offset)
                offset += len(line) + 1
                self.at = offset
                self._mark = line[-_MARK_LENGTH:] + b"\n"
                if entry is not None:
                    yield entry

    def _report(self, kind: str, offset: int, cause: str) -> None:
        if self._told is not None and offset >= self.known:
            log = self.log
            number = 1 + count_newlines(log.read, 0, offset)
            found = Damage(log.name, number, offset, kind, cause)
            self._told.damaged(log.identity, found)

    def _current(self, line: bytes) -> bytes:
        """A line as the current version has it: migration takes and gives one at a time."""
        if not self.is_version_1:
            return line
        self._waiting.append(line)
        return next(self._migrated)

    def check(self) -> None:
        """Refuse a file in which what was given no longer stands.

        Raises:
            FileReplacedError: another program cut or rewrote it in place.
        """
        start = self.at - len(self._mark)
        if self.log.read(start, len(self._mark)) != self._mark:
            path = self.log.name
            raise FileReplacedError(
                f"{path} was rewritten in place by another program, so what is new in it "
                "cannot be told; follow it anew",
                path,
            )
