"""The search of the texts of the sessions of the list, hit by hit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Any, Final

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.search import SearchHit, Wanted, search
from sessiontree.catalog.titles import agent_of, title_of
from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.page.data import as_json
from sessiontree.text.pattern import query
from sessiontree.web.sessions import id_of

_MOST: Final = 1000
_LONGEST: Final = 500
"""Characters of what is searched for."""


async def hits_in(words: str, sessions: Sequence[SessionInfo]) -> AsyncIterator[bytes]:
    """The hits, each as a line of JSON, then a line with what was left out."""
    named = {one.file: one for one in sessions}
    problems: list[str] = []
    is_left = False

    def check(number: int) -> None:
        if is_left:
            raise InterruptedError

    try:
        pattern = query(words[:_LONGEST])
    except UsageError as error:
        yield _line({"problems": [str(error)]})
        return
    hits = search(
        pattern, [*named], Wanted(conversation=True), problems.append, limit=_MOST, each=check
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
    yield _line({"problems": [one_line(each, 300) for each in problems[:20]], "all": count < _MOST})


def _line(value: dict[str, Any]) -> bytes:
    return as_json(value) + b"\n"


def _described(hit: SearchHit, one: SessionInfo) -> dict[str, Any]:
    start, end = hit.match
    return {
        "id": id_of(hit.file),
        "uuid": hit.ref,
        "before": hit.snippet[:start],
        "match": hit.snippet[start:end],
        "after": hit.snippet[end:],
        "speaker": one_line(hit.speaker or hit.type, 60),
        "turn": hit.turn,
        "title": title_of(one, 120),
        "agent": agent_of(one),
        "modified": one.modified,
    }
