"""In whose shape a message is stored: pi's, Anthropic's, or another.

A message in the target's own shape is carried over as it is, unknown kinds of blocks
included; any other is taken apart by `context.providers.reading` and put together anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.message import Message, kind_of

_OPENAI: Final = frozenset(
    {
        *("input_text", "output_text", "input_image", "image_url", "refusal", "file"),
        *("input_file", "reasoning", "compaction"),
    }
)
_ANTHROPIC: Final = frozenset(
    {"tool_use", "tool_result", "redacted_thinking", "server_tool_use", "document"}
)
_ENVELOPE_OF_PI: Final = ("api", "stopReason", "provider")
_NOT_PIS: Final = ("tool_calls", "function_call", "refusal", "type", "stop_reason")
_NOT_ANTHROPICS: Final = ("tool_calls", "function_call", "refusal", *_ENVELOPE_OF_PI)


def is_pi(message: Message) -> bool:
    """Whether the pi coding agent would show a message as it is."""
    role, content = message.get("role"), message.get("content")
    if role == "bashExecution":
        return isinstance(message.get("command"), str)
    if role == "assistant":
        if any(message.get(key) for key in _NOT_PIS):
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
        return role != "assistant" and _are_texts(block, "data", "mimeType")
    if kind == "thinking":
        return role == "assistant" and "signature" not in block and _are_texts(block, "thinking")
    if kind == "toolCall":
        called = isinstance(block.get("arguments"), dict) and _are_texts(block, "id", "name")
        return role == "assistant" and called
    return bool(kind) and kind not in _OPENAI | _ANTHROPIC and not kind.endswith("_tool_result")


def is_anthropic(message: Message) -> bool:
    """Whether a message is one of Anthropic's Messages API."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant") or any(message.get(key) for key in _NOT_ANTHROPICS):
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
        return _are_texts(block, "thinking", "signature") and bool(block["signature"])
    if kind == "tool_use":
        return isinstance(block.get("input"), dict) and _are_texts(block, "id", "name")
    if kind == "tool_result":
        return role == "user" and _are_texts(block, "tool_use_id") and _is_said(block)
    return bool(kind) and kind not in _OPENAI and kind != "toolCall"


def _is_said(block: Mapping[str, Any]) -> bool:
    """Whether what a tool answered is in Anthropic's shape too."""
    content = block.get("content")
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_anthropic_block(b, "user") for b in content)


def _are_texts(block: Mapping[str, Any], *keys: str) -> bool:
    return all(isinstance(block.get(key), str) for key in keys)
