"""The sessions of Kilo CLI: OpenCode's rows, in a database with Kilo's name."""

from __future__ import annotations

from sessiontree.agents.opencode.reader import OpenCodeReader


class KiloReader(OpenCodeReader):
    def is_own_database(self, name: str) -> bool:
        return name.startswith("kilo")
