"""Usage: tokens and cost in one shape, and the counts of a whole file.

Shapes read: pi's `{input, output, cacheRead, cacheWrite, cost}`, Anthropic's `{input_tokens,
output_tokens, cache_read_input_tokens, cache_creation_input_tokens}`, OpenAI's `{prompt_tokens,
completion_tokens}` and `{input_tokens, output_tokens}`, and Gemini CLI's `{input, output, cached,
thoughts, tool}`. The cached tokens of OpenAI (`*_tokens_details.cached_tokens`, in Codex
`cached_input_tokens`) and of Gemini are part of the input, and counted apart from it here; so are
the tokens that Codex writes to a cache (`cache_write_input_tokens`). Gemini's thoughts are output,
and what its tools add to a prompt is input.

A file's turns, the model last used and the cost are counted line by line from the raw file, without
its tree, so that a list can show them: a prompt on any branch counts, and an answer that several
lines repeat counts once. The answers are listed, so that many sessions can be added up without
their copies: forks and imports keep the time and the tokens of an answer.

Invariants: a handle is not resolved, and a blob is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import add, sub
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple, replace

from sessiontree.core.entry import HEADER, decode_object, is_of_subagent, seconds_of, whole_number
from sessiontree.core.header import CONVERTED, IMPORTED_FROM
from sessiontree.core.header import KEY as ORIGIN
from sessiontree.core.jsonbytes import ESCAPES
from sessiontree.core.message import begins_turn

LARGEST: Final = 10**12
"""Larger numbers of tokens or dollars are nonsense; their sums might not fit into JSON."""

_DETAILS: Final = ("input_tokens_details", "prompt_tokens_details")
_ADVICE: Final = "advisor_message"


class Usage(msgspec.Struct, frozen=True):
    """Numbers of tokens, and the cost."""

    input: int = 0  # the number of input tokens, without cached tokens
    output: int = 0  # the number of output tokens, including thinking
    cache_read: int = 0  # the number of tokens read from a prompt cache
    cache_write: int = 0  # the number of tokens written to a prompt cache
    cost: float = 0.0  # the reported cost in US dollars; 0 if no cost was reported

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
    """What a provider reported; what is not a whole number up to `LARGEST` counts as 0."""
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
    """True if a provider reported a cost, which may be 0."""
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
    """How an answer was served, if not in the usual way."""
    if isinstance(reported, Mapping) and reported.get("speed") == "fast":
        return Mode("speed", "fast")
    usual = not isinstance(service_tier, str) or service_tier in ("", "auto", "default", "standard")
    return None if usual else Mode("service_tier", service_tier)


def counts_instead(usage: Usage, known: Usage) -> bool:
    """True if an entry counts instead of an earlier entry of the same answer.

    The tokens of an answer only grow while it is written. So the entry with the most tokens counts,
    and of equal ones the last.
    """
    return usage.tokens >= known.tokens


class AdvisorUsage(NamedTuple):
    """What another model used that the model of an answer asked while it wrote."""

    name: str  # names it among the answers of the session; empty where the answer has no id
    model: str  # the model that was asked; empty if none is named
    reported: Mapping[str, Any]  # its usage, as reported


def advice_in(reported: Any, answer: Any) -> Iterator[AdvisorUsage]:
    """What other models used for an answer with this id: the advisor of Claude Code.

    The numbers of the answer itself do not include it.
    """
    found = reported.get("iterations") if isinstance(reported, Mapping) else None
    for number, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, Mapping) and each.get("type") == _ADVICE:
            name = f"{answer} {_ADVICE} {number}" if isinstance(answer, str) and answer else ""
            model = each.get("model")
            yield AdvisorUsage(name, model if isinstance(model, str) else "", each)


def _count(reported: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = whole_number(reported.get(name))
        if value is not None and 0 <= value <= LARGEST:
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


class Spent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The usage of one answer, summary or `usage` entry."""

    time: int | None = None  # when it was first written, in milliseconds since 1970
    answer: str = ""  # the agent's id of the answer; empty if it has none
    entry: str = ""  # the uuid of the first entry that has it, or of the agent's line
    provider: str | None = None
    model: str = ""
    usage: Usage = Usage()  # the tokens, and the cost that was reported
    written_for_an_hour: int = 0  # the part of the tokens written to a cache kept for an hour
    mode: Mode | None = None  # how the provider served it, if that has a price of its own
    is_reported: bool = False  # whether a cost, which may be 0, was reported with the tokens
    is_report: bool = False  # whether the cost is that of answers before it
    is_of_session: bool = False  # whether these are all answers of the session, not of a turn
    is_covered: bool = False  # whether a later entry of the session reports the cost
    is_converted: bool = False  # whether the line was converted from another agent's
    # Whether the agent copied it from the session that this one was forked from, with another time.
    is_inherited: bool = False

    @property
    def moment(self) -> datetime | None:
        return None if self.time is None else datetime.fromtimestamp(self.time / 1000, UTC)

    @property
    def copy_key(self) -> str:
        """What the copies of the answer in forks and imports have in common.

        That is its id and its time. An answer of an agent that gives no id is known by its time and
        its tokens, a cost that is reported apart by its time and itself. An inherited answer has
        another time in each fork; the sum of a session grows, and has the id of that.
        """
        if self.is_of_session and self.answer:
            return self.answer
        time = (self.answer or self.entry) if self.time is None else self.time
        time = INHERITED if self.is_inherited else time
        if self.answer:
            return f"{time} {self.answer}"
        tokens = astuple(self.usage)[:4]
        return f"{time} {tokens if any(tokens) else self.usage.cost}"

    @property
    def name(self) -> str:
        """The model with its provider, as `stats` names it; empty if it is not known."""
        return f"{self.provider}/{self.model}" if self.provider and self.model else self.model

    @property
    def needs_price(self) -> bool:
        """Whether tokens were used whose cost nothing reports."""
        return bool(self.usage.tokens) and not (self.is_reported or self.is_covered)


_PROVIDERS: Final = (
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"(chat)?gpt|codex|o\d"), "openai"),
    (re.compile(r"gemini"), "google"),
)


def provider_of(model: str) -> str | None:
    """The provider of a model by its name, for a message that names none; None if in doubt."""
    return next((provider for start, provider in _PROVIDERS if start.match(model)), None)


_OF_SESSION: Final = "session"

_SPENT: Final = "spent"
"""The key in the origin of a converted line of what its answer used, as its agent reported it."""


def spent_mark(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the origin of a converted line says of an answer, given the fields of its entry.

    The target may have no place for the model, the tokens written to a cache or the cost.
    """
    named = {key: fields[key] for key in _NAMED if isinstance(fields.get(key), str)}
    return {_SPENT: {**named, "usage": fields.get("usage")}}


def spent_before(origin: Any) -> dict[str, Any]:
    """The fields of an answer as its first agent reported them, by a line's origin; else empty."""
    found = origin.get(_SPENT) if isinstance(origin, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(found.get("usage"), Mapping):
        return {}
    return {**dict.fromkeys(("provider", "model")), **found}


_NAMED: Final = ("kind", "provider", "model", "serviceTier")


def spent_on(
    reported: Any,
    time: Any,
    answer: Any = None,
    entry: Any = None,
    *,
    provider: Any = None,
    model: Any = None,
    service_tier: Any = None,
    kind: Any = None,
    is_inherited: bool = False,
) -> Iterator[Spent]:
    """What a provider reported for an answer, then what the models used that its model asked.

    `answer` is the id that several lines of one answer repeat, `entry` the uuid of the line.
    """
    usage, id = usage_of(reported), _text(answer)
    at = seconds_of(time)
    milliseconds = None if at is None else int(at * 1000)
    # the kinds of `usage` entries that give the cost of answers before them
    is_report = isinstance(kind, str) and kind in (_OF_SESSION, "result")
    named = _text(provider) if isinstance(provider, str) else None
    yield Spent(
        time=milliseconds,
        answer=id,
        entry=_text(entry),
        provider=named,
        model=_text(model),
        usage=usage,
        written_for_an_hour=written_for_an_hour(reported),
        mode=mode_of(reported, service_tier),
        is_reported=usage.cost > 0 if is_report else reports_cost(reported),
        is_report=is_report and usage.cost > 0,
        is_of_session=kind == _OF_SESSION,
        is_inherited=is_inherited,
    )
    for advice in advice_in(reported, id):
        yield Spent(
            time=milliseconds,
            answer=advice.name,
            entry=_text(entry),
            provider=named,
            model=_text(advice.model),
            usage=usage_of(advice.reported),
            written_for_an_hour=written_for_an_hour(advice.reported),
            mode=mode_of(advice.reported),
            is_reported=reports_cost(advice.reported),
            is_inherited=is_inherited,
        )


def _text(value: Any) -> str:
    """A text that a cache can hold, so without half a character; empty for any other value."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def total(found: Iterable[Spent]) -> Usage:
    """What some answers used together."""
    each = (astuple(spent.usage) for spent in found)
    return Usage(*map(sum, zip(*each, strict=True)))


class FileCounts(msgspec.Struct, frozen=True):
    """What the lines of a session add up to."""

    turns: int = 0  # the number of prompts
    model: str | None = None  # the model that was used last, or None
    usage: Usage = Usage()  # the tokens and the reported cost of all answers
    listed: bytes = b""  # what was spent, encoded, as most who ask for counts need none of it
    damaged: int = 0  # lines with needles that are not JSON objects
    asked: bytes = b""  # when its prompts were written, encoded; without converted ones
    asked_before: bytes = b""  # when the converted ones were written

    def spent(self) -> list[Spent]:
        """What each answer spent, in the order of the file."""
        return _decode_spent(self.listed) if self.listed else []

    def times_asked(self) -> list[int]:
        """When each prompt was written, in milliseconds since 1970; 0 if that is not known.

        Prompts that were converted from another agent's are left out.
        """
        return _decode_times(self.asked) if self.asked else []

    def prompts(self) -> set[int]:
        """When the prompts were written whose time is known, with converted ones."""
        before = _decode_times(self.asked_before) if self.asked_before else []
        return {*self.times_asked(), *before} - {0}


_decode_spent: Final = msgspec.msgpack.Decoder(list[Spent]).decode
_decode_times: Final = msgspec.msgpack.Decoder(list[int]).decode


class Tally(Protocol):
    """Counts the lines of one session; each line that has one of the `needles` is taken.

    It is the one rule of what the sessions of an agent cost: lists, sums and rows come from it.
    """

    needles: tuple[bytes, ...]

    def take(self, line: bytes, *, beside: bool = False) -> None:
        """Count a line of the session, or of a subagent's file beside it."""

    def counts(self) -> FileCounts:
        """What the lines so far add up to."""


class Sums:
    """The sums of a tally; an answer that several lines repeat counts once."""

    def __init__(self) -> None:
        self.turns = 0
        self.model: str | None = None
        self.spent: list[Spent] = []
        self._asked: list[int] = []
        self._asked_before: list[int] = []
        self._damaged = 0
        self._places: dict[str, int] = {}  # by the id of an answer
        self._time: int | None = None
        self._is_converted = False  # whether the last line was
        self._before: Mapping[str, Any] = {}  # what its origin says of an answer
        self._lacks_costs = False  # whether a cost of 0 says that none was reported

    @property
    def is_told(self) -> bool:
        """Whether the origin of the last line says what an answer used."""
        return bool(self._before)

    def decoded(self, line: bytes) -> dict[str, Any]:
        """The object in a line; an empty one, which counts as damage, if it has none."""
        body = decode_object(line)
        self._damaged += not body
        self._is_converted = ORIGIN in body
        self._before = spent_before(body[ORIGIN]) if self._is_converted else {}
        return body

    def spend(self, reported: Any, *about: Any, beside: bool = False, **more: Any) -> None:
        """Add what a provider reported for an answer, of a subagent or not; see `spent_on`.

        For a converted answer that is what was reported to the agent that got it.
        """
        if before := self._before:
            named = {key: before.get(key) for key in ("provider", "model", "kind")}
            more |= {**named, "service_tier": before.get("serviceTier")}
            reported = before["usage"]
        for spent in spent_on(reported, *about, **more):
            self.add(spent, beside=beside)

    def add(self, spent: Spent, *, beside: bool = False) -> int | None:
        """Add what was spent: its place in `spent`; None if its answer has a place already.

        What has no time, such as a cost that is reported apart, has that of the answer before it.
        """
        place = self._places.get(spent.answer) if spent.answer else None
        if place is not None:
            known = self.spent[place]
            if counts_instead(spent.usage, known.usage):
                self.spent[place] = replace(spent, time=known.time, entry=known.entry)
            return None
        if self._is_converted:
            spent = replace(spent, is_converted=True)
        if (self._is_converted and not self.is_told) or self._lacks_costs:
            spent = replace(spent, is_reported=spent.is_reported and spent.usage.cost > 0)
        if spent.time is None:
            spent = replace(spent, time=self._time)
        elif not beside:
            self._time = spent.time
        place = len(self.spent)
        if spent.answer:
            self._places[spent.answer] = place
        self.spent.append(spent)
        return place

    def begin(self, header: Mapping[str, Any]) -> None:
        """Take the keys of a session's header: an import of a file of pi may be of a converted one.

        Lines of pi need a cost, which is 0 where none was reported.
        """
        metadata = header.get("metadata")
        record = metadata.get(IMPORTED_FROM) if isinstance(metadata, Mapping) else None
        self._lacks_costs = isinstance(record, Mapping) and record.get(CONVERTED) is True

    def ask(self, time: Any, count: int = 1) -> None:
        """Count prompts of the last line, given its time."""
        self.turns += count
        asked = self._asked_before if self._is_converted else self._asked
        asked += [int((seconds_of(time) or 0.0) * 1000)] * count

    def use(self, model: Any) -> None:
        """Note the model that wrote a message."""
        self.model = _text(model) or self.model

    def counts(self) -> FileCounts:
        lists = (self.spent, self._asked, self._asked_before)
        listed, *asked = (msgspec.msgpack.encode(found) if found else b"" for found in lists)
        return FileCounts(self.turns, self.model, total(self.spent), listed, self._damaged, *asked)


INHERITED: Final = "isInherited"
"""The key in the metadata of a `usage` entry that is true if its answer is of another session.

Codex writes the lines of a parent again in a subagent's rollout, with the time of its start.
"""

ANSWERS: Final = {"message": "id", "handle": "id", "message_end": "messageUuid", "usage": "sumOf"}
"""The key that identifies an answer, by type of entry: several entries may repeat one.

That of a `usage` entry has the id of a session, whose sum so far the entry gives.
"""


def spent_in_progress(progress: Any, time: Any, entry: Any) -> Iterator[Spent]:
    """What an answer of a subagent spent that a line about its progress repeats.

    `progress` is the `data` of the line. The subagent's own file may have the answer, too.
    """
    for key in ("message", "message"):
        progress = progress.get(key) if isinstance(progress, Mapping) else None
    if isinstance(progress, Mapping) and isinstance(progress.get("usage"), Mapping):
        about = progress.get("id"), entry
        yield from spent_on(progress["usage"], time, *about, model=progress.get("model"))


def spent_by(body: Mapping[str, Any], fields: Mapping[str, Any]) -> Iterator[Spent]:
    """What an entry spent, given its keys, and its message or, without one, its keys again."""
    kind = str(body.get("type"))
    if kind == "custom" and str(body.get("customType")).endswith(":progress"):
        line = body.get("data")
        progress = line.get("data") if isinstance(line, Mapping) else None
        yield from spent_in_progress(progress, body.get("timestamp"), body.get("uuid"))
    if not isinstance(fields.get("usage"), Mapping):
        return
    metadata = body.get("metadata") if kind == "usage" else None
    yield from spent_on(
        fields["usage"],
        body.get("timestamp"),
        fields.get(ANSWERS.get(kind, "")),
        body.get("uuid", body.get("id")),
        provider=fields.get("provider"),
        model=fields.get("model"),
        service_tier=fields.get("serviceTier"),
        kind=fields.get("kind") if kind == "usage" else None,
        is_inherited=isinstance(metadata, Mapping) and metadata.get(INHERITED) is True,
    )


def is_session_sum(body: Mapping[str, Any]) -> bool:
    """Whether an entry, given its keys, has the sum of a session so far, which is of no turn."""
    return body.get("type") == "usage" and bool(body.get("sumOf"))


class EntryTally:
    """Counts the lines of version 2, of version 1, and of the pi coding agent. See `Tally`."""

    needles: tuple[bytes, ...] = (
        *(b'"user"', b'"usage"', b'"modelId"', b'"model"', b'"converted":true'),
        *ESCAPES,
    )

    def __init__(self) -> None:
        self._sums = Sums()
        self.counts = self._sums.counts

    def take(self, line: bytes, *, beside: bool = False) -> None:
        self.count(self._sums.decoded(line))

    def count(self, body: Mapping[str, Any]) -> None:
        """Count an entry, given its keys as stored."""
        kind = str(body.get("type"))
        if kind == HEADER:
            self._sums.begin(body)
        message = body.get("message")
        fields = message if kind == "message" else body
        if not isinstance(fields, Mapping):
            return
        if is_prompt_entry(body):
            self._sums.ask(body.get("timestamp"))
        if kind in ("message", "message_end", "block") and fields.get("role") in (
            None,
            "assistant",
        ):
            self._sums.use(fields.get("model"))
        elif kind == "model_change":
            self._sums.use(fields.get("modelId"))
        lane = body.get("lane")
        is_beside = isinstance(lane, str) and is_of_subagent(lane)
        for spent in spent_by(body, fields):
            self._sums.add(spent, beside=is_beside)


def is_prompt_entry(body: Mapping[str, Any]) -> bool:
    """True if an entry, given its keys as stored, is a prompt of the user, or a handle of one."""
    lane = body.get("lane")
    if isinstance(lane, str) and is_of_subagent(lane):
        return False
    if body.get("type") == "handle":
        return body.get("kind") == "message" and body.get("role") == "user"
    return begins_turn(body)
