"""Merge, cherry-pick and context edits: other content on the current path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sessiontree.context.summary import Summary, text_of_summary
from sessiontree.core.blob import Blob, blobs_needed
from sessiontree.core.codec import raw_values
from sessiontree.core.entry import RESERVED, SETTINGS, SUMMARIES, Entry, check_fields
from sessiontree.engine.cursor import Ref
from sessiontree.engine.reader import blocks_of
from sessiontree.engine.refs import LEAF
from sessiontree.engine.writer import EntryWriter
from sessiontree.errors import BlobError, CorruptionError, NothingToDoError, UsageError

_PICKABLE: Final = SUMMARIES | SETTINGS | {"message", "custom_message", "handle", "custom"}


def cherry_pick(writer: EntryWriter, picked: Ref) -> Entry:
    """See `Session.cherry_pick`."""
    entry = picked if isinstance(picked, Entry) else writer.cursor.entry(picked)
    if entry.type not in _PICKABLE:
        raise UsageError(
            f"a {entry.type} cannot be picked: it has a meaning only at its place in the tree; "
            f"pick one of {', '.join(sorted(_PICKABLE))}"
        )
    try:
        values: dict[str, Any] = dict(raw_values(entry.line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"entry {entry.uuid} is damaged ({error}) and cannot be copied byte for byte"
        raise CorruptionError(message, writer.log.name, entry.offset) from error
    fields = {key: value for key, value in values.items() if key not in RESERVED}
    if entry.has_spilled:
        fields["spilled"] = values["spilled"]
    own = entry.as_stored.get("metadata")
    fields["metadata"] = {**(own if isinstance(own, dict) else {}), "cherryPickedFrom": entry.uuid}
    needed = list(blobs_needed(entry.as_stored))
    if not needed:
        return writer.write(entry.type, fields, None)
    _store_blobs(writer, entry, needed)
    with writer.holding():  # gc cannot remove the blobs now
        _store_blobs(writer, entry, needed)
        return writer.write(entry.type, fields, None)


def _store_blobs(writer: EntryWriter, entry: Entry, needed: list[Blob]) -> None:
    """Confirm the blobs of an entry in this session; copy those of another session."""
    blobs = writer.reader.blobs
    is_own = writer.reader.view.holds(entry)
    for blob in needed:
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
        fields["summary"] = text_of_summary(summary, writer.cursor.below(base, merged))
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
        raise UsageError(
            f"{target.uuid} contributes nothing to the current context: nothing to edit; "
            "'context --json' and 'path' show which entries do"
        )
    fields = {"targetUuid": target.uuid, "replacement": replacement}
    check_fields("context_edit", fields)
    return writer.write("context_edit", fields, None, seen=seen)
