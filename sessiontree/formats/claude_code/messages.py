"""Messages of any shape as Claude Code keeps them: Anthropic's, results as the user's.

A summary is said by the user, in words that tell what it is. Thinking that Anthropic
did not sign is left out: its API would refuse the whole conversation.
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
from sessiontree.context.providers.values import clean_value, object_in
from sessiontree.core.message import Message, kind_of
from sessiontree.formats.writing import (
    UNKNOWN,
    Losses,
    anthropics_stop,
    anthropics_usage,
    is_anthropic,
)

_PIS: Final = frozenset(
    {"timestamp", "api", "provider", "stopReason", "errorMessage", "responseId", "responseModel"}
)
"""Keys that pi puts on messages of its own, also where all else of one is Anthropic's too."""

_SEAL: Final = "thinking without a signature of Anthropic was left out"


class AnthropicMessages:
    """Makes messages of Anthropic's, each the user's or the assistant's.

    Args:
        losses: takes what is left out, or said in another way.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)

    def of(self, message: Message, model: str | None) -> list[dict[str, Any]]:
        """The messages that stand for one, none where it says nothing."""
        if is_anthropic(message):
            own = {key: value for key, value in message.items() if key not in _PIS}
            return [self._completed(own, message, model)]
        made: list[tuple[Side, list[Part]]] = []
        for side, part in self._reading.parts_of(message):
            if isinstance(part, Thinking) and part.maker != "anthropic":
                self._losses.add(_SEAL)
                continue
            if not made or made[-1][0] != side:
                made.append((side, []))
            made[-1][1].append(part)
        return [self._message(side, parts, message, model) for side, parts in made]

    def _message(
        self, side: Side, parts: Sequence[Part], message: Message, model: str | None
    ) -> dict[str, Any]:
        if side == "user":
            if len(parts) == 1 and isinstance(said := parts[0], Text):
                return {"role": "user", "content": said.text}
            return {"role": "user", "content": [self._block(part, side) for part in parts]}
        blocks = [self._block(part, side) for part in parts]
        return self._completed({"role": "assistant", "content": blocks}, message, model)

    def _completed(
        self, made: dict[str, Any], message: Message, model: str | None
    ) -> dict[str, Any]:
        """An assistant's message with all that readers of Claude Code expect of one."""
        if made["role"] != "assistant":
            return made
        if isinstance(made["content"], str):
            text = made["content"]
            made["content"] = [{"type": "text", "text": text}] if text else []
        if made.pop("partial", None):
            self._losses.add("a message that broke off is not marked as such")
        calls = any(kind_of(block) == "tool_use" for block in made["content"])
        named = message.get("model")
        id = message.get("id")
        ended = anthropics_stop(message, calls=calls)
        made.setdefault("model", named if isinstance(named, str) and named else model or UNKNOWN)
        if isinstance(id, str) and id:
            made.setdefault("id", id)
        made.setdefault("type", "message")
        made.setdefault("stop_reason", ended)
        made.setdefault("stop_sequence", None)
        made["usage"] = anthropics_usage(message.get("usage"))
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
            return self._call(part)
        if isinstance(part, Hosted):
            return part.block
        return self._result(part)

    def _call(self, call: Call) -> dict[str, Any]:
        given = call.arguments
        if isinstance(given, str):
            held = None if call.freeform else object_in(given)
            given = {"input": given} if held is None else clean_value(held)
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}

    def _result(self, result: Result) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
        parts = result.parts
        if len(parts) == 1 and isinstance(said := parts[0], Text):
            block["content"] = said.text
        else:
            block["content"] = [self._block(part, "user") for part in parts]
        if result.failed:
            block["is_error"] = True
        return block

    def _media(self, media: Media, side: Side) -> dict[str, Any]:
        source = source_of(media)
        if source is None or side == "assistant":
            self._losses.add(f"the {stand_in(media)[1:-1]} is only named")
            return {"type": "text", "text": stand_in(media)}
        return {"type": media.kind, "source": source}
