"""Lanes: named lines of work in one session, each with its own leaf."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session

from .conversation import HEADER, assistant, chain, message, said, talk, user, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def test_a_new_lane_starts_at_the_main_leaf_and_leaves_it_unmoved(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        with Session.open(file, lane="agent-2") as side:
            assert side.lane == "agent-2"
            assert side.leaf == main.leaf
            first = side.append_message(assistant("side"))
            assert (first.lane, first.parent_uuid) == ("agent-2", main.leaf.uuid)
            assert said(side.context()) == ["p1", "side"]
        with Session.open(file, lane="agent-2") as side:
            assert side.leaf == first
    with Session.open(file) as main:
        assert said(main.context()) == ["p1"]
        assert "lane" not in main.append_message(user("p2"))
        assert said(main.context()) == ["p1", "p2"]
    with Session.open(file, lane="agent-2", readonly=True) as side:
        assert said(side.context()) == ["p1", "side"]


def test_a_lane_of_a_session_without_entries_starts_at_the_header(file: Path) -> None:
    with Session.create(file, cwd="/p", lane="agent-2") as side:
        assert side.leaf == side.header
        talk(side, "p1")
    with Session.open(file, readonly=True) as main:
        assert main.leaf == main.header
        assert main.context().messages == []


def test_a_main_leaf_is_found_below_many_entries_of_other_lanes(file: Path) -> None:
    with Session.create(file, cwd="/p", durability="os") as main:
        talk(main, "p1")
        with Session.open(file, lane="noise", durability="os") as noise, noise.batch():
            for n in range(3000):
                noise.append_message(user(f'"uuid":"{main.leaf.uuid}" {n}'))
    with Session.open(file, readonly=True) as main:
        assert said(main.context()) == ["p1"]


def test_parents_may_lie_across_lanes(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        with Session.open(file, lane="agent-2") as side:
            report = side.append_message(assistant("report"))
        main.refresh()
        main.append_message(user("p2"), parent=report)
        assert said(main.context()) == ["p1", "report", "p2"]
        assert [entry.lane for entry in main.path()] == [None, None, "agent-2", None]


def test_an_annotation_hangs_on_its_own_lane(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        target = main.leaf
        with Session.open(file, lane="agent-2") as side:
            talk(side, "s1")
            tip = side.leaf
            talk(main, "p2")
            label = side.label(target, "x")
            assert (label.parent_uuid, label.lane) == (tip.uuid, "agent-2")
            assert main.label(target, "y").parent_uuid == main.leaf.uuid


def test_a_branch_name_on_a_lane_means_its_tip_on_that_lane(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        with Session.open(file, lane="agent-2") as side:
            side.branch("@", name="try")
            talk(side, "s1")
            tip = side.leaf
            main.refresh()
            main.append_message(user("p2"), parent=tip)
            assert main.entry("try") == tip


@pytest.mark.parametrize("lane", ["agent-2", "größe", 'quo"te', "scratch/try-1", "back\\slash"])
def test_a_lane_has_any_legal_name(file: Path, lane: str) -> None:
    with Session.create(file, cwd="/p") as main:
        talk(main, "p1")
        with Session.open(file, lane=lane) as side:
            talk(side, "s1")
        talk(main, "p2")
    with Session.open(file, lane=lane, readonly=True) as side:
        assert said(side.context()) == ["p1", "s1"]
    with Session.open(file, readonly=True) as main:
        assert said(main.context()) == ["p1", "p2"]


def test_a_lane_spelled_with_escapes_is_the_same_lane(tmp_path: Path) -> None:
    lines = [HEADER, *chain("aaaa"), {**message("bbbb", "aaaa", "side"), "lane": "agent-2"}]
    file = write(tmp_path / "s.jsonl", lines)
    file.write_bytes(file.read_bytes().replace(b'"agent-2"', b'"\\u0061gent-2"'))
    with Session.open(file, lane="agent-2", readonly=True) as side:
        assert side.leaf.uuid == "bbbb"
    with Session.open(file, readonly=True) as main:
        assert main.leaf.uuid == "aaaa"


def test_a_lane_written_as_null_is_main(tmp_path: Path) -> None:
    lines = [HEADER, *chain("aaaa"), {**message("bbbb", "aaaa", "p2"), "lane": None}]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert session.leaf.uuid == "bbbb"


def test_a_name_that_quotes_the_lane_is_not_taken_for_an_entry_on_it(file: Path) -> None:
    with Session.create(file, cwd="/p") as main:
        with Session.open(file, lane="agent-2") as side:
            talk(side, "s1")
        talk(main, "agent-2")
        main.append("custom", customType="agent-2", data={"lane": "agent-2"})
    with Session.open(file, lane="agent-2", readonly=True) as side:
        assert said(side.context()) == ["s1"]
