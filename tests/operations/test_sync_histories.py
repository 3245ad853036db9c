"""Random histories on three copies: all copies end with the same entries and mean the same.

The oracle knows of each entry which entries its writer had read, and nothing of files and lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Entry, Session
from sessiontree.core.entry import ANNOTATIONS
from sessiontree.errors import UsageError
from sessiontree.operations.sync import sync_session
from sessiontree.storage.fs import DISK
from sessiontree.storage.places import blobs_of, open_log, place_of
from tests.support.conversation import assistant, user
from tests.support.soak import amount

NAMES: Final = ("a", "b", "c")
PAIRS: Final = [(x, y) for x in NAMES for y in NAMES if x != y]
ACTIONS: Final = (
    *("ask", "ask", "answer", "large", "branch", "label", "unlabel", "name", "fact"),
    *("lane", "lane", "scratch", "compact", "merge", "drop", "nothing"),
)
_NUMBERS: Final = itertools.count()

acts = st.tuples(
    st.just("act"), st.sampled_from(NAMES), st.sampled_from(ACTIONS), st.integers(0, 9)
)
syncs = st.tuples(st.just("sync"), st.sampled_from(PAIRS))
steps = st.lists(st.one_of(acts, acts, acts, syncs), max_size=30)


@dataclass
class Replica:
    """What the oracle knows of a copy: its entries; and of each entry, those before it."""

    entries: set[str] = field(default_factory=set)


@dataclass
class Oracle:
    """The entries of all copies.

    Attributes:
        past: the entries that the writer of an entry had read.
        found: each entry as it was written.
    """

    past: dict[str, frozenset[str]] = field(default_factory=dict)
    found: dict[str, Entry] = field(default_factory=dict)
    copies: dict[str, Replica] = field(default_factory=lambda: {n: Replica() for n in NAMES})

    def note(self, name: str, entry: Entry) -> None:
        replica = self.copies[name]
        self.found.setdefault(entry.uuid, entry)
        self.past.setdefault(entry.uuid, frozenset(replica.entries))
        assert self.found[entry.uuid].line == entry.line
        replica.entries.add(entry.uuid)

    def ends(self, lane: str | None, among: set[str]) -> set[str]:
        """The entries of a lane that no other entry of the lane came after."""
        of_lane = {uuid for uuid in among if self.found[uuid].lane == lane}
        before = set[str]().union(*(self.past[uuid] for uuid in of_lane))
        return of_lane - before

    def standing(self, uuid: str) -> str:
        while self.found[uuid].type in ANNOTATIONS:
            uuid = self.found[uuid].parent_uuid or ""
        return uuid

    def above(self, uuid: str) -> Iterator[str]:
        at: str | None = uuid
        while at is not None:
            yield at
            at = self.found[at].parent_uuid

    def winner(self, ends: set[str]) -> str:
        """Which of the ends both copies go on from."""
        places = {self.standing(uuid) for uuid in ends}
        lowest = {at for at in places if not any(at in self.above(x) for x in places - {at})}
        return max(lowest, key=lambda at: (self.found[at].timestamp or "", at))


class World:
    """Three copies of a session in memory, and the oracle."""

    def __init__(self) -> None:
        self.url = f"memory://histories-{next(_NUMBERS)}"
        self.oracle = Oracle()
        with Session.create(self.at("a"), cwd="/p", id="one", spill_over=50) as session:
            session.append_message(user("begin"))
        start = self.content("a")
        for name in NAMES[1:]:
            place, _ = place_of(self.at(name))
            place.create(f"{name}.jsonl", iter([start]))
        for name in NAMES:
            self.read(name)

    def at(self, name: str) -> str:
        return f"{self.url}/{name}.jsonl"

    def content(self, name: str) -> bytes:
        log = open_log(DISK, self.at(name), readonly=True)
        return log.read(0, log.size())

    def read(self, name: str) -> None:
        with Session.open(self.at(name), readonly=True) as session:
            for entry in session.entries():
                if entry.uuid not in self.oracle.copies[name].entries:
                    self.oracle.note(name, entry)

    def act(self, name: str, action: str, number: int) -> None:
        with Session.open(self.at(name), spill_over=50) as session:
            entries = [entry for entry in session.entries() if entry.is_content]
            target = entries[number % len(entries)]
            if action == "ask":
                session.append_message(user(f"{name}{number}"))
            elif action == "answer":
                session.append_message(assistant(f"{name}{number}"))
            elif action == "large":
                session.append_message(user(f"{name}{number}" * 40))
            elif action == "branch":
                session.branch(target)
            elif action == "label":
                session.label(target, f"label-{name}-{target.uuid[:6]}")
            elif action == "unlabel":
                session.label(target, None)
            elif action == "name":
                session.rename(f"name {name} {number}")
            elif action == "fact":
                session.update_metadata(**{f"k{number % 3}": f"{name}{number}"})
            elif action == "lane":
                with session.lane(f"l{number % 2}") as lane:
                    lane.append_message(user(f"lane {name}{number}"))
            elif action == "scratch":
                with session.scratch() as lane:
                    lane.append_message(user("try"))
                    if number % 2:
                        lane.keep()
            elif action == "compact":
                session.compact(f"summary {name}{number}", keep=0)
            elif action == "merge" and session.leaf.uuid != target.uuid:
                session.merge(target)
            elif action == "drop":
                session.edit_context(target, None)
        self.read(name)

    def sync(self, one: str, other: str) -> None:
        """Unite two copies, and compare with what the oracle expects."""
        before = {name: self.content(name) for name in (one, other)}
        known = {name: set(self.oracle.copies[name].entries) for name in (one, other)}
        both = known[one] | known[other]
        lanes = {self.oracle.found[uuid].lane for uuid in both}
        wanted = {lane: self.oracle.ends(lane, both) for lane in lanes}
        result = sync_session(DISK, self.at(one), self.at(other))
        assert not result.problems
        for name in (one, other):
            assert self.content(name).startswith(before[name])  # nothing is rewritten
        self.read(one)
        self.read(other)
        now = self.oracle.copies[one].entries
        assert now == self.oracle.copies[other].entries >= both
        new = [self.oracle.found[uuid] for uuid in now - both]
        assert len(new) <= result.added_to_a
        branches = {entry.lane: entry for entry in new if entry.type == "branch"}
        assert set(branches) == {lane for lane, ends in wanted.items() if len(ends) > 1}
        for lane, entry in branches.items():
            assert entry.parent_uuid == self.oracle.winner(wanted[lane])
        for entry in new:  # it comes after all that both had
            self.oracle.past[entry.uuid] |= both
        assert self.shown(one) == self.shown(other)

    def check_found(self, name: str) -> None:
        """Each entry is found by its uuid, without the index of the whole log."""
        for uuid in self.oracle.copies[name].entries:
            with Session.open(self.at(name), readonly=True) as session:
                assert session.entry(uuid).uuid == uuid
                assert session.reader.has_uuid(uuid)

    def shown(self, name: str) -> tuple[object, ...]:
        """What a session means."""
        with Session.open(self.at(name), readonly=True) as session:
            lanes = {entry.lane for entry in session.entries()} - {None}
            leaves = {lane: session.lane(lane).leaf.uuid for lane in sorted(map(str, lanes))}
            labels = {label.uuid: label.label for label in session.labels()}
            assert session.verify() == []
            texts = session.context().messages
            metadata = sorted(session.metadata.items())
            return session.leaf.uuid, leaves, session.name, metadata, sorted(labels.items()), texts


def play(world: World, history: list[tuple[object, ...]]) -> None:
    for kind, *rest in history:
        if kind == "sync":
            world.sync(*rest[0])  # type: ignore[misc]
            continue
        try:
            world.act(*rest)  # type: ignore[arg-type]
        except UsageError:
            world.read(str(rest[0]))


Steps = list[tuple[object, ...]]
Pairs = list[tuple[str, str]]

quiet = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


@pytest.mark.slow
@quiet
@settings(max_examples=amount(40), deadline=None)
@given(steps, st.permutations(PAIRS), st.permutations(PAIRS))
def test_copies_that_are_united_in_any_order_become_the_same_and_stay_so(
    history: Steps, one: Pairs, other: Pairs
) -> None:
    check_all_become_the_same(history, one, other)


@pytest.mark.soak
@quiet
@settings(max_examples=amount(2000), deadline=None)
@given(steps, st.permutations(PAIRS), st.permutations(PAIRS))
def test_many_histories_become_the_same(history: Steps, one: Pairs, other: Pairs) -> None:
    check_all_become_the_same(history, one, other)


def check_all_become_the_same(history: Steps, one: Pairs, other: Pairs) -> None:
    world = World()
    play(world, history)
    written = set[str]().union(*(copy.entries for copy in world.oracle.copies.values()))
    for pair in one:
        world.sync(*pair)
    assert len({frozenset(copy.entries) for copy in world.oracle.copies.values()}) == 1
    assert world.oracle.copies["a"].entries >= written
    assert len({repr(world.shown(name)) for name in NAMES}) == 1
    before = {name: world.content(name) for name in NAMES}
    for pair in other:
        assert sync_session(DISK, *map(world.at, pair)).is_unchanged
    assert {name: world.content(name) for name in NAMES} == before
    for name in NAMES:
        world.check_found(name)
    lines = [sorted(world.content(name).splitlines()) for name in NAMES]
    assert lines[0] == lines[1] == lines[2]
    assert len(set(lines[0])) == len(lines[0])
    for name in NAMES:
        assert not list(blobs_of(DISK, world.at(name)).verify())


@pytest.mark.slow
@quiet
@settings(max_examples=amount(40), deadline=None)
@given(steps, st.sampled_from(PAIRS), st.data())
def test_a_sync_that_was_cut_short_ends_as_if_it_was_not(
    history: Steps, pair: tuple[str, str], data: st.DataObject
) -> None:
    world = World()
    play(world, history)
    before = [world.content(name) for name in pair]
    world.sync(*pair)
    after = [world.content(name) for name in pair]
    added = [
        now[len(old) :].splitlines(keepends=True) for old, now in zip(before, after, strict=True)
    ]
    kept = [data.draw(st.integers(0, len(lines))) for lines in added]
    if kept[0] < len(added[0]):  # the second one gets what settles both after the first
        settles = set(added[0]) & set(added[1])
        kept[1] = min(kept[1], len(added[1]) - len(settles))
    files = [f"cut-{name}" for name in pair]
    for file, old, lines, count in zip(files, before, added, kept, strict=True):
        place, _ = place_of(world.url)
        place.create(f"{file}.jsonl", iter([old, *lines[:count]]))
    order = data.draw(st.permutations(files))
    sync_session(DISK, *map(world.at, order))
    assert [world.content(file) for file in files] == after
