"""Lines worth decoding, found in the raw bytes of a file read from start to end.

The file is read in blocks into one buffer that is used again for the next file.
Each line lies whole in the buffer when it is looked at, however long it is. Of a
compressed file the lines are those inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.errors import DiskError
from sessiontree.storage.fs import DISK
from sessiontree.storage.zstd import MAGIC, Decompressed

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
            DiskError: it is compressed, and ends early.
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
        path: the file.
        head: how it starts, in 64 KB or more where there is as much.
        number: the number of the line that was given last, from 1.
    """

    def __init__(self, fd: int, file: str) -> None:
        self.path = file
        self.head = b""
        self.number = 1
        self._fd = fd
        self._inside = Decompressed(self)
        self._block = memoryview(b"")

    def read(self, size: int, offset: int) -> bytes:
        return DISK.read(self._fd, size, offset)

    def size(self) -> int:
        return DISK.stat(self._fd).size

    def begin(self, view: memoryview) -> int:
        """Fill a view with the start, a head at least, and keep that; as `readinto`.

        Raises:
            NotASessionError: it ends, or is damaged, before any of it can be read.
        """
        got = 0
        with suppress(DiskError):  # which comes again, when what is before was looked at
            while got < _HEAD and (more := self.readinto(view[got:])):
                got += more
        if not got:
            self._inside.head(1)
        self.head = bytes(view[:got])
        return got

    def readinto(self, view: memoryview) -> int:
        """Fill a view as far as there is something; 0 at the end.

        Raises:
            DiskError: it ends before its end.
        """
        if not self._block:
            self._block = memoryview(self._inside.next_block())
        size = min(len(view), len(self._block))
        view[:size] = self._block[:size]
        self._block = self._block[size:]
        if not size and self._inside.cause:
            raise DiskError(
                f"{self.path}: {self._inside.cause}; what is before was read", self.path
            )
        return size
