from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.terminal import done, said


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
def version_1(tmp_path: Path) -> Path:
    file = tmp_path / "old.jsonl"
    entries = [
        {"type": "session", "id": "old-id", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/old"},
        {"type": "message", "message": {"role": "user", "content": "first"}},
        {"type": "message", "message": {"role": "assistant", "content": "second"}},
    ]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return file
