"""Excerpts of a large file, each a file of its own, which is read at once.

What is at an end of another agent's file can be read before all of the file is translated. A
position in an excerpt is not a position in the file.

Invariant: nothing is copied or written; the file system that a session is opened with leaves a part
of the file out, from the end of a line to the start of another.
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


def ends_of(path: str, most: int) -> Excerpt | None:
    """The first line of a file and at most so many bytes of whole lines at its end.

    There is no other file beside them, and they do not grow. None for a file that has little more,
    that is compressed, or that cannot be read.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < 2 * most:
                return None
            file.seek(0)
            first = file.read(_LONGEST)
            end = first.find(b"\n") + 1
            file.seek(size - most)
            start = file.tell() + len(file.readline())
    except OSError:  # opening the session reports it
        return None
    if not end or first.startswith(MAGIC) or start >= size:
        return None
    return Excerpt(path, end, start, size, is_alone=True)


class Excerpt(Disk):
    """The disk, on which one file lacks what is between two places.

    Args:
        path: the file.
        end: where its first part ends.
        start: where its last part starts; None: it has none.
        until: where its last part ends; None: where the file ends, also when it grows.
        is_alone: whether there is no other file, such as the transcript of a subagent.
    """

    def __init__(
        self,
        path: str,
        end: int,
        start: int | None = None,
        until: int | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        self._path = os.path.realpath(path)
        self._end, self._start, self._until = end, start, until
        self._is_alone = is_alone
        self._open: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        is_it = self._is_at(path)
        if self._is_alone and not is_it:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        fd = super().open(path, flags)
        if is_it:
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
        at = self._start + offset + first - self._end
        rest = size - first if self._until is None else max(0, min(size - first, self._until - at))
        return found + super().read(fd, rest, at) if rest else found

    def size(self, fd: int) -> int:
        found = super().size(fd)
        return self._sized(found) if fd in self._open else found

    def stat(self, file: int | str) -> Stat:
        found = super().stat(file)
        is_it = file in self._open if isinstance(file, int) else self._is_at(file)
        return replace(found, size=self._sized(found.size)) if is_it else found

    def _sized(self, size: int) -> int:
        whole = size if self._until is None else min(size, self._until)
        rest = 0 if self._start is None else max(0, whole - self._start)
        return min(size, self._end) + rest

    def _is_at(self, path: str) -> bool:
        return os.path.realpath(path) == self._path
