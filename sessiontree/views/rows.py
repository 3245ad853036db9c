"""The entries of a session as rows of its tree, and the entries of a turn in full.

Invariants: lines are read one at a time, as their rows are asked for; no handle is resolved;
content that is missing or damaged is reported in its place, and hides nothing else.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from sessiontree.core.blocks import handle_text
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.message import Message
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError
from sessiontree.text.preview import is_uninformative, preview, role, speaker, told
from sessiontree.views.messages import is_repeat, is_said, with_messages
from sessiontree.views.tree import EntryTree, entries_by_row, path_rows
from sessiontree.views.turns import Turn, TurnBuilder, entries_of
from sessiontree.views.work import NullTally, told_by

if TYPE_CHECKING:
    from sessiontree.views.ledger import LedgerAct
    from sessiontree.views.parts import Part


class TreeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One entry and its place in the tree."""

    uuid: str
    parent_uuid: str | None
    type: str
    role: str | None  # the role of the message, or None
    preview: str  # the content, shortened to 60 characters on one line
    lane: str | None  # None means main
    label: str | None  # the label of the entry, or None
    depth: int  # the number of ancestors in the file
    current: bool  # whether the entry is on the path to the session's leaf
    time: str | None = None  # the timestamp as stored, or None
    # the number of the turn, as in `Session.outline`; None for an entry of a subagent, and where no
    # turn is known
    turn: int | None = None
    prompt: bool = False  # whether the entry is a prompt, which begins a turn
    tools: list[str] = []  # the names of the tools that the entry calls, or whose result it is
    # the tokens and the cost that the entry reports, as in `stats --json`; or None. Several entries
    # may report the usage of one answer
    usage: dict[str, Any] | None = None
    model: str | None = None  # the model that the entry names, or None
    cost: float | None = None  # the cost in US dollars that the entry reports, or None
    # the program that wrote the session, such as `codex`; None for sessiontree
    agent: str | None = None
    # the handle of the entry as text, not resolved; None for an entry of another type
    handle: str | None = None


def rows(cursor: Cursor) -> Iterator[TreeRow]:
    """All entries in file order, as they are known now."""
    with cursor.alone():
        outline = EntryTree.of(cursor)
        tree = outline.tree
        lines = outline.view.entry_lines()
        on_path = path_rows(tree, outline.leaf)
        turning = TurnBuilder(outline, NullTally)  # looks at the whole tree, which may grow later
        return _rows(outline, lines, _depths(tree), on_path, turning)


def _rows(
    outline: EntryTree,
    lines: Iterator[tuple[int, bytes]],
    depths: array[int],
    on_path: bytearray,
    turning: TurnBuilder,
) -> Iterator[TreeRow]:
    labels = outline.names.labels
    for row, entry in entries_by_row(outline, lines, len(depths)):
        is_prompt = turning.take(row, entry)
        told = told_by(entry)
        yield TreeRow(
            uuid=entry.uuid,
            parent_uuid=entry.parent_uuid,
            type=entry.type,
            role=role(entry),
            preview=preview(entry),
            lane=entry.lane,
            label=labels.get(entry.uuid),
            depth=depths[row],
            current=bool(on_path[row]),
            time=entry.timestamp,
            turn=turning.number_of(row),
            prompt=is_prompt,
            tools=told.tools,
            usage=None if told.usage is None else told.usage.as_dict(),
            model=told.model,
            cost=(told.usage and told.usage.cost) or None,
            agent=turning.agent,
            handle=handle_text(entry) if entry.type == "handle" else None,
        )


def _depths(tree: TreeIndex) -> array[int]:
    depths = array("i", [-1]) * len(tree)
    for row in range(len(tree)):
        chain = []
        above = row
        while above != NO_ROW and depths[above] < 0:
            chain.append(above)
            above = tree.parents[above]
        depth = -1 if above == NO_ROW else depths[above]
        for below in reversed(chain):
            depth += 1
            depths[below] = depth
    return depths


class ReadEntry(msgspec.Struct, frozen=True):
    """An entry in full."""

    uuid: str
    type: str
    speaker: str  # who speaks, as people read it; else the type
    time: str | None  # the timestamp as stored, or None
    label: str | None  # the label of the entry, or None
    parts: list[Part]  # the content


def said_in(cursor: Cursor, turn: Turn) -> Iterator[tuple[Entry, Message | None]]:
    """Yield the entries of a turn that say something, each with the message behind its handle."""
    entries = entries_of(cursor, turn)
    for entry, message in with_messages(entries, cursor.messages, is_wanted=is_uninformative):
        if is_said(entry) and not is_repeat(entry, cursor.reader.index):
            yield entry, message


def read_turn(cursor: Cursor, turn: Turn) -> Iterator[ReadEntry]:
    """The entries of a turn that say something, in order; a result is in the part of its call."""
    from sessiontree.views.ledger import ledger  # rows of a tree do without

    labels = dict(turn.labels)
    cwd = cursor.reader.header.get("cwd")
    rows = ledger(said_in(cursor, turn), cwd if isinstance(cwd, str) else None)
    whole = {row.entry.uuid: _parts(row.entry, row.message) for row in rows}
    for row in rows:
        if row.is_result:
            continue
        entry, acts = row.entry, iter(row.acts)
        yield ReadEntry(
            uuid=entry.uuid,
            type=entry.type,
            speaker=speaker(entry, row.message) or entry.type,
            time=entry.timestamp,
            label=labels.get(entry.uuid),
            parts=[
                part if part.call is None else _with_result(part, next(acts, None), whole)
                for part in whole[entry.uuid]
            ],
        )


def _with_result(part: Part, found: LedgerAct | None, whole: Mapping[str, list[Part]]) -> Part:
    """The part of a call, with what came out of it."""
    if found is None:
        return part
    results = (one for one in whole.get(found.result or "", ()) if one.kind == "result")
    result = next((one for one in results if one.id == found.call.id), None)
    pieces = () if result is None else result.pieces
    return replace(part, act=found.act, pieces=pieces, failed=found.act.failed)


def _parts(entry: Entry, message: Message | None) -> list[Part]:
    from sessiontree.views.parts import Part, parts_of  # as above

    try:
        return list(parts_of(entry.body, message))
    except SessionTreeError as error:  # of a blob, which is read with its part
        return [Part("error", str(error)), *parts_of(told(entry.as_stored), message)]
