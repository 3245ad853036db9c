"""Lines worth decoding, found in the raw bytes of whole sessions, from start to end.

A file is read in blocks into one buffer, which is used again for the next file; each line is whole
in the buffer when it is looked at, whatever its length. Of a compressed file the decompressed lines
are read. A session at an address is read from its log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.header import is_in_database
from sessiontree.errors import StorageError
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import MAGIC, Decompressed, Positioned
from sessiontree.storage.place import START, is_address

if TYPE_CHECKING:
    from sessiontree.storage.log import LinesWith
    from sessiontree.text.pattern import Prefilter

Find = Callable[[bytearray | bytes, int], Iterator[tuple[int, int]]]
"""Takes whole lines and where they end, gives where the lines wanted begin and end."""

Narrow = Callable[[bytes], "Prefilter | None"]
"""Takes the start of a log, `START` bytes; gives what each line has that is wanted.

None where any line may be wanted.
"""

BLOCK: Final = 256 * 1024
_KEPT: Final = 16 * BLOCK
"""The largest buffer that a scanner keeps after a very long line."""


def _nothing(start: bytes) -> None:
    """The `narrow` of a caller that does not know what the lines have."""


class Scanner:
    """Reads files one after the other, for one thread at a time.

    `file` is the file begun last; it can be read while its lines are being given. `inside`
    is its decompressed content, None if it is not compressed.
    """

    file: Positioned

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self.inside: DecompressedFile | None = None

    def lines(
        self, file: str, find: Find, narrow: Narrow = _nothing
    ) -> Generator[tuple[int, bytes], None, None]:
        """The offset and the bytes of each line that `find` finds, as the file is now.

        `narrow` tells what each of them has, for a server that can search. A last line without its
        LF counts as well. Raises OSError as the system does, and for
        a compressed file as `DecompressedFile.readinto` does.
        """
        if is_address(file) or is_in_database(file):
            yield from self._lines_of_log(file, find, narrow)
            return
        buffer, self._buffer = self._buffer, bytearray()  # another file may be begun meanwhile
        buffer = buffer or bytearray(BLOCK)
        offset = filled = 0
        self.inside = inside = None
        with open(file, "rb", buffering=0) as reading:
            self.file = scanned = ScannedFile(file, reading.fileno())
            fill: Callable[[memoryview], int | None] = reading.readinto
            while True:
                got = fill(memoryview(buffer)[filled:]) or 0
                if not offset + filled and buffer.startswith(MAGIC):
                    self.inside = inside = DecompressedFile(scanned)
                    fill = inside.readinto
                    got = fill(memoryview(buffer))
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

    def _lines_of_log(
        self, file: str, find: Find, narrow: Narrow
    ) -> Generator[tuple[int, bytes], None, None]:
        from sessiontree.storage.places import open_log  # few sessions have an address

        self.inside = None
        with closing(open_log(DISK, file, readonly=True)) as log:
            self.file = log
            at: int | None = 0
            if log.lines_with is not None:
                sought = narrow(log.read(0, START))
                if sought is not None:
                    at = yield from _found(log.lines_with, sought, find)
            if at is None:
                return
            buffer, offset = bytearray(), at
            while block := log.read(at, BLOCK):
                at += len(block)
                end = len(buffer) + block.rfind(b"\n") + 1 if b"\n" in block else 0
                buffer += block
                for start, stop in find(buffer, end):
                    yield offset + start, bytes(buffer[start:stop])
                del buffer[:end]
                offset += end
            for start, stop in find(buffer, len(buffer)):
                yield offset + start, bytes(buffer[start:stop])


def _found(
    lines_with: LinesWith, sought: Prefilter, find: Find
) -> Generator[tuple[int, bytes], None, int | None]:
    """The lines that a log's server finds; returns from where on it does not know them, if so."""
    with closing(lines_with(sought)) as found:
        for offset, line in found:
            if not line.endswith(b"\n"):
                return offset
            for start, stop in find(bytearray(line), len(line)):
                yield offset + start, line[start:stop]
    return None


class ScannedFile:
    """A file that a scanner has open, read by position."""

    def __init__(self, path: str, fd: int) -> None:
        self.name = path
        self._fd = fd

    def read(self, offset: int, size: int) -> bytes:
        return DISK.read(self._fd, size, offset)

    def size(self) -> int:
        return DISK.stat(self._fd).size  # `DISK.size` would move the position of the scan


class DecompressedFile:
    """The decompressed content of a compressed file, from start to end.

    `number` is that of the line given last, from 1.
    """

    def __init__(self, file: ScannedFile) -> None:
        self.number = 1
        self._name = file.name
        self._content = Decompressed(file)
        self._block = memoryview(b"")
        self._is_begun = False

    def readinto(self, view: memoryview) -> int:
        """Fill a view as far as there is something; 0 at the end.

        Raises:
            NotASessionError: it ends, or is damaged, before any of it can be read.
            StorageError: it ends before its end.
        """
        if not self._block:
            self._block = memoryview(self._content.next_block())
        size = min(len(view), len(self._block))
        view[:size] = self._block[:size]
        self._block = self._block[size:]
        if not size and not self._is_begun:
            self._content.head(1)
        if not size and self._content.cause:
            raise StorageError(
                f"{self._name}: {self._content.cause}; what is before was read", self._name
            )
        self._is_begun = True
        return size
