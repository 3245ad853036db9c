"""Codex rollouts as entries, with the history that a rollout names in other files.

Rollouts are `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, or `.jsonl.zst`. A line is
`{timestamp, type, payload}`. `session_meta` comes first. `response_item`s are the conversation, as
items of OpenAI Responses. `turn_context` names the model and the effort. `compacted` replaces the
history before it. An `event_msg` is for the terminal and adds nothing to a context, except that
`thread_rolled_back` takes back the last turns.

The file is linear: the parent of an entry is the entry before it. A rollback becomes a `branch`
below the entry before the turns taken back. A `compacted` line becomes a compaction that keeps
nothing, a `context_edit` that removes its summary, and the history that replaces it:
`replacement_history`, or in older versions the prompts so far and then the summary. Each
item of that history has in its metadata the entry above that it repeats, or null.

The first line of a segment may name its history: `history_base`, with the id of another segment (as
`thread_id`), and the ordinal and the byte where the history ends there. That segment may name a
history itself. None of it is copied. A plan has the segments that one session is made of, each
after the one that it continues, and the opened one last. Of the own thread it has all older
segments, whole, because what a revert left is a branch; of another thread, from which this one was
forked, the lines up to the last end that is named. The first line of a segment is the first entry
of its branch.

Invariant: an entry of a file has the same uuid in each session that has the file's history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.agents import base
from sessiontree.agents.codex.items import ABOUT, begins_turn, is_prompt, is_turn, metadata_of
from sessiontree.agents.codex.names import thread_of
from sessiontree.agents.codex.repeats import SaidItems
from sessiontree.agents.codex.tally import CodexTally, ParentReplay
from sessiontree.core import limits
from sessiontree.core.activity import FirstPrompt
from sessiontree.core.header import KEY
from sessiontree.core.limits import Budget
from sessiontree.core.message import REPEATS, kind_of
from sessiontree.core.migrate import LineName, name_of_line, uuid_of_name
from sessiontree.core.usage import INHERITED, Tally, mode_of, spent_before
from sessiontree.errors import SessionTreeError


class HistoryEnd(NamedTuple):
    """Where an inherited history ends: at the ordinal; in lines without ordinals at the byte."""

    segment: str
    ordinal: int
    offset: int

    def is_at(self, ordinal: Any, offset: int) -> bool:
        """Whether a line with this ordinal, at this offset, is behind the end."""
        return ordinal >= self.ordinal if isinstance(ordinal, int) else offset >= self.offset


class Segment(msgspec.Struct, eq=False):
    """One file.

    Attributes:
        id: its id.
        number: its `Place.source`.
        source: the file.
        opening: its first line, and what is before it.
        meta: what that line says of the session.
        is_own: whether it is of the opened thread.
        continues: where its history ends in another segment, or None.
        ends: where the histories of other segments end in it, in order.
    """

    id: str
    number: int
    source: base.AgentSource
    opening: base.FileOpening
    meta: base.Values
    is_own: bool
    continues: HistoryEnd | None
    ends: list[HistoryEnd]

    @property
    def place(self) -> base.LinePlace:
        """The place of the first line."""
        return self.opening.line.place

    @property
    def thread(self) -> str:
        """The id of its thread; empty if nothing has it."""
        return self.meta.text("id") or thread_of(self.source.name) or ""


def planned(source: base.AgentSource, report: base.Report) -> list[Segment]:
    """The segments of the session of a file; `report` is told which of them is missing."""
    return _ReadPlan(source, report).segments


class _ReadPlan:
    def __init__(self, source: base.AgentSource, report: base.Report) -> None:
        self.segments: list[Segment] = []
        self._source = source
        self._report = report
        self._known: dict[str, Segment | None] = {}
        self._chain: set[str] = set()
        self._opened = opened = _segment("", 0, source)
        thread = opened.thread
        ids = source.segments()
        opened.id = ids[-1] if ids else thread
        opened.is_own = True
        self._known[opened.id] = opened
        for id in ids[:-1]:
            older = self._found(id, opened)
            if older is not None and older.thread == thread:
                older.is_own = True
                self._add(older)
        self._add(opened)

    def _add(self, segment: Segment) -> None:
        """Add a segment behind those that it continues."""
        chain = [segment]
        self._chain = {segment.id, self._opened.id}
        while (below := chain[-1]).continues is not None and below not in self.segments:
            above = self._above(below, below.continues)
            if above is None:
                below.continues = None
                break
            above.ends.append(below.continues)
            chain.append(above)
            self._chain.add(above.id)
        self.segments += [each for each in reversed(chain) if each not in self.segments]

    def _above(self, segment: Segment, end: HistoryEnd) -> Segment | None:
        """The segment that another one continues; None, and a report, if it cannot be read."""
        if end.segment in self._chain:
            cause = f"the history leads back to segment {end.segment}, which continues this one"
            self._report("history", segment.place, cause)
            return None
        return self._found(end.segment, segment)

    def _found(self, id: str, by: Segment) -> Segment | None:
        """The segment with an id; None, and one report, if it cannot be read.

        `by` is the segment that needs it.
        """
        if id not in self._known:
            self._known[id] = self._opened_segment(id, by)
        return self._known[id]

    def _opened_segment(self, id: str, by: Segment) -> Segment | None:
        try:
            found = self._source.segment(id)
        except SessionTreeError as error:
            self._report("history", by.place, f"the history in segment {id} is not read: {error}")
            return None
        if found is not None:
            return _segment(id, *found)
        cause = (
            f"the history is in segment {id}, a file 'rollout-*{id}.jsonl' or '….jsonl.zst', "
            "which is not beside this file, nor in sessions or archived_sessions of Codex"
        )
        self._report("history", by.place, cause)
        return None


def _segment(id: str, number: int, source: base.AgentSource) -> Segment:
    opening = _opening_of(source, number)
    meta = opening.values.inside("payload")
    base_of = _base_of(meta.value("history_base"))
    return Segment(id, number, source, opening, meta, False, base_of, [])


def _opening_of(
    source: base.AgentSource, number: int, report: base.Report = base.unreported
) -> base.FileOpening:
    """How a file begins; a later `session_meta` may be of the thread that it was forked from."""
    thread, is_first = thread_of(source.name), True

    def is_own(line: base.Values) -> bool:
        nonlocal is_first
        was_first, is_first = is_first, False
        id = line.inside("payload").text("id") or ""
        if not _is_meta(line):
            return False
        return was_first or thread in (None, id)

    return base.opening_of(base.numbered(source, _LINE_KEYS, number), is_own, report)


def _is_meta(line: base.Values) -> bool:
    return line.text("type") == _HEADER and "payload" in line


def _base_of(named: Any) -> HistoryEnd | None:
    if not isinstance(named, dict) or not isinstance(named.get("thread_id"), str):
        return None
    return HistoryEnd(
        named["thread_id"],
        _count(named, "end_ordinal_exclusive"),
        _count(named, "end_byte_offset"),
    )


def _count(named: Mapping[str, Any], key: str) -> int:
    value = named.get(key)
    return value if isinstance(value, int) else 0


_HEADER: Final = "session_meta"
_TYPES: Final = frozenset({_HEADER, "response_item", "event_msg", "turn_context", "compacted"})
_SIDE_TYPES: Final = _TYPES | {
    *("world_state", "token_usage_record", "dynamic_tools_updated", "security_risk_score"),
    *("realtime_item", "inter_agent_communication", "inter_agent_communication_metadata"),
}
_LINE_KEYS: Final = (frozenset({"type", "payload"}),)
_SILENT_ITEMS: Final = frozenset({"ghost_snapshot", "other"})
"""Items that Codex does not send to a model."""

_INSTRUCTIONS: Final = ("base_instructions", "instructions")
"""The keys of the first payload that are in the header as its system prompt."""


class CodexReader(base.Reader):
    message_key = "payload"
    has_header = True
    line_keys = _LINE_KEYS
    has_facts_beside = True
    shares_origins = True

    def recognises(self, head: bytes) -> bool:
        """Whether the first line has a type of Codex and a payload."""
        first = base.first_line(head, _LINE_KEYS)
        if first is None or first.text("type") not in _TYPES:
            return False
        return "payload" in first or b'"payload"' in head

    def is_header(self, line: base.Values) -> bool:
        return _is_meta(line)

    def lacks_header(self, head: bytes) -> bool:
        first = base.first_object(head)  # of a long line the payload may be cut
        is_header = first is not None and first.text("type") == _HEADER
        return not is_header and super().lacks_header(head)

    def made_header(self, source: base.AgentSource, id: str) -> dict[str, Any]:
        facts = _facts_of_lines(_opening_of(source, 0).above)
        from sessiontree.agents.codex.writer import VERSION  # few headers are ever lost

        meta = {"id": id, "timestamp": facts.created, "cwd": facts.cwd or ""}
        meta |= {"originator": "sessiontree", "cli_version": VERSION, "source": "cli"}
        return {"timestamp": facts.created, "type": _HEADER, "payload": meta}

    def id_of_lines(self, head: bytes, file: str) -> str:
        return self.facts(head, b"").id or thread_of(file) or ""

    def record_in(self, head: bytes) -> str | None:
        first = next(base.first_values(head), base.Values({}))
        keys = set(first)
        if keys == {"session_id", "ts", "text"}:
            return "the list of prompts of Codex"
        return "the list of names of Codex" if {"id", "thread_name"} <= keys else None

    def facts(self, head: bytes, tail: bytes) -> base.AgentFacts:
        facts = base.AgentFacts()
        first = FirstPrompt()
        kinds: set[str | None] = set()
        for found in base.first_values(head):
            payload = found.inside("payload")
            kinds.add(found.text("type"))
            if found.text("type") == _HEADER and facts.id is None:
                facts = _facts(found, payload)
                continue
            if facts.id is None:
                facts = _with_facts_in(found, payload, facts)
            if found.text("type") == "response_item":
                first.take(_prompt_text(payload))
            if first.is_found and facts.id is not None:
                break
        if facts.id is None and _HEADER in kinds:
            facts = _facts_of_cut_line(head)
        return replace(facts, first_message=first.text, is_continued=b'"history_base"' in head)

    def stands_alone(self, body: Mapping[str, Any], beside: bool) -> bool:
        return body.get("type") != "compacted"

    def beyond_header(self, left: dict[str, bytes]) -> Mapping[str, bytes]:
        payload = base.values(left.get("payload", b""))
        if payload is None:
            return left
        rest = {key: raw for key, raw in payload.raws().items() if key not in _INSTRUCTIONS}
        return {**left, "payload": base.Values(rest).as_json()}

    def with_sidecar(self, facts: base.AgentFacts, sidecar: bytes | None) -> base.AgentFacts:
        return replace(facts, name=name_in(sidecar))

    def inherited(self, source: base.AgentSource) -> Iterator[bytes]:
        for segment in planned(source, lambda kind, place, cause: None)[:-1]:
            end = None if segment.is_own else max(segment.ends, key=_place, default=None)
            for line in base.numbered(segment.source, _LINE_KEYS, segment.number):
                if end is not None:
                    found = line.values or base.Values({})
                    if end.is_at(found.value("ordinal"), line.place.offset):
                        break
                yield line.text

    def tally(self) -> Tally:
        return CodexTally()

    def translate(self, source: base.AgentSource, report: base.Report) -> Iterator[base.EntryDraft]:
        segments = planned(source, report)
        opened = segments[-1]
        oldest = next(segment for segment in segments if segment.is_own)
        if oldest.opening.is_empty:
            return
        for segment in segments:
            _opening_of(segment.source, segment.number, report)
        lines = base.LineMaker(self.name, report, opened.thread)
        rollout = _Rollout(lines, opened.meta, source.name)
        if oldest.opening.header is None:
            facts = _facts_of_lines(oldest.opening.above)
        else:
            facts = _facts(oldest.opening.values, oldest.meta)
        yield rollout.header(oldest.opening, replace(facts, name=name_in(source.sidecar)))
        for segment in segments:
            header = oldest.opening.header if segment is oldest else None
            yield from rollout.of_segment(segment, header)


class _HistoryItem(NamedTuple):
    """An item of the current history."""

    uuid: str  # of its entry
    parent: str  # the uuid of the entry before it
    prompt: Any  # the item if it is a prompt, else None
    is_turn: bool  # whether Codex counts it when it takes turns back


class _HistoryState(NamedTuple):
    """What the entries so far add up to, at the end of a history."""

    leaf: str
    history: list[_HistoryItem]
    said: SaidItems
    provider: str | None
    model: str | None = None
    effort: str | None = None
    tier: str | None = None
    usage: Any = None


class _Rollout:
    def __init__(self, lines: base.LineMaker, meta: base.Values, name: str) -> None:
        self.lines = lines
        self._meta = meta
        self._name = name
        self._segment = lines.session_id
        self._replay = ParentReplay(lines.session_id)
        self._named: tuple[base.SourceLine, LineName] | None = None  # the last line with a name
        self._states: dict[HistoryEnd, _HistoryState] = {}
        self._repeated = Budget(limits.REPEATED_PROMPTS, name=name)
        self._provider = meta.text("model_provider")
        self._restore(_HistoryState(lines.root, [], SaidItems(), self._provider))

    def header(self, opening: base.FileOpening, facts: base.AgentFacts) -> base.EntryDraft:
        meta = self._meta
        given = meta.value("base_instructions")
        text = given.get("text") if isinstance(given, dict) else given
        return self.lines.opening(
            opening,
            facts,
            provider=self._provider,
            system=text if isinstance(text, str) else meta.text("instructions"),
            agentVersion=meta.text("cli_version"),
            forkedFrom=meta.text("forked_from_id"),
            git=meta.value("git"),
        )

    def of_segment(
        self, segment: Segment, header: base.SourceLine | None
    ) -> Iterator[base.EntryDraft]:
        """The entries of a file; of another thread's up to the last end of a history in it.

        `header` is the line that the header was made of, if it is in the file.
        """
        provider = segment.meta.text("model_provider")
        start = _HistoryState(self.lines.root, [], SaidItems(), provider)
        self._restore(start if segment.continues is None else self._states[segment.continues])
        self._segment = segment.id
        waiting = sorted(set(segment.ends), key=_place)
        read = {other.place for other in (header, segment.opening.torn) if other is not None}
        last: Any = None
        after = 0
        for line in base.numbered(segment.source, _LINE_KEYS, segment.number, self.lines.report):
            found = line.values
            ordinal = None if found is None or not waiting else found.value("ordinal")
            while waiting and waiting[0].is_at(ordinal, line.place.offset):
                self._states[waiting.pop(0)] = self._state()
            if segment.ends and not waiting and not segment.is_own:
                return
            last = ordinal if isinstance(ordinal, int) else last
            after = line.place.offset + len(line.text) + 1
            if line.place not in read:
                yield from self.translated(line, found)
        for end in waiting:
            self._states[end] = self._state()
            if end.ordinal > last + 1 if isinstance(last, int) else end.offset > after:
                self._report_past_end(segment, end, last)

    def _report_past_end(self, segment: Segment, end: HistoryEnd, last: int | None) -> None:
        ends = "it ends before" if last is None else f"its last ordinal is {last}, before"
        cause = (
            f"the history of segment {segment.id} is continued from ordinal {end.ordinal}, but "
            f"{ends} that: lines at its end are lost"
        )
        self.lines.report("history", segment.place, cause)

    def _state(self) -> _HistoryState:
        at = self.lines.leaf, list(self._history), self._said.copy(), self._provider
        return _HistoryState(*at, self._model, self._effort, self._tier, self._usage)

    def _restore(self, state: _HistoryState) -> None:
        self.lines.leaf = state.leaf
        self._history = list(state.history)
        self._said = state.said.copy()
        self._provider = state.provider
        self._model, self._effort, self._tier = state.model, state.effort, state.tier
        self._usage = state.usage

    def _uuid(self, line: base.SourceLine, name: bytes = b"") -> str:
        """The uuid that a line has in each session with this segment's history."""
        if self._named is None or self._named[0] is not line:  # a line may have many items
            named = name_of_line(self._segment, line.place.number, line.text)
            self._named = line, named
        named = self._named[1].copy()
        named.update(name)
        return self.lines.uuid(uuid_of_name(named.hexdigest()), line, name)

    def translated(
        self, line: base.SourceLine, found: base.Values | None
    ) -> Iterator[base.EntryDraft]:
        lines = self.lines
        if found is None:
            yield from lines.not_an_object(line)
            return
        kind, payload = found.text("type") or "", found.inside("payload")
        uuid = self._uuid(line)
        at = found.text("timestamp")
        if kind == "response_item" and payload.text("type") not in (*_SILENT_ITEMS, None):
            item = found.value("payload")
            self._note(uuid, item)
            self._said.add(item, uuid)
            fields: dict[str, Any] = {"message": found.fragment("payload"), **metadata_of(item)}
            yield lines.entry("message", line, uuid, fields, timestamp=at)
        elif kind == "compacted":
            yield from self._compacted(line, uuid, at, payload)
        elif kind == "event_msg" and payload.text("type") == "thread_rolled_back":
            parent = self._rolled_back(payload.value("num_turns"))
            yield lines.entry("branch", line, uuid, parent=parent, timestamp=at)
        else:
            if kind not in _SIDE_TYPES:
                lines.note_unknown(kind, line.place)
            yield lines.custom(kind or "line", line, uuid, found.as_fragment(), timestamp=at)
            yield from self._settings(line, at, kind, payload)

    def _settings(
        self, line: base.SourceLine, at: str | None, kind: str, payload: base.Values
    ) -> Iterator[base.EntryDraft]:
        """The changes of the model and the effort, and the usage, that a line reports.

        A tier of service that was set holds for the requests after it.
        """
        if kind == "turn_context":
            model, effort = payload.text("model"), payload.text("effort")
            if model and model != self._model:
                self._model = model
                fields: dict[str, Any] = {"provider": self._provider, "modelId": model}
                yield self._extra("model_change", line, b" model", fields, at)
            if effort and effort != self._effort:
                self._effort = effort
                fields = {"thinkingLevel": effort}
                yield self._extra("thinking_level_change", line, b" effort", fields, at)
        elif kind == "event_msg" and payload.text("type") == "token_count":
            info = payload.inside("info")
            total, last = info.value("total_token_usage"), info.value("last_token_usage")
            origin = None if line.values is None else line.values.value(KEY)
            before = spent_before(origin)
            if isinstance(last, dict) and (total != self._usage or before):  # or it is repeated
                self._usage = total
                model_of_turn = {"provider": self._provider, "model": self._model}
                fields = {"kind": "turn", **model_of_turn, "usage": last, **before}
                if not before and mode_of(last, self._tier) is not None:
                    fields["serviceTier"] = self._tier
                if self._replay.has(at):
                    fields["metadata"] = {INHERITED: True}
                yield self._extra("usage", line, b" usage", fields, at)
        elif kind == _HEADER:
            self._replay.note(payload.text("id"), payload.text("timestamp"), at)
        elif kind == "event_msg" and payload.text("type") == "thread_settings_applied":
            self._tier = payload.inside("thread_settings").text("service_tier")

    def _extra(
        self, kind: str, line: base.SourceLine, name: bytes, fields: dict[str, Any], at: str | None
    ) -> base.EntryDraft:
        """One more entry made from a line; `name` determines its uuid."""
        uuid = self._uuid(line, name)
        return self.lines.entry(kind, line, uuid, fields, timestamp=at)

    def _note(self, uuid: str, item: Any) -> None:
        """Add the item of the next entry to the history."""
        prompt = item if is_prompt(item) else None
        self._history.append(_HistoryItem(uuid, self.lines.leaf, prompt, is_turn(item)))

    def _rolled_back(self, turns: Any) -> str:
        """Remove the last turns from the history; the uuid of the entry before them."""
        starts = [n for n, item in enumerate(self._history) if item.is_turn]
        if not isinstance(turns, int) or turns <= 0 or not starts:
            return self.lines.leaf
        cut = starts[-turns] if turns < len(starts) else starts[0]
        parent = self._history[cut].parent
        self._said.take_back(item.uuid for item in self._history[cut:])
        del self._history[cut:]
        return parent

    def _compacted(
        self, line: base.SourceLine, uuid: str, at: str | None, payload: base.Values
    ) -> Iterator[base.EntryDraft]:
        lines = self.lines
        summary = payload.text("message") or ""
        replacement = payload.value("replacement_history")
        if not isinstance(replacement, list):
            prompts = [item.prompt for item in self._history if item.prompt is not None]
            self._repeated.take(len(prompts), line=line.place.number)
            text = {"type": "input_text", "text": summary}
            replacement = [*prompts, {"type": "message", "role": "user", "content": [text]}]
        fields: dict[str, Any] = {"summary": summary, "firstKeptEntryUuid": uuid}
        yield lines.entry("compaction", line, uuid, fields, timestamp=at)
        fields = {"targetUuid": uuid, "replacement": None}
        yield self._extra("context_edit", line, b" edit", fields, at)
        self._said.add_summary(summary, uuid)
        self._history = []
        listing = self._said.listing()
        for number, item in enumerate(replacement):
            if not isinstance(item, dict) or kind_of(item) in _SILENT_ITEMS:
                continue
            name = b" %d" % number
            own = self._uuid(line, name)
            self._note(own, item)
            meta = metadata_of(item).get("metadata", {})
            fields = {"message": item, "metadata": {**meta, REPEATS: listing.take(item, own)}}
            yield lines.entry("message", line, own, fields, timestamp=at)


def _place(end: HistoryEnd) -> tuple[int, int]:
    return end.ordinal, end.offset


def name_in(index_line: bytes | None) -> str | None:
    """The user's name for a thread in its line of Codex's index."""
    found = None if index_line is None else base.values(index_line)
    return None if found is None else found.text("thread_name")


def _facts(line: base.Values, meta: base.Values) -> base.AgentFacts:
    created = meta.text("timestamp") or line.text("timestamp")
    above = meta.text("forked_from_id")
    return base.AgentFacts(id=meta.text("id"), cwd=meta.text("cwd"), created=created, above=above)


def _with_facts_in(
    line: base.Values, payload: base.Values, known: base.AgentFacts
) -> base.AgentFacts:
    """The facts of a rollout whose header is lost, with those that a line adds."""
    cwd = payload.text("cwd") if line.text("type") == "turn_context" else None
    created = known.created or line.text("timestamp")
    return replace(known, cwd=known.cwd or cwd, created=created)


def _facts_of_lines(lines: Iterable[base.SourceLine]) -> base.AgentFacts:
    """The facts in the first lines of a rollout whose header is lost."""
    facts = base.AgentFacts()
    for line in lines:
        if line.values is not None:
            facts = _with_facts_in(line.values, line.values.inside("payload"), facts)
    return facts


def _facts_of_cut_line(head: bytes) -> base.AgentFacts:
    """The facts in a first line that is longer than the head."""
    start = head.find(b'"payload"')
    brace = head.find(b"{", start)
    line = head[brace:].split(b"\n")[0] if start >= 0 and brace >= 0 else b""
    nothing = base.Values({})
    return _facts(nothing, next(base.first_values(line), nothing))


def _prompt_text(payload: base.Values) -> str | None:
    if payload.text("role") != "user":
        return None
    message = {"role": "user", "content": payload.value("content"), ABOUT: payload.value(ABOUT)}
    return base.prompt_text(message) if begins_turn(message) else None
