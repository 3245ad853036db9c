"""The labels of a session, with the entries that they name."""

from __future__ import annotations

import msgspec

from sessiontree.core.index import NO_ROW
from sessiontree.engine.cursor import Cursor
from sessiontree.operations.outline import Outline
from sessiontree.text.preview import preview, role


class Label(msgspec.Struct, frozen=True):
    """A label.

    Attributes:
        label: its text.
        uuid, type: the entry that it names.
        role: the role of the entry's message, or None.
        preview: the content of the entry, shortened to 60 characters on one line.
        time: the timestamp of the entry as stored, or None.
        current: whether the entry is on the path to the session's leaf.
    """

    label: str
    uuid: str
    type: str
    role: str | None
    preview: str
    time: str | None
    current: bool


def labels(cursor: Cursor) -> list[Label]:
    """The labels whose entries are in the file, in the order of these entries."""
    with cursor.alone():
        outline = Outline.of(cursor)
        tree = outline.tree
        named = ((tree.row(uuid), text) for uuid, text in outline.names.labels.items())
        found = sorted((row, text) for row, text in named if row != NO_ROW)
        on_path = set(tree.rows_up(outline.leaf))
        return [_label(outline, row, text, current=row in on_path) for row, text in found]


def _label(outline: Outline, row: int, text: str, *, current: bool) -> Label:
    entry = outline.entry(row)
    return Label(
        label=text,
        uuid=entry.uuid,
        type=entry.type,
        role=role(entry),
        preview=preview(entry),
        time=entry.timestamp,
        current=current,
    )
