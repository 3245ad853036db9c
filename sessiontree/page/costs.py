"""Costs: what each turn used and cost, and how large the context was.

Invariant: an answer counts once, in the turn that has it first, however many entries repeat it; of
lines that repeat it the last counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from sessiontree.core.counts import ANSWERS
from sessiontree.core.entry import Entry
from sessiontree.core.moment import moment_of
from sessiontree.core.usage import reports_cost, usage_of, written_for_an_hour
from sessiontree.operations.prices import Prices
from sessiontree.operations.spending import Spent
from sessiontree.operations.turns import SessionOutline

_REPORTED: Final = "as reported"
_LISTED: Final = "at list prices"


class Cost(NamedTuple):
    """A cost in US dollars, and how it was found."""

    dollars: float
    how: str


class Costs:
    """Collects the usage of answers; `load` gives the list prices, and is called when needed."""

    def __init__(self, load: Callable[[], Prices | None]) -> None:
        self._load = functools.cache(load)
        self._answers: dict[str, tuple[int, Spent]] = {}
        self._by_turn: dict[int, list[str]] = {}
        self._sizes: dict[int, list[int]] = {}

    def take(self, entry: Entry, fields: Mapping[str, Any], place: int) -> None:
        """Take the fields of a message or another entry, of the turn at a place."""
        used = fields.get("usage")
        if not isinstance(used, Mapping):
            return
        usage = usage_of(used)
        given = fields.get(ANSWERS.get(entry.type, ""))
        key = given if isinstance(given, str) and given else entry.uuid
        known = self._answers.get(key)
        if known is not None:
            place = known[0]
        else:
            self._by_turn.setdefault(place, []).append(key)
        provider, model = fields.get("provider"), fields.get("model")
        spent = Spent(
            key=key,
            time=moment_of(entry.timestamp),
            provider=provider if isinstance(provider, str) else None,
            model=model if isinstance(model, str) else "",
            usage=usage,
            written_for_an_hour=written_for_an_hour(used),
            is_reported=reports_cost(used),
        )
        self._answers[key] = place, spent
        size = usage.input + usage.cache_read + usage.cache_write
        if size and known is None:
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
        """What a turn cost; None if that is not known."""
        return self._sum(self._by_turn.get(place, []))

    def total(self) -> Cost | None:
        """What all turns cost."""
        return self._sum(list(self._answers))

    def _sum(self, keys: list[str]) -> Cost | None:
        reported = listed = 0.0
        unknown = 0
        for key in keys:
            spent = self._answers[key][1]
            if spent.is_reported:
                reported += spent.usage.cost
            elif not spent.needs_price:
                continue
            elif (price := self._listed(spent)) is not None:
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
