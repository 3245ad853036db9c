"""Codex: rollouts `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`.

A thread is one file or several segments. Its first file is `rollout-<time>-<thread id>.jsonl`, and
its id is also that of the segment. Each revert starts a segment
`rollout-<time>-<thread id>_<segment id>.jsonl`. The ids grow with time, so the segment with the
greatest id is in force. A file may be compressed (`.jsonl.zst`), or be in `archived_sessions`
instead of `sessions/YYYY/MM/DD`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sessiontree.agents import agent
from sessiontree.agents.codex.names import thread_of

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.codex.writer import CodexWriter

FOLDERS: Final = ("sessions", "archived_sessions")
_LARGEST_CONFIG: Final = 1 << 20
_DATE: Final = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T")


class Codex(agent.Agent):
    name = "codex"
    program = "Codex"
    command = "codex"
    home = agent.AgentHome("CODEX_HOME", ".codex", FOLDERS)
    mcp = agent.McpEntry("CODEX_HOME", ".codex", "config.toml", "mcp_servers")
    cd_option = "--cd"

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.codex.reader import CodexReader

        return CodexReader(self.name)

    def writer(self, source: Any) -> CodexWriter:
        from sessiontree.agents.codex.writer import CodexWriter

        return CodexWriter(source)

    def resume(self, id: str, file: str) -> list[str]:
        return ["resume", id]

    def own_id(self, file: str) -> str | None:
        return thread_of(file)

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The name counts for a file whose header is lost."""
        return None if given else thread_of(f"{stem}.jsonl")

    def opens(self, file: str) -> bool:
        return self.own_id(file) is not None

    def unarchive(self, id: str, file: str) -> str | None:
        return f"codex unarchive {id}" if FOLDERS[1] in file.split(os.sep) else None

    def provider(self, home: str, files: agent.Files) -> str | None:
        """The provider of `config.toml`, of the profile in force if it has one.

        Codex lists each rollout in a database, and refuses to go on with one without a provider.
        """
        path = os.path.join(os.path.dirname(home), self.mcp.file)
        try:
            config = tomllib.loads((files.content(path, _LARGEST_CONFIG) or b"").decode())
        except ValueError:
            return None
        profiles, name = config.get("profiles"), config.get("profile")
        profile = profiles.get(name) if isinstance(profiles, dict) else None
        given = [each.get("model_provider") for each in (profile, config) if isinstance(each, dict)]
        return next((provider for provider in given if isinstance(provider, str)), None)

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        date = _DATE.match(name)
        return agent.Destination(os.path.join(home, *(date.groups() if date else ())))
