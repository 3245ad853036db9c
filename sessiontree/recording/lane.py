"""One lane of a stream: deltas and events of one agent as entries.

A `Response` is one message of the model, from its deltas, from whole events, or from both. Messages
report their tokens, and at the end the agent reports the sum, in tokens and dollars. `TurnSpending`
gives the difference, which is kept, so the session's stats equal the agent's report.

Invariants: an event that came before, in this recording or an earlier one of the same stream, is
recognized by its uuid, its message's id or the call it answers. A stream whose start has a uuid
that the session does not have was not recorded before. Nor was one whose start has no uuid, if the
session does not have its first id; a block is kept once, however often it comes; a whole event
overrides deltas that differ; a message that broke off is kept, marked, and can be continued, also
by a later recording.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from sessiontree.core.display import printable
from sessiontree.core.entry import Entry
from sessiontree.core.message import (
    ABORTED,
    blocks_of,
    is_prompt,
    is_result_block,
    json_text,
    text_of,
)
from sessiontree.core.usage import Usage, usage_of
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import BlobError
from sessiontree.recording import events
from sessiontree.recording.events import Passthrough, Position, StoredEvent, StreamEvent
from sessiontree.recording.provider import BEGUN_BY, OpenBlock, begins_block, delta_text, storable
from sessiontree.recording.stream import Granularity, MessageStream

if TYPE_CHECKING:
    from sessiontree.session import Session


MESSAGE_ID: Final = "messageId"
"""The metadata key of a block or an end for the provider's id of the message."""

PARTIAL: Final = "partial"
"""The metadata key of a block that broke off."""


class Response:
    """One message, being recorded; `uuid` is the `messageUuid` of one that was recorded before."""

    def __init__(
        self,
        session: Session,
        granularity: Granularity,
        emit: Callable[[Iterable[StreamEvent]], None],
        uuid: str | None = None,
    ) -> None:
        self.id: str | None = None  # the provider's; None until it is known
        self.uuid = uuid or fresh_uuid()
        self.is_streaming = False  # whether it began with deltas, and has not ended
        self.is_touched = False  # whether this recording got anything of it
        self.facts: dict[str, Any] = {}  # `model`, `usage` and `stopReason`, as far as known
        self.blocks: dict[int, dict[str, Any]] = {}  # its kept blocks, by index
        self._session = session
        self._granularity = granularity
        self._emit = emit
        self._stream: MessageStream | None = None
        self._entries: dict[int, str] = {}
        self._open: dict[int, OpenBlock] = {}
        self._by_deltas: set[int] = set()
        self._confirmed: set[int] = set()
        self._broken: set[int] = set()
        self._ended: dict[str, Any] | None = None

    def restore_block(
        self, index: int, block: Mapping[str, Any], entry: str, *, broke: bool
    ) -> None:
        self.blocks[index] = dict(block)
        self._entries[index] = entry
        (self._broken.add if broke else self._broken.discard)(index)

    def restore_end(self, facts: Mapping[str, Any]) -> None:
        self.facts = {key: facts[key] for key in ("model", "usage", "stopReason") if key in facts}
        self._ended = self.facts.copy()
        if self.broke_off:
            del self.facts["stopReason"]

    def restore_start(self, message: Any) -> None:
        """Register the start of a message that broke off before its first block."""
        if isinstance(message, Mapping):
            self.begin(message)
            self.is_touched = False

    @property
    def broke_off(self) -> bool:
        """True if it broke off, or never ended."""
        return self._ended is None or self._ended.get("stopReason") == ABORTED

    @property
    def is_complete(self) -> bool:
        """True if all of it came, but for the event that ends it."""
        return "stopReason" in self.facts and not self._open

    def begin(self, message: Mapping[str, Any]) -> None:
        """Take the start of a message whose deltas follow."""
        self.is_streaming = True
        self._open.clear()
        self.note(message)

    def note(self, message: Mapping[str, Any]) -> None:
        """Take the facts of a message, without its content."""
        self.is_touched = True
        id, model = message.get("id"), message.get("model")
        if isinstance(id, str) and id:
            self.id = id
        # the model that Claude Code names in a message that it wrote itself
        if isinstance(model, str) and model and model != "<synthetic>":
            self.facts["model"] = model
        self._note_usage(message.get("usage"))
        self._note_stop(message.get("stop_reason"))

    def note_delta(self, event: Mapping[str, Any]) -> None:
        """Take a `message_delta`: its numbers are those of the whole message so far."""
        self.is_touched = True
        delta = event.get("delta")
        self._note_usage(event.get("usage"), is_last=True)
        self._note_stop(delta.get("stop_reason") if isinstance(delta, Mapping) else None)

    def _note_usage(self, usage: Any, *, is_last: bool = False) -> None:
        if not isinstance(usage, Mapping) or not usage:
            return
        before = self.facts.get("usage") or {}
        given = {key: value for key, value in usage.items() if value is not None}
        # An event with the whole message repeats the numbers of its start.
        is_known = "stopReason" in self.facts and not is_last
        self.facts["usage"] = {**given, **before} if is_known else {**before, **given}

    def _note_stop(self, reason: Any) -> None:
        if isinstance(reason, str):
            self.facts["stopReason"] = reason

    def start(self, index: int, block: Mapping[str, Any]) -> None:
        self.is_touched = True
        self._open[index] = OpenBlock(block)
        self._emit(_started(index, block))

    def delta(self, index: int, delta: Mapping[str, Any]) -> bool:
        """Take a delta; False for one that belongs to no block."""
        if index not in self._open and not self._reopened(index, delta):
            return False
        self.is_touched = True
        if not self._open[index].add(delta):
            return False
        text = storable(delta_text(delta))
        if text is None:
            return True
        if delta["type"] == "input_json_delta":
            self._emit([events.ToolUseDelta(block_index=index, partial_json=text)])
            return True
        kind = events.ContentDelta if delta["type"] == "text_delta" else events.ThinkingDelta
        self._emit([kind(block_index=index, text=text)])
        return True

    def _reopened(self, index: int, delta: Mapping[str, Any]) -> bool:
        """Continue a block that broke off, or whose start was never seen."""
        if index in self._broken:
            self._open[index] = OpenBlock(self.blocks[index], is_resumed=True)
            return True
        kind = BEGUN_BY.get(str(delta.get("type")))
        if kind is None or index in self.blocks:
            return False
        self._open[index] = OpenBlock({"type": kind, kind: ""})
        return True

    def stop(self, index: int) -> None:
        """End a block; no event where the whole block came before."""
        if index in self._open or self._reopened(index, {}):
            self._keep(index, self._open[index].finished())

    def full(self, blocks: Iterable[Any], *, is_repeatable: bool) -> None:
        """Take whole blocks, as far as they are not known; an equal event may be a repetition."""
        whole = [dict(block) for block in blocks if isinstance(block, Mapping)]
        is_repeatable = is_repeatable or len(whole) > 1 or bool(self._by_deltas)
        met: set[int] = set()
        for block in whole:
            index = self._known_index(storable(block), met, is_repeatable=is_repeatable)
            if index is None:
                index = max((*self.blocks, *self._open), default=-1) + 1
                self._emit(_started(index, block))
            met.add(index)
            self._confirmed.add(index)
            self._keep(index, block)

    def _known_index(
        self, block: dict[str, Any], met: set[int], *, is_repeatable: bool
    ) -> int | None:
        known = {**self.blocks, **{i: storable(b.finished()) for i, b in self._open.items()}}
        left = [index for index in sorted(known) if index not in met]
        if _is_call(block) and _text(block, "id"):
            return next((i for i in left if known[i].get("id") == block["id"]), None)
        fresh = [index for index in left if index not in self._confirmed]
        for index in (*fresh, *left) if is_repeatable else fresh:
            if known[index] == block:
                return index
        unsure = self._by_deltas | self._broken | self._open.keys()
        of_kind = (i for i in fresh if i in unsure and known[i].get("type") == block.get("type"))
        return next(of_kind, None)

    def _keep(self, index: int, block: dict[str, Any]) -> None:
        self.is_touched = True
        block = storable(block)
        was_open = self._open.pop(index, None) is not None
        if was_open:
            self._by_deltas.add(index)
        is_kept = self.blocks.get(index) == block and index not in self._broken
        if not is_kept:
            self._put(index, block)
        self._broken.discard(index)
        if was_open or not is_kept:
            self._emit(ended(block, self.position(index)))

    def _put(self, index: int, block: dict[str, Any], *, broke: bool = False) -> None:
        about = {PARTIAL: True} if broke else None
        entry = self._writing().add(block, index, metadata=about)
        self.blocks[index] = block
        if entry is not None:
            self._entries[index] = entry.uuid

    def position(self, index: int) -> Position:
        return Position(self._entries.get(index, self.uuid), index)

    def _writing(self) -> MessageStream:
        if self._stream is None:
            blocks = self.blocks
            if self._granularity == "message" and self._ended is not None:
                self.uuid, blocks = fresh_uuid(), {}  # another piece, with the same id
            about = {MESSAGE_ID: self.id} if self.id is not None else None
            more: dict[str, Any] = {"uuid": self.uuid, "blocks": blocks, "metadata": about}
            self._stream = MessageStream(self._session, "assistant", {}, self._granularity, **more)
        return self._stream

    def end(self) -> None:
        """End the message, unless it has neither blocks nor an end, or has ended so already."""
        self.is_streaming = False
        # A later piece of a message may end like the one before it.
        is_written = self._stream is None or self._granularity == "block"
        has_ended = is_written and self._ended == self.facts
        says_anything = self.blocks or self.facts.get("stopReason", ABORTED) != ABORTED
        if not says_anything or not self.is_touched or has_ended:
            self._stream = None
            return
        entry = self._writing().end(id=self.id, **self.facts)
        self._stream = None
        self._ended = self.facts.copy()
        if entry is not None:
            reason = self.facts.get("stopReason")
            message = events.AssistantMessage(position=Position(entry.uuid), stop_reason=reason)
            self._emit([message])

    def break_off(self) -> None:
        """End the message as one that broke off; its content is kept in blocks."""
        opened, self._open = self._open, {}
        pieces = {index: storable(block.broken()) for index, block in sorted(opened.items())}
        pieces = {i: piece for i, piece in pieces.items() if self._goes_further(i, piece)}
        self.stay_open()
        for index, block in pieces.items():
            self._put(index, block, broke=True)
            self._broken.add(index)
            self._emit(ended(block, self.position(index)))
        if self._ended is not None and not pieces and self._stream is None:
            self.is_streaming = False
            return
        facts = self.facts
        self.facts = {**facts, "stopReason": ABORTED}
        self.end()
        self.facts = facts

    def stay_open(self) -> None:
        """Keep the content in blocks, also where it was to be a message, so that more can come."""
        if self._granularity == "message" and (self._stream is not None or self._ended is None):
            held = self._stream.blocks if self._stream is not None else {}
            self._granularity, self._stream = "block", None
            for index in sorted(held):
                self._put(index, self.blocks[index])

    def _goes_further(self, index: int, block: dict[str, Any]) -> bool:
        """True if a block that broke off has more content than its kept part."""
        before = self.blocks.get(index)
        is_longer = before is None or len(json_text(block)) > len(json_text(before))
        return is_longer and (before is None or index in self._broken)


def _is_call(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")).endswith(("tool_use", "toolCall"))


def _is_thinking(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking")


def _text(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _started(index: int, block: Mapping[str, Any]) -> Iterator[StreamEvent]:
    if _is_thinking(block):
        yield events.ThinkingStart(block_index=index)
    elif block.get("type") == "text":
        yield events.ContentStart(block_index=index)
    elif _is_call(block):
        yield events.ToolUseStart(
            block_index=index, tool_use_id=_text(block, "id"), tool_name=_text(block, "name")
        )


def ended(block: Mapping[str, Any], position: Position) -> Iterator[StoredEvent]:
    """The event of a whole block of the model."""
    if _is_thinking(block):
        yield events.ThinkingEnd(position=position, text=_text(block, "thinking"))
    elif block.get("type") == "text":
        yield events.ContentEnd(position=position, text=_text(block, "text"))
    elif _is_call(block):
        yield events.ToolUseEnd(
            position=position,
            tool_use_id=_text(block, "id"),
            tool_name=_text(block, "name"),
            input=block.get("input", block.get("arguments")),
        )
    else:
        yield events.Passthrough(event_type=_text(block, "type"), position=position, data=block)


FIRST: Final = "streamStart"
"""The metadata key of the first event of a recording: nothing before it counts."""


Earlier = Literal["recorded", "maybe", "new"]
"""Whether some of a stream was recorded before: "new" by the uuid of its start."""


class TurnSpending:
    """What was counted since the agent started, and in this turn of its main lane."""

    def __init__(self) -> None:
        self._run: dict[str, Usage] = {}
        self._turn: dict[str, Usage] = {}
        self._models: set[Any] = set()

    def count(self, key: str, usage: Usage, model: Any, *, is_main: bool) -> None:
        """Count the usage of a message; the last count of a key is valid."""
        self._run[key] = usage
        self._models.add(model if isinstance(model, str) else None)
        if is_main:
            self._turn[key] = usage

    def end_turn(self, key: str, usage: Usage) -> None:
        """Count the usage added at the end of a turn, and start another."""
        self._run[key] = usage
        self._turn.clear()
        self._models.clear()

    def only_model(self, result: Mapping[str, Any]) -> str | None:
        """The model of the result of a turn; None where there are several."""
        named = result.get("modelUsage")
        models = set(named) if isinstance(named, Mapping) and named else self._models
        return next(iter(models)) or None if len(models) == 1 else None

    def rest(self, result: Mapping[str, Any]) -> Usage:
        """The usage in the result of a turn that is not counted yet."""
        by_model = _of_models(result)
        run = sum(self._run.values(), Usage())
        counted = run if by_model else sum(self._turn.values(), Usage())
        spent = spent_in_all(result)
        return Usage(
            input=max(0, spent.input - counted.input),
            output=max(0, spent.output - counted.output),
            cache_read=max(0, spent.cache_read - counted.cache_read),
            cache_write=max(0, spent.cache_write - counted.cache_write),
            cost=max(0.0, spent.cost - run.cost),
        )


def spent_in_all(result: Mapping[str, Any]) -> Usage:
    """The usage in a result: of all models since the agent started, or else of the turn."""
    models = _of_models(result)
    tokens = sum(models, Usage()) if models else usage_of(result.get("usage"))
    cost = result.get("total_cost_usd", result.get("cost_usd"))
    return usage_of({**tokens.as_dict(), "cost": cost})


def _of_models(result: Mapping[str, Any]) -> list[Usage]:
    models = result.get("modelUsage")
    if not isinstance(models, Mapping):
        return []
    found = (model for model in models.values() if isinstance(model, Mapping))
    return [usage_of({key: model.get(name) for key, name in _MODEL_USAGE}) for model in found]


_MODEL_USAGE: Final = (
    *(("input", "inputTokens"), ("output", "outputTokens")),
    *(("cacheRead", "cacheReadInputTokens"), ("cacheWrite", "cacheCreationInputTokens")),
)


def spent_since_start(session: Session) -> TurnSpending:
    """What was counted since the agent's last start; reads the whole file."""
    spending = TurnSpending()
    for entry in session.entries():
        if entry.type == "custom":
            about = entry.as_stored.get("metadata")
            if isinstance(about, Mapping) and FIRST in about:
                spending = TurnSpending()
        elif entry.type == "usage":
            spending.end_turn(entry.uuid, usage_of(entry.as_stored.get("usage")))
        elif entry.type in ("message", "message_end"):
            found = entry.message_as_stored if entry.type == "message" else entry.as_stored
            if isinstance(found, Mapping) and isinstance(found.get("usage"), Mapping):
                key = str(found.get("messageUuid", entry.uuid))
                is_main = (entry.lane or "main") == session.lane_name
                usage = usage_of(found["usage"])
                spending.count(key, usage, found.get("model"), is_main=is_main)
    return spending


PREFIX: Final = "claude-code:"
"""The beginning of the `customType` of kept events, before the type of the event."""

BEGUN: Final = PREFIX + "message_start"
"""The `customType` of a message that broke off before its first block."""

_ENVELOPE: Final = frozenset(
    {"type", "message", "uuid", "session_id", "parent_tool_use_id", "tool_use_result"}
)


class RecordedLane:
    """One lane of a session that is being recorded; `found` gets its events."""

    def __init__(
        self,
        session: Session,
        granularity: Granularity,
        spending: TurnSpending,
        found: list[StreamEvent],
        *,
        is_main: bool,
        earlier: Earlier,
    ) -> None:
        self.session = session
        self.spending = spending
        self._granularity: Granularity = granularity
        self._found = found
        self._is_main = is_main
        self._responses: dict[str, Response] = {}
        self._current: Response | None = None
        self._answers: dict[str, tuple[bytes, str]] = {}
        self._own: set[str] = set()
        # whether it is certain that nothing of the stream was recorded before
        self.is_new = earlier == "new"
        self._may_be_recorded = earlier == "maybe"
        if earlier == "recorded":
            self._restore()

    def _emit(self, found: Iterable[StreamEvent]) -> None:
        lane = self.session.lane_name
        for event in found:
            is_on_main = lane == "main"
            self._found.append(event if is_on_main else msgspec.structs.replace(event, lane=lane))

    def _response(self, granularity: Granularity, uuid: str | None = None) -> Response:
        return Response(self.session, granularity, self._emit, uuid)

    def _register(self, response: Response) -> None:
        if response.id is not None:
            self._responses[response.id] = response

    def _look_back(self, *ids: Any) -> None:
        """Read the path if the log has the first id of a stream whose start has no uuid."""
        given = [id for id in ids if isinstance(id, str) and id]
        if not self._may_be_recorded or not given:
            return
        self._may_be_recorded = False
        self.is_new = not self.session.reader.scan().may_hold(given[0])
        if not self.is_new:
            self._restore()

    def _restore(self) -> None:
        by_uuid: dict[str, Response] = {}
        for entry in self.session.cursor.below(None):
            if entry.type in ("block", "message_end"):
                self._restore_piece(entry, _body(entry), by_uuid)
            elif entry.type == "message":
                self._restore_message(entry.uuid, _body(entry).get("message"))
            elif entry.type == "custom" and entry.as_stored.get("customType") == BEGUN:
                self._current = self._response(self._granularity)
                self._current.restore_start(_body(entry).get("data"))
                self._register(self._current)
        if self._current is not None and not self._current.broke_off:
            self._current = None
        if self._current is not None:
            self._current.is_streaming = True

    def _restore_piece(
        self, entry: Entry, body: Mapping[str, Any], by_uuid: dict[str, Response]
    ) -> None:
        uuid, about = str(body.get("messageUuid")), body.get("metadata")
        about = about if isinstance(about, Mapping) else {}
        if uuid not in by_uuid:
            by_uuid[uuid] = self._response("block", uuid)
        response = self._current = by_uuid[uuid]
        id = about.get(MESSAGE_ID)
        if isinstance(id, str):
            response.id = id
            self._register(response)
        index, block = body.get("index"), body.get("block")
        if entry.type == "message_end":
            response.restore_end(body)
        elif isinstance(index, int) and isinstance(block, Mapping):
            response.restore_block(index, block, entry.uuid, broke=PARTIAL in about)

    def _restore_message(self, uuid: str, message: Any) -> None:
        self._current = None
        if not isinstance(message, Mapping):
            return
        self._note_answers(message, uuid)
        id = message.get("id")
        if message.get("role") != "assistant" or not isinstance(id, str):
            return
        response = self._responses.setdefault(id, self._response("message", uuid))
        response.id = id
        first = max(response.blocks, default=-1) + 1
        for index, block in enumerate(blocks_of(message), first):
            response.restore_block(index, block, uuid, broke=False)
        response.restore_end(message)

    def knows(self, message: Any) -> bool:
        """True if a message of the model was recorded before, by its id."""
        id = message.get("id") if isinstance(message, Mapping) else None
        self._look_back(id)
        return isinstance(id, str) and id in self._responses

    def caller(self, call: str) -> str | None:
        """The entry of the block with a tool call, or None."""
        for response in (*self._responses.values(), *([self._current] if self._current else ())):
            for index, block in response.blocks.items():
                if block.get("id") == call:
                    return str(response.position(index).uuid)
        return None

    def keep(
        self, kind: str, data: Any, uuid: Any = None, about: Mapping[str, Any] | None = None
    ) -> None:
        """Keep an event in a `custom` entry."""
        named, data = PREFIX + printable(kind), storable(data)
        if not is_kept(self.session, {"uuid": uuid}):
            uuid = uuid if isinstance(uuid, str) and uuid else None
            fields = {"customType": named, "data": data}
            uuid = self.session.append("custom", uuid=uuid, metadata=about, **fields).uuid
        self._emit([Passthrough(event_type=kind, position=Position(uuid), data=data)])

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take a message or a piece of one; False for an event that is not recognized."""
        kind, inner, message = event.get("type"), event.get("event"), event.get("message")
        if kind == "stream_event" and isinstance(inner, Mapping):
            return self._stream(inner)
        if kind not in ("assistant", "user") or not isinstance(message, Mapping):
            return False
        if kind == "assistant":
            self._assistant(message, event)
        else:
            self._user({"role": "user", **message}, event)
        return True

    def _stream(self, event: Mapping[str, Any]) -> bool:
        """Take a `stream_event`; False for one that is not recognized, or belongs to no message."""
        kind, index, response = event.get("type"), event.get("index"), self._current
        message, block, delta = event.get("message"), event.get("content_block"), event.get("delta")
        at = index if isinstance(index, int) and not isinstance(index, bool) else -1
        if kind == "message_start" and isinstance(message, Mapping):
            self._begin(message)
        elif kind == "message_delta" and response is not None:
            response.note_delta(event)
        elif kind == "message_stop" and response is not None:
            response.end()
            self._count(response)
        elif kind == "content_block_start" and at >= 0 and isinstance(block, Mapping):
            self._streaming().start(at, block)
        elif kind == "content_block_delta" and at >= 0 and isinstance(delta, Mapping):
            is_begun = response is not None and response.is_streaming
            return (is_begun or begins_block(delta)) and self._streaming().delta(at, delta)
        elif kind == "content_block_stop" and at >= 0 and response is not None:
            response.stop(at)
        else:
            return kind == "ping"
        return True

    def _streaming(self) -> Response:
        if self._current is None or not self._current.is_streaming:
            self.end()
            self._current = self._response(self._granularity)
            self._current.is_streaming = True
        return self._current

    def _begin(self, message: Mapping[str, Any]) -> None:
        id = message.get("id")
        self._look_back(id)
        response = self._responses.get(id) if isinstance(id, str) else None
        if self._current is not response:
            self.end()
        self._current = response or self._response(self._granularity)
        self._current.begin(message)
        self._register(self._current)

    def _assistant(self, message: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        uuid = event.get("uuid")
        self._look_back(message.get("id"))
        if isinstance(uuid, str):
            if uuid in self._own:
                return
            self._own.add(uuid)
        response = self._response_of(message.get("id"))
        if response is not self._current or response is None:
            self.end()
        self._current = response = response or self._response(self._granularity)
        response.note(message)
        self._register(response)
        response.full(blocks_of(message), is_repeatable=not isinstance(uuid, str))

    def _response_of(self, id: Any) -> Response | None:
        current = self._current
        if current is not None and current.id is None and current.is_streaming:
            return current
        if not isinstance(id, str) or not id:
            return None
        return self._responses.get(id)

    def _user(self, message: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        self._look_back(*(block.get("tool_use_id") for block in blocks_of(message)))
        if self._current is not None and not self._current.is_streaming:
            self.end()
        message = storable(dict(message))
        uuid = self._known_as(message, event)
        if uuid is None:
            about = {key: storable(event[key]) for key in event if key not in _ENVELOPE}
            fields: dict[str, Any] = {"message": message}
            if event.get("tool_use_result") is not None:
                fields["toolUseResult"] = storable(event["tool_use_result"])
            own = event["uuid"] if isinstance(event.get("uuid"), str) else None
            uuid = self.session.append(
                "message", uuid=own or None, metadata=about or None, **fields
            ).uuid
            self._own.add(uuid)
        self._note_answers(message, uuid)
        self._emit(heard(message, uuid))

    def _known_as(self, message: Mapping[str, Any], event: Mapping[str, Any]) -> str | None:
        if is_kept(self.session, event):
            return str(event["uuid"])
        found = None if isinstance(event.get("uuid"), str) else self._answered(message)
        return found or self._echoed(message)

    def _answered(self, message: Mapping[str, Any]) -> str | None:
        found = ""
        for block in blocks_of(message):
            if not is_result_block(block):
                return None
            before, found = self._answers.get(block["tool_use_id"], (b"", ""))
            if not before or before != _digest(block):
                return None
        return found or None

    def _note_answers(self, message: Mapping[str, Any], uuid: str) -> None:
        for block in blocks_of(message):
            if is_result_block(block):
                self._answers[block["tool_use_id"]] = _digest(block), uuid

    def _echoed(self, message: Mapping[str, Any]) -> str | None:
        """The prompt that the caller wrote and the agent repeats."""
        if not is_prompt(message):
            return None
        last = self.session.cursor.nearest(lambda entry: entry.is_content)
        if last is None or last.uuid in self._own:
            return None
        prompt = last.get("message")
        is_same = isinstance(prompt, Mapping) and is_prompt(prompt)
        is_same = is_same and list(blocks_of(prompt)) == list(blocks_of(message))
        return last.uuid if is_same else None

    def end(self) -> None:
        """End the open message; one in the middle of its deltas has broken off."""
        response, self._current = self._current, None
        if response is None:
            return
        if response.is_streaming and not response.is_complete:
            response.break_off()
        else:
            response.end()
        self._count(response)

    def _count(self, response: Response) -> None:
        usage, model = usage_of(response.facts.get("usage")), response.facts.get("model")
        self.spending.count(response.uuid, usage, model, is_main=self._is_main)

    def close(self) -> None:
        """End what is open, so that it can be continued."""
        response = self._current
        if response is None:
            return
        is_begun = response.is_streaming and response.is_touched
        response.stay_open()
        self.end()
        if is_begun and not response.blocks:
            self.keep("message_start", {"id": response.id, **response.facts})


def _digest(block: Mapping[str, Any]) -> bytes:
    """A short digest of a block, which may be large; empty for one nested too deep."""
    try:
        text = json.dumps(block, sort_keys=True)
    except RecursionError:
        return b""
    return blake2b(text.encode(), digest_size=16).digest()


def is_kept(session: Session, event: Mapping[str, Any]) -> bool:
    """True if an event was kept before: as the entry that has its uuid."""
    uuid = event.get("uuid")
    return isinstance(uuid, str) and session.reader.has_uuid(uuid)


def _body(entry: Entry) -> Mapping[str, Any]:
    """The keys of an entry; as stored where its spilled strings cannot be read."""
    try:
        return dict(entry.body)
    except BlobError:
        return entry.as_stored


def heard(message: Mapping[str, Any], uuid: str) -> Iterator[StoredEvent]:
    """The events of a message to the model, kept as the entry of a uuid."""
    for index, block in enumerate(blocks_of(message)):
        if is_result_block(block):
            yield events.ToolResult(
                position=Position(uuid, index),
                tool_use_id=block["tool_use_id"],
                output=text_of(block),
                is_error=block.get("is_error") is True,
            )
    if is_prompt(message):
        yield events.UserMessage(position=Position(uuid), text=text_of(message))
