"""Stream events of Anthropic's and OpenAI's APIs, and the block that they build.

`AnthropicEvents` takes the events of the Messages API, `ResponsesEvents` those of OpenAI's
Responses API, `ChatEvents` those of Chat Completions, in the dialects of the servers that speak it.
All give the finished parts in the order that the model gave them, and what is left of a stream that
broke off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sessiontree.context.providers.values import clean_text
from sessiontree.core.entry import RESPONSE, decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import ABORTED, blocks_of, json_text, kind_of, text_of
from sessiontree.engine.writer import fresh_uuid
from sessiontree.errors import EntryError, UsageError, warn

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
        elif is_resumed and given == "":
            self.start["input"] = {}

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

    def broken(self) -> dict[str, Any]:
        """The block as far as it came; a call of which no argument came has an empty text."""
        block = self.finished()
        is_bare = "input" not in self._texts and block.get("input") == {}
        return {**block, "input": ""} if is_bare else block

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
_REPEATED: Final = frozenset(
    {
        *("ping", "text", "thinking", "signature", "citation", "input_json"),
        *("content.delta", "content.done", "refusal.delta", "refusal.done"),
        *("tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"),
        *("logprobs.content.delta", "logprobs.content.done"),
        *("logprobs.refusal.delta", "logprobs.refusal.done"),
    }
)
"""Events of the SDKs that repeat what others say."""

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


def is_chat_event(event: Mapping[str, Any]) -> bool:
    """True if an event is a chunk of Chat Completions."""
    return _chunk_in(event) is not None


class AnthropicEvents:
    """The events of one message of the Messages API."""

    usage_follows = False  # whether more may come after the end

    def __init__(self) -> None:
        # `id`, `model`, `usage` and `stopReason`, as far as known
        self.facts: dict[str, Any] = {"provider": "anthropic"}
        self.beside: dict[str, Any] = {}  # other keys of the message
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
        return [(index, storable(block.broken())) for index, block in sorted(left.items())]

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

    usage_follows = False

    def __init__(self) -> None:
        # `responseId`, `model`, `usage`, `status` and more, as far as known
        self.facts: dict[str, Any] = {}
        self.beside: dict[str, Any] = {}
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
            self.facts[RESPONSE] = response["id"]
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


_REASONING: Final = ("reasoning_content", "reasoning")
"""The keys of a delta that have thinking. A server that gives both says the same in both."""

_CHUNK: Final = "chat.completion.chunk"


def _chunk_in(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the chunk of Chat Completions that an event is or has, or None."""
    if kind_of(event) == "chunk" and isinstance(event.get("chunk"), Mapping):
        event = event["chunk"]  # of the stream helper of OpenAI's SDK
    is_chunk = event.get("object") == _CHUNK or isinstance(event.get("choices"), list)
    return event if is_chunk else None


class _ChatCall:
    """A call whose pieces arrive. Servers repeat its id and name, or give them only once."""

    def __init__(self, place: int) -> None:
        self.place = place  # its index in the message
        self.id = ""
        self._name = ""
        self._given: Any = None  # arguments that came as an object
        self._texts: list[str] = []

    def add(self, piece: Mapping[str, Any]) -> None:
        made = _mapping(piece, "function")
        self.id = self.id or _text(piece, "id")
        name = _text(made, "name")
        if name != self._name and not self._texts:
            self._name += name
        arguments = made.get("arguments")
        if isinstance(arguments, str):
            self._texts += [arguments] if arguments else []
        elif arguments is not None:
            self._given = arguments

    def finished(self, *, is_whole: bool) -> dict[str, Any]:
        """Return the call. Its arguments are the text that the model wrote."""
        text = "".join(self._texts) or ("{}" if is_whole else "")
        named = {"id": self.id or f"call_{fresh_uuid()}", "name": self._name}
        arguments = text if self._given is None else self._given
        return {"type": "toolCall", **named, "arguments": arguments}


class ChatEvents:
    """The chunks of one answer of Chat Completions, as OpenAI and other servers give them.

    No chunk is known to be the last: one with the usage may follow the one with the reason.
    """

    usage_follows = True

    def __init__(self) -> None:
        # `id`, `model`, `usage` and `stopReason`, as far as known
        self.facts: dict[str, Any] = {"api": "openai-completions"}
        self.beside: dict[str, Any] = {}  # other keys of the message, such as `annotations`
        self.is_ended = False  # whether the reason to stop came
        self._places = 0  # how many blocks began
        self._open: tuple[int, str, str] | None = None  # index, kind and field of the open block
        self._texts: list[str] = []  # of the open block
        self._calls: list[_ChatCall] = []
        self._by_index: dict[int, _ChatCall] = {}
        self._is_warned = False

    def take(self, event: Mapping[str, Any]) -> list[Part]:
        """Take a chunk; return the blocks that it finished."""
        chunk = _chunk_in(event) or {}
        for key in ("id", "model"):
            if text := _text(chunk, key):
                self.facts[key] = text
        if isinstance(usage := chunk.get("usage"), Mapping):
            self.facts["usage"] = {k: v for k, v in usage.items() if v is not None}
        choices = chunk.get("choices")
        parts: list[Part] = []
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                parts += self._choice(choice)
        return parts

    def rest(self) -> list[Part]:
        """The blocks that are open, as far as they came."""
        calls, self._calls, self._by_index = self._calls, [], {}
        made = [(call.place, storable(call.finished(is_whole=self.is_ended))) for call in calls]
        return [*self._end_block(), *made]

    def _choice(self, choice: Mapping[str, Any]) -> list[Part]:
        if choice.get("index"):
            if not self._is_warned:
                self._is_warned = True
                warn("the stream has more than one choice; only the first is stored")
            return []
        delta = choice.get("delta") or choice.get("message")  # of a server that does not stream
        parts = list(self._delta(delta)) if isinstance(delta, Mapping) else []
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason != "error":
            self.facts["stopReason"] = reason
            self.is_ended = True
            parts += self.rest()
        return parts

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Part]:
        content, reasoning = delta.get("content"), [k for k in _REASONING if delta.get(k)]
        for field in reasoning[:1]:
            yield from self._add("thinking", delta[field], field)
        if isinstance(content, list):  # pieces of text and of thinking
            for block in blocks_of(delta):
                thought = block.get("thinking")
                said = thought if isinstance(thought, str) else text_of({"content": thought})
                yield from self._add("thinking", said, "content")
                yield from self._add("text", block.get("text"))
        else:
            yield from self._add("text", content)
        yield from self._add("refusal", delta.get("refusal"))
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            if isinstance(piece, Mapping):
                yield from self._end_block()
                self._call(piece)
        for key, value in delta.items():
            if value is not None and key not in _READ:
                self.beside[key] = storable(_accumulated(self.beside.get(key), value))

    def _add(self, kind: str, text: Any, field: str = "") -> Iterator[Part]:
        if not isinstance(text, str) or not text:
            return
        if self._open is None or self._open[1:] != (kind, field):
            yield from self._end_block()
            self._open = self._next_place(), kind, field
        self._texts.append(text)

    def _next_place(self) -> int:
        self._places += 1
        return self._places - 1

    def _end_block(self) -> list[Part]:
        if self._open is None:
            return []
        place, kind, field = self._open
        block = {"type": kind, kind: "".join(self._texts)}
        if kind == "thinking" and field in _REASONING:
            block["thinkingSignature"] = field  # as pi names the field that it came in
        self._open, self._texts = None, []
        return [(place, storable(block))]

    def _call(self, piece: Mapping[str, Any]) -> None:
        index, id = piece.get("index"), _text(piece, "id")
        call = self._begun(index, id, piece)
        if call is None or (id and call.id and id != call.id):
            call = _ChatCall(self._next_place())
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        call.add(piece)

    def _begun(self, index: Any, id: str, piece: Mapping[str, Any]) -> _ChatCall | None:
        """Return the call that a piece belongs to: by index, by id, or the last one without a name.

        Some servers give no index, and some give each call the index 0.
        """
        if isinstance(index, int):
            return self._by_index.get(index)
        if id:
            return next((call for call in self._calls if call.id == id), None)
        has_name = bool(_text(_mapping(piece, "function"), "name"))
        return self._calls[-1] if self._calls and not has_name else None


_READ: Final = frozenset({"role", "content", "refusal", "tool_calls", *_REASONING})
"""The keys of a delta that become blocks; others are kept in the message."""


def _accumulated(before: Any, piece: Any) -> Any:
    """Join the pieces of a value: texts and lists in order, objects by key or by `index`."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, Mapping) and isinstance(piece, Mapping):
        return {**before, **{k: _accumulated(before.get(k), v) for k, v in piece.items()}}
    if isinstance(before, list) and isinstance(piece, list):
        return [*before, *piece]
    return before if piece is None else piece


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


ProviderEvents = AnthropicEvents | ResponsesEvents | ChatEvents


def events_of(event: Mapping[str, Any]) -> ProviderEvents | None:
    """What takes the events of a stream, by an event; None for one that any stream may have."""
    kind = kind_of(event)
    if is_chat_event(event):
        return ChatEvents()
    if kind in ANTHROPIC_EVENTS:
        return AnthropicEvents()
    if is_responses_event(event):
        return ResponsesEvents()
    if kind in _REPEATED or kind == "error" or (not kind and event.get("error")):
        return None
    raise UsageError(
        f"{kind or 'this'!r} is not an event of Anthropic's Messages API, OpenAI's Responses API "
        "or Chat Completions; use start, delta and stop"
    )
