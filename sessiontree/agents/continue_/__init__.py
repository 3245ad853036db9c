"""Continue: sessions `~/.continue/sessions/<session id>.json`.

There is no writer for Continue; its program goes on with a copy of a session.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree.agents import agent

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader


class Continue(agent.Agent):
    name = "continue"
    program = "Continue"
    command = "cn"
    home = agent.AgentHome("CONTINUE_GLOBAL_DIR", ".continue", ("sessions",))
    is_target = False

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.continue_.reader import ContinueReader

        return ContinueReader(self.name)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--fork", id]

    def own_id(self, file: str) -> str | None:
        stem = os.path.basename(file).removesuffix(".json")
        return stem if agent.is_uuid(stem) else None

    def facts_file(self, file: str) -> str | None:
        return None if self.own_id(file) is None else f"{os.path.dirname(file)}/sessions.json"
