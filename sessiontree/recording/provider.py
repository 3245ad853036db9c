"""Stream events of Anthropic's and OpenAI's APIs, and the block that they build.

`AnthropicEvents` takes the events of the Messages API, `ResponsesEvents` those of OpenAI's
Responses API. Both give the finished parts in the order that the model gave them, and what is left
of a stream that broke off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.providers.values import clean_text
from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import ABORTED, json_text, kind_of
from sessiontree.errors import EntryError, UsageError

_TEXT_OF_DELTA: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""By type of delta: the key of its text, and the key of the block that it belongs to."""

BEGUN_BY: Final = {"text_delta": "text", "thinking_delta": "thinking"}


class OpenBlock:
    """A block that has not ended; a resumed one starts as far as it came before it broke off."""

    def __init__(self, start: Mapping[str, Any], *, is_resumed: bool = False) -> None:
        self.start = dict(start)
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Any] = []
        given = self.start.get("input")
        if is_resumed and given:
            self._texts["input"] = [given if isinstance(given, str) else json_text(given)]

    def add(self, delta: Mapping[str, Any]) -> bool:
        """Take a delta; False for one of an unknown type."""
        kind = delta.get("type")
        if kind == "signature_delta":
            self.start["signature"] = delta.get("signature")
            return True
        if kind == "citations_delta":
            self._citations.append(delta.get("citation"))
            return True
        text = delta_text(delta)
        if text is None:
            return False
        self._texts.setdefault(_TEXT_OF_DELTA[str(kind)][1], []).append(text)
        return True

    def finished(self) -> dict[str, Any]:
        """The block as it is now, its input as text where that is not JSON yet."""
        block = self.start.copy()
        for key, pieces in self._texts.items():
            text = "".join(pieces)
            if key == "input":
                found = decode_leniently(text.encode("utf-8", "surrogatepass"))
                block[key] = found if found is not None and _is_storable(found) else text
            else:
                before = block.get(key)
                block[key] = (before if isinstance(before, str) else "") + text
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), *self._citations]
        return block


def delta_text(delta: Mapping[str, Any]) -> str | None:
    """The text of a delta; None for one of another type, or without a text."""
    keys = _TEXT_OF_DELTA.get(str(delta.get("type")))
    text = delta.get(keys[0]) if keys else None
    return text if isinstance(text, str) else None


def begins_block(delta: Mapping[str, Any]) -> bool:
    """True if a delta can belong to a block whose start was not seen."""
    return str(delta.get("type")) in BEGUN_BY and delta_text(delta) is not None


def _is_storable(value: Any) -> bool:
    """True if JSON carries a value. It does not carry every value it can spell, such as 1e999."""
    try:
        dumps(storable(value))
    except EntryError:
        return False
    return True


def storable(value: Any) -> Any:
    """The same value with surrogate pairs joined, and lone surrogates as U+FFFD.

    A stream that is cut between the halves of a pair has them in two pieces.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {storable(key): storable(kept) for key, kept in value.items()}
    if isinstance(value, list):
        return [storable(kept) for kept in value]
    return value


ANTHROPIC_EVENTS: Final = frozenset(
    {
        *("message_start", "message_delta", "message_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
    }
)
_REPEATED: Final = frozenset({"ping", "text", "thinking", "signature", "citation", "input_json"})
"""Events of Anthropic's SDK that repeat what others say."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_DELTAS: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "thinking",
    "response.reasoning_summary_text.delta": "thinking",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
}
"""The deltas of an item, and the key of the block that a broken item becomes."""

Part = tuple[int, dict[str, Any]]
"""The index of a block or an item, and the block or item."""


def is_responses_event(event: Mapping[str, Any]) -> bool:
    """True if an event is one of OpenAI's Responses API."""
    return kind_of(event).startswith("response.")


class AnthropicEvents:
    """The events of one message of the Messages API."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}  # `id`, `model`, `usage` and `stopReason`, as far as known
        self.is_ended = False  # whether the message has ended
        self._open: dict[int, OpenBlock] = {}

    def take(self, event: Mapping[str, Any]) -> list[Part]:
        """Take an event; return the blocks that it finished."""
        kind, index = kind_of(event), event.get("index")
        index = index if isinstance(index, int) else 0
        if kind == "message_start":
            self._note(_object(event, "message"))
        elif kind == "content_block_start":
            self._open[index] = OpenBlock(_object(event, "content_block"))
        elif kind == "content_block_delta":
            self._add(index, _object(event, "delta"))
        elif kind == "content_block_stop" and index in self._open:
            return [(index, storable(self._open.pop(index).finished()))]
        elif kind == "message_delta":
            self._note({"usage": event.get("usage"), **_object(event, "delta")})
        elif kind == "message_stop":
            self.is_ended = True
            return self.rest()
        return []

    def rest(self) -> list[Part]:
        """The blocks that are open, as far as they came."""
        left, self._open = self._open, {}
        return [(index, storable(block.finished())) for index, block in sorted(left.items())]

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        if index not in self._open:
            kind = BEGUN_BY.get(kind_of(delta))
            if kind is None:
                raise UsageError(f"a {kind_of(delta)} belongs to no block; feed each event once")
            self._open[index] = OpenBlock({"type": kind, kind: ""})
        if not self._open[index].add(delta):
            raise UsageError(f"a content block has no {kind_of(delta)!r}; feed the events as given")

    def _note(self, facts: Mapping[str, Any]) -> None:
        for key, kept in (("id", "id"), ("model", "model"), ("stop_reason", "stopReason")):
            if isinstance(facts.get(key), str):
                self.facts[kept] = facts[key]
        if isinstance(usage := facts.get("usage"), Mapping):
            given = {key: value for key, value in usage.items() if value is not None}
            self.facts["usage"] = {**self.facts.get("usage", {}), **given}


class ResponsesEvents:
    """The events of one response of the Responses API."""

    def __init__(self) -> None:
        # `responseId`, `model`, `usage`, `status` and more, as far as known
        self.facts: dict[str, Any] = {}
        self.is_ended = False  # whether the response has ended
        self._open: dict[int, tuple[dict[str, Any], dict[str, list[str]]]] = {}
        self._done: dict[int, dict[str, Any]] = {}
        self._given: set[int] = set()

    def take(self, event: Mapping[str, Any]) -> list[Part]:
        """Take an event; return the items that are finished, and that no open one precedes."""
        kind, index = kind_of(event), event.get("output_index")
        if isinstance(event.get("response"), Mapping):
            self._note(event["response"])
        if kind in _ENDS:
            self.is_ended = kind != "response.failed"
            for place, item in enumerate(_object(event, "response").get("output") or ()):
                self._finish(place, item)
        elif isinstance(index, int):
            if kind == "response.output_item.added":
                self._open[index] = dict(_object(event, "item")), {}
            elif kind == "response.output_item.done":
                self._finish(index, _object(event, "item"))
            elif kind in _DELTAS and index in self._open and isinstance(event.get("delta"), str):
                self._open[index][1].setdefault(_DELTAS[kind], []).append(event["delta"])
        first = min(self._open, default=None)
        ready = sorted(i for i in self._done if first is None or i < first)
        return [(index, self._done.pop(index)) for index in ready]

    def rest(self) -> list[Part]:
        """The items that are open, as messages that broke off, and those that waited for them."""
        for index, (item, texts) in self._open.items():
            self._done[index] = _broken(item, {key: "".join(t) for key, t in texts.items()})
        self._open.clear()
        left, self._done = self._done, {}
        return sorted(left.items())

    def _finish(self, index: int, item: Mapping[str, Any]) -> None:
        self._open.pop(index, None)
        if index not in self._given:
            self._given.add(index)
            self._done[index] = storable(dict(item))

    def _note(self, response: Mapping[str, Any]) -> None:
        if isinstance(response.get("id"), str):
            self.facts["responseId"] = response["id"]
        for key in ("model", "usage", "status", "incomplete_details", "error"):
            if response.get(key) is not None:
                self.facts[key] = storable(response[key])


def _broken(item: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """An item that broke off, as a message: a provider refuses half an item in its own shape."""
    content: list[dict[str, Any]] = []
    if texts.get("thinking"):
        content.append({"type": "thinking", "thinking": texts["thinking"]})
    if texts.get("text"):
        content.append({"type": "text", "text": texts["text"]})
    if isinstance(item.get("call_id"), str):
        call = {"type": "toolCall", "id": item["call_id"], "name": item.get("name") or ""}
        content.append({**call, "arguments": texts.get("arguments", "")})
    message = {"role": "assistant", "content": storable(content or [item])}
    return {**message, "stopReason": ABORTED, "partial": True}


def _object(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    if not isinstance(value, Mapping):
        raise UsageError(f"the event {kind_of(event)!r} has no {key}; feed the events as given")
    return value


def events_of(event: Mapping[str, Any]) -> AnthropicEvents | ResponsesEvents | None:
    """What takes the events of a stream, by an event; None for one that any stream may have."""
    kind = kind_of(event)
    if kind in ANTHROPIC_EVENTS:
        return AnthropicEvents()
    if is_responses_event(event):
        return ResponsesEvents()
    if kind in _REPEATED or kind == "error":
        return None
    raise UsageError(
        f"{kind or 'this'!r} is no event of Anthropic's Messages API or OpenAI's Responses API; "
        "use start, delta and stop"
    )
