"""A generation of a log on object storage: the bytes of a session between two rewrites.

Its first bytes are in the head of the session, see `objects`. The others are in objects:

- `NAME/GENERATION/log/<offset>.jsonl`, a block that was appended at this offset. It is made only if
  it is absent, which is the compare-and-swap of an append.
- `NAME/GENERATION/merged/<start>-<end>.jsonl`, a copy of the blocks in a row between two offsets,
  so that a reader needs few requests.

Invariants: an object that has bytes of the session never gets other bytes. A block is emptied only
after a merged object with its bytes stands, and its key stays taken for ever: a stalled writer's
create must fail. So blocks of less than `_WORTH_EMPTYING` bytes are left as they are, since to
empty one costs more than to keep it for ten years. What a listing lacks, because the server is slow
to list, is looked for by its key.
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

from sessiontree.errors import StorageError
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import Bucket, Got, Stored, Taken, Unsure
from sessiontree.storage.objects.marks import Mark, mark_in

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

_WORTH_EMPTYING: Final = 16 * 1024

_TIERS: Final = (1024 * 1024, 8 * 1024 * 1024)
_FAN: Final = 8
"""So many merged objects in a row below the size of a tier are merged again."""

_TRIES: Final = 5
_PAUSE: Final = 0.05


class BlockRange(NamedTuple):
    """An object with the bytes from `start` to `end`."""

    start: int
    end: int
    key: str


class _MergedAway(Exception):
    """An object was merged, and emptied or removed, since it was listed."""


def moment() -> tuple[float, float]:
    """Now, by a clock that counts while the machine sleeps, and by the wall."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock), time.time()


def since(then: tuple[float, float]) -> float:
    """The seconds since a moment, by the clock by which more passed."""
    return max(abs(now - before) for now, before in zip(moment(), then, strict=True))


class Generation:
    """What this process knows of a generation."""

    def __init__(self, bucket: Bucket, name: str, id: str, first: bytes) -> None:
        self.id = id  # its name in keys
        self.folder = f"{name}/{id}"
        self.end = len(first)  # where the known bytes end
        self.mark: Mark | None = None  # what stood at the end when it was last looked at
        self.mark_etag = ""  # the version of that
        self.modified = 0.0  # when its newest known object was written, by the server's clock
        self.verified = moment()  # when it was last known that it is in force
        self.listed = -1e9
        self._bucket = bucket
        self._first = first
        self._merged: list[BlockRange] = []
        self._blocks: list[BlockRange] = []
        self._is_listed = False
        self._cache = _Cache()
        self._by: dict[int, str] = {}
        self._marks: dict[str, Mark | None] = {}
        self._lock = threading.RLock()
        self._read_to = -1

    def block_key(self, offset: int) -> str:
        """The key of the block at an offset."""
        return f"{self.folder}/log/{offset:020}.jsonl"

    @property
    def _merged_end(self) -> int:
        return self._merged[-1].end if self._merged else len(self._first)

    def refresh(self, *, anew: bool = False) -> None:
        """Look which bytes there are, and what stands at the end.

        Raises:
            StorageError: an object is in the way, or one is missing.
        """
        with self._lock:
            tries, end = 0, -1
            while tries < _TRIES:
                now = moment()
                try:
                    if anew or not self._is_listed:
                        self._list_merged()
                    self._list_blocks()
                except _MergedAway:
                    anew = True
                    tries = tries + 1 if self.end == end else 0  # others may merge again and again
                    end = self.end
                    time.sleep(_PAUSE * tries)
                    continue
                self.verified, self._is_listed, self.listed = now, True, time.monotonic()
                return
            raise self._damaged(self.block_key(self.end), "is empty, and no object has its bytes")

    def fill(self, listing: Iterable[Stored]) -> None:
        """Know what a listing of the session has, if nothing is known yet; raises as `refresh`."""
        with self._lock:
            if self._is_listed:
                self.refresh()
                return
            merged, blocks = [], []
            for each in listing:
                if each.key.startswith(f"{self.folder}/merged/"):
                    merged.append(each)
                elif each.key.startswith(f"{self.folder}/log/"):
                    blocks.append(each)
            now = moment()
            try:
                self._add_merged(merged)
                self._add_blocks(each for each in blocks if self._offset_of(each) >= self.end)
            except _MergedAway:
                self.refresh(anew=True)
                return
            self.verified, self._is_listed, self.listed = now, True, time.monotonic()

    def _list_merged(self) -> None:
        self._add_merged(self._bucket.list(f"{self.folder}/merged"))

    def _add_merged(self, listing: Iterable[Stored]) -> None:
        """Find the merged objects that follow each other from the start."""
        found = []
        for stored in listing:
            start, end = self._range_of(stored)
            found.append(BlockRange(start, end, stored.key))
            self.modified = max(self.modified, stored.modified)
        self._merged = _chain(found, len(self._first))
        self._blocks = []
        self.end = self._merged_end

    def _range_of(self, stored: Stored) -> tuple[int, int]:
        name = stored.key.rpartition("/")[2].removesuffix(".jsonl")
        start, dash, end = name.partition("-")
        if not (dash and _is_number(start) and _is_number(end)):
            raise self._damaged(stored.key, "is not named after the bytes that it has")
        if int(end) - int(start) != stored.size:
            raise self._damaged(stored.key, f"has {stored.size} bytes, which its name denies")
        return int(start), int(end)

    def _offset_of(self, stored: Stored) -> int:
        name = stored.key.rpartition("/")[2]
        if not (name.endswith(".jsonl") and _is_number(name.removesuffix(".jsonl"))):
            raise self._damaged(stored.key, "is not named after an offset")
        return int(name.removesuffix(".jsonl"))

    def _list_blocks(self) -> None:
        """Add the blocks behind those that are known."""
        known = self._blocks[-1].start if self._blocks else self.end - 1
        after = self.block_key(known) if known >= 0 else ""
        self._add_blocks(self._bucket.list(f"{self.folder}/log", after))

    def _add_blocks(self, listing: Iterable[Stored]) -> None:
        found = [*listing]
        mark = self._mark_at(found[-1]) if found else None
        if mark is None or not mark.ends:
            self._follow(found)
            return
        with contextlib.suppress(_MergedAway, StorageError):  # its content may be removed by now
            self._follow(found)
        self.mark, self.mark_etag = mark, found[-1].etag

    def _follow(self, listing: Iterable[Stored]) -> None:
        """Add the blocks that follow each other, and note the mark behind them."""
        mark: Mark | None = None
        etag = ""
        for stored in listing:
            start = self._offset_of(stored)
            if start > self.end:
                self._find_blocks(start)
            if start < self.end:
                continue  # a claim of a writer that died, or a block that is merged
            if start > self.end:
                if self._mark_at(stored) is None:
                    raise self._damaged(
                        stored.key, f"begins behind the end of the log, which is at {self.end}"
                    )
                continue
            if stored.size == 0:
                raise _MergedAway
            self.modified = max(self.modified, stored.modified)
            found = self._mark_at(stored)
            if found is None:
                self._add(start, stored.size)
            else:
                mark, etag = found, stored.etag
        self.mark, self.mark_etag = mark, etag

    def _find_blocks(self, until: int) -> None:
        """Add blocks that the listing lacks, by their keys."""
        while self.end < until:
            stored = self._bucket.head(self.block_key(self.end))
            if stored is None or self._mark_at(stored) is not None:
                return
            if stored.size == 0:
                raise _MergedAway
            self._add(self.end, stored.size)

    def _mark_at(self, stored: Stored) -> Mark | None:
        """The mark that an object is; None for a block."""
        if stored.size != marks.SIZE:
            return None
        if stored.etag not in self._marks:
            got = self.look(stored.key)
            if got is None or got.etag != stored.etag:
                raise _MergedAway
            self._marks = {stored.etag: mark_in(got)}
        return self._marks[stored.etag]

    def look(self, key: str) -> Got | None:
        """An object of the log, whole; None if there is none."""
        try:
            return self._bucket.get(key)
        except FileNotFoundError:
            return None

    def _add(self, start: int, size: int) -> None:
        self._blocks.append(BlockRange(start, start + size, self.block_key(start)))
        self.end = start + size

    def added(self, at: int, block: bytes, by: str) -> None:
        """Note a block that stands at the end, and who wrote it."""
        with self._lock:
            if at == self.end and block:
                self._add(at, len(block))
                self._by[at] = by
                self._cache.put(at, block)
                self.modified = time.time()
                self.mark, self.mark_etag = None, ""

    def seen(self, mark: Mark, etag: str) -> None:
        """Note what stands at the end."""
        with self._lock:
            self.mark, self.mark_etag = mark, etag

    def has_block_at(self, offset: int) -> bool:
        """Whether the bytes at an offset follow from the first without a gap; looks anew.

        A writer that was away for long asks this after it wrote: what is removed of a generation
        that was replaced is removed from its start on.
        """
        other = Generation(self._bucket, self.folder.rpartition("/")[0], self.id, self._first)
        try:
            other.refresh()
        except StorageError:
            return False
        return other.end > offset

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the known end.

        Raises:
            StorageError: they cannot be read.
        """
        for _ in range(_TRIES):
            end = min(offset + size, self.end)
            if offset >= end:
                return b""
            try:
                return self._read(offset, end)
            except _MergedAway:
                self.refresh(anew=True)
        piece = self._piece_at(offset)
        raise self._damaged(piece.key, "cannot be read, or has not all of its bytes")

    def _read(self, offset: int, end: int) -> bytes:
        found = [self._first[offset:end]]
        at = max(offset, len(self._first))
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
            if piece.end - piece.start <= _UNIT and not self._cache.get(at, end):
                wanted.append(piece)
            at = piece.end
        if len(wanted) > 1:
            side_by_side(lambda piece: self._fetch(piece, piece.start, piece.end), wanted)

    def _piece_at(self, offset: int) -> BlockRange:
        with self._lock:
            pieces = self._merged if offset < self._merged_end else self._blocks
            found = bisect.bisect_right(pieces, offset, key=lambda piece: piece.start) - 1
            return pieces[found]

    def _fetch(self, piece: BlockRange, at: int, end: int) -> bytes:
        """Read a part of an object, and keep it; return its bytes from `at` on."""
        units = max(1, (piece.end - piece.start) // _UNIT)  # the last one is up to twice as long
        first = min((at - piece.start) // _UNIT, units - 1)
        last = min((min(end, piece.end) - 1 - piece.start) // _UNIT, units - 1)
        start = piece.start + first * _UNIT
        stop = piece.end if last == units - 1 else piece.start + (last + 1) * _UNIT
        try:
            got = self._bucket.get(piece.key, start - piece.start, stop - piece.start)
        except FileNotFoundError:
            raise _MergedAway from None
        if len(got.content) != stop - start or got.size != piece.end - piece.start:
            raise _MergedAway
        self._cache.put(start, got.content)
        if got.by:
            self._by[piece.start] = got.by
        return got.content[at - start :]

    def merge(self, *, at_close: bool = False) -> None:
        """Merge the oldest blocks if there are many; the thread is alone with the session.

        What cannot be done is left to the next writer.
        """
        with contextlib.suppress(StorageError, Unsure, _MergedAway):
            while run := self._run_to_merge(at_close):
                self._merge(run)
                while again := self._run_to_merge_again():
                    self._merge_again(again)

    def _run_to_merge(self, at_close: bool) -> list[BlockRange]:
        """The blocks to merge; always the same ones, whoever does it, but at the close."""
        run: list[BlockRange] = []
        size = 0
        for piece in self._blocks:
            run.append(piece)
            size += piece.end - piece.start
            if len(run) >= _MANY or size >= _MUCH:
                return run
        return run if at_close and len(run) >= _FEW else []

    def _merge(self, run: list[BlockRange]) -> None:
        piece = self._merged_object(run)
        with self._lock:
            if self._merged_end == piece.start:
                self._merged.append(piece)
                self._blocks = [block for block in self._blocks if block.start >= piece.end]
        for block in run:
            if block.end - block.start >= _WORTH_EMPTYING:
                # It still says who wrote it: the writer may not know yet that it stands.
                by = self._by.get(block.start) or self._bucket.get(block.key, 0, 1).by
                self._bucket.write(block.key, b"", by)
            self._by.pop(block.start, None)

    def _merged_object(self, run: list[BlockRange]) -> BlockRange:
        start, end = run[0].start, run[-1].end
        key = f"{self.folder}/merged/{start:020}-{end:020}.jsonl"
        content = self.read(start, end - start)
        if len(content) != end - start:
            raise _MergedAway
        with contextlib.suppress(Taken):  # with the same bytes
            self._bucket.create(key, content)
        return BlockRange(start, end, key)

    def _run_to_merge_again(self) -> list[BlockRange]:
        for tier in _TIERS:
            count = 0
            for piece in reversed(self._merged):
                if piece.end - piece.start >= tier:
                    break
                count += 1
            if count >= _FAN:
                return self._merged[-count:]
        return []

    def _merge_again(self, run: list[BlockRange]) -> None:
        piece = self._merged_object(run)
        with self._lock:
            if self._merged[-len(run) :] == run:
                self._merged[-len(run) :] = [piece]
        self._bucket.remove(each.key for each in run)

    def pieces(self) -> list[BlockRange]:
        """The objects with its bytes, but for the first ones."""
        with self._lock:
            return [*self._merged, *self._blocks]

    @property
    def first(self) -> bytes:
        """The bytes that the head of the session has."""
        return self._first

    def _damaged(self, key: str, what: str) -> StorageError:
        where = f"{self._bucket.url}/{key}"
        return StorageError(
            f"{where} {what}; look what wrote it, and move it away if it is not of the session",
            where,
        )


def _is_number(text: str) -> bool:
    return len(text) == 20 and text.isascii() and text.isdigit()


def _chain(found: Iterable[BlockRange], start: int) -> list[BlockRange]:
    """The fewest merged objects that follow each other from an offset on; they may overlap."""
    chain: list[BlockRange] = []
    end = start
    best: BlockRange | None = None
    for piece in [*sorted(found), None]:
        while piece is None or piece.start > end:
            if best is None or best.end <= end:
                return chain
            chain.append(best)
            end = best.end
        if best is None or piece.end > best.end:
            best = piece
    return chain


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
