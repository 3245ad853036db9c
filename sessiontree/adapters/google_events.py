"""The events of Google's ADK as messages of a session, and back.

An event has parts of several roles: texts, thoughts, calls, results, files. Parts of one role that
follow each other become one message; a result is one by itself. What such a message has no place
for is kept beside it.

Invariants: `restored` gives what `translated` got, equal as JSON; a text is kept once.

Source: `google.adk.events.Event` of google-adk 2.13 and `google.genai.types` of google-genai 2.34,
as pydantic writes them by alias.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

_URL_SAFE: Final = str.maketrans("-_", "+/")
_STANDARD: Final = str.maketrans("+/", "-_")


class Translated(NamedTuple):
    """A message of a session, and what is kept beside it."""

    message: Json
    kept: Json


class _Piece(NamedTuple):
    """A part: its role, its block, the key whose value is in the block, and the rest of it."""

    role: str
    block: Json
    moved: str | None
    rest: Json


def translated(event: Json) -> list[Translated]:
    """The messages for an event, none if it has no parts; the last keeps its other keys."""
    content = event.get("content") or {}
    answers = event.get("author") != "user"
    pieces = [_piece(part, answers) for part in content.get("parts") or []]
    groups = [list(group) for _, group in groupby(enumerate(pieces), _of_one_message)]
    found = [_joined([piece for _, piece in group]) for group in groups]
    if found:
        rest = {**event, "content": {k: v for k, v in content.items() if k != "parts"}}
        found[-1].kept["event"] = rest
        if answers:
            found[-1].message.update(_facts(event))
    return found


def restored(pieces: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Json:
    """The event that messages were made of; each with what is kept beside it."""
    parts: list[Json] = []
    event: Json = {}
    for message, kept in pieces:
        parts += (
            _part(block, moved, rest)
            for block, (moved, rest) in zip(message["content"], kept["parts"], strict=True)
        )
        event = kept.get("event", event)
    return {**event, "content": {**event["content"], "parts": parts}}


def _of_one_message(numbered: tuple[int, _Piece]) -> tuple[str, int]:
    number, piece = numbered
    return piece.role, number if piece.role == "toolResult" else 0


def _joined(group: list[_Piece]) -> Translated:
    message: Json = {"role": group[0].role, "content": [piece.block for piece in group]}
    if group[0].role == "toolResult":
        answer = group[0].rest["functionResponse"]
        message["toolCallId"], message["toolName"] = answer["id"], answer["name"]
        message["isError"] = False
    return Translated(message, {"parts": [[piece.moved, piece.rest] for piece in group]})


def _piece(part: Json, answers: bool) -> _Piece:
    role = "assistant" if answers else "user"
    if isinstance(part.get("text"), str):
        kind = "thinking" if part.get("thought") else "text"
        block = {"type": kind, kind: part["text"]}
        return _Piece(role, block, "text", _without(part, "text"))
    call: Any = part.get("functionCall")
    answer: Any = part.get("functionResponse")
    data: Any = part.get("inlineData")
    if _is_named(call):
        named = {"id": call["id"], "name": call["name"], "arguments": call.get("args")}
        rest = {**part, "functionCall": _without(call, "args")}
        moved = "args" if "args" in call else None
        return _Piece("assistant", {"type": "toolCall", **named}, moved, rest)
    if _is_named(answer) and "response" in answer:
        rest = {**part, "functionResponse": _without(answer, "response")}
        return _Piece("toolResult", _json(answer["response"]), "response", rest)
    if isinstance(data, dict) and isinstance(data.get("data"), str):
        type = str(data.get("mimeType"))
        source = {"type": "base64", "media_type": type, "data": data["data"].translate(_URL_SAFE)}
        block = {"type": "image" if type.startswith("image/") else "document", "source": source}
        return _Piece(role, block, "data", {**part, "inlineData": _without(data, "data")})
    return _Piece(role, _json(part), "part", {})


def _part(block: Mapping[str, Any], moved: str | None, rest: Json) -> Json:
    """A part with what its block has of it."""
    match moved:
        case "text":
            return {**rest, "text": block[block["type"]]}
        case "args":
            return {**rest, "functionCall": {**rest["functionCall"], "args": block["arguments"]}}
        case "response":
            response = json.loads(block["text"])
            return {**rest, "functionResponse": {**rest["functionResponse"], "response": response}}
        case "data":
            data = block["source"]["data"].translate(_STANDARD)
            return {**rest, "inlineData": {**rest["inlineData"], "data": data}}
        case "part":
            part: Json = json.loads(block["text"])
            return part
    return rest


def _facts(event: Json) -> Json:
    """What a session tells of an answer: the model and the tokens."""
    usage = event.get("usageMetadata") or {}
    read = usage.get("cachedContentTokenCount") or 0
    thought = usage.get("thoughtsTokenCount") or 0
    told: Json = {"usage": {}} if usage else {}
    if usage:
        told["usage"] = {
            "input": max(0, (usage.get("promptTokenCount") or 0) - read),
            "output": (usage.get("candidatesTokenCount") or 0) + thought,
            "cacheRead": read,
            "cacheWrite": 0,
        }
    if event.get("modelVersion"):
        told["model"] = event["modelVersion"]
    return told


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), str) for k in ("id", "name"))


def _json(value: Any) -> Json:
    return {"type": "text", "text": json.dumps(value, ensure_ascii=False, separators=(",", ":"))}


def _without(keys: Json, name: str) -> Json:
    return {key: value for key, value in keys.items() if key != name}
