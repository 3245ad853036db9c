"""Files of an older version: migrated on disk for a writer, in memory for a reader.

Invariants: the original stays, under its own name for a reader and as `NAME.v1`
for a writer; a migration cut short leaves the old file or the new one; both ways
give the same uuids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sessiontree.core.codec import check_seal, decode
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.migrate import migrate as migrated_lines
from sessiontree.engine.view import View
from sessiontree.errors import FileError, MigrationRefusedError
from sessiontree.storage.atomic import create_file, replace_file
from sessiontree.storage.fs import Memory
from sessiontree.storage.lines import rest_of_line, whole_lines
from sessiontree.storage.log import FileLog

if TYPE_CHECKING:
    from sessiontree.engine.headless import Headless
    from sessiontree.engine.translated import Translated

KEPT_AS = ".v1"

OURS = b'{"type":"session","version":2,"format":"sessiontree/'
"""How a file starts that needs no upgrade, as `core.codec` writes it."""

_OF_A_LINE = frozenset({"blank", "bom", "crlf", "torn", "nul", "json", "utf-8", "crc", "object"})
"""Damage that the original shows at its own places, before migration mends some of it."""


class Migrated:
    """A version 1 file opened to read: its lines as version 2, in memory.

    Attributes:
        original: the file itself, open.
        log: the migrated lines.
        size: the bytes of the file that are in them.
        ends_by_rule: whether its leaf may be an entry that no line stands for.
    """

    ends_by_rule = False

    def __init__(self, original: FileLog) -> None:
        self.original = original
        self.size = original.size()
        self._offsets = array("q")
        memory = Memory()
        view = View(original)
        create_file(memory, original.path, self._blocks(view))
        self._damage = view.damage
        self.log = FileLog(memory, original.path, readonly=True, durability="os")

    def _blocks(self, view: View) -> Iterator[bytes]:
        def originals() -> Iterator[bytes]:
            for offset, line in view.lines():
                self._offsets.append(offset)
                _look_over(line, offset, view)
                yield line

        for line in migrated_lines(originals(), 1):
            yield line + b"\n"

    def in_original(self, damage: Sequence[Damage]) -> list[Damage]:
        """What was met in the migrated lines and in the original, with the original's offsets."""
        found = [
            replace(found, offset=self._offsets[found.line - 1])
            for found in damage
            if found.kind not in _OF_A_LINE
        ]
        return sorted([*self._damage, *found], key=lambda found: found.offset)

    def line_of(self, entry: Entry) -> bytes:
        """The line of version 1 that an entry was made of."""
        before = whole_lines(self.log.read, 0, entry.offset)
        row = sum(block.count(b"\n") for _, block in before)
        return rest_of_line(self.original.read, self._offsets[row])

    def is_outdated(self) -> bool:
        """Whether the original has changed since, or another file stands in its place."""
        return self.original.was_replaced() or self.original.size() != self.size


def _look_over(line: bytes, offset: int, view: View) -> None:
    """Report what is not sound in a line of version 1, which migration may mend."""

    def report(kind: str, offset: int, cause: str) -> None:
        if kind == "no uuid":  # so it is with every sound line
            check_seal(line, offset, view.report)
        else:
            view.report(kind, offset, cause)

    decode(line, offset, report)


def to_current(log: FileLog, *, migrate: bool) -> Migrated | Translated | Headless | None:
    """Bring a file of an older version up to date; None where the file itself is current.

    Another agent's file is translated for a reader, and one without its header has another.

    Raises:
        MissingHeaderError: its header is lost, and it was opened to write.
        ForeignFormatError: it is another agent's, and opened to write.
        MigrationRefusedError: it would have to be rewritten, and `migrate` is False.
    """
    format = refused = None
    if log.read(0, len(OURS)) != OURS:
        from sessiontree.engine import translated  # few files are another agent's

        format = translated.recognised(log)
    if format is None:
        try:
            if not View(log).is_version_1:
                return None
        except FileError as error:
            refused = error
    if (lost := _without_header(log)) is not None:
        return lost
    if format is not None and not log.readonly:
        raise translated.refusal(log, format)
    if format is not None:
        return translated.Translated(log, format)
    if refused is not None:
        raise refused
    if log.readonly:
        return Migrated(log)
    if not migrate:
        raise MigrationRefusedError(
            f"{log.path} is of version 1; open it with migrate=True to migrate it "
            "(the original is kept beside it), or with readonly=True to leave it as it is",
            log.path,
        )
    with log.held():
        if log.was_replaced():
            log.reopen()  # another writer migrated it first
        view = View(log)
        if view.is_version_1:
            lines = (line for _, line in view.lines())
            blocks = (line + b"\n" for line in migrated_lines(lines, 1))
            replace_file(log.fs, log.path, KEPT_AS, blocks)
            log.reopen()
    return None


def _without_header(log: FileLog) -> Headless | None:
    """A file to be read that lost its header, or has one that looks like another's; else None.

    Raises:
        MissingHeaderError: it was opened to write.
    """
    from sessiontree.engine import headless  # few headers are ever lost

    lost = headless.found(log)
    if lost is not None and not log.readonly:
        raise lost.refusal()
    return lost
