"""The log of a session on object storage; see `Log`, and `generation` for its objects.

To append is to create the object that is named after the end, if it is absent. That is the only
lock: `hold` keeps out the threads of this process, and lets its block see one state of the log.
What such a block appends or rewrites raises `Moved` if another program was faster.

Why an acknowledged block is never lost, and none is stored twice:

1. An append is acknowledged when its block stands at the end that the writer knew. The writer knew
   that all bytes before it stand, so the block is a part of the log: readers go from object to
   object, and look by key for what a listing lacks.
2. The key of a block stays taken while the generation is in force, so a create that arrives late
   fails, and the end has one block. A writer that comes second gets `Moved`. (A claim that a
   program up to 0.2.0 left at the end is replaced by its version, which only one writer can.)
3. An answer that is lost is settled by looking at the key: each block says who wrote it, by a name
   that one append uses alone. Ours stands: it is kept. Another's stands: ours can never arrive.
   Nothing stands: the same create is sent again, and whichever arrives second fails.
4. A rewrite ends the generation with a block of its own, by the same compare-and-swap. What was
   appended before it is in the new generation, or the rewrite fails; an append after it fails.
5. Of a generation that was replaced, moved or removed, a key that was taken within the last day
   stays taken, and what ended it stays for ever. A writer that was away for more than an hour, by
   whichever clock says so, looks after its append whether the block is a part of the log, before it
   acknowledges it.

What a merge or the removal of old objects fails to do is left to the next writer.
"""

from __future__ import annotations

import contextlib
import copy
import secrets
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from sessiontree.errors import SessionNotFoundError, StorageError, WriteFailedError
from sessiontree.storage.contents import ContentParts
from sessiontree.storage.fs import POLL_MILLISECONDS
from sessiontree.storage.log import BlobLocation, Moved, SharedLogState, check_allowed, closed_error
from sessiontree.storage.objects.bucket import OutcomeUnknown, PreconditionFailed, surely
from sessiontree.storage.objects.generation import Generation, moment, since
from sessiontree.storage.objects.head import head_key, stored
from sessiontree.storage.objects.marks import EndMarker
from sessiontree.storage.place import never_exclusive
from sessiontree.storage.sidecars import keep

if TYPE_CHECKING:
    from sessiontree.storage.objects.place import ObjectPlace

_AWAY_SECONDS: Final = 3600.0

_JUST_SECONDS: Final = 0.02
"""How long the first look after an opening, and the one after a size, take what that has listed."""

_NAMES: Final = count()
_PROCESS: Final = secrets.token_hex(8)


class ObjectLog:
    """A session on object storage; see `Log`."""

    find: Final = None
    lines_with: Final = None
    keeps_out: Final = False

    def __init__(self, place: ObjectPlace, name: str, *, readonly: bool = False) -> None:
        self._place = place
        self._session = place.opened(name)
        self._bucket = place.bucket
        self.name = self._session.path
        self.readonly = readonly
        self.ended = ""
        self.blobs: BlobLocation = place.blobs(name)
        self.parts = ContentParts(place.contents, name, self.name)
        self._sharing = SharedLogState(self._session.path)
        self._failed = ""
        self._has_written = False
        self._is_new = False  # nothing was asked since it was opened
        self._is_sized = False  # nothing was asked since its size was
        self._looked = 0.0
        self._open = False
        self.reopen()

    def reopen(self) -> None:
        self._generation, head = self._session.current()
        self._open = True
        if self._holds():
            self._session.seen = self._generation, self._generation.end
        self._is_new, self._is_sized = True, False
        self._looked = time.monotonic()
        if not self.readonly and head.head.generation != self._generation.id:
            self._mend(head.etag)

    def _mend(self, etag: str) -> None:
        """Let the head name the generation in force, which a rewrite that died did not do."""
        with contextlib.suppress(PreconditionFailed, OutcomeUnknown, StorageError):
            start = self._bucket.get(f"{self._generation.folder}/start").content
            self._bucket.replace(head_key(self._session.name), start, etag)

    @property
    def written(self) -> int:
        return self._sharing.written

    @property
    def foreign(self) -> list[str]:
        """The keys of objects among those of the log that are not of the session."""
        return sorted(self._generation.foreign)

    @property
    def identity(self) -> tuple[int, int]:
        return int(self._generation.id, 16), -1

    @property
    def closed(self) -> bool:
        return not self._open

    def read(self, offset: int, size: int) -> bytes:
        self._check_open()
        return self._generation.read(offset, size)

    def size(self) -> int:
        self._check_open()
        seen = self._look()
        self._is_sized = not self._holds()
        return seen

    def _check_open(self) -> None:
        if not self._open:
            raise closed_error(self)

    def _look(self) -> int:
        """Return the end: in a block that holds the log as it saw it first, elsewhere anew."""
        session, generation = self._session, self._generation
        is_new, self._is_new = self._is_new, False
        if self._holds() and session.seen is not None and session.seen[0] is generation:
            return session.seen[1]
        if not is_new or time.monotonic() - self._looked > _JUST_SECONDS:
            generation.refresh()
            self._looked = time.monotonic()
        end = generation.end
        if self._holds() and generation.ending is None:
            session.seen = generation, end
        return end

    def _holds(self) -> bool:
        """Whether this thread is in a block that holds the log."""
        session = self._session
        return session.holder == threading.get_ident() and session.threads.depth > 0

    def append(self, block: bytes, at: int) -> int:
        if not self._open or self.ended or self.readonly or self._failed:
            self.check_writable()
        self._is_new = self._is_sized = False
        with self._writing():
            try:
                return self._append(block, at)
            except Moved:
                self._session.seen = None  # the next look sees why
                raise

    def _append(self, block: bytes, at: int) -> int:
        session, generation = self._session, self._generation
        if at > generation.end:
            generation.refresh()
        if at != generation.end or generation.ending is not None:
            raise Moved
        generation.check_whole(self.name)
        start = at
        if at and generation.read(at - 1, 1) != b"\n":
            block = b"\n" + block
            start += 1
        if at != generation.end:  # what was there is removed
            raise Moved
        self._place.check_server(session.name)
        now, away = moment(), since(generation.verified)
        try:
            session.put(generation, at, block, f"{_PROCESS}-{next(_NAMES)}")
        except WriteFailedError as error:
            self._failed = str(error)
            raise
        if away > _AWAY_SECONDS and not generation.has_block_at(at):
            generation.refresh(anew=True)
            raise Moved
        generation.added(at, block)
        generation.verified = now
        self._sharing.written = at + len(block)
        if self._holds():
            session.seen = generation, self._sharing.written
        self._has_written = True
        with session.changed:
            session.changed.notify_all()
        generation.merge()
        return start

    def alone(self) -> contextlib.AbstractContextManager[object]:
        return self._sharing.threads.alone()

    def _writing(self) -> contextlib.AbstractContextManager[object]:
        """Keep out threads that write by another log of this session; they read meanwhile."""
        return self._session.threads.alone()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.check_writable()
        session = self._session
        with self.alone(), self._writing():
            if session.threads.depth == 0:
                session.holder, session.seen = threading.get_ident(), None
            with self._sharing.threads.inside(), session.threads.inside():
                self.check_writable()
                yield

    def keep(self) -> None:
        raise never_exclusive(self.name)

    def ends_at(self, size: int) -> bool:
        self._check_open()
        return self.size() == size and not self.was_replaced()

    def still_ends_at(self, size: int) -> bool:
        """See `Log`; sends no request: what is appended at another end raises `Moved`."""
        session, generation = self._session, self._generation
        if self._holds() and session.seen is None and generation.ending is None:
            session.seen = generation, generation.end
        return generation.ending is None and session.seen == (generation, size)

    def check_writable(self) -> None:
        check_allowed(self)
        if self._failed:
            raise WriteFailedError(self._failed, self.name)
        self._place.check_server(self._session.name)

    def was_replaced(self) -> bool:
        generation = self._generation
        if generation.ending is None:
            is_sized, self._is_sized = self._is_sized, False
            self._is_new = self._is_new or is_sized
            self._look()
        mark = generation.ending
        if mark is not None and mark.kind in ("removed", "moved"):
            written = "" if self.readonly else "; nothing was written. Export it to a new place"
            raise SessionNotFoundError(
                f"{self.name} was {mark.kind} while it was open{written}", self.name
            )
        return mark is not None

    def successor(self) -> ObjectLog:
        log = copy.copy(self)
        log.reopen()
        return log

    def beside(self) -> ObjectLog:
        log = self.successor()
        log.ended = ""
        return log

    def to_read(self) -> ObjectLog:
        log = self.beside()
        log.readonly = True
        return log

    def release(self) -> None:
        self._open = False

    def close(self) -> None:
        threads = self._session.threads
        with self.alone():
            # Where another session writes, or a block holds this one, it is merged later.
            if self._open and self._has_written and threads.lock.acquire(blocking=False):
                try:
                    if threads.depth == 0:
                        self._generation.merge(at_close=True)
                finally:
                    threads.lock.release()
            self._open = False

    def changes(self, stop: threading.Event) -> Iterator[object]:
        changed = self._session.changed
        while not stop.is_set():
            with changed:
                changed.wait(POLL_MILLISECONDS / 1000)
            if stop.is_set():
                return
            if time.monotonic() - self._generation.listed > POLL_MILLISECONDS / 2000:
                self._generation.refresh()
            yield None

    def rewrite(self, lines: Iterator[bytes], kept_as: str = "") -> str:
        session, old = self._session, self._generation
        self._place.check_server(session.name)
        end = self._look()
        if kept_as:
            keep(self.parts, kept_as, self.name, end, lambda: self._blocks(end))
        try:
            id = self._replace(old, end, lines)
        finally:
            session.seen = None
        with contextlib.suppress(StorageError):  # what is left is removed by a later rewrite
            self._place.clear(session.name, {old.id, id})
        return self.parts.name(kept_as) if kept_as else ""

    def _replace(self, old: Generation, end: int, lines: Iterator[bytes]) -> str:
        """Put another generation in force, if the old one ends there; return its name."""
        session, id = self._session, secrets.token_hex(8)
        new = stored(self._bucket, session.name, id, lines)
        surely(lambda: self._bucket.write(f"{session.name}/{id}/start", new))
        current, head = session.current()
        if current is not old or old.end != end:
            raise Moved
        mark = EndMarker("barrier", id)
        session.put(old, end, mark.encoded())
        old.ending = mark
        self._lead_to(head.etag, id, new)
        return id

    def _lead_to(self, etag: str, id: str, new: bytes) -> None:
        """Let the head name a new generation, to which the old one leads already.

        Raises:
            Moved: it does not: this process slept, and the old generation was not in force.
        """
        with contextlib.suppress(PreconditionFailed, OutcomeUnknown, StorageError):
            self._bucket.replace(head_key(self._session.name), new, etag)
            return
        if self._session.current()[0].id != id:
            raise Moved

    def _blocks(self, end: int) -> Iterator[bytes]:
        at = 0
        while at < end:
            block = self._generation.read(at, min(1024 * 1024, end - at))
            yield block
            at += len(block)
