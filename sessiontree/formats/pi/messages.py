"""Messages of any shape as the pi coding agent stores them.

pi has one message for each result of a tool, and supports text and images with their
bytes. Each message gets the other keys that pi requires: model, usage, time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.providers import parts
from sessiontree.context.providers.reading import Reading
from sessiontree.core.message import Message, kind_of
from sessiontree.core.usage import usage_of
from sessiontree.formats import writing

_APIS: Final = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
_STOP_REASONS: Final = frozenset({"stop", "length", "toolUse", "error", "aborted", "deferred"})
_STOP_REASON_OF: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "tool_calls": "toolUse",
    "refusal": "error",
}
_ANTHROPIC: Final = frozenset(
    {"tool_use", "tool_result", "redacted_thinking", "server_tool_use", "document"}
)
_FOREIGN_KEYS: Final = ("tool_calls", "function_call", "refusal", "type", "stop_reason")

Model = tuple[str | None, str]
"""The provider, or None if it is not known, and the model's id."""


class PiMessages:
    def __init__(self, losses: writing.Losses) -> None:
        self._losses = losses
        self._reading = Reading(losses, None)
        self._tools: dict[str, str] = {}
        self._counted: set[str] = set()

    def of(self, message: Message, model: Model | None, time: int) -> list[dict[str, Any]]:
        """The messages made from one; `time` is the entry's, in milliseconds since 1970."""
        made = [dict(message)] if _is_pi(message) else self._translated(message)
        for each in made:
            self._complete(each, message, model, time)
        return made

    def _translated(self, message: Message) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        last: parts.Side | None = None
        for side, part in self._reading.parts_of(message):
            if isinstance(part, parts.Result):
                made.append(self._result(part))
                last = None
                continue
            if side != last:
                role = "assistant" if side == "assistant" else "user"
                made.append({"role": role, "content": []})
                last = side
            block = self._block(part, side)
            if block is not None:
                made[-1]["content"].append(block)
        return made

    def blocks(self, content: Any, role: str) -> Any:
        """The new content of a message, in the form that its role requires."""
        if isinstance(content, str):
            return content if role in ("user", "custom") else writing.block_list(content)
        if _is_pi({"role": role, "content": content, "toolCallId": ""}):
            return content
        side: parts.Side = "assistant" if role == "assistant" else "user"
        pieces = self._reading.parts_of({"role": side, "content": content})
        own = (part for _, part in pieces if not isinstance(part, parts.Result))
        return [block for part in own if (block := self._block(part, side)) is not None]

    def _result(self, result: parts.Result) -> dict[str, Any]:
        return {
            "role": "toolResult",
            "toolCallId": result.id,
            "toolName": result.name,
            "content": [block for part in result.parts if (block := self._block(part, "user"))],
            "isError": result.failed,
        }

    def _block(self, part: parts.Part, side: parts.Side) -> dict[str, Any] | None:
        if isinstance(part, parts.Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, parts.Media):
            return self._media(part, side)
        if isinstance(part, parts.Thinking):
            return _thinking(part)
        if isinstance(part, parts.Call):
            called = {"id": part.id, "name": part.name}
            return {"type": "toolCall", **called, "arguments": writing.arguments_of(part)}
        if isinstance(part, parts.Hosted):
            self._losses.add(f"a block of the kind {kind_of(part.block)!r} is left out")
        return None

    def _media(self, media: parts.Media, side: parts.Side) -> dict[str, Any]:
        if media.kind == "image" and media.data and side == "user":
            return {"type": "image", "data": media.data, "mimeType": media.media_type}
        text = self._losses.replaced(media, ": pi needs an image's bytes")
        return {"type": "text", "text": text}

    def _complete(
        self, made: dict[str, Any], message: Message, model: Model | None, time: int
    ) -> None:
        role = made["role"]
        if role == "assistant":
            self._complete_answer(made, message, model)
        elif role == "toolResult":
            made["content"] = writing.block_list(made.get("content"))
            id = str(made["toolCallId"])
            made["toolName"] = made.get("toolName") or self._tools.get(id, "")
            made["isError"] = made.get("isError") is True
        elif role != "bashExecution" and made.get("content") is None:
            made["content"] = []
        at = message.get("timestamp")
        made["timestamp"] = at if isinstance(at, int | float) else time

    def _complete_answer(self, made: dict[str, Any], message: Message, model: Model | None) -> None:
        made["content"] = writing.block_list(made.get("content"))
        calls = [block for block in made["content"] if kind_of(block) == "toolCall"]
        for call in calls:
            self._tools[call["id"]] = call["name"]
        known = model[1] if model else writing.UNKNOWN
        id = writing.text_in(message.get("model")) or known
        provider = provider_of(id, message)
        if provider == writing.UNKNOWN and model is not None and model[1] == id and model[0]:
            provider = model[0]
        made.update(api=_api_of(message, provider), provider=provider, model=id)
        made["usage"] = self._usage(message)
        made["stopReason"] = _stop_reason(message, calls=bool(calls))
        made.pop("partial", None)

    def _usage(self, message: Message) -> dict[str, Any]:
        """The usage; zero if another part of the same response had it."""
        id, reported = writing.text_in(message.get("id")), message.get("usage")
        if id in self._counted:
            reported = None
        elif id and reported is not None:
            self._counted.add(id)
        return _pi_usage(reported)


def _thinking(part: parts.Thinking) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "thinking", "thinking": part.text or part.told}
    if part.item is not None:
        block["thinkingSignature"] = json.dumps(part.item, ensure_ascii=False)
    elif part.seal:
        block["thinkingSignature"] = part.seal
    if part.redacted:
        block["redacted"] = True
    return block


def provider_of(model: str, message: Message) -> str:
    """The provider in the message, or else the one that the model's name implies."""
    given = writing.text_in(message.get("provider"))
    if known := given or parts.maker_of({**message, "model": model}):
        return known
    if model.startswith(("gpt-", "o1", "o3", "o4", "codex")):
        return "openai"
    return "google" if model.startswith("gemini") else writing.UNKNOWN


def _api_of(message: Message, provider: str) -> str:
    if given := writing.text_in(message.get("api")):
        return given
    if "tool_calls" in message:
        return "openai-completions"
    return _APIS.get(provider, writing.UNKNOWN)


def _stop_reason(message: Message, *, calls: bool) -> str:
    if message.get("partial"):
        return "aborted"
    given = message.get("stopReason", message.get("stop_reason", message.get("finish_reason")))
    if isinstance(given, str) and given in _STOP_REASONS:
        return given
    return _STOP_REASON_OF.get(str(given), "toolUse" if calls else "stop")


def _pi_usage(reported: Any) -> dict[str, Any]:
    if isinstance(reported, Mapping) and isinstance(reported.get("cost"), Mapping):
        return dict(reported)
    used = usage_of(reported)
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": used.cost}
    return {
        "input": used.input,
        "output": used.output,
        "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write,
        "totalTokens": used.input + used.output + used.cache_read + used.cache_write,
        "cost": cost,
    }


def _is_pi(message: Message) -> bool:
    role, content = message.get("role"), message.get("content")
    if role == "bashExecution":
        return isinstance(message.get("command"), str)
    if role == "assistant":
        if any(message.get(key) for key in _FOREIGN_KEYS):
            return False
    elif role == "toolResult":
        if not isinstance(message.get("toolCallId"), str):
            return False
    elif role not in ("user", "custom"):
        return False
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_pi_block(block, str(role)) for block in content)


def _is_pi_block(block: Any, role: str) -> bool:
    if not isinstance(block, dict):
        return False
    kind = kind_of(block)
    if kind == "text":
        return isinstance(block.get("text"), str)
    if kind == "image":
        return role != "assistant" and writing.are_texts(block, "data", "mimeType")
    if kind == "thinking":
        return (
            role == "assistant"
            and "signature" not in block
            and writing.are_texts(block, "thinking")
        )
    if kind == "toolCall":
        called = isinstance(block.get("arguments"), dict) and writing.are_texts(block, "id", "name")
        return role == "assistant" and called
    return (
        bool(kind)
        and kind not in writing.OPENAI_BLOCKS | _ANTHROPIC
        and not kind.endswith("_tool_result")
    )
