"""The names of pi's session files, `<time>_<id>.jsonl`."""

from __future__ import annotations

import re
from typing import Final

_STEM: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d-]+Z?_(.+)")


def id_in(stem: str) -> str | None:
    """The session's id in the name of a file, without its suffix; None if pi did not name it."""
    found = _STEM.fullmatch(stem)
    return None if found is None else found[1]
