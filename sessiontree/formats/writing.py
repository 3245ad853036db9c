"""What a target cannot say, named: each thing once, how often, and where first.

What stands around the content of a model's message: who made it, why it ended, its usage.

In whose shape a message is stored: pi's, Anthropic's, or another.

A message in the target's own shape is carried over as it is, unknown kinds of blocks
included; any other is taken apart by `context.providers.reading` and put together anew.

Values as lines of JSON that any reader takes.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec

from sessiontree.context.providers.parts import maker_of
from sessiontree.context.providers.values import Notes, clean_value
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import Message, kind_of
from sessiontree.core.usage import usage_of
from sessiontree.errors import EntryError

ORIGINAL: Final = "original"
"""The key in which an import keeps what a line said beside."""

_STRUCTURE: Final = frozenset(
    {"type", "uuid", "parentUuid", "lane", "timestamp", "crc", "spilled", "variantOf"}
)
_AROUND: Final = frozenset(
    {
        *("type", "uuid", "parentUuid", "id", "parentId", "isSidechain", "agentId", "isMeta"),
        *("cwd", "version", "gitBranch", "userType", "sessionId", "timestamp"),
    }
)
"""Keys of lines of other programs for which each line that is written has its own."""


class Loss(msgspec.Struct, frozen=True):
    """Something of a session that the converted file does not say, or says otherwise.

    Attributes:
        what: what it is, and what became of it, in words.
        count: how often it was met.
        entry: the uuid of the first entry with it; None where it belongs to none.
    """

    what: str
    count: int
    entry: str | None

    def __str__(self) -> str:
        times = f"{self.count:,} times, first in entry" if self.count > 1 else "entry"
        return f"{self.what} ({times} {self.entry[:8]})" if self.entry else self.what


class Losses(Notes):
    """Collects losses. `uuid` is that of the entry that is looked at just now."""

    def at(self, uuid: str, what: str) -> None:
        """Note something about an entry."""
        self.uuid = uuid
        self.add(what)

    def keys(self, entry: Entry, told: Container[str]) -> None:
        """Note the keys of an entry that a target does not tell.

        Args:
            entry: as stored.
            told: those that it tells, beside the place in the tree.
        """
        self.uuid = entry.uuid
        for key, value in entry.as_stored.items():
            if key in told or key in _STRUCTURE:
                continue
            inner = value if key == ORIGINAL and isinstance(value, dict) else {key: value}
            for name in inner:
                if name not in _AROUND:
                    kind = one_line(entry.type, 40)
                    self.add(f"the key {one_line(name, 40)!r} of a {kind} is not told")

    def found(self) -> list[Loss]:
        """The losses in the order met."""
        return [Loss(what, count, uuid or None) for what, (count, uuid) in self._found.items()]


UNKNOWN: Final = "unknown"

_APIS: Final = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
_STOPS_OF_PI: Final = frozenset({"stop", "length", "toolUse", "error", "aborted", "deferred"})
_AS_PI: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "tool_calls": "toolUse",
    "refusal": "error",
}
_AS_ANTHROPIC: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "toolUse": "tool_use",
    "error": "end_turn",
    "aborted": "end_turn",
    "deferred": "pause_turn",
}


def provider_of(model: str, message: Message) -> str:
    """Whose model it is, as told, or else as its name tells."""
    told = message.get("provider")
    if isinstance(told, str) and told:
        return told
    maker = maker_of({**message, "model": model})
    if maker:
        return maker
    if model.startswith(("gpt-", "o1", "o3", "o4", "codex")):
        return "openai"
    return "google" if model.startswith("gemini") else UNKNOWN


def api_of(message: Message, provider: str) -> str:
    """The API that a message came through, in pi's words."""
    told = message.get("api")
    if isinstance(told, str) and told:
        return told
    if "tool_calls" in message:
        return "openai-completions"
    return _APIS.get(provider, UNKNOWN)


def pis_stop(message: Message, *, calls: bool) -> str:
    """Why a message ended, in pi's words."""
    if message.get("partial"):
        return "aborted"
    told = message.get("stopReason", message.get("stop_reason", message.get("finish_reason")))
    if isinstance(told, str) and told in _STOPS_OF_PI:
        return told
    return _AS_PI.get(str(told), "toolUse" if calls else "stop")


def anthropics_stop(message: Message, *, calls: bool) -> str:
    """Why a message ended, in Anthropic's words."""
    told = message.get("stop_reason", message.get("stopReason"))
    if isinstance(told, str) and told in _AS_PI:
        return told
    return _AS_ANTHROPIC.get(str(told), "tool_use" if calls else "end_turn")


def pis_usage(reported: Any) -> dict[str, Any]:
    """Usage in pi's shape."""
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


def anthropics_usage(reported: Any) -> dict[str, Any]:
    """Usage in Anthropic's shape."""
    if isinstance(reported, Mapping) and "input_tokens" in reported:
        return dict(reported)
    used = usage_of(reported)
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
    }


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


def json_of(value: Any) -> bytes:
    """A value as JSON on one line, lone surrogates escaped as Node does.

    Numbers that JSON cannot carry become text.

    Raises:
        RecursionError: it is nested too deep.
    """
    try:
        return dumps(value)
    except EntryError:
        pass
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError):
        return json.dumps(clean_value(value), separators=(",", ":")).encode()
