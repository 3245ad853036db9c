"""OpenClaw: sessions in `~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite`.

The database counts as a folder (see `storage.databases`); older versions kept files in
`agents/<agent>/sessions`. The lines are those of pi, with another version in the header.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader


class OpenClaw(agent.Agent):
    name = "openclaw"
    program = "OpenClaw"
    command = "openclaw"
    home = agent.AgentHome("OPENCLAW_STATE_DIR", ".openclaw", ("agents",))
    is_target = False
    has_uuids = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.openclaw.reader import OpenClawReader

        return OpenClawReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["agent", "--local", "--session-id", id]

    def own_id(self, file: str) -> str | None:
        return os.path.basename(file).removesuffix(".jsonl") or None
