"""Kilo CLI, which keeps its sessions as OpenCode does, in `~/.local/share/kilo/kilo.db`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessiontree.agents import agent
from sessiontree.agents.opencode import OpenCode

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.kilo.writer import KiloWriter


class Kilo(OpenCode):
    name = "kilo"
    program = "Kilo CLI"
    command = "kilo"
    home = agent.AgentHome("XDG_DATA_HOME", ".local/share", ("kilo/kilo.db",), "KILO_DB")
    mcp = agent.McpEntry(
        "XDG_CONFIG_HOME", ".config", "kilo/opencode.json", "mcp", {"type": "local"}, is_in_one=True
    )

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.kilo.reader import KiloReader

        return KiloReader(self.name)

    def writer(self, source: Any) -> KiloWriter:
        from sessiontree.agents.kilo.writer import KiloWriter

        return KiloWriter(source)
