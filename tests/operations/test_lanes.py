"""Lanes: named lines of work in one session, each with its own leaf."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import Entry, NothingToDoError, RefError, Session, SessionBusyError, UsageError
from sessiontree.operations import lanes
from tests.support.children import in_threads
from tests.support.conversation import (
    HEADER,
    assistant,
    chain,
    in_memory,
    message,
    said,
    said_in,
    scratch,
    talk,
    text,
    user,
    write,
)
from tests.support.soak import amount
from tests.support.started import Reading
from tests.support.transcripts import user as question
from tests.support.transcripts import written


def test_a_new_lane_starts_at_the_main_leaf_and_leaves_it_unmoved(
    file: Path, main: Session
) -> None:
    with Session.open(file, lane="agent-2") as side:
        assert side.lane_name == "agent-2"
        assert side.leaf == main.leaf
        first = side.append_message(assistant("side"))
        assert (first.lane, first.parent_uuid) == ("agent-2", main.leaf.uuid)
    with Session.open(file, lane="agent-2") as side:
        assert side.leaf == first
    with Session.open(file) as main:
        assert said(main.context()) == ["p1"]
        assert "lane" not in main.append_message(user("p2"))
        assert said(main.context()) == ["p1", "p2"]
    assert said_in(file, "agent-2") == ["p1", "side"]


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
    assert said_in(file) == ["p1"]


def test_parents_may_lie_across_lanes(file: Path, main: Session) -> None:
    with Session.open(file, lane="agent-2") as side:
        report = side.append_message(assistant("report"))
    main.refresh()
    main.append_message(user("p2"), parent=report)
    assert said(main.context()) == ["p1", "report", "p2"]
    assert [entry.lane for entry in main.path()] == [None, None, "agent-2", None]


def test_an_annotation_hangs_on_its_own_lane(file: Path, main: Session) -> None:
    target = main.leaf
    with Session.open(file, lane="agent-2") as side:
        tip = side.append_message(user("s1"))
        talk(main, "p2")
        label = side.label(target, "x")
        assert (label.parent_uuid, label.lane) == (tip.uuid, "agent-2")
        assert main.label(target, "y").parent_uuid == main.leaf.uuid


def test_a_branch_name_on_a_lane_means_its_tip_on_that_lane(file: Path, main: Session) -> None:
    with Session.open(file, lane="agent-2") as side:
        side.branch("@", name="try")
        tip = side.append_message(user("s1"))
        main.refresh()
        main.append_message(user("p2"), parent=tip)
        assert main.entry("try") == tip


@pytest.mark.parametrize("lane", ["agent-2", "größe", 'quo"te', "scratch/try-1", "back\\slash"])
def test_a_lane_has_any_legal_name(file: Path, lane: str, main: Session) -> None:
    with Session.open(file, lane=lane) as side:
        talk(side, "s1")
    talk(main, "p2")
    assert said_in(file, lane) == ["p1", "s1"]
    assert said_in(file) == ["p1", "p2"]


def test_a_lane_spelled_with_escapes_is_the_same_lane(file: Path) -> None:
    write(file, [HEADER, *chain("aaaa"), {**message("bbbb", "aaaa", "side"), "lane": "agent-2"}])
    file.write_bytes(file.read_bytes().replace(b'"agent-2"', b'"\\u0061gent-2"'))
    with Session.open(file, lane="agent-2", readonly=True) as side:
        assert side.leaf.uuid == "bbbb"
    with Session.open(file, readonly=True) as main:
        assert main.leaf.uuid == "aaaa"


def test_a_lane_written_as_null_is_main(reading: Reading) -> None:
    with reading(*chain("aaaa"), {**message("bbbb", "aaaa", "p2"), "lane": None}) as session:
        assert session.leaf.uuid == "bbbb"


def test_a_name_that_quotes_the_lane_is_not_taken_for_an_entry_on_it(
    file: Path, stored: Session
) -> None:
    with stored.lane("agent-2") as side:
        talk(side, "s1")
    talk(stored, "agent-2")
    stored.append("custom", customType="agent-2", data={"lane": "agent-2"})
    assert said_in(file, "agent-2") == ["s1"]


def test_a_scratch_lane_tries_without_moving_the_main_leaf_and_is_kept_by_one_entry(
    file: Path, main: Session
) -> None:
    before = main.leaf
    with scratch(main, "tried") as trial:
        assert trial.lane_name.startswith("scratch/")
        tried = trial.leaf
        assert main.leaf == before
        assert said(main.context()) == ["p1"]
        kept = trial.keep()
    assert (kept.type, kept.lane, kept.parent_uuid) == ("branch", None, tried.uuid)
    assert main.leaf == kept
    assert main.verify() == []
    assert said(main.context()) == said_in(file) == ["p1", "tried"]


def test_a_scratch_lane_starts_where_it_is_told(main: Session) -> None:
    first = main.leaf
    talk(main, "p2")
    with main.scratch(at=first) as trial:
        talk(trial, "other")
        assert said(trial.context()) == ["p1", "other"]
        trial.keep()
    assert said(main.context()) == ["p1", "other"]


def test_a_lane_can_be_kept_later_by_its_name(file: Path, main: Session) -> None:
    with scratch(main, "tried") as trial:
        name = trial.lane_name
    with Session.open(file, lane=name) as trial:
        trial.keep()
    with Session.open(file) as main:
        assert said(main.context()) == ["p1", "tried"]
        with pytest.raises(UsageError, match="itself"):
            main.keep("main")


@pytest.mark.slow
def test_an_exclusive_session_shares_its_lock_with_its_own_lanes(file: Path) -> None:
    with Session.create(file, cwd="/p", exclusive=True) as main:
        talk(main, "p1")
        with main.lane("agent-2") as side:
            talk(side, "side")
            talk(main, "p2")
            talk(side, "side 2")
        with pytest.raises(SessionBusyError):
            Session.open(file).append_message(user("no"))
        talk(main, "p3")
        assert said(main.context()) == ["p1", "p2", "p3"]
    with Session.open(file, lane="agent-2", readonly=True) as side:
        assert said(side.context()) == ["p1", "side", "side 2"]
        assert side.verify() == []


def test_a_lane_may_be_written_inside_a_batch_of_the_session_it_came_from(
    file: Path, stored: Session
) -> None:
    with stored.lane("agent-2") as side, stored.batch():
        talk(stored, "p1")
        talk(side, "side")
        talk(stored, "p2")
    assert said(stored.context()) == ["p1", "p2"]
    assert stored.verify() == []
    assert said_in(file, "agent-2") == ["side"]


def test_a_lane_outlives_the_session_it_came_from(file: Path, main: Session) -> None:
    side = main.lane("agent-2")
    main.close()
    with side:
        talk(side, "side")
        side.keep()
    assert said_in(file) == ["p1", "side"]


def test_hooks_are_told_of_what_a_lane_writes() -> None:
    told: list[str] = []

    class Telling:
        def after_append(self, session: Session, entry: Entry) -> None:
            told.append(session.lane_name)

    with in_memory(hooks=[Telling()]) as main:
        talk(main, "p1")
        with main.lane("agent-2") as side:
            talk(side, "side")
    assert told == ["main", "agent-2"]


@pytest.mark.parametrize("readonly", [False, True])
def test_an_entry_is_found_that_another_lane_wrote_since_the_last_look(
    file: Path, tmp_path: Path, readonly: bool
) -> None:
    Session.create(file, cwd="/p").close()
    with Session.open(file, lane="agent-2") as agent, Session.open(file, readonly=readonly) as main:
        assert len(list(main.tree())) == 1  # what is known of the file now
        top = agent.append_message(assistant("report"))
        end = agent.append_message(assistant("more"))
        assert main.children(top) == [end]
        top = agent.append_message(assistant("again"), parent=top)
        assert [branch.leaf for branch in main.branches(top)] == [top.uuid]
        last = agent.append_message(assistant("last"))
        main.export_branch(last, tmp_path / "export.jsonl")
        last = agent.append_message(assistant("at last"))
        main.fork(tmp_path / "fork.jsonl", last)
        assert main.leaf == main.header
    assert said_in(tmp_path / "export.jsonl") == ["last"]
    assert said_in(tmp_path / "fork.jsonl") == ["report", "again", "last", "at last"]


def test_threads_on_lanes_of_their_own_lose_nothing(file: Path) -> None:
    with Session.create(file, cwd="/p", durability="os") as main:
        talk(main, "start")

        def work(name: str) -> None:
            with main.lane(name) as lane:
                for n in range(100):
                    lane.append_message(assistant(f"{name} {n}"))

        def work_on_main() -> None:
            for n in range(100):
                talk(main, f"main {n}")

        works = [partial(work, f"agent-{n}") for n in range(4)]
        assert in_threads(*works, work_on_main) == []
        assert said(main.context()) == ["start", *(f"main {n}" for n in range(100))]
        assert main.verify() == []
    for n in range(4):
        told = [text for text in said_in(file, f"agent-{n}") if text.startswith("agent")]
        assert told == [f"agent-{n} {i}" for i in range(100)]


def test_a_session_sees_what_its_lanes_wrote_whenever_it_takes_the_whole_file(
    main: Session,
) -> None:
    leaf = main.leaf
    assert len(main.branches()) == 1  # the index is built
    with main.lane("side") as side, side.scratch() as trial:
        tried = trial.append_message(assistant("tried"))
        answered = side.append_message(assistant("beside"))
        assert side.find(type="message")[-2:] == [tried, answered]
        assert "tried" in "\n".join(main.render())
        assert list(main.entries())[-2:] == [tried, answered]
        named = side.label(answered, "good")
        assert main.entry("good") == answered
        assert main.find(type="label") == [named]
        assert main.stats().entries == len(list(main.tree())) == 5
    assert main.leaf == leaf
    assert main.append_message(user("p2")).parent_uuid == leaf.uuid


def test_a_look_that_meets_a_move_of_its_lane_keeps_it_for_the_hook(file: Path) -> None:
    moves: list[Entry] = []

    class Told:
        def on_conflict(self, session: Session, entry: Entry) -> None:
            if session is main:
                moves.append(entry)

    with Session.create(file, cwd="/p", hooks=[Told()]) as main:
        talk(main, "p1")
        with main.lane("main") as other:
            moved = other.append_message(user("p2"))
        assert main.find(type="message")[-1] == moved
        assert moves == []
        main.refresh()
        assert moves == [moved]
        talk(main, "p3")
        assert moves == [moved]


@pytest.mark.parametrize("key", ['"lane"', '"l\\u0061ne"'])
def test_an_entry_that_names_the_main_lane_is_on_it(file: Path, key: str) -> None:
    lines = [{**entry, "lane": "main"} for entry in chain("m2", "m3", "m4", below="m1")]
    write(file, [HEADER, *chain("m1"), *lines[:2]])
    file.write_text(file.read_text().replace('"lane"', key))
    with Session.open(file) as main:
        assert (main.leaf.uuid, main.leaf.lane, main.leaf["lane"]) == ("m3", None, "main")
        assert main.stats().lanes == {"main": 4}
        assert [row.lane for row in main.tree()] == [None] * 4
        assert [branch.length for branch in main.branches()] == [3]
        with file.open("a") as more:
            more.write(json.dumps(lines[2]) + "\n")
        main.label("m1", "first")
        assert [row.parent_uuid for row in main.tree()][-1] == "m4"


def test_a_reader_of_a_lane_that_is_not_there_is_told_which_are(file: Path, main: Session) -> None:
    with main.lane("reviewer") as reviewer:
        reviewer.append_message(assistant("side"))
    for name in ("nope", "agent"):
        told = f"lane '{name}'; there are entries on reviewer"
        with pytest.raises(RefError, match=told) as found:
            Session.open(file, readonly=True, lane=name)
        assert found.value.candidates == ("reviewer",)
    with Session.open(file, readonly=True) as reader:
        with pytest.raises(RefError, match="lane 'nope'"):
            reader.lane("nope")
        with reader.lane("reviewer") as side:
            assert said(side.context()) == ["p1", "side"]
        with reader.lane("nope", at=reader.header) as nowhere:
            assert nowhere.leaf == reader.header
    with Session.open(file, lane="nope") as writer:  # begins one
        assert said(writer.context()) == ["p1"]


def test_a_reader_of_another_agents_file_is_told_which_lanes_are_there(file: Path) -> None:
    written(file, [question("a", None)])
    with pytest.raises(RefError, match="no lane but main has an entry"):
        Session.open(file, readonly=True, lane="nope")
    with Session.open(file, readonly=True) as reader:
        with pytest.raises(RefError):
            reader.lane("nope")
        with reader.lane("nope", at="a") as nowhere:
            assert nowhere.leaf.uuid == "a"


def test_the_list_of_lanes_has_the_newest_first_and_says_which_are_joined(session: Session) -> None:
    talk(session, "asked", "answered")
    with scratch(session, "tried") as trial:
        trial.label("@", "a mark")
        kept = trial.lane_name
    session.keep(kept)
    start = session.leaf
    with session.scratch() as trial:
        mark = trial.branch("@")
        other = trial.lane_name
    found = {row.name: row for row in lanes.listed(session.cursor)}
    assert list(found) == [other, "main", kept]
    assert [row.joined for row in found.values()] == [False, False, True]
    assert (found[other].leaf, found[other].at) == (mark, session.reader.skip_markers(start))
    assert found[other].entries == 1
    assert text(found[kept].at["message"]) == "tried"


ACTS = st.tuples(
    st.sampled_from(["say", "say", "lane", "scratch", "keep", "label"]), st.integers(0, 9)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(80))
@given(st.lists(ACTS, max_size=25))
@example([("lane", 0), ("lane", 0), ("say", 8), ("keep", 2), ("say", 0), ("say", 1), ("keep", 1)])
@example([("say", 0), ("lane", 0), ("say", 0), ("label", 1), ("keep", 1)])
def test_a_session_at_the_end_of_its_lane_stands_on_a_branch_that_is_listed(
    acts: list[tuple[str, int]],
) -> None:
    with in_memory() as main, contextlib.ExitStack() as opened:
        lanes: list[Session] = [main]
        for step, (act, pick) in enumerate(acts):
            lane = lanes[pick % len(lanes)]
            if act == "say":
                lane.append_message(user(f"{step}"))
            elif act == "label":
                lane.label("@", f"label-{step}")
            elif act == "keep" and lane is not main:
                with contextlib.suppress(NothingToDoError):
                    lane.keep() if lane._origin is main else main.keep(lane.lane_name)
                if lane.reader.log.ended:
                    lanes.remove(lane)
            elif act == "lane":
                lanes.append(opened.enter_context(lane.lane(f"lane-{step}", at="@")))
            elif act == "scratch":
                lanes.append(opened.enter_context(lane.scratch()))
        branches = main.branches()
        assert len({branch.leaf for branch in branches}) == len(branches)
        content = [entry.uuid for entry in main.path() if entry.is_content]
        current = [branch.leaf for branch in branches if branch.current]
        assert current == content[-1:] or (not current and main.leaf.type == "branch")
        for lane in lanes:
            said = [entry for entry in lane.path() if entry.is_content]
            if said and said[-1].lane == lane.lane_name and lane is not main:
                leaves = {branch.leaf for branch in branches}
                kept = any(below.lane is None for below in main.children(said[-1]))  # by main
                assert said[-1].uuid in leaves or kept or said[-1] in main.path()
        assert sum(branch.length for branch in branches) <= len(main.find(type="message"))
