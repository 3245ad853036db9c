"""Claude Code: transcripts `~/.claude/projects/<folder>/<session id>.jsonl`.

The folder is named by the working directory. `reader` reads a transcript, whose conversation
`threads` finds; `writer` writes one.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.claude_code.writer import ClaudeCodeWriter

_LONGEST: Final = 200  # characters of a folder's name
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClaudeCode(agent.Agent):
    name = "claude-code"
    program = "Claude Code"
    command = "claude"
    home = agent.AgentHome("CLAUDE_CONFIG_DIR", ".claude", ("projects",))
    mcp = agent.McpEntry("CLAUDE_CONFIG_DIR", "", ".claude.json", "mcpServers", {"type": "stdio"})
    looks_in_folder = True
    keeps_subagents = True
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.claude_code.reader import ClaudeCodeReader

        return ClaudeCodeReader(self.name)

    def writer(self, source: Any) -> ClaudeCodeWriter:
        from sessiontree.agents.claude_code.writer import ClaudeCodeWriter

        return ClaudeCodeWriter(source)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--resume", id]

    def own_id(self, file: str) -> str | None:
        return agent.uuid_in_name(file)

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The name, for the lines may hold the id of the session that this one continues."""
        if self.is_of_subagent(stem):
            return f"{given}.{stem}"
        return stem if agent.is_uuid(stem) else None

    def is_of_subagent(self, stem: str) -> bool:
        return stem.startswith("agent-")

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        path = unicodedata.normalize("NFC", cwd)
        folder = re.sub(r"[^a-zA-Z0-9]", "-", path)
        if len(folder) > _LONGEST:
            folder = f"{folder[:_LONGEST]}-{_hash(path)}"
        return agent.Destination(os.path.join(home, folder))


def _hash(path: str) -> str:
    """The hash that Claude Code adds to a name that it cuts."""
    value = 0
    units = path.encode("utf-16-le")
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
