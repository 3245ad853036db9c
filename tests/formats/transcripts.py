"""Transcripts of Claude Code, made up line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.formats.conftest import SESSION

Line = dict[str, Any]


def line(uuid: str, parent: str | None, kind: str = "user", **more: Any) -> Line:
    """A line of the tree, without content unless it is given."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": SESSION,
        "cwd": "/project",
        "version": "2.1",
        "type": kind,
        "uuid": uuid,
        "timestamp": f"2026-02-10T21:11:{len(uuid) + sum(map(ord, uuid)) % 50:02}.000Z",
        **more,
    }


def user(uuid: str, parent: str | None, content: Any = None, **more: Any) -> Line:
    message = {"role": "user", "content": f"say {uuid}" if content is None else content}
    return line(uuid, parent, message=message, **more)


def assistant(
    uuid: str, parent: str | None, response: str = "", calls: Iterable[str] = (), **more: Any
) -> Line:
    blocks: list[Line] = [{"type": "text", "text": f"said {uuid}"}]
    blocks += [{"type": "tool_use", "id": call, "name": "Bash", "input": {}} for call in calls]
    message = {"role": "assistant", "content": blocks, "model": "claude"}
    if response:
        message["id"] = response
    return line(uuid, parent, "assistant", message=message, **more)


def result(uuid: str, parent: str | None, call: str, **more: Any) -> Line:
    block = {"type": "tool_result", "tool_use_id": call, "content": f"out of {call}"}
    return user(uuid, parent, [block], **more)


def written(path: Path, lines: Iterable[Line]) -> Path:
    """The lines in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
