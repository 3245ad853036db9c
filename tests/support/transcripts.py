"""Builders for transcripts of Claude Code, line by line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.agents.conftest import SESSION

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


def folder_of_a_user(folder: Path, home: str = "/home/me") -> Path:
    """A user's folder of Claude Code: a session of a few turns, and its subagent.

    The project of the session is `app` in the user's home.
    """
    project = f"{home}/app"
    folder = folder / ".claude" / "projects" / project.replace("/", "-")
    session = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
    ids = [f"{n}{n}{n}{n}{n}{n}{n}{n}-0000-4000-8000-000000000000" for n in "123456789"]

    def at(second: int, more: Line) -> Line:
        time = f"2026-02-10T21:11:{second:02}.000Z"
        return {**more, "sessionId": session, "cwd": project, "timestamp": time}

    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "retry.py"}}
    shown = {"filePath": f"{project}/retry.py", "content": BEFORE_BACKOFF, "startLine": 1}
    lines_shown = BEFORE_BACKOFF.count("\n")
    told = {"type": "text", "file": {**shown, "numLines": lines_shown, "totalLines": lines_shown}}
    found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": BEFORE_BACKOFF}
    swap = {"file_path": f"{project}/retry.py", "old_string": "            pass\n"}
    swap["new_string"] = "            time.sleep(wait)\n            wait *= 2\n"
    edit = {"type": "tool_use", "id": "toolu_2", "name": "Edit", "input": swap}
    done = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "The file was updated."}
    lines = [
        at(0, user(ids[0], None, "Why do our retries hammer the API?")),
        at(1, line(ids[1], ids[0], "assistant", message=_said([call]))),
        at(2, user(ids[2], ids[1], [found], toolUseResult=told)),
        at(3, line(ids[3], ids[2], "assistant", message=_said("retry.py never waits."))),
        at(4, user(ids[4], ids[3], "Back off between retries")),
        at(
            5, line(ids[7], ids[4], "assistant", message=_said([_text("I double the wait."), edit]))
        ),
        at(6, user(ids[8], ids[7], [done])),
        at(7, line(ids[5], ids[8], "assistant", message=_said("Done: it doubles the wait."))),
        {"type": "ai-title", "aiTitle": "Retries that back off", "sessionId": session},
    ]
    inner = at(2, user(ids[6], None, "Find all callers", isSidechain=True, agentId="a1"))
    written(folder / session / "subagents" / "agent-a1.jsonl", [inner])
    return written(folder / f"{session}.jsonl", lines)


BEFORE_BACKOFF = """import time


def retry(send, wait=1):
    while True:
        try:
            return send()
        except ConnectionError:
            pass
"""
"""A file before an agent edits it."""

AFTER_BACKOFF = BEFORE_BACKOFF.replace(
    "            pass\n", "            time.sleep(wait)\n            wait *= 2\n"
).replace("wait=1", "wait=0.5")
"""The file after the agent, and then a person, edited it."""


def project_of_a_user(home: Path) -> Path:
    """The project of that session, in a git repository; a person changed a line after the agent."""
    folder = home / "app"
    folder.mkdir()
    file = folder / "retry.py"
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for day, content in (("2026-02-09", BEFORE_BACKOFF), ("2026-02-11", AFTER_BACKOFF)):
        file.write_text(content)
        _git(folder, "add", "retry.py", at=f"{day}T09:00:00Z")
        _git(folder, "commit", "--quiet", "-m", "Retry", at=f"{day}T09:00:00Z")
    return file


def _git(folder: Path, *words: str, at: str = "") -> None:
    who = {"NAME": "Ada Lovelace", "EMAIL": "ada@example.org", "DATE": at}
    known = {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **known, **quiet}, check=True)


def _text(text: str) -> Line:
    return {"type": "text", "text": text}


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


def project_folder(home: Path, project: str | Path) -> Path:
    """Where Claude Code, with this home, looks for the sessions of a working directory."""
    return home / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", os.path.realpath(project))
