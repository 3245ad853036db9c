"""The names of Codex' session files."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

_ID: Final = "([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_START: Final = "rollout-"
_NAME: Final = re.compile(rf"{_START}[0-9T-]{{19}}-{_ID}(?:_{_ID})?\.jsonl(?:\.zst)?")


class Rollout(NamedTuple):
    """A session file, and the ids in its name."""

    path: str
    thread: str
    segment: str


def rollout_of(path: str) -> Rollout | None:
    """What the name of a file says; None if it is not Codex's."""
    if _START not in path:  # as most paths, of which many are asked for in a search
        return None
    found = _NAME.fullmatch(os.path.basename(path))
    return None if found is None else Rollout(path, found[1], found[2] or found[1])


def thread_of(path: str) -> str | None:
    """The id of the thread in the name of a file; None if the name is not Codex's."""
    rollout = rollout_of(path)
    return None if rollout is None else rollout.thread
