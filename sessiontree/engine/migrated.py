"""Files of version 1: migrated in memory for a reader, on disk for a writer.

A command opens a file as `Unmigrated`, so that one that is refused changes nothing.

Invariants: the original stays, under its own name for a reader and as `NAME.v1` for a writer; a
migration cut short leaves the old file or the new one; both ways give the same uuids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Self

from msgspec.structs import replace

from sessiontree.core.codec import check_seal, decode
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry, decode_leniently
from sessiontree.core.migrate import migrate
from sessiontree.core.runs import report_run
from sessiontree.engine.view import View
from sessiontree.storage.lines import count_newlines, rest_of_line
from sessiontree.storage.log import Log, MemoryLog, Moved

_OF_A_LINE: Final = frozenset(
    {"blank", "bom", "crlf", "torn", "nul", "json", "utf-8", "crc", "object"}
)
"""Damage that is found in the original, because migration repairs some of it."""


class Migrated:
    """A version 1 file opened to read; see `SessionFile`."""

    is_current = False
    ends_by_rule = False
    notes = ()

    def __init__(self, original: Log) -> None:
        self.original = original
        self.size = original.size()
        self._offsets = array("q")
        view = View(original)
        self.log = MemoryLog(original.name, self._blocks(view), readonly=True)
        self._damage = view.damage

    def _blocks(self, view: View) -> Iterator[bytes]:
        def originals() -> Iterator[bytes]:
            for offset, line, count in view.line_runs():
                if count > 1 and not isinstance(decode_leniently(line), dict):
                    report_run(line, count, offset, view.report)
                    continue  # nothing counts these lines, and they are only in the original
                for at in range(offset, offset + count * (len(line) + 1), len(line) + 1):
                    self._offsets.append(at)
                    _check(line, at, view)
                    yield line

        for line in migrate(originals(), 1):
            yield line + b"\n"

    def damage_in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        found = [
            replace(each, offset=self._offsets[each.line - 1])
            for each in damage
            if each.kind not in _OF_A_LINE
        ]
        return sorted([*self._damage, *found], key=lambda each: each.offset)

    def original_line(self, entry: Entry) -> bytes:
        row = count_newlines(self.log.read, 0, entry.offset)
        return rest_of_line(self.original.read, self._offsets[row])

    def is_outdated(self) -> bool:
        return self.original.was_replaced() or self.original.size() != self.size


def _check(line: bytes, offset: int, view: View) -> None:
    """Report damage in a line of version 1, which migration may repair."""
    if line.startswith(b"{") and line.endswith(b"}"):
        value = decode_leniently(line)
        if isinstance(value, dict) and "uuid" not in value:  # as all sound lines are
            check_seal(line, offset, view.report)
            return

    def report(kind: str, offset: int, cause: str) -> None:
        if kind == "no uuid":  # so it is with every sound line
            check_seal(line, offset, view.report)
        else:
            view.report(kind, offset, cause)

    decode(line, offset, report)


class Unmigrated:
    """A version 1 file opened to write, migrated in memory until an entry is written.

    The first append migrates the file, and fails with `Moved`: the file is then the log's
    successor. So a call that is refused leaves the file as it is. See `Log`.
    """

    find: Final = None
    lines_with: Final = None

    def __init__(self, file: Log, memory: Log, suffix: str) -> None:
        self._file = file
        self._memory = memory
        self._suffix = suffix
        self.name = file.name
        self.readonly = False
        self.identity = file.identity
        self.blobs = file.blobs
        self.read, self.size = memory.read, memory.size
        self.alone, self.hold, self.keep = file.alone, file.hold, file.keep
        self.check_writable, self.to_read = file.check_writable, file.to_read
        self.reopen, self.successor = file.reopen, file.successor
        self.release, self.close = file.release, file.close
        self.changes, self.rewrite = file.changes, file.rewrite
        self.parts = file.parts

    @classmethod
    def of(cls, file: Log, suffix: str) -> Self:
        """Read a file of version 1; `suffix` is what the name of the original gets."""
        return cls(file, Migrated(file).log, suffix)

    @property
    def ended(self) -> str:
        return self._file.ended

    @ended.setter
    def ended(self, why: str) -> None:
        self._file.ended = why

    @property
    def written(self) -> int:
        return self._file.written

    @property
    def closed(self) -> bool:
        return self._file.closed

    def append(self, block: bytes, at: int) -> int:
        migrate_file(self._file, self._suffix)
        raise Moved

    def was_replaced(self) -> bool:
        return self._file.identity != self.identity or self._file.was_replaced()

    def ends_at(self, size: int) -> bool:
        return not self.was_replaced() and self.size() == size

    still_ends_at = ends_at

    def beside(self) -> Unmigrated:
        return Unmigrated(self._file.beside(), self._memory, self._suffix)


def migrate_file(log: Log, suffix: str) -> None:
    """Migrate a file on disk, unless another writer has done so first.

    Args:
        log: the file; it reads the new one afterwards.
        suffix: what the name of the original gets.
    """
    with log.hold():
        if log.was_replaced():
            log.reopen()
        view = View(log)
        if view.is_version_1:
            lines = (line for _, line in view.lines())
            blocks = (line + b"\n" for line in migrate(lines, 1))
            log.rewrite(blocks, suffix)
            log.reopen()
