"""The lines of an open file, read backwards from its end or forwards.

Bytes come through `read(offset, size)`, a positioned read: the file may grow
meanwhile, and what was before stays. Reading backwards keeps one window of the
file, which starts small, so that a short context costs a small read, and grows
while the reading goes on.

Lines worth decoding, found in the raw bytes of a file read from start to end.

The file is read in blocks into one buffer that is used again for the next file.
Each line lies whole in the buffer when it is looked at, however long it is. Of a
compressed file the lines are those inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.errors import StorageError
from sessiontree.storage.fs import DISK
from sessiontree.storage.zstd import MAGIC, Decompressed

Read = Callable[[int, int], bytes]
"""Takes an offset and a size, gives the bytes there; fewer only at the end."""

FIRST_BLOCK: Final = 64 * 1024
LARGEST_BLOCK: Final = 256 * 1024
FORWARD_BLOCK: Final = 256 * 1024
"""What is split into lines and decoded at once: small enough to stay near the processor."""
_SMALL: Final = 4096
"""What is read of one line alone, before it is known how long it is."""


class Backwards:
    """Reads lines that end at a given place, nearest to the end first.

    Attributes:
        window: the part of the file that is in memory.
        start: its offset.
        searched: the bytes looked through by `find` so far.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self.window = b""
        self.start = 0
        self._step = FIRST_BLOCK
        self.searched = 0

    def line_before(self, end: int) -> tuple[int, bytes]:
        """The line whose LF (or the end of the file) is at `end`, and its offset."""
        inside = end - self.start
        if not 0 < inside <= len(self.window):
            self._load(end)
            inside = end - self.start
        at = self.window.rfind(b"\n", 0, inside)
        while at < 0 and self.start:
            self._widen(inside)
            inside = end - self.start
            at = self.window.rfind(b"\n", 0, inside)
        return self.start + at + 1, self.window[at + 1 : inside]

    def _load(self, end: int) -> None:
        self._step = FIRST_BLOCK
        self.start = max(0, end - self._step)
        self.window = self._read(self.start, end - self.start)

    def _widen(self, inside: int) -> None:
        """Put more in front of the window's first `inside` bytes: a line may be of any length."""
        end = self.start + inside
        self._step = min(self._step * 2, LARGEST_BLOCK)
        self.start = max(0, self.start - max(self._step, inside))
        self.window = self._read(self.start, end - self.start)

    def find(self, needle: bytes, end: int) -> Iterator[tuple[int, bytes]]:
        """The lines before `end` that hold `needle`, nearest first, and their offsets."""
        while end > 0:
            at = self._last(needle, end)
            if at < 0:
                return
            stop = self._line_end(at + len(needle))
            start, line = self.line_before(stop)
            yield start, line
            end = start

    def _last(self, needle: bytes, end: int) -> int:
        """The offset of the last `needle` that lies wholly before `end`, or -1.

        The window then has it, and reaches as far towards `end` as it was searched.
        """
        step = FIRST_BLOCK
        overlap = len(needle) - 1
        while end > 0:
            if not self.start + overlap < end <= self.start + len(self.window):
                self.start = max(0, end - step - overlap)
                self.window = self._read(self.start, end - self.start)
                step = min(step * 2, LARGEST_BLOCK)
            at: int = stringzilla.rfind(self.window, needle, 0, end - self.start)
            self.searched += end - self.start - max(at, 0)
            if at >= 0:
                return self.start + at
            if not self.start:
                return -1
            end = self.start + overlap
        return -1

    def _line_end(self, offset: int) -> int:
        """The offset of the LF at or after `offset`, or of the end of the file."""
        at = self.window.find(b"\n", offset - self.start)
        return self.start + at if at >= 0 else offset + len(rest_of_line(self._read, offset))


def rest_of_line(read: Read, offset: int, limit: int = 1 << 62) -> bytes:
    """The bytes from `offset` to the next LF, or to the end of the file, or some past `limit`."""
    blocks: list[bytes] = []
    step = _SMALL
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

    Lines that lie near each other are read together.
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

    A last line without its LF is left out: a writer may still be at it.
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


Find = Callable[[bytearray | bytes, int], Iterator[tuple[int, int]]]
"""Takes whole lines and where they end, gives where the lines wanted begin and end."""

BLOCK: Final = 256 * 1024
_HEAD: Final = 64 * 1024
_KEPT: Final = 16 * BLOCK
"""A buffer that a very long line made larger than this is let go of."""


class Scanner:
    """Reads files one after the other. One thread at a time.

    Attributes:
        inside: what is known of the inside of the last file begun; None of one that is
            not compressed.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self.inside: Inside | None = None

    def lines(self, file: str, find: Find) -> Iterator[tuple[int, bytes]]:
        """The offset and the bytes of each line that `find` finds, as the file lies now.

        A last line without its LF counts as well.

        Raises:
            OSError: the file cannot be read.
            StorageError: it is compressed, and ends early.
        """
        buffer, self._buffer = self._buffer, bytearray()  # another file may be begun meanwhile
        buffer = buffer or bytearray(BLOCK)
        offset = filled = 0
        self.inside = inside = None
        with open(file, "rb", buffering=0) as reading:
            fill: Callable[[memoryview], int | None] = reading.readinto
            while True:
                got = fill(memoryview(buffer)[filled:]) or 0
                if not offset + filled and buffer.startswith(MAGIC):
                    self.inside = inside = Inside(reading.fileno(), file)
                    fill = inside.readinto
                    got = inside.begin(memoryview(buffer))
                filled += got
                end = buffer.rfind(b"\n", 0, filled) + 1 if got else filled
                counted = 0
                for start, stop in find(buffer, end):
                    if inside is not None:
                        inside.number += stringzilla.count(memoryview(buffer)[counted:start], b"\n")
                        counted = start
                    yield offset + start, bytes(buffer[start:stop])
                if inside is not None:
                    inside.number += stringzilla.count(memoryview(buffer)[counted:end], b"\n")
                if not got:
                    break
                if end == 0 and filled == len(buffer):
                    buffer += bytes(len(buffer))
                buffer[: filled - end] = buffer[end:filled]
                offset += end
                filled -= end
        self._buffer = buffer if len(buffer) <= _KEPT else bytearray(BLOCK)


class Inside:
    """What is inside a compressed file, from start to end.

    Attributes:
        name: names the file.
        head: how it starts, in 64 KB or more where there is as much.
        number: the number of the line that was given last, from 1.
    """

    def __init__(self, fd: int, file: str) -> None:
        self.name = file
        self.head = b""
        self.number = 1
        self._fd = fd
        self._inside = Decompressed(self)
        self._block = memoryview(b"")

    def read(self, offset: int, size: int) -> bytes:
        return DISK.read(self._fd, size, offset)

    def size(self) -> int:
        return DISK.stat(self._fd).size

    def begin(self, view: memoryview) -> int:
        """Fill a view with the start, a head at least, and keep that; as `readinto`.

        Raises:
            NotASessionError: it ends, or is damaged, before any of it can be read.
        """
        got = 0
        with suppress(StorageError):  # which comes again, when what is before was looked at
            while got < _HEAD and (more := self.readinto(view[got:])):
                got += more
        if not got:
            self._inside.head(1)
        self.head = bytes(view[:got])
        return got

    def readinto(self, view: memoryview) -> int:
        """Fill a view as far as there is something; 0 at the end.

        Raises:
            StorageError: it ends before its end.
        """
        if not self._block:
            self._block = memoryview(self._inside.next_block())
        size = min(len(view), len(self._block))
        view[:size] = self._block[:size]
        self._block = self._block[size:]
        if not size and self._inside.cause:
            raise StorageError(
                f"{self.name}: {self._inside.cause}; what is before was read", self.name
            )
        return size
