"""What an agent replays of a session by the Agent Client Protocol, as a file of lines.

No agent keeps such files: `importing.acp` writes one for the time of an import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader


class Acp(agent.Agent):
    name = "acp"
    program = "ACP"
    command = "acp"
    home = agent.AgentHome("", "", ())
    mcp = agent.McpEntry("", "", "", "")
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.acp.reader import AcpReader

        return AcpReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        """No arguments: it is not known how the agent resumes a session."""
        return []

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        """The working directory: it is not known where the agent keeps sessions."""
        return agent.Destination(cwd)
