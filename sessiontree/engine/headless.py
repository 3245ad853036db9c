"""A session whose header is lost, opened to read: a stand-in replaces how the file starts.

Invariants: the file is not written; all behind the damage is read from the file itself,
so that the cost is that of the file's start; damage is reported at the places of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sessiontree.core.codec import decode
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.runs import parts, report_run
from sessiontree.core.salvage import HeaderStandIn
from sessiontree.errors import MissingHeaderError
from sessiontree.storage.lines import count_newlines
from sessiontree.storage.log import Log, MemoryLog


class Headless:
    """A file without a header, as it is now; see `SessionFile`.

    Attributes:
        stand_in: what replaces its header.
    """

    is_current = False
    ends_by_rule = False
    notes = ()

    def __init__(self, original: Log, stand_in: HeaderStandIn) -> None:
        self.original = original
        self.stand_in = stand_in
        self.size = original.size()
        self._prefix = b"".join(line + b"\n" for line in stand_in.lines)
        self._lines_before = count_newlines(original.read, 0, stand_in.rest)
        self.log: Log = _Spliced(original, self._prefix, stand_in.rest, self.size)

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        found = [*self._damage_before(), self._loss]
        for each in damage:
            line, offset = self.place(each.line, each.offset)
            found.append(replace(each, line=line, offset=offset))
        return sorted(found, key=lambda each: each.offset)

    @property
    def _loss(self) -> Damage:
        """The finding that the header is lost."""
        lost = self.stand_in
        return Damage(self.original.name, lost.number, lost.offset, "header", lost.cause)

    def _damage_before(self) -> list[Damage]:
        """What is wrong in front of the damaged line, where only zeros and blanks are."""
        found: list[Damage] = []
        offset, number = 0, 1

        def report(kind: str, offset: int, cause: str) -> None:
            found.append(Damage(self.original.name, number, offset, kind, cause))

        for lines, count in parts(self.original.read(0, self.stand_in.offset)):
            for line in lines:
                if count > 1:
                    report_run(line[:-1], count, offset, report)
                else:
                    decode(line.removesuffix(b"\n"), offset, report)
                offset += count * len(line)
                number += count
        return found

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """The line number and the offset in the file, for those of a line of `log`."""
        beyond = offset - len(self._prefix)
        if beyond < 0:
            return self.stand_in.number, self.stand_in.offset
        added = len(self.stand_in.lines)
        return line - added + self._lines_before, beyond + self.stand_in.rest

    def original_line(self, entry: Entry) -> bytes:
        return entry.line  # the stand-in's own line, which is not in the file, included

    def is_outdated(self) -> bool:
        return self.original.was_replaced() or self.original.size() != self.size

    def refusal(self) -> MissingHeaderError:
        """The error for opening the file to write."""
        loss = self._loss
        return MissingHeaderError(
            f"{loss.file}, line {loss.line} (byte {loss.offset}): {loss.cause}; nothing was "
            "written: repair the file first, which keeps the original, or open it with "
            "readonly=True to look at it",
            loss.file,
            loss.offset,
        )


class _Spliced(MemoryLog):
    """An open file up to a size, with other bytes for those before an offset."""

    def __init__(self, original: Log, prefix: bytes, rest: int, end: int) -> None:
        super().__init__(original.name, [prefix], readonly=True)
        self.blobs = original.blobs
        self._original = original
        self._prefix = prefix
        self._rest = rest
        self._end = end

    def read(self, offset: int, size: int) -> bytes:
        before = self._prefix[offset : offset + size]
        start = max(offset - len(self._prefix), 0) + self._rest
        more = min(size - len(before), self._end - start)
        return before + self._original.read(start, more) if more > 0 else before

    def size(self) -> int:
        self._original.size()  # refused where it is closed
        return len(self._prefix) + self._end - self._rest
