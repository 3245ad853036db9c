"""ATIF, the Agent Trajectory Interchange Format: a run of any agent as one JSON document.

Benchmarks keep their runs in it. A trajectory is read like a session file of an agent, but it has
no home, and no program goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.atif.writer import AtifWriter
    from sessiontree.agents.base import Reader


class Atif(agent.Agent):
    name = "atif"
    program = "ATIF"
    command = "atif"
    home = agent.AgentHome("", "", ())
    mcp = agent.McpEntry("", "", "", "")

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.atif.reader import AtifReader

        return AtifReader(self.name)

    def writer(self, source: Any) -> AtifWriter:
        from sessiontree.agents.atif.writer import AtifWriter

        return AtifWriter(source)

    def resume(self, id: str, file: str) -> list[str]:
        """No arguments: nothing resumes a trajectory."""
        return []

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        """The working directory: no program looks for trajectories anywhere."""
        return agent.Destination(cwd)
