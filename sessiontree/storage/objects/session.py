"""A session on object storage as all logs of this process share it."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from sessiontree.errors import SessionNotFoundError, StorageError
from sessiontree.storage.lock import ThreadLock
from sessiontree.storage.objects.bucket import Bucket
from sessiontree.storage.objects.claims import Claims
from sessiontree.storage.objects.generation import Generation
from sessiontree.storage.objects.head import Standing, head_key, standing
from sessiontree.storage.place import no_session


class ObjectSession:
    """A session as all logs of this process share it.

    Attributes:
        threads: keeps the threads apart.
        holder: the thread whose blocks hold the session, if any do.
        held_end: the end that it knows; what others add behind it, it has not read.
        keeper: the token of the logs that keep it until they close; None if none does.
        claims: writes at its end, and what holds the end for this process.
    """

    def __init__(self, bucket: Bucket, name: str, path: str) -> None:
        self.bucket = bucket
        self.name = name
        self.path = path
        self.threads = ThreadLock(self.path)
        self.holder = 0
        self.held_end = 0
        self.keeper: object = None
        self.claims = Claims(bucket, path)
        self.changed = threading.Condition()
        self._opening = threading.Lock()
        self._generations: WeakValueDictionary[str, Generation] = WeakValueDictionary()

    @property
    def depth(self) -> int:
        """How many blocks of the thread that is alone hold the session."""
        return self.threads.depth

    def generation(self, id: str, first: bytes) -> Generation:
        """What is known of a generation, shared by its logs."""
        with self._opening:
            found = self._generations.get(id)
            if found is None:
                found = self._generations[id] = Generation(self.bucket, self.name, id, first)
            return found

    def current(self, *, even_moved: bool = False) -> tuple[Generation, Standing]:
        """The generation in force, just listed, and the head that leads to it.

        Args:
            even_moved: whether it may be one that a move has ended and not cleared away.

        Raises:
            SessionNotFoundError: there is none.
        """
        head = standing(self.bucket, head_key(self.name))
        if head is None or head.head.arriving:
            raise self.missing()
        id, first = head.head.generation, head.first
        while True:
            generation = self.generation(id, first)
            generation.refresh()
            mark = generation.mark
            if mark is None or not mark.ends or (even_moved and mark.kind == "moved"):
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
            following = standing(self.bucket, key)
            if following is None:
                raise StorageError(
                    f"{self.bucket.url}/{key} is missing, and names the content of {self.path}; "
                    "restore it from a backup",
                    self.path,
                )
            id, first = mark.next, following.first

    def missing(self) -> SessionNotFoundError:
        """The error for a session that is not there."""
        return SessionNotFoundError(no_session(self.name, self.bucket.url), self.path)
