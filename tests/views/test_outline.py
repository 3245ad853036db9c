"""The tree as rows, as branches, and drawn."""

from __future__ import annotations

import pytest

from sessiontree import Session
from tests.support.conversation import (
    assistant,
    chain,
    forked,
    in_memory,
    line,
    message,
    said,
    scratch,
    talk,
    text,
    user,
)
from tests.support.started import Reading


def test_rows_stand_in_file_order_with_their_place_in_the_tree(reading: Reading) -> None:
    with reading(
        message("aaaa", "root", "hello\nworld"),
        {**message("bbbb", "aaaa", "side", "assistant"), "lane": "agent-2"},
        line("label", "l1", "bbbb", targetUuid="aaaa", label="start"),
        line("stack_summary", "cccc", "aaaa", summary="popped", fromUuid="bbbb"),
        message("dddd", "cccc", "x" * 100, "assistant"),
    ) as session:
        rows = list(session.tree())
    assert [(r.uuid, r.depth, r.current, r.label, r.lane, r.role) for r in rows] == [
        ("root", 0, True, None, None, None),
        ("aaaa", 1, True, "start", None, "user"),
        ("bbbb", 2, False, None, "agent-2", "assistant"),
        ("l1", 3, False, None, None, None),
        ("cccc", 2, True, None, None, None),
        ("dddd", 3, True, None, None, "assistant"),
    ]
    assert [row.parent_uuid for row in rows] == [None, "root", "aaaa", "bbbb", "aaaa", "cccc"]
    assert [row.type for row in rows][3:5] == ["label", "stack_summary"]
    assert rows[1].preview == "hello↵world"
    assert rows[4].preview == "popped"
    assert len(rows[5].preview) == 60
    assert rows[5].preview.endswith("…")


def test_a_preview_holds_nothing_that_drives_a_terminal(session: Session) -> None:
    session.append_message(user("\x1b[2J\x07red\u202e\r\nnext\x9b1m"))
    (row,) = list(session.tree())[1:]
    assert row.preview == "red↵next"
    assert not any("\x1b" in line or "\x9b" in line for line in session.render())


def test_rows_tell_late_parents_and_orphans_their_depth(reading: Reading) -> None:
    with reading(
        message("late", "above", "late"),
        message("above", "root", "above"),
        *chain("orphan", "below", below="gone"),
    ) as session:
        depths = {row.uuid: row.depth for row in session.tree()}
    assert depths == {"root": 0, "late": 2, "above": 1, "orphan": 0, "below": 1}


def test_branches_are_tips_and_not_markers(session: Session) -> None:
    fork = session.append_message(user("p1"))
    _, x = talk(session, "x1", "x2")
    session.branch(fork, name="side")
    y = session.append_message(assistant("y1"))
    session.label(y, "good")
    session.branch(fork)
    session.push()
    session.rename("talk")
    found = [(b.leaf, b.fork, b.length, b.name, b.current) for b in session.branches()]
    assert found == [(x.uuid, fork.uuid, 2, None, False), (y.uuid, fork.uuid, 1, "side", False)]
    side = session.branches()[1]
    assert (side.preview, side.updated) == ("y1", y.timestamp)
    session.switch("side")
    assert [branch.current for branch in session.branches()] == [False, True]


def test_one_line_of_talk_is_one_branch_that_never_forked(session: Session) -> None:
    assert session.branches() == []
    talk(session, "p1", "a1")
    session.branch("@")
    session.set_model("p", "m")
    (branch,) = session.branches()
    assert (branch.leaf, branch.fork, branch.length) == (session.path()[2].uuid, None, 2)
    assert branch.current


def test_a_new_start_at_the_header_is_a_branch_of_its_own(session: Session) -> None:
    talk(session, "p1")
    session.branch(session.header)
    talk(session, "p2")
    assert [branch.fork for branch in session.branches()] == [session.header.uuid] * 2


def test_branches_below_an_entry_only(session: Session) -> None:
    fork, x = forked(session, "x")
    y = session.append_message(assistant("y"))
    assert [branch.leaf for branch in session.branches(x)] == [x.uuid]
    assert [branch.leaf for branch in session.branches(fork)] == [x.uuid, y.uuid]


def test_a_branch_tells_its_lane(main: Session) -> None:
    with main.lane("agent-2") as side:
        talk(side, "s1")
    talk(main, "p2")
    assert [branch.lane for branch in main.branches()] == ["agent-2", None]


def test_a_name_leads_to_the_tip_that_bears_it(session: Session) -> None:
    root = session.append_message(user("p1"))
    for name in ("one", "two", "three"):
        session.branch(root, name=name)
        inside = session.append_message(assistant(name))
        talk(session, name)
        session.branch(inside, name=f"in-{name}")
        talk(session, name)
    named = {branch.name: branch.leaf for branch in session.branches()}
    assert set(named) == {"one", "two", "three", "in-one", "in-two", "in-three"}
    assert {name: session.entry(name or "").uuid for name in named} == named


def test_the_drawing_marks_the_path_the_labels_and_the_place() -> None:
    with in_memory(id="the-id", name="talk") as session:
        fork, *_ = talk(session, "Build a CLI", "In Node")
        session.branch(fork, name="rust")
        rust = session.append_message(assistant("In Rust"))
        session.label(fork, "start")
        assert list(session.render()) == [
            "session the-id · talk · /project",
            f"● user  Build a CLI  {fork.uuid[:8]}  [start]",
            f"├─○ assistant  In Node  {session.find(type='message')[1].uuid[:8]}",
            f"● assistant  In Rust  {rust.uuid[:8]}  (rust)  ← you are here",
        ]


def test_a_long_run_is_folded_with_a_count_and_shown_whole_on_request(session: Session) -> None:
    talk(session, *(f"m{n}" for n in range(50)))
    folded = list(session.render())
    assert [row for row in folded if "⋮" in row] == ["⋮ 46 more"]
    assert len(folded) == 1 + 2 + 1 + 2
    assert len(list(session.render(all=True))) == 51


@pytest.mark.parametrize("at", ["leaf", "header"])
def test_what_is_appended_during_a_drawing_is_not_in_it(at: str) -> None:
    with Session.create() as session:
        for number in range(3):
            session.append_message(user(f"p{number}"))
        expected = list(session.render())
        lines = session.render()
        drawn = [next(lines)]
        if at == "header":
            session.branch(session.header)
        session.append_message(user("new"))
        assert len(session.branches()) == 1 + (at == "header")
        assert [*drawn, *lines] == expected


def test_a_run_just_short_enough_is_not_folded(session: Session) -> None:
    talk(session, *(f"m{n}" for n in range(8)))
    assert len(list(session.render())) == 9


def test_what_is_labelled_or_stood_at_is_never_folded_away(session: Session) -> None:
    talk(session, *(f"m{n}" for n in range(50)))
    session.label(session.path()[20], "here")
    session.push("mark")
    session.label("@", "pushed")
    talk(session, *(f"n{n}" for n in range(20)))
    session.switch(session.path()[31])
    drawn = list(session.render())
    for mark in ("[here]", "[pushed]", "you are here"):
        assert "\n".join(drawn).count(mark) == 1
    counts = [int(row.split()[1]) for row in drawn if row.startswith("⋮")]
    assert sum(counts) + len(drawn) - len(counts) == 1 + 71


def test_a_cycle_is_drawn_once_and_ends(reading: Reading) -> None:
    cycle = [message("aaaa", "bbbb", "a"), message("bbbb", "aaaa", "b")]
    with reading(*cycle, message("self", "self", "s"), *chain("cccc")) as session:
        drawn = "\n".join(session.render(all=True))
        assert all(drawn.count(f"  {uuid}") == 1 for uuid in ("aaaa", "bbbb", "self"))
        assert len(list(session.tree())) == 5
        assert len(session.branches()) == 3


def test_an_empty_session_is_its_heading() -> None:
    with in_memory(id="the-id") as session:
        assert list(session.render()) == ["session the-id · /project"]


def test_a_chain_of_10000_is_shown_without_recursion(reading: Reading) -> None:
    with reading(*chain(*(f"m{n:05}" for n in range(10_000)))) as session:
        drawn = list(session.render())
        assert len(drawn) == 6
        assert drawn[3] == "⋮ 9996 more"
        (branch,) = session.branches()
        assert branch.length == 10_000
        assert max(row.depth for row in session.tree()) == 10_000
        assert len(session.path()) == 10_001


@pytest.mark.parametrize("named", [False, True])
def test_2000_nested_forks_are_shown_without_recursion(reading: Reading, named: bool) -> None:
    lines, above = [], "root"
    for n in range(2_000):
        lines.append(message(f"main{n:04}", above, "m"))
        above = f"main{n:04}"
        if named:
            lines.append(line("branch", f"mark{n:04}", above, name=f"name{n}"))
        lines.append(message(f"side{n:04}", f"mark{n:04}" if named else above, "s"))
    with reading(*lines) as session:
        branches = session.branches()
        assert len(branches) == 2_000
        assert sum(branch.name is not None for branch in branches) == (2_000 if named else 0)
        drawn = list(session.render(all=True))
        assert len(drawn) == 1 + 4_000
        assert max(map(len, drawn)) < 200
        assert said(session.context())[-1] == "s"


@pytest.mark.slow
def test_forks_to_the_side_2000_deep_are_drawn_in_bounded_width(reading: Reading) -> None:
    """Each fork leaves the path at once, so that every level is one column further right."""
    lines, above = [], "root"
    for n in range(2_000):
        lines += chain(f"side{n:04}", f"deep{n:04}", below=above)
        lines += chain(f"main{n:04}", below=f"side{n:04}")
        above = f"deep{n:04}"
    with reading(*lines) as session:
        drawn = list(session.render())
        assert len(drawn) > 2_000
        assert max(map(len, drawn)) < 200


def test_turns_start_at_prompts(session: Session) -> None:
    session.append_message({"role": "system", "content": "Be brief."})
    talk(session, "p1", "a1", "p2", "a2")
    session.append_message(assistant("b2"))
    turns = [[text(entry["message"]) for entry in turn] for turn in session.turns()]
    assert turns == [["p1", "a1"], ["p2", "a2", "b2"]]


def test_calls_are_found_by_their_id(session: Session) -> None:
    talk(session, "toolu_1 is quoted here")
    made = session.append_message(assistant([{"type": "tool_use", "id": "toolu_1", "name": "x"}]))
    answered = session.append_message(user([{"type": "tool_result", "tool_use_id": "toolu_1"}]))
    assert session.find(tool_call_id="toolu_1") == [made, answered]
    assert session.find(tool_call_id="toolu_2") == []
    assert session.find(type="message", tool_call_id="toolu_1") == [made, answered]
    assert session.find(type="branch") == []


def test_a_lane_below_the_leaf_of_main_does_not_hide_its_branch(session: Session) -> None:
    talk(session, "p1", "a1")
    tried = [session.scratch(), session.scratch(), session.lane("reviewer")]
    for lane in tried:
        talk(lane, "try", "more")
    found = [(b.lane, b.preview, b.fork, b.length, b.current) for b in session.branches()]
    leaf = session.leaf.uuid
    assert found == [
        (None, "a1", None, 2, True),
        *((lane.lane_name, "more", leaf, 2, False) for lane in tried),
    ]
    assert [b.current for b in tried[1].branches()] == [False, False, True, False]
    assert session.stats().branches == 2


def test_a_kept_lane_is_a_part_of_the_branch_that_keeps_it(main: Session) -> None:
    with scratch(main, "tried") as trial, scratch(trial, "inside") as inner:
        inner.keep()
        trial.keep()
    (branch,) = main.branches()
    assert (branch.preview, branch.length, branch.current) == ("inside", 3, True)
    assert main.stats().branches == 1
    talk(main, "p2")
    assert [(b.preview, b.length) for b in main.branches()] == [("p2", 4)]


def test_a_lane_that_goes_on_after_it_was_kept_leaves_main_where_it_is(main: Session) -> None:
    side = main.lane("side")
    talk(side, "s1")
    main.keep("side")
    talk(side, "s2")
    found = [(b.preview, b.length, b.current) for b in main.branches()]
    assert found == [("s1", 2, True), ("s2", 1, False)]


def test_a_lane_started_on_another_lane_hides_neither(main: Session) -> None:
    outer = main.lane("outer")
    talk(outer, "o1")
    inner = outer.lane("inner", at="@")
    talk(inner, "i1")
    assert [b.preview for b in main.branches()] == ["p1", "o1", "i1"]
    talk(outer, "o2")
    assert [(b.preview, b.length) for b in main.branches()] == [("p1", 1), ("i1", 1), ("o2", 2)]
