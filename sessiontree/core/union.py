"""The union of two copies of a session: the entries that each lacks, and those that settle it.

Each copy gets the lines that it lacks, in the order of the other one. So a line never comes before
one that its writer had read, in any copy. The order of the lines then still differs between the
copies, and the order decides: the last entry of a lane is its leaf, and the latest value of a label
or a name counts. Where the two orders give different answers, both copies get the same new entries
at their ends.

The answer that wins is chosen from the entries alone:

- An entry that the writer of the other one had read never wins: that one is later in both orders.
- An annotation moves no leaf, so it stands for the entry that it was written below. Of two entries
  of which one is above the other, the lower one wins.
- Else the later timestamp wins, then the greater uuid. Clocks that disagree change which answer
  wins, but not that all copies have the same.

Invariants: the result depends on the two sets of entries and their orders, and not on which copy is
the first; an entry that settles has a uuid made of its content, so that several programs write the
same bytes; it comes after all that it settles, so it settles that once, for all copies.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from sessiontree.core.codec import encode
from sessiontree.core.entry import ANNOTATIONS, Entry, moment_of
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import BlobError, EntryError

_NAMESPACE: Final = UUID("5f6b9b0e-2c7a-4d0f-9a56-0f6f2d2b7c11")
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)

_NAME: Final = "name"
_METADATA: Final = "metadata"
_LABEL: Final = "label"
_TEXTS: Final = ("session_info", "label")
"""The types whose latest entry in the file counts."""

_Fact = tuple[str, str]
"""What has a latest value: the name, a key of the metadata, or the label of an entry."""


class CopySide(NamedTuple):
    """One copy of a session."""

    tree: TreeIndex  # its index
    # gives the entries of rows, which it reads together where they are near
    entries_at: Callable[[Iterable[int]], Iterator[Entry | None]]


class UnionPoint(NamedTuple):
    """An entry of one of the two copies, by its row."""

    copy: CopySide
    row: int

    @property
    def uuid(self) -> str:
        return self.copy.tree.uuids[self.row]

    @property
    def entry(self) -> Entry:
        found = next(self.copy.entries_at([self.row]))
        assert found is not None  # the index has rows of entries alone
        return found


class MergePlan(NamedTuple):
    """A copy with what it lacks."""

    copy: CopySide
    other: CopySide  # the other copy
    added: list[int]  # the rows of the other copy that are added, in their order
    first: int  # the first row that may differ between the copies

    def leaves(self) -> dict[str | None, UnionPoint]:
        """The last entry of each lane."""
        own = self.copy.tree.last_of_each_lane()
        found = {lane: UnionPoint(self.copy, row) for lane, row in own.items()}
        lane_of = self.other.tree.lane_of
        found.update((lane_of(row), UnionPoint(self.other, row)) for row in self.added)
        return found

    def facts(self) -> dict[_Fact, tuple[Any, Entry]]:
        """The latest value of each fact that an entry after the common start gives."""
        found: dict[_Fact, tuple[Any, Entry]] = {}
        added = (row for row in self.added if self.other.tree.type_of(row) in _TEXTS)
        own = self.copy.tree.rows_of_type(*_TEXTS, since=self.first)
        for copy, rows in ((self.copy, own), (self.other, added)):
            for entry in filter(None, copy.entries_at(rows)):
                found.update((fact, (value, entry)) for fact, value in _facts_of(entry))
        return found


def parents_first(tree: TreeIndex, rows: list[int]) -> list[int]:
    """Rows in their order, but each after its parent, if that is one of them."""
    if not tree.has_late_parents:
        return rows
    waiting = dict.fromkeys(rows)
    found: list[int] = []
    for row in rows:
        chain: list[int] = []
        while row in waiting:
            del waiting[row]
            chain.append(row)
            row = tree.parents[row]
        found += reversed(chain)
    return found


def settled(one: MergePlan, other: MergePlan) -> list[bytes]:
    """The lines that both copies get at their ends, with LF; none where both agree."""
    found: list[bytes] = []
    ancestry = _Ancestry()
    ours, theirs = one.leaves(), other.leaves()
    tails = {lane: place.uuid for lane, place in ours.items()}
    for lane in sorted(ours, key=lambda name: name or ""):
        if ours[lane].uuid != theirs[lane].uuid:
            line, tails[lane] = _branch(lane, ours[lane], theirs[lane], ancestry)
            found.append(line)
    tail = tails[None]
    for fields, about in _settled_facts(one.facts(), other.facts()):
        line, tail = _made(fields, about, tail, None)
        found.append(line)
    return found


def _branch(
    lane: str | None, one: UnionPoint, other: UnionPoint, ancestry: _Ancestry
) -> tuple[bytes, str]:
    ends = ancestry.standing(one), ancestry.standing(other)
    winner = max(ends, key=lambda place: _age(place.entry))
    if ends != (one, other):  # an annotation may be below an entry that the other one went on from
        for above, below in (ends, ends[::-1]):
            if ancestry.is_above(above.uuid, below):
                winner = below
    united = {"united": sorted((one.uuid, other.uuid))}
    # Its time is not that of an annotation, which is no activity in the session.
    about = [place.entry for place in ends]
    return _made({"type": "branch", "metadata": united}, about, winner.uuid, lane)


class _Ancestry:
    """Tells which entries are above others; many answers cost one look at the whole tree."""

    def __init__(self) -> None:
        self._standing: dict[tuple[int, int], int] = {}
        self._spans: dict[int, tuple[array[int], array[int]]] = {}

    def standing(self, place: UnionPoint) -> UnionPoint:
        tree, row = place.copy.tree, place.row
        passed: list[int] = []
        while tree.type_of(row) in ANNOTATIONS and tree.parents[row] != NO_ROW:
            known = self._standing.get((id(tree), row))
            passed.append(row)
            row = tree.parents[row] if known is None else known
        self._standing.update(((id(tree), one), row) for one in passed)
        return UnionPoint(place.copy, row)

    def is_above(self, uuid: str, place: UnionPoint) -> bool:
        tree = place.copy.tree
        row = tree.row(uuid)
        if row in (NO_ROW, place.row):
            return False
        begins, ends = self._spans.get(id(tree)) or self._span(tree)
        return begins[row] < begins[place.row] < ends[row]

    def _span(self, tree: TreeIndex) -> tuple[array[int], array[int]]:
        """For each row its number in a walk from the top, and the number after its descendants."""
        begins, ends = array("i", bytes(4 * len(tree))), array("i", bytes(4 * len(tree)))
        number = 0
        waiting = tree.roots()
        while waiting:
            row = waiting.pop()
            if row < 0:
                ends[~row] = number
                continue
            begins[row] = number
            number += 1
            waiting.append(~row)
            waiting += tree.children(row)
        self._spans[id(tree)] = begins, ends
        return begins, ends


def _age(entry: Entry) -> tuple[datetime, str]:
    return moment_of(entry.timestamp) or _EARLIEST, entry.uuid


def _facts_of(entry: Entry) -> Iterator[tuple[_Fact, Any]]:
    try:
        if entry.type == "label":
            target, label = entry.get("targetUuid"), entry.get("label")
            if isinstance(target, str):
                yield (_LABEL, target), label if isinstance(label, str) else None
            return
        name, patch = entry.get("name"), entry.get("metadata")
    except BlobError:  # it says nothing that can be read
        return
    if isinstance(name, str):
        yield (_NAME, ""), name
    if isinstance(patch, dict):
        yield from (((_METADATA, key), value) for key, value in patch.items())


def _settled_facts(
    ours: dict[_Fact, tuple[Any, Entry]], theirs: dict[_Fact, tuple[Any, Entry]]
) -> Iterator[tuple[dict[str, Any], list[Entry]]]:
    named: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    labels: list[tuple[dict[str, Any], list[Entry]]] = []
    about: list[Entry] = []
    for fact in sorted(ours.keys() & theirs.keys()):
        (value, entry), (other_value, other) = ours[fact], theirs[fact]
        if entry.uuid == other.uuid or not _differ(value, other_value):
            continue
        chosen = value if _age(entry) > _age(other) else other_value
        kind, key = fact
        if kind == _LABEL:
            fields = {"type": "label", "targetUuid": key, "label": chosen}
            labels.append((fields, [entry, other]))
            continue
        about += [entry, other]
        if kind == _NAME:
            named[_NAME] = chosen
        else:
            metadata[key] = chosen
    if about:
        patch = {_METADATA: metadata} if metadata else {}
        yield {"type": "session_info", **named, **patch}, about
    yield from labels


def _differ(value: Any, other: Any) -> bool:
    """True if two values differ as JSON; a value that no line of ours can carry is left alone."""
    try:
        return dumps([value]) != dumps([other])
    except EntryError:
        return False


def _made(
    fields: dict[str, Any], about: list[Entry], parent: str, lane: str | None
) -> tuple[bytes, str]:
    """The line of an entry with LF, and its uuid, which is made of all that is in the line."""
    keys = {**fields, "uuid": "", "parentUuid": parent}
    if lane is not None:
        keys["lane"] = lane
    timestamp = max(about, key=_age).timestamp
    if timestamp is not None:
        keys["timestamp"] = timestamp
    told = [encode(keys).decode(), *sorted({entry.uuid for entry in about})]
    keys["uuid"] = str(uuid5(_NAMESPACE, "\n".join(told)))
    return encode(keys) + b"\n", keys["uuid"]
