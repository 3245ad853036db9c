"""A message of Gemini CLI, as one of the pi coding agent's shape."""

from __future__ import annotations

import json
from typing import Any


def content_of(content: Any) -> Any:
    """A list of Gemini's parts as blocks; a string as it is."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return [_block(part) for part in content]


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return {"type": "part", "part": part}
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    inline = part.get("inlineData")
    if isinstance(inline, dict):
        return {"type": "image", "data": inline.get("data"), "mimeType": inline.get("mimeType")}
    return {"type": next(iter(part), "part"), **part}


def assistant_of(message: dict[str, Any]) -> dict[str, Any]:
    thoughts = message.get("thoughts")
    blocks: list[Any] = [
        {"type": "thinking", "thinking": _thought(thought)}
        for thought in (thoughts if isinstance(thoughts, list) else ())
        if isinstance(thought, dict)
    ]
    content = content_of(message.get("content"))
    if isinstance(content, str):
        blocks += [{"type": "text", "text": content}] if content else []
    else:
        blocks += content
    blocks += [
        {
            "type": "toolCall",
            "id": call["id"],
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
        for call in calls_of(message)
    ]
    said: dict[str, Any] = {"role": "assistant", "content": blocks}
    if isinstance(message.get("model"), str):
        said |= {"provider": "google", "model": message["model"]}
    if isinstance(message.get("tokens"), dict):
        said["usage"] = message["tokens"]
    return said


def _thought(thought: dict[str, Any]) -> str:
    parts = (thought.get("subject"), thought.get("description"))
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("toolCalls")
    found = calls if isinstance(calls, list) else []
    return [call for call in found if isinstance(call, dict) and isinstance(call.get("id"), str)]


def result_of(call: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a call as a message; None for a call that has none yet."""
    result = call.get("result")
    if result is None:
        return None
    parts = result if isinstance(result, list) else [result]
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call.get("name"),
        "content": [_result_block(part) for part in parts],
        "isError": call.get("status") not in ("success", None),
    }


def _result_block(part: Any) -> Any:
    response = part.get("functionResponse") if isinstance(part, dict) else None
    told = response.get("response") if isinstance(response, dict) else None
    if not isinstance(told, dict):
        return _block(part)
    output = told.get("output", told.get("error"))
    text = output if isinstance(output, str) else json.dumps(told, ensure_ascii=False)
    return {"type": "text", "text": text}
