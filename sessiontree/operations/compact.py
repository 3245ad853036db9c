"""Compaction: an entry whose summary replaces the older part of a context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sessiontree.context.compaction import Piece, TokenCounter, cut_point
from sessiontree.context.summary import Summary, text_of_summary
from sessiontree.core.entry import Entry
from sessiontree.engine.cursor import Ref
from sessiontree.engine.refs import LEAF
from sessiontree.engine.writer import EntryWriter, fresh_uuid
from sessiontree.errors import NothingToDoError, UsageError


def compact(
    writer: EntryWriter,
    summary: Summary,
    first_kept: Ref | None,
    keep: int,
    count: TokenCounter,
    extra: Mapping[str, Any],
) -> Entry:
    """See `Session.compact`."""
    uuid = fresh_uuid()
    with writer.log.alone():  # one moment: another thread may move
        seen = writer.cursor.leaf
        context = writer.cursor.context(count=count)
        pieces = writer.cursor.pieces()
        kept_uuid = _first_kept(writer, pieces, first_kept, keep, count, uuid)
        replaced = _replaced(writer.cursor.context_path().entries, pieces, kept_uuid, uuid)
        state = {
            "model": context.model,
            "thinkingLevel": context.thinking_level,
            "system": context.system,
            "name": writer.reader.names().name,
        }
    if not replaced:
        raise NothingToDoError("nothing in the context is before the first kept entry")
    fields = {
        "summary": text_of_summary(summary, replaced),
        "firstKeptEntryUuid": kept_uuid,
        "tokensBefore": context.tokens,
        **extra,
        "state": state,
    }
    return writer.write_run([("compaction", fields, uuid)], None, "compact", seen=seen)


def _replaced(
    path: Sequence[Entry], pieces: Sequence[Piece], kept_uuid: str, own_uuid: str
) -> list[Entry]:
    """The entries that the summary replaces in the context, an earlier compaction included.

    `path` is the part that the context needs; the first entry to keep may be above it.
    """
    places = {entry.uuid: place for place, entry in enumerate(path)}
    kept_at = len(path) if kept_uuid == own_uuid else places.get(kept_uuid, 0)
    return [
        source
        for piece in pieces
        for source in piece.sources
        if source.type == "compaction" or places[piece.uuid] < kept_at
    ]


def _first_kept(
    writer: EntryWriter,
    pieces: Sequence[Piece],
    first_kept: Ref | None,
    keep: int,
    count: TokenCounter,
    own_uuid: str,
) -> str:
    """The uuid of the first entry to keep; the compaction's own where nothing is kept."""
    if first_kept is not None:
        kept = writer.cursor.entry(first_kept)
        if first_kept == LEAF:  # the last content; a marker behind it would keep nothing
            kept = writer.cursor.nearest(lambda entry: entry.is_content) or kept
        if not writer.cursor.is_above(kept):
            raise UsageError(
                f"the first kept entry {kept.uuid} is not on the current path; "
                "'path' shows which entries are"
            )
        return kept.uuid
    if keep == 0:
        return own_uuid
    kept_uuid = cut_point(pieces, keep, count)
    if kept_uuid is None:
        tokens = writer.cursor.context(count=count).tokens
        raise NothingToDoError(
            f"the context has about {tokens} tokens and {keep} are to be kept: nothing to compact; "
            "keep fewer tokens, or name the first entry to keep"
        )
    return kept_uuid
