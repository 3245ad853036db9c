"""The tree of entries: branches, labels, the turns of a path, and the drawing of all entries.

Invariants: a drawing and a list resolve no handles; memory is bounded by the index, for lines are
read one at a time as they are shown; nothing recurses, so a chain of any depth can be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.core.codec import decoder
from sessiontree.core.damage import ignore
from sessiontree.core.display import WIDTH, one_line
from sessiontree.core.entry import Entry, stored
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import NO_ROW, Branch, Branching, TreeIndex
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.names import Names
from sessiontree.engine.reader import TreeReader
from sessiontree.text.preview import preview, role, speaker

if TYPE_CHECKING:
    from sessiontree.views.layout import Run

_SUBAGENTS: Final = ("agent-", "sidechain-")
FOLD_LONGER_THAN: Final = 8  # rows
FOLD_SHOWS: Final = 2  # rows shown at either end of a folded run
_LEAST: Final = 8  # characters of an entry's content
_HERE: Final = "← you are here"
_DEEPEST: Final = 24  # columns of side branches drawn; deeper ones are drawn in the last


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
        callers = _Callers(outline)
        return [
            callers.joined(_branch(outline, branching, row, names.get(row), current=row == current))
            for row in ends
        ]


def draw(
    cursor: Cursor, *, all: bool = False, width: int | None = None, recent: int = FOLD_SHOWS
) -> Iterator[str]:
    """The tree as lines of text, each drawn when it is asked for, under the thread lock.

    `recent` is how many rows a folded run shows at its end if it has the leaf.
    """
    with cursor.alone():
        outline = EntryTree.of(cursor)

    def locked() -> Iterator[str]:
        with cursor.alone():
            picture = _Picture(outline, all=all, width=width, recent=recent)
            lines = picture.lines()
        while True:
            with cursor.alone():
                line = next(lines, None)
            if line is None:
                return
            yield line

    return locked()


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
        or (tree.type_of(row) == "custom" and begins_subagent(reader.entry_at(row)))
    )


def agent_of(header: Entry) -> str | None:
    """The name of the program that wrote the session, such as `codex`; None for sessiontree."""
    metadata = header.as_stored.get("metadata")
    agent = metadata.get("agent") if isinstance(metadata, dict) else None
    return one_line(agent, 60) if isinstance(agent, str) and agent else None


def begins_subagent(entry: Entry) -> bool:
    """Whether a lane that begins with this entry is a subagent's."""
    return entry.type == "custom" and str(entry.as_stored.get("customType")).endswith(":subagent")


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


class _Callers:
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
        is_start = str(start.get("customType")).endswith(":subagent")
        if is_start and isinstance(caller, str):
            self._of[start.lane] = caller

    def joined(self, branch: Branch) -> Branch:
        """A branch of a subagent's lane from its call; any other as it is."""
        caller = self._of.get(branch.lane)
        if caller is None or branch.fork != self._header:
            return branch
        return replace(branch, fork=caller)


class _Picture:
    """The tree with box characters, a line for each message; the shape that is laid out."""

    def __init__(self, outline: EntryTree, *, all: bool, width: int | None, recent: int) -> None:
        self._width = width
        self._recent = recent
        self._outline = outline
        self._all = all
        tree = self._tree = outline.tree
        self._callers = _Callers(outline)
        self._content = tree.content_rows()
        for uuid in outline.names.labels:
            if (row := tree.row(uuid)) != NO_ROW:
                self._content[row] = 1  # a labelled entry of any type is shown
        above_content = tree.rows_above_content(self._content)
        self._leads_on = bytes(map(or_, self._content, above_content))
        self._on_path = path_rows(tree, outline.leaf)
        self._current = outline.current(self._content)
        self._names_above: dict[int, tuple[str, ...]] = {}
        self._branch_names = {
            row: name for name, rows in outline.names.branch_rows(tree).items() for row in rows
        }

    def lines(self) -> Iterator[str]:
        from sessiontree.views.layout import Run, layout  # few commands draw

        yield self._heading()
        roots = [Run((root,)) for root in self._tree.roots()]
        for run in layout(self, roots, deepest=_DEEPEST):
            first = run.nodes[0]
            if first and self._tree.parents[first] == NO_ROW and self._leads_on[first]:
                parent = self._outline.entry(first).parent_uuid
                yield f"orphan: its parent {one_line(str(parent))} is not in the file"
            yield from self._run(run)

    def _heading(self) -> str:
        header = self._outline.entry(0)
        facts = [f"session {header.get('id', '')}", self._outline.names.name, header.get("cwd")]
        heading = " · ".join(one_line(fact) for fact in facts if isinstance(fact, str) and fact)
        is_above_all = self._current == NO_ROW and any(self._content)
        return heading + (f"  {_HERE}" if is_above_all else "")

    def straight(self, node: int) -> Sequence[int]:
        rows = [node]
        children = [node]
        while len(children) == 1:
            rows += takewhile(self._leads_to_shown, self._only_children(children[0]))
            children = self._shown_children(rows[-1])
            rows += children if len(children) == 1 else ()
        return rows

    def below(self, node: int | None) -> Sequence[int]:
        """The first shown rows of the branches; names that begin above them are noted."""
        forks = dict(self._shown_branches(self._shown_children(node or 0)))
        self._names_above |= forks
        return list(forks)

    def is_current(self, node: int) -> bool:
        return bool(self._on_path[node])

    def is_side(self, node: int) -> bool:
        return False

    def _only_children(self, row: int) -> list[int]:
        """The rows below one, each the only one below the row before it, up to a call."""
        callers = self._callers.below
        if row in callers:
            return []
        chain = self._tree.only_children(row)
        if not callers:
            return chain
        end = next((at + 1 for at, below in enumerate(chain) if below in callers), len(chain))
        return chain[:end]

    def _leads_to_shown(self, row: int) -> bool:
        """Whether a row is shown, or is above one that is."""
        return row < len(self._leads_on) and bool(self._leads_on[row])  # others came since

    def _shown_children(self, row: int) -> list[int]:
        children = [*self._callers.below.get(row, ()), *self._tree.children(row)]
        if row == 0:
            children = [child for child in children if child not in self._callers.moved]
        return list(filter(self._leads_to_shown, children))

    def _shown_branches(self, rows: list[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The branches; where one forks before a row of it is shown, the branches from there."""
        waiting: list[tuple[int, tuple[str, ...]]] = [(row, ()) for row in rows]
        while waiting:
            row, names = waiting.pop()
            below = [row]
            while len(below) == 1 and not self._content[row := below[0]]:
                names += tuple(filter(None, (self._branch_names.get(row),)))
                below = self._shown_children(row)
            if len(below) == 1:
                yield row, names
            else:
                waiting += [(child, names) for child in below]

    def _run(self, run: Run) -> Iterator[str]:
        rows = run.nodes
        shown = [row for row in rows if self._content[row]]
        names = [*self._names_above.get(rows[0], ())]
        names += [self._branch_names[row] for row in rows if row in self._branch_names]
        columns = run.columns + run.joint
        unfolded = self._unfolded(shown)
        folded = 0
        for row in shown:
            if row not in unfolded:
                folded += 1
                continue
            if folded:
                yield f"{columns}⋮ {folded} more"
                columns, folded = run.below, 0
            yield self._row(row, columns, names)
            columns, names = run.below, []

    def _unfolded(self, shown: list[int]) -> set[int]:
        if self._all or len(shown) <= FOLD_LONGER_THAN:
            return set(shown)
        labels, uuids = self._outline.names.labels, self._tree.uuids
        last = self._recent if self._current in shown else FOLD_SHOWS
        ends = {*shown[:FOLD_SHOWS], *shown[-last:]}
        return ends | {row for row in shown if uuids[row] in labels or row == self._current}

    def _row(self, row: int, columns: str, names: list[str]) -> str:
        entry = self._outline.entry(row)
        mark = "●" if self._on_path[row] else "○"
        who = one_line(speaker(entry) or entry.type)
        parts = [f"{columns}{mark} {who}", "", one_line(entry.uuid[:8])]
        label = self._outline.names.labels.get(entry.uuid)
        parts += [f"[{one_line(label)}]"] if label else []
        parts += [f"({one_line(name)})" for name in names]
        parts += [f"lane {one_line(entry.lane)}"] if entry.lane else []
        parts += [_HERE] if row == self._current else []
        taken = len("  ".join(parts))
        room = WIDTH if self._width is None else max(_LEAST, self._width - taken)
        parts[1] = preview(entry, width=room)
        return "  ".join(parts)


class Label(msgspec.Struct, frozen=True):
    """A label.

    Attributes:
        label: its text.
        uuid, type: the entry that it names.
        role: the role of the entry's message, or None.
        preview: the content of the entry, shortened to 60 characters on one line.
        time: the timestamp of the entry as stored, or None.
        current: whether the entry is on the path to the session's leaf.
    """

    label: str
    uuid: str
    type: str
    role: str | None
    preview: str
    time: str | None
    current: bool


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
