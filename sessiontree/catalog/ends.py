"""The last turns of another agent's large file, before all of it is translated."""

from __future__ import annotations

from typing import Final

from sessiontree.catalog.listing import facts_of
from sessiontree.errors import SessionTreeError
from sessiontree.operations.turns import latest
from sessiontree.session import Session
from sessiontree.storage.excerpt import ends_of

_SIZES: Final = (1 << 20, 1 << 24)
"""Bytes at the end of a file, of which the first that have a turn are enough."""


def opened_by_ends(file: str) -> Session | None:
    """A session with the last turns of a file; None if opening the file is as fast, or fails.

    The prompts and answers of its turns are those of the file. So are the uuids, except those that
    are made of the number of a line, as for Codex. It lacks what is above the turns and beside the
    file, such as subagents, and it does not grow.
    """
    for size in _SIZES:
        ends = ends_of(file, size)
        if ends is None:
            continue
        try:
            if facts_of(file).agent is None:
                return None
            session = Session.open(file, readonly=True, fs=ends)
        except (SessionTreeError, OSError):  # opening all of the file reports it
            return None
        if any(turn.prompt is not None for turn in latest(session.cursor)):
            return session
        session.close()
    return None
