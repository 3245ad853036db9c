"""A path from the root to a leaf, read as far as its context needs it.

Invariants: the entries are consecutive, the leaf last; they reach up to the first
entry that the latest compaction keeps, or to the top; the fold is always that of
the first `folded` entries. A path goes on with an appended entry at the cost of
that entry, also where the new one branches off higher up. What a handle on the path
resolved to stays what it was, whatever it points to now: a context only grows at its
end, and what a model was told before is told to it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessiontree.context.fold import Fold, Segment
from sessiontree.core.blocks import Resolution, Resolve, Shown
from sessiontree.core.entry import HEADER, Entry
from sessiontree.engine.collector import held_back
from sessiontree.engine.walk import Walk
from sessiontree.errors import SessionTreeError


class Path:
    """The path to one leaf; what a context is folded from (`context.context.PathRead`).

    Args:
        leaf: where it ends.
        walk: reads what is above.
        header: the session's.
    """

    def __init__(self, leaf: Entry, walk: Walk, header: Entry) -> None:
        with held_back():
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

        def found(entries: Sequence[Entry]) -> list[Resolution]:
            new = [entry for entry in entries if entry.uuid not in known]
            failed: dict[str, SessionTreeError] = {}
            for entry, said in zip(new, resolve(new), strict=True):
                if isinstance(said, SessionTreeError):
                    failed[entry.uuid] = said
                else:
                    known[entry.uuid] = said
            return [failed.get(entry.uuid) or known[entry.uuid] for entry in entries]

        return found

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


def segment(walk: Walk, merged: Entry, base_uuid: str) -> list[Entry]:
    """The path below one entry down to another, as a merge refers to it."""
    path = [merged]
    if merged.parent_uuid != base_uuid:
        for entry in walk.up(merged):
            path.append(entry)
            if entry.parent_uuid == base_uuid:
                break
    path.reverse()
    return [entry for entry in path if entry.type != HEADER]


def is_cut_above(entries: list[Entry], header: Entry) -> bool:
    """Whether the file itself was cut above this path, as a subtree export is."""
    origin = header.get("parentSession")
    if not isinstance(origin, dict) or len(entries) < 2 or entries[0].type != HEADER:
        return False
    return origin.get("cutAbove") is True or origin.get("uuid") == entries[1].uuid
