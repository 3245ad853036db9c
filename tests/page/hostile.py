"""A session that has a payload in every field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"


def hostile_session(file: Path, payloads: tuple[str, ...]) -> Path:
    """Write a session whose every field holds each of the payloads in turn."""
    header = {
        "type": "session",
        "version": 2,
        "format": "sessiontree/2",
        "uuid": "root",
        "parentUuid": None,
        "id": payloads[0],
        "cwd": payloads[0],
        "name": payloads[0],
        "metadata": {"agent": payloads[0], "model": payloads[0]},
    }
    with file.open("w", encoding="utf-8") as out:
        out.write(json.dumps(header) + "\n")
        parent = "root"
        for number, payload in enumerate(payloads):
            for fields in _entries(payload, number):
                entry = {"uuid": f"{number}-{parent[-2:]}", "timestamp": payload, **fields}
                entry.setdefault("parentUuid", parent)
                out.write(json.dumps(entry) + "\n")
                parent = entry["uuid"]
    return file


def _entries(p: str, number: int) -> Iterator[dict[str, Any]]:
    places = iter(range(1000))

    def uuid() -> str:
        return f"{number}/{next(places)} {p}"

    def message(**fields: Any) -> dict[str, Any]:
        return {"type": "message", "uuid": uuid(), "message": fields}

    def answer(*blocks: Any) -> dict[str, Any]:
        return message(role="assistant", content=list(blocks), model=p, provider=p, stopReason=p)

    yield message(role="user", content=p)
    yield message(role="user", content=[{"type": "text", "text": p}, {"type": p, p: p}])
    yield message(role="system", content=p)
    yield message(role=p, content=p)
    yield answer(
        {"type": "text", "text": p}, {"type": "thinking", "thinking": p}, {"type": p, "x": p}
    )
    named = {
        "type": "toolCall",
        "id": f"c{number}",
        "name": p,
        "arguments": {p: p, "path": p, "l": f"{p}\n{p}"},
    }
    yield answer(named)
    yield message(
        role="toolResult",
        toolCallId=f"c{number}",
        toolName=p,
        isError=number % 2 == 0,
        content=[{"type": "text", "text": p}, {"type": "image", "data": _PNG, "mimeType": p}],
    )
    edit = {"file_path": f"/{p}", "old_string": p, "new_string": f"{p}\nmore"}
    yield answer({"type": "tool_use", "id": f"{p}{number}", "name": "Edit", "input": edit})
    found = {"type": "tool_result", "tool_use_id": f"{p}{number}", "content": p, "is_error": False}
    yield message(role="user", content=[found])
    image = {"type": "base64", "media_type": p, "data": _PNG}
    yield message(role="user", content=[{"type": "image", "source": image}])
    image = {"type": "base64", "media_type": "image/png", "data": p}
    yield message(role="user", content=[{"type": "image", "source": image}])
    yield message(role="user", content=[{"type": "image_url", "image_url": {"url": p}}])
    yield message(role="toolResult", toolCallId=p, toolName=p, content=p)
    yield message(role="bashExecution", command=p, output=p, exitCode=1)
    yield message(role="assistant", content=p, model=p, stopReason="error", errorMessage=p)
    yield message(role="user", content="a", usage={"input": p})
    yield {
        "type": "compaction",
        "uuid": uuid(),
        "summary": p,
        "firstKeptEntryUuid": p,
        "tokensBefore": p,
    }
    yield {"type": "branch_summary", "uuid": uuid(), "summary": p, "fromUuid": p}
    yield {"type": "merge", "uuid": uuid(), "mergedUuid": p, "baseUuid": p, "summary": p}
    yield {"type": "context_edit", "uuid": uuid(), "targetUuid": p, "replacement": {"content": p}}
    yield {"type": "model_change", "uuid": uuid(), "provider": p, "modelId": p}
    yield {"type": "thinking_level_change", "uuid": uuid(), "thinkingLevel": p}
    yield {"type": "custom", "uuid": uuid(), "customType": p, "data": {p: p}}
    yield {"type": "custom_message", "uuid": uuid(), "customType": p, "content": p, "display": True}
    yield {"type": f"x-{p}", "uuid": uuid(), p: p}
    yield {"type": "branch", "uuid": uuid(), "name": p}
    labelled = message(role="user", content=f"labelled {p}")
    yield labelled
    yield {"type": "label", "uuid": uuid(), "targetUuid": labelled["uuid"], "label": p}
    started = {"description": p, "agentType": p, "calledBy": p}
    lane = f"lane {number} {p}"
    began = {"customType": "x:subagent", "data": started, "lane": lane, "parentUuid": "root"}
    first = {"type": "custom", "uuid": uuid(), **began}
    yield first
    yield {**message(role="user", content=p), "lane": lane, "parentUuid": first["uuid"]}
    yield {**message(role="user", content=f"back {p}"), "parentUuid": labelled["uuid"]}
