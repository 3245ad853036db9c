"""The turns that hits are in, by their numbers in `operations.turns`.

Invariant: what a subagent did, and what is above the first prompt, has no number here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from sessiontree.catalog.listing import reading
from sessiontree.catalog.search_file import SearchHit
from sessiontree.errors import SessionTreeError
from sessiontree.operations.turns import numbers_of
from sessiontree.session import Session
from sessiontree.storage.fs import DISK

LARGEST: Final = 16_000_000
"""The largest session whose turns are numbered, in bytes: all of it is read."""


def with_turns(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The hits of one file with the numbers of their turns, as far as they are known."""
    found = list(hits)
    numbers = _numbers(found[0].file) if found else {}
    for hit in found:
        yield replace(hit, turn=numbers.get(hit.ref))


def _numbers(file: str) -> dict[str, int]:
    """The number of the turn of each entry, by its uuid."""
    try:
        if reading(DISK, file).stat(file).size > LARGEST:
            return {}
        with Session.open(file, readonly=True) as session:
            return numbers_of(session.cursor)
    except (SessionTreeError, OSError):  # the search reports what it cannot read
        return {}
