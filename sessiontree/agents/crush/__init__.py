"""Crush: sessions in a SQLite database in each project, `.crush/crush.db`.

The database counts as a folder, and each session in it as a file (see `storage.databases`). Lists
of all sessions have those of the database in `~/.local/share/crush`; name any other. There is no
writer for Crush.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader


class Crush(agent.Agent):
    name = "crush"
    program = "Crush"
    command = "crush"
    home = agent.AgentHome("XDG_DATA_HOME", ".local/share", ("crush/crush.db",))
    mcp = agent.McpEntry("XDG_CONFIG_HOME", ".config", "crush/crush.json", "mcp", {"type": "stdio"})
    is_target = False
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.crush.reader import CrushReader

        return CrushReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--session", id]

    def own_id(self, file: str) -> str | None:
        return os.path.basename(file).removesuffix(".jsonl") or None
