"""The start or the end of a large session file, as a file of its own, which is read at once."""

from __future__ import annotations

import os
from typing import Final

from sessiontree.storage.lines import Excerpt

_START: Final = 96 * 1024
_END: Final = 256 * 1024


def start_of(path: str, large: int) -> int:
    """Where the start of a file ends, if it has at least so many bytes; else 0."""
    try:
        if os.stat(path).st_size < large:
            return 0
        with open(path, "rb") as file:
            return file.read(_START).rfind(b"\n") + 1
    except OSError:  # opening the session reports it
        return 0


def ends_of(path: str) -> Excerpt | None:
    """The file with its first line and its last lines alone; None where it is not longer."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = len(file.readline(_START))
        at = size - _END
        if at <= first:
            return None
        file.seek(at)
        skipped = file.read(_END).find(b"\n") + 1
    return Excerpt(path, first, at + skipped) if skipped else None
