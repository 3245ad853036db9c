"""The costs of a copy: usage that stands beside the copied path belongs to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Entry, Session, Store
from tests.support.conversation import assistant, chain, line, message, opened, user
from tests.support.terminal import done


def spent(session: Session, tokens: int) -> Entry:
    return session.append_usage({"input": tokens})


def costs(file: str | Path) -> int:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        return session.stats().usage.input


@pytest.fixture
def original(file: Path) -> Path:
    """A session that spent 1 on its title, 2 + 4 on the answer, 8 and 16 on two branches."""
    with Session.create(file) as session:
        spent(session, 1)
        prompt = session.append_message(user("prompt"))
        answer = session.append_message(assistant("answer"))
        spent(session, 2)
        session.label(prompt, "prompt")
        session.rename("chat")
        spent(session, 4)
        session.label(answer, "answer")
        session.append_message(user("one"))
        spent(session, 8)
        session.label("@", "one")
        session.switch(answer)
        session.append_message(user("two"))
        spent(session, 16)
        session.label("@", "two")
    return file


@pytest.mark.parametrize(
    ("ref", "costing"), [("prompt", 1), ("answer", 7), ("one", 15), ("two", 23)]
)
def test_each_way_to_copy_a_path_takes_its_costs_along(
    original: Path, tmp_path: Path, ref: str, costing: int
) -> None:
    forked, exported, by_command = (tmp_path / f"{number}.jsonl" for number in range(3))
    with Session.open(original) as session:
        origin = session.entry(ref)
        session.fork(forked, ref)
        if ref in ("one", "two"):  # nothing hangs below these that a fork would leave out
            session.export_branch(ref, exported, with_path=True)
            assert costs(exported) == costing
    done("fork", original, by_command, "--at", ref)
    stored = Store(tmp_path / "store").fork(str(original), ref)
    in_order = original.read_bytes().splitlines()
    for copy in (forked, by_command, stored):
        assert costs(copy) == costing
        with Session.open(copy, readonly=True) as session:
            assert session.reader.skip_markers(session.leaf) == origin
            lines = [entry.line for entry in session.entries() if entry.line in in_order]
        assert lines == [line for line in in_order if line in lines]


def test_a_copy_of_a_copy_costs_the_same(original: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with Session.open(original) as session:
        session.fork(first, "answer")
    with Session.open(first) as session:
        session.fork(second)
    assert costs(first) == costs(second) == 7


def test_a_merged_branch_brings_its_costs(original: Path, tmp_path: Path) -> None:
    with Session.open(original) as session:
        session.merge("one")
        spent(session, 32)
        session.fork(tmp_path / "copy.jsonl")
    assert costs(tmp_path / "copy.jsonl") == costs(original) == 63


def test_lanes_have_costs_of_their_own(file: Path, tmp_path: Path) -> None:
    with Session.create(file) as session:
        prompt = session.append_message(user("prompt"))
        with session.lane("agent") as agent, session.lane("scratch/try") as trial:
            for number, lane in enumerate((agent, trial, session)):
                lane.append_message(user("more"))
                spent(lane, 10**number)
            lane_tip, leaf = agent.leaf, session.leaf
        for entry, costing in ((prompt, 0), (lane_tip, 1), (leaf, 100)):
            copy = tmp_path / f"{costing}.jsonl"
            session.fork(copy, entry)
            assert costs(copy) == costing


def test_usage_counts_where_its_lane_stood(file: Path, tmp_path: Path) -> None:
    """Also where it hangs below an entry that a copy leaves out, or below an earlier one."""
    usage = {"usage": {"input": 1}, "kind": "x", "provider": None, "model": None}
    lines = (
        *chain("a"),
        line("session_info", "info", "a", name="chat"),
        line("usage", "u1", "info", **usage),
        message("far", "a", "on a lane") | {"lane": "agent"},
        line("usage", "u2", "u1", **usage),
        message("b", "a", "b"),
        line("usage", "u3", "a", **usage),
    )
    with opened(file, *lines, readonly=True) as session:
        for ref, costing in (("a", 2), ("b", 3)):
            session.fork(tmp_path / f"{ref}.jsonl", ref)
            assert costs(tmp_path / f"{ref}.jsonl") == costing
