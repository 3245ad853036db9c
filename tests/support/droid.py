"""A session of Droid with the settings beside it, in which Droid keeps the sums of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.support.homes import settle

ID: Final = "5b1f0c52-7f0e-4c1b-9d55-2f1f4f0a9e01"
MODEL: Final = "claude-opus-4-5-20251101"
TIME: Final = "2026-11-20T09:00:00.000Z"


class DroidSession:
    """A session of Droid in a home, with settings beside it."""

    def __init__(self, home: Path, id: str = ID, **start: str) -> None:
        self.id = id
        self.file = home / ".factory" / "sessions" / "-p" / f"{id}.jsonl"
        self.settings = self.file.with_name(f"{id}.settings.json")
        self.turns = 0
        self.file.parent.mkdir(parents=True, exist_ok=True)
        first = {"type": "session_start", "id": id, "title": "Build it", "owner": "me", **start}
        self._add({**first, "version": 2, "cwd": "/p"})
        self.go_on()

    def go_on(self) -> None:
        """Add a turn."""
        self.turns += 1
        name, at = f"{self.id[:-3]}{self.turns:02}", f"2026-11-20T09:{self.turns:02}:00.000Z"
        message: dict[str, Any] = {"role": "user", "content": f"Build {self.turns}"}
        line = {"type": "message", "id": f"{name}a", "timestamp": at, "message": message}
        self._add(line)
        message = {"role": "assistant", "content": "Built.", "modelId": MODEL}
        self._add({**line, "id": f"{name}b", "parentId": f"{name}a", "message": message})

    def sum_up(self, new: int, out: int, read: int = 0, written: int = 0, thought: int = 0) -> None:
        """Write the settings with these sums of tokens, as Droid does after a turn."""
        used = {"inputTokens": new, "outputTokens": out, "cacheReadTokens": read}
        used |= {"cacheCreationTokens": written, "thinkingTokens": thought, "factoryCredits": 0}
        told = {"model": MODEL, "providerLock": "anthropic", "providerLockTimestamp": TIME}
        kept = {"assistantActiveTimeMs": new, **told, "tokenUsage": used}
        self.settings.write_text(json.dumps(kept, indent=2))
        settle(self.settings)

    def _add(self, line: dict[str, Any]) -> None:
        with self.file.open("a") as opened:
            opened.write(json.dumps(line) + "\n")
        settle(self.file)
