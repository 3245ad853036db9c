"""What the sessions of the list cost: charts by day, project, model and agent.

Each sum says how it was made: what agents reported, list prices, and answers without a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from sessiontree.core.display import one_line
from sessiontree.library.conversations import originals_first
from sessiontree.library.counts import PERIODS, By, CountCache
from sessiontree.library.homes import with_tilde
from sessiontree.library.listing import SessionInfo
from sessiontree.library.root import cache_folder
from sessiontree.library.spending import UNNAMED, Spending, SpendingSum, spending_of
from sessiontree.text.amounts import dollars, in_short
from sessiontree.views.costs import HOW_TO_GET, load

DAYS: Final = (7, 30, 90, 0)
"""The spans that a reader chooses from; 0: all."""

_MAX_ROWS: Final = 200
_WIDTH: Final = 720
_HEIGHT: Final = 160
_BAR: Final = 300
_SPACE: Final = 24  # below the bars, for the names of the first and the last day


class ChartBar(msgspec.Struct, frozen=True):
    """A bar of a chart: where it stands, and how much of it is of each kind."""

    x: float
    width: float
    reported: float
    estimated: float
    title: str


def costs_of(sessions: Sequence[SessionInfo], by: By, days: int) -> dict[str, Any]:
    """The values of the page of costs."""
    since = datetime.now(UTC) - timedelta(days=days) if days else None
    prices = load()
    problems: list[str] = []
    counter = CountCache(cache_folder(), problems.append)
    counted = counter.counted(originals_first(sessions), None)
    made = spending_of(counted, by, prices, problems.append, since=since)
    counter.save()
    rows = [_row(by, name, row) for name, row in [*made.rows.items()][-_MAX_ROWS:]]
    if by not in PERIODS:
        rows = [_row(by, name, row) for name, row in [*made.rows.items()][:_MAX_ROWS]]
    most = max((row["cost"] for row in rows), default=0.0)
    for row in rows:
        row["bar"] = _across(row, most)
    return {
        "problem": "",
        "rows": rows,
        "total": _row(by, "Total", made.total),
        "chart": _chart(rows, most) if by in PERIODS and len(rows) > 1 else [],
        "more": max(0, len(made.rows) - len(rows)),
        "notes": [
            one_line(note, 300) for note in _notes(made, None if prices is None else prices.name)
        ],
        "problems": [one_line(each, 300) for each in problems[:20]],
    }


def _row(by: By, name: str | None, row: SpendingSum) -> dict[str, Any]:
    used = row.usage
    shown = UNNAMED.get(by, "(none)") if name is None else name
    shown = with_tilde(shown) if by == "project" else shown
    return {
        "name": one_line(shown, 200),
        "sessions": f"{row.sessions:,}",
        "answers": f"{row.answers:,}",
        "input": in_short(used.input),
        "output": in_short(used.output),
        "cached": in_short(used.cache_read + used.cache_write),
        "reported": dollars(used.cost) if used.cost else "",
        "estimated": dollars(row.estimated) if row.estimated else "",
        "unpriced": f"{row.unpriced:,}" if row.unpriced else "",
        "cost": used.cost + row.estimated,
        "bar": None,
        "parts": (used.cost, row.estimated),
    }


def _across(row: dict[str, Any], most: float) -> ChartBar | None:
    if not most:
        return None
    reported, estimated = (part * _BAR / most for part in row["parts"])
    return ChartBar(0, reported + estimated, reported, estimated, "")


def _chart(rows: Sequence[dict[str, Any]], most: float) -> list[ChartBar]:
    if not most:
        return []
    step = _WIDTH / len(rows)
    bars: list[ChartBar] = []
    for place, row in enumerate(rows):
        reported, estimated = (part * _HEIGHT / most for part in row["parts"])
        parts = [f"{row['reported']} as reported"] if row["reported"] else []
        parts += [f"{row['estimated']} at list prices"] if row["estimated"] else []
        title = f"{row['name']}: {', '.join(parts) or 'no known cost'}"
        x = round(place * step, 2)
        bars.append(
            ChartBar(x, round(step * 0.8, 2), round(reported, 2), round(estimated, 2), title)
        )
    return bars


def _notes(made: Spending, prices: str | None) -> list[str]:
    notes = ["Reported: the cost that the agent wrote into the session."]
    if prices is None:
        notes.append(
            f"Answers without a reported cost are not priced; for list prices: {HOW_TO_GET}"
        )
    elif made.total.estimated:
        notes.append(f"At list prices: of {prices}, where the agent reported no cost.")
    if made.unpriced:
        named = ", ".join(
            f"{name or '(no model)'} {n:,}" for name, n in made.unpriced.most_common(8)
        )
        notes.append(f"Without a price: answers whose price is not known, by model: {named}.")
    if made.copies:
        notes.append(
            f"Counted once: {made.copies:,} answers that also stand in forks, imports or copies."
        )
    return notes


class ListCosts:
    """The costs of the last lists, kept as long as no session changes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[object, dict[str, Any]]] = {}

    def of(self, sessions: Sequence[SessionInfo], by: By, days: int) -> dict[str, Any]:
        """See `costs_of`."""
        stamp = [(one.file, one.bytes, one.modified) for one in sessions]
        kept = self._kept.get((by, days))
        if kept is None or kept[0] != stamp:
            kept = self._kept[by, days] = stamp, costs_of(sessions, by, days)
        return kept[1]
