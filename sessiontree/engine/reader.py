"""TreeReader: the entries of one open session, and the tree that they make up.

Invariants: nothing on the disk is changed; what is asked for costs what it returns: a
uuid is searched for backwards from the end, and only a name, or a short uuid, reads the
whole file, once, and again only as far as it grew. The reader knows no writer: entries
that wait in a batch reach it by `pending`, `flush` and `catch_up`, which a writer sets.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, overload

from sessiontree.core.blob import Blob, blob_of
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.message import calls_of, result_ids
from sessiontree.core.spill import out_of_reach
from sessiontree.engine import refs
from sessiontree.engine.view import View
from sessiontree.errors import FileReplacedError, SpilledError, UsageError

if TYPE_CHECKING:
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.log import Log


class Shared(Protocol):
    """What threads may share."""

    def alone(self) -> AbstractContextManager[object]:
        """Keep out the other threads that share the session."""


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
        view: what is known of it.
        fetch: gives the bytes of a blob, by the text form of its handle.
        pending: the entries of an open batch, by uuid: appended, and not in the log yet.
        flush: writes them.
        catch_up: takes in what others wrote.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.fetch = BlobFetch(log)
        self.view = View(log, self.fetch)
        self.pending: Mapping[str, Entry] = _NOTHING
        self.flush: Callable[[], None] = _do_nothing
        self.catch_up: Callable[[], object] = _do_nothing
        self._names: refs.Names | None = None

    def alone(self) -> AbstractContextManager[object]:
        """Keep out the other threads that share the session."""
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
        """The sidecar folder with what is too big for the file."""
        return self.fetch.blobs

    @property
    @synchronized
    def damage(self) -> list[Damage]:
        """What was met in the log so far that is not sound, in file order."""
        return self.view.damage

    def ready(self) -> View:
        """The view, with everything written that waits to be."""
        if self.pending:
            self.flush()
        return self.view

    def whole(self) -> View:
        """The same, with what lanes of this session wrote, for a look at the whole log."""
        view = self.ready()
        if self.log.written <= view.size or self.log.closed:
            return view
        with self.alone():  # a thread that is writing has done so first
            if self.log.written > self.view.size:
                self.catch_up()
        return self.view

    def opened(self, log: Log) -> tuple[BlobFetch, View]:
        """How another log of the same session would be read; see `go_on_with`."""
        fetch = self.fetch if self.fetch.place == log.blobs else BlobFetch(log)
        return fetch, View(log, fetch)

    def go_on_with(self, log: Log, fetch: BlobFetch, view: View) -> None:
        """Read another log from now on, which holds the same session."""
        self.log.release()
        self.log, self.fetch, self.view = log, fetch, view
        self._names = None

    def leaf_of(self, lane: str | None) -> Entry:
        """The last entry of a lane in the log; where there is none, that of main."""
        walk = self.view.walk()
        found = walk.last_on(lane)
        if found is None and lane is not None:
            found = walk.last_on(None)
        return found or self.view.header

    @synchronized
    def by_uuid(self, uuid: str) -> Entry | None:
        """The entry with a whole uuid, or None."""
        return self.pending.get(uuid) or self.view.walk().entry(uuid)

    def up(self, entry: Entry) -> Iterator[Entry]:
        """The ancestors of an entry, nearest first, each read when it is asked for."""
        return self.ready().walk().up(entry)

    @synchronized
    def parent(self, entry: Entry) -> Entry:
        """The parent of an entry; the header where the log does not have it."""
        return next(self.up(entry), self.header)

    @synchronized
    def standing(self, entry: Entry) -> Entry:
        """The entry that counts as the place of another: itself, or what markers above mark."""
        return refs.standing(entry, self.up)

    @synchronized
    def entry_at(self, row: int) -> Entry:
        """The entry of a row of the index.

        Raises:
            FileReplacedError: its line changed since the index was built.
        """
        offset = self.index().offsets[row]
        entry = self.view.read(offset)
        if entry is None:
            raise self.changed(offset)
        return entry

    def changed(self, offset: int) -> FileReplacedError:
        """The error for a line that is not what it was."""
        name = self.log.name
        message = f"{name}: the line at byte {offset} changed while open; open it again"
        return FileReplacedError(message, name)

    def entries(self) -> Iterator[Entry]:
        """All entries in file order, the header first, one by one."""
        with self.alone():
            view = self.whole()
            lines = view.lines()
        for offset, line in lines:
            entry = view.decode(line, offset)
            if entry is not None:
                yield entry

    @synchronized
    def index(self) -> TreeIndex:
        """The index of the whole log, as far as it is known."""
        return self.whole().tree()

    @synchronized
    def names(self) -> refs.Names:
        """The labels, branch names and session facts of the log."""
        tree = self.index()
        if self._names is None:
            self._names = refs.Names(self.header)
        self._names.extend(tree, self.view.read)
        return self._names

    @synchronized
    def row(self, entry: Entry) -> int:
        """The row of an entry in the index."""
        tree = self.index()
        row = tree.row_at(entry.offset)
        return row if row != NO_ROW else tree.row(entry.uuid)

    @synchronized
    def check_name_is_free(self, name: str, target: str = "") -> None:
        """Refuse a name that means another entry than `target`, or a lane.

        Raises:
            InvalidNameError: it is taken.
        """
        tree = self.index()
        taken = self.names().named(name, tree) - {target}
        if taken or refs.lane_leaf(name, tree) != NO_ROW:
            raise refs.taken(name, taken)

    def children(self, entry: Entry) -> list[Entry]:
        """The entries whose parent is this one, in file order."""
        with self.alone():
            return [self.entry_at(child) for child in self.index().children(self.row(entry))]

    def find(self, type: str | None, tool_call_id: str | None) -> list[Entry]:
        """See `Session.find`."""
        if type is None and tool_call_id is None:
            raise UsageError("find what? give type=… or tool_call_id=…")
        if type is not None:
            with self.alone():
                rows = self.index().rows_of_type(type)
            found = (self.entry_at(row) for row in rows)
        else:
            needle = _spelling(tool_call_id or "")
            found = (entry for entry in self.entries() if needle is None or needle in entry.line)
        return [e for e in found if tool_call_id is None or _names_call(e, tool_call_id)]

    def slice(self, offsets: array[int]) -> PathSlice:
        """The entries at ascending offsets, each read when it is asked for."""
        return PathSlice(self, self.view, offsets)


def _do_nothing() -> None:
    """What a reader without a writer does before it reads."""


_NOTHING: Final[Mapping[str, Entry]] = {}


def _spelling(text: str) -> bytes | None:
    """The bytes of a plain string in any line; None where JSON may spell it otherwise."""
    return (
        text.encode()
        if text.isascii() and text.replace("_", "").replace("-", "").isalnum()
        else None
    )


def _names_call(entry: Entry, id: str) -> bool:
    message = entry.message_as_stored
    if not isinstance(message, dict):
        block = entry.as_stored.get("block")
        message = {"role": "assistant", "content": [block]}
    return id in result_ids(message) or any(call.id == id for call in calls_of(message))


class PathSlice(Sequence[Entry]):
    """Some entries of a path, root first; each is read when it is asked for.

    Half a million entries may be left behind by one move, which a summarizer looks
    through once: together in memory they would take thirty times what the tree does.

    Raises:
        FileReplacedError: an entry is not there any more when it is asked for.
        StorageError: another log took that one's place, and the session went on with it.
    """

    def __init__(self, reader: TreeReader, view: View, offsets: array[int]) -> None:
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

    Nothing of the session is held, nor of its open log. An entry is not tracked by the
    garbage collector: one that held its session, which holds entries, would keep both for
    as long as the process lives, and an exclusive session its lock.
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
                f"{file}: {handle:.100} is not a blob's handle; compare the entry with a backup",
                file,
            )
        return self.blobs.read(*blob)


def blocks_of(entry: Entry, blob: Blob) -> Iterator[bytes]:
    """The bytes of a blob that an entry names, block by block.

    Raises:
        BlobError: it cannot be had as it was; maybe in place of the last block.
    """
    fetch: Any = entry._fetch
    if not isinstance(fetch, BlobFetch):
        out_of_reach(f"blob {blob.sha256}")
    return fetch.blobs.blocks(*blob)
