"""Two branches of a session side by side."""

from __future__ import annotations

from typing import Any, Final

from sessiontree.core.display import one_line
from sessiontree.operations.compare import Side
from sessiontree.operations.turns import Turn
from sessiontree.operations.words import asked_in, outcome_parts, outcomes_in, told_in, work_in
from sessiontree.session import Session

_WIDTH: Final = 200  # columns of what is said about some work
_MOST_TURNS: Final = 500
_MOST_FILES: Final = 100
_MOST_BRANCHES: Final = 300


def branches_of(file: str) -> list[dict[str, Any]]:
    """The branches of a session as choices, the last ones of very many.

    Raises:
        SessionTreeError: the session cannot be read.
    """
    with Session.open(file, readonly=True) as session:
        found = session.branches()[-_MOST_BRANCHES:]
    return [
        {
            "leaf": one.leaf,
            "current": one.current,
            "words": one_line(" · ".join(filter(None, [one.name, one.preview])) or one.leaf, 90),
        }
        for one in found
    ]


def compared(file: str, one: str, other: str) -> dict[str, Any]:
    """The values of the page that compares two entries of a session.

    Raises:
        SessionTreeError: the session cannot be read, or has no such entry.
    """
    with Session.open(file, readonly=True) as session:
        found = session.compare(one, other)
        leaf = session.leaf.uuid
    both = set(found.one.work.changed) & set(found.other.work.changed)
    turn = found.turn
    return {
        "fork": found.fork,
        "fork_turn": None if turn is None else f"turn {turn.name}: {turn.prompt or turn.answer}",
        "sides": [_side(side, leaf, both) for side in (found.one, found.other)],
    }


def _side(side: Side, leaf: str, both: set[str]) -> dict[str, Any]:
    prompts = sum(turn.prompt is not None for turn in side.turns)
    did = [part.text for part in [*outcomes_in(side.turns), *work_in(side.work, _WIDTH)]]
    changed = sorted(side.work.changed, key=lambda path: path not in both)
    return {
        "leaf": side.leaf,
        "is_current": side.leaf == leaf,
        "did": [f"{prompts:,} {'prompt' if prompts == 1 else 'prompts'}", *did],
        "turns": [
            _turn(turn, is_rest=side.is_rest and place == 0)
            for place, turn in enumerate(side.turns[:_MOST_TURNS])
        ],
        "more": max(0, len(side.turns) - _MOST_TURNS),
        "files": [{"path": path, "both": path in both} for path in changed[:_MOST_FILES]],
        "more_files": max(0, len(changed) - _MOST_FILES),
    }


def _turn(turn: Turn, *, is_rest: bool) -> dict[str, Any]:
    return {
        "uuid": turn.uuid,
        "name": turn.name,
        "asked": "the rest of this turn" if is_rest else asked_in(turn),
        "is_rest": is_rest,
        "did": [part.text for part in work_in(turn.work, _WIDTH, outcome_parts(turn))],
        "told": told_in(turn) if turn.answer and (turn.prompt is not None or is_rest) else "",
    }
