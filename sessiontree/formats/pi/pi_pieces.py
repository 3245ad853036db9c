"""Messages that were written piece by piece: which pieces are told together, and where."""

from __future__ import annotations

from sessiontree.core.index import Tree
from sessiontree.operations.source import PIECES, Source


class Pieces:
    """The pieces that are told together: those on the current path, else on the last one's."""

    def __init__(self, source: Source) -> None:
        tree = source.tree
        groups: dict[str, list[int]] = {}
        for row in tree.rows_of_type(*PIECES):
            named = source.session._entry_at(row).get("messageUuid")
            groups.setdefault(named if isinstance(named, str) else "", []).append(row)
        self._members: dict[int, list[int]] = {}
        current = {row: n for n, row in enumerate(tree.rows_up(source.leaf))} if groups else {}
        for rows in groups.values():
            above = current if any(row in current for row in rows) else _above(tree, rows)
            told = sorted((row for row in rows if row in above), key=above.__getitem__)
            told.reverse()
            self._members.update((row, told) for row in told)

    def at(self, row: int) -> list[int] | None:
        """The rows of the message that a piece belongs to; None where it is left out."""
        return self._members.get(row)


def _above(tree: Tree, rows: list[int]) -> dict[int, int]:
    """How far above the last of the rows those on its path are, as far up as there are any."""
    missing = set(rows)
    found: dict[int, int] = {}
    for steps, row in enumerate(tree.rows_up(rows[-1])):
        found[row] = steps
        missing.discard(row)
        if not missing:
            break
    return found
