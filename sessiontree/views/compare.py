"""Compare: where two branches part, and what was done on each of them since.

Invariants: each side has only what is on its own path, below the entry where the two part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from sessiontree.core.display import one_line
from sessiontree.core.entry import CONTENT, Entry
from sessiontree.engine.cursor import Cursor
from sessiontree.views.turns import SessionOutline, Turn, outline
from sessiontree.views.work import TEXT, AnswerUsageDedup, TurnEvent, Work, WorkTally, total


class Side(msgspec.Struct, frozen=True):
    """What one of two branches has that the other has not.

    `turns` are those since the branches parted; with `is_rest`, the first of them is the rest of
    the turn in which they parted, and has no prompt. `work` is without the work of subagents.
    """

    leaf: str
    """The uuid of the last entry that is compared."""

    turns: tuple[Turn, ...]
    is_rest: bool
    work: Work
    current: bool
    """True if the leaf is on the current path."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints for a side."""
        return {
            "leaf": self.leaf,
            "turns": [turn.as_dict() for turn in self.turns],
            "isRest": self.is_rest,
            **self.work.as_dict(),
        }


class Comparison(msgspec.Struct, frozen=True):
    """Two branches side by side."""

    fork: str | None
    """The uuid of the last entry with content that both have; None if they share none."""

    turn: Turn | None
    """The turn with this entry; None if it is in none."""

    one: Side
    other: Side
    cwd: str | None
    """The session's working directory."""

    @property
    def both_changed(self) -> list[str]:
        """The files that were changed on both sides."""
        changed = set(self.other.work.changed)
        return [path for path in self.one.work.changed if path in changed]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints."""
        turn = self.turn
        return {
            "fork": self.fork,
            "turn": None if turn is None else turn.number,
            "prompt": None if turn is None else turn.prompt,
            "one": self.one.as_dict(),
            "other": self.other.as_dict(),
        }


def compare(
    cursor: Cursor,
    one: Entry,
    other: Entry,
    shown: Callable[[int, int], object] = lambda done, size: None,
) -> Comparison:
    """See `Session.compare`; `shown` is called as by `turns.outline`."""
    with cursor.alone():
        common = cursor.common(one, other)
        drawn = outline(cursor, shown)
        starts = {turn.uuid: turn for turn in drawn.turns}
        above = None if common is None else _content_at(cursor, common)
        return Comparison(
            fork=None if above is None else above.uuid,
            turn=None if above is None else _turn_of(cursor, above, starts),
            one=_side(cursor, one, common, drawn, starts),
            other=_side(cursor, other, common, drawn, starts),
            cwd=drawn.cwd,
        )


def _content_at(cursor: Cursor, entry: Entry) -> Entry | None:
    return next((above for above in cursor.up(entry) if above.type in CONTENT), None)


def _turn_of(cursor: Cursor, entry: Entry, starts: dict[str, Turn]) -> Turn | None:
    return next((starts[above.uuid] for above in cursor.up(entry) if above.uuid in starts), None)


def _side(
    cursor: Cursor,
    leaf: Entry,
    common: Entry | None,
    drawn: SessionOutline,
    starts: dict[str, Turn],
) -> Side:
    entries = list(_below(cursor, leaf, common))
    entries.reverse()
    rest = None if common is None else _turn_of(cursor, common, starts)
    turns = tuple(_turns(entries, rest, starts))
    is_rest = bool(turns) and turns[0].uuid not in starts
    if is_rest and len(turns) > 1 and not (turns[0].work.calls or turns[0].answer):
        following = replace(turns[1], events=(*turns[0].events, *turns[1].events))
        turns, is_rest = (following, *turns[2:]), False
    work = total(turn.work for turn in turns)
    return Side(leaf.uuid, turns, is_rest, work, cursor.is_above(leaf))


def _below(cursor: Cursor, leaf: Entry, common: Entry | None) -> Iterator[Entry]:
    for entry in cursor.up(leaf):
        if common is not None and entry.uuid == common.uuid:
            return
        yield entry


def _turns(entries: list[Entry], rest: Turn | None, starts: dict[str, Turn]) -> Iterator[Turn]:
    """The turns of the entries of a path, each with the work of these entries alone."""
    answers = AnswerUsageDedup()
    turn: Turn | None = None
    tally, events, last = WorkTally(), list[TurnEvent](), ""
    for entry in entries:
        if entry.uuid in starts or (turn is None and entry.type in CONTENT):
            if turn is not None:
                yield _done(turn, tally, events, last)
            tally, events = WorkTally(), []
            known = starts.get(entry.uuid)
            turn = known or (None if rest is None else replace(rest, prompt=None, uuid=entry.uuid))
        found = tally.take(entry, answers)
        if entry.type in CONTENT:
            events.extend(found)
            last = entry.uuid
    if turn is not None:
        yield _done(turn, tally, events, last)


def _done(turn: Turn, tally: WorkTally, events: list[TurnEvent], last: str) -> Turn:
    answer = one_line(tally.answer, TEXT)
    outcome = turn.outcome if last == turn.leaf else None  # a part of a turn has none
    return replace(
        turn,
        work=tally.work(),
        events=tuple(events),
        leaf=last,
        answer=answer,
        outcome=outcome,
    )
