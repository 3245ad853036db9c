"""Moves of the leaf: branch, switch, rewind, push and pop.

Invariants: a move appends one entry, whose parent is the place moved to (a named branch
with a summary appends two, in one write); nothing is removed, so every move can be undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.summary import Summary
from sessiontree.core.activity import as_typed
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import ANNOTATIONS, PIECES, SUMMARIES, Entry
from sessiontree.core.message import text_of
from sessiontree.engine import refs
from sessiontree.engine.cursor import Ref
from sessiontree.engine.writer import EntryWriter, fresh_uuid
from sessiontree.errors import NothingToDoError, UsageError, warn
from sessiontree.operations.messages import Messages, summary_text, typed_in

Moves = list[tuple[str, Mapping[str, Any]]]  # types and fields of the entries of a move
_NO_WORK = SUMMARIES | {"compaction"}

PUSH: Final = "push"
"""The key of a compaction's `state` with the uuid of the open push."""

_FEW: Final = 500
"""Entries that are looked at for a push before the log is searched for one."""


def branch(writer: EntryWriter, ref: Ref, summary: Summary | None, name: str | None) -> Entry:
    """See `Session.branch`."""
    target = writer.cursor.entry(ref)
    if name is not None:
        writer.reader.check_name_is_free(refs.check_name(name, "branch name"))
    if summary is None:
        return _go(writer, [_move(writer, name)], target)
    with writer.log.alone():
        left = writer.cursor.leaf
        passed = writer.cursor.below(writer.cursor.common(left, target))
    text = summary_text(writer.cursor, summary, passed)
    moves: Moves = [("branch_summary", {"summary": text, "fromUuid": left.uuid})]
    if name is not None:
        moves.insert(0, ("branch", {"name": name}))
    return _go(writer, moves, target)


def switch(writer: EntryWriter, ref: Ref) -> Entry:
    """See `Session.switch`."""
    target = writer.cursor.entry(ref)
    if _is_at(writer, target):
        return writer.cursor.leaf
    return _go(writer, [_move(writer)], target)


def rewind(writer: EntryWriter, ref: Ref | None) -> tuple[str, Entry]:
    """See `Session.rewind`; returns the prompt's entry too."""
    messages = Messages(writer.cursor.messages)
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
    return text if message is None else as_typed(text_of(message)), prompt


def pop(writer: EntryWriter, ref: Ref | None, summary: Summary) -> Entry:
    """See `Session.pop`."""
    with writer.log.alone():
        target = _pop_target(writer, ref)
        passed, left = writer.cursor.below(target), writer.cursor.leaf
    if not passed:
        raise NothingToDoError(f"nothing follows {target.uuid}; there is nothing to pop")
    fields = {"summary": summary_text(writer.cursor, summary, passed), "fromUuid": left.uuid}
    return _go(writer, [("stack_summary", fields)], target)


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
            is_there = writer.reader.naming().may_hold("stack_push", entry.offset)
            return _push_in_index(writer, entry) if is_there else None
    return None


def _push_in_index(writer: EntryWriter, entry: Entry) -> Entry | None:
    """The innermost push above an entry that is not closed."""
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
    messages = Messages(writer.cursor.messages)

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
    """The type and fields of a `branch` entry, which names the leaf that is left."""
    named = {} if name is None else {"name": name}
    return "branch", {**named, "fromUuid": writer.cursor.leaf.uuid}


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
