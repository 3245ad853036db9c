"""A session on object storage as all logs of this process share it."""

from __future__ import annotations

import threading
import time
from typing import Final
from weakref import WeakValueDictionary

from sessiontree.errors import SessionNotFoundError, StorageError, WriteFailedError
from sessiontree.storage.lock import ThreadLock
from sessiontree.storage.log import Moved
from sessiontree.storage.objects.bucket import Bucket, OutcomeUnknown, PreconditionFailed
from sessiontree.storage.objects.generation import Generation
from sessiontree.storage.objects.head import HeadVersion, head_key, standing
from sessiontree.storage.objects.marks import mark_in
from sessiontree.storage.place import no_session

_TRIES: Final = 6
_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class ObjectSession:
    """A session as all logs of this process share it."""

    def __init__(self, bucket: Bucket, name: str, path: str) -> None:
        self.bucket = bucket
        self.name = name
        self.path = path
        self.threads = ThreadLock(path)
        self.holder = 0  # the thread whose block holds the session, if one does
        self.seen: tuple[Generation, int] | None = None  # what that block saw, and builds on
        self.changed = threading.Condition()
        self._opening = threading.Lock()
        self._generations: WeakValueDictionary[str, Generation] = WeakValueDictionary()

    def generation(self, id: str, head: HeadVersion) -> Generation:
        """What is known of a generation, shared by its logs."""
        with self._opening:
            found = self._generations.get(id)
            if found is None:
                found = Generation(self.bucket, self.name, id, head.first, head.head.size)
                self._generations[id] = found
            return found

    def current(self, *, even_moved: bool = False) -> tuple[Generation, HeadVersion]:
        """The generation in force, just listed, and the head that leads to it.

        Args:
            even_moved: whether it may be one that a move of an older program ended.

        Raises:
            SessionNotFoundError: there is none.
        """
        head = start = standing(self.bucket, head_key(self.name))
        if head is None or start is None or head.head.arriving:
            raise self.missing()
        id = head.head.generation
        while True:
            generation = self.generation(id, start)
            generation.refresh()
            mark = generation.ending
            if mark is None or (even_moved and mark.kind == "moved"):
                return generation, head
            if mark.kind == "removed":
                raise self.missing()
            if mark.kind == "moved":
                raise StorageError(
                    f"{self.path} was being moved by a program that did not finish; "
                    "move it again to the same place",
                    self.path,
                )
            key = f"{self.name}/{mark.next}/start"
            id, start = mark.next, standing(self.bucket, key)
            if start is None:
                raise StorageError(
                    f"{self.bucket.url}/{key} is missing, and names the content of {self.path}; "
                    "restore it from a backup",
                    self.path,
                )

    def missing(self) -> SessionNotFoundError:
        """The error for a session that is not there."""
        return SessionNotFoundError(no_session(self.name, self.bucket.url), self.path)

    def put(self, generation: Generation, offset: int, content: bytes, by: str = "") -> None:
        """Put a block, or what ends the log, at the end that is known.

        An answer that is lost is settled by a look at the key: `by` names the append.

        Raises:
            Moved: something else stands there.
            WriteFailedError: whether it stands is unknown.
            StorageError: it was refused, and does not stand.
        """
        key = generation.block_key(offset)
        etag = generation.claim if offset == generation.end else ""
        unsure: OutcomeUnknown | None = None
        for attempt in range(_TRIES):
            try:
                if etag:
                    self.bucket.replace(key, content, etag, by)
                else:
                    self.bucket.create(key, content, by)
                return
            except PreconditionFailed:
                pass
            except OutcomeUnknown as error:
                unsure = error
            try:
                got = generation.look(key)
            except StorageError as error:
                if unsure is not None:
                    raise self._unknown(unsure) from error
                raise
            if got is not None and (got.by == by if by else got.content == content):
                return
            mark = None if got is None else mark_in(got)
            if got is not None and (mark is None or mark.ends):
                if mark is None:
                    generation.added(offset, got.content)
                else:
                    generation.ending = mark
                raise Moved
            if got is None or got.etag == etag:  # it did not arrive, or the server is busy
                time.sleep(min(_PAUSE * 2**attempt, _LONGEST_PAUSE))
            etag = "" if got is None else got.etag  # of a claim of an older program
        if unsure is not None:
            raise self._unknown(unsure)
        raise StorageError(
            f"the server neither takes nor has {self.bucket.url}/{key}; try again", self.path
        )

    def _unknown(self, error: OutcomeUnknown) -> WriteFailedError:
        return WriteFailedError(
            f"writing to {self.path} failed: {error}. Whether the last entry was kept is unknown, "
            "and this session writes no more; check the network and open the session again to see",
            self.path,
        )
