"""Droid, the agent of Factory: sessions `~/.factory/sessions/<folder>/<session id>.jsonl`.

The folder is named by the working directory. `FACTORY_HOME_OVERRIDE` names the user's home. There
is no writer for Droid: its sessions are read, and continued in their own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader

_USER: Final = "FACTORY_HOME_OVERRIDE"


class Droid(agent.Agent):
    name = "droid"
    program = "Droid"
    command = "droid"
    home = agent.AgentHome(_USER, "", (".factory/sessions",))
    mcp = agent.McpEntry(_USER, "", ".factory/mcp.json", "mcpServers", {"type": "stdio"})
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.droid.reader import DroidReader

        return DroidReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--resume", id]

    def own_id(self, file: str) -> str | None:
        return agent.uuid_in_name(file)

    def facts_file(self, file: str) -> str | None:
        own = agent.uuid_in_name(file)
        return None if own is None else file.removesuffix(".jsonl") + ".settings.json"

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        return agent.Destination(os.path.join(home, re.sub(r"[/\\:]", "-", cwd)))
