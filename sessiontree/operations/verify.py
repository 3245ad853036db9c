"""Verification of a session file, by one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

import orjson

from sessiontree.core.damage import Damage
from sessiontree.engine import repair
from sessiontree.operations.workers import Crew
from sessiontree.storage.log import Log


def verify(log: Log, progress: repair.Progress | None, processes: int) -> list[Damage]:
    """See `Session.verify`."""
    if processes == 1:
        return repair.verify(log, progress)

    def work(share: repair.Share) -> Iterator[list[int]]:
        yield repair.unsound_in(log, share)

    crew = Crew(work, orjson.dumps, orjson.loads, processes)
    with ExitStack() as opened:

        def elsewhere(shares: Sequence[repair.Share]) -> Iterator[list[int]]:
            return opened.enter_context(closing(crew.results(shares)))

        return repair.verify(log, progress, elsewhere)
