"""Lanes: lines of work in the same file, each with a leaf of its own.

Invariants: a writer writes on its own lane and never moves the leaf of another. It shares
the lock of the writer it was opened from, so both can write, also where that one is
exclusive. A scratch lane counts for nothing until it is kept, by one entry; then the whole
lane is kept as it is in the file at that moment. A writer that kept its own scratch lane
cannot write on it again, for nothing would show its entries.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any, Final

import msgspec

from sessiontree.core.entry import HEADER, MAIN, Entry, lane_of_subagent
from sessiontree.core.garbage import SCRATCH
from sessiontree.core.message import calls_of, message_in
from sessiontree.engine import names, opening
from sessiontree.engine.cursor import Cursor, Ref
from sessiontree.engine.writer import EntryWriter, fresh_uuid
from sessiontree.errors import NothingToDoError, RefError, UsageError, with_step
from sessiontree.storage.log import closed_on_failure

_MAX_NAMED: Final = 8
Opened = tuple[opening.SessionFile, EntryWriter]  # the parts of a session on another lane


def lane(
    file: opening.SessionFile,
    writer: EntryWriter,
    name: str,
    at: Ref | None,
    *,
    empty: bool = False,
) -> Opened:
    if not writer.log.readonly:
        names.check_name(name, "lane name")
    writer.reader.ready()
    writer.log.size()  # refused where it is closed
    start = None if at is None else writer.cursor.entry(at)
    found = MAIN if start is not None else name
    opened = _beside(writer, found) if file.is_current else _opened_again(file, writer, found)
    placed = _placed(opened, name, start, check=at is None and writer.log.readonly)
    cursor = placed[1].cursor
    if empty and (cursor.leaf.lane or MAIN) != name:
        cursor.move(cursor.reader.header)
    return placed


def subagent_of(cursor: Cursor, call_id: str, name: str | None) -> tuple[str, dict[str, Any]]:
    """Return the lane of the subagent of a call, and the facts that its first entry has.

    The entry is as importers write it, so that one rule finds the subagents of all agents.
    """
    caller = cursor.nearest(lambda entry: call_id in _calls_in(entry))
    if caller is None:
        raise UsageError(
            f"no message on the current path calls a tool with the id {call_id!r:.80}; store the "
            "answer with the call first"
        )
    named = {} if name is None else {"agentType": name}
    return lane_of_subagent(call_id), {"calledBy": caller.uuid, "toolUseId": call_id, **named}


def _calls_in(entry: Entry) -> list[str]:
    return [call.id for call in calls_of(message_in(entry.as_stored) or {})]


def scratch(writer: EntryWriter, at: Ref | None) -> Opened:
    writer.log.check_writable()
    start = writer.cursor.leaf if at is None else at
    writer.reader.ready()
    entry = writer.cursor.entry(start)
    # A fresh lane has no entry, and is not searched for.
    return _placed(_beside(writer, MAIN), SCRATCH + fresh_uuid()[:8], entry, check=False)


def _placed(opened: Opened, name: str, start: Entry | None, *, check: bool) -> Opened:
    _, writer = opened
    cursor = writer.cursor
    cursor.lane = None if name == MAIN else name
    with closed_on_failure(writer):
        if check:
            check_exists(cursor)
        if start is not None:
            cursor.move(cursor.entry(start))
    return opened


def _beside(writer: EntryWriter, name: str) -> Opened:
    log = writer.log.beside()
    with closed_on_failure(log):
        beside = EntryWriter.of(log, name, writer.hooks.registered, writer.spill_over)
    return opening.NativeFile(log), beside


def _opened_again(file: opening.SessionFile, writer: EntryWriter, name: str) -> Opened:
    """The parts on a lane of a file that is translated in memory; the file is read again."""
    log = file.original.to_read()
    with closed_on_failure(log):
        again = opening.open_file(log, migrate=False)
        opened = EntryWriter.of(again.log, name, writer.hooks.registered, writer.spill_over)
        check_exists(opened.cursor)
    return again, opened


def check_exists(cursor: Cursor) -> None:
    """Refuse to read a lane that has no entry, by a RefError."""
    name = cursor.lane
    if name is None or cursor.leaf.lane == name:
        return
    if cursor.reader.ready().walk().last_on(name) is None:
        error = RefError(
            f"there is no entry on a lane {name!r}{_lanes_there(cursor)}",
            name,
            [lane for lane in cursor.reader.index().lanes if lane is not None],
        )
        raise with_step(error, "see lanes")


def keep(writer: EntryWriter, name: str) -> Entry:
    """See `Session.keep`; for the lane of another session."""
    writer.log.check_writable()
    if name == (writer.cursor.lane or MAIN):
        error = UsageError(f"this session is on the lane {name} itself; name another lane to keep")
        raise with_step(error, "see lanes")
    uuid = fresh_uuid()
    if writer.hooks:
        writer.refresh()
        tip, fields = _keeping(writer, name)
        writer.call_before("branch", writer.draft("branch", fields, tip.uuid, uuid))

    def plan() -> list[Entry]:
        tip, fields = _keeping(writer, name)
        return [writer.draft("branch", fields, tip.uuid, uuid)]

    (entry,) = writer.commit(plan, "branch")
    return entry


def check_can_be_kept(writer: EntryWriter) -> None:
    """Refuse to keep the session's own lane where it is main or cannot be written."""
    if writer.cursor.lane is None:
        raise UsageError("the main lane needs no keeping; name the lane to keep")
    if not writer.log.closed:
        writer.log.check_writable()
        writer.reader.ready()  # a batch is a part of the lane


def keep_own(writer: EntryWriter, home: EntryWriter) -> Entry:
    """See `Session.keep`; for the lane of the session itself, joined to that of another."""
    name = writer.cursor.lane or MAIN
    if not name.startswith(SCRATCH):
        return keep(home, name)
    log = writer.log
    log.ended = (  # nothing is written on the lane from before it is kept
        f"the scratch lane {name} was kept, and is a part of {home.cursor.lane or MAIN}; go on "
        "there, or open another scratch lane"
    )
    try:
        return keep(home, name)
    except BaseException:
        log.ended = ""
        raise


def _keeping(writer: EntryWriter, name: str) -> tuple[Entry, dict[str, Any]]:
    cursor, reader = writer.cursor, writer.reader
    with reader.alone():
        view = reader.ready()
        if not writer.log.ends_at(view.size):
            reader.catch_up()  # lanes of this process can write while a batch is open
        tip = reader.view.walk().last_on(None if name == MAIN else name)
        if tip is None:
            error = NothingToDoError(
                f"there is nothing on the lane {name} to keep{_lanes_there(cursor)}"
            )
            raise with_step(error, "see lanes")
        if _is_above(cursor, tip, cursor.leaf):
            raise NothingToDoError(
                f"the lane {name} is kept already: its last entry {tip.uuid} is on the current "
                f"path of {cursor.lane or MAIN}; nothing was written"
            )
        left = _left_by(cursor, tip)
        return tip, {} if left is None else {"fromUuid": left.uuid}


def _lanes_there(cursor: Cursor) -> str:
    lanes = [lane for lane in cursor.reader.index().lanes if lane is not None]
    if not lanes:
        return "; no lane but main has an entry"
    more = f" and {len(lanes) - _MAX_NAMED} more" if len(lanes) > _MAX_NAMED else ""
    return f"; there are entries on {', '.join(lanes[-_MAX_NAMED:])}{more}"


def _left_by(cursor: Cursor, tip: Entry) -> Entry | None:
    """The place that the session's lane leaves, unless that is on the path to the tip."""
    leaf = cursor.leaf_in_log()
    if leaf.lane != cursor.lane:
        return None  # the lane has no entry yet
    left = cursor.reader.skip_markers(leaf)
    return None if left.type == HEADER or _is_above(cursor, left, tip) else left


def _is_above(cursor: Cursor, above: Entry, entry: Entry) -> bool:
    """Whether one entry is another or an ancestor of it; reads only the bytes between them.

    In a file where a parent comes after its child an ancestor may be missed.
    """
    if entry == above:
        return True
    for found in cursor.reader.view.walk().up(entry):
        if found == above:
            return True
        if found.offset < above.offset:
            return False
    return False


class LaneRow(msgspec.Struct, frozen=True):
    """A lane and its leaf."""

    name: str  # the name of the lane
    entries: int  # the number of its entries
    leaf: Entry  # its last entry
    at: Entry  # the entry that people see there: not an annotation, nor a mark that moves the leaf
    joined: bool  # whether the leaf is on the current path of main


def listed(cursor: Cursor) -> list[LaneRow]:
    """The lanes that have an entry, the one that was written last first."""
    with cursor.alone():
        reader = cursor.reader
        reader.whole()
        tree = reader.index()
        counts = Counter(map(tree.lane_of, range(len(tree))))
        lasts = tree.last_of_each_lane()
        on_main = set(tree.rows_up(lasts[None])) if None in lasts else set[int]()
        found = []
        for lane, row in sorted(lasts.items(), key=itemgetter(1), reverse=True):
            leaf = reader.entry_at(row)
            at, joined = reader.skip_markers(leaf), lane is not None and row in on_main
            found.append(LaneRow(lane or MAIN, counts[lane], leaf, at, joined))
        return found
