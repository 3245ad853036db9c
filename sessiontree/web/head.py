"""The start or the end of a large session file, as a file of its own, which is read at once.

Invariant: nothing is copied or written; the file system that the session is opened with leaves a
part of the file out, from the end of a line to the start of another.
"""

from __future__ import annotations

import os
from typing import Final

from msgspec.structs import replace

from sessiontree.storage.fs import Disk, Stat

_START: Final = 96 * 1024
_END: Final = 256 * 1024


def start_of(path: str, large: int) -> int:
    """Where the start of a file ends, if it has at least so many bytes; else 0."""
    try:
        if os.stat(path).st_size < large:
            return 0
        with open(path, "rb") as file:
            return file.read(_START).rfind(b"\n") + 1
    except OSError:  # opening the session reports it
        return 0


def ends_of(path: str) -> Part | None:
    """The file with its first line and its last lines alone; None where it is not longer."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = len(file.readline(_START))
        at = size - _END
        if at <= first:
            return None
        file.seek(at)
        skipped = file.read(_END).find(b"\n") + 1
    return Part(path, first, at + skipped) if skipped else None


class Part(Disk):
    """The disk, on which one file lacks what is between two places.

    Args:
        path: the file.
        end: where its first part ends.
        start: where its last part starts; None: it has none.
    """

    def __init__(self, path: str, end: int, start: int | None = None) -> None:
        self._path = os.path.realpath(path)
        self._end = end
        self._start = start
        self._open: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        if os.path.realpath(path) == self._path:
            self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._open.discard(fd)
        super().close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if fd not in self._open:
            return super().read(fd, size, offset)
        first = max(0, min(size, self._end - offset))
        found = super().read(fd, first, offset) if first else b""
        if self._start is None or first == size:
            return found
        return found + super().read(fd, size - first, self._start + offset + first - self._end)

    def size(self, fd: int) -> int:
        found = super().size(fd)
        return self._sized(found) if fd in self._open else found

    def stat(self, file: int | str) -> Stat:
        found = super().stat(file)
        is_it = file in self._open if isinstance(file, int) else self._is_at(file)
        return replace(found, size=self._sized(found.size)) if is_it else found

    def _sized(self, size: int) -> int:
        rest = 0 if self._start is None else max(0, size - self._start)
        return min(size, self._end) + rest

    def _is_at(self, path: str) -> bool:
        return os.path.realpath(path) == self._path
