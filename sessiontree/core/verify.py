"""Verification: every line of a file checked, and every reference followed.

Takes the lines in file order and reports what a reader would find wrong: bytes that are not an
entry, wrong checksums, duplicate uuids, parents that are missing, late or in a circle, fields that
name entries which are missing or in the wrong place, and handles that are not valid. Changes
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final
from zlib import crc32

from sessiontree.core.codec import CRC_LENGTH, check_text, decode, is_utf_8, parts
from sessiontree.core.damage import Report, ignore
from sessiontree.core.entry import ANNOTATIONS, HEADER, OPTIONAL_REFERENCES, REFERENCES, Entry
from sessiontree.core.handle import Handle, check_built_in
from sessiontree.core.index import NO_ROW, Ancestry, TreeIndex
from sessiontree.errors import HandleError

_SEAL_LENGTH: Final = CRC_LENGTH + len("\n")
_ABOVE: Final = frozenset({"firstKeptEntryUuid", "baseUuid"})  # name an ancestor, or the entry


def unsound(block: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The lines with a wrong checksum, or with bytes that are not UTF-8, with their offsets.

    The block is of whole lines, each ended by LF; `offset` is that of the first. Runs of lines too
    short for an entry are left out: the structure reports them.
    """
    for lines, count in parts(block):
        if count > 1:
            offset += count * len(lines[0])
            continue
        for line in lines:
            if not is_sealed(line) or not is_utf_8(line):
                yield offset, line
            offset += len(line)


def is_sealed(line: bytes) -> bool:
    """True if a line, given with its LF, has its right checksum."""
    return line[-11:] == b'%08x"}\n' % crc32(line[:-_SEAL_LENGTH])


def _is_header(line: bytes, offset: int) -> bool:
    found = decode(line.removesuffix(b"\n"), offset, ignore)
    return found is not None and found.type == HEADER


class Verification:
    """A verification in progress: `take` lines, then `finish`. Every finding is reported."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tree = TreeIndex()
        self._references: list[tuple[int, str, str]] = []  # row, key, uuid
        self._merges: list[tuple[int, str, str]] = []  # row, merged and base of those to be read
        self._wrong: defaultdict[int, list[str]] = defaultdict(list)
        self._is_copy = False
        self._steps = 0
        self._far: tuple[Ancestry, Mapping[str, list[int]]] | None = None

    @property
    def entries(self) -> int:
        return len(self._tree)

    def take(self, line: bytes, offset: int) -> None:
        """Check one line, given without its LF."""
        self.take_block(line + b"\n", offset)

    def take_block(self, block: bytes, offset: int) -> None:
        """Check whole lines, each ended by LF, that start at `offset`."""
        self.take_structure(block, offset)
        for at, line in unsound(block, offset):
            self.look_into(line, at)

    def take_structure(self, block: bytes, offset: int) -> None:
        """The same without checksums and text: `unsound` gives the lines for `look_into`."""
        tree = self._tree
        first = len(tree)
        tree.extend(block, offset, self._report)
        for row in tree.rows_of_type(HEADER, "handle", *REFERENCES, since=first):
            start = tree.offsets[row] - offset
            self._note_references(block[start : block.index(b"\n", start)], row)

    def look_into(self, line: bytes, offset: int) -> None:
        """Report what is wrong with an unsound line that was taken by `take_structure`."""
        if self._tree.row_at(offset) == NO_ROW and not _is_header(line, offset):
            return
        if is_sealed(line):
            check_text(line, offset, self._report)
        else:
            decode(line.removesuffix(b"\n"), offset, self._report)

    def _note_references(self, line: bytes, row: int) -> None:
        kind = self._tree.type_of(row)
        entry = decode(line, self._tree.offsets[row], ignore)
        if entry is None:
            return
        if not row:
            self._is_copy = "parentSession" in entry
        if kind == "handle":
            self._check_handle(entry, row)
        if kind == "merge" and entry.as_stored.get("summary") is None:
            merged, base = (entry.as_stored.get(key) for key in ("mergedUuid", "baseUuid"))
            if isinstance(merged, str) and isinstance(base, str):
                self._merges.append((row, merged, base))
        for key in REFERENCES.get(kind, ()):
            uuid = entry.as_stored.get(key)
            if isinstance(uuid, str):
                self._references.append((row, key, uuid))
            elif key not in OPTIONAL_REFERENCES:
                self._wrong[row].append(f"the {kind} has no {key}")
            elif uuid is not None:
                self._wrong[row].append(f"the {key} of the {kind} is not a uuid")

    def _check_handle(self, entry: Entry, row: int) -> None:
        """Report a handle that no resolver can take; whether its content exists is not checked."""
        try:
            check_built_in(Handle.from_json(entry.as_stored.get("handle"))[0])
        except HandleError as error:
            self._report("handle", self._tree.offsets[row], f"{entry.uuid}: {error}")

    def finish(self) -> None:
        """Follow the references, once all entries are known."""
        tree = self._tree
        # the steps up the tree after which an index of what is above what costs less
        self._steps = 100_000 + len(tree)
        bases = {uuid for _, key, uuid in self._references if key == "baseUuid"}
        for row, parent in tree.missing_parents():
            if self._is_copy and (parent in bases or tree.type_of(row) in ANNOTATIONS):
                continue  # a copy has merged branches and labels, not what is above them
            cause = f"the parent {parent} of entry {tree.uuids[row]} is not in the file"
            self._report("missing parent", tree.offsets[row], cause)
        for reference in self._references:
            self._follow(*reference)
        for merge in self._merges:
            self._check_merge(*merge)
        for row, causes in self._wrong.items():
            self._report("reference", tree.offsets[row], f"{tree.uuids[row]}: {'; '.join(causes)}")

    def _follow(self, row: int, key: str, uuid: str) -> None:
        target = self._tree.row(uuid)
        if target == NO_ROW:
            if not self._is_copy:
                self._wrong[row].append(f"its {key} {uuid} is not in the file")
        elif key in _ABOVE and not self._is_above(row, target):
            self._wrong[row].append(f"its {key} {uuid} is not on its path")

    def _check_merge(self, row: int, merged: str, base: str) -> None:
        target, start = self._tree.row(merged), self._tree.row(base)
        if row in self._wrong or target == NO_ROW:
            return
        if merged == base:
            self._wrong[row].append(f"its mergedUuid {merged} is its baseUuid too: it adds nothing")
        elif self._is_above(row, target):
            self._wrong[row].append(f"its mergedUuid {merged} is on its path")
        elif self._is_above(target, row):
            self._wrong[row].append(f"its mergedUuid {merged} is below it")
        elif start != NO_ROW and not self._is_above(target, start):
            self._wrong[row].append(f"its baseUuid {base} is not above its mergedUuid {merged}")

    def _is_above(self, row: int, target: int) -> bool:
        tree = self._tree
        uuid = tree.uuids[target]
        may_jump = tree.has_late_parents or tree.has_duplicates
        for above in tree.rows_up(row):
            if above == target or tree.uuids[above] == uuid:
                return True
            if above < target and not may_jump:
                return False
            self._steps -= 1
            if self._steps < 0:
                return self._is_far_above(row, uuid)
        return False

    def _is_far_above(self, row: int, uuid: str) -> bool:
        """The same for a reference far up, once such references took many steps."""
        if self._far is None:
            rows: defaultdict[str, list[int]] = defaultdict(list)
            for at, each in enumerate(self._tree.uuids):
                rows[each].append(at)
            self._far = Ancestry(self._tree), rows
        ancestry, rows_of = self._far
        return any(ancestry.is_above(above, row) for above in rows_of[uuid])
