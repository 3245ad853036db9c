"""Goose: sessions in a SQLite database, `~/.local/share/goose/sessions/sessions.db`.

The database counts as a folder, and each session in it as a file (see `storage.databases`).
`XDG_DATA_HOME` names the folder above Goose's. There is no writer for Goose.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader


class Goose(agent.Agent):
    name = "goose"
    program = "Goose"
    command = "goose"
    home = agent.AgentHome("XDG_DATA_HOME", ".local/share", ("goose/sessions/sessions.db",))
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.goose.reader import GooseReader

        return GooseReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["session", "--resume", "--session-id", id]

    def own_id(self, file: str) -> str | None:
        return os.path.basename(file).removesuffix(".jsonl") or None
