"""The tree as rows, as branches, and drawn."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from tests.support.conversation import (
    HEADER,
    assistant,
    chain,
    forked,
    in_memory,
    line,
    message,
    opened,
    said,
    scratch,
    talk,
    text,
    user,
    write,
)
from tests.support.soak import amount
from tests.support.started import Reading
from tests.support.table import for_each


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


def test_a_named_branch_without_an_entry_is_listed_and_is_where_the_session_is(
    session: Session,
) -> None:
    talk(session, "one")
    fork = session.append_message(user("two"))
    tip = session.append_message(assistant("two"))
    named = session.branch(fork, name="empty")
    found = [(b.leaf, b.fork, b.length, b.name, b.current) for b in session.branches()]
    assert found == [
        (tip.uuid, None, 3, None, False),
        (named.uuid, fork.uuid, 0, "empty", True),
    ]
    assert [b.name for b in session.branches(fork)] == [None, "empty"]
    beside = session.branch(tip, name="on")
    assert [b.leaf for b in session.branches() if b.current] == [beside.uuid]
    said = session.append_message(user("three"))
    assert [(b.leaf, b.length, b.name) for b in session.branches()] == [
        (named.uuid, 0, "empty"),
        (said.uuid, 4, "on"),
    ]


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


@for_each("at", ["leaf", "header"])
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
        assert len(drawn) == 1 + len(lines)
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


def picture(file: Path, lines: list[dict[str, Any]], at: str = "") -> str:
    """The drawing of a file, without uuids, as seen from an entry."""
    if at:
        lines = [*lines, line("branch", "the-last", at)]
    with opened(file, *lines, readonly=True) as session:
        drawn = [row.replace("user  ", "").replace("assistant  ", "") for row in session.render()]
    uuids = {entry["uuid"][:8] for entry in lines}
    rows = ["  ".join(_without(row.split("  "), uuids)) for row in drawn[1:]]
    return "\n".join([drawn[0].removeprefix("session abc · /project").strip(), *rows]).strip("\n")


def _without(parts: list[str], uuids: set[str]) -> list[str]:
    """The parts of a row without its uuid, which follows what it says."""
    last = max((i for i, part in enumerate(parts) if part in uuids), default=len(parts))
    return parts[:last] + parts[last + 1 :]


def lane(name: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "lane": name} for entry in lines]


def test_forks_of_forks_are_drawn_at_their_depth(file: Path) -> None:
    lines = [
        *chain("p1"),
        *chain("x1", below="p1"),
        *chain("xa", "xb", below="x1"),
        *chain("xc", below="x1"),
        *chain("xca", below="xc"),
        *chain("xcb", "xcc", below="xc"),
        *chain("y1", below="p1"),
        *chain("ya", below="y1"),
        *chain("yb", below="y1"),
        *chain("p2", below="p1"),
    ]
    assert picture(file, lines) == (
        "● p1\n"
        "├─○ x1\n"
        "│ ├─○ xa\n"
        "│ │ ○ xb\n"
        "│ └─○ xc\n"
        "│   ├─○ xca\n"
        "│   └─○ xcb\n"
        "│     ○ xcc\n"
        "├─○ y1\n"
        "│ ├─○ ya\n"
        "│ └─○ yb\n"
        "● p2  ← you are here"
    )
    assert picture(file, lines, "xca") == (
        "● p1\n"
        "├─○ y1\n"
        "│ ├─○ ya\n"
        "│ └─○ yb\n"
        "├─○ p2\n"
        "● x1\n"
        "├─○ xa\n"
        "│ ○ xb\n"
        "● xc\n"
        "├─○ xcb\n"
        "│ ○ xcc\n"
        "● xca  ← you are here"
    )


def test_lanes_labels_and_names_stand_behind_what_is_said(file: Path) -> None:
    lines = [
        *chain("p1"),
        *lane("agent-2", chain("s1", "s2", below="p1")),
        *lane("scratch/try", chain("t1", below="p1")),
        line("branch", "b1", "p1", name="other"),
        *chain("o1", "o2", below="b1"),
        line("label", "l1", "o2", targetUuid="p1", label="start"),
        line("label", "l2", "l1", targetUuid="s2", label="found"),
        line("branch", "b2", "t1"),
        *chain("p2", below="b2"),
    ]
    assert picture(file, lines) == (
        "● p1  [start]\n"
        "├─○ s1  lane agent-2\n"
        "│ ○ s2  [found]  lane agent-2\n"
        "├─○ o1  (other)\n"
        "│ ○ o2\n"
        "● t1  lane scratch/try\n"
        "● p2  ← you are here"
    )


def test_a_branch_that_forks_before_it_says_anything_has_its_joints_where_it_left(
    file: Path,
) -> None:
    lines = [
        *chain("p1"),
        line("branch", "b1", "p1", name="two-ways"),
        *chain("x1", below="b1"),
        *chain("y1", below="b1"),
        *chain("z1", below="p1"),
    ]
    assert picture(file, lines, "p1") == (
        "● p1  ← you are here\n├─○ x1  (two-ways)\n├─○ y1  (two-ways)\n└─○ z1"
    )
    assert picture(file, lines, "x1") == (
        "● p1\n├─○ y1  (two-ways)\n├─○ z1\n● x1  (two-ways)  ← you are here"
    )


def test_two_beginnings_hang_on_the_heading(file: Path) -> None:
    lines = [*chain("p1", "a1"), *chain("q1", "b1")]
    assert picture(file, lines) == "├─○ p1\n│ ○ a1\n● q1\n● b1  ← you are here"
    assert picture(file, lines, "root") == ("← you are here\n├─○ p1\n│ ○ a1\n└─○ q1\n  ○ b1")


def test_orphans_are_trees_of_their_own(file: Path) -> None:
    lines = [
        *chain("p1"),
        *chain("o1", below="gone"),
        *chain("o2", below="o1"),
        *chain("o3", "o4", below="o1"),
        line("branch", "b1", "lost"),
        *chain("l1", below="b1"),
        *chain("l2", below="b1"),
        *chain("p2", below="p1"),
        *chain("p3", below="p1"),
    ]
    assert picture(file, lines) == (
        "● p1\n"
        "├─○ p2\n"
        "● p3  ← you are here\n"
        "orphan: its parent gone is not in the file\n"
        "○ o1\n"
        "├─○ o2\n"
        "└─○ o3\n"
        "  ○ o4\n"
        "orphan: its parent lost is not in the file\n"
        "├─○ l1\n"
        "└─○ l2"
    )


def test_a_long_branch_is_folded_in_its_own_columns(file: Path) -> None:
    lines = [
        *chain("p1"),
        *chain(*(f"x{n}" for n in range(9)), below="p1"),
        *chain(*(f"y{n}" for n in range(9)), below="p1"),
    ]
    assert picture(file, lines, "p1") == (
        "● p1  ← you are here\n"
        "├─○ x0\n"
        "│ ○ x1\n"
        "│ ⋮ 5 more\n"
        "│ ○ x7\n"
        "│ ○ x8\n"
        "└─○ y0\n"
        "  ○ y1\n"
        "  ⋮ 5 more\n"
        "  ○ y7\n"
        "  ○ y8"
    )


PARENTS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30)
"""For each entry how far above it its parent stands, and whether it says something."""


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(100))
@given(PARENTS, st.integers(0, 30))
def test_a_picture_can_be_read_back_as_the_tree_that_was_drawn(
    parents: list[tuple[int, bool]], at: int
) -> None:
    uuids = ["root", *(f"e{n:03}" for n in range(len(parents)))]
    above: dict[str, str] = {}
    lines = []
    for n, (up, speaks) in enumerate(parents):
        uuid = uuids[n + 1]
        above[uuid] = uuids[max(n - up, 0)]
        made = message(uuid, above[uuid], uuid) if speaks else line("branch", uuid, above[uuid])
        lines.append(made)
    shown = {uuids[n + 1] for n, (_, speaks) in enumerate(parents) if speaks}
    expected = {}
    for uuid in shown:
        parent = above[uuid]
        while parent not in shown and parent != "root":
            parent = above[parent]
        expected[uuid] = parent
    above["the-last"] = uuids[at % len(uuids)]
    lines.append(line("branch", "the-last", above["the-last"]))
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "s.jsonl", [HEADER, *lines])
        with Session.open(file, readonly=True) as session:
            every, drawn = list(session.render(all=True))[1:], list(session.render())[1:]
    assert _read_back(every) == above
    assert _is_joined(every)
    if not any("⋮" in row for row in drawn):
        assert _read_back(drawn) == expected
        assert _is_joined(drawn)


def _read_back(drawn: list[str]) -> dict[str, str]:
    """The parent of each entry, as a person sees it in the picture."""
    last_at: dict[int, str] = {}
    found = {}
    for row in drawn:
        column = min(i for i in (row.find("●"), row.find("○")) if i >= 0)
        uuid = row[column:].split("  ")[2]
        joined = column >= 2 and row[column - 2] in "├└"
        found[uuid] = last_at.get(column - 2 if joined else column, "root")
        last_at = {place: other for place, other in last_at.items() if place < column}
        last_at[column] = uuid
    return found


def _is_joined(drawn: list[str]) -> bool:
    """Whether no line of the picture begins or ends in the air."""
    heading = "●" + " " * 100
    for before, row, after in zip([heading, *drawn], drawn, [*drawn[1:], ""], strict=False):
        for column, character in enumerate(row.split("○")[0].split("●")[0]):
            above, below = before[column], after[column : column + 1]
            if character in "│├└" and above not in "│├●○":
                return False
            if character in "│├" and below not in tuple("│├└●"):
                return False
    return True


def test_all_draws_every_entry_and_leaves_you_where_you_are(file: Path) -> None:
    lines = [
        *chain("a", "b"),
        line("custom", "c", "b", customType="todo", data={"done": 1}),
        line("usage", "u", "c", kind="title", provider="p", model="m", usage={"input": 1}),
        line("session_info", "i", "u", name="a name"),
    ]
    write(file, [HEADER, *lines])
    with Session.open(file, readonly=True) as session:
        some, every = list(session.render()), list(session.render(all=True))
    assert [row.split("  ")[2] for row in every[1:]] == ["a", "b", "c", "u", "i"]
    assert len(some) == 3
    assert [row for row in every if row.endswith("← you are here")] == [every[2]]


@for_each("depth", [23, 24, 25, 26])
def test_branches_are_drawn_in_at_most_twenty_four_columns(depth: int, file: Path) -> None:
    lines = chain("m0", "m1", "m2")
    above = "m0"
    for level in range(depth):
        lines += chain(f"a{level}", f"b{level}", below=above)
        lines += chain(f"c{level}", below=above)
        above = f"a{level}"
    drawn = picture(file, lines, at="m2").splitlines()
    columns = max(len(row) - len(row.lstrip("│ ├└─")) for row in drawn)
    assert columns == 2 * min(depth, 25)


def test_a_compaction_that_an_undo_took_back_is_not_in_the_outline() -> None:
    with Session.create(cwd="/p") as session:
        session.append_message({"role": "user", "content": "Question"})
        session.append_message({"role": "assistant", "content": "A full answer"})
        before = [line for line in session.outline().render() if "session" not in line]
        session.compact("A summary", keep=0)
        assert any("compacted" in line for line in session.outline().render())
        session.undo()
        assert [line for line in session.outline().render() if "session" not in line] == before
        session.append_message({"role": "user", "content": "Another"})
        after = "\n".join(session.outline().render())
        assert "left midway" not in after
        assert "2 branches" not in after
        assert "A full answer" in after
