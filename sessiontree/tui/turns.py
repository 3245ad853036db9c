"""The outline of a session as rows that fold: the path goes straight down, branches are indented.

Invariants: nothing recurses; a row keeps its key while the outline is read again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from sessiontree.core.moment import moment_of
from sessiontree.operations.turns import SessionOutline, Subagent, Turn
from sessiontree.operations.words import (
    EVENTS,
    asked_in,
    outcome_parts,
    told_in,
    work_in,
)
from sessiontree.operations.work import TurnEvent
from sessiontree.text.amounts import in_short
from sessiontree.tui.line import Line, Piece, beside

_LEAST_WORK: Final = 24
_MOST_INDENTED: Final = 8


class Row(NamedTuple):
    """A row of the outline.

    Attributes:
        kind: what the row shows.
        turn: the place of its turn.
        level: how many branches and subagents it is inside of.
        starts: whether a branch begins here.
        key: names what folds here; None where nothing does.
        inside: the number of turns that are folded here.
        item: the place of the event or the subagent in its turn.
    """

    kind: Literal["turn", "event", "subagent"]
    turn: int
    level: int = 0
    starts: bool = False
    key: str | None = None
    inside: int = 0
    item: int = 0


def rows_of(outline: SessionOutline, folded: Collection[str], opened: Collection[str]) -> list[Row]:
    """The rows; branches are open but those `folded`, subagents closed but those `opened`.

    A key is the uuid of the first entry of a branch, or the lane of a subagent.
    """
    turns, below = outline.turns, outline.below()
    rows: list[Row] = []
    waiting: list[Row] = []
    _add_forks(waiting, below.get(None, []), Row("turn", -1), turns)
    while waiting:
        row = waiting.pop()
        if row.kind == "subagent":
            _add_subagent(rows, waiting, row, turns, opened)
            continue
        turn = turns[row.turn]
        if row.starts:
            row = row._replace(key=turn.uuid)
            if turn.uuid in folded:
                rows.append(row._replace(inside=_count(row.turn, below)))
                continue
        rows.append(row)
        if turn.subagent:
            continue
        for item, event in enumerate(turn.events):
            if event.kind in EVENTS:
                rows.append(Row("event", row.turn, row.level, item=item))
        _add_forks(waiting, below.get(row.turn, []), row, turns)
        agents = [item for item, agent in enumerate(turn.subagents) if not agent.own]
        waiting += [Row("subagent", row.turn, row.level + 1, item=at) for at in reversed(agents)]
    return rows


def _add_forks(waiting: list[Row], places: list[int], above: Row, turns: tuple[Turn, ...]) -> None:
    """Add what goes on below a turn; what is drawn first comes last."""
    ordered = sorted(places, key=lambda at: (turns[at].current, at))
    if not ordered:
        return
    goes_on = len(ordered) == 1 or turns[ordered[-1]].current
    *others, last = ordered
    level = above.level
    waiting.append(Row("turn", last, level if goes_on else level + 1, starts=not goes_on))
    waiting += [Row("turn", at, level + 1, starts=True) for at in reversed(others)]


def _add_subagent(
    rows: list[Row],
    waiting: list[Row],
    row: Row,
    turns: tuple[Turn, ...],
    opened: Collection[str],
) -> None:
    agent = turns[row.turn].subagents[row.item]
    key = agent.lane if agent.turns else None
    is_open = key in opened
    rows.append(row._replace(key=key, inside=0 if is_open else len(agent.turns)))
    if is_open:
        waiting += [Row("turn", at, row.level + 1) for at in reversed(agent.turns)]


def _count(place: int, below: dict[int | None, list[int]]) -> int:
    inside = [place]
    for at in inside:
        inside += below.get(at, ())
    return len(inside)


def row_line(outline: SessionOutline, row: Row, width: int) -> Line:
    """A row of the outline on the screen."""
    turn = outline.turns[row.turn]
    indent = Piece("│ " * min(row.level, _MOST_INDENTED), "dim")
    if row.kind == "event":
        return [indent, Piece("      "), *_event(turn.events[row.item])]
    if row.kind == "subagent":
        return beside([indent, *_subagent(turn.subagents[row.item], row)], (), width)
    return _turn(outline, turn, row, indent, width)


def last_line(turn: Turn, width: int) -> Line:
    """A turn of a session whose outline is not read yet."""
    alone = SessionOutline("", None, None, None, (turn,), None, None, turn.work)
    return row_line(alone, Row("turn", 0), width)


def _turn(outline: SessionOutline, turn: Turn, row: Row, indent: Piece, width: int) -> Line:
    is_here = outline.here is not None and outline.turns[outline.here] is turn
    mark = "●" if turn.current else "○"
    number = "↳" if turn.subagent else turn.name if turn.number or outline.id else "…"
    left = [indent, Piece(mark + " ", "here" if turn.current else "dim")]
    left.append(Piece(f"{number:<3} ", "number"))
    if row.inside:
        left.append(Piece(f"▸ {row.inside:,} {'turn' if row.inside == 1 else 'turns'} ", "branch"))
    left += [Piece(f"({name}) ", "branch") for name in turn.names]
    left += [Piece(f"[{label}] ", "label") for _, label in turn.labels]
    if is_here:
        left.append(Piece("◀ ", "here"))
    left.append(Piece(asked_in(turn), "prompt" if turn.current else ""))
    if turn.answer and turn.prompt is not None:
        left.append(Piece(f"  → {told_in(turn)}", "dim"))
    right = []
    for part in work_in(turn.work, max(_LEAST_WORK, width // 3), outcome_parts(turn)):
        right += [Piece(" · ", "dim"), Piece(part.text, part.role or "dim")]
    moment = moment_of(turn.work.started)
    clock = "" if moment is None else moment.astimezone().strftime("%H:%M")
    return beside(left, [*right[1:], Piece(f"  {clock}" if clock else "", "dim")], width)


def _event(event: TurnEvent) -> Line:
    sign, role = EVENTS[event.kind]
    at = f" at {in_short(event.tokens)} tokens" if event.tokens else ""
    return [Piece(f"{sign}{at}: {event.text}" if event.text else f"{sign}{at}", role)]


def _subagent(agent: Subagent, row: Row) -> list[Piece]:
    sign = "" if row.key is None else "▸ " if row.inside else "▾ "
    found = [Piece(f"    {sign}↳ {agent.name}", "agent")]
    if agent.missing:
        return [*found, Piece("  its transcript is missing", "failure")]
    parts = [part.text for part in work_in(agent.work, 40)]
    return [*found, Piece(f": {agent.task}"), Piece("  " + " · ".join(parts), "dim")]
