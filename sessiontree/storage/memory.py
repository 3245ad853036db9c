"""A file system in memory: what a session without a file is kept in.

It holds the same files, by the same rules, as the disk does: bytes are only
ever appended, a name is taken once, a descriptor outlives its name. It syncs
nothing and locks nothing, for no other process can reach it.
"""

from __future__ import annotations

import errno
import itertools
import os
from stat import S_IFREG

from sessiontree.storage.fs import Stat


class _File:
    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.content = bytearray()


class Memory:
    """Files by their paths, and no folder but those that were made; implements `FileSystem`."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._folders: set[str] = set()
        self._open: dict[int, _File] = {}
        self._numbers = itertools.count(1)

    def open(self, path: str, flags: int) -> int:
        file = self._names.get(path)
        if file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            file = self._names[path] = _File(next(self._numbers))
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if flags & os.O_TRUNC:
            file.content.clear()
        fd = next(self._numbers)
        self._open[fd] = file
        return fd

    def close(self, fd: int) -> None:
        del self._open[fd]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._open[fd].content[offset : offset + size])

    def write(self, fd: int, block: bytes) -> int:
        self._open[fd].content += block
        return len(block)

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass

    def size(self, fd: int) -> int:
        return len(self._open[fd].content)

    def stat(self, file: int | str) -> Stat:
        found = self._open.get(file) if isinstance(file, int) else self._names.get(file)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return Stat(len(found.content), (0, found.identity), S_IFREG | 0o600)

    def replace(self, source: str, target: str) -> None:
        self._names[target] = self._names.pop(source)

    def link(self, source: str, target: str) -> None:
        if target in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        self._names[target] = self._names[source]

    def unlink(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        del self._names[path]

    def make_folder(self, path: str) -> None:
        if path in self._folders or path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._folders.add(path)

    def list(self, path: str) -> list[str]:
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return [name[len(path) + 1 :] for name in self._names if os.path.dirname(name) == path]

    def lock(self, fd: int) -> bool:
        return True

    def unlock(self, fd: int) -> None:
        pass
