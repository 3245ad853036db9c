"""The lines of the browser: texts in roles, sessions, and turns as rows that fold.

Nothing here imports textual, so that the first list, or the last turns of a session, are on the
screen while it is imported.

Invariants: a fitted line has no control character and is never wider than asked for; no file is
read for a list.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from sessiontree.agents import command_of
from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import SessionInfo, facts_of, moment
from sessiontree.library.lookup import agent_of, cost_of_row, model_of, note_of, title_of
from sessiontree.library.one import opened_by_ends
from sessiontree.library.places import project_in
from sessiontree.session import Session
from sessiontree.text.amounts import ago, briefly_ago, counted
from sessiontree.text.columns import (
    CODES,
    Line,
    Span,
    beside,
    columns_of,
    dotted,
    filled,
    fitted,
    line_text,
    wrapped,
)
from sessiontree.text.ids import short_id
from sessiontree.text.preview import size_in_short
from sessiontree.tui.frame import write
from sessiontree.views.layout import OutlineRow, Run, TurnTree, outline_rows
from sessiontree.views.turns import SessionOutline, Subagent, Turn, latest
from sessiontree.views.words import (
    clock_in,
    event_in,
    outcome_parts,
    reply_in,
    told_in,
    words_of,
    work_in,
)

_LONGEST: Final = 400


def session_line(one: SessionInfo, width: int, now: datetime) -> Line:
    """A session in a list."""
    when = briefly_ago(now.timestamp() - moment(one.modified))
    agent = command_of(agent_of(one))
    left = [
        Span(f"{when:>4}  ", "dim"),
        Span(filled(agent, 11) + "  ", "agent"),
        Span(title_of(one, _LONGEST)),
    ]
    note = note_of(one, {})
    right = [Span(f"{note}  ", "label")] if note else []
    if width >= 100:
        right.append(Span(f"{filled(folder_of(one), 16)}  ", "dim"))
        right.append(Span("      " if one.turns is None else f"{one.turns:>4,} t", "dim"))
    right.append(Span(f"{cost_of_row(one):>9}", "number"))
    right.append(Span(f"{size_in_short(one.bytes):>8}", "dim"))
    return beside(left, right, width)


def folder_of(one: SessionInfo) -> str:
    """The name of the project."""
    return one_line(project_in(one.cwd))


def preview_lines(one: SessionInfo, width: int, now: datetime) -> list[Line]:
    """The facts of a session, and its first prompt."""
    facts = [agent_of(one), model_of(one), size_in_short(one.bytes), short_id(one.id)]
    if one.turns is not None:
        facts.insert(2, counted(one.turns, "turn"))
    if cost := cost_of_row(one):
        facts.insert(3, cost)
    past = ago(now.timestamp() - moment(one.modified))
    lines: list[Line] = [
        [Span(title_of(one, _LONGEST), "title")],
        [Span(" · ".join([*filter(None, facts), past]), "dim")],
        [Span(one.cwd or "(no directory)", "dim")],
    ]
    asked = wrapped(one_line(one.first_message or "", _LONGEST), width)[:3]
    return [*lines, *([Span(line)] for line in asked if line)]


def matching(sessions: Sequence[SessionInfo], words: str) -> list[SessionInfo]:
    """The sessions that have all words in what a list knows of them."""
    wanted = words.casefold().split()
    return [one for one in sessions if all(word in _known(one) for word in wanted)]


def _known(one: SessionInfo) -> str:
    facts = (one.name, one.first_message, one.cwd, agent_of(one), one.model, one.id, one.file)
    return "\n".join(filter(None, facts)).casefold()


def title_lines(count: int, among: int, words: str, order: str) -> tuple[Line, Line]:
    """The title of the list: how many sessions, and which."""
    found = f"{count:,} of {counted(among, 'session')}" if words else counted(among, "session")
    return [Span(f"sessiontree · {found}")], [Span(f"by {order}")]


_MAX_INDENTED: Final = 8


def rows_of(
    outline: SessionOutline, folded: Collection[str], opened: Collection[str]
) -> list[OutlineRow]:
    """The rows; branches are open but those `folded`, subagents closed but those `opened`."""
    turns = outline.turns

    def is_folded(run: Run) -> bool:
        return bool(run.joint) and turns[run.nodes[0]].uuid in folded

    rows = outline_rows(TurnTree(turns), deepest=_MAX_INDENTED, folded=is_folded, opened=opened)
    return [row for row in rows if row.kind != "end"]


def row_line(outline: SessionOutline, row: OutlineRow, width: int) -> Line:
    """A row of the outline on the screen."""
    turn = outline.turns[row.place]
    indent = Span("│ " * min(row.level, _MAX_INDENTED), "dim")
    if row.kind == "event":
        return [indent, Span("      "), event_in(turn.events[row.item])]
    if row.kind == "reply":
        room = width - columns_of(indent.text) - 6
        return [indent, Span("      "), *reply_in(turn.events[row.item], room)]
    if row.kind == "subagent":
        return beside([indent, *_subagent(turn.subagents[row.item], row)], (), width)
    return _turn(outline, turn, row, indent, width)


def last_line(turn: Turn, width: int) -> Line:
    """A turn of a session whose outline is not read yet."""
    alone = SessionOutline("", None, None, None, (turn,), None, None, turn.work)
    return row_line(alone, OutlineRow("turn", 0), width)


def _turn(outline: SessionOutline, turn: Turn, row: OutlineRow, indent: Span, width: int) -> Line:
    number = "↳" if turn.subagent else turn.name if turn.number or outline.id else "…"
    left = [
        indent,
        Span("● ", "here") if turn.current else Span("○ ", "dim"),
        Span(f"{number:<3} ", "number"),
    ]
    if row.inside:
        left.append(Span(f"▸ {counted(len(row.inside), 'turn')} ", "branch"))
    *names, asked = words_of(turn)
    left += names
    if row.place == outline.here:
        left.append(Span("◀ ", "here"))
    left.append(asked)
    if turn.answer and turn.prompt is not None:
        left.append(Span(f"  → {told_in(turn)}", "dim"))
    room = max(24, width // 3)
    right = dotted(work_in(turn.work, room, outcome_parts(turn)), room)
    clock = clock_in(turn)
    return beside(left, [*right, Span(f"  {clock}" if clock else "", "dim")], width)


def _subagent(agent: Subagent, row: OutlineRow) -> list[Span]:
    sign = "" if row.key is None else "▸ " if row.inside else "▾ "
    found = [Span(f"    {sign}↳ {agent.name}", "agent")]
    if agent.missing:
        return [*found, Span("  its transcript is missing", "failure")]
    parts = [part.text for part in work_in(agent.work, 40)]
    return [*found, Span(f": {agent.task}"), Span("  " + " · ".join(parts), "dim")]


def draw_list(sessions: Sequence[SessionInfo], order: str) -> None:
    """Draw the list as the browser is going to draw it."""
    width, height = os.get_terminal_size()
    now = datetime.now(UTC)
    title, _ = title_lines(len(sessions), len(sessions), "", order)
    rows = [row(1, [Span(filled_to(title, width), "bar")])]
    for number, one in enumerate(sessions[: height - 3], 3):
        rows.append(row(number, fitted(session_line(one, width, now), width)))
    write("".join(rows))


def filled_to(line: Line, width: int) -> str:
    """The text of a line, as wide as the screen."""
    text = line_text(fitted(line, width))
    return text + " " * max(0, width - len(text))


def row(number: int, line: Line) -> str:
    """A line with what puts it on a row of the terminal."""
    return f"\x1b[{number};1H\x1b[2K" + "".join(map(_coloured, line))


def _coloured(piece: Span) -> str:
    code = CODES[piece.role]
    if not code or (os.environ.get("NO_COLOR") and piece.role != "bar"):
        return piece.text
    return f"\x1b[{code}m{piece.text}\x1b[0m"


def draw_last(file: str) -> None:
    """Draw the last turns of a session, unless all of it must be translated or migrated first."""
    try:
        session = opened_by_ends(file)
        if session is None and facts_of(file).agent is not None:
            return
        with session or Session.open(file, readonly=True) as opened:
            found = latest(opened.cursor)
    except (SessionTreeError, OSError):  # the browser tells it
        return
    width, height = os.get_terminal_size()
    title = [Span(file.rpartition("/")[2])]
    rows = [row(1, [Span(filled_to(title, width), "bar")])]
    for number, turn in enumerate(found[-max(1, height - 2) :], 2):
        rows.append(row(number, fitted(last_line(turn, width), width)))
    write("".join(rows))
