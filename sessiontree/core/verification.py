"""Verification: every line of a file looked at, and every reference followed.

Takes the lines in file order and finds what a reader would stumble over: bytes
that are no entry, checksums that do not match, uuids that stand twice, parents
that are missing, late or in a circle, and fields that name entries which are
not there, or not where they must be. Reports; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from sessiontree.core.codec import check_seal, decode
from sessiontree.core.damage import Report, ignore
from sessiontree.core.entry import ANNOTATIONS, HEADER
from sessiontree.core.fields import REFERENCES
from sessiontree.core.tree import NO_ROW, Tree


class _Reference(msgspec.Struct, gc=False):
    """A field that names another entry: the row that holds it, and whom it names."""

    row: int
    key: str
    uuid: str


class Verification:
    """A verification under way: feed it lines, then `finish`.

    Args:
        report: told of every finding.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tree = Tree()
        self._references: list[_Reference] = []
        self._is_copy = False

    @property
    def entries(self) -> int:
        """The entries found so far."""
        return len(self._tree)

    def take_block(self, block: bytes, offset: int) -> None:
        """Look at whole lines, each ended by LF, that start at `offset`."""
        for line in block.split(b"\n")[:-1]:
            self.take(line, offset)
            offset += len(line) + 1

    def take(self, line: bytes, offset: int) -> None:
        """Look at one line."""
        tree = self._tree
        row = len(tree)
        check_seal(line, offset, self._report)
        tree.add(line, offset, self._report)
        if row == len(tree):
            return
        kind = tree.type_of(row)
        if kind in REFERENCES:
            self._note_references(line, offset, row, kind)
        elif kind == HEADER and not row:
            header = decode(line, offset, ignore)
            self._is_copy = header is not None and "parentSession" in header

    def _note_references(self, line: bytes, offset: int, row: int, kind: str) -> None:
        entry = decode(line, offset, ignore)
        for key in REFERENCES[kind]:
            uuid = entry.get(key) if entry is not None else None
            if isinstance(uuid, str):
                self._references.append(_Reference(row, key, uuid))
            else:
                self._find(row, f"the {kind} has no {key}")

    def _find(self, row: int, cause: str) -> None:
        self._report("reference", self._tree.offsets[row], f"{self._tree.uuids[row]}: {cause}")

    def finish(self) -> None:
        """Follow the references, now that all entries are known."""
        bases = {found.uuid for found in self._references if found.key == "baseUuid"}
        for row, parent in self._tree.missing_parents():
            if self._is_copy and (parent in bases or self._tree.type_of(row) in ANNOTATIONS):
                continue  # a copy takes merged branches and labels along, not what is above them
            cause = f"the parent {parent} of entry {self._tree.uuids[row]} is not in the file"
            self._report("missing parent", self._tree.offsets[row], cause)
        for found in self._references:
            self._follow(found)

    def _follow(self, reference: _Reference) -> None:
        target = self._tree.row(reference.uuid)
        row, key = reference.row, reference.key
        if target == NO_ROW:
            if not self._is_copy:
                self._find(row, f"its {key} {reference.uuid} is not in the file")
        elif key in _ABOVE and target not in self._until(row, target):
            self._find(row, f"its {key} {reference.uuid} is not on its path")

    def _until(self, row: int, target: int) -> Iterable[int]:
        """A row and its ancestors, as far up as the target can be among them."""
        for above in self._tree.rows_up(row):
            yield above
            if above < target and not self._tree.has_late_parents:
                return


_ABOVE: Final = frozenset({"firstKeptEntryUuid", "baseUuid"})
"""References that must name an ancestor, or the entry itself."""
