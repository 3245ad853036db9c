"""The roles of texts on a terminal, and the codes of their colours."""

from __future__ import annotations

from typing import Final

CODES: Final = {
    "": "",
    "title": "1",
    "prompt": "1",
    "number": "36",
    "dim": "2",
    "label": "33",
    "branch": "32",
    "agent": "35",
    "failure": "31",
    "here": "1;32",
    "compaction": "34",
    "tool": "36",
    "bar": "7",
    "found": "1;33",
}
"""The codes of each role (ECMA-48, Select Graphic Rendition)."""
