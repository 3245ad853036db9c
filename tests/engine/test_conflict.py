"""Two writers on one lane: each is told that the other moved the leaf, and keeps its own place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import Entry, Session
from tests.support.conversation import said, scratch, talk, user
from tests.support.files import file

__all__ = ["file"]

Two = tuple[Session, Session]


@pytest.fixture
def two(file: Path) -> Iterator[Two]:
    """Two sessions at the prompt `p1`."""
    with Session.create(file, cwd="/p") as one:
        talk(one, "p1")
        with Session.open(file) as two:
            yield one, two


def _seen_by(session: Session) -> Entry | None:
    """The conflict that a session finds when it looks."""
    session.refresh()
    return session.conflict


def test_a_writer_learns_of_a_conflict_where_it_writes(two: Two) -> None:
    one, other = two
    theirs = other.append_message(user("theirs"))
    assert one.conflict is None
    with one.batch():
        one.append_message(user("mine"))
        assert one.conflict == theirs
    other.append_message(user("more"))
    assert other.conflict == one.leaf


def test_each_of_two_writers_is_told_of_the_other_and_stays_where_it_is(two: Two) -> None:
    one, other = two
    theirs = other.append_message(user("theirs"))
    assert (_seen_by(one), _seen_by(other)) == (theirs, None)
    mine = one.append_message(user("mine"))
    assert (_seen_by(one), _seen_by(other)) == (theirs, mine)
    assert mine.parent_uuid == theirs.parent_uuid
    last = one.append_message(user("more"))  # that does not settle it
    assert (_seen_by(one), _seen_by(other)) == (theirs, last)
    assert (said(one.context()), said(other.context())) == (
        ["p1", "mine", "more"],
        ["p1", "theirs"],
    )


SETTLED: dict[str, Callable[[Session, Entry], object]] = {
    "switch": lambda session, entry: session.switch(entry),
    "merge": lambda session, entry: session.merge(entry),
    "branch": lambda session, entry: session.branch(entry, summary="left"),
}


@pytest.mark.parametrize("settle", SETTLED.values(), ids=SETTLED.keys())
def test_a_conflict_is_settled_by_going_there_or_merging_it(
    settle: Callable[[Session, Entry], object], two: Two
) -> None:
    one, other = two
    theirs = talk(other, "theirs", "answer")[-1]
    assert _seen_by(one) == theirs
    settle(one, theirs)
    assert _seen_by(one) is None


def test_annotations_and_other_lanes_are_no_conflict_and_a_move_is(two: Two) -> None:
    one, other = two
    other.label(other.leaf, "here")
    other.rename("named")
    with other.lane("agent") as agent:
        talk(agent, "aside")
    assert _seen_by(one) is None
    other.rewind()
    assert _seen_by(one) == other.leaf


@pytest.mark.parametrize("writes", [True, False])
def test_a_conflict_is_told_of_also_where_the_file_was_replaced(writes: bool, two: Two) -> None:
    one, other = two
    with scratch(other, "not kept"):
        pass
    theirs = other.append_message(user("theirs")) if writes else None
    if not writes:
        other.rename("named")
    assert other.gc(now=datetime.now(UTC) + timedelta(days=8)).entries
    conflict = _seen_by(one)
    assert (conflict and conflict.uuid) == (theirs and theirs.uuid)


def test_a_merge_of_another_branch_settles_no_conflict(two: Two) -> None:
    one, other = two
    start = one.leaf
    aside = one.append_message(user("aside"))
    one.branch(start)
    one.append_message(user("mine"))
    other.refresh()
    theirs = other.append_message(user("theirs"))
    one.merge(aside)
    assert _seen_by(one) == theirs
    one.merge(theirs)
    assert _seen_by(one) is None


def test_an_annotation_hangs_below_the_leaf_after_each_move(file: Path) -> None:
    """Also where a move wrote several entries."""
    with Session.create(file, cwd="/p") as session:
        first, *_, last = talk(session, "p1", "a1", "p2", "a2")
        moves: list[Callable[[], object]] = [
            lambda: session.branch(first, name="side", summary="left"),
            lambda: session.append_message(user("mine")),
            lambda: session.push("note"),
            lambda: session.append_message(user("inside")),
            lambda: session.pop(summary="done"),
            lambda: session.merge(last),
            lambda: session.compact("so far", keep=0),
        ]
        for move in moves:
            move()
            leaf = session.leaf
            assert session.label(first, "here").parent_uuid == leaf.uuid
            session.rename("a name")
            assert session.leaf == leaf
