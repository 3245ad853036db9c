"""Ids of sessions as people see them, and of which other session one is a fork, in words."""

from __future__ import annotations

import re
from typing import Final

SHORTEST_SHOWN: Final = 8
"""The characters of an id that are shown at least."""

_TIME_FIRST: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_END_OF_TIME: Final = 13
"""The characters of a UUIDv7 with its time: the first 8 alone are the same for a minute."""

_OF_SUBAGENT: Final = re.compile(r"\.|__agent_|[\w-]*\$\$")
"""What follows the id of the session above: for Kimi Code and others, for Cline, for Crush."""


_WORD: Final = re.compile(r"[a-z]+_(?=[0-9a-f]{8}-|[0-9A-Za-z]{20})")


def without_word(id: str) -> str:
    """An id without the word that all ids of its agent begin with, such as `session_`."""
    word = _WORD.match(id)
    return id[word.end() :] if word else id


def short_id(id: str) -> str:
    """The start of an id whose neighbours are not known."""
    bare = without_word(id)
    return bare[: _END_OF_TIME if _TIME_FIRST.fullmatch(bare) else SHORTEST_SHOWN]


def kin_in_words(id: str, above: str | None, shown: str = "") -> str:
    """Of which session one is a fork or a subagent; empty if of none.

    Args:
        id: the id of the session.
        above: the id of the other session; None without one.
        shown: the other id as the reader knows it; by default its start.
    """
    if above is None or above == id:
        return ""
    kind = "subagent" if _OF_SUBAGENT.match(id.removeprefix(above)) else "fork"
    return f"{kind} of {shown or short_id(above)}"
