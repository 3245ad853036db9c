"""What the model had: the context at the end of turns, as numbers of rows.

A context is made by the session's own rules (`Cursor.context`), so that the page shows what the
model got. The work is limited: for a session of many turns and no compaction it would grow with the
square of its length. The end of the current path comes first, then the turns with compactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError
from sessiontree.operations.turns import SessionOutline, Turn

_MOST_MESSAGES: Final = 30_000
"""The messages that the contexts of a page may have together."""


def contexts_of(
    cursor: Cursor, outline: SessionOutline, row_of: Mapping[str, int]
) -> dict[int, dict[str, Any]]:
    """For the place of each turn what the model had at its end; without turns beyond the limit."""
    found: dict[int, dict[str, Any]] = {}
    left = _MOST_MESSAGES
    for place in _in_order(outline):
        if left <= 0:
            break
        try:
            context = cursor.context(outline.turns[place].leaf)
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
