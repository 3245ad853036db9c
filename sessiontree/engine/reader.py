"""Reader: a session opened, an entry found, the way up from it read.

Invariants: nothing on the disk is changed; what is asked for costs what it
returns: the leaf, a path and a context are read backwards from the end, and only
a name, or a short uuid, reads the whole file, once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sessiontree.context.compaction import TokenCounter, estimate_tokens
from sessiontree.context.context import Context
from sessiontree.context.fold import Fold, PathRead
from sessiontree.context.settings import InForce
from sessiontree.core.blocks import Resolution
from sessiontree.core.damage import Damage
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.engine import refs
from sessiontree.engine.collector import held_back
from sessiontree.engine.cursor import Path, segment
from sessiontree.engine.fetching import Fetching
from sessiontree.engine.undisturbed import undisturbed
from sessiontree.engine.view import View
from sessiontree.errors import FileReplacedError, RefError, UsageError
from sessiontree.storage.log import FileLog

if TYPE_CHECKING:
    from sessiontree.handles.registry import Registry
    from sessiontree.storage.blobs import Blobs

PathLike = str | os.PathLike[str]

Ref = str | Entry
"""An entry, or the name of one; see `sessiontree.engine.refs`."""


class Reader:
    """What the walk from a leaf upwards answers."""

    def __init__(self, log: FileLog, lane: str | None) -> None:
        self._log = log
        self._fetch = Fetching(log)
        self._registry: Registry | None = None
        self._root: str | None = None
        self._view = self._view_of(log)
        self._disk = log.fs
        self._lane = lane
        self._path: Path | None = None
        self._names: refs.Names | None = None
        self._leaf = self._leaf_in_file()

    def _view_of(self, log: FileLog) -> View:
        return View(log, self._fetch)

    @property
    def blobs(self) -> Blobs:
        """The sidecar folder with what is too big for the file."""
        return self._fetch.blobs

    def _leaf_in_file(self) -> Entry:
        walk = self._view.walk()
        found = walk.last_on(self._lane)
        if found is None and self._lane is not None:
            found = walk.last_on(None)
        return found or self._view.header

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Closing twice is allowed."""
        self._log.close()

    @property
    def file(self) -> str | None:
        """The path of the file, as given; None for a session in memory."""
        return self._log.path

    @property
    def header(self) -> Entry:
        """The first entry, the root of the tree."""
        return self._view.header

    @property
    def id(self) -> str:
        """The session's id."""
        return str(self.header.get("id", ""))

    @property
    def lane_name(self) -> str:
        """The lane this session reads and writes."""
        return self._lane or "main"

    @property
    def leaf(self) -> Entry:
        """The entry that the next one hangs below: what this session last saw or wrote."""
        return self._leaf

    @property
    @undisturbed
    def damage(self) -> list[Damage]:
        """What was met in the file so far that is not sound, in file order."""
        return self._view.damage

    def _ready(self) -> View:
        """The view, with everything written that waits to be."""
        return self._view

    def _whole(self) -> View:
        """The same, with what lanes of this session wrote, for a look at the whole file."""
        view = self._ready()
        if self._log.lock.written <= view.size or self._log.closed:
            return view
        with self._log.lock.alone():  # a thread that is writing has done so first
            if self._log.lock.written > self._view.size:
                self._see_others()
        return self._view

    @undisturbed
    def entry(self, ref: Ref) -> Entry:
        """The entry that a ref names.

        Raises:
            RefError: it names none, or more than one.
        """
        if isinstance(ref, Entry):
            return self._own(ref)
        if not isinstance(ref, str):
            raise UsageError(f"a ref is an entry or a string, not a {type(ref).__name__}")
        if ref == refs.LEAF:
            return self._leaf
        found = self._by_uuid(ref) if len(ref) == 36 else None
        if found is not None:
            return found
        base, steps = refs.split_steps(ref)
        if steps is None or self._index().row(ref) != NO_ROW:
            return self._entry_at(refs.find_row(ref, self._index(), self._all_names()))
        start = self.entry(base or refs.LEAF)
        return refs.steps_up(ref, start, steps, self._ready().walk().up)

    def _own(self, entry: Entry) -> Entry:
        """The same entry, if it is this session's."""
        if entry is self._leaf or self._view.holds(entry):
            if entry.offset >= self._view.size:  # another session of this file wrote it since
                self._see_others()
            return entry
        found = self._by_uuid(entry.uuid)
        if found is None:
            message = f"entry {entry.uuid} is not in {self._log.path}; give one of its own"
            raise RefError(message, entry.uuid)
        return found

    @undisturbed
    def _by_uuid(self, uuid: str) -> Entry | None:
        if self._leaf.uuid == uuid:
            return self._leaf
        if self._path is not None:
            for entry in reversed(self._path.entries):
                if entry.uuid == uuid:
                    return entry
        return self._view.walk().entry(uuid)

    @undisturbed
    def _entry_at(self, row: int) -> Entry:
        offset = self._index().offsets[row]
        entry = self._view.read(offset)
        if entry is None:
            raise self._changed(offset)
        return entry

    def _changed(self, offset: int) -> FileReplacedError:
        path = self._log.path
        message = f"{path}: the line at byte {offset} changed while open; open it again"
        return FileReplacedError(message, path)

    def entries(self) -> Iterator[Entry]:
        """All entries in file order, the header first, one by one."""
        with self._log.lock.alone():
            view = self._whole()
            lines = view.lines()
        for offset, line in lines:
            entry = view.decode(line, offset)
            if entry is not None:
                yield entry

    @undisturbed
    def path(self, ref: Ref | None = None) -> list[Entry]:
        """The entries from the header to an entry, by default the leaf, root first.

        Where a parent is missing the path starts below the gap, and the gap is in
        `damage`.
        """
        view = self._ready()
        if ref is not None and (leaf := self.entry(ref)) != self._leaf:
            return self._walk_up(leaf)
        if self._path is None:
            self._path = self._read_path(self._leaf)
        path = self._path
        path.complete(view.walk())
        return path.entries.copy()

    def _walk_up(self, entry: Entry) -> list[Entry]:
        path = [entry, *self._ready().walk().up(entry)]
        path.reverse()
        return path

    @undisturbed
    def context(
        self,
        ref: Ref | None = None,
        *,
        verbatim: bool = False,
        resolve: bool = True,
        strict: bool = False,
        count: TokenCounter = estimate_tokens,
    ) -> Context:
        """What a model would get at an entry, by default the leaf.

        What a handle on the way to the leaf resolved to is kept as the session goes on
        from there: a file that changes is shown as it was, so that what a model was told
        stays the same. Append its handle again, or open the session anew, to show what it
        is now; with `strict` all is asked for anew too.

        Args:
            ref: the entry to stand at.
            verbatim: give the messages as stored, calls and results unpaired.
            resolve: False leaves handles as references.
            strict: a blob or a handle that fails is an error, not a placeholder.
            count: counts the tokens of one message.

        Raises:
            BlobError, ResolveError: with `strict`, what cannot be had.
        """
        self._ready()
        leaf = self._leaf if ref is None else self.entry(ref)
        with held_back():
            if leaf == self._leaf and resolve and not verbatim and not strict:
                path = self._context_path()
                fold = path.fold(self._segment, self._resolved_messages)
            else:
                path = self._read_path(leaf)
                resolver = self._resolved_messages if resolve else None
                fold = Fold(path, self._segment, resolver, verbatim=verbatim, strict=strict)
            messages, entries, warnings = fold.result()
        in_force = self._in_force(path, dict(fold.settings))
        return Context(leaf, messages, entries, warnings, in_force, count)

    def _resolved_messages(self, entries: Sequence[Entry]) -> Sequence[Resolution]:
        """The messages that `handle` entries stand for, or why there is none."""
        from sessiontree.handles.resolve import messages  # many sessions have no handles

        return messages(self, entries, registry=self._registry, root=self._root)

    @undisturbed
    def _context_path(self) -> Path:
        if self._path is None:
            self._path = self._read_path(self._leaf)
        return self._path

    def _read_path(self, leaf: Entry) -> Path:
        return Path(leaf, self._ready().walk(), self.header)

    @undisturbed
    def _latest_compaction(self) -> Entry | None:
        """The compaction in force at the leaf, or None."""
        return self._context_path().compaction

    @undisturbed
    def _parent(self, entry: Entry) -> Entry:
        """The parent of an entry; the header where the file does not have it."""
        return next(self._ready().walk().up(entry), self.header)

    @undisturbed
    def _standing(self, entry: Entry) -> Entry:
        """The entry one stands at: itself, or what the markers above it mark."""
        return refs.standing(entry, self._ready().walk().up)

    def _in_force(self, path: PathRead, settings: dict[str, Any]) -> Callable[[str], Any]:
        """Gives a setting by key; reads above the path only for one not found on it."""
        top = path.entries[0]
        above: Iterator[Entry] = iter(()) if path.whole else self._ready().walk().up(top)
        in_force = InForce(settings, above, self.header.body)
        lock = self._log.lock

        def setting(key: str) -> Any:
            with lock.alone():
                return in_force.get(key)

        return setting

    @undisturbed
    def _segment(self, base_uuid: str, merged_uuid: str) -> list[Entry]:
        """The path below one entry down to another, as a merge refers to it."""
        merged = self._by_uuid(merged_uuid)
        if merged is None:
            return []
        return segment(self._ready().walk(), merged, base_uuid)

    @undisturbed
    def _index(self) -> TreeIndex:
        """The whole-file index, as far as the file is known."""
        return self._whole().tree()

    @undisturbed
    def _all_names(self) -> refs.Names:
        """The labels, branch names and session facts of the file."""
        tree = self._index()
        if self._names is None:
            self._names = refs.Names(self.header)
        self._names.extend(tree, self._view.read)
        return self._names

    @undisturbed
    def _row(self, entry: Entry) -> int:
        tree = self._index()
        row = tree.row_at(entry.offset)
        return row if row != NO_ROW else tree.row(entry.uuid)

    def refresh(self) -> None:
        """See what others wrote. A writer stays where it is; a reader goes to the new leaf.

        What sessions made by `lane` and `scratch` wrote is seen without it by whatever
        takes the whole file: `entries`, `find`, `tree`, `render`, `branches`, `stats`.

        Raises:
            FileReplacedError: another file took this one's place, without the leaf in it.
            SessionNotFoundError: the path vanished.
        """
        with self._log.lock.alone():
            self._notice()
            if self._log.readonly:
                self._move(self._leaf_in_file())

    def _see_others(self) -> None:
        """Take in what others wrote, and stay."""
        self._notice()

    def _notice(self) -> list[Entry]:
        """The structure of what others appended since the last look."""
        size = self._log.size()
        if size < self._view.size or self._log.was_replaced():
            self._reopen()
            return []
        if size == self._view.size:
            return []
        if self._path is not None and self._path.whole and self._path.entries[0].type != HEADER:
            self._path = None  # a parent that was missing may have come
        return list(self._view.grow(size))

    def _reopen(self) -> None:
        """Go on with the file that took this one's place.

        Where it does not hold what was last seen, the old one stays open, to be read.
        """
        log = self._log.successor()
        try:
            self._go_on_with(log)
        except BaseException:
            log.release()
            raise

    def _go_on_with(self, log: FileLog) -> None:
        if not self._fetch.is_beside(log):
            self._fetch = Fetching(log)
        view = self._view_of(log)
        leaf = view.walk().entry(self._leaf.uuid)
        if leaf is None:
            raise FileReplacedError(
                f"{log.path} was replaced by a file without entry {self._leaf.uuid}, "
                "the last that this session saw; nothing was written: open it again",
                log.path,
            )
        self._log.release()
        self._log = log
        self._view = view
        self._names = None
        self._path = None
        self._leaf = leaf

    def _move(self, leaf: Entry) -> None:
        """Stand at another entry, and keep what is known of the path to it."""
        if leaf.uuid == self._leaf.uuid and leaf == self._leaf:
            return
        if self._path is not None and not self._path.go_on_to(leaf):
            self._path = None
        self._leaf = leaf
