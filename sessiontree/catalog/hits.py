"""The hits of a search with the sessions that they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessiontree.catalog.listing import SessionInfo, facts_of
from sessiontree.catalog.search_file import SearchHit
from sessiontree.errors import SessionTreeError


class SessionsOfHits:
    """The facts of the sessions that hits are in, each read once."""

    def __init__(self) -> None:
        self._last: tuple[str, SessionInfo | None] = ("", None)

    def of(self, hit: SearchHit) -> SessionInfo | None:
        """The facts of a hit's session; None if they cannot be read any more."""
        if self._last[0] != hit.file:
            self._last = hit.file, _facts(hit.file)
        return self._last[1]


def _facts(file: str) -> SessionInfo | None:
    try:
        return facts_of(file)
    except SessionTreeError:
        return None


def described(hits: Iterable[SearchHit]) -> Iterator[dict[str, Any]]:
    """Hits as `search --json` prints them, with the facts of their sessions."""
    sessions = SessionsOfHits()
    for hit in hits:
        one = sessions.of(hit)
        about = {} if one is None else {"agent": one.made_by, "cwd": one.cwd}
        title = None if one is None else one.name or one.first_message
        yield {**msgspec.to_builtins(hit), "title": title, **about}
