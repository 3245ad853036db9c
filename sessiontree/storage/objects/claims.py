"""Writes at the end of a log on object storage, and the claim of this process on it.

The end is the key of the next block, see `log` for what may stand there. All that is put there goes
through `Claims.put`, which is the compare-and-swap of an append.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from itertools import count
from typing import Final

from sessiontree.errors import SessionBusyError, StorageError, UsageError, WriteFailedError
from sessiontree.storage.lock import PATIENCE_SECONDS
from sessiontree.storage.log import Moved
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import Bucket, Got, Taken, Unsure
from sessiontree.storage.objects.generation import Generation
from sessiontree.storage.objects.marks import Mark, mark_in

RENEWED_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 30.0
"""A claim that does not change for so long, while somebody looks, may be taken over."""

_PAUSE: Final = 0.05
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0

_NAMES: Final = count()
_PROCESS: Final = secrets.token_hex(8)


def _fresh_name() -> str:
    """A name of one append, which no other has."""
    return f"{_PROCESS}-{next(_NAMES)}"


class Claim:
    """A claim of this process."""

    def __init__(self, generation: Generation, offset: int, etag: str, *, kept: bool) -> None:
        self.generation = generation
        self.offset = offset  # the end that it holds
        self.etag = etag  # its version
        self.kept = kept
        self.count = 0
        self.at = time.monotonic()  # when it was written, by the monotonic clock


class ClaimLost(Exception):
    """The claim was taken over: this process did not renew it in time."""


class Claims:
    """The end of the log of one session, as this process writes there.

    Args:
        bucket: the objects.
        path: the address of the session, for errors.
    """

    def __init__(self, bucket: Bucket, path: str) -> None:
        self.bucket = bucket
        self.path = path
        self.held: Claim | None = None  # what holds the end for this process
        self._lock = threading.RLock()
        self._watched: dict[str, tuple[str, float]] = {}

    def put(self, generation: Generation, offset: int, content: bytes, by: str = "") -> str:
        """Put a block or a mark at the end; return its etag.

        Raises:
            Moved: another block or a barrier stands there.
            Lost: this process had the end, and another one has it now.
            SessionBusyError: another process holds the end.
            WriteFailedError: whether it stands is unknown.
            StorageError: it was refused, and does not stand.
        """
        with self._lock:
            claim = self.held
            if claim is not None and (claim.generation is not generation or claim.offset != offset):
                claim = None
            etag = claim.etag if claim else ""
            if not claim and generation.end == offset and generation.mark:
                etag = generation.mark_etag if generation.mark.kind == "free" else ""
            etag = self._put(generation, offset, content, by, etag, is_ours=claim is not None)
            if claim is not None:
                self.held = None
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
                self.held = None
                raise ClaimLost
            if got is not None and (mark is None or mark.ends):
                self._saw(generation, offset, got, mark)
                raise Moved
            if got is None or got.etag == etag:  # it did not arrive, or the server was busy
                failures += 1
                if failures > 6:
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
            claim = self.held
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

    def _claim_at(self, generation: Generation, offset: int, *, kept: bool) -> Claim:
        with self._lock:
            mark = marks.claim(kept=kept, count=0)
            etag = self.put(generation, offset, mark.encoded())
            self.held = Claim(generation, offset, etag, kept=kept)
            _RENEWER.add(self)
            return self.held

    def give_back(self) -> None:
        """Give the claim up, if there is one."""
        with self._lock:
            claim, self.held = self.held, None
            if claim is None:
                return
            self._free(claim)

    def _free(self, claim: Claim) -> None:
        mark = marks.free()
        key = claim.generation.block_key(claim.offset)
        # What cannot be done is taken over in time; a forked process may not.
        with contextlib.suppress(Taken, Unsure, StorageError, UsageError):
            etag = self.bucket.replace(key, mark.encoded(), claim.etag)
            if claim.generation.end == claim.offset:
                claim.generation.seen(mark, etag)

    def renew(self) -> None:
        """Show that the owner of the claim lives, unless a thread is about to write."""
        if not self._lock.acquire(blocking=False):
            return  # it may wait for another program, and the claims of other sessions must not
        try:
            claim = self.held
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
            self._lock.release()

    def _settle(self, claim: Claim, key: str, mark: Mark) -> None:
        """Find out whether a renewal whose answer was lost stands."""
        with contextlib.suppress(StorageError, FileNotFoundError):
            got = self.bucket.get(key)
            if got.content == mark.encoded():
                claim.etag = got.etag

    def append(
        self, generation: Generation, block: bytes, offset: int, *, stays: bool, kept: bool
    ) -> None:
        """Append a block at the end; raises as `put` does, but for `ClaimLost`.

        Args:
            stays: whether to hold the new end, without a gap in which another may come.
            kept: whether it is held until the log is closed.
        """
        with self._lock:
            claim, ahead = self.held, None
            try:
                if stays:
                    if claim is None or (claim.generation, claim.offset) != (generation, offset):
                        claim = self._claim_at(generation, offset, kept=kept)
                    self.held = None
                    ahead = self._claim_at(generation, offset + len(block), kept=kept)
                    self.held = claim
                by = _fresh_name()
                self.put(generation, offset, block, by)
            except BaseException as error:
                if ahead is not None:
                    self.held = claim if isinstance(error, WriteFailedError) else None
                    self._free(ahead)
                if isinstance(error, ClaimLost):
                    raise self.lost() from None
                raise
            generation.added(offset, block, by)
            if ahead is not None:
                self.held = ahead

    def lost(self) -> SessionBusyError:
        """The error for a claim that another process took over."""
        return SessionBusyError(
            f"{self.path} was held by this process, which did not answer for "
            f"{SILENT_SECONDS:.0f} s, so another one took it over; nothing was written: "
            "open the session again",
            self.path,
        )


class _Renewer:
    """Renews the claims of this process, in one thread that ends when there are none."""

    def __init__(self) -> None:
        self._claims: set[Claims] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, claims: Claims) -> None:
        """Renew the claim of a session, as long as it has one."""
        with self._lock:
            self._claims.add(claims)
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
                everyone = list(self._claims)
                self._claims = {each for each in everyone if each.held is not None}
                idle = 0 if self._claims else idle + 1
                if idle > 10:
                    self._thread = None
                    return
            for each in everyone:
                each.renew()


_RENEWER: Final = _Renewer()
