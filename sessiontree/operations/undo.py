"""Undo: a move back to where the session was before its last step.

Invariant: nothing is removed, and a second undo takes back the step before, never the first undo:
that move names the step that it takes back.
"""

from __future__ import annotations

from typing import Final

from sessiontree.core.entry import ANNOTATIONS, HEADER, MOVES, SETTINGS, UNDID, Entry
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.writer import EntryWriter
from sessiontree.errors import NothingToDoError
from sessiontree.operations.moves import is_step_back, step_back

_STEPS: Final = MOVES | {"compaction", "context_edit", "stack_push", "merge"}
_PASSED: Final = ANNOTATIONS | {HEADER}


def undo(writer: EntryWriter) -> Entry:
    """See `Session.undo`."""
    cursor = writer.cursor
    with cursor.alone():
        step, settings = _last_step(cursor)
        before = _before(cursor, step)
    step_back(writer, UNDID, step, before, settings)
    return step


def _last_step(cursor: Cursor) -> tuple[Entry, list[Entry]]:
    """The last step that was not taken back, and the settings made since, oldest first."""
    settings: list[Entry] = []
    for entry in cursor.up():
        if entry.type in SETTINGS:
            settings.insert(0, entry)
        elif entry.type in _PASSED or is_step_back(entry, UNDID):
            continue
        elif entry.type in _STEPS:
            return entry, settings
        else:
            raise NothingToDoError(
                f"nothing to undo: a {entry.type} was written since ({entry.uuid}); undo takes "
                "back a move, a compaction, a merge, an edit or a push that is the last entry; "
                "'rewind' goes to before a prompt"
            )
    raise NothingToDoError("nothing to undo: the session has no move, compaction, edit or push")


def _before(cursor: Cursor, step: Entry) -> Entry:
    """The leaf before a step."""
    if step.type not in MOVES:
        return cursor.reader.parent(step)
    left = step.get("fromUuid")
    found = cursor.by_uuid(left) if isinstance(left, str) else None
    if found is None:
        raise NothingToDoError(
            f"nothing to undo: the move {step.uuid} does not say where the session was before; "
            "'switch' goes to any entry"
        )
    return found
