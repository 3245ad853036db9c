"""Sessions in the memory of this process, by the name in their address: `memory://NAME/…`.

They last as long as the process, and no other process reaches them: for tests, and for agents whose
sessions are not kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import IO, Final

from sessiontree.errors import SessionExistsError, SessionNotFoundError
from sessiontree.storage.contents import ContentFiles, move_beside, remove_beside
from sessiontree.storage.fs import Durability
from sessiontree.storage.log import BlobPlace, MemoryLog
from sessiontree.storage.names import BLOBS
from sessiontree.storage.place import (
    Address,
    Ends,
    StoredContent,
    StoredSession,
    address_of,
    check_name,
    name_in,
    no_session,
)


class MemoryContents:
    """Contents in memory; see `Contents`."""

    forks: Final = True

    def __init__(self) -> None:
        self._contents: dict[str, tuple[bytes, float]] = {}

    def put(self, key: str, source: IO[bytes]) -> None:
        self._contents[key] = source.read(), time.time()

    def look(self, key: str) -> StoredContent | None:
        found = self._contents.get(key)
        return None if found is None else StoredContent(len(found[0]), found[1])

    def read(self, key: str, offset: int, size: int) -> bytes:
        return self._content(key)[offset : offset + size]

    def keys(self, prefix: str) -> Iterator[str]:
        yield from sorted(key for key in list(self._contents) if key.startswith(prefix))

    def copy(self, source: str, target: str) -> None:
        self._contents[target] = self._content(source), time.time()

    def remove(self, key: str) -> None:
        self._contents.pop(key, None)

    def _content(self, key: str) -> bytes:
        found = self._contents.get(key)
        if found is None:
            raise FileNotFoundError(key)
        return found[0]


class _Memory:
    """What is in memory under a name, which all places with this name share."""

    def __init__(self) -> None:
        self.contents = MemoryContents()
        self.logs: dict[str, MemoryLog] = {}
        self.lock = threading.RLock()


_memories: Final[dict[str, _Memory]] = {}


class MemoryPlace:
    """Sessions in memory; see `Place`."""

    likely: Final = None

    def __init__(self, opened: Address) -> None:
        self.url = opened.shown
        memory = _memories.setdefault(self.url, _Memory())
        self.contents = memory.contents
        self._options = opened.shown_options
        self._files = ContentFiles(self.contents, f"{self.url}/")
        self._logs = memory.logs
        self._lock = memory.lock

    def address(self, name: str) -> str:
        return address_of(self.url, name, self._options)

    def name(self, address: str) -> str:
        return name_in(address)

    def log(
        self, name: str, *, readonly: bool = False, durability: Durability = "fsync"
    ) -> MemoryLog:
        opened = self._log(name).opened(readonly=readonly)
        opened.name = self.address(name)
        opened.blobs = self.blobs(name)
        return opened

    def _log(self, name: str) -> MemoryLog:
        with self._lock:
            log = self._logs.get(name)
            if log is None:
                raise SessionNotFoundError(no_session(name, self.url), self.address(name))
            if log.was_replaced():
                log.reopen()
            return log

    def blobs(self, name: str) -> BlobPlace:
        return BlobPlace(self._files, self.address(name), "os", f"{self.url}/{name}{BLOBS}")

    def create(self, name: str, blocks: Iterable[bytes]) -> None:
        path = self.address(check_name(name, self.url))
        with self._lock:
            if name in self._logs:
                raise SessionExistsError(f"{path} is there already; choose another name", path)
            log = MemoryLog(path, blocks)
            log.blobs = self.blobs(name)
            self._logs[name] = log

    def find(self, name: str) -> StoredSession | None:
        with self._lock:
            return self._found(name) if name in self._logs else None

    def _found(self, name: str) -> StoredSession:
        log = self._log(name)
        return StoredSession(name, log.size(), log.modified)

    def list(self, prefix: str = "") -> Iterator[StoredSession]:
        with self._lock:
            names = [name for name in self._logs if name.startswith(prefix)]
            found = [self._found(name) for name in names]
        yield from found

    def ends(self, prefix: str, head: int, tail: int) -> Iterator[Ends]:
        for found in self.list(prefix):
            log = self._log(found.name)
            start = max(0, found.size - tail)
            yield Ends(found, log.read(0, head), log.read(start, found.size - start))

    def move(self, source: str, target: str) -> None:
        log = self._log(source)
        with log.hold(), self._lock:
            if target in self._logs:
                path = self.address(target)
                raise SessionExistsError(f"{path} is there already; choose another name", path)
            check_name(target, self.url)
            moved = log.end("moved")
            moved.name = self.address(target)
            moved.blobs = self.blobs(target)
            move_beside(self.contents, source, target)
            self._logs[target] = moved
            del self._logs[source]

    def remove(self, name: str) -> None:
        log = self._log(name)
        with log.hold(), self._lock:
            log.end("removed")
            del self._logs[name]
            remove_beside(self.contents, name)

    def close(self) -> None:
        """Do nothing: there is no connection."""
