"""The logs of a place as files to read."""

from __future__ import annotations

import errno
import itertools
import os
from stat import S_IFREG

from sessiontree.storage.backends import place_of
from sessiontree.storage.files import SUFFIX
from sessiontree.storage.fs import Stat, Times
from sessiontree.storage.log import Log
from sessiontree.storage.place import Ends, Place


class Logs:
    """The logs of a place as files to read: a `FileSystem` without the calls that write.

    Args:
        place: the place; a path is an address in it.
        ends: what is known of the one session that is read, which takes no request then.
    """

    def __init__(self, place: Place, ends: Ends | None = None) -> None:
        self._place = place
        self._ends = ends
        self._open: dict[int, tuple[str, Log | None]] = {}
        self._numbers = itertools.count(1)

    def open(self, path: str, flags: int) -> int:
        name = self._place.name(path)
        log = None
        if self._ends is None or name != self._ends.found.name:
            if not name.endswith(SUFFIX):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            log = self._place.log(name, readonly=True)
        fd = next(self._numbers)
        self._open[fd] = name, log
        return fd

    def close(self, fd: int) -> None:
        _, log = self._open.pop(fd)
        if log is not None:
            log.close()

    def read(self, fd: int, size: int, offset: int) -> bytes:
        name, log = self._open[fd]
        if log is None and self._ends is not None:
            whole = self._ends.found.size
            size = max(0, min(size, whole - offset))
            if offset + size <= len(self._ends.head):
                return self._ends.head[offset : offset + size]
            start = whole - len(self._ends.tail)
            if offset >= start:
                return self._ends.tail[offset - start : offset - start + size]
            log = self._place.log(name, readonly=True)
            self._open[fd] = name, log
        assert log is not None
        return log.read(offset, size)

    def size(self, fd: int) -> int:
        return self.stat(fd).size

    def stat(self, file: int | str) -> Stat:
        name = self._open[file][0] if isinstance(file, int) else self._place.name(file)
        if self._ends is not None and name == self._ends.found.name:
            found = self._ends.found
        else:
            named = self._place.find(name) if name.endswith(SUFFIX) else None
            if named is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            found = named
        return Stat(found.size, (0, 0), S_IFREG | 0o600, found.modified)

    def times(self, fd: int) -> Times:
        return self.stat(fd).times

    def list(self, path: str) -> list[str]:
        return []

    def _refuse(self, *given: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    sync = sync_folder = replace = link = unlink = make_folder = remove_folder = unlock = _refuse

    def write(self, fd: int, block: bytes) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def lock(self, fd: int) -> bool:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def files_of(address: str) -> Logs:
    """The logs of the place of an address as files."""
    place, _ = place_of(address)
    return Logs(place)
