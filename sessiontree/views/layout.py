"""The one layout of a tree: what goes straight down, and where its branches begin.

`tree`, `browse`, `render` and `tree.render` draw these runs, each with its own words and colours.

Invariants: the current path goes straight down; the side branches of a fork are to the right of it,
in the order of the file, above the rest of the path; nothing recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

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
