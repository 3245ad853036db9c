"""Merge, cherry-pick and context edits: other content on the current path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sessiontree.context.summary import Summary
from sessiontree.core.blob import Blob, blobs_needed
from sessiontree.core.blocks import END_KEYS, message_uuid, ordered
from sessiontree.core.codec import raw_values
from sessiontree.core.entry import PIECES, RESERVED, SETTINGS, SUMMARIES, Entry, check_fields
from sessiontree.core.spill import check_spilled
from sessiontree.engine.cursor import Cursor, Ref
from sessiontree.engine.reader import blocks_of
from sessiontree.engine.refs import LEAF
from sessiontree.engine.writer import EntryWriter
from sessiontree.errors import BlobError, CorruptionError, NothingToDoError, UsageError, with_step
from sessiontree.operations.messages import summary_text

_PICKABLE: Final = SUMMARIES | SETTINGS | PIECES | {"message", "custom_message", "handle", "custom"}


def cherry_pick(writer: EntryWriter, picked: Ref, source: Cursor | None) -> Entry:
    """See `Session.cherry_pick`."""
    source = source or writer.cursor
    entry = picked if isinstance(picked, Entry) else source.entry(picked)
    if entry.type not in _PICKABLE:
        raise UsageError(
            f"a {entry.type} cannot be picked: it has a meaning only at its place in the tree; "
            f"pick one of {', '.join(sorted(_PICKABLE))}"
        )
    members = _members(source, entry) if entry.type in PIECES else [entry]
    try:
        if entry.type in PIECES:
            type, fields = "message", _joined(members)
        else:
            type, fields = entry.type, _copied(entry)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"entry {entry.uuid} is damaged ({error}) and cannot be copied byte for byte"
        raise CorruptionError(message, source.reader.log.name, entry.offset) from error
    fields["metadata"] = {**_metadata_of(members), "cherryPickedFrom": entry.uuid}
    needed = [(one, list(blobs_needed(one.as_stored))) for one in members]
    if not any(blobs for _, blobs in needed):
        return writer.write(type, fields, None)
    _store_blobs(writer, needed)
    with writer.holding():  # gc cannot remove the blobs now
        _store_blobs(writer, needed)
        return writer.write(type, fields, None)


def _copied(entry: Entry) -> dict[str, Any]:
    """The fields of an entry, each value as it was written."""
    values: dict[str, Any] = dict(raw_values(entry.line))
    fields = {key: value for key, value in values.items() if key not in RESERVED}
    if entry.has_spilled:
        fields["spilled"] = values["spilled"]
    return fields


def _joined(members: Sequence[Entry]) -> dict[str, Any]:
    """The fields of one message from its pieces, each value as it was written."""
    blocks, end = ordered(members)
    blocks = [entry for entry in blocks if isinstance(entry.as_stored.get("block"), dict)]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = [raw_values(entry.line)["block"] for entry in blocks]
    if end is None:
        message["partial"] = True
    else:
        values = raw_values(end.line)
        keys = ("role", *END_KEYS) if end.get("role") else END_KEYS
        message |= {key: values[key] for key in keys if key in values}
    spilled = [
        [["message", "content", index, *path[1:]], *rest]
        for index, entry in enumerate(blocks)
        for path, *rest in _spilled_in(entry)
        if path[0] == "block"
    ]
    return {"message": message, **({"spilled": spilled} if spilled else {})}


def _spilled_in(entry: Entry) -> list[Any]:
    """The places of an entry's spilled strings; a SpilledError where they do not fit it."""
    if not entry.has_spilled:
        return []
    check_spilled(entry.as_stored)
    places: list[Any] = entry.as_stored["spilled"]
    return places


def _metadata_of(members: Sequence[Entry]) -> dict[str, Any]:
    found = (entry.as_stored.get("metadata") for entry in members)
    return {key: value for one in found if isinstance(one, dict) for key, value in one.items()}


def _members(source: Cursor, piece: Entry) -> list[Entry]:
    """All pieces of a streamed message, given one.

    Where several branches continue the message, those on the path to its last piece in the file.
    """
    if source.by_uuid(piece.uuid) is None:
        raise UsageError(
            f"entry {piece.uuid} is a part of a message of another session; to pick the whole "
            "message, give that session as 'source'"
        )
    reader, uuid = source.reader, message_uuid(piece)
    with source.alone():
        tree = reader.index()
        pieces = {row: reader.entry_at(row) for row in tree.rows_of_type(*PIECES)}
        own = {row for row, entry in pieces.items() if message_uuid(entry) == uuid}
        at = reader.row(source.entry(piece))
        last = next(row for row in sorted(own | {at}, reverse=True) if at in tree.rows_up(row))
        return [pieces[row] for row in reversed(list(tree.rows_up(last))) if row in own]


def _store_blobs(writer: EntryWriter, needed: Sequence[tuple[Entry, Sequence[Blob]]]) -> None:
    """Confirm the blobs of entries in this session; copy those of another session."""
    blobs = writer.reader.blobs
    for entry, wanted in needed:
        is_own = writer.reader.view.holds(entry)
        for blob in wanted:
            try:
                blobs.confirm(blob)  # of any size: it is not in memory whole
            except BlobError:
                if is_own:
                    raise
                writer.check_log_is_there()
                blobs.put(blocks_of(entry, blob))


def merge(writer: EntryWriter, ref: Ref, summary: Summary | None) -> Entry:
    """See `Session.merge`."""
    merged, seen = writer.cursor.entry(ref), writer.cursor.leaf
    base = writer.cursor.common(seen, merged)
    if base is None:
        raise UsageError(f"{merged.uuid} has no ancestor in common with the current path")
    if base == merged:
        raise NothingToDoError(
            f"{merged.uuid} is on the current path already; merge another branch"
        )
    fields: dict[str, Any] = {"mergedUuid": merged.uuid, "baseUuid": base.uuid}
    if summary is not None:
        fields["summary"] = summary_text(writer.cursor, summary, writer.cursor.below(base, merged))
    return writer.write("merge", fields, None, seen=seen)


def edit_context(
    writer: EntryWriter, ref: Ref, replacement: str | Mapping[str, Any] | None
) -> Entry:
    """See `Session.edit_context`."""
    target, seen = writer.cursor.entry(ref), writer.cursor.leaf
    if ref == LEAF:  # not a label or another annotation behind it
        target = writer.reader.skip_markers(target)
    if isinstance(replacement, str):
        replacement = {"content": replacement}
    cursor = writer.cursor
    if not target.is_content or not (cursor.is_above(target) or target in cursor.context().entries):
        error = UsageError(
            f"{target.uuid} contributes nothing to the current context: nothing to edit"
        )
        raise with_step(error, "see context")
    fields = {"targetUuid": target.uuid, "replacement": replacement}
    check_fields("context_edit", fields)
    return writer.write("context_edit", fields, None, seen=seen)
