"""Moves of the leaf, and other content on the path: branch, rewind, pop, merge, edit.

Invariants: a move appends one entry, whose parent is the place moved to (a named branch with a
summary appends two, in one write); nothing is removed, so every move can be undone. What a
summarizer writes covers all entries that its move leaves: if one was written meanwhile, the move
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sessiontree.context.compaction import Summary, estimate_tokens, summarize
from sessiontree.core.activity import as_typed
from sessiontree.core.blocks import NOT_OF_MESSAGE, message_uuid, ordered
from sessiontree.core.codec import raw_values
from sessiontree.core.entry import (
    ANNOTATIONS,
    PIECES,
    RESERVED,
    SETTINGS,
    SUMMARIES,
    Entry,
    check_fields,
)
from sessiontree.core.handle import Blob, blobs_needed
from sessiontree.core.message import Message, block_text, numbered_blocks, text_of
from sessiontree.core.spill import check_spilled
from sessiontree.engine import names
from sessiontree.engine.cursor import Cursor, Ref
from sessiontree.engine.names import LEAF
from sessiontree.engine.reader import blocks_of
from sessiontree.engine.writer import EntryWriter, fresh_uuid
from sessiontree.errors import (
    BlobError,
    CorruptionError,
    NothingToDoError,
    UsageError,
    warn,
    with_step,
)
from sessiontree.views.messages import ResolvedMessages, summary_text, typed_in

Moves = list[tuple[str, Mapping[str, Any]]]  # types and fields of the entries of a move
_NO_WORK = SUMMARIES | {"compaction"}

PUSH: Final = "push"
"""The key of a compaction's `state` with the uuid of the open push."""

RETRACTED: Final = "retracted"
"""The key of a move's metadata with the uuid of the answer that it takes off the path."""

_FEW: Final = 500
"""Entries that are looked at for a push before the log is searched for one."""


class SummaryPlan(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The messages that a summary has to cover, at one leaf; see `Session.compaction_plan`."""

    leaf: Entry  # the leaf for which the plan was made
    # the messages to summarize, as in the context. Do not change them
    messages: Sequence[Message]
    entries: Sequence[Entry]  # the entries to summarize, oldest first
    instructions: str | None = None  # the user's instructions for the summary, or None

    @property
    def text(self) -> str:
        """A request to a model to write the summary, with the conversation and the instructions.

        Give it to a model as the only message. Long results of tools are cut, and thinking is left
        out.
        """
        from sessiontree.text.summary_request import summary_request  # few summaries ask a model

        return summary_request(self.messages, self.instructions)


Move = Literal["pop", "branch", "merge"]


class MovePlan(SummaryPlan, frozen=True, eq=False, kw_only=True):
    """The plan of a pop, a branch or a merge that writes a summary; see `Session.pop_plan`."""

    move: Move  # the method that takes the plan: "pop", "branch" or "merge"
    target: Entry  # the entry to return to, to continue from, or to merge
    tokens: int  # the estimated tokens of the messages


class _Summarized(NamedTuple):
    """A `MovePlan` whose messages are not read yet."""

    move: Move
    leaf: Entry
    target: Entry
    entries: Sequence[Entry]


def plan(writer: EntryWriter, move: Move, ref: Ref | None, instructions: str | None) -> MovePlan:
    """See `Session.pop_plan`, `Session.branch_plan` and `Session.merge_plan`."""
    check_instructions(instructions)
    with writer.log.alone():
        planned = _summarized(writer, move, ref)
        made = _with_messages(writer.cursor, planned, instructions)
    if not made.messages:
        raise NothingToDoError(
            f"the context has no message that the summary of this {move} would cover; call "
            f"'{move}' without a plan"
        )
    return made


def _summarized(writer: EntryWriter, move: Move, ref: Ref | None) -> _Summarized:
    with writer.log.alone():  # one moment: another thread may move
        cursor, leaf = writer.cursor, writer.cursor.leaf
        target = _pop_target(writer, ref) if move == "pop" else cursor.entry(ref or LEAF)
        if move == "merge":
            entries = cursor.below(_merge_base(cursor, leaf, target), target)
        else:
            entries = cursor.below(cursor.common(leaf, target))
    if move == "pop" and not entries:
        raise NothingToDoError(f"nothing follows {target.uuid}; there is nothing to pop")
    return _Summarized(move, leaf, target, entries)


def _with_messages(
    cursor: Cursor, planned: _Summarized, instructions: str | None = None
) -> MovePlan:
    move, leaf, target, entries = planned
    with cursor.alone():
        covered = {entry.uuid for entry in entries}
        pieces = cursor.pieces(target if move == "merge" else leaf)
        messages = [said for piece in pieces if piece.uuid in covered for said in piece.messages]
        return MovePlan(
            move=move,
            leaf=leaf,
            target=target,
            entries=list(entries),
            messages=messages,
            tokens=sum(map(estimate_tokens, messages)),
            instructions=instructions,
        )


def _summary_of(
    writer: EntryWriter, move: Move, given: Ref | MovePlan | None, summary: Summary | None
) -> tuple[MovePlan | _Summarized, str]:
    """Return the plan of a move and its summary.

    Refuses if the session moves while a summarizer works, or since the plan that is given: the
    summary would not cover what was written. A text was written before, for what its author saw.
    """
    cursor, instructions = writer.cursor, None
    planned: MovePlan | _Summarized
    if isinstance(given, SummaryPlan):
        planned = _checked(cursor, move, given)
        instructions = planned.instructions
    else:
        planned = _summarized(writer, move, given)

    def request() -> str:
        read = planned if isinstance(planned, MovePlan) else _with_messages(cursor, planned)
        return read.text

    summary = summarize if summary is None else summary
    text = summary_text(cursor, summary, planned.entries, request, instructions)
    if isinstance(planned, MovePlan) or not isinstance(summary, str):
        check_leaf(cursor, planned.leaf, move, keeps=move == "merge")
    return planned, text


def _checked(cursor: Cursor, move: Move, given: SummaryPlan) -> MovePlan:
    """Return the plan if it is for this move and this leaf; else raise before a model is asked."""
    if not isinstance(given, MovePlan) or given.move != move:
        made_for = given.move if isinstance(given, MovePlan) else "compact"
        raise UsageError(
            f"the plan is for '{made_for}', not for '{move}'; make one with {move}_plan()"
        )
    check_leaf(cursor, given.leaf, move, keeps=move == "merge")
    return given


def check_leaf(cursor: Cursor, planned: Entry, move: str, *, keeps: bool) -> None:
    """Refuse a summary for another leaf; with `keeps`, entries written below it since stay."""
    leaf = cursor.leaf
    if leaf.uuid == planned.uuid or (keeps and cursor.is_above(planned)):
        return
    raise UsageError(
        f"the session moved to {leaf.uuid} since the {move} was planned at {planned.uuid}; nothing "
        f"was written: make a new plan, or {move} again"
    )


def check_instructions(instructions: str | None) -> None:
    """Refuse instructions for a summary that are not a text."""
    if instructions is not None and (not isinstance(instructions, str) or not instructions.strip()):
        raise UsageError(f"instructions are a text that is not empty, not {instructions!r:.60}")


def branch(
    writer: EntryWriter, ref: Ref | MovePlan, summary: Summary | None, name: str | None
) -> Entry:
    """See `Session.branch`."""
    if name is not None:
        writer.reader.check_name_is_free(names.check_name(name, "branch name"))
    if summary is None and not isinstance(ref, MovePlan):
        return _go(writer, [_move(writer, name)], writer.cursor.entry(ref))
    planned, text = _summary_of(writer, "branch", ref, summary)
    moves: Moves = [("branch_summary", {"summary": text, "fromUuid": planned.leaf.uuid})]
    if name is not None:
        moves.insert(0, ("branch", {"name": name}))
    return _go(writer, moves, planned.target)


def switch(writer: EntryWriter, ref: Ref) -> Entry:
    target = writer.cursor.entry(ref)
    if _is_at(writer, target):
        return writer.cursor.leaf
    return _go(writer, [_move(writer)], target)


class PromptText(str):
    """The text of a prompt, as the user typed it, with the rest of the prompt."""

    __slots__ = ("entry", "message")

    entry: Entry  # the entry of the prompt
    message: Message | None  # the prompt as a message; None if its handle cannot be resolved

    def __new__(cls, text: str, entry: Entry, message: Message | None) -> PromptText:
        made = super().__new__(cls, text)
        made.entry, made.message = entry, message
        return made

    @property
    def attachments(self) -> list[Mapping[str, Any]]:
        """The content blocks of the prompt that are not text, such as images and documents."""
        message = self.message
        return [b for b in numbered_blocks(message) if not block_text(b)] if message else []


def rewind(writer: EntryWriter, ref: Ref | None) -> PromptText:
    """See `Session.rewind`."""
    messages = ResolvedMessages(writer.cursor.messages)
    if ref is None:
        prompt = writer.cursor.nearest(messages.begins_turn)
        if prompt is None:
            messages.warn("it is not known if they are prompts")
            raise NothingToDoError("the path has no prompt; there is nothing to rewind")
    else:
        prompt = writer.cursor.entry(ref)
        if not messages.begins_turn(prompt):
            messages.warn("it is not known if it is a prompt")
            raise UsageError(f"{prompt.uuid} is not a prompt; rewind goes to before a user message")
    message = prompt["message"] if prompt.type == "message" else messages.of(prompt)
    _go(writer, [_move(writer)], writer.reader.parent(prompt))
    messages.warn("it is not known what they say")
    text = typed_in(prompt) or str(prompt.get("preview", ""))
    said = text if message is None else as_typed(text_of(message))
    return PromptText(said, prompt, message)


def pop(writer: EntryWriter, ref: Ref | MovePlan | None, summary: Summary | None) -> Entry:
    """See `Session.pop`."""
    planned, text = _summary_of(writer, "pop", ref, summary)
    fields = {"summary": text, "fromUuid": planned.leaf.uuid}
    return _go(writer, [("stack_summary", fields)], planned.target)


def _pop_target(writer: EntryWriter, ref: Ref | None) -> Entry:
    if ref is None:
        return open_push(writer) or _prompt_with_work(writer)
    target = writer.cursor.entry(ref)
    if not writer.cursor.is_above(target):
        raise UsageError(
            f"{target.uuid} is not on the current path; pop goes up it, 'switch' goes anywhere"
        )
    return target


def open_push(writer: EntryWriter) -> Entry | None:
    """The innermost push on the path that is not closed.

    A compaction repeats which push was open; see `state`. Without one, the entries nearest to the
    leaf are looked at, and those above only if some line of the log has a push.
    """
    child = ""
    for passed, entry in enumerate(writer.cursor.up()):
        if entry.type == "stack_push" and child != "stack_summary":
            return entry
        if entry.type == "compaction":
            uuid = _push_in(entry)
            if uuid is None:
                return None
            push = writer.cursor.by_uuid(uuid) if uuid else None
            if push is not None and push.type == "stack_push":
                return push
        child = entry.type
        if passed == _FEW:
            is_there = writer.reader.scan().may_hold("stack_push", entry.offset)
            return _push_in_index(writer, entry) if is_there else None
    return None


def _push_in_index(writer: EntryWriter, entry: Entry) -> Entry | None:
    tree, child = writer.reader.index(), entry.type
    for row in list(tree.rows_up(writer.reader.row(entry)))[1:]:
        if tree.type_of(row) == "stack_push" and child != "stack_summary":
            return writer.reader.entry_at(row)
        child = tree.type_of(row)
    return None


def _push_in(compaction: Entry) -> str | None:
    """The uuid of the push that was open at a compaction, or None; empty where it is not told."""
    state = compaction.as_stored.get("state")
    uuid = state.get(PUSH, "") if isinstance(state, dict) else ""
    return uuid if isinstance(uuid, str | None) else ""


def _prompt_with_work(writer: EntryWriter) -> Entry:
    """The nearest prompt on the path with an entry below that is not a summary or a marker."""
    worked = False
    messages = ResolvedMessages(writer.cursor.messages)

    def is_wanted(entry: Entry) -> bool:
        nonlocal worked
        if worked and messages.begins_turn(entry):
            return True
        worked = worked or (entry.is_content and entry.type not in _NO_WORK)
        return False

    prompt = writer.cursor.nearest(is_wanted)
    messages.warn("it is not known if they are prompts")
    if prompt is None:
        raise NothingToDoError("every push has a pop, and no prompt has messages after it")
    return prompt


def _move(writer: EntryWriter, name: str | None = None) -> tuple[str, Mapping[str, Any]]:
    named = {} if name is None else {"name": name}
    return "branch", {**named, "fromUuid": writer.cursor.leaf.uuid}


def step_back(
    writer: EntryWriter, step: str, entry: Entry, above: Entry, settings: Sequence[Entry] = ()
) -> None:
    """Move to before an entry, and repeat settings there; the move names the step and the entry."""
    keys = ("provider", "modelId", "thinkingLevel", "metadata")
    fields = {"fromUuid": writer.cursor.leaf.uuid, "metadata": {step: entry.uuid}}
    run: Moves = [("branch", fields)]
    run += [(one.type, {key: one[key] for key in keys if key in one.as_stored}) for one in settings]
    writer.write_run([(*move, fresh_uuid()) for move in run], above, "branch")


def is_step_back(entry: Entry, step: str) -> bool:
    """True if an entry is the move of a step: `UNDID`, or `RETRACTED`."""
    metadata = entry.as_stored.get("metadata") if entry.type == "branch" else None
    return isinstance(metadata, dict) and step in metadata


def _is_at(writer: EntryWriter, target: Entry) -> bool:
    """Whether only markers are between the leaf and the target."""
    at = writer.cursor.leaf
    while at != target:
        if at.type != "branch" and at.type not in ANNOTATIONS:
            return False
        at = writer.reader.parent(at)
    return True


def _go(writer: EntryWriter, moves: Moves, target: Entry) -> Entry:
    """Write the entries that move the leaf.

    Warns when compacted content is back in the context, and when a message is cut in two.
    """
    compactions: dict[int, Entry] = {}
    ends: list[Entry] = []  # the last piece of the target's message, if that is not the target

    def note(way: int, entry: Entry) -> None:
        if entry.type == "compaction":
            compactions.setdefault(way, entry)
        if target.type == "block" and not ends and way == 0 and entry.type in PIECES:
            ends.extend([entry] if message_uuid(entry) == message_uuid(target) else [])

    common = writer.cursor.common(writer.cursor.leaf, target, note)
    run = [(type, fields, fresh_uuid()) for type, fields in moves]
    entry = writer.write_run(run, target, "branch")
    left, entered = compactions.get(0), compactions.get(1)
    if left is not None and entered is None:
        tokens = writer.cursor.context().tokens
        warn(f"this is above compaction {left.uuid}: the context is about {tokens} tokens again")
    if ends and common == target:
        warn(
            f"{target.uuid} is a block of a message, and the blocks after it are not on the new "
            f"branch; to go on after the whole message, give {ends[0].uuid}"
        )
    return entry


_PICKABLE: Final = SUMMARIES | SETTINGS | PIECES | {"message", "custom_message", "handle", "custom"}


def cherry_pick(writer: EntryWriter, picked: Ref, source: Cursor | None) -> Entry:
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
    values: dict[str, Any] = dict(raw_values(entry.line))
    fields = {key: value for key, value in values.items() if key not in RESERVED}
    if entry.has_spilled:
        fields["spilled"] = values["spilled"]
    return fields


def _joined(members: Sequence[Entry]) -> dict[str, Any]:
    blocks, end = ordered(members)
    blocks = [entry for entry in blocks if isinstance(entry.as_stored.get("block"), dict)]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = [raw_values(entry.line)["block"] for entry in blocks]
    if end is None:
        message["partial"] = True
    else:
        values = raw_values(end.line)
        message |= {"role": values["role"]} if end.get("role") else {}
        message |= {key: each for key, each in values.items() if key not in NOT_OF_MESSAGE}
    spilled = [
        [["message", "content", index, *path[1:]], *rest]
        for index, entry in enumerate(blocks)
        for path, *rest in _spilled_in(entry)
        if path[0] == "block"
    ]
    if end is not None:
        of_end = ([["message", *path], *rest] for path, *rest in _spilled_in(end))
        spilled += (row for row in of_end if row[0][1] in message)
    return {"message": message, **({"spilled": spilled} if spilled else {})}


def _spilled_in(entry: Entry) -> list[Any]:
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


def merge(writer: EntryWriter, ref: Ref | MovePlan, summary: Summary | None) -> Entry:
    """See `Session.merge`."""
    cursor, fields = writer.cursor, dict[str, Any]()
    if summary is None and not isinstance(ref, MovePlan):
        merged, seen = cursor.entry(ref), cursor.leaf
    else:
        planned, fields["summary"] = _summary_of(writer, "merge", ref, summary)
        merged, seen = planned.target, planned.leaf
    base = _merge_base(cursor, seen, merged)
    fields = {"mergedUuid": merged.uuid, "baseUuid": base.uuid, **fields}
    return writer.write("merge", fields, None, seen=seen)


def _merge_base(cursor: Cursor, leaf: Entry, merged: Entry) -> Entry:
    """Return the common ancestor of the leaf and an entry to merge."""
    base = cursor.common(leaf, merged)
    if base is None:
        raise UsageError(f"{merged.uuid} has no ancestor in common with the current path")
    if base == merged:
        raise NothingToDoError(
            f"{merged.uuid} is on the current path already; merge another branch"
        )
    return base


def edit_context(
    writer: EntryWriter, ref: Ref, replacement: str | Mapping[str, Any] | None
) -> Entry:
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
