"""The real sessions beside the checkout, and readers of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.conftest import NO_CORPUS as NO_CORPUS

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"
CLAUDE_CODE = sorted((CORPUS / "claude-code").glob("*.jsonl"))

SESSION = "11111111-2222-4333-8444-555555555555"

Told = list[tuple[str, Any]]
"""Messages as pairs of their role and content."""


def conversation(file: Path, lane: str = "main", *, verbatim: bool = True) -> Told:
    """What sessiontree reads of a transcript, as `sdk` gives it."""
    with Session.open(file, readonly=True, lane=lane) as session:
        context = session.context(verbatim=verbatim)
        told = [
            message
            for message, entry in zip(context.messages, context.entries, strict=True)
            if not is_hidden(json.loads(session.original(entry.uuid)))
        ]
    return [("user" if m["role"] == "compactionSummary" else m["role"], m["content"]) for m in told]


def is_hidden(line: dict[str, Any]) -> bool:
    """Whether claude-agent-sdk hides a line that Claude Code sends to its model."""
    is_meta = line.get("isMeta") and not line["isSidechain"]
    return bool(is_meta or line["type"] in ("system", "attachment"))


def texts_of(content: Any) -> list[str]:
    """The texts in a message's content that are not blank."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    found = (b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str))
    return [text for text in found if text.strip()]


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """What claude-agent-sdk reads of a transcript, or of its subagent."""
    claude = pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    config = tmp_path / "config"
    folder = config / "projects" / "-project"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))

    def read(file: Path, agent: str | None = None) -> Told:
        shutil.copyfile(file, folder / f"{SESSION}.jsonl")
        beside = file.with_suffix("")
        if beside.is_dir():
            shutil.copytree(beside, folder / SESSION, dirs_exist_ok=True)
        if agent is None:
            found = claude.get_session_messages(SESSION)
        else:
            found = claude.get_subagent_messages(SESSION, agent)
        return [(message.type, message.message["content"]) for message in found]

    return read


@pytest.fixture
def untouched() -> Iterator[Callable[[Path], None]]:
    """Promises that a folder, its files and their times are the same at the test's end."""
    before: dict[Path, str] = {}

    def promise(folder: Path) -> None:
        before[folder] = state_of(folder)

    yield promise
    for folder, state in before.items():
        assert state_of(folder) == state


def state_of(folder: Path) -> str:
    """A digest of all names, contents and times below a folder."""
    digest = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        found = path.stat()
        digest.update(f"{path} {found.st_mtime_ns} {found.st_mode}".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
