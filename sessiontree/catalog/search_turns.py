"""The turns that hits are in: the number of the prompt above each, in file order.

Invariants: prompts count on all branches, so a number keeps its turn while the file grows; what a
subagent did has no number here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from sessiontree.catalog.search_file import SearchHit
from sessiontree.core.counts import is_prompt_entry
from sessiontree.core.entry import is_of_subagent
from sessiontree.errors import SessionTreeError
from sessiontree.session import Session

LARGEST: Final = 16_000_000
"""The largest session whose turns are numbered, in bytes: all of it is read."""


def with_turns(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
    """The hits of one file with the numbers of their turns, as far as they are known."""
    found = list(hits)
    numbers = _numbers(found[0].file) if found else {}
    for hit in found:
        turn = None if is_of_subagent(hit.lane) else numbers.get(hit.ref)
        yield replace(hit, turn=turn)


def _numbers(file: str) -> dict[str, int]:
    """The number of the turn of each entry, by its uuid."""
    numbers: dict[str, int] = {}
    count = 0
    try:
        if os.path.getsize(file) > LARGEST:
            return {}
        with Session.open(file, readonly=True) as session:
            for entry in session.entries():
                if is_prompt_entry(entry.as_stored):
                    count += 1
                    numbers[entry.uuid] = count
                elif (above := numbers.get(entry.parent_uuid or "")) is not None:
                    numbers[entry.uuid] = above
    except (SessionTreeError, OSError):  # the search reports what it cannot read
        return {}
    return numbers
