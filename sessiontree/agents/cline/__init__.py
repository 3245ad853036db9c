"""Cline's command line: sessions `~/.cline/data/sessions/<session id>/<session id>.messages.json`.

A subagent of a session has a file of its own in the same folder, and is a session that the other
one started. There is no writer for Cline: its sessions are read, and continued in their own folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader

_MESSAGES: Final = ".messages.json"


class Cline(agent.Agent):
    name = "cline"
    program = "Cline"
    command = "cline"
    home = agent.AgentHome("CLINE_DIR", ".cline", ("data/sessions",), "CLINE_SESSION_DATA_DIR")
    mcp = agent.McpEntry(
        "CLINE_DIR", ".cline", "data/settings/cline_mcp_settings.json", "mcpServers"
    )
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.cline.reader import ClineReader

        return ClineReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--id", id]

    def own_id(self, file: str) -> str | None:
        name = os.path.basename(file)
        is_root = name == f"{os.path.basename(os.path.dirname(file))}{_MESSAGES}"
        return name.removesuffix(_MESSAGES) if is_root else None

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None

    def facts_file(self, file: str) -> str | None:
        folder = os.path.dirname(file)
        named = os.path.join(folder, f"{os.path.basename(folder)}.json")
        return named if file.endswith(_MESSAGES) else None
