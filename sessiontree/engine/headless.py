"""A file of ours whose header is lost, opened to read: a stand-in before what is left.

Invariants: the file is not written; all behind the damage is read from where it lies,
so that the cost is that of the file's start; damage is told at the places of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from sessiontree.core.codec import decode, lines_in
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.salvage import LOOK, HeaderStandIn, may_lack_header, stand_in
from sessiontree.engine.view import View
from sessiontree.errors import FileError, MissingHeaderError
from sessiontree.storage.lines import Read, count_newlines
from sessiontree.storage.log import FileLog

_START: Final = 64 * 1024
"""Bytes in which the first line of another agent's file ends, as a rule."""


def stand_in_of(read: Read, size: int, file: str) -> HeaderStandIn | None:
    """What stands for the lost header of a file; None where it is no session of ours."""
    if not may_lack_header(read(0, _START)):
        return None
    return stand_in(read(0, LOOK), file, is_whole=size <= LOOK)


def found(log: FileLog) -> Headless | None:
    """A file without a header, to be read; None where it is no session of ours."""
    standing = stand_in_of(log.read, log.size(), log.path)
    return None if standing is None else Headless(log, standing)


def view_of(log: FileLog) -> tuple[View, Headless | None]:
    """What is known of an open file, and the same as a `Headless` where its header is lost.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: it is no session of ours.
    """
    view = refused = None
    try:
        view = View(log)
        if not view.is_version_1:
            return view, None
    except FileError as error:
        refused = error
    lost = found(log)
    if lost is not None:
        return View(lost.log), lost
    if view is None:
        assert refused is not None
        raise refused
    return view, None


class Headless:
    """A file without a header, as it lies now.

    Attributes:
        original: the file itself, open.
        standing: what stands for its header.
        log: the same file, with that before what is left of it.
        size: the bytes of the file that are in it.
        ends_by_rule: whether its leaf may be an entry that no line stands for.
    """

    ends_by_rule = False

    def __init__(self, original: FileLog, standing: HeaderStandIn) -> None:
        self.original = original
        self.standing = standing
        self.size = original.size()
        self._prefix = b"".join(line + b"\n" for line in standing.lines)
        self._lines_before = count_newlines(original.read, 0, standing.rest)
        self.log: FileLog = _Spliced(original, self._prefix, standing.rest, self.size)

    def in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        """What was met, and that the header is lost, at the places of the file."""
        found = [*self._before(), self.loss]
        for each in damage:
            line, offset = self.place(each.line, each.offset)
            found.append(replace(each, line=line, offset=offset))
        return sorted(found, key=lambda each: each.offset)

    @property
    def loss(self) -> Damage:
        """That the header is lost, and where."""
        standing = self.standing
        path = self.original.path
        return Damage(path, standing.number, standing.offset, "header", standing.cause)

    def _before(self) -> list[Damage]:
        """What stands in front of the damaged line, where nothing is but zeros and blanks."""
        found: list[Damage] = []
        offset = 0
        for number, line in enumerate(lines_in(self.original.read(0, self.standing.offset)), 1):

            def report(kind: str, offset: int, cause: str, number: int = number) -> None:
                found.append(Damage(self.original.path, number, offset, kind, cause))

            decode(line, offset, report)
            offset += len(line) + 1
        return found

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """The number and the offset in the file of a line that has these in `log`."""
        beyond = offset - len(self._prefix)
        if beyond < 0:
            return self.standing.number, self.standing.offset
        added = len(self.standing.lines)
        return line - added + self._lines_before, beyond + self.standing.rest

    def line_of(self, entry: Entry) -> bytes:
        """The line of an entry; the stand-in has one of its own, which is not in the file."""
        return entry.line

    def is_outdated(self) -> bool:
        """Whether the original has changed since, or another file stands in its place."""
        return self.original.was_replaced() or self.original.size() != self.size

    def refusal(self) -> MissingHeaderError:
        """The error for one who would write to the file."""
        loss = self.loss
        return MissingHeaderError(
            f"{loss.file}, line {loss.line} (byte {loss.offset}): {loss.cause}; nothing was "
            f"written: run 'sessiontree repair {loss.file}' first, which keeps the original, "
            "or open it with readonly=True to look at it",
            loss.file,
            loss.offset,
        )


class _Spliced(FileLog):
    """An open file up to a size, with other bytes for those before an offset."""

    def __init__(self, original: FileLog, prefix: bytes, rest: int, end: int) -> None:
        self._original = original
        self._prefix = prefix
        self._rest = rest
        self._end = end
        super().__init__(original.fs, original.path, readonly=True)

    def reopen(self) -> None:
        self._fd = 0 if not self._original.closed else -1  # only tells whether it is closed
        self._identity = (-1, -1)  # no file has what is read here

    def release(self) -> None:
        self._fd = -1

    def read(self, offset: int, size: int) -> bytes:
        before = self._prefix[offset : offset + size]
        start = max(offset - len(self._prefix), 0) + self._rest
        more = min(size - len(before), self._end - start)
        return before + self._original.read(start, more) if more > 0 else before

    def size(self) -> int:
        self._original.size()  # refused where it is closed
        return len(self._prefix) + self._end - self._rest

    def was_replaced(self) -> bool:
        return False
