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
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from sessiontree.errors import (
    ReadOnlyError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    UsageError,
    WriteFailedError,
)
from sessiontree.storage.contents import Parts
from sessiontree.storage.lock import PATIENCE_SECONDS, ThreadLock
from sessiontree.storage.log import POLL_MILLISECONDS, BlobPlace, Moved
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import Bucket, Got, Taken, Unsure
from sessiontree.storage.objects.generation import Generation, moment, since
from sessiontree.storage.objects.group import Alone, Groups
from sessiontree.storage.objects.marks import Mark, mark_in
from sessiontree.storage.place import no_session

if TYPE_CHECKING:
    from sessiontree.storage.objects.place import ObjectPlace

INLINE: Final = 16 * 1024
"""So many of the first bytes of a session are in its head."""

_CHUNK: Final = 8 * 1024 * 1024
"""The bytes of each object of a new content."""

RENEWED_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 30.0
"""A claim that does not change for so long, while somebody looks, may be taken over."""

_AWAY_SECONDS: Final = 3600.0


T = TypeVar("T")

_TRIES: Final = 6
_PAUSE: Final = 0.05
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0

_JUST_SECONDS: Final = 0.02
"""How long the first look after an opening, and the one after a size, take what that has listed."""

_NAMES: Final = count()
_PROCESS: Final = secrets.token_hex(8)


def _fresh_name() -> str:
    """A name of one append, which no other has."""
    return f"{_PROCESS}-{next(_NAMES)}"


class Head(msgspec.Struct, frozen=True):
    """What the first line of the object `NAME/head` says; the first bytes of the session follow.

    Attributes:
        generation: the one in force, or an older one that leads to it by its barrier.
        format: the version of this layout.
        arriving: whether the session is being moved here, so that it is not here yet.
    """

    generation: str
    format: int = 1
    arriving: bool = False

    def encoded(self, first: bytes) -> bytes:
        """The bytes of the object."""
        return msgspec.json.encode(self) + b"\n" + first


class Standing(NamedTuple):
    """A head as it stands: what it says, the first bytes, its version, and when it was written."""

    head: Head
    first: bytes
    etag: str
    modified: float


def standing(bucket: Bucket, key: str) -> Standing | None:
    """The head at a key; None if there is none, or an empty one, which a removal leaves.

    Raises:
        StorageError: it is not a head, or of a newer version.
    """
    try:
        got = bucket.get(key)
    except FileNotFoundError:
        return None
    return head_in(bucket, key, got) if got.content else None


def head_in(bucket: Bucket, key: str, got: Got) -> Standing:
    """The head that an object is; raises as `standing` does."""
    where = f"{bucket.url}/{key}"
    line, newline, first = got.content.partition(b"\n")
    try:
        head = msgspec.json.decode(line, type=Head)
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
    return Standing(head, first, got.etag, got.modified)


def head_key(name: str) -> str:
    """The key of the head of a session."""
    return f"{name}/head"


def stored(bucket: Bucket, name: str, id: str, blocks: Iterable[bytes]) -> bytes:
    """Store a content as merged objects of a new generation; return its first bytes."""
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
        return bytes(waiting)
    if waiting:
        write()
    return first


def surely(write: Callable[[], T]) -> T:
    """Write what may be written twice, until an answer says that it stands.

    Raises:
        StorageError: no answer came.
    """
    for attempt in range(_TRIES):
        try:
            return write()
        except Unsure as error:
            why = str(error)
            time.sleep(_PAUSE * 2**attempt)
    raise StorageError(f"cannot write to the object storage: {why}; try again later", "")


class _Claim:
    """A claim of this process.

    Attributes:
        offset: the end that it holds.
        etag: its version.
        at: when it was written, by the monotonic clock.
    """

    def __init__(self, generation: Generation, offset: int, etag: str, *, kept: bool) -> None:
        self.generation = generation
        self.offset = offset
        self.etag = etag
        self.kept = kept
        self.count = 0
        self.at = time.monotonic()


class Lost(Exception):
    """The claim was taken over: this process did not renew it in time."""


class Opened:
    """A session as all logs of this process share it.

    Attributes:
        threads: keeps the threads apart.
        groups: puts together what they append.
        depth: how often the thread that is alone holds the session.
        holder: that thread.
        held_end: the end that it knows; what others add behind it, it has not read.
        keeper: the group of logs that keeps it until they close; None if none does.
        written: the end of the last write.
        claim: what holds the end for this process.
    """

    def __init__(self, bucket: Bucket, name: str, path: str) -> None:
        self.bucket = bucket
        self.name = name
        self.path = path
        self.threads = ThreadLock(self.path)
        self.groups = Groups(self.threads.lock)
        self.depth = 0
        self.holder = 0
        self.held_end = 0
        self.keeper: object = None
        self.written = 0
        self.claim: _Claim | None = None
        self.changed = threading.Condition()
        self._claiming = threading.RLock()
        self._opening = threading.Lock()
        self._generations: WeakValueDictionary[str, Generation] = WeakValueDictionary()
        self._watched: dict[str, tuple[str, float]] = {}

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

    def put(self, generation: Generation, offset: int, content: bytes, by: str = "") -> str:
        """Put a block or a mark at the end; return its etag.

        Raises:
            Moved: another block or a barrier stands there.
            Lost: this process had the end, and another one has it now.
            SessionBusyError: another process holds the end.
            WriteFailedError: whether it stands is unknown.
            StorageError: it was refused, and does not stand.
        """
        with self._claiming:
            claim = self.claim
            if claim is not None and (claim.generation is not generation or claim.offset != offset):
                claim = None
            etag = claim.etag if claim else ""
            if not claim and generation.end == offset and generation.mark:
                etag = generation.mark_etag if generation.mark.kind == "free" else ""
            etag = self._put(generation, offset, content, by, etag, is_ours=claim is not None)
            if claim is not None:
                self.claim = None
            return etag

    def _put(
        self,
        generation: Generation,
        offset: int,
        content: bytes,
        by: str,
        etag: str,
        *,
        is_ours: bool,
    ) -> str:
        key = generation.block_key(offset)
        unsure: Unsure | None = None
        failures = 0
        while True:
            try:
                if etag:
                    return self.bucket.replace(key, content, etag, by)
                return self.bucket.create(key, content, by)
            except Taken:
                pass
            except Unsure as error:
                unsure = error
                failures += 1
            try:
                got = generation.look(key)
            except StorageError as error:
                if unsure is not None:
                    raise self._unknown(unsure) from error
                raise
            if got is not None and (got.by == by if by else got.content == content):
                return got.etag
            mark = mark_in(got) if got is not None else None
            if is_ours and (got is None or got.etag != etag):
                self.claim = None
                raise Lost
            if got is not None and (mark is None or mark.ends):
                self._saw(generation, offset, got, mark)
                raise Moved
            if got is None or got.etag == etag:  # it did not arrive, or the server was busy
                failures += 1
                if failures > _TRIES:
                    if unsure is not None:
                        raise self._unknown(unsure)
                    raise StorageError(
                        f"the server neither takes nor has {self.bucket.url}/{key}; try again",
                        self.path,
                    )
                time.sleep(min(_PAUSE * 2**failures, _LONGEST_PAUSE))
                etag = "" if got is None else etag
                continue
            assert mark is not None
            etag = got.etag if mark.kind == "free" else self._wait(key, mark, got.etag)

    def _unknown(self, error: Unsure) -> WriteFailedError:
        return WriteFailedError(
            f"writing to {self.path} failed: {error}. Whether the last entry was kept is unknown, "
            "and this session writes no more; check the network and open the session again to see",
            self.path,
        )

    def _saw(self, generation: Generation, offset: int, got: Got, mark: Mark | None) -> None:
        """Note what another writer put at the end; an empty block tells that it was merged."""
        if mark is not None:
            generation.seen(mark, got.etag)
        elif got.content:
            generation.added(offset, got.content, got.by)

    def _wait(self, key: str, mark: Mark, etag: str) -> str:
        """Wait until a claim may be replaced; return the etag to replace.

        Raises:
            SessionBusyError: its owner lives, and keeps it.
        """
        started = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            fate = marks.fate(mark)
            now = time.monotonic()
            seen, first_seen = self._watched.get(key, ("", now))
            if seen != etag:
                first_seen = now
                self._watched[key] = etag, now
                if mark.kept and seen and fate != "dead":
                    raise self.busy(mark)  # somebody renewed it
            if fate == "dead" or now - first_seen > SILENT_SECONDS:
                self._watched.pop(key, None)
                return etag
            if (mark.kept and fate == "alive") or now - started > PATIENCE_SECONDS:
                raise self.busy(mark)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                got = self.bucket.get(key)
            except FileNotFoundError:
                return etag  # the replacement fails, and the caller looks again
            found = mark_in(got)
            if found is None or found.kind != "claim":
                self._watched.pop(key, None)
                return got.etag if found is not None and found.kind == "free" else etag
            mark, etag = found, got.etag

    def busy(self, mark: Mark) -> SessionBusyError:
        """The error for a session that another process holds."""
        return SessionBusyError(
            f"{self.path} is held by {mark.owner}; close that session or end that process; "
            "reading is possible meanwhile",
            self.path,
        )

    def claim_end(self, generation: Generation, *, kept: bool = False) -> None:
        """Claim the end, wherever that is by then; raises as `put` does, but for `Moved`."""
        while True:
            claim = self.claim
            if claim is not None and claim.generation is generation:
                if claim.offset == generation.end:
                    return
                self.give_back()
            if generation.mark is not None and generation.mark.ends:
                return
            with contextlib.suppress(Moved):
                self._claim_at(generation, generation.end, kept=kept)
                return
            generation.refresh()

    def _claim_at(self, generation: Generation, offset: int, *, kept: bool) -> _Claim:
        with self._claiming:
            mark = marks.claim(kept=kept, count=0)
            etag = self.put(generation, offset, mark.encoded())
            self.claim = _Claim(generation, offset, etag, kept=kept)
            RENEWER.add(self)
            return self.claim

    def give_back(self) -> None:
        """Give the claim up, if there is one."""
        with self._claiming:
            claim, self.claim = self.claim, None
            if claim is None:
                return
            self._free(claim)

    def _free(self, claim: _Claim) -> None:
        mark = marks.free()
        key = claim.generation.block_key(claim.offset)
        # What cannot be done is taken over in time; a forked process may not.
        with contextlib.suppress(Taken, Unsure, StorageError, UsageError):
            etag = self.bucket.replace(key, mark.encoded(), claim.etag)
            if claim.generation.end == claim.offset:
                claim.generation.seen(mark, etag)

    def renew(self) -> None:
        """Show that the owner of the claim lives, unless a thread is about to write."""
        if not self._claiming.acquire(blocking=False):
            return  # it may wait for another program, and the claims of other sessions must not
        try:
            claim = self.claim
            if claim is None or time.monotonic() - claim.at < RENEWED_SECONDS:
                return
            claim.count += 1
            mark = marks.claim(kept=claim.kept, count=claim.count)
            key = claim.generation.block_key(claim.offset)
            claim.at = time.monotonic()
            try:
                claim.etag = self.bucket.replace(key, mark.encoded(), claim.etag)
            except (Taken, Unsure):
                self._settle(claim, key, mark)
            except StorageError:
                pass  # it is tried again
        finally:
            self._claiming.release()

    def _settle(self, claim: _Claim, key: str, mark: Mark) -> None:
        """Find out whether a renewal whose answer was lost stands."""
        with contextlib.suppress(StorageError, FileNotFoundError):
            got = self.bucket.get(key)
            if got.content == mark.encoded():
                claim.etag = got.etag

    def append(self, generation: Generation, block: bytes, offset: int, *, stays: bool) -> None:
        """Append a block at the end; raises as `put` does, but for `Lost`.

        Args:
            stays: whether to hold the new end, without a gap in which another may come.
        """
        with self._claiming:
            claim, ahead = self.claim, None
            try:
                if stays:
                    if claim is None or (claim.generation, claim.offset) != (generation, offset):
                        claim = self._claim_at(generation, offset, kept=self._is_kept)
                    self.claim = None
                    ahead = self._claim_at(generation, offset + len(block), kept=self._is_kept)
                    self.claim = claim
                by = _fresh_name()
                self.put(generation, offset, block, by)
            except BaseException as error:
                if ahead is not None:
                    self.claim = claim if isinstance(error, WriteFailedError) else None
                    self._free(ahead)
                if isinstance(error, Lost):
                    raise self.lost() from None
                raise
            generation.added(offset, block, by)
            if ahead is not None:
                self.claim = ahead

    @property
    def _is_kept(self) -> bool:
        return self.keeper is not None

    def lost(self) -> SessionBusyError:
        return SessionBusyError(
            f"{self.path} was held by this process, which did not answer for "
            f"{SILENT_SECONDS:.0f} s, so another one took it over; nothing was written: "
            "open the session again",
            self.path,
        )


class _Renewer:
    """Renews the claims of this process, in one thread that ends when there are none."""

    def __init__(self) -> None:
        self._sessions: set[Opened] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, session: Opened) -> None:
        """Renew the claim of a session as long as it has one."""
        with self._lock:
            self._sessions.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="sessiontree-claims", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(RENEWED_SECONDS / 10)
            with self._lock:
                sessions = list(self._sessions)
                self._sessions = {each for each in sessions if each.claim is not None}
                idle = 0 if self._sessions else idle + 1
                if idle > 10:
                    self._thread = None
                    return
            for each in sessions:
                each.renew()


RENEWER: Final = _Renewer()


class ObjectLog:
    """A session on object storage; see `Log`."""

    find: Final = None

    def __init__(
        self, place: ObjectPlace, name: str, *, readonly: bool = False, grouped: bool = False
    ) -> None:
        self._is_grouped = grouped
        self._is_waiting = False
        self._place = place
        self._session = place.opened(name)
        self._bucket = place.bucket
        self.name = self._session.path
        self.readonly = readonly
        self.ended = ""
        self.blobs: BlobPlace = place.blobs(name)
        self._parts = Parts(place.contents, name)
        self._group: object = object()
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
        new = Head(self._generation.id).encoded(self._generation.first)
        with contextlib.suppress(Taken, Unsure, StorageError):
            self._bucket.replace(head_key(self._session.name), new, head.etag)

    @property
    def written(self) -> int:
        return self._session.written

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
            raise ReadOnlyError(f"{self.name} is closed; open the session again")

    def _look(self) -> None:
        """Know the end: claim it in a block that holds the log, list it otherwise."""
        session, generation = self._session, self._generation
        if self._holds():
            claim = session.claim
            if claim is None or claim.generation is not generation:
                self._claim_end()
            elif claim.offset != generation.end:
                session.claim = None
                raise session.lost()
            return
        is_new, self._is_new = self._is_new, False
        if not is_new or time.monotonic() - self._looked > _JUST_SECONDS:
            generation.refresh()
            self._looked = time.monotonic()

    def _holds(self) -> bool:
        """Whether this thread holds the log, in a block or until it is closed."""
        session = self._session
        is_held = session.depth > 0 and session.holder == threading.get_ident()
        return not self.readonly and (is_held or session.keeper is self._group)

    def _claim_end(self) -> None:
        try:
            self._session.claim_end(self._generation, kept=self._session.keeper is not None)
        except Lost:
            self._session.claim_end(self._generation, kept=self._session.keeper is not None)

    def append(self, block: bytes, at: int) -> int:
        if not self._open or self.ended or self.readonly or self._failed:
            self.check_writable()
        session, generation = self._session, self._generation
        self._check_keeper()
        self._is_new = self._is_sized = False
        if self._is_grouped and not session.depth and session.keeper is None:
            return self._append_grouped(block, at)
        session.groups.wait()
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
        self._place.check_server()
        now, away = moment(), since(generation.verified)
        try:
            stays = session.depth > 1 or session.keeper is not None
            session.append(generation, block, at, stays=stays)
        except WriteFailedError as error:
            self._failed = str(error)
            raise
        if away > _AWAY_SECONDS and not generation.has_block_at(at):
            generation.refresh(anew=True)
            raise Moved
        generation.verified = now
        session.written = session.held_end = at + len(block)
        session.groups.note(at, at + len(block))
        self._has_written = True
        with session.changed:
            session.changed.notify_all()
        generation.merge()
        return start

    def _append_grouped(self, block: bytes, at: int) -> int:
        """Append a block with those of other threads; see `group`."""
        generation, groups = self._generation, self._session.groups
        groups.let_pass()
        if not self._may_join(at):
            generation.refresh()
            if not self._may_join(at):
                raise Moved
        self._place.check_server()
        self._is_waiting = True
        try:
            offset = groups.append(block, self._put_grouped)
        except WriteFailedError as error:
            self._failed = str(error)
            raise
        finally:
            self._is_waiting = False
            groups.settled.notify_all()
        self._session.written = max(self._session.written, offset + len(block))
        self._has_written = True
        return offset

    def _may_join(self, at: int) -> bool:
        """Whether only this process wrote behind an offset, and the log goes on."""
        generation, groups = self._generation, self._session.groups
        is_known = at == generation.end or (groups.end == generation.end and at >= groups.begin)
        ends_line = not at or generation.read(generation.end - 1, 1) == b"\n"
        return is_known and at <= generation.end and ends_line and not self._is_over()

    def _put_grouped(self, blocks: bytes) -> int:
        session, generation = self._session, self._generation
        start, now, away = generation.end, moment(), since(generation.verified)
        session.append(generation, blocks, start, stays=False)
        if away > _AWAY_SECONDS and not generation.has_block_at(start):
            generation.refresh(anew=True)
            raise Moved
        generation.verified = now
        with session.changed:
            session.changed.notify_all()
        generation.merge()
        return start

    def _is_over(self) -> bool:
        mark = self._generation.mark
        return mark is not None and mark.ends

    def _check_keeper(self) -> None:
        keeper = self._session.keeper
        if keeper is not None and keeper is not self._group:
            raise SessionBusyError(
                f"{self.name} is held by an exclusive session of this process; close that session; "
                "reading is possible meanwhile",
                self.name,
            )

    def alone(self) -> contextlib.AbstractContextManager[object]:
        threads = self._session.threads
        if threads.block is not None:
            threads.check()
        if self._is_grouped:
            return Alone(self._session.groups, lambda: self._is_waiting)
        return threads.lock

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self.check_writable()
        session = self._session
        with self.alone():
            if session.depth == 0:
                session.groups.wait()
            with session.threads.inside():
                self.check_writable()
                self._check_keeper()
                if session.depth == 0:
                    session.held_end = self._generation.end
                session.depth += 1
                session.holder = threading.get_ident()
                try:
                    # At once, so that programs that hold two logs in one order never wait for
                    # each other.
                    if session.depth == 1 and session.keeper is None and not self._is_over():
                        self._claim_end()
                    yield
                finally:
                    session.depth -= 1
                    self._held()

    def _held(self) -> None:
        """Hold on after an inner block, and let go after the outermost one."""
        self._is_new = self._is_sized = False
        session = self._session
        if session.keeper is not None:
            return
        if session.depth == 0:
            session.give_back()
        elif session.claim is None and self._open and not self._is_over():
            # What was appended is kept, so an error now would mislead; the next look claims it.
            with contextlib.suppress(StorageError, Unsure, Lost):
                self._claim_end()

    def keep(self) -> None:
        self.check_writable()
        session = self._session
        with self.alone():
            self._check_keeper()
            session.keeper = self._group
            try:
                session.give_back()
                session.claim_end(self._generation, kept=True)
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
        self._check_open()
        if self.ended:
            raise ReadOnlyError(f"{self.name}: {self.ended}")
        if self.readonly:
            raise ReadOnlyError(
                f"{self.name} was opened to read; open it without readonly=True to write"
            )
        if self._failed:
            raise WriteFailedError(self._failed, self.name)
        self._place.check_server()

    def was_replaced(self) -> bool:
        generation = self._generation
        claim = self._session.claim
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
        log._is_waiting = False
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
        with session.threads.lock:
            if session.depth == 0:
                session.groups.wait()
            if self._open and self._has_written and session.depth == 0:
                self._generation.merge(at_close=True)
            if self._owns and session.keeper is self._group:
                session.keeper = None
                session.give_back()
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
        self._place.check_server()
        end = session.held_end
        kept = self._keep_as(kept_as) if kept_as else ""
        id = secrets.token_hex(8)
        first = stored(self._bucket, session.name, id, lines)
        new = Head(id).encoded(first)
        surely(lambda: self._bucket.write(f"{session.name}/{id}/start", new))
        if since(old.verified) > _AWAY_SECONDS / 2:
            old.refresh(anew=True)
        if self._is_over() or old.end != end:
            raise Moved
        mark = marks.end("barrier", id)
        try:
            etag = session.put(old, end, mark.encoded())
        except Lost:
            raise session.lost() from None
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
        name = self.part_name(suffix)
        try:
            before = b"".join(self._parts.read(suffix))
        except FileNotFoundError:
            self._parts.write(suffix, self._blocks())
            return name
        if before != b"".join(self._blocks()):
            raise SessionExistsError(
                f"{name} is there already, and is not a copy of {self.name}", name
            )
        return name

    def _blocks(self) -> Iterator[bytes]:
        at = 0
        while block := self._generation.read(at, 1024 * 1024):
            yield block
            at += len(block)

    def parts(self) -> list[str]:
        return self._parts.list()

    def part_name(self, suffix: str) -> str:
        return self.name + suffix

    def part_size(self, suffix: str) -> int:
        return self._parts.size(suffix)

    def read_part(self, suffix: str) -> Iterator[bytes]:
        return self._parts.read(suffix)

    def write_part(self, suffix: str, blocks: Iterator[bytes]) -> None:
        self._parts.write(suffix, blocks)

    def remove_part(self, suffix: str) -> None:
        self._parts.remove(suffix)
