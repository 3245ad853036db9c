"""Fetching: how entries reach the blobs of the file they were read from.

Invariants: nothing of the session is held, nor of its open file. An entry is not tracked
by the garbage collector: one that held its session, which holds entries, would keep both
for as long as the process lives, and an exclusive session its lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sessiontree.core.blob import Blob, blob_of
from sessiontree.core.entry import Entry
from sessiontree.core.spill import out_of_reach
from sessiontree.errors import SpilledError
from sessiontree.storage.log import FileLog

if TYPE_CHECKING:
    from sessiontree.storage.blobs import Blobs


class Fetching:
    """Gives the bytes of a blob, by the text form of its handle; raises BlobError."""

    def __init__(self, log: FileLog) -> None:
        self._place = log.fs, log.path, log.durability
        self._blobs: Blobs | None = None

    @property
    def blobs(self) -> Blobs:
        """The sidecar folder of the file."""
        from sessiontree.storage.blobs import Blobs  # many sessions have none

        if self._blobs is None:
            self._blobs = Blobs(*self._place)
        return self._blobs

    def is_beside(self, log: FileLog) -> bool:
        """Whether this is the sidecar of that file."""
        return self._place[:2] == (log.fs, log.path)

    def __call__(self, handle: str) -> bytes:
        blob = blob_of(handle)
        if blob is None:
            file = self._place[1]
            raise SpilledError(
                f"{file}: {handle:.100} is no blob's handle; compare the entry with a backup", file
            )
        return self.blobs.read(*blob)


def blocks_of(entry: Entry, blob: Blob) -> Iterator[bytes]:
    """The bytes of a blob that an entry names, block by block.

    Raises:
        BlobError: it cannot be had as it was; maybe in place of the last block.
    """
    fetch = entry._fetch
    if not isinstance(fetch, Fetching):
        out_of_reach(f"blob {blob.sha256}")
    return fetch.blobs.blocks(*blob)
