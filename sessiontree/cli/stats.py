"""The command `stats`: one session in numbers, the sums of many, and what they cost.

What sessions cost is a table with a bar for each row. On a screen a bar gets what the columns
leave; where that is too little, columns are left out in a fixed order. Elsewhere there are no bars,
and nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.look import without_scratch
from sessiontree.cli.output import cost_in_words, out_facts, out_json, usage_in_words
from sessiontree.cli.screen import Screen, screen, show
from sessiontree.cli.terminal import is_terminal, tell, tell_each
from sessiontree.core.display import one_line
from sessiontree.library.counts import By
from sessiontree.library.homes import with_tilde
from sessiontree.library.spending import UNNAMED, Name, Spending, SpendingSum, Totals
from sessiontree.ops.session import SessionTotals, SumsByCost, SumsOfAgents
from sessiontree.text.amounts import counted, dollars, in_short
from sessiontree.text.columns import columns_of, cut, cut_start, filled
from sessiontree.views.costs import HOW_TO_GET, Prices, Stats

_GAP: Final = 2
_LEAST_BAR: Final = 12
_DROPPED: Final = (
    *((name, _LEAST_BAR) for name in ("Sessions", "Cached", "Answers", "Input")),
    *(("Output", 0), ("No price", 0)),
)
"""The columns to leave out, in this order, where less space is left than each allows."""

_REPORTED, _ESTIMATED = "█", "░"
_MARKED: Final = {"Reported": f"{_REPORTED} Reported", "Estimated": f"{_ESTIMATED} Estimated"}
"""The names of columns where there are bars."""

_LONGEST: Final = 400


@renders(Stats)
def _(call: CommandCall, found: Stats) -> None:
    if call.as_json:
        out_json(found)
        return
    shown = {
        "entries": _by_kind(found.types, found.entries),
        "branches": f"{found.branches:,}",
        "lanes": _by_kind(without_scratch(found.lanes), len(found.lanes)),
        "in the file": f"{found.file_bytes:,} bytes",
        "in blobs": f"{found.blob_bytes:,} bytes ({found.blobs:,})" if found.blobs else "",
        **usage_in_words(found.usage, cost_in_words(*found.cost)),
    }
    for name, each in found.models.items():
        cost = f", ${each.cost:,.4f}" if each.cost else ""
        shown[f"  {name}"] = f"{each.input:,} in, {each.output:,} out{cost}"
    out_facts(shown)
    if found.lost_blobs:
        assert isinstance(call.given, SessionTotals)
        (file,) = call.given.places
        lost = counted(found.lost_blobs, "blob")
        tell(f"Warning: {lost} missing or damaged; 'sessiontree blob ls {file}' lists them")


def _by_kind(kinds: Mapping[str, int], total: int) -> str:
    each = ", ".join(f"{one_line(kind)} {count:,}" for kind, count in kinds.items())
    return f"{total:,} ({each})"


@renders(SumsOfAgents)
def _(call: CommandCall, found: SumsOfAgents) -> None:
    total, agents = found
    if call.as_json:
        each = {name: sums.as_dict() for name, sums in agents.items()}
        out_json({**total.as_dict(), "agents": each})
    elif total.sessions:
        shown_agents = agents if len(agents) > 1 else {}
        sums = {"sessions": f"{total.sessions:,}", "turns": f"{total.turns:,}"}
        size = {"in the files": f"{total.bytes:,} bytes"}
        facts = {name: _in_words(sums) for name, sums in shown_agents.items()}
        spent = usage_in_words(total.usage, _cost_in_words(total))
        out_facts({**sums, **size, **spent, **facts})
        _tell_copies(total.copies)
    if total.not_counted:
        tell(f"Warning: {counted(total.not_counted, 'session')} not counted: cut, or too large")


def _in_words(sums: Totals) -> str:
    cost = f", {text}" if (text := _cost_in_words(sums)) else ""
    tokens = f"{sums.usage.input:,} in, {sums.usage.output:,} out"
    turns = counted(sums.turns, "turn")
    return f"{counted(sums.sessions, 'session')}, {turns}, {sums.bytes:,} bytes, {tokens}{cost}"


def _cost_in_words(sums: Totals) -> str:
    spent = sums.spent
    return cost_in_words(spent.usage.cost, spent.estimated, spent.unpriced)


@renders(SumsByCost)
def _(call: CommandCall, found: SumsByCost) -> None:
    made, by, prices, is_any = found
    if call.as_json:
        out_json(_as_json(made, by, prices))
    elif made.rows:
        assert isinstance(call.given, SessionTotals)
        drawn = screen() if is_terminal() else None
        show(table(made, by, drawn), paged=not call.given.no_pager)
        _tell_sources(made, prices)
    elif is_any:
        tell("Nothing was spent")
    if made.rows and made.without:
        others = counted(made.without, "session")
        tell(f"Not in the table: {others} without answers, or with those of another session only")
    tell_each("Warning", list(_without_price(made, prices)))


def _as_json(made: Spending, by: By, prices: Prices | None) -> dict[str, Any]:
    unpriced = made.unpriced.most_common()
    return {
        **made.total.as_dict(),
        "by": by,
        "rows": [{by: name, **row.as_dict()} for name, row in made.rows.items()],
        "unpricedModels": [{"model": model, "answers": count} for model, count in unpriced],
        "copies": made.copies,
        "prices": None if prices is None else prices.name,
    }


def _tell_sources(made: Spending, prices: Prices | None) -> None:
    if made.total.estimated and prices is not None:
        tell(f"Estimated: at the list prices of {prices.name}, where no cost was reported")
    _tell_copies(made.copies)


def _tell_copies(copies: int) -> None:
    if copies:
        answers = counted(copies, "answer")
        tell(f"Counted once: {answers} that also stand in forks, imports or other copies")


def _without_price(made: Spending, prices: Prices | None) -> Iterator[str]:
    if prices is None and made.unpriced:
        answers = counted(made.unpriced.total(), "answer")
        yield f"{answers} without a reported cost; to estimate the cost: {HOW_TO_GET}"
        return
    for model, count in made.unpriced.most_common():
        yield f"no price known for {model or UNNAMED['model']}, {counted(count, 'answer')}"


class _StatsColumn(NamedTuple):
    name: str
    cells: Sequence[str]
    width: int


def table(made: Spending, by: By, screen: Screen | None) -> Iterator[str]:
    """The lines of the table, the names of the columns first and the total last.

    Without a screen there are no bars, and names are not cut.
    """
    rows = [*made.rows.values(), made.total]
    names = [_shown(name, by) for name in made.rows]
    columns = _columns(rows, {} if screen is None else _MARKED)
    if screen is not None:
        width = min(max(map(columns_of, names)), max(12, screen.width // 4))
        names = [cut_start(name, width) if by == "project" else cut(name, width) for name in names]
    first = max(columns_of(name) for name in [*names, by, "Total"])
    bars = [""] * len(rows)
    if screen is not None:
        columns, left = _fitting(columns, screen.width - first)
        bars = [*_bars(rows[:-1], left, screen), ""]
    heads = [by.capitalize(), *names, "Total"]
    for n, (head, bar) in enumerate(zip(heads, ["", *bars], strict=True)):
        cells = [_right(column.cells[n], column.width) for column in columns]
        line = (" " * _GAP).join([filled(head, first), *cells])
        line = line if bar else line.rstrip()
        role = {0: "dim", len(rows): "title"}.get(n)
        line = screen.styled(line, role) if screen is not None and role else line
        yield line + " " * _GAP + bar if bar else line


def _columns(rows: Sequence[SpendingSum], renamed: Mapping[str, str]) -> list[_StatsColumn]:
    """The columns, each with its name as the first cell; one that says nothing is left out."""
    made = {
        "Sessions": [f"{row.sessions:,}" for row in rows],
        "Answers": [f"{row.answers:,}" for row in rows],
        "Input": [in_short(row.usage.input) for row in rows],
        "Output": [in_short(row.usage.output) for row in rows],
        "Cached": [in_short(row.usage.cache_read + row.usage.cache_write) for row in rows],
        "Reported": [_cost(row.usage.cost) for row in rows],
        "Estimated": [_cost(row.estimated) for row in rows],
        "No price": [f"{row.unpriced:,}" if row.unpriced else "" for row in rows],
    }
    return [
        _StatsColumn(name, [head, *cells], max(map(len, [head, *cells])))
        for name, cells in made.items()
        for head in [renamed.get(name, name)]
        if any(cells)
    ]


def _fitting(columns: Sequence[_StatsColumn], space: int) -> tuple[list[_StatsColumn], int]:
    """The columns that leave space for bars, or at least fit, and the space that is left."""
    kept = list(columns)
    for name, least in _DROPPED:
        if _left(kept, space) >= least:
            break
        kept = [column for column in kept if column.name != name]
    return kept, max(0, _left(kept, space))


def _left(columns: Sequence[_StatsColumn], space: int) -> int:
    return space - sum(column.width + _GAP for column in columns) - _GAP


def _bars(rows: Sequence[SpendingSum], width: int, screen: Screen) -> Iterator[str]:
    """A bar for the cost of each row, as long as the width for the most expensive one."""
    most = max((row.usage.cost + row.estimated for row in rows), default=0.0)
    for row in rows:
        whole = _length(row.usage.cost + row.estimated, most, width)
        reported = min(whole, _length(row.usage.cost, most, width))
        bar = screen.styled(_REPORTED * reported, "branch")
        yield bar + screen.styled(_ESTIMATED * (whole - reported), "label")


def _length(cost: float, most: float, width: int) -> int:
    """The length of a bar; at least 1 for what cost something."""
    return max(1, round(width * cost / most)) if cost > 0 and width else 0


def _cost(cost: float) -> str:
    return dollars(cost) if cost else ""


def _right(text: str, width: int) -> str:
    return " " * (width - columns_of(text)) + text


def _shown(name: Name, by: By) -> str:
    if name is None:
        return UNNAMED[by]
    return one_line(with_tilde(name) if by == "project" else name, _LONGEST)
