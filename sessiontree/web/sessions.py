"""The list of sessions, each by an id, and its search; requests can name nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from typing import Any, Final

from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.library.conversations import conversations
from sessiontree.library.listing import SessionInfo
from sessiontree.library.lookup import agent_of, cost_of_row, model_of, note_of, title_of
from sessiontree.library.places import in_order, sessions_in
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter, SearchHit
from sessiontree.library.spending import all_counted
from sessiontree.page.index import as_json
from sessiontree.text.pattern import query

_TITLE: Final = 200
_LEAST_SECONDS: Final = 1.0
"""How long a list counts in which an id is not found."""


def id_of(file: str) -> str:
    """The id by which requests name a session file."""
    return blake2b(file.encode("utf-8", "surrogateescape"), digest_size=9).hexdigest()


class Sessions:
    """The sessions in some folders, files and addresses, as they were listed last.

    A place that cannot be reached is a problem, which the page shows beside the other sessions.
    """

    def __init__(self, places: Sequence[str]) -> None:
        self.places = places
        self._files: dict[str, SessionInfo] = {}
        self._alone = threading.Lock()
        self.problems: list[str] = []
        self._read_at = -_LEAST_SECONDS  # when the list was read last

    def read(self, *, counted: bool = False) -> list[SessionInfo]:
        """List the sessions, the one changed last first; `counted`: with their turns and costs."""
        with self._alone:
            problems: list[str] = []
            found: list[SessionInfo] = []
            try:
                found.extend(sessions_in(self.places, problems.append))
            except SessionTreeError as error:  # an address, after all that is on this machine
                problems.insert(0, str(error))
            found = in_order(conversations(found), "modified")
            if counted:
                found = all_counted(found, problems.append)
            self._files = {id_of(one.file): one for one in found}
            self.problems = problems
            self._read_at = time.monotonic()
            return found

    def named(self, id: str) -> SessionInfo | None:
        """The session with an id; None without one. A session may be newer than the list."""
        if id not in self._files and time.monotonic() - self._read_at > _LEAST_SECONDS:
            self.read()
        return self._files.get(id)

    def all(self) -> list[SessionInfo]:
        """The sessions of the list, which is read if it was not yet."""
        return list(self._files.values()) or self.read()

    def described(self) -> list[tuple[SessionInfo, dict[str, Any]]]:
        """The sessions of the list, each with its facts as the page has them."""
        found = self.all()
        return list(zip(found, described(found), strict=True))


def described(
    sessions: Sequence[SessionInfo], id: Callable[[str], str] = id_of
) -> list[dict[str, Any]]:
    """Sessions as the page of the list reads them."""
    return [
        {
            "id": id(one.file),
            "session": one_line(one.id, 100),
            "title": title_of(one, _TITLE),
            "agent": agent_of(one),
            "model": model_of(one),
            "cwd": one_line(one.cwd or "", 400),
            "modified": one.modified,
            "bytes": one.bytes,
            "turns": one.turns,
            "cost": one.dollars,
            "paid": cost_of_row(one),
            "note": note_of(one, {}),
        }
        for one in sessions
    ]


_MAX: Final = 1000


async def hits_in(words: str, sessions: Sequence[SessionInfo]) -> AsyncIterator[bytes]:
    """The hits, each as a line of JSON, then a line with what was left out."""
    named = {one.file: one for one in sessions}
    problems: list[str] = []
    is_left = False

    def check(number: int) -> None:
        if is_left:
            raise InterruptedError

    try:
        pattern = query(words[:500])
    except UsageError as error:
        yield _line({"problems": [str(error)]})
        return
    hits = search(
        pattern, [*named], SearchFilter(conversation=True), problems.append, limit=_MAX, each=check
    )
    count = 0
    with closing(hits):
        try:
            while (hit := await asyncio.to_thread(next, hits, None)) is not None:
                count += 1
                yield _line(_described(hit, named[hit.file]))
        except (SessionTreeError, OSError) as error:
            problems.append(str(error))
        finally:
            is_left = True
    yield _line({"problems": [one_line(each, 300) for each in problems[:20]], "all": count < _MAX})


def _line(value: dict[str, Any]) -> bytes:
    return as_json(value) + b"\n"


def _described(hit: SearchHit, one: SessionInfo) -> dict[str, Any]:
    return {
        "id": id_of(hit.file),
        "uuid": hit.ref,
        "snippet": hit.snippet,
        "matches": hit.matches,
        "speaker": one_line(hit.speaker or hit.type, 60),
        "turn": hit.turn,
        "title": title_of(one, 120),
        "agent": agent_of(one),
        "modified": one.modified,
    }
