"""Cursor: where a session is in the tree, the path up from there, and its context.

Invariants: a context costs what it returns: its path is read backwards from the leaf, and
no more of it than the context needs; of the entries that a search up the path passes none
is kept, at most where each lies, so that a path of a million entries takes the memory of
a few. What a handle on the path resolved to stays what it was, whatever it points to now:
a context only grows at its end, and a model is given the same words again.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sessiontree.context.compaction import Piece, TokenCounter, estimate_tokens
from sessiontree.context.context import Context
from sessiontree.context.fold import Fold, Segment
from sessiontree.context.settings import InForce
from sessiontree.core.blocks import Resolution, Resolve, Shown
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.index import NO_ROW
from sessiontree.engine import refs
from sessiontree.engine.reader import PathSlice, TreeReader, synchronized
from sessiontree.engine.walk import Walk
from sessiontree.errors import (
    FileReplacedError,
    RefError,
    SessionTreeError,
    UnknownHandleError,
    UsageError,
)

if TYPE_CHECKING:
    from sessiontree.storage.log import Log

Ref = str | Entry
"""An entry, or the name of one; see `sessiontree.engine.refs`."""


class Cursor:
    """A place in the tree.

    Attributes:
        reader: reads the tree.
        lane: the lane of the session; None is main.
        leaf: the entry that the next one hangs below.
        resolve: gives the messages that `handle` entries resolve to, or why they do not.
    """

    def __init__(
        self, reader: TreeReader, lane: str | None, resolve: Resolve | None = None
    ) -> None:
        self.reader = reader
        self.lane = lane
        self.resolve: Resolve = resolve or _unresolved
        self.leaf = reader.leaf_of(lane)
        self._path: Path | None = None
        reader.catch_up = self.catch_up

    def alone(self) -> AbstractContextManager[object]:
        """Keep out the other threads that share the session."""
        return self.reader.log.alone()

    # the place

    def move(self, leaf: Entry) -> None:
        """Go to another entry, and keep what is known of the path to it."""
        if leaf.uuid == self.leaf.uuid and leaf == self.leaf:
            return
        if self._path is not None and not self._path.go_on_to(leaf):
            self._path = None
        self.leaf = leaf

    def go_back_to(self, leaf: Entry) -> None:
        """Go to an entry after what was written below it came to nothing."""
        self.leaf = leaf
        self._path = None

    def leaf_in_log(self) -> Entry:
        """The last entry of the lane in the log."""
        return self.reader.leaf_of(self.lane)

    def catch_up(self) -> list[Entry]:
        """Take in what others wrote, and stay; the structure of it.

        Raises:
            FileReplacedError: another log took this one's place, without the leaf in it.
            SessionNotFoundError: the path vanished.
        """
        log, view = self.reader.log, self.reader.view
        size = log.size()
        if size < view.size or log.was_replaced():
            self._reopen()
            return []
        if size == view.size:
            return []
        if self._path is not None and self._path.whole and self._path.entries[0].type != HEADER:
            self._path = None  # a parent that was missing may have come
        return list(view.grow(size))

    def _reopen(self) -> None:
        """Go on with the log that took this one's place.

        Where it does not hold what was last seen, the old one stays open, to be read.
        """
        log = self.reader.log.successor()
        try:
            self.go_on_with(log)
        except BaseException:
            log.release()
            raise

    def go_on_with(self, log: Log) -> None:
        """Read another log from now on, and stay at the same entry.

        Raises:
            FileReplacedError: it does not have that entry.
        """
        fetch, view = self.reader.opened(log)
        leaf = view.walk().entry(self.leaf.uuid)
        if leaf is None:
            raise FileReplacedError(
                f"{log.name} was replaced by a file without entry {self.leaf.uuid}, "
                "the last that this session saw; nothing was written: open it again",
                log.name,
            )
        self.reader.go_on_with(log, fetch, view)
        self.go_back_to(leaf)

    # entries by their names

    @synchronized
    def entry(self, ref: Ref) -> Entry:
        """The entry that a ref names; see `Session.entry`."""
        if isinstance(ref, Entry):
            return self._own(ref)
        if not isinstance(ref, str):
            raise UsageError(f"a ref is an entry or a string, not {type(ref).__name__}")
        if ref == refs.LEAF:
            return self.leaf
        found = self.by_uuid(ref) if len(ref) == 36 else None
        if found is not None:
            return found
        reader = self.reader
        base, steps = refs.split_steps(ref)
        if steps is None or reader.index().row(ref) != NO_ROW:
            return reader.entry_at(refs.find_row(ref, reader.index(), reader.names()))
        start = self.entry(base or refs.LEAF)
        return refs.steps_up(ref, start, steps, reader.up)

    def _own(self, entry: Entry) -> Entry:
        """The same entry, if it is of this log."""
        view = self.reader.view
        if entry is self.leaf or view.holds(entry):
            if entry.offset >= view.size:  # another session of this log wrote it since
                self.reader.catch_up()
            return entry
        found = self.by_uuid(entry.uuid)
        if found is None:
            message = f"entry {entry.uuid} is not in {self.reader.log.name}; give one of its own"
            raise RefError(message, entry.uuid)
        return found

    @synchronized
    def by_uuid(self, uuid: str) -> Entry | None:
        """The entry with a whole uuid, or None."""
        if self.leaf.uuid == uuid:
            return self.leaf
        if uuid not in self.reader.pending and self._path is not None:
            for entry in reversed(self._path.entries):
                if entry.uuid == uuid:
                    return entry
        return self.reader.by_uuid(uuid)

    # the path

    @synchronized
    def path(self, ref: Ref | None = None) -> list[Entry]:
        """See `Session.path`."""
        view = self.reader.ready()
        if ref is not None and (leaf := self.entry(ref)) != self.leaf:
            path = [leaf, *self.reader.up(leaf)]
            path.reverse()
            return path
        known = self.context_path()
        known.complete(view.walk())
        return known.entries.copy()

    def up(self, entry: Entry | None = None) -> Iterator[Entry]:
        """An entry, by default the leaf, and its ancestors. For one thread at a time."""
        walk = self.reader.ready().walk()
        path = self._path
        if path is not None and (entry is None or entry == self.leaf):
            known = path.entries.copy()
            yield from reversed(known)
            if not path.whole:
                yield from walk.up(known[0])
            return
        first = self.leaf if entry is None else entry
        yield first
        yield from walk.up(first)

    @synchronized
    def nearest(self, wanted: Callable[[Entry], bool], entry: Entry | None = None) -> Entry | None:
        """The nearest wanted entry at or above one, by default the leaf."""
        return next(filter(wanted, self.up(entry)), None)

    def is_above(self, above: Entry, entry: Entry | None = None) -> bool:
        """Whether an entry is another, by default the leaf, or an ancestor of it."""
        return self.nearest(above.__eq__, entry) is not None

    @synchronized
    def common(self, one: Entry, other: Entry) -> Entry | None:
        """The lowest entry that two are, or descend from; None where there is none."""
        ways = self.up(one), self.up(other)
        at = [next(ways[0]), next(ways[1])]
        while at[0] != at[1]:
            lower = 0 if at[0].offset > at[1].offset else 1
            above = next(ways[lower], None)
            if above is None or above.offset >= at[lower].offset:
                return self._common_in_any_order(one, other)
            at[lower] = above
        return at[1]

    def _common_in_any_order(self, one: Entry, other: Entry) -> Entry | None:
        """The same where a parent stands after its child, or is missing."""
        above_one = {entry.offset for entry in self.up(one)}
        return self.nearest(lambda entry: entry.offset in above_one, other)

    @synchronized
    def below(self, above: Entry | None, entry: Entry | None = None) -> PathSlice:
        """The path from below an ancestor to an entry, by default the leaf.

        An ancestor of None, or one that is not above it, is above all.
        """
        passed = takewhile(lambda one: one != above, self.up(entry))
        offsets = array("q", (one.offset for one in passed))
        offsets.reverse()
        return self.reader.slice(offsets)

    # the context

    @synchronized
    def context(
        self,
        ref: Ref | None = None,
        *,
        verbatim: bool = False,
        resolve: bool = True,
        strict: bool = False,
        count: TokenCounter = estimate_tokens,
    ) -> Context:
        """See `Session.context`."""
        self.reader.ready()
        leaf = self.leaf if ref is None else self.entry(ref)
        with gc_paused():
            if leaf == self.leaf and resolve and not verbatim and not strict:
                path = self.context_path()
                fold = path.fold(self.segment, self.resolve)
            else:
                path = self.read_path(leaf)
                resolver = self.resolve if resolve else None
                fold = Fold(path, self.segment, resolver, verbatim=verbatim, strict=strict)
            messages, entries, warnings = fold.result()
        return Context(
            leaf, messages, entries, warnings, self._settings(path, dict(fold.settings)), count
        )

    def pieces(self) -> list[Piece]:
        """What each entry contributes to the context at the leaf, for choosing a cut."""
        path = self.context_path()
        return Fold(path, self.segment, self.resolve).pieces(path)

    @synchronized
    def context_path(self) -> Path:
        """As much of the path to the leaf as its context needs."""
        if self._path is None:
            self._path = self.read_path(self.leaf)
        return self._path

    def compaction(self) -> Entry | None:
        """The compaction in force at the leaf, or None."""
        return self.context_path().compaction

    def read_path(self, leaf: Entry) -> Path:
        return Path(leaf, self.reader.ready().walk(), self.reader.header)

    def _settings(self, path: Path, settings: dict[str, Any]) -> Callable[[str], Any]:
        """Gives a setting by key; reads above the path only for one not found on it."""
        above: Iterator[Entry] = iter(()) if path.whole else self.reader.up(path.entries[0])
        in_force = InForce(settings, above, self.reader.header.body)

        def setting(key: str) -> Any:
            with self.alone():
                return in_force.get(key)

        return setting

    @synchronized
    def segment(self, base_uuid: str, merged_uuid: str) -> list[Entry]:
        """The path below one entry down to another, as a merge refers to it."""
        merged = self.by_uuid(merged_uuid)
        if merged is None:
            return []
        path = [merged]
        if merged.parent_uuid != base_uuid:
            for entry in self.reader.up(merged):
                path.append(entry)
                if entry.parent_uuid == base_uuid:
                    break
        path.reverse()
        return [entry for entry in path if entry.type != HEADER]


def _unresolved(entries: Sequence[Entry]) -> list[Resolution]:
    """What a cursor without a session's resolvers says of handles."""
    return [
        UnknownHandleError("nothing resolves handles here", str(entry.get("handle")))
        for entry in entries
    ]


class Path:
    """The path to one leaf; what a context is folded from (`context.context.PathRead`).

    Args:
        leaf: where it ends.
        walk: reads what is above.
        header: the session's.
    """

    def __init__(self, leaf: Entry, walk: Walk, header: Entry) -> None:
        with gc_paused():
            entries, compaction = _read(leaf, walk)
        until = compaction.get("firstKeptEntryUuid") if compaction else None
        top = entries[0]
        self.entries = entries
        self.compaction = compaction
        self.whole = top.type == HEADER or compaction is None or top.uuid != until
        self.cut_above = self.whole and is_cut_above(entries, header)
        self._fold: Fold | None = None
        self._folded = 0
        self._resolved: dict[str, Shown] = {}

    def complete(self, walk: Walk) -> None:
        """Read what is above, up to the top."""
        if self.whole:
            return
        above = list(walk.up(self.entries[0]))
        above.reverse()
        self.entries[:0] = above
        self.whole = True
        self._fold = None  # the settings above count too, and nobody looks there any more

    def fold(self, segment: Segment, resolve: Resolve) -> Fold:
        """The fold of all entries, made from the one before where that can go on."""
        if self._fold is not None and not self._fold.complete:
            self._fold = None  # what could not be had may be there now
        while self._fold is not None and self._folded < len(self.entries):
            if self._fold.take(self.entries[self._folded]):
                self._folded += 1
            else:
                self._fold = None
        if self._fold is None:
            self._fold = Fold(self, segment, self._once(resolve))
        self._folded = len(self.entries)
        return self._fold

    def _once(self, resolve: Resolve) -> Resolve:
        """Resolves those `handle` entries that were not resolved for this path before."""
        known = self._resolved

        def resolve_new(entries: Sequence[Entry]) -> list[Resolution]:
            new = [entry for entry in entries if entry.uuid not in known]
            failed: dict[str, SessionTreeError] = {}
            for entry, said in zip(new, resolve(new), strict=True):
                if isinstance(said, SessionTreeError):
                    failed[entry.uuid] = said
                else:
                    known[entry.uuid] = said
            return [failed.get(entry.uuid) or known[entry.uuid] for entry in entries]

        return resolve_new

    def go_on_to(self, leaf: Entry) -> bool:
        """Become the path to an entry just appended; False where it must be read anew."""
        if leaf.type == "compaction":
            return False
        entries = self.entries
        if leaf.parent_uuid != entries[-1].uuid:
            places = range(len(entries) - 1, -1, -1)
            above = next((i for i in places if entries[i].uuid == leaf.parent_uuid), None)
            if above is None or any(entry is self.compaction for entry in entries[above + 1 :]):
                return False
            for entry in entries[above + 1 :]:
                self._resolved.pop(entry.uuid, None)
            del entries[above + 1 :]
            self._fold = None
        entries.append(leaf)
        return True


def _read(leaf: Entry, walk: Walk) -> tuple[list[Entry], Entry | None]:
    """The entries that the context at a leaf needs, oldest first, and the latest compaction."""
    entries = [leaf]
    compaction = leaf if leaf.type == "compaction" else None
    until = compaction.get("firstKeptEntryUuid") if compaction else None
    if until != leaf.uuid:
        append = entries.append
        for entry in walk.up(leaf):
            append(entry)
            if compaction is None:
                if entry.type == "compaction":
                    compaction = entry
                    until = entry.get("firstKeptEntryUuid")
                    if until == entry.uuid:
                        break
            elif entry.uuid == until:
                break
    entries.reverse()
    return entries, compaction


def is_cut_above(entries: list[Entry], header: Entry) -> bool:
    """Whether the file itself was cut above this path, as a subtree export is."""
    origin = header.get("parentSession")
    if not isinstance(origin, dict) or len(entries) < 2 or entries[0].type != HEADER:
        return False
    return origin.get("cutAbove") is True or origin.get("uuid") == entries[1].uuid


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the interpreter's collection of cycles.

    A path is read into hundreds of thousands of dicts and lists, all of them kept and none
    part of a cycle; the collector would look through them again and again, a fifth of the
    time of a long resume. A collector that was on is on again afterwards, however this
    ends, and one that was off stays off; that holds for threads at once too: the one that
    finds it on turns it on again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
