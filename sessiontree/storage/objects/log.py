"""The log of a session on object storage; see `Log`, and `generation` for its objects.

To append at the end is to create the object that is named after the end, if it is absent. Who
holds the log has a claim there (see `marks`), and replaces that by the block, if it still is
the version that it wrote (If-Match).

Why an acknowledged block is never lost, and none is stored twice:

1. An append is acknowledged when its block stands at the end that the writer knew. The writer knew
   that all bytes before it stand, so the block is a part of the log: readers go from object to
   object, and look by key for what a listing lacks.
2. The key of a block is written once more only to empty it, after a merged object has its bytes.
   A create for a key that is taken fails, however late it arrives. So the end has one block, and a
   writer that comes second gets `Moved`.
3. The place of the end goes from absent to a claim, a free mark, a block or a barrier by a create;
   from a claim or a free mark to any of these by If-Match alone, with an etag that no other version
   ever has; and from a block or a barrier to nothing else. A claim that is taken over, because its
   owner seems dead, makes the owner's next write fail. So to judge a living owner dead costs it its
   claim, and no byte.
4. An answer that is lost is settled by looking at the key: each block says who wrote it, by a name
   that one append uses alone, and says so also when it was merged and emptied. Ours stands: it is
   kept. Another's stands: ours can never arrive. Nothing stands: the same create is sent again, and
   whichever arrives second fails.
5. A rewrite ends the generation with a barrier, by the same compare-and-swap. What was appended
   before it is in the new generation, or the rewrite fails; what is appended after it fails.
6. Of a generation that was replaced, moved or removed, a key that was taken within the last day is
   emptied, and only older ones are removed. A writer that was away for more than an hour, by
   whichever clock says so, looks after its append whether the block is a part of the log, before
   it acknowledges it.

What a merge, a renewal or the removal of old objects fails to do is left to the next writer.
"""

from __future__ import annotations

import contextlib
import copy
import secrets
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sessiontree.errors import (
    SessionBusyError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.storage.contents import ContentParts
from sessiontree.storage.log import (
    POLL_MILLISECONDS,
    BlobPlace,
    Moved,
    Sharing,
    check_allowed,
    closed_error,
)
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import Taken, Unsure, surely
from sessiontree.storage.objects.claims import ClaimLost
from sessiontree.storage.objects.generation import moment, since
from sessiontree.storage.objects.head import ObjectHead, Standing, head_key, standing, stored
from sessiontree.storage.sidecars import keep

if TYPE_CHECKING:
    from sessiontree.storage.objects.place import ObjectPlace

_AWAY_SECONDS: Final = 3600.0

_JUST_SECONDS: Final = 0.02
"""How long the first look after an opening, and the one after a size, take what that has listed."""


class ObjectLog:
    """A session on object storage; see `Log`."""

    find: Final = None
    lines_with: Final = None

    def __init__(self, place: ObjectPlace, name: str, *, readonly: bool = False) -> None:
        self._place = place
        self._session = place.opened(name)
        self._bucket = place.bucket
        self.name = self._session.path
        self.readonly = readonly
        self.ended = ""
        self.blobs: BlobPlace = place.blobs(name)
        self.parts = ContentParts(place.contents, name, self.name)
        self._sharing = Sharing(self._session.path)
        self._keeper: object = object()
        self._owns = True
        self._failed = ""
        self._has_written = False
        self._is_new = False  # nothing was asked since it was opened
        self._is_sized = False  # nothing was asked since its size was
        self._looked = 0.0
        self._open = False
        self.reopen()

    def reopen(self) -> None:
        while True:
            self._generation, head = self._session.current()
            self._open = True
            if not self._holds():
                break
            self._claim_end()
            self._session.held_end = self._generation.end
            if not self._is_over():
                break
        self._is_new, self._is_sized = True, False
        self._looked = time.monotonic()
        if not self.readonly and head.head.generation != self._generation.id:
            self._mend(head)

    def _mend(self, head: Standing) -> None:
        """Let the head name the generation in force, which a rewrite that died did not do."""
        new = ObjectHead(self._generation.id).encoded(self._generation.first)
        with contextlib.suppress(Taken, Unsure, StorageError):
            self._bucket.replace(head_key(self._session.name), new, head.etag)

    @property
    def written(self) -> int:
        return self._sharing.written

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
        self._look()
        self._is_sized = True
        end = self._generation.end
        if self._holds():
            self._session.held_end = end
        return end

    def _check_open(self) -> None:
        if not self._open:
            raise closed_error(self)

    def _look(self) -> None:
        """Know the end: claim it in a block that holds the log, list it otherwise."""
        session, generation = self._session, self._generation
        if self._holds():
            claim = session.claims.held
            if claim is None or claim.generation is not generation:
                self._claim_end()
            elif claim.offset != generation.end:
                session.claims.held = None
                raise session.claims.lost()
            return
        is_new, self._is_new = self._is_new, False
        if not is_new or time.monotonic() - self._looked > _JUST_SECONDS:
            generation.refresh()
            self._looked = time.monotonic()

    def _holds(self) -> bool:
        """Whether this thread holds the log, in a block or until it is closed."""
        session = self._session
        is_held = session.depth > 0 and session.holder == threading.get_ident()
        return not self.readonly and (is_held or session.keeper is self._keeper)

    def _claim_end(self) -> None:
        session = self._session
        try:
            session.claims.claim_end(self._generation, kept=session.keeper is not None)
        except ClaimLost:
            session.claims.claim_end(self._generation, kept=session.keeper is not None)

    def append(self, block: bytes, at: int) -> int:
        if not self._open or self.ended or self.readonly or self._failed:
            self.check_writable()
        self._check_keeper()
        self._is_new = self._is_sized = False
        with self._writing():
            return self._append(block, at)

    def _append(self, block: bytes, at: int) -> int:
        session, generation = self._session, self._generation
        if at != generation.end:
            generation.refresh()
        if at != generation.end or self._is_over():
            raise Moved
        start = at
        if at and generation.read(at - 1, 1) != b"\n":
            block = b"\n" + block
            start += 1
        if at != generation.end:  # its end was not there any more
            raise Moved
        self._place.check_server(self._session.name)
        now, away = moment(), since(generation.verified)
        try:
            kept = session.keeper is not None
            session.claims.append(generation, block, at, stays=kept or session.depth > 1, kept=kept)
        except WriteFailedError as error:
            self._failed = str(error)
            raise
        if away > _AWAY_SECONDS and not generation.has_block_at(at):
            generation.refresh(anew=True)
            raise Moved
        generation.verified = now
        self._sharing.written = session.held_end = at + len(block)
        self._has_written = True
        with session.changed:
            session.changed.notify_all()
        generation.merge()
        return start

    def _is_over(self) -> bool:
        mark = self._generation.mark
        return mark is not None and mark.ends

    def _check_keeper(self) -> None:
        keeper = self._session.keeper
        if keeper is not None and keeper is not self._keeper:
            raise SessionBusyError(
                f"{self.name} is held by an exclusive session of this process; close that session; "
                "reading is possible meanwhile",
                self.name,
            )

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
            block = session.threads.inside()
            try:
                with self._sharing.threads.inside(), block:
                    self.check_writable()
                    self._check_keeper()
                    session.holder = threading.get_ident()
                    if session.depth == 1:
                        session.held_end = self._generation.end
                        # At once, so that programs that hold two logs in one order never wait for
                        # each other.
                        if session.keeper is None and not self._is_over():
                            self._claim_end()
                    yield
            finally:
                block.is_over = True  # also if its own end was interrupted
                self._held()

    def _held(self) -> None:
        """Hold on after an inner block, and let go after the outermost one."""
        self._is_new = self._is_sized = False
        session = self._session
        if session.keeper is not None:
            return
        if session.depth == 0:
            session.claims.give_back()
        elif session.claims.held is None and self._open and not self._is_over():
            # What was appended is kept, so an error now would mislead; the next look claims it.
            with contextlib.suppress(StorageError, Unsure, ClaimLost):
                self._claim_end()

    def keep(self) -> None:
        self.check_writable()
        session = self._session
        with self.alone(), self._writing():
            self._check_keeper()
            session.keeper = self._keeper
            try:
                session.claims.give_back()
                session.claims.claim_end(self._generation, kept=True)
            except BaseException:
                session.keeper = None
                raise

    def ends_at(self, size: int) -> bool:
        self._check_open()
        generation = self._generation
        if generation.end != size and self._holds():
            return False
        self._look()
        is_end = generation.end == size and not self.was_replaced()
        if is_end and self._holds():
            self._session.held_end = size
        return is_end

    still_ends_at = ends_at

    def check_writable(self) -> None:
        check_allowed(self)
        if self._failed:
            raise WriteFailedError(self._failed, self.name)
        self._place.check_server(self._session.name)

    def was_replaced(self) -> bool:
        generation = self._generation
        claim = self._session.claims.held
        if claim is not None and claim.generation is generation:
            return False
        if not self._is_over():
            is_sized, self._is_sized = self._is_sized, False
            self._is_new = self._is_new or is_sized
            self._look()  # under a hold this claims the end, so that the answer stays true
        mark = generation.mark
        if mark is not None and mark.kind in ("removed", "moved"):
            written = "" if self.readonly else "; nothing was written. Export it to a new place"
            raise SessionNotFoundError(
                f"{self.name} was {mark.kind} while it was open{written}", self.name
            )
        return self._is_over()

    def successor(self) -> ObjectLog:
        log = copy.copy(self)
        log.reopen()
        return log

    def beside(self) -> ObjectLog:
        log = self.successor()
        log._owns = False
        log.ended = ""
        return log

    def to_read(self) -> ObjectLog:
        log = self.beside()
        log.readonly = True
        return log

    def release(self) -> None:
        self._open = False

    def close(self) -> None:
        session = self._session
        with self.alone():
            if self._owns and session.keeper is self._keeper:
                with self._writing():
                    self._merge()
                    session.keeper = None
                    session.claims.give_back()
            elif self._open and self._has_written and session.threads.lock.acquire(blocking=False):
                try:  # where another session writes, it merges at its end
                    self._merge()
                finally:
                    session.threads.lock.release()
            self._open = False

    def _merge(self) -> None:
        """Merge what was appended before the log is closed, unless a block holds it."""
        if self._open and self._has_written and self._session.depth == 0:
            self._generation.merge(at_close=True)

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
        self._place.check_server(self._session.name)
        end = session.held_end
        kept = self._keep_as(kept_as) if kept_as else ""
        id = secrets.token_hex(8)
        first = stored(self._bucket, session.name, id, lines)
        new = ObjectHead(id).encoded(first)
        surely(lambda: self._bucket.write(f"{session.name}/{id}/start", new))
        if since(old.verified) > _AWAY_SECONDS / 2:
            old.refresh(anew=True)
        if self._is_over() or old.end != end:
            raise Moved
        mark = marks.end("barrier", id)
        try:
            etag = session.claims.put(old, end, mark.encoded())
        except ClaimLost:
            raise session.claims.lost() from None
        if since(old.verified) > _AWAY_SECONDS:
            raise Moved  # this process slept, and may have written where nobody reads
        old.seen(mark, etag)
        head = standing(self._bucket, head_key(session.name))
        if head is not None:
            # What is not done now is done by the next writer, or the next rewrite.
            with contextlib.suppress(Taken, Unsure, StorageError):
                self._bucket.replace(head_key(session.name), new, head.etag)
                self._place.clear(session.name, {old.id, id})
        return kept

    def _keep_as(self, suffix: str) -> str:
        """Keep the content as a part, unless it is kept already."""
        keep(self.parts, suffix, self.name, self._generation.end, self._blocks)
        return self.parts.name(suffix)

    def _blocks(self) -> Iterator[bytes]:
        at = 0
        while block := self._generation.read(at, 1024 * 1024):
            yield block
            at += len(block)
