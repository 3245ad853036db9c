"""Messages of any shape as Claude Code stores them: Anthropic's, with results as the user's.

A summary becomes a user message that says what it is. Thinking without a signature of
Anthropic is left out, because Anthropic's API would refuse the whole conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sessiontree.context.providers import parts
from sessiontree.context.providers.anthropic import source_of
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
    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)

    def of(self, message: Message, model: str | None) -> list[dict[str, Any]]:
        """The messages made from one; none if it has no content."""
        if _is_anthropic(message):
            own = {key: value for key, value in message.items() if key not in _PI_KEYS}
            return [self._completed(own, message, model)]
        made: list[tuple[parts.Side, list[parts.Part]]] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, parts.Thinking) and part.maker != "anthropic":
                self._losses.add(_UNSIGNED)
                continue
            if not made or made[-1][0] != side:
                made.append((side, []))
            made[-1][1].append(part)
        found: list[dict[str, Any]] = []
        for side, pieces in made:
            is_user = side == "user"
            content = self._content(pieces) if is_user else [self._block(p, side) for p in pieces]
            found.append(self._completed({"role": side, "content": content}, message, model))
        return found

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
        made.setdefault("model", writing.text_in(message.get("model")) or model or writing.UNKNOWN)
        if id := writing.text_in(message.get("id")):
            made.setdefault("id", id)
        made.setdefault("type", "message")
        made.setdefault("stop_reason", _stop_reason(message, calls=calls))
        made.setdefault("stop_sequence", None)
        made["usage"] = _usage(message.get("usage"))
        return made

    def _block(self, part: parts.Part, side: parts.Side) -> dict[str, Any]:
        if isinstance(part, parts.Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, parts.Media):
            return self._media(part, side)
        if isinstance(part, parts.Thinking):
            if part.redacted:
                return {"type": "redacted_thinking", "data": part.seal}
            return {"type": "thinking", "thinking": part.text, "signature": part.seal}
        if isinstance(part, parts.Call):
            called = {"id": part.id, "name": part.name}
            return {"type": "tool_use", **called, "input": writing.arguments_of(part)}
        if isinstance(part, parts.Hosted):
            return part.block
        return self._result(part)

    def _result(self, result: parts.Result) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": result.id}
        failed = {"is_error": True} if result.failed else {}
        return {**block, "content": self._content(result.parts), **failed}

    def _content(self, pieces: Sequence[parts.Part]) -> Any:
        """The content of a user message or a result: the text, if that is all of it."""
        if len(pieces) == 1 and isinstance(text := pieces[0], parts.Text):
            return text.text
        return [self._block(part, "user") for part in pieces]

    def _media(self, media: parts.Media, side: parts.Side) -> dict[str, Any]:
        source = source_of(media)
        if source is None or side == "assistant":
            return {"type": "text", "text": self._losses.replaced(media)}
        return {"type": media.kind, "source": source}


def _stop_reason(message: Message, *, calls: bool) -> str:
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
    role = message.get("role")
    if role not in ("user", "assistant") or any(message.get(key) for key in _FOREIGN_KEYS):
        return False
    return _has_own_content(message, role)


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
        if role != "user" or not writing.are_texts(block, "tool_use_id"):
            return False
        return block.get("content") is None or _has_own_content(block, "user")
    return bool(kind) and kind not in writing.OPENAI_BLOCKS and kind != "toolCall"


def _has_own_content(holder: Mapping[str, Any], role: str) -> bool:
    content = holder.get("content")
    if isinstance(content, list):
        return all(_is_anthropic_block(block, role) for block in content)
    return isinstance(content, str)
