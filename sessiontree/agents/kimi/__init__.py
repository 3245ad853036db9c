"""Kimi Code: sessions `~/.kimi-code/sessions/<folder>/<session id>/agents/main/wire.jsonl`.

A subagent has a folder beside `main`, and is a session that the other one started. There is no
writer for Kimi Code: its sessions are read, and continued in their own folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader

_LOG: Final = "wire.jsonl"
_MAIN: Final = os.path.join("agents", "main", _LOG)


class Kimi(agent.Agent):
    name = "kimi"
    program = "Kimi Code"
    command = "kimi"
    home = agent.AgentHome("KIMI_CODE_HOME", ".kimi-code", ("sessions",))
    mcp = agent.McpEntry("KIMI_CODE_HOME", ".kimi-code", "mcp.json", "mcpServers")
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.kimi.reader import KimiReader

        return KimiReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--session", id]

    def own_id(self, file: str) -> str | None:
        folder, found, _ = file.rpartition(os.sep + _MAIN)
        return os.path.basename(folder) if found and file.endswith(_MAIN) else None

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None

    def facts_file(self, file: str) -> str | None:
        if os.path.basename(file) != _LOG:
            return None
        folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(file))))
        return os.path.join(folder, "state.json")
