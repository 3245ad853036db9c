"""The turns of a session: what the user asked, and what was done, on all branches.

A turn is a prompt and all that follows it, up to the next prompt. The first thing done below an
entry goes on with its turn. Another try below the same entry, without a prompt of its own, is a
further part of the turn. What a subagent did is on turns of its own, below the call that started
it. Views for people (`tree`, `diff`) and programs build on this structure.

Invariants: the file is read once, line by line; memory is bounded by the index and the turns;
nothing recurses; turns have the order of the file, so that a number keeps its turn while the file
grows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from operator import add, sub
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from sessiontree.core.activity import (
    as_typed,
    error_of,
    files_of,
    gist_of,
    is_interruption,
    is_note_of_program,
    outcomes_of,
)
from sessiontree.core.display import one_line
from sessiontree.core.entry import CONTENT, PIECES, SUMMARIES, Entry
from sessiontree.core.index import NO_ROW, Branching, TreeIndex
from sessiontree.core.message import (
    Message,
    calls_of,
    is_typed_command,
    message_in,
    result_ids,
    text_of,
)
from sessiontree.core.usage import Usage, usage_of
from sessiontree.engine.collector import gc_paused
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import RefError
from sessiontree.operations.messages import (
    begins_turn_with,
    is_typed,
    may_be_prompt,
    typed_in,
    with_messages,
)
from sessiontree.operations.outline import (
    Outline,
    agent_of,
    begins_subagent,
    entries_by_row,
    is_named_by_agent,
    path_rows,
)
from sessiontree.text.preview import is_unclear, preview

TEXT: Final = 500
"""Characters of a prompt, an answer or an event that an outline keeps."""

_MOST_NAMES: Final = 8
_SIDE_AGENTS: Final = ("agent-acompact", "agent-aside_question", "agent-aprompt_suggestion")
"""The starts of lanes of agents that Claude Code starts by itself."""


class Work(msgspec.Struct, frozen=True):
    """What was done in a part of a session.

    Attributes:
        calls: the number of tool calls by the tool's name, the most used first.
        failed: the number of calls whose results are errors.
        refused: the number of calls that the user did not allow.
        unanswered: the number of calls without a result.
        files: the files that calls read or change, in order.
        changed: those that calls changed: a call without a result, or with an error, changed none.
        interruptions: how often the user interrupted the agent, or an answer broke off.
        stopped: how often nothing of the agent followed such an interruption in its turn.
        usage: the tokens and the reported cost.
        models: the models that answered, the most used first.
        started, ended: the first and the last timestamp as stored; None if there is none.
    """

    calls: dict[str, int]
    failed: int
    refused: int
    unanswered: int
    files: tuple[str, ...]
    changed: tuple[str, ...]
    interruptions: int
    stopped: int
    usage: Usage
    models: tuple[str, ...]
    started: str | None
    ended: str | None

    @property
    def tokens(self) -> int:
        """The tokens read and written, without those read from a cache."""
        return self.usage.input + self.usage.output + self.usage.cache_write

    @property
    def seconds(self) -> float | None:
        """The time from the first entry to the last; None where it is not known."""
        first, last = moment_of(self.started), moment_of(self.ended)
        if first is None or last is None:
            return None
        return max(0.0, (last - first).total_seconds())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints."""
        return {
            "calls": self.calls,
            "failed": self.failed,
            "refused": self.refused,
            "unanswered": self.unanswered,
            "files": self.files,
            "changed": self.changed,
            "interruptions": self.interruptions,
            "stopped": self.stopped,
            "usage": self.usage.as_dict(),
            "models": self.models,
            "started": self.started,
            "ended": self.ended,
            "seconds": self.seconds,
        }


class TurnEvent(msgspec.Struct, frozen=True):
    """Something in a turn that is not a message of the conversation.

    Attributes:
        kind: `compaction`, `summary` (of a branch that was left), `merge`, `error` (an answer that
            failed) or `interruption`.
        uuid: the uuid of its entry.
        text: its text on one line, at most 500 characters.
        tokens: the tokens before a compaction, else None.
    """

    kind: str
    uuid: str
    text: str
    tokens: int | None = None


class Subagent(msgspec.Struct, frozen=True):
    """A subagent that a turn started.

    Attributes:
        lane: the lane with its entries.
        name: the agent's type or name as the program gives it, or the lane's name.
        task: what it was asked.
        caller: the uuid of the entry with the call that started it; None if it is not known.
        missing: whether the session names it, but has nothing of what it did.
        own: whether the program started it for itself, for example to compact the conversation.
        turns: the places of its turns in `SessionOutline.turns`.
        work: what it did.
    """

    lane: str
    name: str
    task: str
    caller: str | None
    own: bool
    turns: tuple[int, ...]
    work: Work
    missing: bool = False


class Turn(msgspec.Struct, frozen=True):
    """A turn, or a further part of one.

    Attributes:
        number: the number of the turn, counted over all branches in file order from 1; 0 for what
            is above the first prompt. In a subagent, the number of the turn that started it.
        part: 0, or for a further try from the same entry 1, 2 and so on.
        uuid: the uuid of its first entry.
        leaf: the uuid of its last entry with content.
        prompt: the text of the prompt on one line, at most 500 characters; None without a prompt.
        answer: the start of the last text of substance that the model wrote; empty if it wrote
            none. What it says to a note of a program, or in a few words after a longer text, is of
            none where there is a better one.
        above: the place in `SessionOutline.turns` of the turn above; None at the top.
        fork: the uuid of the entry that it begins below; None at the top.
        leaves: whether the turn above goes on without it: it begins in the middle of that turn.
        lane: the lane; None for main.
        subagent: whether a subagent did this.
        current: whether it is on the path to the session's leaf.
        names: the branch names that begin here.
        labels: the uuids of labelled entries with their labels.
        events: compactions, summaries, merges, errors and interruptions, in order.
        subagents: the subagents that were started here.
        work: what was done, without the work of subagents.
    """

    number: int
    part: int
    uuid: str
    leaf: str
    prompt: str | None
    answer: str
    above: int | None
    fork: str | None
    leaves: bool
    lane: str | None
    subagent: bool
    current: bool
    names: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    events: tuple[TurnEvent, ...]
    subagents: tuple[Subagent, ...]
    work: Work

    @property
    def name(self) -> str:
        """The number with the part, such as `3` or `3.1`."""
        return f"{self.number}.{self.part}" if self.part else str(self.number)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `diff --json` prints for a turn."""
        return {
            "turn": self.number,
            "part": self.part,
            "uuid": self.uuid,
            "leaf": self.leaf,
            "prompt": self.prompt,
            "answer": self.answer,
            **self.work.as_dict(),
        }


class SessionOutline(msgspec.Struct, frozen=True):
    """The turns of a session.

    Attributes:
        id, name, cwd: the session's id, name and working directory, as far as it has them.
        agent: the program that wrote the session, such as `claude-code`; None for sessiontree.
        turns: all turns in file order, those of subagents included.
        here: the place in `turns` where the session's leaf is; None above all turns.
        leaf: the uuid of the last entry with content on the current path; None without one.
        work: what was done on all branches, with subagents.
    """

    id: str
    name: str | None
    cwd: str | None
    agent: str | None
    turns: tuple[Turn, ...]
    here: int | None
    leaf: str | None
    work: Work

    def numbered(self, number: str) -> Turn:
        """The turn with a number, such as `3` or `3.1`; not a turn of a subagent.

        Raises:
            RefError: there is none.
        """
        for turn in self.turns:
            if not turn.subagent and turn.name == number.removesuffix(".0"):
                return turn
        last = max((turn.number for turn in self.turns), default=0)
        has = f"its turns are 1 to {last}" if last else "it has no turns"
        raise RefError(f"there is no turn {number}: {has}", number)

    def below(self) -> dict[int | None, list[int]]:
        """The places of the turns below each turn, in file order; without those of subagents."""
        found: dict[int | None, list[int]] = {}
        for place, turn in enumerate(self.turns):
            if not turn.subagent:
                found.setdefault(turn.above, []).append(place)
        return found


def outline(cursor: Cursor) -> SessionOutline:
    """Read the whole session; see `Session.outline`."""
    with cursor.alone(), gc_paused():
        drawn = Outline.of(cursor)
        turning = Turning(drawn)
        for _ in _taken(turning, drawn, cursor):
            pass
        return turning.outline()


def numbers_of(cursor: Cursor) -> dict[str, int]:
    """The number of the turn of each entry, by its uuid, without what subagents did."""
    with cursor.alone():
        drawn = Outline.of(cursor)
        turning = Turning(drawn)
        rows = ((uuid, turning.number_of(row)) for row, uuid in _taken(turning, drawn, cursor))
        return {uuid: number for uuid, number in rows if number}


def _taken(turning: Turning, drawn: Outline, cursor: Cursor) -> Iterator[tuple[int, str]]:
    """The row and the uuid of each entry, as the turning takes it."""
    rows: deque[int] = deque()
    entries = _entries_in_order(drawn, rows)
    for entry, message in with_messages(entries, cursor.messages, is_wanted=is_of_turn):
        row = rows.popleft()
        turning.take(row, entry, message)
        yield row, entry.uuid


def entries_of(cursor: Cursor, turn: Turn) -> list[Entry]:
    """The entries of a turn, from its first to its last, annotations between them included."""
    with cursor.alone():
        found: list[Entry] = []
        for entry in cursor.up(cursor.entry(turn.leaf)):
            found.append(entry)
            if entry.uuid == turn.uuid:
                break
        found.reverse()
        return found


def work_of(entries: Iterable[tuple[Entry, Message | None]]) -> Work:
    """What some entries of one path did; each with the message that it is a handle of."""
    tally, answers = Tally(), Answers()
    for entry, message in entries:
        tally.take(entry, message, answers)
    return tally.work()


def total(parts: Iterable[Work]) -> Work:
    """The work of several parts together."""
    whole = Tally()
    for part in parts:
        whole.include(part)
    return whole.work()


def moment_of(timestamp: str | None) -> datetime | None:
    """A stored time; None if it is not a time."""
    try:
        moment = datetime.fromisoformat(timestamp or "")
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


class Answers:
    """Counts the usage of each answer once, however many entries repeat it; the last counts."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[Tally, Usage]] = {}

    def count(self, tally: Tally, id: Any, usage: Usage) -> None:
        if isinstance(id, str) and id:
            before = self._counted.get(id)
            if before is not None:
                if before[1] == usage:
                    return
                before[0].spend(before[1], sub)
            self._counted[id] = tally, usage
        tally.spend(usage)


_BRIEF: Final = 160
"""Characters of a text that says little after a longer one."""

_SUBSTANTIAL: Final = 300
"""Characters of a text that is more than a remark."""

_FEW_CALLS: Final = 3


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
        if self._calls_of_note is not None and self._calls_of_note <= _FEW_CALLS:
            self._to_note = text[:TEXT]
            return
        self._last = text[:TEXT]
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


class Tally:
    """Counts what entries did."""

    __slots__ = (
        *("_calls", "_changes", "_failed", "_files", "_is_stopped", "_models", "_open"),
        *("_refused", "_said", "_stopped", "_streams", "_unanswered", "_usage"),
        *("ended", "interruptions", "is_compacted", "started"),
    )

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._failed = self._refused = self._unanswered = self.interruptions = 0
        self._files: dict[str, bool] = {}  # whether it was changed, by path
        self._changes: dict[str, list[str]] = {}  # what a call changes if it is done, by its id
        self._usage = Usage()
        self._models: Counter[str] = Counter()
        self._open: set[str] = set()  # the ids of calls without a result
        self._streams = False  # whether the message that is being written has no end yet
        self._said = _Said()
        self._stopped = 0
        self._is_stopped = False  # whether nothing of the agent followed the last interruption
        self.is_compacted = False  # whether nothing of the agent followed the last compaction
        self.started: str | None = None
        self.ended: str | None = None

    def include(self, work: Work) -> None:
        """Add the work of another part."""
        self._calls.update(work.calls)
        self._failed += work.failed
        self._refused += work.refused
        self._unanswered += work.unanswered
        self.interruptions += work.interruptions
        self._stopped += work.stopped
        for path in work.files:
            self._files.setdefault(path, False)
        self._files.update(dict.fromkeys(work.changed, True))
        self.spend(work.usage)
        self._models.update(work.models)
        times = [(moment_of(time), time) for time in (self.started, work.started)]
        known = [(moment, time) for moment, time in times if moment is not None]
        self.started = min(known)[1] if known else None
        times = [(moment_of(time), time) for time in (self.ended, work.ended)]
        known = [(moment, time) for moment, time in times if moment is not None]
        self.ended = max(known)[1] if known else None

    def spend(self, usage: Usage, how: Any = add) -> None:
        if any(astuple(usage)):
            self._usage = Usage(*map(how, astuple(self._usage), astuple(usage)))

    def take(self, entry: Entry, message: Message | None, answers: Answers) -> list[TurnEvent]:
        """Count an entry; the events that it is."""
        if entry.type == "usage":
            answers.count(self, None, usage_of(entry.as_stored.get("usage")))
            return []
        if entry.type not in CONTENT:
            if is_typed(entry):
                self._note_time(entry)
            return []
        if entry.type == "compaction" or entry.type in SUMMARIES:
            answers.count(self, None, usage_of(entry.as_stored.get("usage")))
        if entry.type in ("compaction", "merge") or entry.type in SUMMARIES:
            self.is_compacted = entry.type == "compaction"
            return [_event(entry)]
        self._note_time(entry)
        return self._take_message(entry, message, answers)

    def _note_time(self, entry: Entry) -> None:
        if entry.timestamp is not None:
            self.started = self.started or entry.timestamp
            self.ended = entry.timestamp

    def _take_message(
        self, entry: Entry, message: Message | None, answers: Answers
    ) -> list[TurnEvent]:
        keys = entry.as_stored
        fields = message if message is not None else _message_of(entry, keys)
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
        results = result_ids(fields)
        if results:
            self._open.difference_update(results)
            self._take_outcomes(fields)
        is_model = entry.type in PIECES or fields.get("role") == "assistant"
        if is_model and not results:
            self._is_stopped = self.is_compacted = False
            self._take_answer(entry, keys, fields, answers)
        elif not results:
            self._said.ask(is_note=is_note_of_program(fields))
        self._said.call(len(calls))
        return self._disturbed(entry, fields)

    def _take_outcomes(self, fields: Message) -> None:
        for call, outcome in outcomes_of(fields):
            self._failed += outcome == "failed"
            self._refused += outcome == "refused"
            if outcome == "done":
                self._files.update(dict.fromkeys(self._changes.pop(call, ()), True))

    def _take_answer(
        self, entry: Entry, keys: Mapping[str, Any], fields: Message, answers: Answers
    ) -> None:
        if fields.get("model") != "<synthetic>":
            self._said.take(text_of(fields).strip())
        model = fields.get("model")
        if isinstance(model, str) and model and model != "<synthetic>":
            self._models[one_line(model, 100)] += 1
        usage = fields.get("usage", keys.get("usage"))
        if isinstance(usage, dict):
            id = keys.get("messageUuid") if entry.type == "message_end" else fields.get("id")
            answers.count(self, id, usage_of(usage))

    def _disturbed(self, entry: Entry, fields: Message) -> list[TurnEvent]:
        if (cause := error_of(fields)) is not None:
            return [TurnEvent("error", entry.uuid, one_line(cause, TEXT))]
        if is_interruption(fields):
            self.interruptions += 1
            self._is_stopped = True
            return [TurnEvent("interruption", entry.uuid, preview(entry, None, TEXT))]
        return []

    @property
    def answer(self) -> str:
        """The last text of substance; empty without a text."""
        return self._said.best()

    def work(self) -> Work:
        broke_off = self._streams and not self.interruptions
        return Work(
            calls=dict(self._calls.most_common()),
            failed=self._failed,
            refused=self._refused,
            unanswered=self._unanswered + len(self._open),
            files=tuple(self._files),
            changed=tuple(path for path, changed in self._files.items() if changed),
            interruptions=self.interruptions + broke_off,
            stopped=self._stopped + (self._is_stopped or broke_off),
            usage=self._usage,
            models=tuple(name for name, _ in self._models.most_common()),
            started=self.started,
            ended=self.ended,
        )


class Told(NamedTuple):
    """What one entry tells of the work."""

    tools: list[str]
    usage: Usage | None
    model: str | None


def told_by(entry: Entry, message: Message | None) -> Told:
    """What an entry tells; `message` is what a handle resolves to."""
    keys = entry.as_stored
    fields = (message if message is not None else _message_of(entry, keys)) or {}
    tools = [one_line(call.name, 60) for call in calls_of(fields)]
    if isinstance(answered := fields.get("toolName"), str):
        tools.append(one_line(answered, 60))
    usage, model = fields.get("usage", keys.get("usage")), fields.get("model")
    return Told(
        tools,
        usage_of(usage) if isinstance(usage, dict) else None,
        one_line(model, 100) if isinstance(model, str) and model else None,
    )


def _message_of(entry: Entry, keys: Mapping[str, Any]) -> Message | None:
    if entry.type == "message_end":
        return keys
    if entry.type == "usage":
        return {"model": keys.get("model")}
    if entry.type == "handle":
        return {"role": keys.get("role")}
    return message_in(keys)


def _event(entry: Entry) -> TurnEvent:
    kind = "summary" if entry.type in SUMMARIES else entry.type
    tokens = entry.as_stored.get("tokensBefore") if kind == "compaction" else None
    before = tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None
    summary = entry.as_stored.get("summary") if kind == "compaction" else None
    gist = gist_of(summary) if isinstance(summary, str) and not entry.has_spilled else ""
    return TurnEvent(kind, entry.uuid, one_line(gist, TEXT) or preview(entry, None, TEXT), before)


class _Node:
    """A turn, or a part of one, while it is read."""

    __slots__ = (
        *("above", "events", "first", "fork", "labels", "lane", "last", "names", "number", "part"),
        *("prompt", "subagent", "subagents", "tally"),
    )

    def __init__(self, first: int, above: int, fork: int, lane: str | None) -> None:
        self.first = self.last = first
        self.above = above
        self.fork = fork
        self.lane = lane
        self.number = self.part = 0
        self.subagent = False
        self.prompt: str | None = None
        self.names: tuple[str, ...] = ()
        self.labels: list[tuple[str, str]] = []
        self.events: list[TurnEvent] = []
        self.subagents: list[Subagent] = []
        self.tally = Tally()


class _Agent:
    """The lane of a subagent, while it is read."""

    __slots__ = ("caller", "name", "nodes", "seen", "task")

    def __init__(self, data: Mapping[str, Any], seen: int) -> None:
        self.caller = _text(data.get("calledBy"))
        self.name = _text(data.get("agentType")) or _text(data.get("name"))
        self.task = _text(data.get("description"))
        self.seen = seen  # the row of the main agent before its first one
        self.nodes: list[int] = []


def _text(value: Any) -> str | None:
    return one_line(value, TEXT) if isinstance(value, str) and value else None


class Turning:
    """Finds the turn of each entry; takes the entries of a session, parents first."""

    def __init__(self, drawn: Outline) -> None:
        self._outline = drawn
        tree = self._tree = drawn.tree
        self._branching = Branching(tree)
        self._anchors = array("i", [NO_ROW]) * len(tree)  # the content row at or above each row
        self._node_of = array("i", [NO_ROW]) * len(tree)
        self._goes_on = bytearray(len(tree))  # whether something goes on with the turn of a row
        self._nodes: list[_Node] = []
        self._names = self._branch_names()
        self.agent = agent_of(drawn.entry(0))
        self._agents: dict[str, _Agent | None] = {}  # by lane; None for a lane of the user's
        # Of a branch that was left, by row: they stand with what follows them.
        self._summaries: dict[int, list[TurnEvent]] = {}
        self._tasks: dict[str, tuple[str | None, str | None]] = {}  # by the uuid of the call
        self._called: dict[str, str] = {}  # that uuid by the id of the call
        self._copied: dict[int, str] = {}  # by row: the time of the entries that repeat others
        self._last_of_main = NO_ROW
        self._numbers = 0
        self._parts: Counter[int] = Counter()
        self._answers = Answers()

    def _branch_names(self) -> dict[int, tuple[str, ...]]:
        rows = self._outline.names.branch_rows(self._tree)
        return {row: (name,) for name, found in rows.items() for row in found}

    def take(self, row: int, entry: Entry, message: Message | None) -> bool:
        """Take the next entry; whether it is a prompt."""
        parent = self._tree.parents[row]
        lane = self._branching.lane_of(row)
        if entry.lane is not None and entry.lane not in self._agents:
            self._agents[entry.lane] = self._started(entry)
        anchor = self._anchors[parent] if parent != NO_ROW else NO_ROW
        if entry.type not in CONTENT and not is_typed(entry):
            self._anchors[row] = anchor
            node = self._node_of[row] = self._node_of[parent] if parent != NO_ROW else NO_ROW
            is_named = parent != anchor or anchor in self._summaries
            above = self._names.get(parent, ()) if is_named else ()
            if names := (*above, *self._names.get(row, ())):
                self._names[row] = names[:_MOST_NAMES]
            if node != NO_ROW:
                self._nodes[node].tally.take(entry, message, self._answers)
            self._note_edit(parent, entry)
            return False
        self._anchors[row] = row
        is_copy = self._is_copy(row, anchor, entry)
        asked = not is_copy and begins_turn_with(entry, message)
        is_named = parent != anchor or anchor in self._summaries
        names = self._names.get(parent, ()) if is_named else ()
        if asked or not self._continues(anchor, lane):
            node = self._begin(row, anchor, lane, entry, message, asked=asked)
        else:
            node = self._node_of[anchor]
            self._goes_on[anchor] = 1
        self._node_of[row] = node
        found = self._nodes[node]
        found.last = row
        if names and entry.type not in SUMMARIES:
            found.names = (*found.names, *names)[:_MOST_NAMES]
        before = self._summaries.pop(anchor, [])
        events = [] if is_copy else found.tally.take(entry, message, self._answers)
        if entry.type in SUMMARIES:
            self._summaries[row] = [*before, *events][-_MOST_NAMES:]
            if names:
                self._names[row] = names
        else:
            found.events += [*before, *events]
        if not found.subagent:
            self._last_of_main = row
        self._note_task(entry, message)
        return asked

    def _note_task(self, entry: Entry, message: Message | None) -> None:
        """Note what a call of a subagent says of it; a subagent's own lines may lack that."""
        if self._called and b"tool_use_id" in entry.line:
            self._note_refusal(message or _message_of(entry, entry.as_stored) or {})
        if b"prompt" not in entry.line and message is None:
            return
        for call in calls_of(message or _message_of(entry, entry.as_stored) or {}):
            given = call.arguments if isinstance(call.arguments, dict) else {}
            if "prompt" in given and ("description" in given or "subagent_type" in given):
                name, task = _text(given.get("subagent_type")), _text(given.get("description"))
                self._tasks.setdefault(entry.uuid, (name, task))
                self._called[call.id] = entry.uuid

    def _note_refusal(self, message: Message) -> None:
        """Forget the calls of subagents that a message says never started."""
        for call, outcome in outcomes_of(message):
            if outcome != "done":
                self._called.pop(call, None)

    def _note_edit(self, parent: int, entry: Entry) -> None:
        if entry.type != "context_edit" or parent == NO_ROW or self.agent is None:
            return
        is_dropped = entry.as_stored.get("targetUuid") == self._tree.uuids[parent]
        if is_dropped and self._tree.type_of(parent) == "compaction" and entry.timestamp:
            self._copied[parent] = entry.timestamp

    def _is_copy(self, row: int, anchor: int, entry: Entry) -> bool:
        """Whether an entry repeats an earlier one, for a compaction of Codex.

        Codex lists what stays in the context. The reader drops the summary with an edit, and adds
        the list below it, at the time of the compaction.
        """
        time = self._copied.get(anchor)
        if time is None or entry.timestamp != time:
            return False
        self._copied[row] = time
        return True

    def number_of(self, row: int) -> int | None:
        """The number of the turn of a row that was taken; None without a turn."""
        node = self._node_of[row]
        if node == NO_ROW or self._nodes[node].subagent:
            return None
        return self._nodes[node].number

    def _started(self, entry: Entry) -> _Agent | None:
        """The subagent that begins with the first entry of a lane; None for another lane."""
        data: Any = {}
        if begins_subagent(entry):
            data = entry.as_stored.get("data")
        elif not is_named_by_agent(entry.lane, self.agent):
            return None
        return _Agent(data if isinstance(data, dict) else {}, self._last_of_main)

    def _continues(self, anchor: int, lane: str | None) -> bool:
        """Whether an entry that is not a prompt goes on with the turn that it is below."""
        if anchor == NO_ROW or self._goes_on[anchor] or self._node_of[anchor] == NO_ROW:
            return False
        return self._branching.lane_of(anchor) == lane

    def _begin(
        self,
        row: int,
        anchor: int,
        lane: str | None,
        entry: Entry,
        message: Message | None,
        *,
        asked: bool,
    ) -> int:
        above = self._node_of[anchor] if anchor != NO_ROW else NO_ROW
        node = _Node(row, above, anchor, lane)
        if asked:
            node.prompt = _prompt(entry, message)
            self._take_compaction(node)
        agent = self._agents.get(lane) if lane is not None else None
        if agent is not None:
            node.subagent = True
            agent.nodes.append(len(self._nodes))
        elif asked:
            self._numbers += 1
            node.number = self._numbers
        else:
            node.number = self._nodes[above].number if above != NO_ROW else 0
            node.part = self._parts[node.number]
        if not node.subagent:
            self._parts[node.number] += 1
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _take_compaction(self, node: _Node) -> None:
        """Give a turn that began with `/compact` the compaction that stands before the prompt."""
        above = self._nodes[node.above] if node.above != NO_ROW else None
        if above is None or not above.tally.is_compacted or not above.events:
            return
        if (node.prompt or "").startswith("/compact") and above.events[-1].kind == "compaction":
            node.events.append(above.events.pop())

    def outline(self) -> SessionOutline:
        """The outline of all that was taken."""
        header = self._outline.entry(0)
        for uuid, label in self._outline.names.labels.items():
            row = self._tree.row(uuid)
            if row != NO_ROW and (node := self._node_of[row]) != NO_ROW:
                self._nodes[node].labels.append((uuid, label))
        for row, events in self._summaries.items():  # nothing follows them yet
            self._nodes[self._node_of[row]].events += events
        self._hang_subagents()
        self._note_missing()
        current = self._outline.current(self._branching.content)
        here = self._node_of[current] if current != NO_ROW else NO_ROW
        on_path = path_rows(self._tree, self._outline.leaf)
        turns = tuple(self._turn(node, bool(on_path[node.first])) for node in self._nodes)
        return SessionOutline(
            id=str(header.get("id", "")),
            name=self._outline.names.name,
            cwd=cwd if isinstance(cwd := header.get("cwd"), str) and cwd else None,
            agent=self.agent,
            turns=turns,
            here=None if here == NO_ROW else here,
            leaf=None if current == NO_ROW else self._tree.uuids[current],
            work=total(turn.work for turn in turns),
        )

    def _hang_subagents(self) -> None:
        """Put each subagent below the turn that started it."""
        agents = {lane: agent for lane, agent in self._agents.items() if agent is not None}
        times = self._times() if agents else []
        started = {lane: self._start_of(agent, times) for lane, agent in agents.items()}
        for lane, agent in agents.items():
            if not agent.nodes:
                continue
            first = self._nodes[agent.nodes[0]]
            above = started[lane] if started[lane] != NO_ROW else first.above
            if above == NO_ROW or self._is_below_itself(lane, started):
                above = NO_ROW
            else:
                self._nodes[above].subagents.append(self._subagent(lane, agent))
            for place in agent.nodes:
                if (node := self._nodes[place]).above == NO_ROW or place == agent.nodes[0]:
                    node.above = above
                    if agent.caller and (row := self._tree.row(agent.caller)) != NO_ROW:
                        node.fork = row
            if above == NO_ROW:  # it is drawn as a branch of its own
                for place in agent.nodes:
                    self._nodes[place].subagent = False

    def _note_missing(self) -> None:
        """Add the subagents that calls started and of which there is no file.

        Where it is not known which call started a lane, it may be any of them.
        """
        callers = {
            agent.caller
            for lane, agent in self._agents.items()
            if agent is not None and not lane.startswith(_SIDE_AGENTS)
        }
        started = set(self._called.values())
        if self.agent != "claude-code" or not callers <= started:
            return
        for caller, (name, task) in self._tasks.items():
            row = self._tree.row(caller)
            node = self._node_of[row] if row != NO_ROW else NO_ROW
            if caller in callers or caller not in started or node == NO_ROW:
                continue
            missing = Subagent(
                *("", name or "subagent", task or "", caller, False, (), Tally().work()),
                missing=True,
            )
            self._nodes[node].subagents.append(missing)

    def _times(self) -> list[tuple[datetime, int]]:
        """When each turn of the main agent began, as far as that is known."""
        own = [place for place, node in enumerate(self._nodes) if not node.subagent]
        begun = [(moment_of(self._nodes[place].tally.started), place) for place in own]
        return sorted((moment, place) for moment, place in begun if moment is not None)

    def _start_of(self, agent: _Agent, times: list[tuple[datetime, int]]) -> int:
        """The turn that started a subagent, or NO_ROW.

        Without a call that is known, it is the turn that was going on at the time.
        """
        row = self._tree.row(agent.caller) if agent.caller else NO_ROW
        if row == NO_ROW and agent.nodes:
            first = self._nodes[agent.nodes[0]]
            row = first.fork
            moment = moment_of(first.tally.started)
            if row == NO_ROW and moment is not None and times:
                at = bisect_right(times, (moment, len(self._nodes))) - 1
                return times[max(0, at)][1]
        if row == NO_ROW:
            row = agent.seen
        return self._node_of[row] if row != NO_ROW else NO_ROW

    def _is_below_itself(self, lane: str, started: Mapping[str, int]) -> bool:
        """Whether the callers of a subagent lead back to it."""
        seen: set[str] = set()
        at: str | None = lane
        while at is not None and at in started:
            if at in seen:
                return True
            seen.add(at)
            node = started[at]
            at = self._nodes[node].lane if node != NO_ROW else None
        return False

    def _subagent(self, lane: str, agent: _Agent) -> Subagent:
        nodes = [self._nodes[place] for place in agent.nodes]
        name, task = self._tasks.get(agent.caller or "", (None, None))
        prompt = next((node.prompt for node in nodes if node.prompt), "")
        task = agent.task or task or prompt
        return Subagent(
            lane=lane,
            name=agent.name or name or lane.removeprefix("agent-"),
            task=task or "",
            caller=agent.caller,
            own=lane.startswith(_SIDE_AGENTS),
            turns=tuple(agent.nodes),
            work=total(node.tally.work() for node in nodes),
        )

    def _turn(self, node: _Node, current: bool) -> Turn:
        uuids = self._tree.uuids
        above = self._nodes[node.above] if node.above != NO_ROW else None
        return Turn(
            number=above.number if node.subagent and above is not None else node.number,
            part=node.part,
            uuid=uuids[node.first],
            leaf=uuids[node.last],
            prompt=node.prompt,
            answer=one_line(node.tally.answer, TEXT),
            above=None if node.above == NO_ROW else node.above,
            fork=None if node.fork == NO_ROW else uuids[node.fork],
            leaves=above is not None and not node.subagent and node.fork != above.last,
            lane=node.lane,
            subagent=node.subagent,
            current=current,
            names=node.names,
            labels=tuple(node.labels),
            events=tuple(node.events),
            subagents=tuple(node.subagents),
            work=node.tally.work(),
        )


def _prompt(entry: Entry, message: Message | None) -> str:
    own = entry.message_as_stored if entry.type == "message" else message
    if isinstance(own, dict) and is_typed_command(own):
        return one_line(as_typed(text_of(own).strip()), TEXT)
    if (typed := typed_in(entry)) is not None:
        return one_line(typed, TEXT)
    return preview(entry, message, TEXT)


def is_of_turn(handle: Entry) -> bool:
    """Whether a handle has to be resolved to know the turns."""
    return may_be_prompt(handle) or is_unclear(handle)


def _entries_in_order(drawn: Outline, rows: deque[int]) -> Iterator[Entry]:
    """All entries, parents first, else in file order; the row of each goes to `rows`."""
    tree = drawn.tree
    if not tree.has_late_parents:
        yield from entries_by_row(drawn, drawn.view.entry_lines(), len(tree), rows)
        return
    for row in _parents_first(tree):
        rows.append(row)
        yield drawn.entry(row)


def _parents_first(tree: TreeIndex) -> Iterator[int]:
    waiting = tree.roots()
    heapify(waiting)
    while waiting:
        row = heappop(waiting)
        yield row
        for child in tree.children(row):
            heappush(waiting, child)
