"""The tree as it is drawn: exact pictures, and that each can be read back as a tree."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from tests.support.conversation import HEADER, chain, line, message, opened, write


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
@settings(deadline=None, max_examples=100)
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
    lines.append(line("branch", "the-last", uuids[at % len(uuids)]))
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "s.jsonl", [HEADER, *lines])
        with Session.open(file, readonly=True) as session:
            drawn = list(session.render(all=True))[1:]
    assert _read_back(drawn) == expected
    assert _is_joined(drawn)


def _read_back(drawn: list[str]) -> dict[str, str]:
    """The parent of each entry, as a person sees it in the picture."""
    last_at: dict[int, str] = {}
    found = {}
    for row in drawn:
        column = min(i for i in (row.find("●"), row.find("○")) if i >= 0)
        uuid = row[column:].split("  ")[1]
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


@pytest.mark.parametrize("depth", [23, 24, 25, 26])
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
