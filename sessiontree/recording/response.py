"""A response: one message of the model, from its deltas, from whole events, or from both.

Blocks have Anthropic's shape: `text`, `thinking` with its `signature`, `tool_use` with its `input`,
and any other as it started. The deltas are those of the Messages API's streaming: `text_delta`,
`thinking_delta`, `signature_delta`, `input_json_delta`, `citations_delta`.

Invariants: a block is kept once, however often it comes; a whole event overrides deltas that
differ; a message that broke off is kept, marked, and can be continued, also by a later recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from sessiontree.core.message import ABORTED, json_text
from sessiontree.engine.writer import fresh_uuid
from sessiontree.recording import events
from sessiontree.recording.events import Event, Position
from sessiontree.recording.open_block import BEGUN_BY, OpenBlock, delta_text, storable
from sessiontree.recording.stream import Granularity, MessageStream

if TYPE_CHECKING:
    from sessiontree.session import Session

MESSAGE_ID: Final = "messageId"
"""The metadata key of a block or an end for the provider's id of the message."""

PARTIAL: Final = "partial"
"""The metadata key of a block that broke off."""

_NOT_A_MODEL: Final = "<synthetic>"
"""The model that Claude Code names in a message that it wrote itself."""


class Response:
    """One message, being recorded; `uuid` is the `messageUuid` of one that was recorded before.

    Attributes:
        id: the provider's; None until it is known.
        is_streaming: whether it began with deltas, and has not ended.
        is_touched: whether this recording got anything of it.
        facts: `model`, `usage` and `stopReason`, as far as known.
        blocks: its kept blocks, by index.
    """

    def __init__(
        self,
        session: Session,
        granularity: Granularity,
        emit: Callable[[Iterable[Event]], None],
        uuid: str | None = None,
    ) -> None:
        self.id: str | None = None
        self.uuid = uuid or fresh_uuid()
        self.is_streaming = self.is_touched = False
        self.facts: dict[str, Any] = {}
        self.blocks: dict[int, dict[str, Any]] = {}
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
        """Whether it broke off, or never ended."""
        return self._ended is None or self._ended.get("stopReason") == ABORTED

    @property
    def is_complete(self) -> bool:
        """Whether all of it came, but for the event that ends it."""
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
        if isinstance(model, str) and model and model != _NOT_A_MODEL:
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
        """The index of a block that came already, by deltas or whole."""
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
        pieces = {index: storable(block.finished()) for index, block in sorted(opened.items())}
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
        """Whether a block that broke off has more content than its kept part."""
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


def _started(index: int, block: Mapping[str, Any]) -> Iterator[Event]:
    if _is_thinking(block):
        yield events.ThinkingStart(block_index=index)
    elif block.get("type") == "text":
        yield events.ContentStart(block_index=index)
    elif _is_call(block):
        yield events.ToolUseStart(
            block_index=index, tool_use_id=_text(block, "id"), tool_name=_text(block, "name")
        )


def ended(block: Mapping[str, Any], position: Position) -> Iterator[Event]:
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
