"""The messages of pydantic-ai as messages of a session, and back.

A message of pydantic-ai has parts of several roles: prompts, results of tools, system prompts.
Parts of one role that follow each other become one message; a result is one by itself. What such a
message has no place for, for example the id of a part, is kept beside it.

Invariants: `restored` gives what `translated` got, equal as JSON; a text is kept once.

Source: `pydantic_ai.messages` of pydantic-ai-slim 2.68, as `ModelMessagesTypeAdapter` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from sessiontree.core.message import json_text

Json = dict[str, Any]

_RESULTS: Final = ("tool-return", "retry-prompt", "tool-search-return", "capability-load-return")
_CALLS: Final = ("tool-call", "tool-search-call", "capability-load-call")
_PROMPTS: Final = ("user-prompt", "retry-prompt", "retry-feedback")
_STOPS: Final = {"stop": "stop", "length": "length", "tool_call": "toolUse", "error": "error"}


class Translated(NamedTuple):
    """A message of a session, and what is kept beside it."""

    message: Json
    kept: Json


class _Piece(NamedTuple):
    """A block, the name of the key that it has the value of, and the other keys.

    Without a name, all keys are kept.
    """

    block: Json
    moved: str | None
    rest: Any


class _Part(NamedTuple):
    """A part: its role, its blocks, and what is kept of it."""

    role: str
    blocks: list[Json]
    kept: Json


def translated(message: Json) -> list[Translated]:
    """The messages for one message of pydantic-ai, at least one; the last keeps its other keys."""
    is_answer = message["kind"] == "response"
    parts = [_answered(part) if is_answer else _asked(part) for part in message["parts"]]
    found = [_joined(role, group) for role, group in _groups(parts)]
    if not found:
        found = [Translated({"role": "assistant" if is_answer else "user", "content": []}, {})]
    found[-1].kept["message"] = {key: value for key, value in message.items() if key != "parts"}
    if is_answer:
        found[-1].message.update(_facts(message))
    return found


def restored(pieces: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Json:
    """The message of pydantic-ai that messages were made of; each with what is kept beside it."""
    parts: list[Json] = []
    rest: Json = {}
    for message, kept in pieces:
        blocks = iter(message["content"])
        parts += (_whole_part(part, blocks) for part in kept.get("parts", ()))
        rest = kept.get("message", rest)
    return {"parts": parts, **rest}


def _groups(parts: Iterable[_Part]) -> Iterator[tuple[str, list[_Part]]]:
    """The parts of one role that follow each other; each result alone."""
    for role, group in groupby(parts, lambda part: part.role):
        if role == "toolResult":
            yield from ((role, [part]) for part in group)
        else:
            yield role, list(group)


def _joined(role: str, group: list[_Part]) -> Translated:
    message: Json = {"role": role, "content": [block for part in group for block in part.blocks]}
    if role == "toolResult":
        part = group[0].kept["part"]
        message["toolCallId"] = part["tool_call_id"]
        message["toolName"] = part["tool_name"]
        is_retry = part["part_kind"] == "retry-prompt"
        message["isError"] = is_retry or part.get("outcome", "success") != "success"
    return Translated(message, {"parts": [part.kept for part in group]})


def _asked(part: Json) -> _Part:
    """A part of a request."""
    kind, content = part["part_kind"], part.get("content")
    if kind in _RESULTS and isinstance(part.get("tool_call_id"), str) and part.get("tool_name"):
        role = "toolResult"
    else:
        role = "user" if kind in _PROMPTS else "system"
    if kind == "user-prompt" and isinstance(content, list):
        pieces = [_item(item) for item in content]
        items = [[piece.moved, piece.rest] for piece in pieces]
        kept = {"part": _without(part, "content"), "items": items}
        return _Part(role, [piece.block for piece in pieces], kept)
    if isinstance(content, str):
        return _part(role, _Piece(_text(content), "content", _without(part, "content")))
    shown = f"[{kind}]" if content is None else json_text(content)
    return _part(role, _Piece(_text(shown), None, part))


def _answered(part: Json) -> _Part:
    """A part of a response."""
    kind, content = part["part_kind"], part.get("content")
    if kind == "text" and isinstance(content, str):
        return _part("assistant", _Piece(_text(content), "content", _without(part, "content")))
    if kind == "thinking" and isinstance(content, str):
        block = {"type": "thinking", "thinking": content}
        return _part("assistant", _Piece(block, "content", _without(part, "content")))
    if kind in _CALLS and isinstance(part.get("tool_call_id"), str):
        named = {"id": part["tool_call_id"], "name": part.get("tool_name")}
        call = {"type": "toolCall", **named, "arguments": part.get("args")}
        moved = "args" if "args" in part else None
        return _part("assistant", _Piece(call, moved, _without(part, "args")))
    return _part("assistant", _Piece({"type": kind}, None, part))


def _part(role: str, piece: _Piece) -> _Part:
    kept: Json = {"part": piece.rest}
    if piece.moved is not None:
        kept["moved"] = piece.moved
    return _Part(role, [piece.block], kept)


def _item(item: Any) -> _Piece:
    """An item of a prompt."""
    if isinstance(item, str):
        return _Piece(_text(item), "text", None)
    kind, data = item.get("kind"), item.get("data")
    if kind == "binary" and isinstance(data, str):
        type = item.get("media_type")
        named = "image" if str(type).startswith("image/") else "document"
        block: Json = {"type": named, "source": _base64(type, data)}
        return _Piece(block, "data", _without(item, "data"))
    if kind == "image-url":
        shown: Json = {"type": "image", "source": {"type": "url", "url": item.get("url")}}
        return _Piece(shown, None, item)
    text = item.get("content", item.get("url"))
    return _Piece(_text(text if isinstance(text, str) else f"[{kind}]"), None, item)


def _whole_part(kept: Mapping[str, Any], blocks: Iterator[Mapping[str, Any]]) -> Json:
    """A part with what its blocks have of it."""
    part = dict(kept["part"])
    if "items" in kept:
        part["content"] = [_whole_item(moved, rest, next(blocks)) for moved, rest in kept["items"]]
        return part
    block = next(blocks)
    moved = kept.get("moved")
    if moved == "args":
        part["args"] = block["arguments"]
    elif moved == "content":
        part["content"] = block["thinking" if block["type"] == "thinking" else "text"]
    return part


def _whole_item(moved: str | None, rest: Any, block: Mapping[str, Any]) -> Any:
    if moved == "text":
        return block["text"]
    return rest if moved is None else {**rest, "data": block["source"]["data"]}


def _facts(message: Json) -> Json:
    """What a session tells of an answer: the model, the tokens, and why it ended."""
    usage = message.get("usage") or {}
    read, written = usage.get("cache_read_tokens") or 0, usage.get("cache_write_tokens") or 0
    told = {
        "input": max(0, (usage.get("input_tokens") or 0) - read - written),
        "output": usage.get("output_tokens") or 0,
        "cacheRead": read,
        "cacheWrite": written,
    }
    facts = {
        "model": message.get("model_name"),
        "provider": message.get("provider_name"),
        "stopReason": _STOPS.get(message.get("finish_reason") or ""),
    }
    return {key: value for key, value in facts.items() if value} | {"usage": told}


def _base64(type: Any, data: str) -> Json:
    return {"type": "base64", "media_type": type, "data": data}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _without(keys: Json, name: str) -> Json:
    return {key: value for key, value in keys.items() if key != name}
