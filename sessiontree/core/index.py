"""The whole-file index: the parent of each entry, and the offset of its line.

Built in one pass by a decoder that skips all but the structural keys, and extended as the file
grows. An entry is a row, numbered in file order from 0 (the header). A row costs its uuid, one dict
slot and some bytes in arrays.

Invariants: the parent of a row is the nearest row before it with the parent's uuid, else the
nearest after it (a second row with a uuid that its line spells only with escapes is never a parent,
so that a search for the plain spelling is enough); following parents always ends (an edge that
would close a circle is cut, and reported); the header is the first row and has no parent; every
entry has a row, and a second header has none.

`Branching` finds the tips of the branches and where each forked. A lane leaves another's line where
its first entry's parent is; the other line does not end there. Rows between two entries of one lane
belong to its line, on whatever lane they were written: so a kept lane is a part of the line that
keeps it.

Invariants: main never goes on from a row that counts for another lane; a lane leaves at most one
row of its parent's line; nothing here recurses.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import ge
from typing import Any, Final

import msgspec

from sessiontree.core.codec import (
    LineHead,
    ended_lines,
    head,
    heads_of,
    parts,
    quoted,
    report_header,
    report_run,
)
from sessiontree.core.damage import Report
from sessiontree.core.entry import CONTENT, HEADER, Entry

NO_ROW: Final = -1
_MAIN: Final = 0  # the id of the lane without a name
_NEW: Final = -1  # the id of a type or lane not seen before


class Branch(msgspec.Struct, frozen=True, rename="camel"):
    """A branch, from the fork to the last entry."""

    # the uuid of the last entry with content; of a named branch without one, of the entry that
    # gives the name
    leaf: str
    # the uuid of the entry where this branch separates from other branches, or where its lane
    # starts on another lane; None if there is no such entry. If the first entry of lane B is below
    # entry X of lane A, X is the fork of the branch on B. The branch on A goes on
    fork: str | None
    length: int  # the number of entries with content below the fork
    current: bool  # whether the session is at the end of this branch
    lane: str | None  # the lane of the last entry; None for main
    name: str | None  # the name of the branch, or None
    preview: str  # a short text of the last entry
    updated: str | None  # the timestamp of the last entry, or None


class TreeIndex:
    """The rows of a file.

    `end` is the offset up to which the file was read; `has_late_parents` says whether some row is
    below one that comes after it.
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.parents = array("i")
        self.offsets = array("Q")
        self.end = 0
        # The key None makes this a dict that stores the hashes of its keys: filling it with a
        # million uuids takes four fifths of the time.
        self._rows: dict[str | None, int] = {None: NO_ROW}
        self._types: list[str] = []
        self._type_ids: dict[str, int] = {}
        self._type_of = array("I")
        self._lanes: list[str | None] = [None]
        self._lane_ids: dict[str | None, int] = {None: _MAIN}
        self._lane_of = array("I")
        self.has_late_parents = False
        self._in_order: list[str] = []
        self._missing: dict[str, list[int]] = {}
        self._above = array("i")
        self._first_child = array("i")
        self._next_sibling = array("i")

    def __len__(self) -> int:
        return len(self.uuids)

    def extend(self, block: bytes, offset: int, report: Report) -> None:
        """Add whole lines, each ended by LF, that start at `offset`."""
        self.extend_by(ended_lines(block), block, offset, report)
        self.end = offset + len(block)

    def extend_by(self, lines: list[bytes], block: bytes, offset: int, report: Report) -> None:
        """Add the lines of a block, each with its LF; see `add`."""
        if self._take_in(lines, offset):
            return
        for part, count in parts(block, lines):
            if count > 1:
                report_run(part[0][:-1], count, offset, report)
                offset += count * len(part[0])
                continue
            for line in part:
                self.add(line[:-1], offset, report)
                offset += len(line)

    def _take_in(self, lines: list[bytes], offset: int) -> bool:
        """Add lines together, or none of them; whether they were added.

        It works where each line is a new entry of a known type and lane, below an entry before it.
        Nearly all blocks of a file are so, and cost less this way.
        """
        heads = heads_of(lines)
        kinds = [self._type_ids.get(head.type, _NEW) for head in heads]
        lanes = [self._lane_ids.get(head.lane, _NEW) for head in heads]
        uuids = [head.uuid for head in heads]
        if not heads or _NEW in kinds or _NEW in lanes or "" in uuids:
            return False
        if self._type_ids.get(HEADER) in kinds or not self._missing.keys().isdisjoint(uuids):
            return False
        rows = range(len(self), len(self) + len(heads))
        given = list(map(self._rows.setdefault, uuids, rows))
        above = self._rows_above([head.parent_uuid for head in heads], uuids, rows)
        if given != list(rows) or NO_ROW in above or any(map(ge, above, rows)):
            for uuid, one, row in zip(uuids, given, rows, strict=True):
                if one == row:
                    del self._rows[uuid]
            return False
        self.uuids += uuids
        self.parents.frombytes(array("I", above).tobytes())  # ten times as fast as an "i"
        self.offsets += array("Q", list(accumulate(map(len, lines[:-1]), initial=offset)))
        self._type_of += array("I", kinds)
        self._lane_of += array("I", lanes)
        return True

    def _rows_above(
        self, parents: list[str | None], uuids: list[str], rows: Sequence[int]
    ) -> list[int]:
        """The row of each parent, where all of `uuids` are in `rows`; else NO_ROW."""
        row_of = self._rows.get
        if parents[1:] == uuids[:-1]:  # no branch: no look-up of each
            return [row_of(parents[0], NO_ROW), *rows[:-1]]
        return [row_of(parent, NO_ROW) for parent in parents]

    def add(self, line: bytes, offset: int, report: Report) -> None:
        """Add one line; a line that is not an entry is reported and gets no row."""
        found = head(line, offset, report)
        if found is not None:
            self._add(found, line, offset, report)

    def _add(self, found: LineHead | Entry, line: bytes, offset: int, report: Report) -> None:
        uuid = found.uuid
        row = len(self.uuids)
        if row and found.type == HEADER:
            report_header(found, offset, report)
            return
        parent = None if found.type == HEADER else found.parent_uuid
        rows = self._rows
        above = rows.get(parent, NO_ROW)
        if parent is not None:
            if parent == uuid and above == NO_ROW:
                report("cycle", offset, f"entry {uuid} names itself as its parent")
            elif above == NO_ROW:
                self._missing.setdefault(parent, []).append(row)
        elif row:
            report("missing parent", offset, f"entry {uuid} names no parent")
        is_first = uuid not in rows
        if not is_first:
            report("duplicate", offset, f"the uuid {uuid} is in an earlier line too")
        self.uuids.append(uuid)
        self.parents.append(above)
        self.offsets.append(offset)
        self._type_of.append(self._known(found.type, self._types, self._type_ids))
        self._lane_of.append(self._known(found.lane, self._lanes, self._lane_ids))
        if is_first or quoted(uuid) in line:
            rows[uuid] = row
        if uuid in self._missing:
            self._adopt(uuid, row, report)

    def _adopt(self, uuid: str, row: int, report: Report) -> None:
        """Put rows that waited for this uuid below it, unless that closes a circle."""
        self._above.extend(self.parents[len(self._above) :])
        for child in self._missing.pop(uuid):
            if self._top(row) == child:  # a waiting row is a top itself
                cause = f"entry {self.uuids[child]} is an ancestor of its own parent {uuid}"
                report("cycle", self.offsets[child], cause)
                continue
            self.parents[child] = self._above[child] = row
            self.has_late_parents = True
            cause = f"the parent {uuid} of entry {self.uuids[child]} is after it"
            report("late parent", self.offsets[child], cause)

    def _top(self, row: int) -> int:
        """The topmost ancestor of a row.

        `_above` holds some ancestor of each row, nearer to the top after each call (path halving,
        as in disjoint sets: Tarjan and van Leeuwen, 1984).
        """
        above = self._above
        while (one := above[row]) != NO_ROW:
            if (two := above[one]) == NO_ROW:
                return one
            above[row] = two
            row = two
        return row

    @staticmethod
    def _known(name: Any, names: list[Any], ids: dict[Any, int]) -> int:
        if name not in ids:
            ids[name] = len(names)
            names.append(name)
        return ids[name]

    @property
    def has_duplicates(self) -> bool:
        """True if some uuid has more than one row."""
        return len(self._rows) - 1 != len(self.uuids)

    def missing_parents(self) -> Iterator[tuple[int, str]]:
        """The rows whose parent is not in the file, with the parent's uuid."""
        for parent, rows in self._missing.items():
            for row in rows:
                yield row, parent

    def row(self, uuid: str) -> int:
        """The last row with this uuid, or NO_ROW."""
        return self._rows.get(uuid, NO_ROW)

    def row_at(self, offset: int) -> int:
        """The row whose line starts at this offset, or NO_ROW."""
        row = bisect_left(self.offsets, offset)
        return row if row < len(self) and self.offsets[row] == offset else NO_ROW

    def type_of(self, row: int) -> str:
        return self._types[self._type_of[row]]

    def lane_of(self, row: int) -> str | None:
        return self._lanes[self._lane_of[row]]

    @property
    def lanes(self) -> list[str | None]:
        """The lanes of the file, None (main) first, then as they appear."""
        return self._lanes.copy()

    def rows_of_type(self, *types: str, since: int = 0) -> list[int]:
        """The rows of these types from row `since` on, in file order."""
        ids = {self._type_ids[kind] for kind in types if kind in self._type_ids}
        if not ids:
            return []
        return [row for row, id in enumerate(self._type_of[since:], since) if id in ids]

    def some_uuids_with_prefix(self, prefix: str, most: int) -> list[str]:
        """The first uuids in order that start with `prefix`, at most so many."""
        if len(self._in_order) != len(self.uuids):
            self._in_order = sorted(self.uuids)
        at = bisect_left(self._in_order, prefix)
        near = self._in_order[at : at + most]
        return [uuid for uuid in near if uuid.startswith(prefix)]

    def rows_with_prefix(self, prefix: str) -> list[int]:
        """The last row of each uuid that starts with `prefix`."""
        rows = self._rows.items()
        return [row for uuid, row in rows if uuid is not None and uuid.startswith(prefix)]

    def last_on(self, lane: str | None) -> int:
        """The last row of a lane, or NO_ROW."""
        return next(self.rows_on(lane), NO_ROW)

    def first_of_each_lane(self) -> dict[str | None, int]:
        """The first row of each lane that has one."""
        rows = range(len(self))
        first = dict(zip(reversed(self._lane_of), reversed(rows), strict=True))
        return {self._lanes[id]: row for id, row in first.items()}

    def last_of_each_lane(self) -> dict[str | None, int]:
        """The last row of each lane that has one."""
        last = dict(zip(self._lane_of, range(len(self)), strict=True))
        return {self._lanes[id]: row for id, row in last.items()}

    def rows_on(self, lane: str | None) -> Iterator[int]:
        """The rows of a lane, the last first."""
        id = self._lane_ids.get(lane)
        if id is not None:
            yield from (row for row in reversed(range(len(self))) if self._lane_of[row] == id)

    def rows_up(self, row: int) -> Iterator[int]:
        """A row and its ancestors, up to the top."""
        while row != NO_ROW:
            yield row
            row = self.parents[row]

    def roots(self) -> list[int]:
        """The rows without a parent: the header, and orphans."""
        return [row for row, parent in enumerate(self.parents) if parent == NO_ROW]

    def only_children(self, row: int) -> list[int]:
        """The rows below a row down to a fork or an end, each an only child."""
        self._link()
        first, following = self._first_child, self._next_sibling
        found: list[int] = []
        while (row := first[row]) != NO_ROW and following[row] == NO_ROW:
            found.append(row)
        return found

    def children(self, row: int) -> list[int]:
        """The children of a row, in file order."""
        self._link()
        following = self._next_sibling
        found: list[int] = []
        child = self._first_child[row]
        while child != NO_ROW:
            found.append(child)
            child = following[child]
        return found

    def _link(self) -> None:
        count = len(self.uuids)
        if len(self._first_child) == count:
            return
        first = self._first_child = array("i", [NO_ROW]) * count
        following = self._next_sibling = array("i", [NO_ROW]) * count
        parents = self.parents
        for row in range(count - 1, -1, -1):
            parent = parents[row]
            if parent != NO_ROW:
                following[row] = first[parent]
                first[parent] = row

    def subtree(self, row: int) -> list[int]:
        """A row and all its descendants, in file order."""
        found = [row]
        for above in found:
            found.extend(self.children(above))
        return sorted(found)

    def rows_below(self, row: int) -> bytearray:
        """For each row 1 where it is this row or its descendant, else 0."""
        below = bytearray(len(self))
        waiting = [row]
        while waiting:
            below[at := waiting.pop()] = 1
            waiting += self.children(at)
        return below

    def content_rows(self) -> bytearray:
        """For each row 1 where it is of a content type, else 0."""
        content = {id for kind, id in self._type_ids.items() if kind in CONTENT}
        return bytearray(id in content for id in self._type_of)

    def rows_above_content(self, content: bytearray) -> bytearray:
        """For each row 1 where some descendant has content, else 0."""
        above = bytearray(len(self))
        parents = self.parents
        for row in range(len(self)):
            if content[row]:
                parent = parents[row]
                while parent != NO_ROW and not above[parent]:
                    above[parent] = 1
                    parent = parents[parent]
        return above


class Ancestry:
    """Which rows of a tree are above which, as it is now; a question costs one step."""

    def __init__(self, tree: TreeIndex) -> None:
        self._entered = entered = array("i", [0]) * len(tree)
        self._left = left = array("i", [0]) * len(tree)
        waiting = tree.roots()
        time = 0
        while waiting:
            row = waiting.pop()
            if row < 0:  # all below it was entered
                left[~row] = time
                continue
            time += 1
            entered[row] = time
            waiting.append(~row)
            waiting += tree.children(row)

    def is_above(self, above: int, row: int) -> bool:
        """True if a row is another or an ancestor of it."""
        return self._entered[above] <= self._entered[row] <= self._left[above]


class Branching:
    """The branches of a tree as it is now; `content` has for each row 1 where it has content."""

    def __init__(self, tree: TreeIndex) -> None:
        self._tree = tree
        self.content = tree.content_rows()
        self._lanes = self._lines()
        self._ways = array("i", [0]) * len(tree)
        self._has_below = bytearray(len(tree))
        self._count_ways()

    def tips(self) -> Iterator[int]:
        """The last rows with content on their line, in file order."""
        for row, has_content in enumerate(self.content):
            if has_content and not self._has_below[row]:
                yield row

    def fork_of(self, tip: int) -> tuple[int, int]:
        """The row where the line of a tip left the others, or NO_ROW, and the content below it."""
        tree, length = self._tree, 0
        for row in tree.rows_up(tip):
            if row != tip and self._ways[row] > 1:
                return row, length
            length += self.content[row]
            if self._leaves(row):
                return tree.parents[row], length
        return NO_ROW, length

    def lane_of(self, row: int) -> str | None:
        """The lane whose line a row is on."""
        return self._lanes[row] if self._lanes else None

    def _lines(self) -> list[str | None]:
        tree = self._tree
        if len(tree.lanes) == 1:
            return []
        lanes = [tree.lane_of(row) for row in range(len(tree))]
        first: dict[str | None, int] = {}
        before: Counter[str | None] = Counter()  # the rows so far on the line of each lane
        for row, parent in enumerate(tree.parents):
            lane = lanes[row]
            begins = first.setdefault(lane, row)
            may_come_back = lane is None or before[lane] or tree.has_late_parents
            before[lane] += 1
            if parent != NO_ROW and lanes[parent] != lane and may_come_back:
                for above in self._between(row, lanes, begins):
                    before[lanes[above]] -= 1
                    before[lane] += 1
                    lanes[above] = lane
        return lanes

    def _between(self, row: int, lanes: list[str | None], first: int) -> list[int]:
        """The rows of other lanes between a row and the next of its lane above; none of main."""
        tree, lane = self._tree, lanes[row]
        found: list[int] = []
        for above in tree.rows_up(tree.parents[row]):
            if lanes[above] == lane:
                return found
            if lanes[above] is None or (above < first and not tree.has_late_parents):
                return []
            found.append(above)
        return []

    def _leaves(self, row: int) -> bool:
        """True if a row begins another lane than its parent's line."""
        parent = self._tree.parents[row]
        if parent == NO_ROW or not self._lanes:
            return False
        return self._lanes[row] != self._lanes[parent]

    def _count_ways(self) -> None:
        parents, ways, has_below = self._tree.parents, self._ways, self._has_below
        for row in range(len(parents)):
            above = row if self.content[row] else NO_ROW
            while above != NO_ROW and not self._leaves(above):
                parent = parents[above]
                if parent == NO_ROW:
                    break
                ways[parent] += 1
                if has_below[parent] or self.content[parent]:
                    has_below[parent] = 1
                    break
                has_below[parent] = 1
                above = parent
