"""Messages of any shape as Claude Code stores them: Anthropic's, with results as the user's.

A summary becomes a user message that says what it is. Thinking without a signature of
Anthropic is left out, because Anthropic's API would refuse the whole conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sessiontree.context.providers.anthropic import source_of
from sessiontree.context.providers.parts import (
    Call,
    Hosted,
    Media,
    Part,
    Result,
    Side,
    Text,
    Thinking,
    stand_in,
)
from sessiontree.context.providers.reading import Reading
from sessiontree.core.message import Message, kind_of
from sessiontree.core.usage import usage_of
from sessiontree.formats import writing

_PI_KEYS: Final = frozenset(
    {"timestamp", "api", "provider", "stopReason", "errorMessage", "responseId", "responseModel"}
)
"""The keys that pi adds to messages, also to those in Anthropic's shape."""

_FOREIGN_KEYS: Final = (
    *("tool_calls", "function_call", "refusal"),
    *("api", "stopReason", "provider"),
)
_STOP_REASONS: Final = frozenset(
    {
        *("end_turn", "stop_sequence", "pause_turn", "max_tokens", "tool_use", "tool_calls"),
        "refusal",
    }
)
_STOP_REASON_OF: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "toolUse": "tool_use",
    "error": "end_turn",
    "aborted": "end_turn",
    "deferred": "pause_turn",
}

_UNSIGNED: Final = "thinking without a signature of Anthropic is left out"


class AnthropicMessages:
    """Makes user and assistant messages in Anthropic's shape."""

    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)

    def of(self, message: Message, model: str | None) -> list[dict[str, Any]]:
        """The messages made from one; none if it has no content."""
        if _is_anthropic(message):
            own = {key: value for key, value in message.items() if key not in _PI_KEYS}
            return [self._completed(own, message, model)]
        made: list[tuple[Side, list[Part]]] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, Thinking) and part.maker != "anthropic":
                self._losses.add(_UNSIGNED)
                continue
            if not made or made[-1][0] != side:
                made.append((side, []))
            made[-1][1].append(part)
        return [self._message(side, parts, message, model) for side, parts in made]

    def _message(
        self, side: Side, parts: Sequence[Part], message: Message, model: str | None
    ) -> dict[str, Any]:
        if side == "user":
            if len(parts) == 1 and isinstance(text := parts[0], Text):
                return {"role": "user", "content": text.text}
            return {"role": "user", "content": [self._block(part, side) for part in parts]}
        blocks = [self._block(part, side) for part in parts]
        return self._completed({"role": "assistant", "content": blocks}, message, model)

    def _completed(
        self, made: dict[str, Any], message: Message, model: str | None
    ) -> dict[str, Any]:
        """An assistant message with every key that readers of Claude Code expect."""
        if made["role"] != "assistant":
            return made
        if isinstance(made["content"], str):
            made["content"] = writing.block_list(made["content"])
        if made.pop("partial", None):
            self._losses.add("a partial message is not marked as partial")
        calls = any(kind_of(block) == "tool_use" for block in made["content"])
        given = message.get("model")
        id = message.get("id")
        made.setdefault(
            "model", given if isinstance(given, str) and given else model or writing.UNKNOWN
        )
        if isinstance(id, str) and id:
            made.setdefault("id", id)
        made.setdefault("type", "message")
        made.setdefault("stop_reason", _stop_reason(message, calls=calls))
        made.setdefault("stop_sequence", None)
        made["usage"] = _usage(message.get("usage"))
        return made

    def _block(self, part: Part, side: Side) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Media):
            return self._media(part, side)
        if isinstance(part, Thinking):
            if part.redacted:
                return {"type": "redacted_thinking", "data": part.seal}
            return {"type": "thinking", "thinking": part.text, "signature": part.seal}
        if isinstance(part, Call):
            called = {"id": part.id, "name": part.name}
            return {"type": "tool_use", **called, "input": writing.arguments_of(part)}
        if isinstance(part, Hosted):
            return part.block
        return self._result(part)

    def _result(self, result: Result) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
        parts = result.parts
        if len(parts) == 1 and isinstance(text := parts[0], Text):
            block["content"] = text.text
        else:
            block["content"] = [self._block(part, "user") for part in parts]
        if result.failed:
            block["is_error"] = True
        return block

    def _media(self, media: Media, side: Side) -> dict[str, Any]:
        source = source_of(media)
        if source is None or side == "assistant":
            self._losses.add(f"the {stand_in(media)[1:-1]} is replaced by its name")
            return {"type": "text", "text": stand_in(media)}
        return {"type": media.kind, "source": source}


def _stop_reason(message: Message, *, calls: bool) -> str:
    """Why a message ended, in Anthropic's words."""
    given = message.get("stop_reason", message.get("stopReason"))
    if isinstance(given, str) and given in _STOP_REASONS:
        return given
    return _STOP_REASON_OF.get(str(given), "tool_use" if calls else "end_turn")


def _usage(reported: Any) -> dict[str, Any]:
    if isinstance(reported, Mapping) and "input_tokens" in reported:
        return dict(reported)
    used = usage_of(reported)
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
    }


def _is_anthropic(message: Message) -> bool:
    """Whether a message has the shape of Anthropic's Messages API."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant") or any(message.get(key) for key in _FOREIGN_KEYS):
        return False
    if isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_anthropic_block(b, str(role)) for b in content)


def _is_anthropic_block(block: Any, role: str) -> bool:
    if not isinstance(block, dict):
        return False
    kind = kind_of(block)
    if kind == "text":
        return isinstance(block.get("text"), str)
    if kind in ("image", "document"):
        return role == "user" and isinstance(block.get("source"), Mapping)
    if kind == "thinking":
        return writing.are_texts(block, "thinking", "signature") and bool(block["signature"])
    if kind == "tool_use":
        return isinstance(block.get("input"), dict) and writing.are_texts(block, "id", "name")
    if kind == "tool_result":
        return (
            role == "user" and writing.are_texts(block, "tool_use_id") and _has_own_content(block)
        )
    return bool(kind) and kind not in writing.OPENAI_BLOCKS and kind != "toolCall"


def _has_own_content(block: Mapping[str, Any]) -> bool:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_anthropic_block(b, "user") for b in content)
