"""Files in the memory of this process.

A session without a file is a `FileLog` on `MemoryFiles`, and so is one at `memory://NAME/…`.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from stat import S_IFREG

from sessiontree.storage.fs import POLL_MILLISECONDS, Stat, Times, Unlinked


class _File:
    __slots__ = ("content", "identity", "modified")

    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.content = bytearray()
        self.modified = time.time()


def _missing(file: int | str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


class MemoryFiles(Unlinked):
    """Files in memory, by their paths, by the rules of the disk; implements `FileSystem`.

    Bytes are only appended, a name is taken once, a descriptor outlives its name, and a folder
    exists if it was made or has a file. Threads may use it: each step is one of the interpreter's.
    """

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._folders: set[str] = set()
        self._open: dict[int, _File] = {}
        self._locked: dict[int, int] = {}  # the descriptor that has the lock, by identity
        self._numbers = itertools.count(1)
        self._followers = 0
        self._written = threading.Condition()

    def open(self, path: str, flags: int) -> int:
        file = self._names.get(path)
        if file is None:
            if not flags & os.O_CREAT:
                raise _missing(path)
            made = _File(next(self._numbers))
            file = self._names.setdefault(path, made)
            if file is not made and flags & os.O_EXCL:
                raise _taken(path)
        elif flags & os.O_EXCL:
            raise _taken(path)
        if flags & os.O_TRUNC:
            file.content.clear()
        fd = next(self._numbers)
        self._open[fd] = file
        return fd

    def close(self, fd: int) -> None:
        self.unlock(fd)
        del self._open[fd]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        # not by a memoryview: no thread can append while one is there
        return bytes(self._open[fd].content[offset : offset + size])

    def write(self, fd: int, block: bytes) -> int:
        file = self._open[fd]
        file.content += block
        file.modified = time.time()
        if self._followers:
            with self._written:
                self._written.notify_all()
        return len(block)

    def size(self, fd: int) -> int:
        return len(self._open[fd].content)

    def stat(self, file: int | str) -> Stat:
        found = self._open.get(file) if isinstance(file, int) else self._names.get(file)
        if found is None:
            raise _missing(file)
        size = len(found.content)
        return Stat(size, (0, found.identity), S_IFREG | 0o600, found.modified)

    def times(self, fd: int) -> Times:
        return self.stat(fd).times

    def replace(self, source: str, target: str) -> None:
        self._names[target] = self._named(source)
        del self._names[source]

    def link(self, source: str, target: str) -> None:
        file = self._named(source)
        if target in self._names or self._names.setdefault(target, file) is not file:
            raise _taken(target)

    def unlink(self, path: str) -> None:
        if self._names.pop(path, None) is None:
            raise _missing(path)

    def _named(self, path: str) -> _File:
        file = self._names.get(path)
        if file is None:
            raise _missing(path)
        return file

    def make_folder(self, path: str) -> None:
        if path in self._folders or path in self._names:
            raise _taken(path)
        self._folders.add(path)

    def remove_folder(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._folders.discard(path)

    def list(self, path: str) -> list[str]:
        found = [os.path.basename(name) for name in self.paths() if os.path.dirname(name) == path]
        if not found and path not in self._folders:
            raise _missing(path)
        return found

    def paths(self, start: str = "") -> Sequence[str]:
        """The paths of all files that begin with a text."""
        return [path for path in list(self._names) if path.startswith(start)]

    def lock(self, fd: int) -> bool:
        return self._locked.setdefault(self._open[fd].identity, fd) == fd

    def unlock(self, fd: int) -> None:
        identity = self._open[fd].identity
        if self._locked.get(identity) == fd:
            del self._locked[identity]

    def watch(self, folder: str, stop: threading.Event) -> Iterator[object]:
        self._followers += 1
        try:
            while not stop.is_set():
                with self._written:
                    self._written.wait(POLL_MILLISECONDS / 1000)
                yield None
        finally:
            self._followers -= 1
