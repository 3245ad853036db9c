"""The start of a large session file, as a file of its own: what is shown while the rest is read.

Invariant: nothing is copied or written; the file system that the session is opened with ends the
file early, after a whole line.
"""

from __future__ import annotations

import os
from typing import Final

from msgspec.structs import replace

from sessiontree.storage.fs import Disk, Stat

_START: Final = 96 * 1024


def start_of(path: str, large: int) -> int:
    """Where the start of a file ends, if it has at least so many bytes; else 0."""
    try:
        if os.stat(path).st_size < large:
            return 0
        with open(path, "rb") as file:
            return file.read(_START).rfind(b"\n") + 1
    except OSError:  # opening the session reports it
        return 0


class Start(Disk):
    """The disk, on which one file has only its first bytes.

    Args:
        path: the file.
        most: how many bytes it seems to have.
    """

    def __init__(self, path: str, most: int) -> None:
        self._path = os.path.realpath(path)
        self._most = most
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
        if fd in self._open:
            size = max(0, min(size, self._most - offset))
        return super().read(fd, size, offset)

    def size(self, fd: int) -> int:
        found = super().size(fd)
        return min(found, self._most) if fd in self._open else found

    def stat(self, file: int | str) -> Stat:
        found = super().stat(file)
        is_it = file in self._open if isinstance(file, int) else self._is_at(file)
        return replace(found, size=min(found.size, self._most)) if is_it else found

    def _is_at(self, path: str) -> bool:
        return os.path.realpath(path) == self._path
