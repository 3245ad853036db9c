"""The entries of a turn in full, as a screen shows them.

Invariants: content that is missing or damaged is told in its place, and hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sessiontree.core.entry import CONTENT, Entry
from sessiontree.core.message import Message
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError
from sessiontree.operations.messages import is_typed, with_messages
from sessiontree.operations.turns import Turn, entries_of
from sessiontree.text.parts import Part, parts_of
from sessiontree.text.preview import is_unclear, speaker, told


class ReadEntry(msgspec.Struct, frozen=True):
    """An entry in full.

    Attributes:
        uuid, type: the stored values of the entry.
        speaker: who speaks, as people read it; else the type.
        time: the timestamp as stored, or None.
        label: the label of the entry, or None.
        parts: the content.
    """

    uuid: str
    type: str
    speaker: str
    time: str | None
    label: str | None
    parts: list[Part]


def read_turn(cursor: Cursor, turn: Turn) -> Iterator[ReadEntry]:
    """The entries of a turn that have content, in order; settings and annotations are left out."""
    labels = dict(turn.labels)
    entries = entries_of(cursor, turn)
    for entry, message in with_messages(entries, cursor.messages, is_wanted=is_unclear):
        if entry.type not in CONTENT and not is_typed(entry):
            continue
        yield ReadEntry(
            uuid=entry.uuid,
            type=entry.type,
            speaker=speaker(entry, message) or entry.type,
            time=entry.timestamp,
            label=labels.get(entry.uuid),
            parts=_parts(entry, message),
        )


def _parts(entry: Entry, message: Message | None) -> list[Part]:
    try:
        return parts_of(entry.body, message)
    except SessionTreeError as error:  # of a blob, which is read with its part
        return [Part("error", "", str(error)), *parts_of(told(entry.as_stored), message)]
