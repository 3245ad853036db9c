"""OpenCode: sessions in a SQLite database, `~/.local/share/opencode/opencode.db`.

The database counts as a folder, and each session in it as a file, `opencode.db/<session
id>.jsonl`; `storage.databases` says what its lines are. `XDG_DATA_HOME` names the folder above
OpenCode's, `OPENCODE_DB` a database. The database is never written: a session of another agent
becomes a file for `opencode import`, in the folder `sessiontree` beside the database.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sessiontree.agents import agent
from sessiontree.core.header import stem_of

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.opencode.writer import OpenCodeWriter


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
    names_origins = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.opencode.reader import OpenCodeReader

        return OpenCodeReader(self.name)

    def writer(self, source: Any) -> OpenCodeWriter:
        from sessiontree.agents.opencode.writer import OpenCodeWriter

        return OpenCodeWriter(source)

    def take_in(self, file: str) -> list[str]:
        return ["import", file] if file.endswith(".json") else []

    def resume(self, id: str, file: str) -> list[str]:
        return ["-s", id]

    def own_id(self, file: str) -> str | None:
        from sessiontree.agents.opencode.names import SESSION  # few lists have its sessions

        stem = stem_of(file)
        return stem if stem.startswith(SESSION) else None

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        return agent.Destination(os.path.join(os.path.dirname(home), "sessiontree"))
