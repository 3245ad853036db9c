"""Undo: a move back to where the session was before its last step.

Invariant: nothing is removed, and a second undo takes back the step before, never the first undo:
that move names the step that it takes back.
"""

from __future__ import annotations

from typing import Final

from sessiontree.core.entry import ANNOTATIONS, HEADER, MOVES, SETTINGS, Entry
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.writer import Draft, EntryWriter, fresh_uuid
from sessiontree.errors import NothingToDoError

UNDID: Final = "undid"
"""The key of a move's metadata with the uuid of the entry that it takes back."""

_STEPS: Final = MOVES | {"compaction", "context_edit", "stack_push", "merge"}


def undo(writer: EntryWriter) -> Entry:
    """See `Session.undo`."""
    cursor = writer.cursor
    with cursor.alone():
        step, settings = _last_step(cursor)
        before = _before(cursor, step)
        fields = {"fromUuid": cursor.leaf.uuid, "metadata": {UNDID: step.uuid}}
    moves: list[Draft] = [("branch", fields, fresh_uuid())]
    moves += [(entry.type, _fields_of(entry), fresh_uuid()) for entry in settings]
    writer.write_run(moves, before, "branch")
    return step


def _last_step(cursor: Cursor) -> tuple[Entry, list[Entry]]:
    """The last step that was not taken back, and the settings made since, oldest first."""
    settings: list[Entry] = []
    for entry in cursor.up():
        if entry.type in SETTINGS:
            settings.insert(0, entry)
        elif entry.type in _STEPS and not _is_undo(entry):
            return entry, settings
        elif entry.type not in ANNOTATIONS and not _is_undo(entry) and entry.type != HEADER:
            raise NothingToDoError(
                f"nothing to undo: a {entry.type} was written since ({entry.uuid}); undo takes "
                "back a move, a compaction, a merge, an edit or a push that is the last entry; "
                "'rewind' goes to before a prompt"
            )
    raise NothingToDoError("nothing to undo: the session has no move, compaction, edit or push")


def _is_undo(entry: Entry) -> bool:
    metadata = entry.as_stored.get("metadata") if entry.type == "branch" else None
    return isinstance(metadata, dict) and UNDID in metadata


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


def _fields_of(setting: Entry) -> dict[str, object]:
    keys = ("provider", "modelId", "thinkingLevel", "metadata")
    return {key: setting[key] for key in keys if key in setting.as_stored}
