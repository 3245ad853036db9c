"""Usage: tokens and cost in one shape, and the counts of a whole file.

Usage: the tokens and the cost that providers report, in one shape. Shapes read: pi's `{input,
output, cacheRead, cacheWrite, cost}`, Anthropic's `{input_tokens, output_tokens,
cache_read_input_tokens, cache_creation_input_tokens}`, and OpenAI's `{prompt_tokens,
completion_tokens}` and `{input_tokens, output_tokens}`, and Gemini CLI's `{input, output, cached,
thoughts, tool}`. The cached tokens of OpenAI (`*_tokens_details.cached_tokens`, in Codex
`cached_input_tokens`) and of Gemini are part of the input, and counted apart from it here; so are
the tokens that Codex writes to a cache (`cache_write_input_tokens`). Gemini's thoughts are output,
and what its tools add to a prompt is input.

Counts: how many turns a session has, the model last used, and what it cost. They are counted line
by line from the raw file, without its tree, so that a list can show them: a prompt on any branch
counts, and an answer that several lines repeat counts once.

The answers are listed, so that many sessions can be added up without their copies: forks and
imports keep the time and the tokens of an answer.

Invariants: a handle is not resolved, and a blob is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import add, sub
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple, replace

from sessiontree.core.entry import decode_object, is_of_subagent, seconds_of
from sessiontree.core.message import begins_turn

LARGEST: Final = 10**12
"""Larger numbers of tokens or dollars are nonsense; their sums might not fit into JSON."""

_DETAILS: Final = ("input_tokens_details", "prompt_tokens_details")
_ADVICE: Final = "advisor_message"


class Usage(msgspec.Struct, frozen=True):
    """Numbers of tokens, and the cost.

    Attributes:
        input: the number of input tokens, without cached tokens.
        output: the number of output tokens, including thinking.
        cache_read, cache_write: the number of tokens read from, or written to, a prompt cache.
        cost: the reported cost in US dollars; 0 if no cost was reported.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))

    def __sub__(self, part: Usage) -> Usage:
        """What is left without a part of it; of a cost no rest that only rounding leaves."""
        left = Usage(*map(sub, astuple(self), astuple(part)))
        return left if left.cost > 1e-9 else replace(left, cost=0.0)

    @property
    def tokens(self) -> int:
        """All tokens, cached tokens included."""
        return self.input + self.output + self.cache_read + self.cache_write

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `stats --json` prints for `usage` and for each of the `models`."""
        return {
            "input": self.input,
            "output": self.output,
            "cacheRead": self.cache_read,
            "cacheWrite": self.cache_write,
            "cost": round(self.cost, 9),
        }


def usage_of(reported: Any) -> Usage:
    """What a provider reported; what is not a number, or is above `LARGEST`, counts as 0."""
    if not isinstance(reported, Mapping):
        return Usage()
    found = next((reported[key] for key in _DETAILS if key in reported), None)
    details = found if isinstance(found, Mapping) else {}
    cached = _count(details, "cached_tokens") or _count(reported, "cached_input_tokens", "cached")
    kept = _count(reported, "cache_write_input_tokens")
    read = _count(reported, "input", "input_tokens", "prompt_tokens") + _count(reported, "tool")
    written = _count(reported, "output", "output_tokens", "completion_tokens")
    return Usage(
        input=max(0, read - cached - kept),
        output=written + _count(reported, "thoughts"),
        cache_read=_count(reported, "cacheRead", "cache_read_input_tokens") + cached,
        cache_write=_count(reported, "cacheWrite", "cache_creation_input_tokens") + kept,
        cost=_cost(reported.get("cost")),
    )


def reports_cost(reported: Any) -> bool:
    """Whether a provider reported a cost, which may be 0."""
    return isinstance(reported, Mapping) and cost_in(reported.get("cost")) is not None


def written_for_an_hour(reported: Any) -> int:
    """How many of the tokens written to a cache Anthropic keeps for an hour, which costs more."""
    if not isinstance(reported, Mapping):
        return 0
    found = reported.get("cache_creation")
    long = _count(found, "ephemeral_1h_input_tokens") if isinstance(found, Mapping) else 0
    return min(long, usage_of(reported).cache_write) if long else 0


class Mode(NamedTuple):
    """A way of serving an answer that has a price of its own, as the provider names it."""

    key: str
    value: str


def mode_of(reported: Any, service_tier: Any = None) -> Mode | None:
    """How an answer was served, if not in the usual way.

    Args:
        reported: the usage, in which Anthropic tells of its fast mode.
        service_tier: the tier of OpenAI that served it, if the agent keeps it apart.
    """
    if isinstance(reported, Mapping) and reported.get("speed") == "fast":
        return Mode("speed", "fast")
    usual = not isinstance(service_tier, str) or service_tier in ("", "auto", "default", "standard")
    return None if usual else Mode("service_tier", service_tier)


def counts_instead(usage: Usage, known: Usage) -> bool:
    """Whether an entry counts instead of an earlier entry of the same answer.

    The tokens of an answer only grow while it is written. So the entry with the most tokens counts,
    and of equal ones the last.
    """
    return usage.tokens >= known.tokens


class Advice(NamedTuple):
    """What another model used that the model of an answer asked while it wrote."""

    name: str  # names it among the answers of the session; empty where the answer has no id
    model: str  # the model that was asked; empty if none is named
    reported: Mapping[str, Any]  # its usage, as reported


def advice_in(reported: Any, answer: Any) -> Iterator[Advice]:
    """What other models used for an answer with this id: the advisor of Claude Code.

    The numbers of the answer itself do not include it.
    """
    found = reported.get("iterations") if isinstance(reported, Mapping) else None
    for number, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, Mapping) and each.get("type") == _ADVICE:
            name = f"{answer} {_ADVICE} {number}" if isinstance(answer, str) and answer else ""
            model = each.get("model")
            yield Advice(name, model if isinstance(model, str) else "", each)


def _count(reported: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = reported.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
            return value
    return 0


def _cost(cost: Any) -> float:
    return cost_in(cost) or 0.0


def cost_in(cost: Any) -> float | None:
    """A reported cost in US dollars; None for what is not a cost."""
    if isinstance(cost, Mapping):
        cost = cost.get("total")
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return float(cost) if is_number and 0 <= cost <= LARGEST else None


class AnswerUsage(NamedTuple):
    """What an answer used, and when; of a cost that is reported apart, the answer before it."""

    time: int | str  # in milliseconds since 1970; else what names the answer
    id: str  # the agent's, empty if it gives none
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float

    @property
    def usage(self) -> Usage:
        return Usage(*self[2:])

    @property
    def copy_key(self) -> str:
        return copy_key(self.id, self.time, self.usage)


def copy_key(id: str, time: int | str, usage: Usage) -> str:
    """What the copies of an answer in forks and imports have in common, for every sum of costs.

    That is its id and its time. An answer of an agent that gives no id is known by its time and its
    tokens, a cost that is reported apart by its time and itself.
    """
    if id:
        return f"{time} {id}"
    tokens = astuple(usage)[:4]
    return f"{time} {tokens if any(tokens) else usage.cost}"


def total(answers: Iterable[AnswerUsage]) -> Usage:
    """What some answers used together."""
    return Usage(*map(sum, zip(*(answer[2:] for answer in answers), strict=True)))


class FileCounts(msgspec.Struct, frozen=True):
    """What the lines of a session add up to."""

    turns: int = 0  # the number of prompts
    model: str | None = None  # the model that was used last, or None
    usage: Usage = Usage()  # the tokens and the reported cost of all answers
    listed: bytes = b""  # the answers, encoded, as most who ask for counts need none of them

    def answers(self) -> list[AnswerUsage]:
        """The answers that have tokens or a cost."""
        return _decode_answers(self.listed) if self.listed else []


_decode_answers: Final = msgspec.msgpack.Decoder(list[AnswerUsage]).decode


class Tally(Protocol):
    """Counts the lines of one session; each line that has one of the `needles` is taken."""

    needles: tuple[bytes, ...]

    def take(self, line: bytes, *, beside: bool = False) -> None:
        """Count a line of the session, or of a subagent's file beside it."""

    def counts(self) -> FileCounts:
        """What the lines so far add up to."""


class Sums:
    """The sums of a tally."""

    def __init__(self) -> None:
        self.turns = 0
        self.model: str | None = None
        self._spent: list[AnswerUsage] = []
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
        id = answer if isinstance(answer, str) else ""
        place = self._places.get(id) if id else None
        if place is not None:
            known = self._spent[place]
            if counts_instead(usage, known.usage):
                self._spent[place] = AnswerUsage(known.time, id, *astuple(usage))
            return
        made = AnswerUsage(_milliseconds(time) or str(answer or name or ""), id, *astuple(usage))
        if not usage.tokens:  # a cost of the answers before, which may have no time of its own
            made = made._replace(time=self._time)
        elif not beside:
            self._time = made.time
        if id:
            self._places[id] = len(self._spent)
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

    def counts(self) -> FileCounts:
        usage = total(self._spent)
        listed = [answer for answer in self._spent if any(answer[2:])]
        encoded = msgspec.msgpack.encode(listed) if listed else b""
        return FileCounts(self.turns, self.model, usage, encoded)


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
