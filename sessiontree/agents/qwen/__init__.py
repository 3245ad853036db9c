"""Qwen Code: sessions `~/.qwen/projects/<folder>/chats/<session id>.jsonl`.

The folder is named by the working directory. Qwen Code is a fork of Gemini CLI with lines of its
own: `reader` reads them, `writer` writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.qwen.writer import QwenWriter


class Qwen(agent.Agent):
    name = "qwen"
    program = "Qwen Code"
    command = "qwen"
    home = agent.AgentHome("QWEN_HOME", ".qwen", ("projects",))
    mcp = agent.McpEntry("QWEN_HOME", ".qwen", "settings.json", "mcpServers")
    looks_in_folder = True
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.qwen.reader import QwenReader

        return QwenReader(self.name)

    def writer(self, source: Any) -> QwenWriter:
        from sessiontree.agents.qwen.writer import QwenWriter

        return QwenWriter(source)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--resume", id]

    def own_id(self, file: str) -> str | None:
        return agent.uuid_in_name(file)

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The id in the lines and the name, for a subagent's lines hold the session's id."""
        return f"{given}.{stem}" if self.is_of_subagent(stem) else None

    def is_of_subagent(self, stem: str) -> bool:
        return stem.startswith("agent-")

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        folder = re.sub(r"[^a-zA-Z0-9]", "-", cwd)
        return agent.Destination(os.path.join(home, folder, "chats"))
