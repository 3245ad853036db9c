"""The outline: the whole tree at a glance, as rows, as branches, or drawn.

Memory is bounded by the index: lines are read one at a time as they are shown.
Nothing here recurses, so a chain of any depth can be shown.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from operator import or_
from typing import Final, NamedTuple

import msgspec

from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry, stored
from sessiontree.core.garbage import is_scratch
from sessiontree.core.index import NO_ROW, Branch, Branching, TreeIndex
from sessiontree.core.message import begins_turn
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.refs import Names
from sessiontree.text.preview import preview, role

FOLD_LONGER_THAN: Final = 8
FOLD_SHOWS: Final = 2
"""Rows shown at either end of a folded run."""

DEEPEST: Final = 24
"""Columns of side branches drawn; deeper ones are drawn in the last."""


class Outlined(NamedTuple):
    """What an outline is made from.

    Attributes:
        tree: the index.
        names: labels and branch names.
        read: gives the entry whose line starts at an offset.
        lines: gives all lines with their offsets.
        leaf: the row the session stands at.
    """

    tree: TreeIndex
    names: Names
    read: Callable[[int], Entry | None]
    lines: Callable[[], Iterator[tuple[int, bytes]]]
    leaf: int

    @classmethod
    def of(cls, cursor: Cursor) -> Outlined:
        """What the outline of a session is made from."""
        reader = cursor.reader
        with reader.alone():
            view = reader.whole()
            leaf = reader.row(cursor.leaf)
            return cls(view.tree(), reader.names(), view.read, view.lines, leaf)

    def entry(self, row: int) -> Entry:
        offset = self.tree.offsets[row]
        missing = Entry(type=self.tree.type_of(row), uuid=self.tree.uuids[row])
        return self.read(offset) or stored(missing, b"", offset)

    def standing(self, content: bytearray) -> int:
        """The content row at or above the leaf, or NO_ROW."""
        return next((row for row in self.tree.rows_up(self.leaf) if content[row]), NO_ROW)


class TreeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One entry and its place in the tree.

    Attributes:
        uuid, parent_uuid, type, lane: as stored; a lane of None is main.
        role: the role it speaks in, or None.
        preview: its content in up to 60 characters on one line.
        label: its label, or None.
        depth: the number of its ancestors in the file.
        current: whether it is on the path to the session's leaf.
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


def rows(cursor: Cursor) -> Iterator[TreeRow]:
    """All entries in file order, as they are known now."""
    with cursor.alone():
        outlined = Outlined.of(cursor)
        return _all_rows(outlined)


def _all_rows(outlined: Outlined) -> Iterator[TreeRow]:
    tree = outlined.tree
    return _rows(outlined, outlined.lines(), _depths(tree), _marked(tree, outlined.leaf))


def _rows(
    outlined: Outlined,
    lines: Iterator[tuple[int, bytes]],
    depths: array[int],
    on_path: bytearray,
) -> Iterator[TreeRow]:
    tree, labels = outlined.tree, outlined.names.labels
    row = 0
    for offset, line in lines:
        if row == len(depths) or tree.offsets[row] != offset:
            continue
        entry = decode(line, offset, ignore)
        if entry is not None:
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
            )
        row += 1


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


def _marked(tree: TreeIndex, row: int) -> bytearray:
    marks = bytearray(len(tree))
    for above in tree.rows_up(row):
        marks[above] = 1
    return marks


def branches(cursor: Cursor, below: Entry | None) -> list[Branch]:
    """The branches of the conversation by their tips; see `sessiontree.core.index`."""
    with cursor.alone():
        row = None if below is None else cursor.reader.row(below)
        return _branches(Outlined.of(cursor), row)


def _branches(outlined: Outlined, below: int | None) -> list[Branch]:
    branching = Branching(outlined.tree)
    standing = outlined.standing(branching.content)
    within = None if below is None else set(outlined.tree.subtree(below))
    names = _names_of_tips(outlined, branching.content)
    return [
        _branch(outlined, branching, tip, names.get(tip), current=tip == standing)
        for tip in branching.tips()
        if within is None or tip in within
    ]


def count_branches(tree: TreeIndex) -> int:
    """How many lines of conversation there are, those not counted that were never kept."""
    branching = Branching(tree)
    return sum(not is_scratch(branching.lane_of(tip)) for tip in branching.tips())


def _names_of_tips(outlined: Outlined, content: bytearray) -> dict[int, str]:
    """The name of each named branch by its last row with content, where it has one."""
    tree, names = outlined.tree, outlined.names
    tips = names.tips(tree) if names.branches else {}
    found: dict[int, str] = {}
    for name, rows in names.branches.items():
        for row in rows:
            tip = tips[row]
            while tip != row and not content[tip]:
                tip = tree.parents[tip]
            if tip != row:
                found[tip] = name
    return found


def _branch(
    outlined: Outlined, branching: Branching, tip: int, name: str | None, *, current: bool
) -> Branch:
    fork, length = branching.fork_of(tip)
    entry = said = outlined.entry(tip)
    if entry.type == "message_end" and outlined.tree.parents[tip] != NO_ROW:
        said = outlined.entry(outlined.tree.parents[tip])
    return Branch(
        leaf=entry.uuid,
        fork=None if fork == NO_ROW else outlined.tree.uuids[fork],
        length=length,
        current=current,
        lane=entry.lane,
        name=name,
        preview=preview(said if said.type == "block" else entry),
        updated=entry.timestamp,
    )


class _Line(NamedTuple):
    """A run to be drawn: its first row, the columns before it, and how it joins them.

    Attributes:
        names: of the branches that begin above it, in rows that are not shown.
    """

    row: int
    columns: str
    joint: str
    names: tuple[str, ...] = ()

    @property
    def below(self) -> str:
        """The columns before all rows but the first."""
        return self.columns + _BELOW[self.joint]


_HERE: Final = "← you are here"

_BELOW: Final = {"": "", "├─": "│ ", "└─": "  "}


def drawn(cursor: Cursor, *, all: bool = False) -> Iterator[str]:
    """The tree as lines of text; each is drawn when it is asked for."""
    with cursor.alone():
        lines = _drawn(Outlined.of(cursor), all=all)
    return _synchronized(cursor, lines)


def _synchronized(cursor: Cursor, lines: Iterator[str]) -> Iterator[str]:
    """Lines drawn one at a time, each under the session's thread lock."""
    while True:
        with cursor.alone():
            line = next(lines, None)
        if line is None:
            return
        yield line


def turns(path: Sequence[Entry]) -> list[list[Entry]]:
    """The messages of a path by turns: each a prompt and what follows it."""
    turns: list[list[Entry]] = []
    for entry in path:
        message = entry.message_as_stored if entry.type == "message" else None
        if isinstance(message, dict) and begins_turn(entry.as_stored):
            turns.append([entry])
        elif turns and (isinstance(message, dict) or entry.type in ("block", "message_end")):
            turns[-1].append(entry)
    return turns


def _drawn(outlined: Outlined, *, all: bool = False) -> Iterator[str]:
    """The tree with box characters, a line for each message.

    The path to where the session stands runs straight down. What leaves it stands to the
    right, each branch at its joint, in file order, above where the path goes on.
    """
    picture = _Picture(outlined)
    yield picture.heading()
    waiting = [_Line(root, "", "") for root in reversed(outlined.tree.roots())]
    while waiting:
        line = waiting.pop()
        run, forks = picture.run_from(line.row)
        if line.row and outlined.tree.parents[line.row] == NO_ROW:
            yield from picture.orphan_heading(line.row)
        yield from picture.draw(run, line, all=all)
        columns = line.below[: 2 * DEEPEST]
        below = [_Line(row, columns, "├─", names) for row, names in forks]
        if below:
            joint = "" if picture.is_on_path(below[-1].row) else "└─"
            below[-1] = below[-1]._replace(joint=joint)
        waiting.extend(reversed(below))


class _Picture:
    """Draws runs: rows of which each is the only way on from the one before."""

    def __init__(self, outlined: Outlined) -> None:
        self._outlined = outlined
        tree = self._tree = outlined.tree
        self._content = tree.content_rows()
        for uuid in outlined.names.labels:
            if (row := tree.row(uuid)) != NO_ROW:
                self._content[row] = 1  # what someone labelled is shown, whatever it is
        above_content = tree.rows_above_content(self._content)
        self._leads_on = bytes(map(or_, self._content, above_content))
        self._on_path = _marked(tree, outlined.leaf)
        self._standing = outlined.standing(self._content)
        self._branch_names = {
            row: name for name, found in outlined.names.branches.items() for row in found
        }

    def heading(self) -> str:
        header = self._outlined.entry(0)
        facts = [f"session {header.get('id', '')}", self._outlined.names.name, header.get("cwd")]
        heading = " · ".join(one_line(fact) for fact in facts if isinstance(fact, str) and fact)
        stands_above_all = self._standing == NO_ROW and any(self._content)
        return heading + (f"  {_HERE}" if stands_above_all else "")

    def orphan_heading(self, row: int) -> Iterator[str]:
        """The line above a run whose parent is not in the file."""
        if self._leads_on[row]:
            parent = self._outlined.entry(row).parent_uuid
            yield f"orphan: its parent {one_line(str(parent))} is not in the file"

    def is_on_path(self, row: int) -> bool:
        """Whether a row is on the path to where the session stands."""
        return bool(self._on_path[row])

    def run_from(self, row: int) -> tuple[list[int], list[tuple[int, tuple[str, ...]]]]:
        """The rows from this one down to a fork or an end, and the ways on from there.

        Each way is the first row of it that is shown, with the names of the branches that
        begin before it. One on the path to where the session stands is the last.
        """
        run = [row]
        ways = [row]
        while len(ways) == 1:
            run += self._as_far_as_shown(self._tree.only_children(ways[0]))
            ways = self._ways_on(run[-1])
            run += ways if len(ways) == 1 else ()
        return run, sorted(self._shown_ways(ways), key=lambda way: (self._on_path[way[0]], way[0]))

    def _as_far_as_shown(self, chain: list[int]) -> Iterable[int]:
        if chain and max(chain) < len(self._leads_on) and self._leads_on[chain[-1]]:
            return chain  # what leads to the last is shown as well
        return takewhile(self._is_on_the_way, chain)

    def _is_on_the_way(self, row: int) -> bool:
        """Whether a row is shown, or leads to something that is."""
        return row < len(self._leads_on) and bool(self._leads_on[row])  # others came since

    def _ways_on(self, row: int) -> list[int]:
        """The children of a row that are shown, or lead to something that is."""
        return list(filter(self._is_on_the_way, self._tree.children(row)))

    def _shown_ways(self, ways: list[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Ways on; where one forks before anything of it is shown, the ways from there."""
        waiting: list[tuple[int, tuple[str, ...]]] = [(row, ()) for row in ways]
        while waiting:
            row, names = waiting.pop()
            onward = [row]
            while len(onward) == 1 and not self._content[row := onward[0]]:
                names += tuple(filter(None, (self._branch_names.get(row),)))
                onward = self._ways_on(row)
            if len(onward) == 1:
                yield row, names
            else:
                waiting += [(way, names) for way in onward]

    def draw(self, run: list[int], line: _Line, *, all: bool) -> Iterator[str]:
        """The lines of a run."""
        shown = [row for row in run if self._content[row]]
        names = [
            *line.names,
            *(self._branch_names[row] for row in run if row in self._branch_names),
        ]
        first = line.columns + line.joint
        later = line.below
        keep = self._kept(shown, all=all)
        folded = 0
        for row in shown:
            if row not in keep:
                folded += 1
                continue
            if folded:
                yield f"{first}⋮ {folded} more"
                first, folded = later, 0
            yield self._row(row, first, names)
            first, names = later, []

    def _kept(self, shown: list[int], *, all: bool) -> set[int]:
        if all or len(shown) <= FOLD_LONGER_THAN:
            return set(shown)
        labels, uuids = self._outlined.names.labels, self._tree.uuids
        kept = {*shown[:FOLD_SHOWS], *shown[-FOLD_SHOWS:]}
        return kept | {row for row in shown if uuids[row] in labels or row == self._standing}

    def _row(self, row: int, columns: str, names: list[str]) -> str:
        entry = self._outlined.entry(row)
        mark = "●" if self._on_path[row] else "○"
        speaker = one_line(role(entry) or entry.type)
        parts = [f"{columns}{mark} {speaker}", preview(entry), one_line(entry.uuid[:8])]
        label = self._outlined.names.labels.get(entry.uuid)
        parts += [f"[{one_line(label)}]"] if label else []
        parts += [f"({one_line(name)})" for name in names]
        parts += [f"lane {one_line(entry.lane)}"] if entry.lane else []
        parts += [_HERE] if row == self._standing else []
        return "  ".join(parts)
