"""A session as the JSON that `kilo import` takes, which is OpenCode's."""

from __future__ import annotations

from sessiontree.agents.opencode.writer import OpenCodeWriter


class KiloWriter(OpenCodeWriter):
    program = "Kilo CLI"
    mode = "code"
