"""The lines of a file: backwards from its end, forwards, or at chosen places.

Bytes come through `read(offset, size)`, a positioned read: the file may grow meanwhile,
and what is before stays. Reading backwards keeps one window of the file, which starts
small, so that a short context costs a small read, and grows while reading goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

Read = Callable[[int, int], bytes]
"""Takes an offset and a size, gives the bytes there; fewer only at the end."""

FIRST_BLOCK: Final = 32 * 1024
LARGEST_BLOCK: Final = 64 * 1024
FORWARD_BLOCK: Final = 256 * 1024
"""Bytes that are split into lines and decoded at once: few enough for the processor's cache."""

_COST_OF_A_LINE: Final = 2000
"""The bytes that are searched in the time in which a line found is looked at."""

_FEW_LINES: Final = 100
"""Lines found that cost nothing that counts."""

_SMALL: Final = 4096
"""Bytes read first of a line whose length is not known."""


class Backwards:
    """Reads lines that end at a given place, nearest to the end first.

    Attributes:
        window: the part of the file that is in memory; it may be given at first.
        start: the offset of the window.
        searched: what `find` cost so far, in bytes searched.
    """

    def __init__(self, read: Read, window: bytes = b"", start: int = 0) -> None:
        self._read = read
        self.window = window
        self.start = start
        self._step = FIRST_BLOCK
        self.searched = 0
        self._found = 0

    def line_before(self, end: int) -> tuple[int, bytes]:
        """The line whose LF (or the end of the file) is at `end`, and its offset."""
        inside = end - self.start
        if not 0 < inside <= len(self.window):
            self._step = FIRST_BLOCK
            self._load(end - self._step, end)
            inside = end - self.start
        at = self.window.rfind(b"\n", 0, inside)
        while at < 0 and self.start:
            self._step = min(self._step * 2, LARGEST_BLOCK)
            self._load(self.start - max(self._step, inside), end)
            inside = end - self.start
            at = self.window.rfind(b"\n", 0, inside)
        return self.start + at + 1, self.window[at + 1 : inside]

    def lines_before(self, end: int, size: int) -> tuple[int, bytes]:
        """The whole lines of the window that end before `end`, at most so many bytes of them.

        `end` is where a line starts. Returns their offset, and the lines with their LF.
        """
        inside = end - self.start
        if not 0 < inside <= len(self.window):
            return end, b""
        at = max(inside - size, 0)
        if at or self.start:
            at = self.window.find(b"\n", at, inside) + 1
        return self.start + at, self.window[at:inside]

    def before_alike(self, line: bytes, end: int) -> int:
        """The LF at or before `end` above the lines of the window that are all like this one.

        `end` is where a line ends. The first line of the window is not looked at.
        """
        unit = line + b"\n"
        inside = end + 1 - self.start
        if not 0 < inside <= len(self.window):
            return end
        step = len(unit)
        while step and inside >= step:
            block = self.window[inside - step : inside]
            if self.window[inside - step - 1 : inside - step] == b"\n" and block == unit * (
                step // len(unit)
            ):
                inside -= step
                step *= 2
            else:
                step = step // 2 // len(unit) * len(unit)
        return self.start + inside - 1

    def _load(self, start: int, end: int) -> None:
        self.start = max(0, start)
        self.window = self._read(self.start, end - self.start)

    def find(self, needle: bytes, end: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The lines before `end` that hold `needle`, nearest first, and their offsets.

        The search ends with the block that holds the offset `start`.
        """
        lowest = max(start, 0)
        while end > lowest:
            at = self._last(needle, end, lowest)
            if at < 0:
                return
            stop = self._line_end(at + len(needle))
            offset, line = self.line_before(stop)
            self._found += 1
            if self._found > _FEW_LINES:
                self.searched += _COST_OF_A_LINE
            yield offset, line
            end = offset

    def _last(self, needle: bytes, end: int, lowest: int) -> int:
        """The offset of the last `needle` that ends before `end`, or -1.

        The window then has it, and reaches as far towards `end` as it was searched.
        """
        step = FIRST_BLOCK
        overlap = len(needle) - 1
        while end > lowest:
            if not self.start + overlap < end <= self.start + len(self.window):
                self._load(end - step - overlap, end)
                step = min(step * 2, LARGEST_BLOCK)
            at: int = stringzilla.rfind(self.window, needle, 0, end - self.start)
            self.searched += end - self.start - max(at, 0)
            if at >= 0:
                return self.start + at
            if self.start <= lowest:
                return -1
            end = self.start + overlap
        return -1

    def _line_end(self, offset: int) -> int:
        """The offset of the LF at or after `offset`, or of the end of the file."""
        at = self.window.find(b"\n", offset - self.start)
        return self.start + at if at >= 0 else offset + len(rest_of_line(self._read, offset))


def rest_of_line(read: Read, offset: int, limit: int = 1 << 62, *, step: int = _SMALL) -> bytes:
    """The bytes from `offset` to the next LF or the end of the file, or some past `limit`.

    `step` bytes are read first.
    """
    blocks: list[bytes] = []
    while limit > 0 and (block := read(offset, step)):
        limit -= len(block)
        at = block.find(b"\n")
        if at >= 0:
            blocks.append(block[:at])
            break
        blocks.append(block)
        offset += len(block)
        step = min(step * 4, LARGEST_BLOCK)
    return b"".join(blocks)


def lines_at(read: Read, offsets: Iterable[int]) -> Iterator[bytes]:
    """The lines that start at ascending offsets, without their LF.

    Lines near each other are read together.
    """
    window = b""
    start = 0
    step = _SMALL
    for offset in offsets:
        at = offset - start
        end = window.find(b"\n", at) if 0 <= at < len(window) else -1
        if end < 0:
            step = min(4 * step, FORWARD_BLOCK) if at <= 2 * len(window) else _SMALL
            window, start, at = read(offset, step), offset, 0
            end = window.find(b"\n")
        yield window[at:end] if end >= 0 else rest_of_line(read, offset)


def count_newlines(read: Read, start: int, end: int) -> int:
    """The newlines between two offsets."""
    count = 0
    while start < end and (block := read(start, min(LARGEST_BLOCK, end - start))):
        count += stringzilla.count(block, b"\n")
        start += len(block)
    return count


def whole_lines(read: Read, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each ended by LF, from `start` to `end`, and their offsets.

    A last line without its LF is left out: a writer may still be writing it.
    """
    rest: list[bytes] = []  # of a line that is longer than a block
    offset = start
    while start < end:
        block = read(start, min(FORWARD_BLOCK, end - start))
        if not block:
            return
        start += len(block)
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest.append(block)
            continue
        yield offset, b"".join([*rest, memoryview(block)[:cut]])
        rest = [block[cut:]]
        offset = start - len(block) + cut
