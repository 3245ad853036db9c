"""The names of Gemini CLI's chats, `session-<time>-<start of the id>.jsonl` or `.json`."""

from __future__ import annotations

import re
from typing import Final

_STEM: Final = re.compile(r"session-.+-(\w{8})")


def id_in(stem: str) -> str | None:
    """The start of the session's id in a file's name without its suffix; None for another name."""
    found = _STEM.fullmatch(stem)
    return None if found is None else found[1]
