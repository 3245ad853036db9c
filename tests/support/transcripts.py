"""Builders for transcripts of Claude Code, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.formats.conftest import SESSION

Line = dict[str, Any]


def line(uuid: str, parent: str | None, kind: str = "user", **more: Any) -> Line:
    """A line of the tree, without content by default."""
    about = {"isSidechain": False, "sessionId": SESSION, "cwd": "/project", "version": "2.1"}
    at = f"2026-02-10T21:11:{len(uuid) + sum(map(ord, uuid)) % 50:02}.000Z"
    return {"parentUuid": parent, **about, "type": kind, "uuid": uuid, "timestamp": at, **more}


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


CALL: list[Line] = [user("a", None), assistant("b", "a", "m", ["t"]), result("r", "b", "t")]
"""A prompt, a call and its result."""

FACTS = {"toolUseId": "t", "agentType": "Explore"}
"""What is beside the transcript of the subagent that was called."""


def encoded(lines: Iterable[Line]) -> list[bytes]:
    """The bytes of each line, with its LF."""
    return [json.dumps(line).encode() + b"\n" for line in lines]


def written(path: Path, lines: Iterable[Line]) -> Path:
    """A file with these lines; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encoded(lines)))
    return path


def with_subagent(path: Path, *lines: Line) -> Path:
    """A transcript with a call, and with that of the subagent `one`, which has these lines."""
    aside = path.with_suffix("") / "subagents" / "agent-one.jsonl"
    written(aside, lines).with_suffix(".meta.json").write_text(json.dumps(FACTS))
    return written(path, CALL)


def folder_of_a_user(home: Path) -> Path:
    """A user's folder of Claude Code: a session of a few turns, and its subagent."""
    folder = home / ".claude" / "projects" / "-home-me-app"
    session = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
    ids = [f"{n}{n}{n}{n}{n}{n}{n}{n}-0000-4000-8000-000000000000" for n in "1234567"]

    def at(second: int, more: Line) -> Line:
        time = f"2026-02-10T21:11:{second:02}.000Z"
        return {**more, "sessionId": session, "cwd": "/home/me/app", "timestamp": time}

    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "retry.py"}}
    found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "while True: send()"}
    lines = [
        at(0, user(ids[0], None, "Why do our retries hammer the API?")),
        at(1, line(ids[1], ids[0], "assistant", message=_said([call]))),
        at(2, user(ids[2], ids[1], [found])),
        at(3, line(ids[3], ids[2], "assistant", message=_said("retry.py never waits."))),
        at(4, user(ids[4], ids[3], "Back off between retries")),
        at(5, line(ids[5], ids[4], "assistant", message=_said("Done: it doubles the wait."))),
        {"type": "ai-title", "aiTitle": "Retries that back off", "sessionId": session},
    ]
    inner = at(2, user(ids[6], None, "Find all callers", isSidechain=True, agentId="a1"))
    written(folder / session / "subagents" / "agent-a1.jsonl", [inner])
    return written(folder / f"{session}.jsonl", lines)


def _said(content: str | list[Line]) -> Line:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": "assistant", "model": "claude-opus-4-6", "content": blocks}


def session_of(*prompts: str) -> Session:
    """A new session in memory with messages of the user."""
    session = Session.create()
    for prompt in prompts:
        session.append_message({"role": "user", "content": prompt})
    return session


def compressed(pieces: Iterable[bytes]) -> bytes:
    """A frame of zstd that is flushed after each piece, as a program that logs writes it."""
    zstandard = pytest.importorskip("zstandard", reason="the package zstandard is not installed")
    packer = zstandard.ZstdCompressor().compressobj()
    blocks = [packer.compress(p) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for p in pieces]
    return b"".join(blocks) + bytes(packer.flush())
