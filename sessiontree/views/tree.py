"""The tree of entries: branches, labels, the turns of a path, and the drawing of all entries.

Invariants: a drawing and a list resolve no handles; memory is bounded by the index, for lines are
read one at a time as they are shown; nothing recurses, so a chain of any depth can be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.core.codec import decoder
from sessiontree.core.damage import ignore
from sessiontree.core.display import one_line
from sessiontree.core.entry import SUBAGENT, Entry, stored
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import NO_ROW, Branch, Branching, TreeIndex
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.names import Names
from sessiontree.engine.reader import TreeReader
from sessiontree.text.preview import preview, role

_SUBAGENTS: Final = ("agent-", "sidechain-")


class EntryTree(NamedTuple):
    """What the tree of a session looks like now."""

    tree: TreeIndex
    names: Names  # labels and branch names
    view: LogTree  # reads the lines
    leaf: int  # the row of the session's leaf

    @classmethod
    def of(cls, cursor: Cursor) -> EntryTree:
        reader = cursor.reader
        view, leaf = reader.whole(), reader.row(cursor.leaf)
        return cls(view.tree(), reader.names(), view, leaf)

    def entry(self, row: int) -> Entry:
        offset = self.tree.offsets[row]
        missing = Entry(type=self.tree.type_of(row), uuid=self.tree.uuids[row])
        return self.view.read(offset) or stored(missing, b"", offset)

    def current(self, content: bytearray) -> int:
        """The content row at or above the leaf, or NO_ROW."""
        return next((row for row in self.tree.rows_up(self.leaf) if content[row]), NO_ROW)


def branches(cursor: Cursor, below: Entry | None) -> list[Branch]:
    """The branches of the conversation by their tips; see `sessiontree.core.index`.

    What a subagent did is no branch, but on the lane that the cursor is on.
    """
    with cursor.alone():
        outline = EntryTree.of(cursor)
        branching = Branching(outline.tree)
        current = outline.current(branching.content)
        within = None if below is None else set(outline.tree.subtree(cursor.reader.row(below)))
        names, empty = _named_branches(outline, branching.content)
        above = takewhile(lambda row: row != current, outline.tree.rows_up(outline.leaf))
        current = next((row for row in above if row in empty), current)
        subagents = subagent_lanes(cursor.reader) - {cursor.lane}
        ends = [
            row
            for row in sorted([*branching.tips(), *empty])
            if (within is None or row in within) and branching.lane_of(row) not in subagents
        ]
        callers = Callers(outline)
        return [
            callers.joined(_branch(outline, branching, row, names.get(row), current=row == current))
            for row in ends
        ]


def count_branches(reader: TreeReader) -> int:
    """The number of branches, without subagents' and scratch lanes that were never kept."""
    branching, subagents = Branching(reader.index()), subagent_lanes(reader)
    lanes = (branching.lane_of(tip) for tip in branching.tips())
    return sum(not is_scratch(lane) and lane not in subagents for lane in lanes)


def subagent_lanes(reader: TreeReader) -> frozenset[str | None]:
    """The lanes of agents that a program started; the user branched none of them."""
    tree, agent = reader.index(), agent_of(reader.header)
    if len(tree.lanes) == 1:
        return frozenset()
    return frozenset(
        lane
        for lane, row in tree.first_of_each_lane().items()
        if is_named_by_agent(lane, agent)
        or (tree.type_of(row) == "custom" and starts_subagent_lane(reader.entry_at(row)))
    )


def agent_of(header: Entry) -> str | None:
    """The name of the program that wrote the session, such as `codex`; None for sessiontree."""
    metadata = header.as_stored.get("metadata")
    agent = metadata.get("agent") if isinstance(metadata, dict) else None
    return one_line(agent, 60) if isinstance(agent, str) and agent else None


def starts_subagent_lane(entry: Entry) -> bool:
    """Whether a lane that begins with this entry is a subagent's."""
    return entry.type == "custom" and str(entry.as_stored.get("customType")).endswith(SUBAGENT)


def is_named_by_agent(lane: str | None, agent: str | None) -> bool:
    """Whether the reader of an agent's file gave this name to the lane of a subagent."""
    return agent is not None and lane is not None and lane.startswith(_SUBAGENTS)


def path_rows(tree: TreeIndex, row: int) -> bytearray:
    """A byte for each row of the index: 1 on the path to a row."""
    marks = bytearray(len(tree))
    for above in tree.rows_up(row):
        marks[above] = 1
    return marks


def entries_by_row(
    outline: EntryTree, lines: Iterator[tuple[int, bytes]], count: int
) -> Iterator[tuple[int, Entry]]:
    """Yield each of the first `count` rows with its entry."""
    row = 0
    decode = decoder(ignore)
    for offset, line in lines:
        if row == count or outline.tree.offsets[row] != offset:
            continue
        entry = decode(line, offset) or outline.view.read(offset)
        if entry is not None:
            yield row, entry
        row += 1


def _named_branches(outline: EntryTree, content: bytearray) -> tuple[dict[int, str], set[int]]:
    """The name of each named branch by its last row with content.

    One without content is by the row that names it; these rows alone are the second.
    """
    tree, names = outline.tree, outline.names
    tips = names.tips(tree) if names.branches else {}
    found: dict[int, str] = {}
    empty: set[int] = set()
    for name, rows in names.branch_rows(tree).items():
        for row in rows:
            tip = tips[row]
            while tip != row and not content[tip]:
                tip = tree.parents[tip]
            found[tip] = name
            if not content[tip]:
                empty.add(row)
    return found, empty


def _branch(
    outline: EntryTree,
    branching: Branching,
    tip: int,
    name: str | None,
    *,
    current: bool,
) -> Branch:
    if branching.content[tip]:
        fork, length = branching.fork_of(tip)
    else:  # a name without an entry
        content = (row for row in outline.tree.rows_up(tip) if branching.content[row])
        fork, length = next(content, NO_ROW), 0
    entry = shown = outline.entry(tip)
    if entry.type == "message_end" and outline.tree.parents[tip] != NO_ROW:
        above = outline.entry(outline.tree.parents[tip])
        shown = above if above.type == "block" else entry
    return Branch(
        leaf=entry.uuid,
        fork=None if fork == NO_ROW else outline.tree.uuids[fork],
        length=length,
        current=current,
        lane=entry.lane,
        name=name,
        preview=preview(shown) if length else "",
        updated=entry.timestamp,
    )


class Callers:
    """The calls that started subagents, whose lanes begin at the header: they see nothing else."""

    def __init__(self, outline: EntryTree) -> None:
        tree = outline.tree
        self._header = tree.uuids[0]
        self._of: dict[str | None, str] = {}  # the uuid of the call by lane
        self.below: dict[int, list[int]] = {}  # the first rows of the lanes by the row of the call
        self.moved: set[int] = set()  # those first rows
        for row in tree.children(0) if len(tree.lanes) > 1 else ():
            if (lane := tree.lane_of(row)) is None:
                continue
            if tree.type_of(row) == "custom" and lane not in self._of:
                self._note(outline.entry(row))
        drawn: set[str | None] = {None}
        for lane in self._of:
            self._check(tree, lane, drawn)
        for row in tree.children(0) if self._of else ():
            if (caller := tree.row(self._of.get(tree.lane_of(row), ""))) > 0:
                self.below.setdefault(caller, []).append(row)
                self.moved.add(row)

    def _check(self, tree: TreeIndex, start: str | None, drawn: set[str | None]) -> None:
        """Leave a lane at the header if its callers form a circle."""
        chain: dict[str | None, None] = {}
        lane = start
        while lane not in drawn and lane not in chain:
            chain[lane] = None
            caller = tree.row(self._of.get(lane, ""))
            lane = tree.lane_of(caller) if caller > 0 else None
        if lane in chain:
            self._of[lane] = ""
        drawn.update(chain)

    def _note(self, start: Entry) -> None:
        data = start.get("data")
        caller = data.get("calledBy") if isinstance(data, dict) else None
        if starts_subagent_lane(start) and isinstance(caller, str):
            self._of[start.lane] = caller

    def joined(self, branch: Branch) -> Branch:
        """A branch of a subagent's lane from its call; any other as it is."""
        caller = self._of.get(branch.lane)
        if caller is None or branch.fork != self._header:
            return branch
        return replace(branch, fork=caller)


class Label(msgspec.Struct, frozen=True):
    """A label."""

    label: str  # its text
    uuid: str  # the entry that it names
    type: str
    role: str | None  # the role of the entry's message, or None
    preview: str  # the content of the entry, shortened to 60 characters on one line
    time: str | None  # the timestamp of the entry as stored, or None
    current: bool  # whether the entry is on the path to the session's leaf


def labels(cursor: Cursor) -> list[Label]:
    """The labels whose entries are in the file, in the order of these entries."""
    with cursor.alone():
        outline = EntryTree.of(cursor)
        tree = outline.tree
        named = ((tree.row(uuid), text) for uuid, text in outline.names.labels.items())
        found = sorted((row, text) for row, text in named if row != NO_ROW)
        on_path = set(tree.rows_up(outline.leaf))
        return [_label(outline, row, text, current=row in on_path) for row, text in found]


def _label(outline: EntryTree, row: int, text: str, *, current: bool) -> Label:
    entry = outline.entry(row)
    return Label(
        label=text,
        uuid=entry.uuid,
        type=entry.type,
        role=role(entry),
        preview=preview(entry),
        time=entry.timestamp,
        current=current,
    )
