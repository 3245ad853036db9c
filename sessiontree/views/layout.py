"""The one layout of a tree: what goes straight down, where its branches begin, and its rows.

`tree`, `browse` and the page lay out turns, `tree --all` and `tree.render` entries; each has words
and colours of its own.

Invariants: the current path goes straight down; the side branches of a fork are to the right of it,
in the order of the file, above the rest of the path; nothing recurses, so a chain of any depth can
be shown; a drawing resolves no handles, and reads lines one at a time as they are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from operator import or_
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from sessiontree.core.display import WIDTH, one_line
from sessiontree.core.index import NO_ROW
from sessiontree.engine.cursor import Cursor
from sessiontree.text.preview import speaker
from sessiontree.views.tree import Callers, EntryTree, path_rows
from sessiontree.views.words import EVENTS, HERE

if TYPE_CHECKING:
    from sessiontree.views.turns import Turn

_BELOW: Final = {"": "", "├─": "│ ", "└─": "  "}  # by a joint, the columns below it


class Run(NamedTuple):
    """Nodes of which each is the only one below the one before; `joint` is before the first."""

    nodes: Sequence[int]
    columns: str = ""
    joint: str = ""
    level: int = 0
    """How many branches and subagents it is inside of."""

    is_folded: bool = False
    """Whether only the first node is shown, for all that is below it."""

    @property
    def below(self) -> str:
        """The columns before all rows but the first."""
        return self.columns + _BELOW[self.joint]


class Shape(Protocol):
    """A tree whose nodes are numbers."""

    def straight(self, node: int) -> Sequence[int]:
        """Return a node and those below it, down to the next fork or the end."""

    def below(self, node: int | None) -> Sequence[int]:
        """Return the nodes below one, in the order of the file; below None, the tops."""

    def is_current(self, node: int) -> bool:
        """True if a node is on the current path."""

    def is_side(self, node: int) -> bool:
        """True if a node is a subagent's, which never goes straight down."""


def layout(
    shape: Shape,
    tops: Sequence[Run] = (),
    *,
    deepest: int,
    folded: Callable[[Run], bool] = lambda run: False,
) -> Iterator[Run]:
    """Yield the runs of a tree from top to bottom, by default of all that is below its tops.

    Branches that are deeper than `deepest` are drawn in the last column.
    """
    waiting = [*reversed(tops)] or _forks(shape, None, Run(()), deepest)
    while waiting:
        run = waiting.pop()
        if folded(run):
            yield run._replace(is_folded=True)
            continue
        run = run._replace(nodes=shape.straight(run.nodes[0]))
        yield run
        waiting += _forks(shape, run.nodes[-1], run, deepest)


def inside(shape: Shape, node: int) -> list[int]:
    """A node and all nodes below it."""
    found = [node]
    for one in found:
        found += shape.below(one)
    return found


def _forks(shape: Shape, node: int | None, run: Run, deepest: int) -> list[Run]:
    """The runs below a node, the first to be drawn at the end."""

    def rank(child: int) -> tuple[bool, bool, int]:
        return shape.is_current(child), not shape.is_side(child), child

    ordered = sorted(shape.below(node), key=rank)
    if not ordered:
        return []
    forks = [Run((child,), run.below[: 2 * deepest], "├─", run.level + 1) for child in ordered]
    last = ordered[-1]
    is_alone = len(ordered) == 1 or shape.is_side(ordered[-2])
    if not shape.is_side(last) and (shape.is_current(last) or is_alone):
        forks[-1] = Run((last,), run.below, "", run.level)
    else:
        forks[-1] = forks[-1]._replace(joint="└─")
    return forks[::-1]


class TurnTree:
    """The turns of a session as a tree; `with_subagents`, each subagent is a side branch."""

    def __init__(self, turns: Sequence[Turn], *, with_subagents: bool = False) -> None:
        self.turns, self.with_subagents = turns, with_subagents
        self._below: dict[int | None, list[int]] = {}
        for place, turn in enumerate(turns):
            if with_subagents or not turn.subagent:
                self._below.setdefault(turn.above, []).append(place)

    def straight(self, node: int) -> Sequence[int]:
        found = [node]
        while len(below := self.below(found[-1])) == 1 and not self.is_side(below[0]):
            found += below
        return found

    def below(self, node: int | None) -> Sequence[int]:
        return self._below.get(node, ())

    def is_current(self, node: int) -> bool:
        return self.turns[node].current

    def is_side(self, node: int) -> bool:
        return self.turns[node].subagent


class OutlineRow(NamedTuple):
    """A row of an outline: a turn, something in it, or what came out of it (`end`)."""

    kind: Literal["turn", "event", "reply", "subagent", "more", "end"]
    place: int
    """The turn in `SessionOutline.turns`."""

    columns: str = ""
    below: str = ""
    """The columns of the tree before it, and before further lines of it."""

    level: int = 0
    """How many branches and subagents it is inside of."""

    key: str | None = None
    """What folds here: the uuid of a branch's first turn, or the lane of a subagent."""

    inside: Sequence[int] = ()
    """The turns that are folded here; of `more`, the subagents without a row."""

    item: int = 0
    """The place of the event or the subagent in its turn."""

    @property
    def starts(self) -> bool:
        """True if a branch begins here."""
        return self.kind == "turn" and self.key is not None


def outline_rows(
    tree: TurnTree,
    *,
    deepest: int,
    folded: Callable[[Run], bool],
    opened: Collection[str] = (),
    left_out: Collection[int] = (),
    most_subagents: int | None = None,
) -> Iterator[OutlineRow]:
    """Yield the rows of an outline, from top to bottom.

    The turns of a subagent are below its row if its lane is `opened`, or on a side branch if the
    tree has subagents. Turns that are `left_out` have no row.
    """
    for run in layout(tree, deepest=deepest, folded=folded):
        first = run.nodes[0]
        key = tree.turns[first].uuid if run.joint else None
        row = OutlineRow("turn", first, run.columns + run.joint, run.below, run.level, key)
        if run.is_folded:
            yield row._replace(inside=inside(tree, first))
            continue
        for place in run.nodes:
            if place in left_out:
                continue
            yield row._replace(place=place)
            turn, row = (
                tree.turns[place],
                OutlineRow("turn", place, run.below, run.below, run.level),
            )
            for item, event in enumerate(turn.events):
                if event.kind in EVENTS:
                    yield row._replace(kind="event", item=item)
                elif event.kind == "reply":
                    yield row._replace(kind="reply", item=item)
            if not tree.with_subagents:
                yield from _subagent_rows(turn, row, opened, most_subagents)
            yield row._replace(kind="end")


def _subagent_rows(
    turn: Turn, row: OutlineRow, opened: Collection[str], most: int | None
) -> Iterator[OutlineRow]:
    shown = [item for item, agent in enumerate(turn.subagents) if not agent.own]
    row = row._replace(kind="subagent", level=row.level + 1)
    for item in shown[:most]:
        turns = turn.subagents[item].turns
        key = turn.subagents[item].lane if turns else None
        is_open = key in opened
        yield row._replace(key=key, inside=() if is_open else turns, item=item)
        if is_open:
            for place in turns:
                yield row._replace(kind="turn", place=place, level=row.level + 1)
    if more := shown[len(shown[:most]) :]:
        yield row._replace(kind="more", inside=more)


_FOLD_LONGER_THAN: Final = 8  # rows
_FOLD_SHOWS: Final = 2  # rows shown at either end of a folded run
_LEAST: Final = 8  # characters of an entry's content
_MAX_COLUMNS: Final = 24  # of side branches; deeper ones are drawn in the last


def draw(
    cursor: Cursor, *, all: bool = False, width: int | None = None, recent: int = _FOLD_SHOWS
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


class _Picture:
    """The tree with box characters, a line for each message; the shape that is laid out."""

    def __init__(self, outline: EntryTree, *, all: bool, width: int | None, recent: int) -> None:
        self._width = width
        self._recent = recent
        self._outline = outline
        self._all = all
        cwd = outline.entry(0).get("cwd")
        self._cwd = cwd if isinstance(cwd, str) else None
        tree = self._tree = outline.tree
        self._callers = Callers(outline)
        self._content = tree.content_rows()
        for uuid in outline.names.labels:
            if (row := tree.row(uuid)) != NO_ROW:
                self._content[row] = 1  # a labelled entry of any type is shown
        self._current = outline.current(self._content)
        self._is_above_all = self._current == NO_ROW and any(self._content)
        if all:
            self._content[1:] = b"\1" * (len(tree) - 1)
        above_content = tree.rows_above_content(self._content)
        self._leads_on = bytes(map(or_, self._content, above_content))
        self._on_path = path_rows(tree, outline.leaf)
        self._names_above: dict[int, tuple[str, ...]] = {}
        self._branch_names = {
            row: name for name, rows in outline.names.branch_rows(tree).items() for row in rows
        }

    def lines(self) -> Iterator[str]:
        yield self._heading()
        roots = [Run((root,)) for root in self._tree.roots()]
        for run in layout(self, roots, deepest=_MAX_COLUMNS):
            first = run.nodes[0]
            if first and self._tree.parents[first] == NO_ROW and self._leads_on[first]:
                parent = self._outline.entry(first).parent_uuid
                yield f"orphan: its parent {one_line(str(parent))} is not in the file"
            yield from self._run(run)

    def _heading(self) -> str:
        header = self._outline.entry(0)
        facts = [f"session {header.get('id', '')}", self._outline.names.name, header.get("cwd")]
        heading = " · ".join(one_line(fact) for fact in facts if isinstance(fact, str) and fact)
        return heading + (f"  {HERE}" if self._is_above_all else "")

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
        if self._all or len(shown) <= _FOLD_LONGER_THAN:
            return set(shown)
        labels, uuids = self._outline.names.labels, self._tree.uuids
        last = self._recent if self._current in shown else _FOLD_SHOWS
        ends = {*shown[:_FOLD_SHOWS], *shown[-last:]}
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
        parts += [HERE] if row == self._current else []
        taken = len("  ".join(parts))
        room = WIDTH if self._width is None else max(_LEAST, self._width - taken)
        from sessiontree.views.ledger import gist_of  # only trees of entries have gists

        parts[1] = gist_of(entry, room, self._cwd)
        return "  ".join(parts)
