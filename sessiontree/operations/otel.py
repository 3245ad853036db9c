"""A session as OpenTelemetry spans, by the semantic conventions for generative AI.

A session is one trace. Its root span has a span `invoke_agent` for each turn, on all branches; a
turn has a span `chat` for each response of a model and a span `execute_tool` for each call. The
turns of a subagent are below the call that started it. Each line is a request of OTLP in JSON: the
first has the root span, each further one a turn.

Texts are in the opt-in attributes of the conventions. The input of a response is what is new since
the response before it, so the size of a trace is proportional to the session's. A session has no
record of when a model or a tool began: a response starts with the entry above it, and a call with
its response.

Invariants: the tokens of all spans add up to those that `stats` counts; the same session gives the
same ids; a span never ends before it starts.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessiontree.agents import writing
from sessiontree.context.providers import reading
from sessiontree.context.settings import header_settings
from sessiontree.core.blocks import message_uuid
from sessiontree.core.display import one_line
from sessiontree.core.entry import PIECES, Entry
from sessiontree.core.header import id_in_name
from sessiontree.core.index import NO_ROW
from sessiontree.core.message import Message, calls_of, json_text, role_of, system_text
from sessiontree.core.usage import Spent, provider_of
from sessiontree.engine.cursor import Cursor
from sessiontree.views.costs import spending
from sessiontree.views.messages import repeated_in
from sessiontree.views.tree import EntryTree
from sessiontree.views.turns import Subagent, Turn, TurnBuilder, entries_in_order

_INTERNAL: Final = 1  # the kind of a span within a process
_CLIENT: Final = 3  # of a request to a model
_FAILED: Final = {"code": 2}

_LOST: Final = {
    "label": "a label is left out",
    "custom": "a custom entry is left out",
    "stack_push": "a stack_push is left out",
    "session_info": "a change of the name or the metadata is left out",
    "context_edit": "an edit is left out: the messages are as they were said",
    "merge": "a merge is left out: its messages are on their own branch",
}
_NOT_SAID: Final = frozenset({"context_edit", "merge"})

_PROVIDERS: Final = {
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "amazon-bedrock": "aws.bedrock",
    "azure-openai": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The names of providers that the conventions spell in another way."""

Span = dict[str, Any]
Attributes = Mapping[str, Any]


class OtelWriter:
    """Writes the trace of one session; see `agents.writing.Writer`."""

    def __init__(self, source: writing.SessionSource, cursor: Cursor) -> None:
        self._source = source
        drawn = EntryTree.of(cursor)
        self._drawn = drawn
        tree = drawn.tree
        turning = TurnBuilder(drawn)
        self._times = array("q", [writing.milliseconds(drawn.entry(0).timestamp)]) * len(tree)
        for row, entry in entries_in_order(drawn):
            turning.take(row, entry)
            above = tree.parents[row]
            before = self._times[above] if above != NO_ROW else self._times[0]
            self._times[row] = writing.milliseconds(entry.timestamp) or before
        self._outline = turning.outline()
        self._turns = self._outline.turns
        self._rows: dict[int, array[int]] = {}  # by the place of a turn; NO_ROW: of none
        starts = frozenset(tree.first_of_each_lane().values())
        for row in range(1, len(tree)):
            self._rows.setdefault(turning.place_of(row), array("i")).append(row)
            if (kind := tree.type_of(row)) in _LOST and row not in starts:
                source.losses.at(tree.uuids[row], _LOST[kind])
        if not self._turns:
            raise writing.no_message(source, "trace")
        self._callers = {
            subagent.lane: subagent for turn in self._turns for subagent in turn.subagents
        }
        self._calls = {
            lane: data.get("toolUseId") for lane, data in writing.facts_of_lanes(source).items()
        }
        self._spent: dict[str, list[Spent]] = {}  # by the entry of a response
        for spent in spending(cursor):
            if spent.usage.tokens:
                self._spent.setdefault(self._response_of(spent), []).append(spent)
            elif spent.usage.cost:
                source.losses.at(spent.entry, "a cost that is reported apart is left out")
        self._agent = self._outline.agent or "sessiontree"
        self._root = self._id("session")

    @property
    def default_name(self) -> str:
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in self._source.id)
        # not .jsonl, which a list would take for a session that cannot be read
        return f"{id_in_name(name) or 'session'}.otlp.json"

    def beside(self, name: str) -> list[writing.SideFile]:
        return []

    def blocks(self) -> Iterator[bytes]:
        yield self._line([self._session()])
        for place, turn in enumerate(self._turns):
            yield self._line(self._spans_of(place, turn))
        rest = [one for found in self._spent.values() for one in found]
        if rest:
            yield self._line([self._of_spent(one, self._root) for one in rest])

    def _line(self, spans: list[Span]) -> bytes:
        version = writing.text_in(self._source.metadata.get("agentVersion"))
        resource = {"service.name": self._agent, "service.version": version or None}
        scope = {"name": "sessiontree"}
        found = {
            "resource": {"attributes": _attributes(resource)},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }
        return writing.json_of({"resourceSpans": [found]}) + b"\n"

    def _id(self, *names: str) -> str:
        """The id of a span, by what it is of."""
        text = "\n".join((self._source.id, *names)).encode("utf-8", "replace")
        return hashlib.sha256(text).hexdigest()[:16]

    def _span(
        self,
        name: str,
        id: str,
        parent: str,
        times: tuple[int, int],
        attributes: Attributes,
        *,
        kind: int = _INTERNAL,
        failed: str | None = None,
    ) -> Span:
        start, end = times
        trace = hashlib.sha256(self._source.id.encode("utf-8", "replace")).hexdigest()[:32]
        about = {"gen_ai.conversation.id": self._source.id, **attributes}
        return {
            "traceId": trace,
            "spanId": id,
            **({"parentSpanId": parent} if parent else {}),
            "name": one_line(name, 200),
            "kind": kind,
            "startTimeUnixNano": str(start * 1_000_000),
            "endTimeUnixNano": str(max(start, end) * 1_000_000),
            "attributes": _attributes(about),
            **({} if failed is None else {"status": {**_FAILED, "message": failed}}),
        }

    def _session(self) -> Span:
        settings = header_settings(self._source.header.body)
        system = settings.get("system")
        attributes = {
            "gen_ai.agent.name": self._agent,
            "gen_ai.system_instructions": [_text(system)] if isinstance(system, str) else None,
            "gen_ai.tool.definitions": self._source.metadata.get("tools"),
            "sessiontree.name": self._source.name,
            "sessiontree.cwd": self._outline.cwd,
        }
        known = [time for time in self._times if time] or [0]
        name = f"session {self._source.name or self._source.id}"
        return self._span(name, self._root, "", (min(known), max(known)), attributes)

    def _spans_of(self, place: int, turn: Turn) -> list[Span]:
        """The span of a turn, and those of what was done in it."""
        rows = self._rows.get(place, array("i"))
        id = self._id("turn", turn.uuid)
        made = _TurnSpans(self, id)
        tree = self._drawn.tree
        said = array("i", [row for row in rows if tree.type_of(row) not in _NOT_SAID])
        for message, entry in self._source.messages(said):
            if repeated_in(entry) is None:
                made.take(message, entry)
        spans = made.spans()
        uuids = (tree.uuids[row] for row in rows)
        rest = [one for uuid in uuids for one in self._spent.pop(uuid, ())]
        spans += [self._of_spent(one, id) for one in rest]
        times = [self._times[row] for row in rows]
        subagent = self._callers.get(turn.lane or "") if turn.subagent else None
        name = self._agent if subagent is None else subagent.name
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.provider.name": made.provider,
            "gen_ai.input.messages": made.asked or None,
            "gen_ai.output.messages": made.answer,
            "sessiontree.turn": turn.name,
            "sessiontree.entry": turn.uuid,
            "sessiontree.lane": turn.lane,
        }
        parent = self._root if subagent is None else self._caller(subagent)
        ends = min(times, default=0), max(times, default=0)
        failed = turn.outcome if turn.outcome == "failed" else None
        whole = self._span(f"invoke_agent {name}", id, parent, ends, attributes, failed=failed)
        return [whole, *spans]

    def _caller(self, subagent: Subagent) -> str:
        """The span of the call that started a subagent; of the session if it is not known."""
        row = self._drawn.tree.row(subagent.caller) if subagent.caller else NO_ROW
        if row == NO_ROW:
            return self._root
        message = self._source.entry(row).message_as_stored
        calls = [call.id for call in calls_of(message)] if isinstance(message, dict) else []
        named = self._calls.get(subagent.lane)
        found = [call for call in calls if call == named] or calls
        return self.id_of_call(str(subagent.caller), found[0]) if len(found) == 1 else self._root

    def id_of_call(self, entry: str, call: str) -> str:
        return self._id("call", entry, call)

    def _response_of(self, spent: Spent) -> str:
        row = self._drawn.tree.row(spent.entry)
        if row == NO_ROW or self._drawn.tree.type_of(row) not in PIECES:
            return spent.entry
        return message_uuid(self._source.stored(row))

    def chat(self, chat: _Response, parent: str) -> Span:
        """The span of a response, which has what was spent on it."""
        spent, *more = self._spent.pop(chat.key, None) or [Spent()]
        if more:  # models that the model of the response asked
            self._spent[chat.entry.uuid] = more
        message = chat.message
        model = writing.text_in(message.get("model")) or spent.model
        provider = writing.text_in(message.get("provider")) or spent.provider
        reason = message.get("stopReason", message.get("stop_reason"))
        output = {"role": "assistant", "parts": chat.parts, "finish_reason": reason or "stop"}
        attributes = {
            **_of_model(model, provider),
            "gen_ai.response.id": writing.text_in(message.get("id")) or None,
            "gen_ai.response.finish_reasons": [reason] if isinstance(reason, str) else None,
            **_of_usage(spent),
            "gen_ai.input.messages": chat.asked or None,
            "gen_ai.output.messages": [output],
            "sessiontree.entry": chat.entry.uuid,
        }
        above = self._drawn.tree.parents[self._source.row(chat.entry)]
        times = self._times[max(above, 0)], self.time(chat.last)
        return self._span(
            f"chat {model}" if model else "chat",
            self._id("chat", chat.entry.uuid),
            parent,
            times,
            attributes,
            kind=_CLIENT,
            failed=writing.text_in(message.get("errorMessage")) or None,
        )

    def _of_spent(self, spent: Spent, parent: str) -> Span:
        """The span of what was spent on no message, such as on a summary."""
        attributes = {
            **_of_model(spent.model, spent.provider),
            **_of_usage(spent),
            "sessiontree.entry": spent.entry or None,
        }
        name = f"chat {spent.model}" if spent.model else "chat"
        id = self._id("spent", spent.entry, spent.answer, spent.model)
        time = spent.time or 0
        return self._span(name, id, parent, (time, time), attributes, kind=_CLIENT)

    def tool(self, call: _ToolRun, parent: str) -> Span:
        part, result = call.part, call.result
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": part.name or writing.UNKNOWN,
            "gen_ai.tool.call.id": part.id,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.arguments": writing.arguments_of(part),
            "gen_ai.tool.call.result": None if result is None else result.text,
            "error.type": "tool_error" if result is not None and result.failed else None,
        }
        start = self.time(call.entry)
        return self._span(
            f"execute_tool {part.name or writing.UNKNOWN}",
            self.id_of_call(call.entry.uuid, part.id),
            parent,
            (start, start if result is None else self.time(result.entry)),
            attributes,
            failed="" if result is not None and result.failed else None,
        )

    def time(self, entry: Entry) -> int:
        return self._times[self._source.row(entry)]

    @property
    def losses(self) -> writing.Losses:
        return self._source.losses


@dataclass
class _Response:
    """A response of a model, which may be in several entries."""

    entry: Entry  # the first
    last: Entry
    message: Message  # the last
    asked: list[dict[str, Any]]
    parts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What `_response_of` gives for what was spent on it."""
        return message_uuid(self.entry) if self.entry.type in PIECES else self.entry.uuid


@dataclass
class _ToolOutput:
    entry: Entry
    text: str
    failed: bool


@dataclass
class _ToolRun:
    entry: Entry
    part: reading.SentCall
    result: _ToolOutput | None = None


class _TurnSpans:
    """Collects the responses and the calls of one turn."""

    def __init__(self, writer: OtelWriter, turn: str) -> None:
        self._writer = writer
        self._turn = turn
        self._reading = reading.MessageReader(writer.losses, None)
        self._waiting: list[dict[str, Any]] = []  # what was said since the last response
        self._chats: list[_Response] = []
        self._calls: dict[str, _ToolRun] = {}
        self._done: list[_ToolRun] = []
        self._first: list[dict[str, Any]] = []  # what was said before the first response

    def take(self, message: Message, entry: Entry) -> None:
        self._writer.losses.uuid = entry.uuid
        if role_of(message) == "system":
            self._wait("system", [_text(system_text(message))])
            return
        asked: list[dict[str, Any]] = []
        said: list[reading.Part] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, reading.Result):
                self._end_call(part, entry)
            elif side == "assistant":
                said.append(part)
            else:
                asked.append(self._part(part))
        if said or role_of(message) == "assistant":
            self._respond(said, message, entry)
        if asked:
            self._wait("user", asked)

    def _wait(self, role: str, parts: list[dict[str, Any]]) -> None:
        """Keep what was said for the next response, and for the turn if it began with it."""
        self._waiting.append({"role": role, "parts": parts})
        if not self._chats:
            self._first.append(self._waiting[-1])

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What the turn began with, and what no response followed; calls have their results."""
        rest = [message for message in self._waiting if message["role"] != "tool"]
        return [*self._first, *(rest if self._chats else ())]

    def _end_call(self, part: reading.Result, entry: Entry) -> None:
        text = "\n".join(map(self._text_of, part.parts))
        response = {"type": "tool_call_response", "id": part.id, "response": text}
        self._waiting.append({"role": "tool", "parts": [response]})
        call = self._calls.pop(part.id, None)
        if call is not None:
            call.result = _ToolOutput(entry, text, part.failed)

    def _respond(self, parts: Iterable[reading.Part], message: Message, entry: Entry) -> None:
        id = writing.text_in(message.get("id"))
        last = self._chats[-1] if self._chats else None
        if last is None or not id or last.message.get("id") != id:
            last = _Response(entry, entry, message, self._waiting)
            self._waiting = []
            self._chats.append(last)
        last.last, last.message = entry, message
        for part in parts:
            last.parts.append(self._part(part))
            if isinstance(part, reading.SentCall):
                call = self._calls[part.id] = _ToolRun(entry, part)
                self._done.append(call)

    def _part(self, part: reading.Part) -> dict[str, Any]:
        if isinstance(part, reading.SentCall):
            arguments = writing.arguments_of(part)
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
        if isinstance(part, reading.Thinking):
            return {"type": "reasoning", "content": part.text or part.told}
        if isinstance(part, reading.ProviderBlock):
            return {"type": str(part.block.get("type") or "unknown"), "content": dict(part.block)}
        return _text(self._text_of(part))

    def _text_of(self, part: Any) -> str:
        if isinstance(part, reading.Media):
            return self._writer.losses.replaced(part)
        return part.text if isinstance(part, reading.TextPart) else ""

    @property
    def answer(self) -> list[dict[str, Any]] | None:
        """The texts of the last response that has one."""
        for chat in reversed(self._chats):
            if parts := [part for part in chat.parts if part["type"] == "text"]:
                return [{"role": "assistant", "parts": parts, "finish_reason": "stop"}]
        return None

    @property
    def provider(self) -> str | None:
        for chat in self._chats:
            model, named = (writing.text_in(chat.message.get(k)) for k in ("model", "provider"))
            if found := _provider(model, named):
                return found
        return None

    def spans(self) -> list[Span]:
        chats = [self._writer.chat(chat, self._turn) for chat in self._chats]
        return [*chats, *(self._writer.tool(call, self._turn) for call in self._done)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _provider(model: str, named: str | None) -> str | None:
    provider = named or provider_of(model)
    return None if provider is None else _PROVIDERS.get(provider, provider)


def _of_model(model: str, provider: str | None) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(model, provider),
        "gen_ai.request.model": model or None,
        "gen_ai.response.model": model or None,
    }


def _of_usage(spent: Spent) -> dict[str, Any]:
    """The tokens; those of a cache are part of the input, as the conventions want them."""
    used = spent.usage
    if not used.tokens:
        return {}
    return {
        "gen_ai.usage.input_tokens": used.input + used.cache_read + used.cache_write,
        "gen_ai.usage.output_tokens": used.output,
        "gen_ai.usage.cache_read.input_tokens": used.cache_read or None,
        "gen_ai.usage.cache_creation.input_tokens": used.cache_write or None,
        "gen_ai.usage.cost": used.cost if used.cost and not spent.is_report else None,
    }


def _attributes(given: Attributes) -> list[dict[str, Any]]:
    """Attributes as OTLP has them; what is nested is JSON in a text."""
    return [
        {"key": key, "value": _value(value)} for key, value in given.items() if value is not None
    ]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
    return {"stringValue": json_text(value)}
