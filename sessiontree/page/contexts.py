"""What the model had: the context at the end of turns, as numbers of rows.

A context is made by the session's own rules (`Cursor.context`), so that the page shows what the
model got. The work is limited: for a session of many turns and no compaction it would grow with the
square of its length, and for branches below a long path with their product. The end of the current
path comes first, then the turns with compactions.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError
from sessiontree.operations.turns import SessionOutline, Turn

_MOST_MESSAGES: Final = 30_000
"""The messages that the contexts of a page may have together."""

_MOST_ENTRIES: Final = 100_000
"""The entries that are read for them, also those that give no message."""

_MOST_MERGES: Final = 100
"""The merges of a session above which its page has no contexts: each may read much again."""


def contexts_of(
    cursor: Cursor, outline: SessionOutline, row_of: Mapping[str, int]
) -> dict[int, dict[str, Any]]:
    """For the place of each turn what the model had at its end; without turns beyond the limit."""
    found: dict[int, dict[str, Any]] = {}
    tree = cursor.reader.index()
    if len(tree.rows_of_type("merge")) > _MOST_MERGES:
        return found
    read = _entries_read(tree)
    left, entries_left = _MOST_MESSAGES, _MOST_ENTRIES
    for place in _in_order(outline):
        if left <= 0 or entries_left <= 0:
            break
        leaf = outline.turns[place].leaf
        entries_left -= read[tree.row(leaf)]
        try:
            context = cursor.context(leaf)
        except SessionTreeError:  # merges that take in each other, or a turn that is gone
            continue
        left -= len(context.messages) + 1
        rows = [row for entry in context.entries if (row := row_of.get(entry.uuid)) is not None]
        found[place] = {
            "messages": len(context.messages),
            "tokens": context.tokens,
            "rows": _ranges(rows),
            "warnings": len(context.warnings),
        }
    return found


def _entries_read(tree: TreeIndex) -> array[int]:
    """For each row how many entries its context reads: those up to a compaction, or all above."""
    compactions = set(tree.rows_of_type("compaction"))
    found = array("q")
    for row, parent in enumerate(tree.parents):
        is_first = row in compactions or not NO_ROW < parent < row
        found.append(1 if is_first else found[parent] + 1)
    return found


def _in_order(outline: SessionOutline) -> list[int]:
    def rank(place: int) -> tuple[bool, bool, bool, int]:
        turn: Turn = outline.turns[place]
        is_compacted = any(event.kind == "compaction" for event in turn.events)
        return (place != outline.here, not is_compacted, not turn.current, -place)

    places = (place for place, turn in enumerate(outline.turns) if not turn.subagent)
    return sorted(places, key=rank)


def _ranges(rows: Sequence[int]) -> list[int]:
    """Numbers as runs, the first and the last of each, in order."""
    found: list[int] = []
    for row in sorted(set(rows)):
        if found and row == found[-1] + 1:
            found[-1] = row
        else:
            found += [row, row]
    return found
