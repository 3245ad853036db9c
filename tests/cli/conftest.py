from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sessions import json_lines
from tests.support.terminal import done, printed_json, said


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A session of two turns: hello, hi, more, sure."""
    file = tmp_path / "chat.jsonl"
    done("new", file, "--name", "Chat", "--cwd", "/project", "--id", "chat-id")
    for role, text in (("user", "hello"), ("assistant", "hi"), ("user", "more")):
        said(file, role, text)
    said(file, "assistant", "sure")
    return file


@pytest.fixture
def forked(chat: Path) -> Path:
    """The same session, branched at its first answer, with one prompt below."""
    done("branch", chat, "@~2", "--summary", "went elsewhere")
    said(chat, "user", "instead")
    return chat


@pytest.fixture
def left(forked: Path) -> str:
    """The uuid that the branch ends at which the fork left."""
    return str(printed_json("branches", forked)[0]["leaf"])


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    return json_lines(
        tmp_path / "old.jsonl",
        {"type": "session", "id": "old-id", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/old"},
        {"type": "message", "message": {"role": "user", "content": "first"}},
        {"type": "message", "message": {"role": "assistant", "content": "second"}},
    )
