"""Messages of any shape as Claude Code stores them: Anthropic's, with results as the user's.

A summary becomes a user message that says what it is. Thinking without a signature of
Anthropic is left out, because Anthropic's API would refuse the whole conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from sessiontree.formats.writing import (
    UNKNOWN,
    Losses,
    anthropic_stop_reason,
    anthropic_usage,
    arguments_of,
    block_list,
    is_anthropic,
)

_PI_KEYS: Final = frozenset(
    {"timestamp", "api", "provider", "stopReason", "errorMessage", "responseId", "responseModel"}
)
"""The keys that pi adds to messages, also to those in Anthropic's shape."""

_UNSIGNED: Final = "thinking without a signature of Anthropic is left out"


class AnthropicMessages:
    """Makes user and assistant messages in Anthropic's shape."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)

    def of(self, message: Message, model: str | None) -> list[dict[str, Any]]:
        """The messages made from one; none if it has no content."""
        if is_anthropic(message):
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
            made["content"] = block_list(made["content"])
        if made.pop("partial", None):
            self._losses.add("a partial message is not marked as partial")
        calls = any(kind_of(block) == "tool_use" for block in made["content"])
        given = message.get("model")
        id = message.get("id")
        made.setdefault("model", given if isinstance(given, str) and given else model or UNKNOWN)
        if isinstance(id, str) and id:
            made.setdefault("id", id)
        made.setdefault("type", "message")
        made.setdefault("stop_reason", anthropic_stop_reason(message, calls=calls))
        made.setdefault("stop_sequence", None)
        made["usage"] = anthropic_usage(message.get("usage"))
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
            return {"type": "tool_use", **called, "input": arguments_of(part)}
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
