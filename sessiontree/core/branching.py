"""Branching: which rows of a tree are the tips of its branches, and where each forked.

A lane leaves another's line where its first entry hangs; that ends nothing there. What
stands between two entries of one lane belongs to its line, whoever wrote it: so a kept
lane is a part of the line that keeps it.

Invariants: where main goes on from is never another lane's; a lane leaves no more than
one row of its parent's line; nothing here recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from sessiontree.core.index import NO_ROW, Tree


class Branching:
    """The branches of a tree as it is now.

    Attributes:
        content: for each row 1 where it has content, else 0.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.content = tree.content_rows()
        self._lanes = self._lines()
        self._ways = array("i", [0]) * len(tree)
        self._has_below = bytearray(len(tree))
        self._count_ways()

    def tips(self) -> Iterator[int]:
        """The rows with content below which their line has no more, in file order."""
        for row, has_content in enumerate(self.content):
            if has_content and not self._has_below[row]:
                yield row

    def fork_of(self, tip: int) -> tuple[int, int]:
        """The row where the line of a tip left the others, or NO_ROW; its content below that."""
        tree, length = self._tree, 0
        for row in tree.rows_up(tip):
            if row != tip and self._ways[row] > 1:
                return row, length
            length += self.content[row]
            if self._leaves(row):
                return tree.parents[row], length
        return NO_ROW, length

    def lane_of(self, row: int) -> str | None:
        """The lane whose line a row is on: the one that keeps it, where one does."""
        return self._lanes[row] if self._lanes else None

    def _lines(self) -> list[str | None]:
        """For each row the lane whose line it is on; empty where there is main alone."""
        tree = self._tree
        if len(tree.lanes) == 1:
            return []
        lanes = [tree.lane_of(row) for row in range(len(tree))]
        first: dict[str | None, int] = {}
        for row, parent in enumerate(tree.parents):
            lane = lanes[row]
            begins = first.setdefault(lane, row)
            may_come_back = lane is None or begins < row or tree.has_late_parents
            if parent != NO_ROW and lanes[parent] != lane and may_come_back:
                for above in self._between(row, lanes, begins):
                    lanes[above] = lane
        return lanes

    def _between(self, row: int, lanes: list[str | None], first: int) -> list[int]:
        """The rows of others between a row and the next above of its lane; none of main."""
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
        """Whether a row leaves the line of its parent: it begins another lane's."""
        parent = self._tree.parents[row]
        if parent == NO_ROW or not self._lanes:
            return False
        return self._lanes[row] != self._lanes[parent]

    def _count_ways(self) -> None:
        """Count for each row the children by which its own line goes on to content."""
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
