"""Contents as files in a folder of this machine: where `?blobs=file:///…` keeps the blobs.

Invariants: a file gets its name when all its bytes are on the medium; no link is followed to a
file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import IO, Final, TypeVar

from sessiontree.storage.atomic import blocks_of, swap_file
from sessiontree.storage.fs import DISK, READ_PLAIN, Descriptor, FileSystem, os_errors
from sessiontree.storage.place import Content
from sessiontree.storage.sidecars import make_folders

_BLOCK: Final = 1024 * 1024

T = TypeVar("T")


class FolderContents:
    """Files below a folder, whose paths there are their keys; see `Contents`."""

    forks: Final = True

    def __init__(self, root: str, fs: FileSystem = DISK) -> None:
        self._root = os.path.abspath(root)
        self._fs = fs

    def _path(self, key: str) -> str:
        return os.path.join(self._root, key)

    def put(self, key: str, source: IO[bytes]) -> None:
        start = source.tell()

        def put() -> None:
            source.seek(start)
            self._write(key, iter(lambda: source.read(_BLOCK), b""))

        _again(put)

    def _write(self, key: str, blocks: Iterator[bytes]) -> None:
        path = self._path(key)
        make_folders(self._fs, os.path.dirname(path))
        swap_file(self._fs, path, blocks)

    def look(self, key: str) -> Content | None:
        path = self._path(key)
        with os_errors(path, "look at"):
            try:
                found = self._fs.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return None if found.is_folder else Content(found.size, found.modified)

    def read(self, key: str, offset: int, size: int) -> bytes:
        path = self._path(key)
        try:
            file = Descriptor(self._fs, self._fs.open(path, READ_PLAIN))
        except NotADirectoryError as error:
            raise FileNotFoundError(key) from error
        with file as fd:
            return self._fs.read(fd, size, offset) if size > 0 else b""

    def keys(self, prefix: str) -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        yield from sorted(key for key in self._below(folder) if key.startswith(prefix))

    def _below(self, folder: str) -> Iterator[str]:
        """The keys of the files in a folder, and below it."""
        path = self._path(folder)
        with os_errors(path, "list"):
            try:
                names = self._fs.list(path)
            except (FileNotFoundError, NotADirectoryError):
                return
        for name in names:
            key = f"{folder}/{name}" if folder else name
            if os.path.isdir(self._path(key)) and not os.path.islink(self._path(key)):
                yield from self._below(key)
            else:
                yield key

    def copy(self, source: str, target: str) -> None:
        def copy() -> None:
            with Descriptor(self._fs, self._fs.open(self._path(source), READ_PLAIN)) as fd:
                self._write(target, blocks_of(self._fs, fd))

        if self.look(source) is None:
            raise FileNotFoundError(source)
        if source != target:
            _again(copy)

    def remove(self, key: str) -> None:
        path = self._path(key)
        with os_errors(path, "remove"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._fs.unlink(path)
        with contextlib.suppress(OSError):  # it has other files
            self._fs.remove_folder(os.path.dirname(path))


def _again(write: Callable[[], T]) -> T:
    """Write, and again if another program removed the empty folder meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return write()
    return write()
