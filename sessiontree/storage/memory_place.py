"""Sessions in the memory of this process, by the name in their address: `memory://NAME/…`.

They last as long as the process, and no other process reaches them: for tests, and for agents whose
sessions are not kept. Each is a file of `MemoryFiles`, whose path is its address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sessiontree.errors import SessionExistsError, SessionNotFoundError
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import READ, Descriptor, Durability
from sessiontree.storage.log import BlobLocation, FileLog
from sessiontree.storage.memory import MemoryFiles
from sessiontree.storage.names import LOCK, SUFFIX
from sessiontree.storage.place import (
    Address,
    HeadAndTail,
    StoredSession,
    address_of,
    check_name,
    name_in,
    no_session,
)

_FILES: Final = MemoryFiles()
"""The files of all places in memory."""


class MemoryPlace:
    """Sessions in memory; see `Place`."""

    forks: Final = True
    likely: Final = None

    def __init__(self, opened: Address) -> None:
        self.url = opened.shown

    def address(self, name: str) -> str:
        return address_of(self.url, name)

    def name(self, address: str) -> str:
        return name_in(address)

    def log(
        self, name: str, *, readonly: bool = False, durability: Durability = "fsync"
    ) -> FileLog:
        self._check_there(name)
        return FileLog(_FILES, self.address(name), readonly=readonly, durability="os")

    def _check_there(self, name: str) -> None:
        if self.find(name) is None:
            raise SessionNotFoundError(no_session(name, self.url), self.address(name))

    def blobs(self, name: str) -> BlobLocation:
        return BlobLocation(_FILES, self.address(name), "os")

    def create(self, name: str, blocks: Iterable[bytes]) -> None:
        self._check_free(check_name(name, self.url))
        create_file(_FILES, self.address(name), iter(blocks))

    def _check_free(self, name: str) -> None:
        if self.find(name) is not None:
            path = self.address(name)
            raise SessionExistsError(f"{path} is there already; choose another name", path)

    def find(self, name: str) -> StoredSession | None:
        with contextlib.suppress(FileNotFoundError):
            found = _FILES.stat(self.address(name))
            return StoredSession(name, found.size, found.modified)
        return None

    def list(self, prefix: str = "") -> Iterator[StoredSession]:
        for path in _FILES.paths(self.address(prefix) if prefix else f"{self.url}/"):
            if path.endswith(SUFFIX) and (found := self.find(self.name(path))) is not None:
                yield found

    def ends(self, prefix: str, head: int, tail: int) -> Iterator[HeadAndTail]:
        for found in self.list(prefix):
            with Descriptor(_FILES, _FILES.open(self.address(found.name), READ)) as fd:
                start = max(0, found.size - tail)
                first, last = _FILES.read(fd, head, 0), _FILES.read(fd, found.size - start, start)
                yield HeadAndTail(found, first, last)

    def beside(self, name: str) -> Iterator[tuple[str, int]]:
        for path in self._beside(name):
            yield self.name(path), _FILES.stat(path).size

    def _beside(self, name: str) -> Sequence[str]:
        start = self.address(name)
        return sorted(path for path in _FILES.paths(f"{start}.") if path != start + LOCK)

    def move(self, source: str, target: str) -> None:
        with self._held(source) as path:
            self._check_free(check_name(target, self.url))
            for file in (*self._beside(source), path):
                _FILES.replace(file, self.address(target) + file[len(path) :])

    def remove(self, name: str) -> None:
        with self._held(name) as path:
            for file in (path, *self._beside(name)):
                _FILES.unlink(file)

    @contextlib.contextmanager
    def _held(self, name: str) -> Iterator[str]:
        with contextlib.closing(self.log(name)) as log, log.hold():
            yield log.path
            _FILES.unlink(log.path + LOCK)

    def close(self) -> None:
        """Do nothing: there is no connection."""
