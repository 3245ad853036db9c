"""Lineage: the lines that a fork copies, and the usage beside them.

The lines are found by walking up from the last entry. They are those of the path, of the branches
that merges on it took in, of the usage beside all these, and of the labels of all these. What is on
no such way is searched through as raw bytes at most, for labels and usage.

An annotation hangs below the last entry of its lane, and the next message hangs below that entry
too, so the usage of a path is beside it. A `usage` entry belongs to the last entry of its lane
before it in the file, annotations aside: the entry at which the lane stood when the tokens were
spent. The place decides, not the parent: the parent may be an annotation that is not copied.

Invariants: the lines are those that the index of the whole file gives; the walk (`UsageFinder`)
and the index (`add_usage`) find the same entries.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from operator import lt
from typing import Any, Final, NamedTuple

from sessiontree.core.entry import ANNOTATIONS, HEADER, Entry
from sessiontree.core.handle import may_name_blob
from sessiontree.core.index import TreeIndex
from sessiontree.engine.names import Names
from sessiontree.engine.reader import TreeReader
from sessiontree.storage.lines import rest_of_line


def add_usage(tree: TreeIndex, rows: bytearray) -> None:
    """Mark the rows of `usage` entries that belong to marked rows."""
    if not tree.rows_of_type("usage"):
        return
    last: dict[str | None, int] = {}  # by lane
    for row in range(len(tree)):
        kind, lane = tree.type_of(row), tree.lane_of(row)
        if kind not in ANNOTATIONS:
            last[lane] = row
        elif kind == "usage" and lane in last:
            rows[row] |= rows[last[lane]]


def _goes_on(entry: Entry, below: Entry) -> bool:
    return below.type not in ANNOTATIONS and below.lane == entry.lane


class UsageFinder:
    """The usage that belongs to entries, found by a look at what follows each in the file."""

    def __init__(self, reader: TreeReader) -> None:
        self.found: dict[int, int] = {}  # the hash of the uuid of each `usage` entry, by its offset
        self._reader = reader

    def look(self, entry: Entry, below: Entry | None) -> None:
        """Find the usage of an entry that is copied; `below` is the one below it on the path."""
        if entry.type in ANNOTATIONS:
            return
        end = entry.offset + len(entry.line) + 1
        if below is not None and below.offset == end and _goes_on(entry, below):  # nearly always
            return
        if entry.type == HEADER:  # which may share its line
            end = entry.offset + len(rest_of_line(self._reader.log.read, entry.offset)) + 1
        for found, offset in self._reader.scan().on_lane(entry.lane, end):
            if found.type not in ANNOTATIONS:
                break
            if found.type == "usage":
                self.found[offset] = hash(found.uuid)


_MAX_STEPS: Final = 1_000_000
"""How many entries are passed that a merge took in before; the index costs less then."""

_FEW: Final = 2
"""Uuids that are searched for one by one, from the end: all others in one search of the file."""

_NOTHING: Final = -1  # the offset of the parent of a top


class CopiedLines(NamedTuple):
    """The lines that a copy takes."""

    offsets: array[int]  # their offsets, ascending
    marks: array[int]  # the hash of the uuid of each
    with_blobs: array[int]  # the offsets of those that may name blobs, ascending
    leaf: Entry  # the entry where the copy goes on
    top: Entry  # the first of them on the path to the leaf
    above: Entry | None  # the parent of the top, or None
    name: str | None  # the session's name, or None
    metadata: dict[str, Any]  # the session's metadata
    # the offsets of those that give a name or metadata, or repeat a name, ascending
    facts: array[int]


GIVING_FACTS: Final = ("session_info", "compaction")
"""Types that give a name or metadata, or repeat a name."""


class Lineage:
    """What the path to an entry takes along."""

    def __init__(self, reader: TreeReader, leaf: Entry) -> None:
        self._reader = reader
        self._leaf = leaf
        self._walk = reader.view.walk_of_heads()
        self._header = reader.header.offset
        self._path = array("q")  # the offsets of the path, its leaf first
        self._marks = array("q")  # the hash of the uuid of each
        self._offsets = array("q")  # the same below the header, ascending
        self._beside: dict[int, tuple[int, int]] = {}
        """By the offset of each merged entry the hash of its uuid, and the offset of its parent."""
        self._with_blobs = array("q")
        self._facts: list[int] = []
        self._usage = UsageFinder(reader)
        self._steps = 0

    def lines(self) -> CopiedLines | None:
        """Return the lines; None where only the index tells, or there are none."""
        merges: list[int] = []
        below: Entry | None = None
        for entry in self._up(self._leaf):
            offset = entry.offset
            self._path.append(offset)
            self._marks.append(hash(entry.uuid))
            if offset != self._header and may_name_blob(entry.line):
                self._with_blobs.append(offset)
            if entry.type == "merge":
                merges.append(offset)
            if entry.type in GIVING_FACTS:
                self._facts.append(offset)
            self._usage.look(entry, below)
            below = entry
        self._sort()
        if not self._offsets or (merges and not self._merged(merges)):
            return None
        more = {offset: mark for offset, (mark, _) in self._beside.items()}
        more |= {at: mark for at, mark in self._usage.found.items() if not self._has(at)}
        told = self._add_labels(more)
        offsets, marks = self._offsets, self._marks
        if more:
            offsets, marks = array("q"), array("q")
            for offset, mark in merge(self._known(), sorted(more.items())):
                offsets.append(offset)
                marks.append(mark)
        with_blobs = array("q", sorted((*self._with_blobs, *more)))
        ends = self._leaf, *self._top()
        facts = array("q", sorted(self._facts))
        return CopiedLines(offsets, marks, with_blobs, *ends, told.name, told.metadata, facts)

    def _sort(self) -> None:
        offsets, marks = self._path[::-1], self._marks[::-1]
        if not all(map(lt, offsets, offsets[1:])):  # a parent comes after its child
            pairs = sorted(zip(offsets, marks, strict=True))
            offsets, marks = (array("q", column) for column in zip(*pairs, strict=True))
        if offsets[0] == self._header:
            del offsets[0], marks[0]
        self._offsets, self._marks = offsets, marks

    def _known(self) -> Iterator[tuple[int, int]]:
        return zip(self._offsets, self._marks, strict=True)

    def _has(self, offset: int) -> bool:
        at = bisect_left(self._offsets, offset)
        return at < len(self._offsets) and self._offsets[at] == offset

    def _up(self, entry: Entry) -> Iterator[Entry]:
        yield entry
        for above in self._walk.up(entry):
            if above.uuid != entry.parent_uuid:  # what was known of its line is not true any more
                raise self._reader.changed(above.offset)
            yield above
            entry = above

    def _top(self) -> tuple[Entry, Entry | None]:
        at = self._path.index(self._offsets[0])
        top, *above = map(self._reader.read_at, self._path[at : at + 2])
        return top, above[0] if above else None

    def _add_labels(self, more: dict[int, int]) -> Names:
        marks: set[int] = set()

        def is_found(uuid: str) -> bool:
            marks.update(() if marks else (*self._marks, *more.values()))
            return hash(uuid) in marks

        told = self._reader.names()
        places = self._places({uuid for _, uuid in told.label_entries if is_found(uuid)})
        for label, uuid in told.label_entries:
            if not is_found(uuid):
                continue
            if uuid not in places:  # that of a label
                places |= self._places({uuid})
            place = places.get(uuid, _NOTHING)
            if (place in more or self._has(place)) and not self._has(label):
                more[label] = hash(self._reader.read_at(label).uuid)
                marks.add(more[label])
        return told

    def _places(self, uuids: set[str]) -> dict[str, int]:
        """Return where the entries of uuids are: the last line counts where several have one."""
        if len(uuids) > _FEW:
            return self._reader.scan().places_of(uuids)
        found = ((uuid, self._walk.entry(uuid)) for uuid in uuids)
        return {uuid: _NOTHING if entry is None else entry.offset for uuid, entry in found}

    def _merged(self, merges: list[int]) -> bool:
        """Find the branches that merges took in, and those merged into them.

        False where they take in each other more often than a walk can follow.
        """
        done: set[tuple[int, str | None]] = set()
        while merges:
            found = self._reader.read_at(merges.pop())
            uuid, base = found.get("mergedUuid"), found.get("baseUuid")
            merged = self._walk.entry(uuid) if isinstance(uuid, str) else None
            base = base if isinstance(base, str) else None
            if merged is None or (merged.offset, base) in done:
                continue
            done.add((merged.offset, base))
            merges += self._merge(merged, None if base is None else hash(base))
            if self._steps > _MAX_STEPS:
                return False
        return True

    def _merge(self, merged: Entry, base: int | None) -> list[int]:
        merges: list[int] = []
        offset = merged.offset
        while offset != _NOTHING and not self._is_passed(offset):
            mark, above = self._beside.get(offset, (None, offset))
            if mark is None:
                offset = self._read_on(offset, base, merges)
                continue
            if mark == base or self._steps > _MAX_STEPS:
                break
            self._steps += 1
            offset = above
        return merges

    def _is_passed(self, offset: int) -> bool:
        return offset == self._header or self._has(offset)

    def _read_on(self, offset: int, base: int | None, merges: list[int]) -> int:
        """Take in entries not met before, from an offset up; return where to go on, or nothing."""
        below: Entry | None = None
        for entry in self._up(self._reader.read_at(offset)):
            at, mark = entry.offset, hash(entry.uuid)
            if below is not None:
                self._beside[below.offset] = hash(below.uuid), at
            if self._is_passed(at) or at in self._beside:
                return at
            if mark == base:
                return _NOTHING
            if entry.type == "merge":
                merges.append(at)
            if entry.type in GIVING_FACTS:
                self._facts.append(at)
            self._beside[at] = mark, _NOTHING
            self._usage.look(entry, below)
            below = entry
        return _NOTHING
