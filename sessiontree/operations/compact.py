"""Compaction: an entry whose summary replaces the older part of a context.

A plan names what the summary replaces, at one leaf. The entries that are written below that leaf
before the compaction stay in the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from sessiontree.context.compaction import KEEP_TOKENS, Slice, Summary, TokenCounter, cut_point
from sessiontree.context.context import Context
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import PIECES, Entry
from sessiontree.core.message import Message, is_item, kind_of
from sessiontree.core.usage import usage_of
from sessiontree.engine.cursor import Cursor, Ref
from sessiontree.engine.names import LEAF
from sessiontree.engine.writer import Draft, EntryWriter, fresh_uuid
from sessiontree.errors import NothingToDoError, UsageError, with_step
from sessiontree.operations.moves import (
    PUSH,
    SummaryPlan,
    check_instructions,
    check_leaf,
    open_push,
)
from sessiontree.views.messages import summary_text

RESERVE_TOKENS: Final = 16_384


class CompactionPlan(SummaryPlan, frozen=True, eq=False, kw_only=True):
    """What a compaction will replace with a summary; see `Session.compaction_plan`.

    `messages` are those that the summary replaces, and `entries` the entries that they come from. A
    message that was streamed in blocks comes from several entries.
    """

    first_kept: Entry | None  # the first entry that stays in the context; None: nothing stays
    tokens_before: int  # the estimated tokens of the context
    tokens_after: int  # the estimated tokens of the messages that stay, without the new summary

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `compact --plan --json` prints."""
        return {
            "leaf": self.leaf.uuid,
            "entries": [dict(entry.as_stored) for entry in self.entries],
            "firstKeptEntryUuid": None if self.first_kept is None else self.first_kept.uuid,
            "tokensBefore": self.tokens_before,
            "tokensAfter": self.tokens_after,
            "instructions": self.instructions,
            "text": self.text,
        }


def plan(
    cursor: Cursor,
    first_kept: Ref | None,
    keep: int | None,
    count: TokenCounter,
    instructions: str | None,
    *,
    any_size: bool,
) -> CompactionPlan:
    """See `Session.compaction_plan`.

    With `any_size`, a context that is shorter than what is kept by default is replaced as a whole.
    """
    _check_keep(keep)
    if keep is not None and first_kept is not None:
        raise UsageError("give 'first_kept' or 'keep', not both")
    check_instructions(instructions)
    with cursor.alone():  # one moment: another thread may move
        context = cursor.context(count=count)
        pieces = cursor.pieces()
        if first_kept is not None:
            kept = _named(cursor, first_kept)
        elif keep == 0:
            kept = None
        else:
            kept = _cut(cursor, pieces, keep, count, context, any_size=any_size)
        path = cursor.context_path().entries
        replaced = _replaced(path, pieces, kept)
        if not replaced:
            if not context.messages:
                raise NothingToDoError("the context is empty; there is nothing to compact")
            raise NothingToDoError("nothing in the context is before the first kept entry")
        all_tokens = sum(count(message) for piece in pieces for message in piece.messages)
        return CompactionPlan(
            leaf=context.leaf,
            messages=[message for message, _ in replaced],
            entries=_with_all_blocks([source for _, source in replaced], path),
            first_kept=kept,
            tokens_before=context.tokens,
            tokens_after=all_tokens - sum(count(message) for message, _ in replaced),
            instructions=instructions,
        )


def compact(
    writer: EntryWriter, plan: CompactionPlan, summary: Summary, extra: Mapping[str, Any]
) -> Entry:
    """Write the compaction of a plan; see `Session.compact`."""
    uuid = fresh_uuid()
    _check_fits(writer.cursor, plan)  # before a model is asked
    text = summary_text(writer.cursor, summary, plan.entries, lambda: plan.text, plan.instructions)

    def draft() -> list[Draft]:
        since = _check_fits(writer.cursor, plan)
        first = plan.first_kept or next(iter(since), None)
        context = writer.cursor.context()
        push = open_push(writer)
        fields = {
            "summary": text,
            "firstKeptEntryUuid": uuid if first is None else first.uuid,
            "tokensBefore": plan.tokens_before,
            **extra,
            "state": {
                "model": context.model,
                "thinkingLevel": context.thinking_level,
                "system": context.system,
                "name": writer.reader.names().name,
                PUSH: None if push is None else push.uuid,
            },
        }
        return [("compaction", fields, uuid)]

    with writer.log.alone():
        seen, drafts = writer.cursor.leaf, draft()
    return writer.write_run(drafts, None, "compact", seen=seen, again=draft)


class ContextSize(NamedTuple):
    """How many tokens a context has."""

    used: int  # as the provider reported, with an estimate of what came after; else an estimate
    estimated: int  # an estimate of all messages and the system text


def needs_compaction(
    cursor: Cursor, window: int, reserve: int, count: TokenCounter, at: Ref | None = None
) -> bool:
    """See `Session.needs_compaction`; at an entry, by default the leaf."""
    check_window(window, reserve)
    return size_of(cursor, count, at).used > window - reserve


def check_window(window: int, reserve: int) -> None:
    """Refuse what is not a window of a model, or leaves nothing of it."""
    if not isinstance(window, int) or window <= 0:
        raise UsageError(f"window is the number of tokens of the model's window, not {window!r}")
    if not isinstance(reserve, int) or not 0 <= reserve < window:
        raise UsageError(
            f"reserve is a number of tokens, from 0 to less than the window of {window:,}, not "
            f"{reserve!r}"
        )


def size_of(cursor: Cursor, count: TokenCounter, at: Ref | None = None) -> ContextSize:
    """Return the size of the context at an entry, by default the leaf."""
    with cursor.alone():
        context = cursor.context(at, count=count)
        system = context.system
        estimated = context.tokens
        estimated += count({"role": "system", "content": system}) if system else 0
        reported, answer = _last_reported(cursor, context.leaf)
        if answer is None:
            return ContextSize(estimated, estimated)
        since = _messages_since(context, answer)
        return ContextSize(reported + sum(map(count, since)), estimated)


def _messages_since(context: Context, answer: Entry) -> Sequence[Message]:
    def is_answer(entry: Entry) -> bool:
        is_piece = entry.type in PIECES and answer.type in PIECES
        return entry == answer or (is_piece and message_uuid(entry) == message_uuid(answer))

    places = range(len(context.entries) - 1, -1, -1)
    last = next((place for place in places if is_answer(context.entries[place])), None)
    return context.messages if last is None else context.messages[last + 1 :]


def _last_reported(cursor: Cursor, leaf: Entry) -> tuple[int, Entry | None]:
    """The tokens that the provider reported last, and the entry up to which they count.

    A report from before a compaction says nothing of the context; nor does that of a copy.
    """
    items: list[Entry] = []
    for entry in cursor.up(leaf):
        if entry.type == "compaction":
            break
        answer = _answer_in(entry)
        if tokens := usage_of(answer.get("usage")).tokens:
            return tokens, entry
        if entry.type == "message" and (is_item(answer) or kind_of(answer) == "message"):
            items.append(entry)
    return _reported_beside(cursor, items) if items else (0, None)


def _answer_in(entry: Entry) -> Message:
    fields = entry.message_as_stored if entry.type == "message" else entry.as_stored
    if entry.type not in ("message", "message_end", "handle") or not isinstance(fields, dict):
        return {}
    metadata = entry.as_stored.get("metadata")
    is_copy = isinstance(metadata, dict) and "cherryPickedFrom" in metadata
    return {} if is_copy else fields


def _reported_beside(cursor: Cursor, items: Sequence[Entry]) -> tuple[int, Entry | None]:
    """Do the same for items of OpenAI Responses: an entry beside the path has their usage."""
    tree = cursor.reader.index()
    by_uuid = {item.uuid: item for item in items}
    for row in reversed(tree.rows_of_type("usage")):
        item = by_uuid.get(tree.uuids[tree.parents[row]])
        if item is None:
            continue
        entry = cursor.reader.entry_at(row)
        tokens = usage_of(entry.get("usage")).tokens
        if tokens and entry.get("kind") == "response":
            return tokens, item
    return 0, None


def auto_compact(
    writer: EntryWriter,
    window: int,
    summarizer: Summary,
    reserve: int,
    keep: int | None,
    count: TokenCounter,
    instructions: str | None,
) -> Entry | None:
    """See `Session.auto_compact`."""
    cursor = writer.cursor
    check_window(window, reserve)
    _check_keep(keep)
    with cursor.alone():
        size = size_of(cursor, count)
        if size.used <= window - reserve:
            return None
        kept = min(KEEP_TOKENS, (window - reserve) // 4) if keep is None else keep
        kept = min(kept, kept * size.estimated // size.used)  # as the estimate counts them
        chosen = _plan_around_calls(cursor, kept, count, instructions)
    if chosen is None:
        return None
    try:
        return compact(writer, chosen, summarizer, {})
    except UsageError:
        if _fits(cursor, chosen):
            raise
        return None  # the session moved, or was compacted, while the model was asked


def _plan_around_calls(
    cursor: Cursor, keep: int, count: TokenCounter, instructions: str | None
) -> CompactionPlan | None:
    """A plan that keeps the calls that still run, and what the model has to answer."""
    from sessiontree.operations.unfinished import running_calls, unfinished  # rarely needed

    running = running_calls(cursor)
    try:
        chosen = plan(cursor, None, keep or 1, count, instructions, any_size=False)
        first = chosen.first_kept
        if running is None or (first is not None and cursor.is_above(first, running)):
            return chosen
    except NothingToDoError:
        if running is None and unfinished(cursor) is not None:
            return None  # nothing but what the model has to answer
    try:
        first, none = running, 0 if running is None else None
        return plan(cursor, first, none, count, instructions, any_size=False)
    except NothingToDoError:
        return None


def _fits(cursor: Cursor, chosen: CompactionPlan) -> bool:
    try:
        _check_fits(cursor, chosen)
    except UsageError:
        return False
    return True


def _check_keep(keep: int | None) -> None:
    if keep is not None and (not isinstance(keep, int) or keep < 0):
        raise UsageError(f"keep is a number of tokens, 0 or more, not {keep!r}")


def _named(cursor: Cursor, first_kept: Ref) -> Entry:
    kept = cursor.entry(first_kept)
    if first_kept == LEAF:  # the last content; a marker behind it would keep nothing
        kept = cursor.nearest(lambda entry: entry.is_content) or kept
    if not cursor.is_above(kept):
        raise UsageError(
            f"the first kept entry {kept.uuid} is not on the current path; name an entry that is"
        )
    return _first_piece(cursor, kept) if kept.type in PIECES else kept


def _first_piece(cursor: Cursor, piece: Entry) -> Entry:
    """The first piece of a streamed message, which is kept or replaced as a whole."""
    first, uuid = piece, message_uuid(piece)
    for entry in cursor.up(piece):
        if entry.type in PIECES and message_uuid(entry) == uuid:
            first = entry
        elif entry.is_content:
            break
    return first


def _cut(
    cursor: Cursor,
    pieces: Sequence[Slice],
    keep: int | None,
    count: TokenCounter,
    context: Context,
    *,
    any_size: bool,
) -> Entry | None:
    """The first entry to keep so that about `keep` tokens stay; None where nothing stays."""
    tokens = KEEP_TOKENS if keep is None else keep
    uuid = cut_point(pieces, tokens, count)
    if uuid is not None:
        return cursor.entry(uuid)
    if (keep is None and any_size) or not context.messages:
        return None
    if context.tokens <= tokens:
        cause = f"the context has about {context.tokens:,} tokens, and {tokens:,} are to be kept"
    else:
        cause = f"no entry can be left out so that about {tokens:,} tokens stay"
    error = NothingToDoError(
        f"{cause}: nothing to compact; to replace the whole context with a summary, keep 0 tokens"
    )
    raise with_step(error, "keep nothing")


def _replaced(
    path: Sequence[Entry], pieces: Sequence[Slice], kept: Entry | None
) -> list[tuple[Message, Entry]]:
    """The messages that the summary replaces, an earlier summary included, with their entries.

    `path` is the part that the context needs; the first entry to keep may be above it.
    """
    places = {entry.uuid: place for place, entry in enumerate(path)}
    kept_at = len(path) if kept is None else places.get(kept.uuid, 0)
    return [
        (message, source)
        for piece in pieces
        for message, source in zip(piece.messages, piece.sources, strict=True)
        if source.type == "compaction" or places[piece.uuid] < kept_at
    ]


def _with_all_blocks(sources: Sequence[Entry], path: Sequence[Entry]) -> list[Entry]:
    """The sources of messages, with the other blocks on the path behind the first of a message."""
    blocks: dict[str, list[Entry]] = {}
    for entry in path:
        if entry.type == "block":
            blocks.setdefault(message_uuid(entry), []).append(entry)
    found: list[Entry] = []
    for source in sources:
        if source.type == "block":  # a merged one is not on the path
            found += blocks.get(message_uuid(source), [source])
        else:
            found.append(source)
    return found


def _check_fits(cursor: Cursor, plan: CompactionPlan) -> Sequence[Entry]:
    """Refuse a plan that no longer fits the path; return what was written since, oldest first."""
    if cursor.leaf.uuid == plan.leaf.uuid:
        return ()
    check_leaf(cursor, plan.leaf, "compaction", keeps=True)
    since = list(takewhile(lambda entry: entry.uuid != plan.leaf.uuid, cursor.up()))
    since.reverse()
    kept = {entry.uuid for entry in since} | {entry.uuid for entry in _kept(cursor, plan)}
    again = "nothing was written: make a new plan, or compact again"
    for entry in since:
        if entry.type == "compaction":
            raise UsageError(f"compaction {entry.uuid} was written since the plan; {again}")
        if entry.type == "context_edit" and entry.get("targetUuid") not in kept:
            raise UsageError(
                f"{entry.uuid} edits the content of {entry.get('targetUuid')}, which the plan "
                f"summarizes as it was before; {again}"
            )
    return since


def _kept(cursor: Cursor, plan: CompactionPlan) -> list[Entry]:
    if plan.first_kept is None:
        return []
    above = takewhile(lambda entry: entry != plan.first_kept, cursor.up(plan.leaf))
    return [plan.first_kept, *above]
