"""The entries that a search found, below the session that each is in.

On a screen a hit is one row: its snippet gets what the other columns leave, and is cut around the
match. Elsewhere the path of each session and the whole snippet are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessiontree.catalog.listing import SessionInfo, moment
from sessiontree.catalog.lookup import short_id
from sessiontree.catalog.search import SearchHit, SessionsOfHits
from sessiontree.catalog.titles import agent_of, title_of
from sessiontree.cli.lookup import relative_path
from sessiontree.cli.screen import Screen
from sessiontree.cli.table import time_of
from sessiontree.cli.terminal import short
from sessiontree.core.display import one_line, printable
from sessiontree.text.amounts import briefly_ago
from sessiontree.text.columns import columns_of, cut, filled

_TITLE: Final = 60
_ROLES: Final = {"user": "prompt", "tool": "tool", "assistant": ""}
_MATCH: Final = ("\x1b[1;31m", "\x1b[0m")


def lines(hits: Iterable[SearchHit]) -> Iterator[tuple[str, bool]]:
    """The lines to print where there is no screen, and whether each is a hit."""
    sessions, file = SessionsOfHits(), None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                yield "", False
            file = hit.file
            yield _path_heading(hit, sessions.of(hit)), False
        before, match, after = _parts(hit)
        role = one_line(hit.speaker or hit.type)
        text = f"{before}«{match}»{after}"
        yield f"  {short(hit.ref):<8}  {role:<10}  {time_of(hit.timestamp):<16}  {text}", True


def _path_heading(hit: SearchHit, one: SessionInfo | None) -> str:
    heading = f"{one_line(relative_path(hit.file), 1000)}  session {_session(hit)}"
    if one is None:
        return heading
    return f"{heading}  {agent_of(one)}  {time_of(one.modified)}  {title_of(one, _TITLE)}"


def rows(hits: Iterable[SearchHit], screen: Screen) -> Iterator[tuple[str, bool]]:
    """The rows to draw on a screen, and whether each is a hit."""
    sessions, file = SessionsOfHits(), None
    for hit in hits:
        if hit.file != file:
            if file is not None:
                yield "", False
            file = hit.file
            yield _heading(hit, sessions.of(hit), screen), False
        yield _row(hit, screen), True


def _heading(hit: SearchHit, one: SessionInfo | None, screen: Screen) -> str:
    if one is None:
        return cut(hit.file, screen.width)
    when = f"{_ago(one.modified, screen)} ago".replace("now ago", "now")
    facts = [_session(hit), when, agent_of(one)]
    facts += [one_line((one.cwd or "").rstrip("/").rpartition("/")[2], 20)]
    about = " · ".join(filter(None, facts))
    title = cut(title_of(one, screen.width), max(10, screen.width - columns_of(about) - 2))
    return f"{screen.styled(title, 'title')}  {screen.styled(about, 'dim')}"


def _row(hit: SearchHit, screen: Screen) -> str:
    role = one_line(hit.speaker or hit.type)
    cells = [short(hit.ref), cut(role, 9), _ago(hit.timestamp, screen)]
    roles = ["number", _ROLES.get(role, "dim"), "dim"]
    widths = [8, 9, 4]
    made = [
        screen.styled(filled(cell, width), style) if style else filled(cell, width)
        for cell, width, style in zip(cells, widths, roles, strict=True)
    ]
    left = screen.width - sum(widths) - 2 * (len(widths) + 1) - (0 if screen.colour else 2)
    before, match, after = fitted(*_parts(hit), max(left, 10))
    opening, closing = _MATCH if screen.colour else ("«", "»")
    return "  " + "  ".join(made) + f"  {before}{opening}{match}{closing}{after}"


def _ago(timestamp: str | None, screen: Screen) -> str:
    return briefly_ago(screen.now.timestamp() - moment(timestamp)) if timestamp else "?"


def _session(hit: SearchHit) -> str:
    return one_line(short_id(hit.session))


def _parts(hit: SearchHit) -> tuple[str, str, str]:
    start, end = hit.match
    parts = (hit.snippet[:start], hit.snippet[start:end], hit.snippet[end:])
    return printable(parts[0]), printable(parts[1]), printable(parts[2])


def fitted(before: str, match: str, after: str, width: int) -> tuple[str, str, str]:
    """The parts of a snippet, cut to a width around the match: a third of the rest before it."""
    match = cut(match, width)
    left = width - columns_of(match)
    space = max(left // 3, left - columns_of(after))
    while columns_of(before) > space:
        before = "…" + before.lstrip("…")[1:] if space else ""
    return before, match, cut(after, left - columns_of(before))
