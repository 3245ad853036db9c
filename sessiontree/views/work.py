"""What was done in a part of a session, and how it ended.

The part may be a turn, a subagent or the whole session: its calls, files, usage, times, and what
came of it. A turn ends with an answer, or has a reason for having none. A turn that the user
interrupted is of one of three kinds: the agent had given nothing yet, the user typed the next
prompt soon, or the user gave the turn up. The entries of the turn tell the first from the others.
What tells those two is the next prompt. Without an interruption, a prompt right behind a call
steers.

Invariants: pure, so times come from the session alone; an answer counts once, however many entries
repeat it; a file counts as changed only if the call that changes it ended well; memory is bounded
by the calls and files of the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from operator import add, sub
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import asdict, astuple

from sessiontree.core.activity import (
    SYNTHETIC,
    ended_calls,
    error_of,
    files_of,
    gist_of,
    is_interruption,
    is_note_of_program,
    is_output,
    results_of,
)
from sessiontree.core.blocks import is_handle_of_message, role_of_entry
from sessiontree.core.display import mask_then_cut, one_line
from sessiontree.core.entry import CONTENT, PIECES, SUMMARIES, Entry, missing_parent, moment_of
from sessiontree.core.message import Message, calls_of, message_in, result_ids, role_of, text_of
from sessiontree.core.questions import Question, answers_in, questions_of
from sessiontree.core.usage import ANSWERS, Usage, advice_in, counts_instead, usage_of
from sessiontree.text.preview import preview
from sessiontree.views.messages import failure_of, is_typed

Ending = Literal[
    "answered", "interrupted", "no output", "no answer", "broke off", "failed", "silent"
]
"""How the entries of a turn end: `silent` is one without a word of the agent."""

Outcome = Literal[
    "answered",
    "steered",
    "interrupted",
    "given up",
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


class TurnEnd(msgspec.Struct, frozen=True):
    """What the entries of a turn tell of its end, and of its start."""

    ending: Ending  # how its entries end
    prompt: str | None  # the prompt, or None
    reached_model: bool  # whether the model wrote anything
    started: str | None  # the first timestamp as stored
    ended: str | None  # the last timestamp as stored


def outcome_of(turn: TurnEnd, following: TurnEnd | None) -> Outcome | None:
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
            return "no answer" if is_due and not waited else None
        case "no output":
            return "no answer"
        case ending:
            return ending


def _is_command(turn: TurnEnd) -> bool:
    """Whether the prompt is a command, which the program itself may have done: /model, ! ls."""
    return turn.prompt is not None and turn.prompt.startswith(("/", "! "))


def _is_within(turn: TurnEnd, following: TurnEnd | None, most: timedelta) -> bool:
    if following is None:
        return False
    ended, started = moment_of(turn.ended), moment_of(following.started)
    return ended is None or started is None or started - ended <= most


TEXT: Final = 500
"""Characters of a prompt, an answer or an event that an outline keeps."""

_END: Final = 160
"""Characters of the end of a longer text that an outline keeps."""

_BRIEF: Final = 160
"""Characters of a text that says little after a longer one."""

_SUBSTANTIAL: Final = 300
"""Characters of a text that is more than a remark."""

_FEW_CALLS: Final = 3

_CALLS_TO_LOOK: Final = 1
"""Calls by which a model looks at what a note of a program is about, and does no work."""


_NOTHING: Final = Usage()


class Work(msgspec.Struct, frozen=True):
    """What was done in a part of a session."""

    calls: dict[str, int]  # the number of tool calls by the tool's name, the most used first
    failed: int  # the number of calls whose results are errors
    refused: int  # the number of calls that the user did not allow
    unanswered: int  # the number of calls without a result
    files: tuple[str, ...]  # the files that calls read or change, in order
    # those that calls changed: a call without a result, or with an error, changed none
    changed: tuple[str, ...]
    interruptions: int  # how often the user interrupted the agent, or an answer broke off
    stopped: int  # how often nothing of the agent followed such an interruption in its turn
    usage: Usage  # the tokens and the reported cost
    models: tuple[str, ...]  # the models that answered, the most used first
    started: str | None  # the first timestamp as stored; None if there is none
    ended: str | None  # the last timestamp as stored; None if there is none

    @property
    def tokens(self) -> int:
        """The tokens read and written, without those read from a cache."""
        return self.usage.input + self.usage.output + self.usage.cache_write

    @property
    def seconds(self) -> float | None:
        """The time from the first entry to the last; None where it is not known."""
        if self.started is None:
            return None
        first, last = moment_of(self.started), moment_of(self.ended)
        if first is None or last is None:
            return None
        return max(0.0, (last - first).total_seconds())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints."""
        return {**asdict(self), "usage": self.usage.as_dict(), "seconds": self.seconds}


class TurnEvent(msgspec.Struct, frozen=True):
    """Something in a turn that is not a message of the conversation."""

    # `compaction`, `summary` (of a branch that was left), `merge`, `error` (an answer that failed),
    # `interruption`, `reply` (of the user, to a question of a tool) or `gap` (the entry before is
    # missing)
    kind: str
    uuid: str  # the uuid of its entry
    text: str  # its text on one line, at most 500 characters
    tokens: int | None = None  # the tokens before a compaction, else None
    question: str | None = None  # the question that a reply is to, on one line; else None


def _chosen(choose: Callable[[Any], Any], *times: str | None) -> str | None:
    """The first or the last of some times as stored; None where none is a time."""
    moments = [(moment_of(time), time) for time in times]
    known = [(moment, time) for moment, time in moments if moment is not None]
    chosen: str | None = choose(known)[1] if known else None
    return chosen


def total(parts: Iterable[Work]) -> Work:
    """The work of several parts together."""
    whole = WorkTally()
    for part in parts:
        whole.include(part)
    return whole.work()


class AnswerUsageDedup:
    """Counts the usage of each answer once, however many entries repeat it."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[WorkTally, Usage]] = {}

    def count(self, tally: WorkTally, entry: Entry) -> None:
        """Add what an entry used: the rule is that of `core.usage.spent_by`, without its times."""
        keys = entry.as_stored
        fields = entry.message_as_stored if entry.type == "message" else keys
        if not isinstance(fields, Mapping) or not isinstance(fields.get("usage"), Mapping):
            return
        reported, answer = fields["usage"], fields.get(ANSWERS.get(entry.type, ""))
        self._add(tally, answer, usage_of(reported))
        for advice in advice_in(reported, answer):
            self._add(tally, advice.name, usage_of(advice.reported))

    def _add(self, tally: WorkTally, answer: Any, usage: Usage) -> None:
        if isinstance(answer, str) and answer:
            before = self._counted.get(answer)
            if before is not None:
                if before[1] == usage or not counts_instead(usage, before[1]):
                    return
                before[0].spend(before[1], sub)
            self._counted[answer] = tally, usage
        tally.spend(usage)


def ends_of(text: str) -> str:
    """A text; of a long one its start and its end, where the request or a question stands."""
    if len(text) <= TEXT:
        return text
    begins = mask_then_cut(text, 0, TEXT)
    end = mask_then_cut(text, len(text) - _END, len(text))[-_END:]
    end = end[end.find(" ", 0, _END // 4) + 1 :].lstrip()
    return f"{begins[: TEXT - len(end) - 3].rstrip()} … {end}"


class _Said:
    """Which text of a turn says what came out of it."""

    __slots__ = ("_calls", "_calls_of_note", "_last", "_long", "_to_note")

    def __init__(self) -> None:
        self._last = self._long = self._to_note = ""
        self._calls = 0  # since the long one
        self._calls_of_note: int | None = None  # since a note, if the model answers one

    def ask(self, *, is_note: bool) -> None:
        """The model gets a message of the user, or a note of a program."""
        self._calls_of_note = 0 if is_note else None

    def take(self, text: str) -> None:
        """The model writes a text."""
        if not text:
            return
        if self._calls_of_note is not None and self._calls_of_note <= _CALLS_TO_LOOK:
            self._to_note = ends_of(text)
            return
        self._last = ends_of(text)
        if len(text) >= _SUBSTANTIAL:
            self._long, self._calls = self._last, 0

    def call(self, count: int) -> None:
        """The model calls tools."""
        self._calls += count
        if self._calls_of_note is not None:
            self._calls_of_note += count

    def best(self) -> str:
        is_remark = len(self._last) < _BRIEF and self._calls <= _FEW_CALLS
        return (self._long if is_remark else "") or self._last or self._to_note


class WorkTally:
    """Counts what entries did."""

    __slots__ = (
        *(
            "_asked",
            "_calls",
            "_changes",
            "_failed",
            "_files",
            "_has_output",
            "_is_failed",
            "_is_stopped",
        ),
        *("_models", "_open", "_owes", "_refused", "_said", "_stopped", "_streams"),
        *("_unanswered", "_usage"),
        *("ended", "interruptions", "is_compacted", "reached_model", "started"),
    )

    counts: ClassVar[bool] = True

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._failed = self._refused = self._unanswered = self.interruptions = 0
        self._files: dict[str, bool] = {}  # whether it was changed, by path
        self._changes: dict[str, list[str]] = {}  # what a call changes if it is done, by its id
        self._asked: dict[str, list[Question]] = {}  # what a call asks the user, by its id
        self._usage = _NOTHING
        self._models: Counter[str] = Counter()
        self._open: set[str] = set()  # the ids of calls without a result
        self._streams = False  # whether the message that is being written has no end yet
        self._said = _Said()
        self._stopped = 0
        self._is_stopped = False  # whether nothing of the agent followed the last interruption
        self._is_failed = False  # whether the last answer failed
        self._has_output = False  # whether the agent wrote more than thoughts
        self._owes = False  # whether the agent wrote nothing since its last call or the result
        self.reached_model = False  # whether the model wrote anything, also an answer that failed
        self.is_compacted = False  # whether nothing of the agent followed the last compaction
        self.started: str | None = None
        self.ended: str | None = None

    def include(self, work: Work) -> None:
        """Add the work of another part."""
        if work.calls:
            self._calls.update(work.calls)
        self._failed += work.failed
        self._refused += work.refused
        self._unanswered += work.unanswered
        self.interruptions += work.interruptions
        self._stopped += work.stopped
        for path in work.files:
            self._files.setdefault(path, False)
        if work.changed:
            self._files.update(dict.fromkeys(work.changed, True))
        self.spend(work.usage)
        if work.models:
            self._models.update(work.models)
        if work.started is not None:
            self.started = _chosen(min, self.started, work.started)
        if work.ended is not None:
            self.ended = _chosen(max, self.ended, work.ended)

    def spend(self, usage: Usage, how: Any = add) -> None:
        if usage is not _NOTHING and any(astuple(usage)):
            self._usage = Usage(*map(how, astuple(self._usage), astuple(usage)))

    def take(self, entry: Entry, answers: AnswerUsageDedup) -> list[TurnEvent]:
        """Count an entry; the events that it is."""
        events = self._taken(entry, answers)
        if missing_parent(entry) is not None:
            events.insert(0, TurnEvent("gap", entry.uuid, ""))
        return events

    def _taken(self, entry: Entry, answers: AnswerUsageDedup) -> list[TurnEvent]:
        if entry.type == "usage":
            if entry.get("kind") in ("response", "turn"):  # whose answer may name no model
                self._note_model(entry.get("model"))
            answers.count(self, entry)
            return []
        if entry.type not in CONTENT:
            if is_typed(entry):
                self._note_time(entry)
            elif (cause := failure_of(entry)) is not None:
                self._note_time(entry)
                return [self._fail(entry, cause)]
            return []
        if entry.type == "compaction" or entry.type in SUMMARIES:
            answers.count(self, entry)
        if entry.type in ("compaction", "merge") or entry.type in SUMMARIES:
            self.is_compacted = entry.type == "compaction"
            return [_event(entry)]
        self._note_time(entry)
        return self._take_message(entry, answers)

    def _note_time(self, entry: Entry) -> None:
        if entry.timestamp is not None:
            self.started = self.started or entry.timestamp
            self.ended = entry.timestamp

    def _take_message(self, entry: Entry, answers: AnswerUsageDedup) -> list[TurnEvent]:
        fields = entry.message_as_stored if entry.type == "message" else None
        fields = fields if isinstance(fields, dict) else None
        if fields is None:
            fields = message_of(entry, entry.as_stored)
        if fields is None:
            return []
        if entry.type in PIECES:
            self._streams = entry.type == "block"
        calls = calls_of(fields)
        for call in calls:
            if call.id in self._open:  # a block written again
                continue
            self._calls[one_line(call.name, 60) or "?"] += 1
            self._open.add(call.id)
            for path, changes in files_of(call):
                self._files.setdefault(path, False)
                if changes:
                    self._changes.setdefault(call.id, []).append(path)
            if asked := questions_of(call):
                self._asked[call.id] = asked
        results = result_ids(fields)
        replies: list[TurnEvent] = []
        if results:
            self._open.difference_update(results)
            self._take_ended(fields)
            replies = self._replies(entry, fields) if self._asked else []
        self._owes = self._owes or bool(calls or results)
        is_model = entry.type in PIECES or role_of(fields) == "assistant"
        if is_model and not results:
            self._take_output(entry, fields, is_call=bool(calls))
            self._take_answer(entry, fields, answers)
        elif not results:
            self._said.ask(is_note=is_note_of_program(fields))
        self._said.call(len(calls))
        return [*replies, *self._disturbed(entry, fields)]

    def _replies(self, entry: Entry, fields: Message) -> list[TurnEvent]:
        ended = dict(ended_calls(fields))
        return [
            TurnEvent("reply", entry.uuid, one_line(answer, TEXT), None, one_line(question, TEXT))
            for id, text in results_of(fields)
            if ended.get(id) == "done"
            for question, answer in answers_in(text, self._asked.pop(id, ()))
        ]

    def _take_ended(self, fields: Message) -> None:
        for call, ending in ended_calls(fields):
            self._failed += ending == "failed"
            self._refused += ending == "refused"
            if ending == "done":
                self._files.update(dict.fromkeys(self._changes.pop(call, ()), True))

    def _take_output(self, entry: Entry, fields: Message, *, is_call: bool) -> None:
        if fields.get("model") == SYNTHETIC:
            return
        self._is_stopped = self._is_failed = self.is_compacted = False
        self.reached_model = True
        if entry.type == "handle" or is_output(fields):
            self._has_output = True
            self._owes = is_call

    def _take_answer(self, entry: Entry, fields: Message, answers: AnswerUsageDedup) -> None:
        if fields.get("model") != SYNTHETIC:
            self._said.take(text_of(fields).strip())
        self._note_model(fields.get("model"))
        answers.count(self, entry)

    def _note_model(self, model: Any) -> None:
        if isinstance(model, str) and model and model != SYNTHETIC:
            self._models[one_line(model, 100)] += 1

    def _disturbed(self, entry: Entry, fields: Message) -> list[TurnEvent]:
        if (cause := error_of(fields)) is not None:
            return [self._fail(entry, cause)]
        if is_interruption(fields):
            self.interruptions += 1
            self._is_stopped = True
            return [TurnEvent("interruption", entry.uuid, preview(entry, None, TEXT))]
        return []

    def _fail(self, entry: Entry, cause: str) -> TurnEvent:
        self._is_failed = self.reached_model = True
        return TurnEvent("error", entry.uuid, one_line(cause, TEXT))

    @property
    def answer(self) -> str:
        """The last text of substance; empty without a text."""
        return self._said.best()

    @property
    def ending(self) -> Ending:
        """How the entries end, without what follows them."""
        if self._streams and not self.interruptions:
            return "broke off"
        if self._is_stopped:
            return "interrupted" if self._has_output else "no output"
        if self._is_failed:
            return "failed"
        if self._owes:
            return "no answer"
        return "answered" if self._has_output else "silent"

    def work(self) -> Work:
        broke_off = self._streams and not self.interruptions
        return Work(
            calls=dict(self._calls.most_common()) if self._calls else {},
            failed=self._failed,
            refused=self._refused,
            unanswered=self._unanswered + len(self._open),
            files=tuple(self._files),
            changed=tuple(path for path, changed in self._files.items() if changed),
            interruptions=self.interruptions + broke_off,
            stopped=self._stopped + (self._is_stopped or broke_off),
            usage=self._usage,
            models=tuple(name for name, _ in self._models.most_common()) if self._models else (),
            started=self.started,
            ended=self.ended,
        )


class NullTally(WorkTally):
    """A tally for one who asks only where turns begin: it counts nothing."""

    __slots__ = ()
    counts = False

    def __init__(self) -> None:
        """Leave all sums unset: nobody asks for them."""

    def take(self, entry: Entry, answers: AnswerUsageDedup) -> list[TurnEvent]:
        return []


def _event(entry: Entry) -> TurnEvent:
    kind = "summary" if entry.type in SUMMARIES else entry.type
    tokens = entry.as_stored.get("tokensBefore") if kind == "compaction" else None
    before = tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None
    summary = entry.as_stored.get("summary") if kind == "compaction" else None
    gist = gist_of(summary) if isinstance(summary, str) and not entry.has_spilled else ""
    return TurnEvent(kind, entry.uuid, one_line(gist, TEXT) or preview(entry, None, TEXT), before)


class Statement(NamedTuple):
    """What one entry tells of the work."""

    tools: list[str]
    usage: Usage | None
    model: str | None


def told_by(entry: Entry) -> Statement:
    """Return what an entry itself records of the work."""
    keys = entry.as_stored
    fields = message_of(entry, keys)
    if not fields:
        usage = keys.get("usage")
        return Statement([], usage_of(usage) if isinstance(usage, dict) else None, None)
    tools = [one_line(call.name, 60) for call in calls_of(fields)]
    if isinstance(answered := fields.get("toolName"), str):
        tools.append(one_line(answered, 60))
    usage, model = fields.get("usage", keys.get("usage")), fields.get("model")
    return Statement(
        tools,
        usage_of(usage) if isinstance(usage, dict) else None,
        one_line(model, 100) if isinstance(model, str) and model else None,
    )


def message_of(entry: Entry, keys: Mapping[str, Any]) -> Message | None:
    """The message in the keys of an entry; of a handle or a piece, as much of one as is there.

    A handle is not resolved: where it has a role, its preview or its text is the content.
    """
    if entry.type == "message_end":
        return keys
    if entry.type == "usage":
        return {"model": keys.get("model")}
    if is_handle_of_message(entry) and (role := role_of_entry(entry)) is not None:
        return {"role": role, "content": preview(entry, width=TEXT)}
    if entry.type == "handle":
        return {"role": keys.get("role")}
    return message_in(keys)
