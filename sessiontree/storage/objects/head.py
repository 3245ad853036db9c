"""The head of a session on object storage: which generation is in force, and its first bytes.

It is the object `NAME/head`. A generation that a rewrite makes has one of its own, `start`, to
which the barrier of the one before leads.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from sessiontree.errors import StorageError
from sessiontree.storage.objects.bucket import Bucket, ObjectRange, surely

INLINE: Final = 16 * 1024
"""So many of the first bytes of a session are in its head."""

_KEPT: Final = 48 * 1024 * 1024
"""The bytes of heads, compressed, that a process keeps for its next list."""

_CHUNK: Final = 8 * 1024 * 1024
"""The bytes of each object of a new content."""


class ObjectHead(msgspec.Struct, frozen=True):
    """What the first line of the object `NAME/head` says; the first bytes of the session follow."""

    generation: str  # the one in force, or an older one that leads to it by its barrier
    format: int = 1  # the version of this layout
    size: int = 0  # the bytes that the generation had when it was made; 0: not known
    copy_of: str = ""  # the generation that was moved here
    arriving: bool = False  # written up to 0.2.0: a session was being moved here

    def encoded(self, first: bytes) -> bytes:
        """The bytes of the object."""
        return msgspec.json.encode(self) + b"\n" + first


class HeadVersion(NamedTuple):
    """A head as it stands: what it says, the first bytes, its version, and when it was written."""

    head: ObjectHead
    first: bytes
    etag: str
    modified: float


def standing(bucket: Bucket, key: str) -> HeadVersion | None:
    """The head at a key; None if there is none, or an empty one, which a removal leaves.


    Raises:
        StorageError: it is not a head, or of a newer version.
    """
    try:
        got = bucket.get(key)
    except FileNotFoundError:
        return None
    return head_in(bucket, key, got) if got.content else None


def head_in(bucket: Bucket, key: str, got: ObjectRange) -> HeadVersion:
    """The head that an object is; raises as `standing` does."""
    where = f"{bucket.url}/{key}"
    line, newline, first = got.content.partition(b"\n")
    try:
        head = msgspec.json.decode(line, type=ObjectHead)
    except msgspec.MsgspecError:
        newline = b""
    if not newline:
        raise StorageError(
            f"{where} is not the head of a session; look what wrote it, and move it away", where
        )
    if head.format != 1:
        raise StorageError(
            f"{where} has the layout {head.format}, which this version of sessiontree does not "
            "know; update it",
            where,
        )
    return HeadVersion(head, first, got.etag, got.modified)


class Heads:
    """Heads of listed sessions, kept for the next list: a list takes no request for each of them.

    Where there are too many, the first ones stay: the next list reads them in the same order, and
    would find none of those that came last.
    """

    def __init__(self) -> None:
        self._kept: dict[str, HeadVersion] = {}
        self._size = 0
        self._lock = threading.Lock()

    def get(self, name: str, etag: str) -> HeadVersion | None:
        """The head of a session, if this version of it is kept."""
        found = self._kept.get(name)
        if found is None or found.etag != etag:
            return None
        return found._replace(first=zlib.decompress(found.first))

    def keep(self, name: str, head: HeadVersion) -> None:
        """Keep a head in place of an older version of it."""
        packed = zlib.compress(head.first, 1)
        with self._lock:
            self._drop(name)
            if self._size + len(packed) <= _KEPT:
                self._kept[name] = head._replace(first=packed)
                self._size += len(packed)

    def drop(self, name: str) -> None:
        """Forget a session that is not there any more."""
        with self._lock:
            self._drop(name)

    def _drop(self, name: str) -> None:
        before = self._kept.pop(name, None)
        self._size -= len(before.first) if before is not None else 0


def head_key(name: str) -> str:
    """The key of the head of a session."""
    return f"{name}/head"


def stored(bucket: Bucket, name: str, id: str, blocks: Iterable[bytes], copy_of: str = "") -> bytes:
    """Store a content as merged objects of a new generation; return the bytes of its head."""
    first = b""
    waiting = bytearray()
    at = 0

    def write() -> None:
        nonlocal at
        chunk = bytes(waiting[:_CHUNK])
        del waiting[:_CHUNK]
        key = f"{name}/{id}/merged/{at:020}-{at + len(chunk):020}.jsonl"
        surely(lambda: bucket.write(key, chunk))
        at += len(chunk)

    for block in blocks:
        waiting += block
        if not at and len(waiting) >= INLINE:
            first = bytes(waiting[:INLINE])
            del waiting[:INLINE]
            at = INLINE
        while at and len(waiting) >= _CHUNK:
            write()
    if not at:
        first = bytes(waiting)
        at = len(first)
    elif waiting:
        write()
    return ObjectHead(id, size=at, copy_of=copy_of).encoded(first)
