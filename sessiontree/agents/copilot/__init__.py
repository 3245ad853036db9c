"""Copilot CLI: sessions `~/.copilot/session-state/<session id>/events.jsonl`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.copilot.writer import CopilotWriter


class Copilot(agent.Agent):
    name = "copilot"
    program = "Copilot CLI"
    command = "copilot"
    home = agent.AgentHome("COPILOT_HOME", ".copilot", ("session-state",))
    mcp = agent.McpEntry(
        "COPILOT_HOME",
        ".copilot",
        "mcp-config.json",
        "mcpServers",
        {"type": "local", "tools": ["*"]},
    )
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.copilot.reader import CopilotReader

        return CopilotReader(self.name)

    def writer(self, source: Any) -> CopilotWriter:
        from sessiontree.agents.copilot.writer import CopilotWriter

        return CopilotWriter(source)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--resume", id]

    def own_id(self, file: str) -> str | None:
        folder = os.path.basename(os.path.dirname(file))
        return folder if agent.is_uuid(folder) else None

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None
