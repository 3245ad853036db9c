"""The bytes of a log that were read over a network, so that none is asked for twice.

The bytes are kept as pages of one size. A read that misses a page beside one that is there goes on
in the same direction, so it fetches more pages, and twice as many each time: a walk backwards, or a
scan, of many megabytes takes few requests.

Invariants: bytes of a log never change, so a page stays true; only the last page may be short, and
grows.
"""

from __future__ import annotations

import threading
from typing import Final

from sessiontree.storage.lines import Read

PAGE: Final = 64 * 1024
_KEPT: Final = 128
_FIRST_AHEAD: Final = 7
_MOST_AHEAD: Final = 63
"""Pages that are fetched beyond the one that is asked for: at first, and at most."""


class Pages:
    """The pages of one log.

    Args:
        fetch: reads the log itself: all bytes from an offset to another, both before its end.

    Attributes:
        end: the end of the log, as last seen.
    """

    def __init__(self, fetch: Read) -> None:
        self._fetch = fetch
        self._pages: dict[int, bytes] = {}
        self._ahead = _FIRST_AHEAD
        self._lock = threading.Lock()
        self.end = 0

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end."""
        with self._lock:
            return self._read(offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        stop = min(offset + size, self.end)
        if offset >= stop:
            return b""
        first, last = offset // PAGE, (stop - 1) // PAGE
        if first == last:  # nearly every read
            page = self._pages.get(first, b"")
            start = offset - first * PAGE
            if len(page) >= stop - first * PAGE:
                return page[start : start + stop - offset]
        if last - first >= _MOST_AHEAD:
            return self._straight(offset, stop)
        found = [self._page(number, last, stop) for number in range(first, last + 1)]
        start = offset - first * PAGE
        return b"".join(found)[start : start + stop - offset]

    def _straight(self, offset: int, stop: int) -> bytes:
        """Read what is more than the pages that are kept."""
        step = (_MOST_AHEAD + 1) * PAGE
        return b"".join(
            self._fetch(start, min(step, stop - start)) for start in range(offset, stop, step)
        )

    def _page(self, number: int, last: int, stop: int) -> bytes:
        """A page, with at least its bytes before `stop`; `last` is the last one that is wanted."""
        page = self._pages.pop(number, b"")
        if len(page) >= min(stop - number * PAGE, PAGE):
            self._pages[number] = page  # behind those that were used earlier
            return page
        while last > number and self._is_whole(last):
            last -= 1
        first = number
        if self._is_whole(last + 1):
            first = max(0, number - self._more())
        elif number == 0 or self._is_whole(number - 1):
            last += self._more()
        else:
            self._ahead = _FIRST_AHEAD
        while first < number and self._is_whole(first):
            first += 1
        self._load(first, last)
        return self._pages[number]

    def _is_whole(self, number: int) -> bool:
        found = len(self._pages.get(number, b""))
        return found > 0 and found >= min(self.end - number * PAGE, PAGE)

    def _more(self) -> int:
        ahead = self._ahead
        self._ahead = min(2 * ahead + 1, _MOST_AHEAD)
        return ahead

    def _load(self, first: int, last: int) -> None:
        start, stop = first * PAGE, min((last + 1) * PAGE, self.end)
        self._add(start, self._fetch(start, stop - start))

    def begin(self, start: bytes, offset: int, block: bytes) -> None:
        """Keep the start of the log, and its bytes from the start of a page on to its end."""
        self.end = offset + len(block)
        if offset:
            self._add(0, start)
        self._add(offset, block)

    def _add(self, offset: int, block: bytes) -> None:
        """Keep bytes that were read, from the start of a page on or from the end of a known one."""
        number = offset // PAGE
        begun = offset - number * PAGE
        if begun:
            page = self._pages.get(number, b"")
            if len(page) != begun:
                skipped = PAGE - begun
                block, number, page = block[skipped:], number + 1, b""
            block = page + block
        for start in range(0, len(block), PAGE):
            self._pages.pop(number, None)
            self._pages[number] = block[start : start + PAGE]
            number += 1
        while len(self._pages) > _KEPT:
            self._pages.pop(next(iter(self._pages)), None)

    def grow(self, known: int, size: int, block: bytes | None) -> None:
        """Note that the log grew from `known` to `size`, by a block unless it was not read."""
        with self._lock:
            if block is not None and known == self.end:
                self._add(known, block)
            self.end = max(self.end, size)
