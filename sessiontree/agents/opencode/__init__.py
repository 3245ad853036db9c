"""OpenCode: sessions in a SQLite database, `~/.local/share/opencode/opencode.db`.

The database counts as a folder, and each session in it as a file, `opencode.db/<session
id>.jsonl`; `storage.databases` says what its lines are. `XDG_DATA_HOME` names the folder above
OpenCode's, `OPENCODE_DB` a database. There is no writer for OpenCode: its sessions are read, and
continued in their own database.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader

_IDS: Final = "ses_"


class OpenCode(agent.Agent):
    name = "opencode"
    program = "OpenCode"
    command = "opencode"
    home = agent.AgentHome(
        "XDG_DATA_HOME", ".local/share", ("opencode/opencode.db",), "OPENCODE_DB"
    )
    mcp = agent.McpEntry(
        "XDG_CONFIG_HOME",
        ".config",
        "opencode/opencode.json",
        "mcp",
        {"type": "local"},
        is_in_one=True,
    )
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.opencode.reader import OpenCodeReader

        return OpenCodeReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["-s", id]

    def own_id(self, file: str) -> str | None:
        stem = os.path.basename(file).removesuffix(".jsonl")
        return stem if stem.startswith(_IDS) else None
