"""Beside: the `usage` entries of a copied path that are not on it.

An annotation hangs below the last entry of its lane, and the next message hangs below that entry
too, so the usage of a path stands beside it. A `usage` entry belongs to the last entry of its lane
before it in the file, annotations aside: the entry at which the lane stood when the tokens were
spent. The place decides, not the parent: the parent may be an annotation that is not copied.

Invariants: the walk (`Beside`) and the index (`add_usage`) find the same entries.
"""

from __future__ import annotations

from sessiontree.core.entry import ANNOTATIONS, HEADER, Entry
from sessiontree.core.index import TreeIndex
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
    """Whether the lane of an entry goes on with one behind it."""
    return below.type not in ANNOTATIONS and below.lane == entry.lane


class Beside:
    """The usage that belongs to entries, found by a look at what follows each in the file.

    Attributes:
        found: the hash of the uuid of each `usage` entry, by its offset.
    """

    def __init__(self, reader: TreeReader) -> None:
        self.found: dict[int, int] = {}
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
        for found, offset in self._reader.naming().on_lane(entry.lane, end):
            if found.type not in ANNOTATIONS:
                break
            if found.type == "usage":
                self.found[offset] = hash(found.uuid)
