"""What each turn of a session cost, as reported or at list prices.

Invariant: an answer counts once, in the turn that has its first entry. What an agent reported for
the whole session counts in no turn.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.operations.prices import Prices
from sessiontree.operations.spending import Spent, spending, with_covered
from sessiontree.operations.turns import SessionOutline

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor


class TurnCost(NamedTuple):
    """What a turn cost in US dollars.

    Attributes:
        reported: the cost that the agent reported for it.
        listed: the list prices of the answers without a reported cost.
        unpriced: how many answers have neither.
    """

    reported: float = 0.0
    listed: float = 0.0
    unpriced: int = 0

    @property
    def dollars(self) -> float:
        """What is known of the cost."""
        return self.reported + self.listed


def costs_of_turns(
    cursor: Cursor, outline: SessionOutline, prices: Prices | None
) -> list[TurnCost]:
    """The cost of each turn of an outline, in its order."""
    tree = cursor.reader.index()
    owners = _owners(tree, outline)
    found: list[list[Spent]] = [[] for _ in outline.turns]
    for spent in spending(cursor):
        row = tree.row(spent.entry) if not spent.is_of_session else NO_ROW
        if row != NO_ROW and (place := owners[row]) >= 0:
            found[place].append(spent)
    return [_sum(each, prices) for each in found]


def _owners(tree: TreeIndex, outline: SessionOutline) -> array[int]:
    """The turn of each row: that of the nearest row above it that begins one; -1 for none."""
    begins = {tree.row(turn.uuid): place for place, turn in enumerate(outline.turns)}
    owners = array("i", [-1]) * len(tree)
    is_done = bytearray(len(tree))
    for row in range(len(tree)):
        path: list[int] = []
        above = row
        while above != NO_ROW and not is_done[above]:
            is_done[above] = 1
            path.append(above)
            above = tree.parents[above]
        place = -1 if above == NO_ROW else owners[above]
        for each in reversed(path):
            place = owners[each] = begins.get(each, place)
    return owners


def _sum(found: list[Spent], prices: Prices | None) -> TurnCost:
    reported = listed = 0.0
    unpriced = 0
    for spent in with_covered(found):
        reported += spent.usage.cost
        if spent.needs_price:
            price = None if prices is None else prices.of(spent)
            listed += price or 0.0
            unpriced += price is None
    return TurnCost(reported, listed, unpriced)
