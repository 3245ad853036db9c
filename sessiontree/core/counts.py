"""Counts: how many turns a session has, the model last used, and what it cost.

They are counted line by line from the raw file, without its tree, so that a list can show them: a
prompt on any branch counts, and an answer that several lines repeat counts once.

The answers are listed, so that many sessions can be added up without their copies: forks and
imports keep the time and the tokens of an answer.

Invariant: a handle is not resolved, and a blob is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple

from sessiontree.core.entry import decode_object, is_of_subagent
from sessiontree.core.message import begins_turn
from sessiontree.core.moment import seconds_of
from sessiontree.core.usage import Usage, advice_in, counts_instead, usage_of


class Answer(NamedTuple):
    """What an answer used, and when; of a cost that is reported apart, the answer before it.

    The time is in milliseconds since 1970. Where there is none, it is what names the answer.
    """

    time: int | str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float

    @property
    def has_tokens(self) -> bool:
        return any(self[1:5])

    @property
    def key(self) -> tuple[Any, ...]:
        """What copies of the answer have in common; not all have its cost."""
        return self[:5] if self.has_tokens else self


def total(answers: Iterable[Answer]) -> Usage:
    """What some answers used together."""
    return Usage(*map(sum, zip(*(answer[1:] for answer in answers), strict=True)))


class Counts(msgspec.Struct, frozen=True):
    """What the lines of a session add up to.

    Attributes:
        turns: the number of prompts.
        model: the model that was used last, or None.
        usage: the tokens and the reported cost of all answers.
        listed: the answers, encoded, as most who ask for counts need none of them.
    """

    turns: int = 0
    model: str | None = None
    usage: Usage = Usage()
    listed: bytes = b""

    def answers(self) -> list[Answer]:
        """The answers that have tokens or a cost."""
        return _decode_answers(self.listed) if self.listed else []


_decode_answers: Final = msgspec.msgpack.Decoder(list[Answer]).decode


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
        self._spent: list[Answer] = []
        self._places: dict[str, int] = {}  # by the id of an answer
        self._time: int | str = ""

    def spend(
        self, usage: Usage, time: Any, answer: Any = None, name: Any = "", *, beside: bool = False
    ) -> None:
        """Add the usage of an answer; of lines with one answer's id one counts.

        Args:
            usage: the usage.
            time: when the answer was written, as stored.
            answer: the id that several lines of one answer have.
            name: names the answer where it has no time.
            beside: whether it is a subagent's.
        """
        place = self._places.get(answer) if isinstance(answer, str) and answer else None
        if place is not None:
            known = self._spent[place]
            if counts_instead(usage, Usage(*known[1:])):
                self._spent[place] = Answer(known.time, *astuple(usage))
            return
        made = Answer(_milliseconds(time) or str(answer or name or ""), *astuple(usage))
        if not made.has_tokens:  # a cost of the answers before, which may have no time of its own
            made = made._replace(time=self._time)
        elif not beside:
            self._time = made.time
        if isinstance(answer, str) and answer:
            self._places[answer] = len(self._spent)
        self._spent.append(made)

    def spend_reported(
        self, reported: Any, time: Any, answer: Any = None, name: Any = "", *, beside: bool = False
    ) -> None:
        """Add what a provider reported for an answer, and for the models that its model asked."""
        self.spend(usage_of(reported), time, answer, name, beside=beside)
        for advice in advice_in(reported, answer):
            self.spend(usage_of(advice.reported), time, advice.name, name, beside=True)

    def use(self, model: Any) -> None:
        """Note the model that wrote a message."""
        if isinstance(model, str) and model:
            self.model = model

    def counts(self) -> Counts:
        usage = total(self._spent)
        listed = [answer for answer in self._spent if any(answer[1:])]
        encoded = msgspec.msgpack.encode(listed) if listed else b""
        return Counts(self.turns, self.model, usage, encoded)


def _milliseconds(time: Any) -> int | None:
    seconds = seconds_of(time)
    return None if seconds is None else int(seconds * 1000)


ANSWERS: Final = {"message": "id", "handle": "id", "message_end": "messageUuid"}
"""The key that identifies an answer, by type of entry: several entries may repeat one."""


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
            lane = body.get("lane")
            self._sums.spend_reported(
                fields["usage"],
                body.get("timestamp"),
                fields.get(ANSWERS.get(kind, "")),
                body.get("uuid"),
                beside=isinstance(lane, str) and is_of_subagent(lane),
            )


def is_prompt_entry(body: Mapping[str, Any]) -> bool:
    """Whether an entry, given its keys as stored, is a prompt of the user, or a handle of one."""
    lane = body.get("lane")
    if isinstance(lane, str) and is_of_subagent(lane):
        return False
    if body.get("type") == "handle":
        return body.get("kind") == "message" and body.get("role") == "user"
    return begins_turn(body)
