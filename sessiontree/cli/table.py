"""The list of sessions as a table: a row a session, whatever the width of the screen.

The title gets what the other columns leave. Where that is too little, columns are left out in a
fixed order: size, cost, model, turns, project, id. A column that has nothing to show is left out
too. On a narrow screen times, agents and projects are shorter. An id is as long as it must be to
name one session; `ids` has the start of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sessiontree.catalog.listing import SessionInfo, moment
from sessiontree.catalog.titles import agent_of, model_of, note_of, shown_id, title_of
from sessiontree.cli.screen import Screen
from sessiontree.core.display import one_line
from sessiontree.core.moment import seconds_of
from sessiontree.text.amounts import ago, briefly_ago, dollars
from sessiontree.text.columns import columns_of, cut, filled
from sessiontree.text.preview import size_in_short

_LEAST_TITLE: Final = 28
_LEAST_MODEL: Final = 15
_GAP: Final = 2
_MOST: Final = 200
_WIDE: Final = 140
"""Columns from which on times and agents are written out."""

_VERY_WIDE: Final = 170
"""Columns from which on a project is a path."""

_LONGEST_ID: Final = 24
"""Columns of an id; a longer one is shown by --json, and where there is no screen."""

_DROPPED: Final = ("Size", "Cost", "Model", "Turns", "Project", "Id", "Agent")
_SHORT_AGENTS: Final = {"claude-code": "claude"}
_STYLES: Final = {
    "When": "dim",
    "Id": "number",
    "Agent": "agent",
    "Turns": "dim",
    "Model": "dim",
    "Size": "dim",
}
"""The role of each column's text, for its colour."""

_TO_THE_RIGHT: Final = frozenset({"Turns", "Cost", "Size", "Branches"})


class _Column(NamedTuple):
    name: str
    cells: Sequence[str]
    width: int


def table(found: Sequence[SessionInfo], ids: Mapping[str, str], screen: Screen) -> Iterator[str]:
    """The lines of the table, the names of the columns first."""
    columns = _columns(found, ids, screen)
    left = _left(columns, screen)
    for name in _DROPPED:
        if left >= _LEAST_TITLE:
            break
        columns = [column for column in columns if column.name != name]
        left = _left(columns, screen)
    at = next((n for n, column in enumerate(columns) if column.name in _AFTER_TITLE), len(columns))
    before, after = columns[:at], columns[at:]
    names = [_cell(column.name, column) for column in before]
    names.append(filled("Session", left))
    names += [_cell(column.name, column) for column in after]
    yield screen.styled((" " * _GAP).join(names).rstrip(), "dim")
    for row, one in enumerate(found):
        cells = [_styled(column, row, screen) for column in before]
        cells.append(_title_cell(one, ids, left, screen))
        cells += [_styled(column, row, screen) for column in after]
        yield (" " * _GAP).join(cells).rstrip()


_AFTER_TITLE: Final = frozenset({"Branches", "Turns", "Model", "Cost", "Size"})


def _columns(found: Sequence[SessionInfo], ids: Mapping[str, str], screen: Screen) -> list[_Column]:
    cap = max(10, screen.width // (8 if screen.width < _VERY_WIDE else 6))
    made = {
        "When": [_when(one, screen) for one in found],
        "Id": [cut(shown_id(one.id, ids), _LONGEST_ID) for one in found],
        "Agent": [_agent(one, screen) for one in found],
        "Project": [_project(one.cwd, cap, screen) for one in found],
        "Branches": ["" if one.branches is None else f"{one.branches:,}" for one in found],
        "Turns": [_turns(one) for one in found] if any(map(_is_counted, found)) else [""],
        "Model": [cut(model_of(one), max(screen.width // 8, _LEAST_MODEL)) for one in found],
        "Cost": [dollars(one.cost) if one.cost else "" for one in found],
        "Size": [size_in_short(one.bytes) for one in found],
    }
    return [
        _Column(name, cells, max(len(name), *map(columns_of, cells)))
        for name, cells in made.items()
        if any(cells)
    ]


def _is_counted(one: SessionInfo) -> bool:
    return one.turns is not None


def _turns(one: SessionInfo) -> str:
    return "?" if one.turns is None else f"{one.turns:,}"


def _left(columns: Sequence[_Column], screen: Screen) -> int:
    """The columns that are left for the title."""
    return screen.width - sum(column.width + _GAP for column in columns)


def _cell(text: str, column: _Column) -> str:
    if column.name not in _TO_THE_RIGHT:
        return filled(text, column.width)
    return " " * (column.width - columns_of(text)) + text


def _styled(column: _Column, row: int, screen: Screen) -> str:
    cell = _cell(column.cells[row], column)
    role = _STYLES.get(column.name)
    return cell if role is None else screen.styled(cell, role)


def _title_cell(one: SessionInfo, ids: Mapping[str, str], width: int, screen: Screen) -> str:
    note = cut(note_of(one, ids), max(0, width // 2))
    space = max(1, width - (columns_of(note) + _GAP if note else 0))
    title = cut(title_of(one, _MOST), space)
    gap = " " * _GAP if note else ""
    rest = " " * (width - columns_of(title) - columns_of(gap + note))
    return title + gap + screen.styled(note, "label") + rest


def _agent(one: SessionInfo, screen: Screen) -> str:
    name = agent_of(one)
    return cut(name if screen.width >= _WIDE else _SHORT_AGENTS.get(name, name), 12)


def _project(cwd: str | None, cap: int, screen: Screen) -> str:
    """The name of the working directory; on a very wide screen the end of its path."""
    if not cwd:
        return ""
    home = os.path.expanduser("~")
    if screen.width < _VERY_WIDE:
        return cut("~" if cwd == home else os.path.basename(cwd.rstrip(os.sep)) or cwd, cap)
    path = one_line("~" + cwd[len(home) :] if f"{cwd}/".startswith(f"{home}/") else cwd, _MOST)
    while columns_of(path) > cap:
        path = "…" + path.lstrip("…")[1:]
    return path


def _when(one: SessionInfo, screen: Screen) -> str:
    seconds = screen.now.timestamp() - moment(one.modified)
    return ago(seconds) if screen.width >= _WIDE else briefly_ago(seconds)


def time_of(timestamp: str | None) -> str:
    """A stored time as the date and the time here."""
    seconds = seconds_of(timestamp)
    if seconds is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown"
