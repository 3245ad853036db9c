"""Cursor: the place of a session in the tree, the path to it, and its context.

Invariants: a context costs what it returns: the cursor reads the path backwards from the
leaf, and only as much of it as the context needs. A search up the path keeps no entry that it
passes, at most its offset. A handle on the path is resolved once: the context only grows at
its end, so a model gets the same bytes again, even if the handle's target changed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from sessiontree.context.compaction import Slice, TokenCounter, estimate_tokens
from sessiontree.context.context import Context
from sessiontree.context.fold import ContextBuilder, Contribution, Segment
from sessiontree.context.settings import EffectiveSettings
from sessiontree.core.blocks import (
    EntryContents,
    Place,
    Resolution,
    Resolve,
    ShownHandle,
    handle_text,
    place_of,
)
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.message import Message
from sessiontree.engine import names
from sessiontree.engine.reader import PathSlice, TreeReader, synchronized
from sessiontree.engine.walk import Walk, gc_paused
from sessiontree.errors import (
    FileReplacedError,
    RefError,
    SessionTreeError,
    UnknownHandleError,
    UsageError,
)

if TYPE_CHECKING:
    from sessiontree.storage.log import Log

_NEAR: Final = 32
"""The entries at the end of a path that are looked at before an index of it is made."""

_KEPT: Final = 10_000
"""The entries at the end of a path that stay in memory; of those above, some have messages only."""

Passed = Callable[[int, Entry], object]
"""Takes 0 or 1, the way on which an entry is, and the entry."""

Ref = str | Entry
"""An entry, or a name of one; see `sessiontree.engine.names`."""


class Cursor:
    """A place in the tree.

    Attributes:
        reader: reads the tree.
        lane: the lane of the session; None is main.
        leaf: the entry that the next one hangs below.
        resolve: gives for each `handle` entry the message that it resolves to, or an error.
        uuid_of_turn: gives the uuid of the first entry of a turn, by its number.
        origin: gives the uuid of the entry that an entry's line was converted from; else None.
    """

    def __init__(
        self, reader: TreeReader, lane: str | None, resolve: Resolve | None = None
    ) -> None:
        self.reader = reader
        self.lane = lane
        self.resolve: Resolve = resolve or _unresolved
        self.uuid_of_turn: Callable[[str], str] = _no_turn
        self.origin: Callable[[Entry], str | None] = lambda entry: None
        self.leaf = reader.leaf_of(lane)
        self._path: Path | None = None
        reader.catch_up = self.catch_up

    def alone(self) -> AbstractContextManager[object]:
        """Hold the session's thread lock."""
        return self.reader.log.alone()

    def move(self, leaf: Entry) -> None:
        """Go to another entry, and keep the known part of the path to it."""
        if leaf.uuid == self.leaf.uuid and leaf == self.leaf:
            return
        if self._path is not None and not self._path.extend_to(leaf):
            self._path = None
        self.leaf = leaf

    def reset(self, leaf: Entry) -> None:
        """Go to an entry, and forget the path."""
        self.leaf = leaf
        self._path = None

    def forget(self) -> None:
        """Forget the path, and what is known of the closed log."""
        self._path = None
        self.reader.forget()

    def leaf_in_log(self) -> Entry:
        """Return the last entry of the lane in the log."""
        return self.reader.leaf_of(self.lane)

    def catch_up(self, until: int | None = None) -> list[Entry]:
        """Read the structure of what others wrote, and stay at the leaf.

        Args:
            until: the offset up to which to read, in a log that was not replaced; None: the end.

        Raises:
            FileReplacedError: another log replaced this one, and does not have the leaf.
            SessionNotFoundError: the file vanished.
        """
        log, view = self.reader.log, self.reader.view
        size = log.size() if until is None else until
        if until is None and (size < view.size or log.was_replaced()):
            self._reopen()
            return []
        if size == view.size:
            return []
        if self._path is not None and self._path.whole and self._path.top.type != HEADER:
            self._path = None  # a missing parent may be there now
        return list(view.grow(size))

    def _reopen(self) -> None:
        """Read the log that replaced this one; without the leaf in it, stay with the old one."""
        log = self.reader.log.successor()
        try:
            self.replace_log(log)
        except BaseException:
            if self.reader.log is not log:
                log.release()
            raise

    def replace_log(self, log: Log) -> None:
        """Read another log from now on, and stay at the leaf.

        Raises:
            FileReplacedError: it does not have the leaf.
        """
        fetch, view = self.reader.view_of(log)
        leaf = view.walk().entry(self.leaf.uuid)
        if leaf is None:
            raise FileReplacedError(
                f"{log.name} was replaced by a file without entry {self.leaf.uuid}, the last "
                "one that this session saw; nothing was written: open it again",
                log.name,
            )
        try:
            self.reader.replace_log(log, fetch, view)
        finally:
            self.reset(leaf)

    @synchronized
    def entry(self, ref: Ref) -> Entry:
        """See `Session.entry`."""
        if isinstance(ref, Entry):
            return self._own(ref)
        if not isinstance(ref, str):
            raise UsageError(f"a ref is an entry or a string, not {type(ref).__name__}")
        if ref == names.LEAF:
            return self.leaf
        found = self.by_uuid(ref) if len(ref) == 36 else None
        if found is not None:
            return found
        if (plain := names.without_quotes(ref)) != ref:
            try:
                return self.reader.named(ref)  # a name may have quotation marks of its own
            except RefError:
                ref = plain
        base, steps = names.split_steps(ref)
        is_below_leaf = base in ("", names.LEAF)
        if steps is None or (not is_below_leaf and self.reader.has_uuid(ref)):
            turn = names.turn_in(ref)
            if turn is None or self.reader.has_uuid(ref):
                return self.reader.named(ref)
            return self.reader.named(self.uuid_of_turn(turn))
        start = self.leaf if is_below_leaf else self.entry(base)
        return names.steps_up(ref, start, steps, self.reader.up)

    def _own(self, entry: Entry) -> Entry:
        """Return the same entry as this log has it."""
        view = self.reader.view
        if entry is self.leaf or view.holds(entry):
            if entry.offset >= view.size:  # another session of this log wrote it
                self.reader.catch_up()
            return entry
        found = self.by_uuid(entry.uuid)
        if found is None:
            message = f"entry {entry.uuid} is not in {self.reader.log.name}; give an entry of it"
            raise RefError(message, entry.uuid)
        return found

    @synchronized
    def by_uuid(self, uuid: str) -> Entry | None:
        """Return the entry with a whole uuid, or None."""
        if self.leaf.uuid == uuid:
            return self.leaf
        if uuid not in self.reader.pending and self._path is not None:
            found = self._path.find(uuid)
            if found is not None:
                return found
        return self.reader.by_uuid(uuid)

    @synchronized
    def path(self, ref: Ref | None = None) -> list[Entry]:
        """See `Session.path`."""
        view = self.reader.ready()
        if ref is not None and (leaf := self.entry(ref)) != self.leaf:
            path = [leaf, *self.reader.up(leaf)]
            path.reverse()
            return path
        if self._path is None:
            self._path = self.read_path(self.leaf)
        self._path.complete(view.walk())
        return self._path.entries.copy()

    def up(self, entry: Entry | None = None) -> Iterator[Entry]:
        """Yield an entry, by default the leaf, and its ancestors; for one thread at a time."""
        walk = self.reader.ready().walk()
        path = self._path
        if path is not None and (entry is None or entry == self.leaf):
            top, whole = path.top, path.whole
            yield from path.up()
            if not whole:
                yield from walk.up(top)
            return
        first = self.leaf if entry is None else entry
        yield first
        yield from walk.up(first)

    @synchronized
    def nearest(self, wanted: Callable[[Entry], bool], entry: Entry | None = None) -> Entry | None:
        """Return the nearest wanted entry at or above one, by default the leaf."""
        return next(filter(wanted, self.up(entry)), None)

    def is_above(self, above: Entry, entry: Entry | None = None) -> bool:
        """Whether `above` is an entry, by default the leaf, or an ancestor of it."""
        return self.nearest(above.__eq__, entry) is not None

    @synchronized
    def common(self, one: Entry, other: Entry, passed: Passed | None = None) -> Entry | None:
        """Return the lowest common ancestor of two entries, maybe one of them; or None.

        `passed` gets each entry below it, some maybe twice, with 0 on the way from `one` and 1 on
        that from `other`.
        """
        ways = self.up(one), self.up(other)
        at = [next(ways[0]), next(ways[1])]
        while at[0] != at[1]:
            lower = 0 if at[0].offset > at[1].offset else 1
            above = next(ways[lower], None)
            if above is None or above.offset >= at[lower].offset:
                return self._common_in_any_order(one, other, passed)
            if passed is not None:
                passed(lower, at[lower])
            at[lower] = above
        return at[1]

    def _common_in_any_order(self, one: Entry, other: Entry, passed: Passed | None) -> Entry | None:
        """Do the same where a parent comes after its child, or is missing."""
        above_one = {entry.offset for entry in self.up(one)}
        found = self.nearest(lambda entry: entry.offset in above_one, other)
        if passed is not None:
            for way, start in enumerate((one, other)):
                for entry in takewhile(lambda entry: entry != found, self.up(start)):
                    passed(way, entry)
        return found

    @synchronized
    def below(self, above: Entry | None, entry: Entry | None = None) -> PathSlice:
        """Return the path from below an ancestor to an entry, by default the leaf.

        For None, or an entry that is not an ancestor, return the whole path.
        """
        passed = takewhile(lambda one: one != above, self.up(entry))
        offsets = array("q", (one.offset for one in passed))
        offsets.reverse()
        return self.reader.slice(offsets)

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
                path = self.read_path(leaf, keep=_KEPT)
                resolver = self.resolve if resolve else None
                fold = ContextBuilder(
                    path, self.segment, resolver, verbatim=verbatim, strict=strict
                )
            messages, entries, warnings = fold.joined()
        settings = self._settings(path, dict(fold.settings), fold.contents(warnings))
        return Context(leaf, messages, entries, warnings, settings, count, is_paired=not verbatim)

    def messages(self, entries: Sequence[Entry]) -> Sequence[Resolution]:
        """Return the message of each `handle` entry, or the error.

        What the context at the leaf resolved is not resolved again.
        """
        path = self._path
        if path is None:
            return self.resolve(entries)
        known = [path.resolved(entry) for entry in entries]
        new = [entry for entry, one in zip(entries, known, strict=True) if one is None]
        found = iter(self.resolve(new))
        return [next(found) if one is None else one for one in known]

    @synchronized
    def messages_at(self, leaf: Entry, resolve: Resolve) -> list[Message]:
        """Return the messages of the context at an entry, with another resolver of handles."""
        self.reader.ready()
        messages, _, _ = ContextBuilder(
            self.read_path(leaf, keep=_KEPT), self.segment, resolve
        ).joined()
        return messages

    def pieces(self, leaf: Entry | None = None) -> list[Slice]:
        """Return what each entry contributes to the context at an entry, by default the leaf."""
        leaf = leaf or self.leaf
        path = self.context_path() if leaf == self.leaf else self.read_path(leaf, keep=_KEPT)
        return ContextBuilder(path, self.segment, self.resolve).pieces(path)

    @synchronized
    def context_path(self) -> Path:
        """Return the part of the path to the leaf that its context needs."""
        if self._path is None:
            self._path = self.read_path(self.leaf, keep=_KEPT)
        return self._path

    def read_path(self, leaf: Entry, keep: int = sys.maxsize) -> Path:
        """Read the part of the path to an entry that its context needs.

        Above the lowest `keep` entries, some are made only when they are asked for.
        """
        return Path(leaf, self.reader.ready().walk(), self.reader.header, keep)

    def _settings(
        self, path: Path, settings: dict[str, Any], contents: EntryContents
    ) -> Callable[[str], Any]:
        """Return a function that gives a setting; it reads above `path` only if it must."""
        above: Iterator[Entry] = iter(()) if path.whole else self.reader.up(path.top)
        header = contents.whole(self.reader.header).body
        in_force = EffectiveSettings(settings, above, header, contents)

        def setting(key: str) -> Any:
            with self.alone():
                return in_force.get(key)

        return setting

    @synchronized
    def segment(self, base_uuid: str, merged_uuid: str) -> list[Entry]:
        """Return the path from below one entry to another, as a merge names it.

        If the one is not above the other, the path begins with the header.
        """
        merged = self.by_uuid(merged_uuid)
        if merged is None:
            return []
        path = [merged]
        kept = _first_kept(merged)
        if merged.parent_uuid != base_uuid and kept != merged.uuid:
            for entry in self.reader.up(merged):
                path.append(entry)
                kept = _first_kept(entry) if kept is None else kept
                if entry.parent_uuid == base_uuid or entry.uuid == kept:
                    break
            else:
                if path[-1].type != HEADER:  # the file lacks the parent of the last entry
                    path.append(self.reader.header)
        path.reverse()
        return path


def _first_kept(entry: Entry) -> str | None:
    """The uuid of the first entry that a compaction keeps; None for any other entry."""
    kept = entry.as_stored.get("firstKeptEntryUuid") if entry.type == "compaction" else None
    return kept if isinstance(kept, str) else None


def _no_turn(number: str) -> str:
    """Refuse a number: the turns are known to a `Session`, which sets `Cursor.uuid_of_turn`."""
    raise RefError(f"the turn {number} is not known here; give the uuid of an entry", number)


def _unresolved(entries: Sequence[Entry]) -> list[Resolution]:
    """Give an error for each handle: the cursor has no resolvers."""
    return [
        UnknownHandleError("nothing resolves handles here", handle_text(entry)) for entry in entries
    ]


class Path:
    """The path to one leaf, from which a context is folded (`context.context.PathRead`).

    Args:
        leaf: the last entry of the path.
        walk: reads the entries above.
        header: the session's header.
        keep: how many of the lowest entries stay in memory.
    """

    def __init__(self, leaf: Entry, walk: Walk, header: Entry, keep: int) -> None:
        with gc_paused():
            self._parts, compaction = _read(leaf, walk, keep)
        until = compaction.as_stored.get("firstKeptEntryUuid") if compaction else None
        self._entries: list[Entry] = []  # all of them, once they were asked for
        self._added: list[Entry] = []  # those below the parts
        self._leaf = leaf
        self.top = top = self._parts[0].entries[0]
        self.compaction = compaction
        self.whole = top.type == HEADER or compaction is None or top.uuid != until
        highest = chain.from_iterable(part.entries for part in self._parts)
        self.cut_above = self.whole and is_cut_above(list(islice(highest, 2)), header)
        self._fold: ContextBuilder | None = None
        self._folded = 0  # how many of those added are in it
        self._resolved: dict[Place, ShownHandle] = {}
        self._by_uuid: dict[str, Entry] | None = None

    @property
    def entries(self) -> list[Entry]:
        """The entries that were read, the leaf last; made now where only messages were read."""
        if not self._entries:
            with gc_paused():
                self._entries = [entry for part in self._parts for entry in part.entries]
            self._entries += self._added
        return self._entries

    def up(self) -> Iterator[Entry]:
        """Yield the entries that were read up to now, the leaf first."""
        if self._entries:
            yield from reversed(self._entries.copy())
            return
        added, parts = self._added.copy(), self._parts
        yield from reversed(added)
        for part in reversed(parts):
            yield from reversed(part.entries)

    def find(self, uuid: str) -> Entry | None:
        """Return the lowest entry with a uuid among those that were read, or None."""
        if self._by_uuid is None:
            near = self._entries[: -_NEAR - 1 : -1] if self._entries else islice(self.up(), _NEAR)
            for entry in near:
                if entry.uuid == uuid:
                    return entry
            self._by_uuid = {entry.uuid: entry for entry in self.entries}
        return self._by_uuid.get(uuid)

    def resolved(self, entry: Entry) -> ShownHandle | None:
        """Return the message of a `handle` entry if a context of this path resolved it."""
        return self._resolved.get(place_of(entry))

    def complete(self, walk: Walk) -> None:
        """Read the rest of the path, up to the root."""
        if self.whole:
            return
        above = list(walk.parts_up(self.top))
        self.entries[:0] = chain.from_iterable(reversed(above))
        self.top = self.entries[0]
        self._parts = []
        self._by_uuid = None
        self.whole = True
        self._fold = None  # the settings above now count too

    def fold(self, segment: Segment, resolve: Resolve) -> ContextBuilder:
        """Return the fold of all entries; extend the earlier one if possible."""
        if self._fold is not None and not self._fold.complete:
            self._fold = None  # missing content may be there now
        for entry in self._added[self._folded :]:
            if self._fold is not None and not self._fold.take(entry):
                self._fold = None
        if self._fold is None:
            parts = [*self._parts, Contribution(self._added)] if self._parts else []
            self._fold = ContextBuilder(self, segment, self._once(resolve), parts)
        self._folded = len(self._added)
        return self._fold

    def _once(self, resolve: Resolve) -> Resolve:
        """Return a resolver that remembers what it resolved for this path."""
        known = self._resolved

        def resolve_new(entries: Sequence[Entry]) -> list[Resolution]:
            new = [entry for entry in entries if place_of(entry) not in known]
            failed: dict[Place, SessionTreeError] = {}
            for entry, resolution in zip(new, resolve(new), strict=True):
                if isinstance(resolution, SessionTreeError):
                    failed[place_of(entry)] = resolution
                else:
                    known[place_of(entry)] = resolution
            places = map(place_of, entries)
            return [failed.get(place) or known[place] for place in places]

        return resolve_new

    def extend_to(self, leaf: Entry) -> bool:
        """Become the path to an entry just appended; False if the path must be read again."""
        if leaf.type == "compaction":
            return False
        self._by_uuid = None
        if leaf.parent_uuid != self._leaf.uuid:
            entries = self.entries
            places = range(len(entries) - 1, -1, -1)
            above = next((i for i in places if entries[i].uuid == leaf.parent_uuid), None)
            if above is None or any(entry is self.compaction for entry in entries[above + 1 :]):
                return False
            for entry in entries[above + 1 :]:
                self._resolved.pop(place_of(entry), None)
            del entries[above + 1 :]
            self._parts = []
            self._fold = None
        if self._entries:
            self._entries.append(leaf)
        self._added.append(leaf)
        self._leaf = leaf
        return True


def _read(leaf: Entry, walk: Walk, keep: int) -> tuple[list[Contribution], Entry | None]:
    """Return the entries that a context needs, oldest first, and the latest compaction.

    Where there is none, entries above the lowest `keep` are let go if their messages are enough.
    """
    parts = _PathParts()
    compaction: Entry | None = None
    until: Any = None
    for entries in chain(([leaf],), walk.parts_up(leaf)):
        types = parts.add(entries)
        above = len(entries)
        keep -= above
        if keep < 0 and compaction is None and above > _NEAR:
            parts.let_go_highest()
        if compaction is None and "compaction" in types:
            above = max(at for at, entry in enumerate(entries) if entry.type == "compaction")
            compaction = entries[above]
            until = compaction.as_stored.get("firstKeptEntryUuid")
            above += until == compaction.uuid
        if compaction is not None:
            first = next((at for at in range(above - 1, -1, -1) if entries[at].uuid == until), None)
            if first is not None:
                parts.leave_out(first)
                break
    return parts.all(), compaction


class _PathParts:
    """The parts of a path, the lowest added first; small ones are joined."""

    def __init__(self) -> None:
        self._parts: list[Contribution] = []
        self._small: list[Entry] = []  # not in a part yet, the lowest first

    def add(self, entries: Sequence[Entry]) -> set[str]:
        """Add the entries above those so far; returns their types."""
        if len(entries) == 1:  # as in most files
            self._small.append(entries[0])
            if len(self._small) > 4 * _NEAR:
                self._join()
            return {entries[0].type}
        if len(entries) > _NEAR:
            self._join()
            self._parts.append(Contribution(entries))
            return self._parts[-1].types
        if len(self._small) > 4 * _NEAR:
            self._join()
        self._small.extend(reversed(entries))
        return {entry.type for entry in entries}

    def let_go_highest(self) -> None:
        """Let the entries of the highest part go."""
        self._parts[-1].let_go()

    def leave_out(self, count: int) -> None:
        """Leave out so many of the highest entries."""
        if self._small:
            del self._small[len(self._small) - count :]
        else:
            self._parts[-1] = Contribution(self._parts[-1].entries[count:])

    def all(self) -> list[Contribution]:
        """The parts, the highest first."""
        self._join()
        return self._parts[::-1]

    def _join(self) -> None:
        if self._small:
            self._parts.append(Contribution(self._small[::-1]))
            self._small = []


def is_cut_above(entries: list[Entry], header: Entry) -> bool:
    """Whether the file is a subtree export, and this path ends at its cut."""
    origin = header.get("parentSession")
    if not isinstance(origin, dict) or len(entries) < 2 or entries[0].type != HEADER:
        return False
    return origin.get("cutAbove") is True or origin.get("uuid") == entries[1].uuid
