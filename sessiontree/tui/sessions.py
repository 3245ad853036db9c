"""The sessions as lines: what a list, its filter and its preview say of each. Nothing is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sessiontree.agents import command_of
from sessiontree.core.display import one_line
from sessiontree.library.listing import SessionInfo, moment
from sessiontree.library.lookup import agent_of, model_of, note_of, short_id, title_of
from sessiontree.text.amounts import ago, briefly_ago, dollars
from sessiontree.text.columns import filled
from sessiontree.text.preview import size_in_short
from sessiontree.tui.lines import Line, Piece, beside, wrapped

_LONGEST: Final = 400
_WIDE: Final = 100  # columns from which on the project and the turns are shown
_PROMPT_LINES: Final = 3


def session_line(one: SessionInfo, width: int, now: datetime) -> Line:
    """A session in a list."""
    when = briefly_ago(now.timestamp() - moment(one.modified))
    agent = command_of(agent_of(one))
    left = [
        Piece(f"{when:>4}  ", "dim"),
        Piece(filled(agent, 11) + "  ", "agent"),
        Piece(title_of(one, _LONGEST)),
    ]
    note = note_of(one, {})
    right = [Piece(f"{note}  ", "label")] if note else []
    if width >= _WIDE:
        right.append(Piece(f"{filled(folder_of(one), 16)}  ", "dim"))
        right.append(Piece("      " if one.turns is None else f"{one.turns:>4,} t", "dim"))
    right.append(Piece(f"{dollars(one.cost) if one.cost else '':>8}", "number"))
    right.append(Piece(f"{size_in_short(one.bytes):>8}", "dim"))
    return beside(left, right, width)


def folder_of(one: SessionInfo) -> str:
    """The last part of the working directory."""
    return one_line((one.cwd or "").rstrip("/").rpartition("/")[2])


def preview_lines(one: SessionInfo, width: int, now: datetime) -> list[Line]:
    """The facts of a session, and its first prompt."""
    facts = [agent_of(one), model_of(one), size_in_short(one.bytes), short_id(one.id)]
    if one.turns is not None:
        facts.insert(2, f"{one.turns:,} {'turn' if one.turns == 1 else 'turns'}")
    if one.cost:
        facts.insert(3, dollars(one.cost))
    past = ago(now.timestamp() - moment(one.modified))
    lines: list[Line] = [
        [Piece(title_of(one, _LONGEST), "title")],
        [Piece(" · ".join([*filter(None, facts), past]), "dim")],
        [Piece(one.cwd or "(no directory)", "dim")],
    ]
    asked = wrapped(one_line(one.first_message or "", _LONGEST), width)[:_PROMPT_LINES]
    return [*lines, *([Piece(line)] for line in asked if line)]


def matching(sessions: Sequence[SessionInfo], words: str) -> list[SessionInfo]:
    """The sessions that have all words in what a list knows of them."""
    wanted = words.casefold().split()
    return [one for one in sessions if all(word in _known(one) for word in wanted)]


def _known(one: SessionInfo) -> str:
    facts = (one.name, one.first_message, one.cwd, agent_of(one), one.model, one.id, one.file)
    return "\n".join(filter(None, facts)).casefold()


def title_lines(count: int, among: int, words: str, order: str) -> tuple[Line, Line]:
    """The title of the list: how many sessions, and which."""
    found = f"{count:,} of {among:,}" if words else f"{among:,}"
    noun = "session" if among == 1 else "sessions"
    return [Piece(f"sessiontree · {found} {noun}")], [Piece(f"by {order}")]
