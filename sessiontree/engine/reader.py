"""TreeReader: the entries of one open log, and the tree that they form.

The reader does not know its writer. A writer sets `pending`, `flush` and `catch_up`, so that
the reader finds the entries of an open batch.

Invariants: the reader changes nothing on disk. A look-up by uuid searches backwards from the end.
Names are found as `scan` says. Short uuids and whole-tree questions read the whole log once, and
later only what was added.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, overload

from sessiontree.core.damage import Damage
from sessiontree.core.entry import ANNOTATIONS, MAIN, Entry
from sessiontree.core.handle import Blob, blob_of
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.spill import out_of_reach
from sessiontree.engine import names as refs
from sessiontree.engine.logtree import HeaderLine, LogTree
from sessiontree.errors import FileReplacedError, SpilledError

if TYPE_CHECKING:
    from sessiontree.engine.scan import LogScan
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.log import Log


class Shared(Protocol):
    """An object that threads share."""

    def alone(self) -> AbstractContextManager[object]:
        """Hold the session's thread lock."""


S = TypeVar("S", bound=Shared)
P = ParamSpec("P")
R = TypeVar("R")


def synchronized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Hold the session's thread lock for the duration of the call."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.alone():
            return method(self, *args, **named)

    return call


class TreeReader:
    """Reads the entries of an open log.

    Attributes:
        log: the log.
        view: the known part of it.
        fetch: gives the bytes of a blob, by the text form of its handle.
        pending: the entries of an open batch, not in the log yet, by uuid.
        flush: writes the pending entries.
        catch_up: reads what others wrote.
    """

    def __init__(self, log: Log, header_line: HeaderLine | None = None) -> None:
        self.log = log
        self.fetch = BlobFetch(log)
        self.view = LogTree(log, self.fetch, header_line)
        self.pending: Mapping[str, Entry] = _NOTHING
        self.flush: Callable[[], None] = _do_nothing
        self.catch_up: Callable[[], object] = _do_nothing
        self._scan: LogScan | None = None

    def alone(self) -> AbstractContextManager[object]:
        """Hold the session's thread lock."""
        return self.log.alone()

    @property
    def header(self) -> Entry:
        """The first entry, the root of the tree."""
        return self.view.header

    @property
    def id(self) -> str:
        """The session's id."""
        return str(self.header.get("id", ""))

    @property
    def blobs(self) -> Blobs:
        """The sidecar folder with the content that is too big for the log."""
        return self.fetch.blobs

    @property
    @synchronized
    def damage(self) -> list[Damage]:
        """The damage met in the log so far, in file order."""
        return self.view.damage

    def ready(self) -> LogTree:
        """Write the pending entries, and return the view."""
        if self.pending:
            self.flush()
        return self.view

    def whole(self) -> LogTree:
        """Return the view, with pending entries and what other lanes of this process wrote.

        The caller holds the session's thread lock.
        """
        view = self.ready()
        if self.log.written > view.size and not self.log.closed:
            self.catch_up()
        return self.view

    def view_of(self, log: Log) -> tuple[BlobFetch, LogTree]:
        """Open another log of the same session to be read; see `replace_log`."""
        fetch = self.fetch if self.fetch.place == log.blobs else BlobFetch(log)
        return fetch, LogTree(log, fetch)

    def replace_log(self, log: Log, fetch: BlobFetch, view: LogTree) -> None:
        """Read another log of the same session from now on."""
        old = self.log
        self.log, self.fetch, self.view, self._scan = log, fetch, view, None
        old.release()

    def forget(self) -> None:
        """Forget the structure of the log, which is closed."""
        self.view.forget()
        self._scan = None

    def leaf_of(self, lane: str | None) -> Entry:
        """Return the last entry of a lane in the log; for an empty lane, that of main."""
        walk = self.view.walk()
        found = walk.last_on(lane)
        if found is None and lane is not None:
            found = walk.last_on(None)
        return found or self.view.header

    @synchronized
    def by_uuid(self, uuid: str) -> Entry | None:
        """Return the entry with a whole uuid, or None."""
        walk = self.view.walk()
        return self.pending.get(uuid) or walk.entry(uuid)

    def up(self, entry: Entry) -> Iterator[Entry]:
        """Yield the ancestors of an entry, nearest first; each is read on demand."""
        return self.ready().walk().up(entry)

    @synchronized
    def parent(self, entry: Entry) -> Entry:
        """Return the parent of an entry; the header if the log does not have the parent."""
        return next(self.up(entry), self.header)

    def skip_unseen(self, entry: Entry) -> Entry:
        """Return the nearest entry at or above one that people see: no annotation, no data."""
        while entry.type in ANNOTATIONS or entry.type in ("branch", "custom"):
            entry = self.parent(entry)
        return entry

    @synchronized
    def skip_markers(self, entry: Entry) -> Entry:
        """Return the nearest entry at or above one that is not a marker."""
        return refs.skip_markers(entry, self.up)

    @synchronized
    def entry_at(self, row: int) -> Entry:
        """Return the entry of a row of the index.

        Raises:
            FileReplacedError: its line changed since the index was built.
        """
        return self.read_at(self.index().offsets[row])

    @synchronized
    def entries_at(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries of rows of the index, in the order of the rows given.

        Lines near each other are read together.

        Raises:
            FileReplacedError: a line changed since the index was built.
        """
        offsets = self.index().offsets
        wanted = [offsets[row] for row in rows]
        ascending = sorted(wanted)
        found: dict[int, Entry] = {}
        for offset, line in zip(ascending, self.view.lines_at(ascending), strict=True):
            entry = self.view.decode(line, offset)
            if entry is None:
                raise self.changed(offset)
            found[offset] = entry
        return [found[offset] for offset in wanted]

    def read_at(self, offset: int) -> Entry:
        """Return the entry whose line starts at an offset.

        Raises:
            FileReplacedError: its line changed since it was read first.
        """
        entry = self.view.read(offset)
        if entry is None:
            raise self.changed(offset)
        return entry

    def changed(self, offset: int) -> FileReplacedError:
        """Make the error for a line that changed."""
        name = self.log.name
        message = f"{name}: the line at byte {offset} changed while open; open it again"
        return FileReplacedError(message, name)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries in file order, the header first."""
        with self.alone():
            view = self.whole()
            lines = view.entry_lines()
        for offset, line in lines:
            entry = view.decode(line, offset)
            if entry is not None:
                yield entry

    @synchronized
    def index(self) -> TreeIndex:
        """Return the index of the known part of the log."""
        return self.whole().tree()

    @synchronized
    def names(self) -> refs.Names:
        """Return the labels, branch names and session facts of the log."""
        return self.scan().names()

    @synchronized
    def scan(self) -> LogScan:
        """Return what the raw bytes of the known part of the log tell."""
        self.whole()
        return self._scan_of_view()

    def _scan_of_view(self) -> LogScan:
        if self._scan is None:
            from sessiontree.engine.scan import LogScan  # slow to import, a context needs none

            self._scan = LogScan(self.log.read, self.view)
        return self._scan

    @synchronized
    def has_uuid(self, uuid: str) -> bool:
        """Whether an entry of the known part of the log, or of an open batch, has a uuid."""
        return uuid in self.pending or self._scan_of_view().has_uuid(uuid)

    @synchronized
    def named(self, name: str) -> Entry:
        """Return the entry that a uuid, name or prefix means.

        Raises:
            RefError: it means none, or more than one.
        """
        entry = None if self.view.has_tree else self._find_named(name)
        return entry or self.entry_at(refs.find_row(name, self.index(), self.names()))

    def _find_named(self, name: str) -> Entry | None:
        """Return the entry that a uuid or name means; None where only the index tells."""
        scan = self.scan()
        scan.expect([name])
        names = scan.names()
        if scan.has_uuid(name):
            return self.by_uuid(name)
        tips = map(scan.tip, names.branches.get(name, ()))
        uuids: set[str | None] = {*names.labelled(name), *tips}
        if not uuids and (name == MAIN or name in names.lanes):
            return scan.last_of_lane(name)
        uuid = uuids.pop() if len(uuids) == 1 else None
        return None if uuid is None else self.by_uuid(uuid)

    @synchronized
    def row(self, entry: Entry) -> int:
        """Return the row of an entry in the index."""
        tree = self.index()
        row = tree.row_at(entry.offset)
        return row if row != NO_ROW else tree.row(entry.uuid)

    @synchronized
    def check_name_is_free(self, name: str, target: str = "") -> None:
        """Check that a name means no entry other than `target`, and no lane.

        Raises:
            InvalidNameError: it does.
        """
        names = self.names()
        is_lane = name == MAIN or name in names.lanes
        if not (is_lane or names.labelled(name) - {target} or name in names.branches):
            return
        tree = self.index()
        owners = names.named(name, tree) - {target}
        if owners or refs.lane_leaf(name, tree) != NO_ROW:
            raise refs.name_taken(name, owners)

    def children(self, entry: Entry) -> list[Entry]:
        """Return the children of an entry, in file order."""
        with self.alone():
            return [self.entry_at(child) for child in self.index().children(self.row(entry))]

    def of_type(self, type: str) -> list[Entry]:
        """Return the entries of a type, in file order."""
        with self.alone():
            rows = self.index().rows_of_type(type)
        return [self.entry_at(row) for row in rows]

    def entries_with(self, text: str) -> list[Entry]:
        """Return the entries that may hold a string, such as a key, in file order."""
        with self.alone():
            found = self.scan().holding(text)
        return list(self.entries()) if found is None else found

    @synchronized
    def last_with(self, text: str, is_it: Callable[[Entry], bool]) -> Entry | None:
        """Return the last entry that holds a plain string and is wanted, or None.

        Entries that hold the string are read from the end, and `is_it` is asked about each.
        """
        return self.whole().walk().last_with(text, is_it)

    @synchronized
    def last_fact(self, key: str) -> Any:
        """Return the newest value of a key of the session's metadata; None without one.

        It is found from the end, so a value that was written lately costs little to find.
        """
        return _facts_in(self.last_with_fact(key)).get(key)

    @synchronized
    def last_with_fact(self, key: str) -> Entry:
        """Return the entry that gives a key of the metadata its newest value; else the header."""

        def has_key(entry: Entry) -> bool:
            return entry.type == "session_info" and key in _facts_in(entry)

        return self.last_with(key, has_key) or self.header

    def slice(self, offsets: array[int]) -> PathSlice:
        """Return the entries at ascending offsets; each is read on demand."""
        return PathSlice(self, self.view, offsets)


def _facts_in(entry: Entry) -> Mapping[str, Any]:
    found = entry.as_stored.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _do_nothing() -> None:
    """Stand in for `flush` and `catch_up` of a reader without a writer."""


_NOTHING: Final[Mapping[str, Entry]] = {}


class PathSlice(Sequence[Entry]):
    """Some entries of a path, root first; each is read on demand.

    One move may leave half a million entries behind, which a summarizer reads once. All of
    them in memory would take thirty times the memory of the index.

    Raises:
        FileReplacedError: an entry is gone when it is read.
        StorageError: another log replaced this one, and the session reads that one now.
    """

    def __init__(self, reader: TreeReader, view: LogTree, offsets: array[int]) -> None:
        self._reader = reader
        self._view = view
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> PathSlice: ...
    def __getitem__(self, at: int | slice) -> Entry | PathSlice:
        if isinstance(at, slice):
            return PathSlice(self._reader, self._view, self._offsets[at])
        one = PathSlice(self._reader, self._view, array("q", [self._offsets[at]]))
        return next(iter(one))

    def __iter__(self) -> Iterator[Entry]:
        lines = self._view.lines_at(self._offsets)
        for offset, line in zip(self._offsets, lines, strict=True):
            found = self._view.decode(line, offset)
            if found is None:
                raise self._reader.changed(offset)
            yield found


class BlobFetch:
    """Gives the bytes of a blob, by the text form of its handle; raises BlobError.

    It has no reference to the session or its open log. The interpreter's garbage collector
    does not track entries, so a cycle through an entry would never be freed, and an exclusive
    session would keep its lock.
    """

    def __init__(self, log: Log) -> None:
        self.place = log.blobs
        self._blobs: Blobs | None = None

    @property
    def blobs(self) -> Blobs:
        """The sidecar folder of the log."""
        if self._blobs is None:
            self._blobs = self.place.open()
        return self._blobs

    def __call__(self, handle: str) -> bytes:
        blob = blob_of(handle)
        if blob is None:
            file = self.place.path
            raise SpilledError(
                f"{file}: {handle:.100} is not a blob handle; compare the entry with a backup",
                file,
            )
        return self.blobs.read(*blob)


def blocks_of(entry: Entry, blob: Blob) -> Iterator[bytes]:
    """Yield the bytes of a blob that an entry names, block by block.

    Raises:
        BlobError: it is missing or damaged; maybe raised in place of the last block.
    """
    fetch: Any = entry._fetch
    if not isinstance(fetch, BlobFetch):
        out_of_reach(f"blob {blob.sha256}")
    return fetch.blobs.blocks(*blob)
