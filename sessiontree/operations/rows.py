"""The entries of a session as rows, each with its place in the tree and what a screen shows.

Invariants: lines are read one at a time, as their rows are asked for; no handle is resolved.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from sessiontree.core.blocks import handle_text
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.engine.cursor import Cursor
from sessiontree.operations.outline import Outline, entries_by_row, path_rows
from sessiontree.operations.turns import Turning
from sessiontree.operations.work import Uncounted, told_by
from sessiontree.text.preview import preview, role


class TreeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One entry and its place in the tree.

    Attributes:
        uuid, parent_uuid, type, lane: the stored values of the entry; lane None means main.
        role: the role of the message, or None.
        preview: the content, shortened to 60 characters on one line.
        label: the label of the entry, or None.
        depth: the number of ancestors in the file.
        current: whether the entry is on the path to the session's leaf.
        time: the timestamp as stored, or None.
        turn: the number of the turn, as in `Session.outline`; None for an entry of a subagent, and
            where no turn is known.
        prompt: whether the entry is a prompt, which begins a turn.
        tools: the names of the tools that the entry calls, or whose result it is.
        usage: the tokens and the cost that the entry reports, as in `stats --json`; or None.
            Several entries may report the usage of one answer.
        model: the model that the entry names, or None.
        cost: the cost in US dollars that the entry reports, or None.
        agent: the program that wrote the session, such as `codex`; None for sessiontree.
        handle: the handle of the entry as text, not resolved; None for an entry of another type.
    """

    uuid: str
    parent_uuid: str | None
    type: str
    role: str | None
    preview: str
    lane: str | None
    label: str | None
    depth: int
    current: bool
    time: str | None = None
    turn: int | None = None
    prompt: bool = False
    tools: list[str] = []
    usage: dict[str, Any] | None = None
    model: str | None = None
    cost: float | None = None
    agent: str | None = None
    handle: str | None = None


def rows(cursor: Cursor) -> Iterator[TreeRow]:
    """All entries in file order, as they are known now."""
    with cursor.alone():
        outline = Outline.of(cursor)
        tree = outline.tree
        lines = outline.view.entry_lines()
        on_path = path_rows(tree, outline.leaf)
        return _rows(outline, lines, _depths(tree), on_path)


def _rows(
    outline: Outline,
    lines: Iterator[tuple[int, bytes]],
    depths: array[int],
    on_path: bytearray,
) -> Iterator[TreeRow]:
    labels = outline.names.labels
    turning = Turning(outline, Uncounted)
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
