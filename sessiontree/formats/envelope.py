"""What stands around the content of a model's message: who made it, why it ended, its usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.providers.sealed import maker_of
from sessiontree.core.message import Message
from sessiontree.core.usage import usage_of

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
