"""Combining: taking work from another branch, or another session, into this path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sessiontree.context.summary import Summary, text_of_summary
from sessiontree.core.blob import Blob, blobs_needed
from sessiontree.core.codec import raw_values
from sessiontree.core.entry import RESERVED, SETTINGS, SUMMARIES, Entry, check_fields
from sessiontree.engine import ancestry
from sessiontree.engine.fetching import blocks_of
from sessiontree.engine.reader import Ref
from sessiontree.engine.refs import LEAF
from sessiontree.engine.writer import Writer
from sessiontree.errors import BlobError, CorruptionError, NothingToDoError, UsageError

_PICKABLE: Final = SUMMARIES | SETTINGS | {"message", "custom_message", "handle", "custom"}


def cherry_pick(session: Writer, picked: Ref) -> Entry:
    """See `Session.cherry_pick`."""
    entry = picked if isinstance(picked, Entry) else session.entry(picked)
    if entry.type not in _PICKABLE:
        raise UsageError(
            f"a {entry.type} cannot be picked: it speaks of the place where it stands; "
            f"pick one of {', '.join(sorted(_PICKABLE))}"
        )
    try:
        values: dict[str, Any] = dict(raw_values(entry.line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"entry {entry.uuid} is damaged ({error}) and cannot be copied byte for byte"
        raise CorruptionError(message, session.file or "", entry.offset) from error
    fields = {key: value for key, value in values.items() if key not in RESERVED}
    if entry.has_spilled:
        fields["spilled"] = values["spilled"]
    own = entry.as_stored.get("metadata")
    fields["metadata"] = {**(own if isinstance(own, dict) else {}), "cherryPickedFrom": entry.uuid}
    if not _take_blobs_along(session, entry):
        return session._write(entry.type, fields, None)
    with session._holding():  # from here on nobody takes the blobs for garbage
        _take_blobs_along(session, entry)
        return session._write(entry.type, fields, None)


def _take_blobs_along(session: Writer, entry: Entry) -> bool:
    """Keep the blobs of an entry with the session; whether it has any."""
    needed = list(blobs_needed(entry.as_stored))
    for blob in needed:
        if session._view.holds(entry):
            session.blobs.confirm(blob)  # of any size: it is not in memory whole
        else:
            _take_along(session, entry, blob)
    return bool(needed)


def _take_along(session: Writer, entry: Entry, blob: Blob) -> None:
    try:
        session.blobs.confirm(blob)
    except BlobError:
        session._check_file_is_there()
        session.blobs.put(blocks_of(entry, blob))


def merge(session: Writer, ref: Ref, summary: Summary | None) -> Entry:
    """See `Session.merge`."""
    merged, seen = session.entry(ref), session.leaf
    base = ancestry.common(session, seen, merged)
    if base is None:
        raise UsageError(f"{merged.uuid} has no ancestor in common with the current path")
    if base == merged:
        raise NothingToDoError(
            f"{merged.uuid} is on the current path already; merge another branch"
        )
    fields: dict[str, Any] = {"mergedUuid": merged.uuid, "baseUuid": base.uuid}
    if summary is not None:
        fields["summary"] = text_of_summary(summary, ancestry.below(session, base, merged))
    return session._write("merge", fields, None, seen=seen)


def edit_context(session: Writer, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
    """See `Session.edit_context`."""
    target, seen = session.entry(ref), session.leaf
    if ref == LEAF:  # not a name or a label that was given since, which says nothing
        target = session._standing(target)
    if isinstance(replacement, str):
        replacement = {"content": replacement}
    if not target.is_content or not _counts_here(session, target):
        raise UsageError(
            f"{target.uuid} says nothing in the current context, so there is nothing to edit; "
            "'context --json' and 'path' show what does"
        )
    fields = {"targetUuid": target.uuid, "replacement": replacement}
    check_fields("context_edit", fields)
    return session._write("context_edit", fields, None, seen=seen)


def _counts_here(session: Writer, target: Entry) -> bool:
    if ancestry.is_above(session, target):
        return True
    return any(entry == target for entry in session.context().entries)
