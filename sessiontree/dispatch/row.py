"""An entry as one row of a list, with its handle unresolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.core.blocks import handle_text
from sessiontree.core.entry import Entry
from sessiontree.text.preview import preview, speaker

if TYPE_CHECKING:
    from sessiontree.dispatch.call import Call
    from sessiontree.session import Session

WIDTH: Final = 160
"""The characters of a preview, if the caller does not say."""

Width = Annotated[int, Meta(ge=20, le=4000, description="The characters of each preview.")]


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry in short."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    parent: Annotated[str | None, Meta(description="The uuid of its parent.")] = None
    type: Annotated[str, Meta(description="Its type, such as 'message' or 'compaction'.")]
    role: Annotated[
        str | None,
        Meta(description="Who speaks: 'user', 'assistant', 'system', or 'tool' for a result."),
    ] = None
    preview: Annotated[str, Meta(description="The start of its content, on one line.")] = ""
    time: Annotated[str | None, Meta(description="When it was written.")] = None
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    label: Annotated[str | None, Meta(description="Its label.")] = None
    handle: Annotated[str | None, Meta(description="The handle that it has.")] = None


def row_of(entry: Entry, label: str | None = None, width: int = WIDTH) -> Row:
    """An entry as a row."""
    return Row(
        uuid=entry.uuid,
        parent=entry.parent_uuid,
        type=entry.type,
        role=speaker(entry),
        preview=preview(entry, width=width),
        time=entry.timestamp,
        lane=entry.lane,
        label=label,
        handle=handle_text(entry) if entry.type == "handle" else None,
    )


def row_maker(call: Call, session: Session, width: int = WIDTH) -> Callable[[Entry], Row]:
    """A function that makes the rows of a session's entries; it ends a call that was stopped."""
    labels = session.reader.names().labels

    def make(entry: Entry) -> Row:
        call.check()
        return row_of(entry, labels.get(entry.uuid), width)

    return make
