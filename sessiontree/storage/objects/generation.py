"""A generation of a log on object storage: the bytes of a session between two rewrites.

Its first bytes are in the head of the session. The others are in objects:

- `NAME/GENERATION/log/<offset>.jsonl`, a block that was appended at this offset. It is created only
  if it is absent, which is the compare-and-swap of an append.
- `NAME/GENERATION/merged/<start>-<end>.jsonl`, the bytes between two offsets, so that a reader
  needs few requests: a copy of blocks, or a content that was written whole.

Invariants: an object with bytes of the session never gets other bytes. A block is never removed
while its generation is in force, so the create of a stalled writer fails. (Programs up to 0.2.0
emptied merged blocks.) A merged object is removed only when another one has all of its bytes. What
a listing lacks is looked up by its key. Bytes that no object has are a hole: it reads as NUL bytes
and an LF, and nothing is appended until a rewrite.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from sessiontree.errors import CorruptionError, StorageError
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import (
    Bucket,
    ObjectInfo,
    ObjectRange,
    OutcomeUnknown,
    PreconditionFailed,
)
from sessiontree.storage.objects.marks import EndMarker, mark_in

T = TypeVar("T")
R = TypeVar("R")

_UNIT: Final = 256 * 1024
"""The bytes that are read of a large object at once."""

_AHEAD: Final = 2 * 1024 * 1024
"""The bytes that are read at once by who reads on."""

_KEPT: Final = 16 * 1024 * 1024
"""The bytes read that are kept in memory."""

_MANY: Final = 64
_MUCH: Final = 1024 * 1024
"""So many blocks, or so many bytes, are merged."""

_FEW: Final = 4
"""So many blocks are merged when a writer closes the log."""

_LARGE: Final = 8 * 1024 * 1024
"""A merged object of so many bytes is not merged again."""

_TRIES: Final = 5
_PAUSE: Final = 0.05


class BlockRange(NamedTuple):
    """An object with the bytes from `start` to `end`; without a key, the bytes are lost."""

    start: int
    end: int
    key: str


class _Stale(Exception):
    """A listing is older than the objects that it names, or lacks some; it is made again."""


def moment() -> tuple[float, float]:
    """Now, by a clock that counts while the machine sleeps, and by the wall."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock), time.time()


def since(then: tuple[float, float]) -> float:
    """The seconds since a moment, by the clock by which more passed."""
    return max(abs(now - before) for now, before in zip(moment(), then, strict=True))


class Generation:
    """What this process knows of a generation.

    Args:
        bucket: the objects.
        name: the session.
        id: the generation.
        first: the bytes in the head.
        least: the bytes that the generation had when it was made.
    """

    def __init__(self, bucket: Bucket, name: str, id: str, first: bytes, least: int) -> None:
        self.id = id  # its name in keys
        self.folder = f"{name}/{id}"
        self.first = first
        self.least = least  # the least bytes that it has
        self.end = len(first)  # where the known bytes end
        self.ending: EndMarker | None = None  # what ends it, if anything does
        self.claim = ""  # the version of the mark of an older program that is in the way
        self.foreign: dict[str, str] = {}  # objects that are not of the session, and their versions
        self.modified = 0.0  # when its newest known object was written, by the server's clock
        self.verified = moment()  # when it was last known that it is in force
        self.listed = -1e9
        self._bucket = bucket
        self.holes: list[BlockRange] = []  # bytes that no object has
        self._lost: set[int] = set()  # where holes begin
        self._merged: list[BlockRange] = []  # the merged objects that begin or end behind the end
        self._pieces: list[BlockRange] = []
        self._unmerged = 0  # where the blocks begin in the pieces
        self._is_listed = False
        self._cache = _Cache()
        self._marks: dict[str, EndMarker | None] = {}
        self._lock = threading.RLock()
        self._read_to = -1

    def block_key(self, offset: int) -> str:
        """The key of the block at an offset."""
        return f"{self.folder}/log/{offset:020}.jsonl"

    def refresh(self, *, anew: bool = False) -> None:
        """Look which bytes there are, and whether the generation was ended.

        Raises:
            StorageError: the server cannot be asked.
        """
        with self._lock:
            tries = 0
            while tries < _TRIES:
                now, lost = moment(), len(self._lost)
                with contextlib.suppress(_Stale):
                    if anew or not self._is_listed or self.holes:
                        self.least = max(self.least, self.end)  # a listing may lack the last ones
                        self._begin(self._bucket.list(f"{self.folder}/merged"))
                    self._add(self._bucket.list(f"{self.folder}/log", self._last_key()))
                    self._looked(now)
                    return
                anew = True
                tries = 0 if len(self._lost) > lost else tries + 1
                time.sleep(_PAUSE * tries)
            where = f"{self._bucket.url}/{self.folder}"
            raise StorageError(f"{where} changes while it is listed; try again", where)

    def _looked(self, now: tuple[float, float]) -> None:
        self.verified, self._is_listed, self.listed = now, True, time.monotonic()
        if not self.holes:
            self._lost.clear()

    def _last_key(self) -> str:
        """The key behind which the blocks that are not known come."""
        has_blocks = self._unmerged < len(self._pieces)
        known = self._pieces[-1].start if has_blocks else self.end - 1
        return self.block_key(known) if known >= 0 else ""

    def fill(self, listing: Iterable[ObjectInfo]) -> None:
        """Know what a listing of the session has, if nothing is known yet."""
        with self._lock:
            if self._is_listed:
                self.refresh()
                return
            listing = [*listing]
            now = moment()
            try:
                self._begin(one for one in listing if one.key.startswith(f"{self.folder}/merged/"))
                self._add(one for one in listing if one.key.startswith(f"{self.folder}/log/"))
            except _Stale:
                self.refresh(anew=True)
                return
            self._looked(now)

    def _begin(self, listing: Iterable[ObjectInfo]) -> None:
        """Begin anew, with the merged objects of a listing."""
        self._merged = []
        for stored in listing:
            start, dash, end = _name_of(stored).partition("-")
            is_sound = dash and _is_number(start) and _is_number(end)
            if not is_sound or int(end) - int(start) != stored.size:
                self.foreign[stored.key] = stored.etag
                continue
            self._merged.append(BlockRange(int(start), int(end), stored.key))
            self.modified = max(self.modified, stored.modified)
        self._merged.sort()
        self._pieces, self._unmerged, self.holes = [], 0, []
        self.end = len(self.first)
        self._chain()

    def _chain(self) -> None:
        """Go on by the fewest merged objects that follow each other; they may overlap."""
        while on := [one for one in self._merged if one.start <= self.end < one.end]:
            self._pieces.append(max(on, key=lambda one: one.end))
            self._unmerged = len(self._pieces)
            self.end = self._pieces[-1].end
        self._merged = [one for one in self._merged if one.end > self.end]

    def _add(self, listing: Iterable[ObjectInfo]) -> None:
        """Go on from object to object, by a listing of blocks."""
        blocks: dict[int, ObjectInfo] = {}
        emptied = set[int]()
        for stored in listing:
            name = _name_of(stored)
            if not _is_number(name):
                self.foreign[stored.key] = stored.etag
            elif not stored.size:
                emptied.add(int(name))
            elif int(name) >= self.end:
                blocks[int(name)] = stored
        last = self._mark_at(blocks[max(blocks)]) if blocks else None
        if last is not None and last.ends:
            self.ending = last
        self.claim = ""
        while found := blocks.get(self.end) or self._unlisted(blocks, emptied):
            mark = self._mark_at(found)
            if mark is not None:
                if mark.ends:
                    self.ending = mark
                else:
                    self.claim = found.etag
                break
            self._pieces.append(BlockRange(self.end, self.end + found.size, found.key))
            self.modified = max(self.modified, found.modified)
            self.end += found.size
            self._chain()

    def _unlisted(self, blocks: dict[int, ObjectInfo], emptied: set[int]) -> ObjectInfo | None:
        """The block at the end that a listing lacks, or the one behind a hole; None at the end.

        A generation that was ended may be removed by now, so it has no holes.
        """
        while (later := self._later(blocks)) is not None or self.end in emptied:
            found = self._bucket.head(self.block_key(self.end))
            if found is not None and found.size:
                return found
            if self.ending is not None:
                return None
            if self.end not in self._lost:  # it may have been merged, since those were listed
                self._lost.add(self.end)
                raise _Stale
            if later is None:
                where = f"{self._bucket.url}/{self.block_key(self.end)}"
                raise StorageError(
                    f"{where} is empty, and no object has its bytes; restore it from a backup",
                    where,
                )
            self.holes.append(BlockRange(self.end, later, ""))
            self._pieces.append(self.holes[-1])
            self.end = later
            self._chain()
            if self.end in blocks:
                return blocks[self.end]
        return None

    def _later(self, blocks: dict[int, ObjectInfo]) -> int | None:
        """The first offset behind the known end at which an object has bytes of the session."""
        found = [one.start for one in self._merged if one.start > self.end]
        found += [self.least] if self.least > self.end else []
        for offset in sorted(one for one in blocks if one > self.end):
            if found and min(found) <= offset:
                break
            if self._mark_at(blocks[offset]) is None and self._is_ours(blocks[offset]):
                found.append(offset)
        return min(found, default=None)

    def _is_ours(self, stored: ObjectInfo) -> bool:
        """Whether a block behind a hole says who wrote it, as each block does."""
        if self.foreign.get(stored.key) == stored.etag:
            return False
        if (got := self.look(stored.key, 1)) is not None and got.by:
            return True
        self.foreign[stored.key] = stored.etag
        return False

    def _mark_at(self, stored: ObjectInfo) -> EndMarker | None:
        """The mark that an object is; None for a block."""
        if stored.size != marks.SIZE:
            return None
        if stored.etag not in self._marks:
            got = self.look(stored.key)
            if got is None or got.etag != stored.etag:
                raise _Stale
            if len(self._marks) > _MANY:
                self._marks.clear()
            self._marks[stored.etag] = mark_in(got)
        return self._marks[stored.etag]

    def look(self, key: str, size: int | None = None) -> ObjectRange | None:
        """An object, or its first bytes; None if there is none."""
        try:
            return self._bucket.get(key, 0, size)
        except FileNotFoundError:
            return None

    def check_whole(self, path: str) -> None:
        """Check that no bytes of the session are lost.

        Raises:
            CorruptionError: some are.
        """
        if self.holes:
            start, end, _ = self.holes[0]
            raise CorruptionError(
                f"{path}: the bytes from {start} to {end} are in no object of the bucket, such as "
                f"{self.block_key(start)}; nothing was written. Restore the object from a backup, "
                "or repair the session to go on without these bytes",
                path,
                start,
            )

    def added(self, at: int, block: bytes) -> None:
        """Note a block that stands at the end."""
        with self._lock:
            if at == self.end and block:
                self._pieces.append(BlockRange(at, at + len(block), self.block_key(at)))
                self.end += len(block)
                self._cache.put(at, block)
                self.modified = time.time()
                self.claim = ""

    def has_block_at(self, offset: int) -> bool:
        """Whether the bytes up to an offset, and there, follow from the first; looks anew.

        A writer that was away for long asks this after it wrote: what is removed of a generation
        that was replaced is removed from its start on.
        """
        name, least = self.folder.rpartition("/")[0], max(self.least, offset + 1)
        other = Generation(self._bucket, name, self.id, self.first, least)
        other.refresh()
        return other.end > offset and not other.holes

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the known end, or of a removed session.

        Raises:
            StorageError: they cannot be read.
        """
        for _ in range(_TRIES):
            with self._lock:  # another thread may be listing it anew
                end = min(offset + size, self.end)
            if offset >= end:
                return b""
            try:
                return self._read(offset, end)
            except _Stale:
                self.refresh(anew=True)
        where = f"{self._bucket.url}/{self.folder}"
        raise StorageError(
            f"{where}: objects were removed while they were read; open the session again", where
        )

    def _read(self, offset: int, end: int) -> bytes:
        found = [self.first[offset:end]]
        at = max(offset, len(self.first))
        self._fetch_all(at, end)
        is_on = offset == self._read_to
        while at < end:
            run = self._cache.get(at, end)
            if not run:
                piece = self._piece_at(at)
                ahead = _AHEAD if is_on or end - at > _UNIT else 0
                run = self._fetch(piece, at, max(end, at + ahead))[: end - at]
            found.append(run)
            at += len(run)
        self._read_to = end
        return b"".join(found) if len(found) > 1 else found[0]

    def _fetch_all(self, start: int, end: int) -> None:
        """Read the small objects in a range that are not in memory, side by side."""
        wanted = []
        at = start
        while at < end:
            piece = self._piece_at(at)
            is_small = piece.key and piece.end - piece.start <= _UNIT
            if is_small and not self._cache.get(at, end):
                wanted.append(piece)
            at = piece.end
        if len(wanted) > 1:
            side_by_side(lambda piece: self._fetch(piece, piece.start, piece.end), wanted)

    def _piece_at(self, offset: int) -> BlockRange:
        with self._lock:
            found = bisect.bisect_right(self._pieces, offset, key=lambda piece: piece.start) - 1
            if found < 0 or self._pieces[found].end <= offset:
                raise _Stale
            return self._pieces[found]

    def _fetch(self, piece: BlockRange, at: int, end: int) -> bytes:
        """Read a part of an object, and keep it; return its bytes from `at` on."""
        if not piece.key:
            stop = min(end, piece.end)
            return b"\0" * (stop - at - 1) + (b"\n" if stop == piece.end else b"\0")
        units = max(1, (piece.end - piece.start) // _UNIT)  # the last one is up to twice as long
        first = min((at - piece.start) // _UNIT, units - 1)
        last = min((min(end, piece.end) - 1 - piece.start) // _UNIT, units - 1)
        start = piece.start + first * _UNIT
        stop = piece.end if last == units - 1 else piece.start + (last + 1) * _UNIT
        try:
            got = self._bucket.get(piece.key, start - piece.start, stop - piece.start)
        except FileNotFoundError:
            raise _Stale from None
        if len(got.content) != stop - start or got.size != piece.end - piece.start:
            raise _Stale
        self._cache.put(start, got.content)
        return got.content[at - start :]

    def merge(self, *, at_close: bool = False) -> None:
        """Merge the blocks if there are many; the thread is alone with the session.

        What cannot be done is left to the next writer.
        """
        with contextlib.suppress(StorageError, OutcomeUnknown, _Stale):
            while run := self._run_to_merge(at_close):
                self._merge(run, _UNIT if at_close else 0)

    def _run_to_merge(self, at_close: bool) -> list[BlockRange]:
        """The oldest blocks, if there are many; always the same ones, but at the close."""
        blocks = self._pieces[self._unmerged :]
        size = 0
        for number, piece in enumerate(blocks, 1):
            size += piece.end - piece.start
            if number >= _MANY or size >= _MUCH:
                return blocks[:number]
        return blocks if at_close and len(blocks) >= _FEW else []

    def _merge(self, run: list[BlockRange], few: int) -> None:
        """Merge blocks, with the merged objects before them that are not larger, or have few bytes.

        So each merge about doubles the last object, and there are few of them.
        """
        before = self._unmerged
        start, end = run[0].start, run[-1].end
        while before and self._pieces[before - 1].key.startswith(f"{self.folder}/merged/"):
            piece = self._pieces[before - 1]
            is_larger = (piece.end - piece.start).bit_length() > (end - start).bit_length()
            if end - piece.start > (few if is_larger else _LARGE):
                break
            start, before = piece.start, before - 1
        run = [*self._pieces[before : self._unmerged], *run]
        content = self.read(start, end - start)
        if self.holes or len(content) != end - start:
            raise _Stale
        key = f"{self.folder}/merged/{start:020}-{end:020}.jsonl"
        with contextlib.suppress(PreconditionFailed):  # with the same bytes
            self._bucket.create(key, content)
        with self._lock:
            if self._pieces[before : before + len(run)] == run:
                self._pieces[before : before + len(run)] = [BlockRange(start, end, key)]
                self._unmerged = before + 1
        self._bucket.remove(one.key for one in run if "/merged/" in one.key)


def _name_of(stored: ObjectInfo) -> str:
    """The name of an object of a log, without what all of them end with."""
    name = stored.key.rpartition("/")[2]
    return name.removesuffix(".jsonl") if name.endswith(".jsonl") else ""


def _is_number(text: str) -> bool:
    return len(text) == 20 and text.isascii() and text.isdigit()


class _Cache:
    """Runs of bytes by the offset at which they begin; the least used ones are dropped."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, bytes] = OrderedDict()
        self._starts: list[int] = []
        self._size = 0
        self._lock = threading.Lock()

    def get(self, at: int, end: int) -> bytes:
        """Bytes from an offset on, at most up to `end`; none if they are not kept."""
        with self._lock:
            found = bisect.bisect_right(self._starts, at) - 1
            if found < 0:
                return b""
            start = self._starts[found]
            run = self._runs[start]
            if at >= start + len(run):
                return b""
            self._runs.move_to_end(start)
            return run[at - start : end - start]

    def put(self, start: int, run: bytes) -> None:
        """Keep a run."""
        with self._lock:
            before = self._runs.get(start)
            if before is None:
                bisect.insort(self._starts, start)
            elif len(before) >= len(run):
                return
            else:
                self._size -= len(before)
            self._runs[start] = run
            self._size += len(run)
            while self._size > _KEPT and len(self._runs) > 1:
                first, dropped = self._runs.popitem(last=False)
                self._size -= len(dropped)
                self._starts.remove(first)


_OBJECTS: Final = ThreadPoolExecutor(16, thread_name_prefix="sessiontree-objects")
_SESSIONS: Final = ThreadPoolExecutor(16, thread_name_prefix="sessiontree-sessions")
"""Two, since what is done with a session waits for what is done with its objects."""


def side_by_side(do: Callable[[T], R], given: Iterable[T]) -> list[R]:
    """Do something with each object, several at once; what each gives, in their order."""
    return list(_OBJECTS.map(do, given))


def sessions_side_by_side(do: Callable[[T], R], given: Iterable[T]) -> Iterator[R]:
    """Do the same with sessions."""
    return _SESSIONS.map(do, given)
