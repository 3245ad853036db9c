"""The values of LangGraph's channels as JSON, and back.

A value that JSON can carry is kept as it is; a message of LangChain as a message of the session,
and what such a message has no place for beside it; anything else as the serializer of the saver
writes it.

Invariants: `decoded` gives a value equal to the one that `encoded` got; `restored` gives a message
equal to the one that `translated` got. With another serializer than `JsonPlusSerializer`, which may
encrypt, nothing is kept in plain text.

Source: `langchain_core.messages` 1.7, and the serializers of langgraph-checkpoint 4.3.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, Final

from sessiontree.adapters.sdk import LANGGRAPH
from sessiontree.core.message import json_text
from sessiontree.errors import EntryError

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
except ImportError as error:
    raise LANGGRAPH.unknown(error) from error

Json = dict[str, Any]

_KINDS: Final[Mapping[str, type[BaseMessage]]] = {
    kind.__name__: kind for kind in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}
_ROLES: Final = {"ai": "assistant", "system": "system", "tool": "toolResult", "function": "user"}
_MOST: Final = 1 << 63
_DEEPEST: Final = 64


def encoded(value: Any, serde: SerializerProtocol) -> Json:
    """The value as JSON."""
    if _is_open(serde):
        if _is_plain(value):
            return {"json": value}
        if isinstance(value, BaseMessage):
            return {"message": list(translated(value, serde))}
        if type(value) is list:
            return {"list": [encoded(item, serde) for item in value]}
        if type(value) is dict and all(type(key) is str and _is_text(key) for key in value):
            return {"dict": {key: encoded(item, serde) for key, item in value.items()}}
    return {"serde": _dumped(value, serde)}


def decoded(kept: Json, serde: SerializerProtocol) -> Any:
    """The value that `encoded` made JSON of."""
    if "json" in kept:
        return kept["json"]
    if "message" in kept:
        shown, beside = kept["message"]
        return restored(shown, beside, serde)
    if "list" in kept:
        return [decoded(item, serde) for item in kept["list"]]
    if "dict" in kept:
        return {key: decoded(item, serde) for key, item in kept["dict"].items()}
    return _loaded(kept["serde"], serde)


def are_messages(value: Any, serde: SerializerProtocol) -> bool:
    """Whether a value is a list of messages that may be kept in plain text."""
    return (
        type(value) is list
        and bool(value)
        and _is_open(serde)
        and all(isinstance(item, BaseMessage) for item in value)
    )


def translated(message: BaseMessage, serde: SerializerProtocol) -> tuple[Json, Json]:
    """The message of a session for a message, and what is kept beside it."""
    shown = _shown(message)
    if type(message).__name__ in _KINDS and not message.__pydantic_extra__:
        kept = _rest(message, shown)
        if kept is not None and _built(shown, kept) == message:
            return shown, kept
    return shown, {"serde": _dumped(message, serde)}


def restored(shown: Mapping[str, Any], kept: Mapping[str, Any], serde: SerializerProtocol) -> Any:
    """The message that `translated` got."""
    return _loaded(kept["serde"], serde) if "serde" in kept else _built(shown, kept)


def _is_open(serde: SerializerProtocol) -> bool:
    return type(serde) is JsonPlusSerializer


def _dumped(value: Any, serde: SerializerProtocol) -> list[str]:
    try:
        kind, content = serde.dumps_typed(value)
    except (TypeError, ValueError) as error:
        name = type(value).__name__
        raise EntryError(f"the serializer cannot write a value of type {name}: {error}") from error
    return [kind, b64encode(content).decode()]


def _loaded(kept: Sequence[str], serde: SerializerProtocol) -> Any:
    return serde.loads_typed((kept[0], b64decode(kept[1])))


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether JSON gives the very same value back."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is str:
        return _is_text(value)
    if kind is int:
        return bool(-_MOST <= value < _MOST)
    if kind is float:
        return math.isfinite(value)
    if depth == _DEEPEST:
        return False
    if kind is list:
        return all(_is_plain(item, depth + 1) for item in value)
    return kind is dict and all(
        type(key) is str and _is_text(key) and _is_plain(item, depth + 1)
        for key, item in value.items()
    )


def _is_text(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON cannot carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(message: BaseMessage) -> Json:
    """The message as a session shows it."""
    calls = _calls(message)
    content = _content(message.content)
    if calls:
        before = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [*(before if content else []), *calls]
    shown: Json = {"role": _ROLES.get(message.type, "user"), "content": content}
    if isinstance(message, ToolMessage):
        shown["toolCallId"] = message.tool_call_id
        shown["toolName"] = message.name or ""
        shown["isError"] = message.status == "error"
    elif isinstance(message, AIMessage):
        shown.update(_facts(message))
    return shown


def _content(content: Any) -> Any:
    """The content as a text, or as a list of blocks."""
    if isinstance(content, str):
        return content if _is_text(content) else ascii(content)
    blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
    if all(type(block) is dict and isinstance(block.get("type"), str) for block in blocks) and (
        _is_plain(blocks)
    ):
        return blocks
    return json_text(content) if _is_plain(content) else ascii(content)


def _calls(message: BaseMessage) -> list[Json]:
    """The calls of an answer as blocks, unless its content has them."""
    if not isinstance(message, AIMessage) or not _is_plain(message.tool_calls):
        return []
    content = message.content
    if isinstance(content, list) and any(
        isinstance(item, dict) and "id" in item for item in content
    ):
        return []
    if not all(isinstance(call.get("id"), str) for call in message.tool_calls):
        return []
    return [
        {"type": "toolCall", "id": call["id"], "name": call["name"], "arguments": call["args"]}
        for call in message.tool_calls
    ]


def _rest(message: BaseMessage, shown: Json) -> Json | None:
    """What the shown message has no place for; None if JSON cannot carry it."""
    usual = _usual(type(message))
    rest = {
        key: value
        for key, value in message.__dict__.items()
        if key not in ("content", "type") and (key not in usual or value != usual[key])
    }
    kept: Json = {"is": type(message).__name__, "fields": rest}
    if isinstance(message, ToolMessage):
        del rest["tool_call_id"]
    calls = _calls(message)
    if calls:
        kept["calls"] = len(calls)
        del rest["tool_calls"]
    before = shown["content"][: -len(calls)] if calls else shown["content"]
    if calls and isinstance(message.content, str):
        before = before[0]["text"] if before else ""
    if before == message.content:
        kept["text"] = bool(calls) and isinstance(message.content, str)
    else:
        rest["content"] = message.content
    return kept if _is_plain(kept) else None


def _built(shown: Mapping[str, Any], kept: Mapping[str, Any]) -> BaseMessage:
    """A message of what is shown, and of what is kept beside it."""
    kind = _KINDS[kept["is"]]
    fields = {key: copy(value) for key, value in _usual(kind).items()} | kept["fields"]
    count, content = kept.get("calls", 0), shown["content"]
    if count:
        fields["tool_calls"] = [
            {
                "name": call["name"],
                "args": call["arguments"],
                "id": call["id"],
                "type": "tool_call",
            }
            for call in content[-count:]
        ]
        content = content[:-count]
    if "content" not in fields:
        is_text = kept["text"]
        fields["content"] = (content[0]["text"] if content else "") if is_text else content
    if "toolCallId" in shown:
        fields["tool_call_id"] = shown["toolCallId"]
    return kind.model_construct(**fields)


@cache
def _usual(kind: type[BaseMessage]) -> Json:
    """What the fields of a kind of message are unless they are given."""
    return {
        key: field.get_default(call_default_factory=True)
        for key, field in kind.model_fields.items()
        if not field.is_required()
    }


def _facts(message: AIMessage) -> Json:
    """What a session tells of an answer: the model, and the tokens."""
    told = message.response_metadata
    facts = {"model": told.get("model_name"), "provider": told.get("model_provider")}
    found: Json = {key: value for key, value in facts.items() if value and isinstance(value, str)}
    usage = message.usage_metadata
    if usage is not None:
        details = usage.get("input_token_details") or {}
        read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
        found["usage"] = {
            "input": max(0, usage["input_tokens"] - read - written),
            "output": usage["output_tokens"],
            "cacheRead": read,
            "cacheWrite": written,
        }
    return found
