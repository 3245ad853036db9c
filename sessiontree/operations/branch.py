"""Moves: branching, switching, rewinding, the stack, and compaction.

Every move is one appended entry whose parent is where we go (a named branch with
a summary is two, written as one): nothing is removed, and the way back is always open.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sessiontree.context.compaction import Piece, TokenCounter, cut_point
from sessiontree.context.fold import Fold
from sessiontree.context.summary import Summary, text_of_summary
from sessiontree.core.entry import ANNOTATIONS, SUMMARIES, Entry
from sessiontree.core.message import begins_turn, text_of
from sessiontree.engine import ancestry, refs
from sessiontree.engine.reader import Ref
from sessiontree.engine.refs import LEAF
from sessiontree.engine.writer import Writer, fresh_uuid
from sessiontree.errors import NothingToDoError, SessionTreeWarning, UsageError

Wanted = list[tuple[str, Mapping[str, Any]]]

_SAY_NOTHING_NEW = SUMMARIES | {"compaction"}


def branch(session: Writer, ref: Ref, summary: Summary | None, name: str | None) -> Entry:
    """See `Session.branch`."""
    target = session.entry(ref)
    if name is not None:
        session._check_name_is_free(refs.check_name(name, "branch name"))
    if summary is None:
        fields = {} if name is None else {"name": name}
        return _go(session, [("branch", fields)], target)
    with session._log.lock.alone():
        left, passed = session.leaf, entries_left(session, target)
    text = text_of_summary(summary, passed)
    wanted: Wanted = [("branch_summary", {"summary": text, "fromUuid": left.uuid})]
    if name is not None:
        wanted.insert(0, ("branch", {"name": name}))
    return _go(session, wanted, target)


def switch(session: Writer, ref: Ref) -> Entry:
    """See `Session.switch`."""
    target = session.entry(ref)
    if _is_at(session, target):
        return session.leaf
    return _go(session, [("branch", {})], target)


def rewind(session: Writer, ref: Ref | None) -> str:
    """See `Session.rewind`."""
    if ref is None:
        prompt = ancestry.nearest(session, _holds_prompt)
        if prompt is None:
            raise NothingToDoError("no prompt lies on the path; there is nothing to rewind")
    else:
        prompt = session.entry(ref)
        if not _holds_prompt(prompt):
            raise UsageError(f"{prompt.uuid} is no prompt; rewind goes to before a user message")
    above = session._parent(prompt)
    _go(session, [("branch", {})], above)
    return text_of(prompt["message"])


def pop(session: Writer, ref: Ref | None, summary: Summary) -> Entry:
    """See `Session.pop`."""
    with session._log.lock.alone():
        target = _place_to_pop_to(session, ref)
        passed, left = ancestry.below(session, target), session.leaf
    if not passed:
        raise NothingToDoError(f"nothing follows {target.uuid}; there is nothing to pop")
    text = text_of_summary(summary, passed)
    fields = {"summary": text, "fromUuid": left.uuid}
    return _go(session, [("stack_summary", fields)], target)


def _place_to_pop_to(session: Writer, ref: Ref | None) -> Entry:
    if ref is None:
        return _open_push(session) or _prompt_with_work(session)
    target = session.entry(ref)
    if not ancestry.is_above(session, target):
        raise UsageError(
            f"{target.uuid} is not on the current path; pop goes up it, 'switch' goes anywhere"
        )
    return target


def _open_push(session: Writer) -> Entry | None:
    """The innermost push on the path that is not closed.

    It may stand anywhere: what no context needs is gone up in the index.
    """
    path = session._context_path()
    child = ""
    for entry in reversed(path.entries):
        if entry.type == "stack_push" and child != "stack_summary":
            return entry
        child = entry.type
    if path.whole:
        return None
    tree = session._index()
    if not tree.rows_of_type("stack_push"):
        return None
    top = path.entries[0]
    for row in list(tree.rows_up(session._row(top)))[1:]:
        if tree.type_of(row) == "stack_push" and child != "stack_summary":
            return session._entry_at(row)
        child = tree.type_of(row)
    return None


def _prompt_with_work(session: Writer) -> Entry:
    """The nearest prompt on the path that has something besides summaries and markers below."""
    worked = False

    def is_wanted(entry: Entry) -> bool:
        nonlocal worked
        if worked and _holds_prompt(entry):
            return True
        worked = worked or (entry.is_content and entry.type not in _SAY_NOTHING_NEW)
        return False

    prompt = ancestry.nearest(session, is_wanted)
    if prompt is None:
        raise NothingToDoError("no push is open, and no prompt on the path has work after it")
    return prompt


def entries_left(session: Writer, target: Entry) -> Sequence[Entry]:
    """The entries of the current path that a move to another entry leaves."""
    return ancestry.below(session, ancestry.common(session, session.leaf, target))


def _holds_prompt(entry: Entry) -> bool:
    return entry.type == "message" and begins_turn(entry.as_stored)


def _is_at(session: Writer, target: Entry) -> bool:
    """Whether only marks lie between the leaf and the target."""
    at = session.leaf
    while at != target:
        if at.type != "branch" and at.type not in ANNOTATIONS:
            return False
        at = session._parent(at)
    return True


def _go(session: Writer, wanted: Wanted, target: Entry) -> Entry:
    """Write the entries that move the leaf; warn when a compacted context comes back."""
    before = session._latest_compaction()
    run = [(type, fields, fresh_uuid()) for type, fields in wanted]
    entry = session._write_run(run, target, "branch")
    if before is not None and _is_above(session, session._latest_compaction(), before):
        tokens = session.context().tokens
        message = (
            f"this is above compaction {before.uuid}: the context is about {tokens} tokens again"
        )
        warnings.warn(message, SessionTreeWarning, stacklevel=4)
    return entry


def _is_above(session: Writer, now: Entry | None, before: Entry) -> bool:
    """Whether a compaction is no longer in force, and none of another branch took its place."""
    return now is None or (now != before and ancestry.is_above(session, now, before))


def compact(
    session: Writer,
    summary: Summary,
    first_kept: Ref | None,
    keep: int,
    count: TokenCounter,
    extra: Mapping[str, Any],
) -> Entry:
    """See `Session.compact`."""
    uuid = fresh_uuid()
    with session._log.lock.alone():  # all of one moment: another thread may move
        seen = session.leaf
        context = session.context(count=count)
        pieces = _pieces(session)
        kept_uuid = _first_kept(session, pieces, first_kept, keep, count, uuid)
        replaced = _replaced(session._context_path().entries, pieces, kept_uuid, uuid)
        state = {
            "model": context.model,
            "thinkingLevel": context.thinking_level,
            "system": context.system,
            "name": session.name,
        }
    if not replaced:
        raise NothingToDoError("nothing in the context lies before what is to be kept")
    fields = {
        "summary": text_of_summary(summary, replaced),
        "firstKeptEntryUuid": kept_uuid,
        "tokensBefore": context.tokens,
        **extra,
        "state": state,
    }
    return session._write_run([("compaction", fields, uuid)], None, "compact", seen=seen)


def _pieces(session: Writer) -> list[Piece]:
    path = session._context_path()
    return Fold(path, session._segment, session._resolved_messages).pieces(path)


def _replaced(
    path: Sequence[Entry], pieces: Sequence[Piece], kept_uuid: str, own_uuid: str
) -> list[Entry]:
    """What speaks in the context and no longer will, an earlier compaction included.

    Args:
        path: as much of the path as the context needs.
        kept_uuid: the first entry to keep, which may stand above that.
        own_uuid: of the compaction, which keeps nothing where that is the first.
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
    session: Writer,
    pieces: Sequence[Piece],
    first_kept: Ref | None,
    keep: int,
    count: TokenCounter,
    own_uuid: str,
) -> str:
    """The uuid of the first entry to keep; the compaction's own where nothing is kept."""
    if first_kept is not None:
        kept = session.entry(first_kept)
        if first_kept == LEAF:  # what was said there; a mark behind it would keep nothing
            kept = ancestry.nearest(session, lambda entry: entry.is_content) or kept
        if not ancestry.is_above(session, kept):
            raise UsageError(
                f"the first kept entry {kept.uuid} is not on the current path; "
                "'path' shows which entries are"
            )
        return kept.uuid
    if keep == 0:
        return own_uuid
    kept_uuid = cut_point(pieces, keep, count)
    if kept_uuid is None:
        tokens = session.context(count=count).tokens
        raise NothingToDoError(
            f"the context has about {tokens} tokens and {keep} are to be kept: nothing to compact; "
            "keep fewer tokens, or name the first entry to keep"
        )
    return kept_uuid
