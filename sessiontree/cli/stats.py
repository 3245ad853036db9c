"""What sessions cost, printed: a table with a bar for each row, or JSON.

On a screen a bar gets what the columns leave; where that is too little, columns are left out in a
fixed order. Elsewhere there are no bars, and nothing is cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sessiontree.catalog.listing import SessionInfo, facts_of, moment
from sessiontree.catalog.places import OWN, Selection, sessions_in
from sessiontree.catalog.spending import By, Name, Row, Source, Spending, spending_of
from sessiontree.cli.lookup import none_found, places_at
from sessiontree.cli.output import out_json
from sessiontree.cli.screen import Screen, columns_of, cut, filled, screen, show
from sessiontree.cli.terminal import Progress, counted, is_terminal, tell, tell_each
from sessiontree.core.display import one_line
from sessiontree.operations.prices import HOW_TO_GET, Prices, load
from sessiontree.storage.files import Report
from sessiontree.text.amounts import dollars, in_short

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

_UNKNOWN: Final = {"day": "(no time)", "project": "(no directory)", "model": "(no model)"}
_LONGEST: Final = 400


def out_spending(
    places: Sequence[str], selection: Selection, by: By, *, as_json: bool, paged: bool
) -> None:
    """Print what the sessions in some files and folders cost, or all sessions that are found."""
    problems: list[str] = []
    prices = load()
    folders = [place for place in places if os.path.isdir(place)]
    files = [place for place in places if place not in folders]
    roots = [root for folder in folders for root in places_at(folder)]
    roots = roots if places else places_at(None)
    with Progress("Reading sessions") as shown:
        found = _sessions(files, roots, selection, problems.append)
        sources = [Source(one.file, one.made_by or OWN, one.cwd) for one in found]
        made = spending_of(
            sources,
            by,
            prices,
            problems.append,
            since=selection.since,
            shown=lambda number: shown(number + 1, len(sources)),
        )
    if as_json:
        out_json(_as_json(made, by, prices))
    elif not made.rows:
        tell("Nothing was spent" if found else none_found(roots, selection))
    else:
        drawn = screen() if is_terminal() else None
        show(table(made, by, drawn), paged=paged)
        _tell_sources(made, prices)
    tell_each("Warning", list(_without_price(made, prices)))
    tell_each("Left out", problems)


def _sessions(
    files: Sequence[str], roots: Sequence[str], selection: Selection, report: Report
) -> list[SessionInfo]:
    """The sessions, the one that was changed longest ago first: it is the original of a copy."""
    found = [*filter(selection.takes, map(facts_of, files)), *sessions_in(roots, selection, report)]
    return sorted(found, key=lambda one: (_is_import(one), moment(one.modified), one.file))


def _is_import(one: SessionInfo) -> bool:
    return one.imported_from is not None


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
    if made.copies:
        answers = counted(made.copies, "answer")
        tell(f"Counted once: {answers} that also stand in forks, imports or other copies")


def _without_price(made: Spending, prices: Prices | None) -> Iterator[str]:
    if prices is None and made.unpriced:
        answers = counted(made.unpriced.total(), "answer")
        yield f"{answers} without a reported cost; to estimate the cost: {HOW_TO_GET}"
        return
    for model, count in made.unpriced.most_common():
        yield f"no price known for {model or _UNKNOWN['model']}, {counted(count, 'answer')}"


class _Column(NamedTuple):
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
        names = [_cut_start(name, width) if by == "project" else cut(name, width) for name in names]
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


def _columns(rows: Sequence[Row], renamed: Mapping[str, str]) -> list[_Column]:
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
        _Column(name, [head, *cells], max(map(len, [head, *cells])))
        for name, cells in made.items()
        for head in [renamed.get(name, name)]
        if any(cells)
    ]


def _fitting(columns: Sequence[_Column], space: int) -> tuple[list[_Column], int]:
    """The columns that leave space for bars, or at least fit, and the space that is left."""
    kept = list(columns)
    for name, least in _DROPPED:
        if _left(kept, space) >= least:
            break
        kept = [column for column in kept if column.name != name]
    return kept, max(0, _left(kept, space))


def _left(columns: Sequence[_Column], space: int) -> int:
    return space - sum(column.width + _GAP for column in columns) - _GAP


def _bars(rows: Sequence[Row], width: int, screen: Screen) -> Iterator[str]:
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
        return _UNKNOWN[by]
    home = os.path.expanduser("~")
    if by == "project" and f"{name}/".startswith(f"{home}/"):
        name = "~" + name[len(home) :]
    return one_line(name, _LONGEST)


def _cut_start(path: str, width: int) -> str:
    """The end of a path, of at most so many columns."""
    while columns_of(path) > width:
        path = "…" + path.lstrip("…")[1:]
    return path
