"""One conversation in the shape of each peer: the same texts, calls and results.

The entries of a corpus are the source. The pi coding agent's messages have the
shape of the corpus; Claude Code keeps the messages of Anthropic's API, and the
OpenAI Agents SDK the items of the Responses API.
"""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

Fields = dict[str, Any]

CLAUDE_VERSION: Final = "2.0.0"


class PiLines:
    """Entries of the pi coding agent's session format, version 3."""

    def __init__(self) -> None:
        self._ids: dict[str, str | None] = {}

    def id_of(self, uuid: str) -> str | None:
        return self._ids[uuid]

    def lines(self, entry: Fields) -> list[Fields]:
        kind, uuid = entry["type"], entry["uuid"]
        if kind == "session":
            self._ids[uuid] = None
            keys = {key: entry[key] for key in ("id", "timestamp", "cwd")}
            return [{"type": "session", "version": 3, **keys}]
        above = self._ids[entry["parentUuid"]]
        if kind == "branch":  # there the leaf is where the next entry hangs
            self._ids[uuid] = above
            return []
        self._ids[uuid] = id = f"{len(self._ids):08x}"
        base = {"type": kind, "id": id, "parentId": above, "timestamp": entry["timestamp"]}
        if kind == "compaction":
            first_kept = self._ids[entry["firstKeptEntryUuid"]]
            summary = {key: entry[key] for key in ("summary", "tokensBefore")}
            return [{**base, "firstKeptEntryId": first_kept, **summary}]
        return [{**base, "message": entry["message"]}]


class ClaudeLines:
    """Lines of a Claude Code transcript."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._places: dict[str, str | None] = {}

    def lines(self, entry: Fields) -> list[Fields]:
        kind, uuid = entry["type"], entry["uuid"]
        if kind == "session":
            self._places[uuid] = None
            return []
        above = self._places[entry["parentUuid"]]
        self._places[uuid] = above if kind == "branch" else uuid
        if kind == "branch":
            return []
        if kind == "compaction":
            boundary = str(uuid5(NAMESPACE_OID, uuid))
            cut = {"subtype": "compact_boundary", "logicalParentUuid": above}
            said = {"role": "user", "content": entry["summary"]}
            return [
                {**self._base(entry, None), "type": "system", **cut, "uuid": boundary},
                {
                    **self._base(entry, boundary),
                    "type": "user",
                    "isCompactSummary": True,
                    "message": said,
                },
            ]
        message = claude_message(entry["message"], uuid)
        return [{**self._base(entry, above), "type": message["role"], "message": message}]

    def _base(self, entry: Fields, above: str | None) -> Fields:
        return {
            "parentUuid": above,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/project",
            "sessionId": self._session,
            "version": CLAUDE_VERSION,
            "gitBranch": "main",
            "uuid": entry["uuid"],
            "timestamp": entry["timestamp"],
        }


def claude_message(message: Fields, uuid: str) -> Fields:
    """A message as Anthropic's API has it."""
    role, content = message["role"], message["content"]
    if role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message["toolCallId"]}
        return {"role": "user", "content": [{**result, "content": content, "is_error": False}]}
    if role == "user" or isinstance(content, str):
        return {"role": role, "content": content}
    return {
        "id": f"msg_{UUID(uuid).hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": message["model"],
        "content": [_claude_block(block) for block in content],
        "stop_reason": "tool_use" if message["stopReason"] == "toolUse" else "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 267, "cache_read_input_tokens": 23_764},
    }


def _claude_block(block: Fields) -> Fields:
    if block["type"] != "toolCall":
        return block
    call = {"type": "tool_use", "id": block["id"], "name": block["name"]}
    return {**call, "input": block["arguments"]}


def openai_items(message: Fields) -> list[Fields]:
    """A message as items of the Responses API."""
    role, content = message["role"], message["content"]
    if role == "toolResult":
        call = {"type": "function_call_output", "call_id": message["toolCallId"]}
        return [{**call, "output": _text(content)}]
    if role == "user" or isinstance(content, str):
        return [{"role": role, "content": content if isinstance(content, str) else _text(content)}]
    items: list[Fields] = []
    for block in content:
        if block["type"] == "text":
            said = {"type": "output_text", "text": block["text"]}
            items.append({"type": "message", "role": "assistant", "content": [said]})
        else:
            call = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
            items.append({**call, "arguments": json.dumps(block["arguments"])})
    return items


def _text(content: list[Fields]) -> str:
    return "".join(block["text"] for block in content)
