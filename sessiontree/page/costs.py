"""Costs: what each turn used and cost, and how large the context was.

Invariants: an answer counts once, in the turn that has it first, however many entries repeat it.
What a session cost is what `stats --by` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from sessiontree.core.entry import Entry
from sessiontree.core.usage import usage_of
from sessiontree.operations.prices import Prices
from sessiontree.operations.spending import Spent, spent_by, with_covered
from sessiontree.operations.turns import SessionOutline

_REPORTED: Final = "as reported"
_LISTED: Final = "at list prices"


class Cost(NamedTuple):
    """A cost in US dollars, and how it was found."""

    dollars: float
    how: str


Found = tuple[list[tuple[str, Spent]], int]
"""What the answers of an entry used, by their names, and the size of the context they had."""


def found_in(entry: Entry, fields: Mapping[str, Any], time: datetime | None) -> Found | None:
    """What the fields of a message or another entry say of usage; `time` is that of the entry."""
    used = fields.get("usage")
    if not isinstance(used, Mapping):
        return None
    usage = usage_of(used)
    found = [(name or spent.key, spent) for name, spent in spent_by(entry, fields, time)]
    return found, usage.input + usage.cache_read + usage.cache_write


class Costs:
    """Collects the usage of answers; `load` gives the list prices, and is called when needed."""

    def __init__(self, load: Callable[[], Prices | None]) -> None:
        self._load = load
        self._answers: dict[str, Spent] = {}
        self._by_turn: dict[int, list[str]] = {}
        self._sizes: dict[int, list[int]] = {}

    def take(self, place: int, entries: Iterable[Found]) -> None:
        """Take what the entries of the turn at a place used."""
        for found, size in entries:
            is_new = False
            for key, spent in found:
                known = self._answers.get(key)
                self._answers[key] = spent.unless_known(known)
                if known is None:
                    is_new = True
                    self._by_turn.setdefault(place, []).append(key)
            if size and is_new:
                self._sizes.setdefault(place, []).append(size)

    def context_of(self, place: int) -> int:
        """The tokens that the model got at the last answer of a turn."""
        return self._sizes.get(place, [0])[-1]

    def sizes(self, outline: SessionOutline) -> list[list[int]]:
        """The sizes of the context by answer, for each turn of the current path."""
        return [
            self._sizes.get(place, []) if turn.current and not turn.subagent else []
            for place, turn in enumerate(outline.turns)
        ]

    def of(self, place: int) -> Cost | None:
        """What a turn cost; None if that is not known.

        What the agent reported for the whole session counts in `total` alone.
        """
        if place not in self._by_turn:
            return None
        found = [self._answers[key] for key in self._by_turn[place]]
        return self._sum([spent for spent in found if not spent.is_of_session])

    def total(self) -> Cost | None:
        """What all turns cost."""
        return self._sum(list(self._answers.values()))

    def _sum(self, found: list[Spent]) -> Cost | None:
        reported = listed = 0.0
        unknown = 0
        for spent in with_covered(found):
            reported += spent.usage.cost
            if not spent.needs_price:
                continue
            if (price := self._listed(spent)) is not None:
                listed += price
            else:
                unknown += 1
        if not (reported or listed):
            return None
        how = [_REPORTED] if reported else []
        how += [_LISTED] if listed else []
        how += [f"{unknown:,} answers without a price"] if unknown else []
        return Cost(reported + listed, ", ".join(how))

    def _listed(self, spent: Spent) -> float | None:
        prices = self._load()
        return None if prices is None else prices.of(spent)
