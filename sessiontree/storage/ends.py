"""The ends of a large file, as a file of their own: its first line, and its last lines.

What is at the end of another agent's file can be read before all of the file is translated. A
position in the ends is not a position in the file.

Invariant: nothing is copied or written; a file system that joins the ends while they are read.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from msgspec.structs import replace

from sessiontree.storage.fs import Disk, Stat
from sessiontree.storage.zstd import MAGIC

_LONGEST: Final = 256 * 1024
"""Bytes of a first line; a longer one is not read."""


def ends_of(path: str, most: int) -> Ends | None:
    """The first line of a file and at most so many bytes of whole lines at its end.

    None for a file that has little more, that is compressed, or that cannot be read.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < 2 * most:
                return None
            file.seek(0)
            first = file.read(_LONGEST)
            head = first.find(b"\n") + 1
            file.seek(size - most)
            start = file.tell() + len(file.readline())
    except OSError:  # opening the session reports it
        return None
    if not head or first.startswith(MAGIC) or start >= size:
        return None
    return Ends(path, head, start, size)


class Ends(Disk):
    """The disk, on which one file has only its ends, and on which there is no other file.

    Args:
        path: the file.
        head: how many bytes its first line has.
        start: where its last lines start.
        size: where they end.
    """

    def __init__(self, path: str, head: int, start: int, size: int) -> None:
        self._path = os.path.realpath(path)
        self._head, self._start = head, start
        self._size = head + size - start

    def open(self, path: str, flags: int) -> int:
        if os.path.realpath(path) != self._path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return super().open(path, flags)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        size = max(0, min(size, self._size - offset))
        first = b""
        if offset < self._head:
            first = super().read(fd, min(size, self._head - offset), offset)
            offset = self._head
        rest = size - len(first)
        return first + super().read(fd, rest, self._start + offset - self._head)

    def size(self, fd: int) -> int:
        return self._size

    def stat(self, file: int | str) -> Stat:
        return replace(super().stat(file), size=self._size)
