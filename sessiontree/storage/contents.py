"""The contents of a place as files, and as the parts beside a log.

`Blobs` works on a `FileSystem`: it writes a file under a temporary name, and renames it. Here, the
temporary file is on this machine, and the rename puts its bytes into the place, whole.

Invariant: a file is read from the place under its key alone; nothing of it is kept here.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from stat import S_IFREG
from typing import IO, Final, Protocol

from sessiontree.storage.fs import Stat, Times, Unlinked
from sessiontree.storage.place import StoredContent
from sessiontree.storage.sidecars import name_beside

_IN_MEMORY: Final = 8 * 1024 * 1024
"""The bytes of a temporary file that are kept in memory."""

_BLOCK: Final = 1024 * 1024


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class Contents(Protocol):
    """Runs of bytes by their keys, each written whole and in one step."""

    def put(self, key: str, source: IO[bytes]) -> None:
        """Make or replace a content with all that a file has from its position on.

        It is durable when this returns.
        """

    def look(self, key: str) -> StoredContent | None:
        """The size and the time of a content; None if there is none."""

    def read(self, key: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end.

        Raises:
            FileNotFoundError: there is no such content; also for `copy`.
        """

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin with a text, sorted."""

    def copy(self, source: str, target: str) -> None:
        """Make or replace a content with the bytes of another."""

    def remove(self, key: str) -> None:
        """Remove a content, unless there is none."""


class ContentFiles(Unlinked):
    """The contents of a place as a `FileSystem`, whose paths are `root` and a key.

    Args:
        root: starts each path; the rest is the key.
    """

    def __init__(self, contents: Contents, root: str) -> None:
        self._contents = contents
        self._root = root
        self._beside: dict[str, IO[bytes]] = {}
        self._renamed: set[str] = set()  # of which no look is needed to know that they are gone
        self._open: dict[int, tuple[str, StoredContent | None]] = {}
        self._numbers = itertools.count(1)

    def _key(self, path: str) -> str:
        return path.removeprefix(self._root)

    def open(self, path: str, flags: int) -> int:
        found = None
        if flags & os.O_CREAT:
            self._beside[path] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        elif path not in self._beside:
            found = self._contents.look(self._key(path))
            if found is None:
                raise _missing(path)
        fd = next(self._numbers)
        self._open[fd] = path, found
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        path, found = self._open[fd]
        if found is not None:
            return self._contents.read(self._key(path), offset, size)
        beside = self._beside[path]
        beside.seek(offset)
        return beside.read(size)

    def write(self, fd: int, block: bytes) -> int:
        beside = self._beside[self._open[fd][0]]
        beside.seek(0, os.SEEK_END)
        return beside.write(block)

    def size(self, fd: int) -> int:
        return self.stat(fd).size

    def stat(self, file: int | str) -> Stat:
        path, found = self._open[file] if isinstance(file, int) else (file, None)
        beside = self._beside.get(path)
        if beside is not None:
            return Stat(_length(beside), (0, 0), S_IFREG | 0o600)
        found = found or self._contents.look(self._key(path))
        if found is None:
            raise _missing(path)
        return Stat(found.size, (0, 0), S_IFREG | 0o600, found.modified)

    def times(self, fd: int) -> Times:
        return self.stat(fd).times

    def replace(self, source: str, target: str) -> None:
        beside = self._beside.get(source)
        if beside is None:
            self._contents.copy(self._key(source), self._key(target))
            self._contents.remove(self._key(source))
            return
        beside.seek(0)
        self._contents.put(self._key(target), beside)
        self._drop(source)
        self._renamed.add(source)

    def link(self, source: str, target: str) -> None:
        self._contents.copy(self._key(source), self._key(target))

    def unlink(self, path: str) -> None:
        if path in self._beside:
            self._drop(path)
        elif path in self._renamed:
            self._renamed.discard(path)
            raise _missing(path)
        elif self._contents.look(self._key(path)) is None:
            raise _missing(path)
        else:
            self._contents.remove(self._key(path))

    def _drop(self, path: str) -> None:
        self._beside.pop(path).close()

    def make_folder(self, path: str) -> None:
        """Do nothing: a key needs no folder."""

    def remove_folder(self, path: str) -> None:
        """Do nothing, as for `make_folder`."""

    def list(self, path: str) -> list[str]:
        start = f"{self._key(path)}/"
        names = (key.removeprefix(start) for key in self._contents.keys(start))
        return [name for name in names if "/" not in name]

    def lock(self, fd: int) -> bool:
        return True

    def unlock(self, fd: int) -> None:
        """Do nothing, as `lock` does."""


@contextlib.contextmanager
def spooled(blocks: Iterable[bytes]) -> Iterator[Iterator[bytes]]:
    """Take all blocks first, and give them again, as blocks of a megabyte."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        for block in blocks:
            file.write(block)
        file.seek(0)
        yield iter(lambda: file.read(_BLOCK), b"")


def _length(file: IO[bytes]) -> int:
    return file.seek(0, os.SEEK_END)


class ContentParts:
    """The parts beside the log of a session, which are contents; see `Parts`.

    Args:
        contents: the contents of the place.
        name: the session's, with which the key of each part begins.
        log: the address of the log; that of a part has its suffix before the options.
    """

    def __init__(self, contents: Contents, name: str, log: str) -> None:
        self._contents = contents
        self._name = name
        self._log = log

    def list(self) -> list[str]:
        """See `Parts`; a blob is none."""
        keys = self._contents.keys(f"{self._name}.")
        return sorted(key[len(self._name) :] for key in keys if "/" not in key[len(self._name) :])

    def name(self, suffix: str) -> str:
        return name_beside(self._log, suffix)

    def size(self, suffix: str) -> int:
        found = self._contents.look(self._name + suffix)
        if found is None:
            raise _missing(self._name + suffix)
        return found.size

    def read(self, suffix: str) -> Iterator[bytes]:
        size, offset = self.size(suffix), 0
        while offset < size:
            block = self._contents.read(self._name + suffix, offset, min(_BLOCK, size - offset))
            if not block:
                return
            yield block
            offset += len(block)

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            for block in blocks:
                file.write(block)
            file.seek(0)
            self._contents.put(self._name + suffix, file)

    def remove(self, suffix: str) -> None:
        self.size(suffix)
        self._contents.remove(self._name + suffix)


def beside(contents: Contents, name: str) -> Iterator[tuple[str, int]]:
    """See `Place.beside`."""
    for key in contents.keys(f"{name}."):
        if (found := contents.look(key)) is not None:
            yield key, found.size


def remove_beside(contents: Contents, name: str) -> None:
    """Remove all that is kept beside a session."""
    for key in list(contents.keys(f"{name}.")):
        contents.remove(key)
