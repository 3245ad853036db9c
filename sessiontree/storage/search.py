"""Search at a place whose server can tell which lines may match, so that no others are fetched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Protocol, runtime_checkable

from sessiontree.text.pattern import Sought

Narrow = Callable[[bytes], Sought | None]
"""Takes the start of a log; gives what each line has that is wanted, None where any line may be."""

START = 4096
"""The bytes at the start of a log by which that is decided."""


@runtime_checkable
class SearchedLog(Protocol):
    """A log whose server searches it."""

    def lines_with(self, sought: Sought) -> Generator[tuple[int, bytes], None, None]:
        """Yield runs of bytes with their offsets, in order: each line that has what is sought.

        Each run is one line with its LF. If one has no LF, it is the last, and all that begins
        there may match, in lines that go on behind it.
        """


@runtime_checkable
class SearchedPlace(Protocol):
    """A place whose server searches its logs."""

    def likely(self, names: Collection[str], sought: Sought, start: bytes) -> set[str]:
        """Return the names of those sessions that may have a line with what is sought.

        A session with `start` within the first `START` bytes is always one of them.
        """
