"""Counts: how many turns a session has, the model last used, and what it cost.

They are counted line by line from the raw file, without its tree, so that a list can show them: a
prompt on any branch counts, and an answer that several lines repeat counts once.

Invariant: a handle is not resolved, and a blob is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from sessiontree.core.entry import decode_object, is_of_subagent
from sessiontree.core.message import begins_turn
from sessiontree.core.usage import Usage, usage_of


class Counts(msgspec.Struct, frozen=True):
    """What the lines of a session add up to.

    Attributes:
        turns: the number of prompts.
        model: the model that was used last, or None.
        usage: the tokens and the reported cost of all answers.
    """

    turns: int = 0
    model: str | None = None
    usage: Usage = Usage()


class Tally(Protocol):
    """Counts the lines of one session; each line that has one of the `needles` is taken."""

    needles: tuple[bytes, ...]

    def take(self, line: bytes, *, beside: bool = False) -> None:
        """Count a line of the session, or of a subagent's file beside it."""

    def counts(self) -> Counts:
        """What the lines so far add up to."""


class Sums:
    """The sums of a tally."""

    def __init__(self) -> None:
        self.turns = 0
        self.model: str | None = None
        self._spent = Usage()
        self._answers: dict[str, Usage] = {}

    def spend(self, usage: Usage, answer: Any = None) -> None:
        """Add the usage of an answer; of lines with one answer's id the last counts."""
        if isinstance(answer, str) and answer:
            self._answers[answer] = usage
        else:
            self._spent += usage

    def use(self, model: Any) -> None:
        """Note the model that wrote a message."""
        if isinstance(model, str) and model:
            self.model = model

    def counts(self) -> Counts:
        return Counts(self.turns, self.model, sum(self._answers.values(), self._spent))


_ANSWERS: Final = {"message": "id", "handle": "id", "message_end": "messageUuid"}
"""The key that identifies an answer, by type of entry."""


class EntryTally:
    """Counts the lines of version 2, of version 1, and of the pi coding agent. See `Tally`."""

    needles: tuple[bytes, ...] = (b'"user"', b'"usage"', b'"modelId"', b'"model"')

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts

    def take(self, line: bytes, *, beside: bool = False) -> None:
        body = decode_object(line)
        kind = str(body.get("type"))
        message = body.get("message")
        fields = message if kind == "message" else body
        if not isinstance(fields, Mapping):
            return
        if is_prompt_entry(body):
            self._sums.turns += 1
        if kind in ("message", "message_end", "block") and fields.get("role") in (
            None,
            "assistant",
        ):
            self._sums.use(fields.get("model"))
        elif kind == "model_change":
            self._sums.use(fields.get("modelId"))
        if isinstance(fields.get("usage"), Mapping):
            answer = fields.get(_ANSWERS.get(kind, ""))
            self._sums.spend(usage_of(fields["usage"]), answer)


def is_prompt_entry(body: Mapping[str, Any]) -> bool:
    """Whether an entry, given its keys as stored, is a prompt of the user, or a handle of one."""
    lane = body.get("lane")
    if isinstance(lane, str) and is_of_subagent(lane):
        return False
    if body.get("type") == "handle":
        return body.get("kind") == "message" and body.get("role") == "user"
    return begins_turn(body)
