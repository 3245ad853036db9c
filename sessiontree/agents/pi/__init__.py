"""The pi coding agent: sessions `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`.

Its fork oh-my-pi keeps the same files in `~/.omp/agent/sessions`; pi goes on with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.pi.writer import PiWriter

_SESSIONS: Final = "PI_CODING_AGENT_SESSION_DIR"


class Pi(agent.Agent):
    name = "pi"
    program = "the pi coding agent"
    command = "pi"
    home = agent.AgentHome(
        "PI_CODING_AGENT_DIR", ".pi/agent", ("sessions",), _SESSIONS, (".omp/agent",)
    )
    mcp = agent.McpEntry(
        "PI_CODING_AGENT_DIR",
        ".pi/agent",
        "mcp.json",
        "mcpServers",
        note="pi has no MCP client of its own; its extension pi-mcp-adapter reads this file. "
        "Install it with 'pi install npm:pi-mcp-adapter'",
    )
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.pi.reader import PiReader

        return PiReader(self.name)

    def writer(self, source: Any) -> PiWriter:
        from sessiontree.agents.pi.writer import PiWriter

        return PiWriter(source)

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The name counts for a file whose header is lost."""
        from sessiontree.agents.pi.names import id_in

        return None if given else id_in(stem)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--session", file]

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        if environ.get(_SESSIONS):
            return agent.Destination(home)
        folder = "--" + re.sub(r"[/\\:]", "-", cwd.lstrip("/")) + "--"
        return agent.Destination(os.path.join(home, folder))
