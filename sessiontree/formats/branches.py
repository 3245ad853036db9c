"""The branches of a session one after another, for programs whose files are one log.

Such a program writes a branch, goes back, and writes the next one. The current branch is last. A
branch goes on from a place that is in force when it is written, so each entry is given once.

A branch with a compaction, an edit, a merge or a message in pieces is given whole, from its start,
because these change what stands above them: the writer compares it with what it has written.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import chain, pairwise, takewhile
from operator import itemgetter
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from sessiontree.context.pairing import Pairing
from sessiontree.context.settings import may_make_system
from sessiontree.core.blocks import message_uuid
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry, decode_object
from sessiontree.core.index import NO_ROW
from sessiontree.core.message import Message, result_ids
from sessiontree.formats import writing

_NOTED: Final = frozenset({"usage", "model_change", "thinking_level_change"})

_WHOLLY_WRITTEN: Final = _NOTED | {"session_info", "message_end"}


class Said(NamedTuple):
    """A message; `row` is that of the entry below which the next message belongs."""

    row: int
    entry: Entry
    message: Message


class Compacted(NamedTuple):
    """A compaction: what is in force from here on. `row` is that of the compaction."""

    row: int
    entry: Entry
    kept: list[Said]


class Noted(NamedTuple):
    """An entry about the usage, the model or the thinking level."""

    row: int
    entry: Entry


Step = Said | Compacted | Noted


class Branch(NamedTuple):
    """One branch.

    Attributes:
        above: the number of entries above the place where it goes on; 0 for the start.
        steps: the steps from there on, or all of them; given once.
        is_whole: whether it is all of them.
        is_last: whether it is the current one.
        whole: gives all of them.
    """

    above: int
    steps: Iterable[Step]
    is_whole: bool
    is_last: bool
    whole: Callable[[], Iterable[Step]]


class _Deep(Protocol):
    @property
    def depth(self) -> int:
        """The number of entries above the last entry that a unit was made from."""


Unit = TypeVar("Unit", bound=_Deep)
Made = TypeVar("Made")


class Log(Generic[Unit]):
    """What is in force of what a writer has written."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._early: list[int] = []  # the places of units that stand behind a deeper one

    def add(self, units: Iterable[Unit]) -> None:
        for unit in units:
            if self.units and unit.depth < self.units[-1].depth:
                self._early.append(len(self.units))
            self.units.append(unit)

    def common(
        self, made: Iterator[Made], again: Callable[[Unit, Made], Unit | None]
    ) -> tuple[int, Iterator[Made]]:
        """How many units are made again first, and the rest of what is made.

        `again` gives a unit as it is on this branch, or None where something else is made. A merge
        below has a message deeper than the branch that the message comes from.
        """
        count = 0
        is_moved = False
        for each in made:
            unit = again(self.units[count], each) if count < len(self.units) else None
            if unit is None:
                made = chain([each], made)
                break
            is_moved = is_moved or unit.depth != self.units[count].depth
            self.units[count] = unit
            count += 1
        if is_moved:
            depths = [unit.depth for unit in self.units]
            self._early = [n for n, (a, b) in enumerate(pairwise(depths), 1) if b < a]
        return count, made

    def cut(self, count: int) -> list[Unit]:
        """Leave the first units; gives the others."""
        removed = self.units[count:]
        del self.units[count:]
        while self._early and self._early[-1] >= count:
            self._early.pop()
        return removed

    def up_to(self, depth: int) -> int | None:
        """How many units are at or above a depth; None where these are not the first ones."""
        if not self._early:
            return bisect_right(self.units, depth, key=lambda unit: unit.depth)
        count = sum(1 for unit in self.units if unit.depth <= depth)
        return None if any(unit.depth > depth for unit in self.units[:count]) else count


_AGAIN: Final = 3
_MERGED: Final = {(0, "merge"): 1, (1, "compaction"): 2, (2, "merge"): _AGAIN}
"""What is above a row: a merge; a compaction below it; and a merge below that, which may bring back
what the compaction took away. Then a branch that leaves here has another start than the one that
was written."""


class Branches:
    """The branches of the current lane.

    Attributes:
        depths: by row, the number of entries above an entry.
    """

    def __init__(self, source: writing.SessionSource) -> None:
        self._source = source
        tree = source.tree
        self.depths = array("i", bytes(4 * len(tree)))
        self._merged = bytearray(len(tree))
        for row in source.rows():
            parent = tree.parents[row]
            self.depths[row] = 1 if parent == NO_ROW else self.depths[parent] + 1
            above = 0 if parent == NO_ROW else self._merged[parent]
            self._merged[row] = _MERGED.get((above, tree.type_of(row)), above)

    def __iter__(self) -> Iterator[Branch]:
        tree = self._source.tree
        written = bytearray(len(tree))
        is_edited = False
        for tip in self._tips():
            new: list[int] = []
            above = tip
            while above > 0 and not written[above]:
                new.append(above)
                written[above] = 1
                above = tree.parents[above]
            is_edited = is_edited or any(map(self._edits_a_message, new))
            is_edited = is_edited or any(self._merged[row] == _AGAIN for row in new)
            is_whole = is_edited or any(tree.type_of(row) in writing.CHANGES_ABOVE for row in new)
            rows = array("i", reversed(new))
            steps = self._whole(tip) if is_whole else self._part(rows)
            depth = self.depths[above] if above > 0 else 0
            whole = partial(self._whole, tip)
            yield Branch(depth, steps, is_whole, tip == self._source.leaf, whole)

    def _edits_a_message(self, row: int) -> bool:
        """Whether an entry changes what is above: then later branches have another start.

        The edit by which a reader takes away the summary of an agent's own compaction does not.
        """
        tree = self._source.tree
        if tree.type_of(row) != "context_edit":
            return False
        target = tree.row(str(self._source.stored(row).get("targetUuid")))
        is_readers = target == tree.parents[row] and tree.children(target) == [row]
        return not (is_readers and tree.type_of(target) == "compaction")

    def _tips(self) -> list[int]:
        """The ends of the branches, each where the branches that leave it are written already."""
        source, tree = self._source, self._source.tree
        owners = array("i", [NO_ROW]) * len(tree)
        leaving: dict[int, list[tuple[int, int]]] = {source.leaf: []}
        for row in tree.rows_up(source.leaf):
            owners[row] = source.leaf
        for tip in source.tips():
            if tree.lane_of(tip) != source.lane:
                continue
            leaving[tip] = []
            row = tip
            while row > 0 and owners[row] == NO_ROW:
                owners[row] = tip
                row = tree.parents[row]
            owner = source.leaf if row <= 0 else owners[row]
            leaving[owner].append((self.depths[row] if row > 0 else 0, tip))
        ordered: list[int] = []
        waiting = [(source.leaf, False)]
        while waiting:
            tip, is_done = waiting.pop()
            if is_done:
                ordered.append(tip)
                continue
            waiting.append((tip, True))
            below = sorted(leaving[tip], key=itemgetter(0), reverse=True)
            waiting += [(other, False) for _, other in below]
        return ordered

    def _part(self, rows: array[int]) -> Iterable[Step]:
        source = self._source
        said = (Said(source.row(entry), entry, each) for each, entry in source.messages(rows))
        return self._with_notes(rows, {row: at for at, row in enumerate(rows)}, said)

    def _whole(self, tip: int) -> Iterable[Step]:
        """All steps of a branch; what is in force at its end is exactly its context."""
        source, tree = self._source, self._source.tree
        path = source.path(tip)
        source.room.take(len(path))
        at = {row: place for place, row in enumerate(path)}
        kinds = [tree.type_of(row) for row in path]
        compactions = [place for place, kind in enumerate(kinds) if kind == "compaction"]
        if compactions:
            return self._with_notes(path, at, self._compacted(path, at, compactions))
        is_merged = "merge" in kinds
        said = self._in_force(tip) if is_merged else self._as_it_happened(path, at)
        return self._with_notes(path, at, said)

    def _compacted(
        self, path: array[int], at: dict[int, int], compactions: Sequence[int]
    ) -> Iterator[Said | Compacted]:
        """The messages and the compactions of a path that has compactions."""
        source = self._source
        happened = _Ahead(self._as_it_happened(path, at))
        for place, following in pairwise(compactions):
            yield from happened.while_(_before(place, at))
            entry = source.stored(path[place])
            kept = self._kept(path, place)
            if not kept:
                kept = list(happened.while_(_Replacement(entry, _before(following, at))))
            yield Compacted(path[place], entry, kept)
        last = compactions[-1]
        yield from happened.while_(_before(last, at))
        entry = source.stored(path[last])
        context = _Ahead(iter(self._in_force(path[-1])))
        kept = list(context.while_(lambda said: said.row == path[last]))
        yield Compacted(path[last], entry, kept or list(context.while_(_Replacement(entry))))
        yield from context.while_(lambda said: True)

    def _in_force(self, row: int) -> list[Said]:
        """The context at a row."""
        found = self._source.context(self._source.stored(row))
        return [Said(place, entry, message) for message, entry, place in found]

    def _as_it_happened(self, path: array[int], at: dict[int, int]) -> Iterator[Said]:
        """All messages of a path but the summaries of its compactions."""
        source, tree = self._source, self._source.tree
        merges = iter([place for place, row in enumerate(path) if tree.type_of(row) == "merge"])
        pieces = (row for row in path if tree.type_of(row) in writing.PIECES)
        ends = {message_uuid(source.stored(row)): row for row in pieces}
        place, coming = 0, next(merges, None)
        for message, entry in source.messages(path):
            is_piece = entry.type in writing.PIECES
            row = ends.get(message_uuid(entry), NO_ROW) if is_piece else source.row(entry)
            if row in at:
                place = at[row]
                while coming is not None and coming < place:
                    coming = next(merges, None)
            elif coming is not None:
                place = coming
            if tree.type_of(path[place]) != "compaction":
                yield Said(path[place], entry, message)

    def _kept(self, path: array[int], place: int) -> list[Said]:
        """What a compaction leaves in force; none where the agent's own messages follow it."""
        source = self._source
        entry = source.stored(path[place])
        following = source.stored(path[place + 1])
        if following.type == "context_edit" and following.get("targetUuid") == entry.uuid:
            return []
        return [said._replace(row=path[place]) for said in self._in_force(path[place])]

    def _with_notes(
        self, rows: array[int], at: dict[int, int], steps: Iterable[Step]
    ) -> Iterable[Step]:
        """The steps, with the entries of `_NOTED` types at their places."""
        tree, source = self._source.tree, self._source
        noted = [row for row in rows if tree.type_of(row) in _NOTED]
        if not noted:
            return steps
        notes = (Noted(row, source.stored(row)) for row in noted)
        return merge(notes, steps, key=lambda step: at[step.row])


def _before(place: int, at: Mapping[int, int]) -> Callable[[Said], bool]:
    """Tells the messages that stand before a place on a path."""
    return lambda said: at[said.row] < place


class _Ahead:
    """Messages that are taken up to one that is left for later."""

    def __init__(self, said: Iterator[Said]) -> None:
        self._said = said
        self._next: Said | None = None

    def while_(self, test: Callable[[Said], bool]) -> Iterator[Said]:
        """The next messages for which a test holds."""
        while True:
            said = self._next or next(self._said, None)
            self._next = said
            if said is None or not test(said):
                return
            self._next = None
            yield said


class _Replacement:
    """Tells the messages that an agent made of a history that it compacted: they follow it.

    All have the time of the compaction; or the first is the summary, which no user wrote.
    """

    def __init__(
        self, compaction: Entry, within: Callable[[Said], bool] = lambda said: True
    ) -> None:
        self._time = compaction.timestamp
        self._within = within
        self._is_first = True

    def __call__(self, said: Said) -> bool:
        if not self._within(said):
            return False
        if self._time is not None:
            return said.entry.timestamp == self._time
        metadata = said.entry.get("metadata")
        is_summary = isinstance(metadata, dict) and metadata.get("isMeta") is True
        is_first, self._is_first = self._is_first, False
        return is_first and is_summary


def paired(steps: Sequence[Step]) -> list[Step]:
    """The steps with each result behind its call, as a context has them; no result is made.

    Only a merge, or a branch between a call and its result, puts them apart.
    """
    found: list[Step] = []
    at = 0
    while at < len(steps):
        end = next((n for n in range(at + 1, len(steps)) if isinstance(steps[n], Compacted)), None)
        found += _paired_segment(steps[at:end])
        at = len(steps) if end is None else end
    return found


def _paired_segment(steps: Sequence[Step]) -> Sequence[Step]:
    """The same for a compaction and what follows it, up to the next one."""
    first = steps[0]
    kept = first.kept if isinstance(first, Compacted) else []
    said = [*kept, *(step for step in steps if isinstance(step, Said))]
    pairing: Pairing[Said] = Pairing()
    for each in said:
        pairing.take(each.message, each)
    messages, sources, _ = pairing.result()
    made = [
        source._replace(message=message)
        for message, source in zip(messages, sources, strict=True)
        if result_ids(source.message) or not result_ids(message)
    ]
    if [each.message for each in made] == [each.message for each in said]:
        return steps
    rows = {each.row for each in kept}
    inside = list(takewhile(lambda each: each.row in rows, made)) if kept else []
    opening = [first._replace(kept=inside)] if isinstance(first, Compacted) else []
    return [*opening, *made[len(inside) :], *(each for each in steps if isinstance(each, Noted))]


def note_losses(source: writing.SessionSource, program: str) -> None:
    """Note what a log of one conversation cannot have."""
    losses, tree = source.losses, source.tree
    systems = _handles_of_systems(source)
    for row in range(1, len(tree)):
        kind = tree.type_of(row)
        losses.uuid = tree.uuids[row]
        if kind in writing.LOSS_OF_TYPE:
            losses.add(writing.LOSS_OF_TYPE[kind])
            if row in systems:
                losses.add(writing.LOSS_OF_SYSTEM.format(program))
        elif kind == "message":
            _note_losses_of(source, source.stored(row), program)
        elif kind == "session_info" and "metadata" in source.stored(row):
            losses.add("metadata of the session is left out")
        elif kind in writing.WRITTEN_KEYS:
            losses.keys(source.stored(row), writing.WRITTEN_KEYS[kind])
        elif kind not in _WHOLLY_WRITTEN:
            losses.add(f"a {one_line(kind, 40)} is left out")
    for lane, tips in writing.durable_lanes(source):
        losses.at(tree.uuids[tips[-1]], f"the lane {lane!r} is left out")


def _handles_of_systems(source: writing.SessionSource) -> set[int]:
    """The rows of the handles whose content is a system message."""
    handles = source.tree.rows_of_type("handle")
    possible = (row for row in handles if may_make_system(source.stored(row)))
    return {
        row
        for row in writing.resolved_ahead(source, possible)
        if source.resolved(source.stored(row)).get("role") == "system"
    }


def _note_losses_of(source: writing.SessionSource, entry: Entry, program: str) -> None:
    # The keys are not kept with the entry, which waits in memory until it is written.
    keys = entry.as_stored if entry.has_spilled else decode_object(entry.line)
    message = keys.get("message")
    if isinstance(message, dict) and message.get("role") == "system":
        source.losses.add(writing.LOSS_OF_SYSTEM.format(program))
    written = ("message", "metadata") if keys.get("metadata") == {"isMeta": True} else ("message",)
    source.losses.keys_in(keys, entry, written)
