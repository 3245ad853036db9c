"""How a turn ended: with an answer, or why it has none.

A turn that the user interrupted is of one of three kinds: the agent had given nothing yet, the
user typed the next prompt soon, or the user gave the turn up. The entries of the turn tell the
first from the others. What tells those two is the next prompt. Without an interruption, a prompt
right behind a call steers. Invariant: pure; times come from the session alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

import msgspec

from sessiontree.core.moment import moment_of

Ending = Literal[
    "answered", "interrupted", "no output", "no answer", "broke off", "failed", "silent"
]
"""How the entries of a turn end: `silent` is one without a word of the agent."""

Outcome = Literal[
    "answered",
    "steered",
    "interrupted",
    "given up",
    "no output",
    "no answer",
    "unfinished",
    "broke off",
    "failed",
]
"""How a turn ended, with what follows it."""

_TO_TYPE: Final = timedelta(minutes=10)
"""A prompt this long after an interruption still goes on with the turn: the user types it."""

_AT_ONCE: Final = timedelta(seconds=5)
"""A prompt this long after a call was typed before, and waited until the call was done."""


class End(msgspec.Struct, frozen=True):
    """What the entries of a turn tell of its end, and of its start.

    Attributes:
        ending: how its entries end.
        prompt: the prompt, or None.
        reached_model: whether the model wrote anything.
        started, ended: the first and the last timestamp as stored.
    """

    ending: Ending
    prompt: str | None
    reached_model: bool
    started: str | None
    ended: str | None


def outcome_of(turn: End, following: End | None) -> Outcome | None:
    """How a turn ended; `following` is the prompt below its last entry, None without one.

    It is None where no answer was due: without a prompt, or after a command of the program.
    """
    goes_on = following is not None and (following.reached_model or not _is_command(following))
    match turn.ending:
        case "interrupted":
            is_next = goes_on and _is_within(turn, following, _TO_TYPE)
            return "interrupted" if is_next else "given up"
        case "no answer":
            if following is None:
                return "unfinished"
            return "steered" if goes_on and _is_within(turn, following, _AT_ONCE) else "no answer"
        case "silent":
            is_due = turn.prompt is not None and not _is_command(turn)
            waited = following is not None and _is_within(turn, following, _AT_ONCE)
            return "no output" if is_due and not waited else None
        case ending:
            return ending


def _is_command(turn: End) -> bool:
    """Whether the prompt is a command, which the program itself may have done: /model, ! ls."""
    return turn.prompt is not None and turn.prompt.startswith(("/", "! "))


def _is_within(turn: End, following: End | None, most: timedelta) -> bool:
    """Whether a prompt came soon after a turn; also where no times are known."""
    if following is None:
        return False
    ended, started = moment_of(turn.ended), moment_of(following.started)
    return ended is None or started is None or started - ended <= most
