"""The pairs of equal lines, held against the longest row of lines that two texts share."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from sessiontree.edits.diff import pairs
from tests.support.table import for_each

Text = list[str]


def longest(before: Text, after: Text) -> int:
    """The length of a longest row of lines that both have in order."""
    above = [0] * (len(after) + 1)
    for line in before:
        here = [0]
        for column, other in enumerate(after):
            is_same = line == other
            here.append(above[column] + 1 if is_same else max(above[column + 1], here[column]))
        above = here
    return above[-1]


def have_anchors(before: Text, after: Text) -> bool:
    return any(before.count(line) == after.count(line) == 1 for line in before)


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_pairs_rise_in_both_texts_and_their_lines_are_equal(before: Text, after: Text) -> None:
    found = pairs(before, after)
    assert all(before[one] == after[other] for one, other in found)
    assert all(a < b and c < d for (a, c), (b, d) in pairwise(found))


@given(st.lists(st.sampled_from("ab"), max_size=12), st.lists(st.sampled_from("ab"), max_size=12))
@example([*"aaaabb"], [*"bbaaaa"])
@example([*"bbaaaa"], [*"aaaabb"])
def test_lines_that_stand_often_are_paired_as_often_as_can_be(before: Text, after: Text) -> None:
    assume(not have_anchors(before, after))
    found = pairs(before, after)
    inner = before[:], after[:]
    while inner[0] and inner[1] and inner[0][0] == inner[1][0]:
        inner = inner[0][1:], inner[1][1:]
    while inner[0] and inner[1] and inner[0][-1] == inner[1][-1]:
        inner = inner[0][:-1], inner[1][:-1]
    assume(not have_anchors(*inner))
    assert len(found) == longest(before, after)


@given(st.permutations([*"abcdefgh"]), st.permutations([*"abcdefgh"]))
def test_lines_that_stand_once_are_paired_as_often_as_can_be(before: Text, after: Text) -> None:
    assert len(pairs(before, after)) == longest(before, after)


def test_what_stands_between_anchors_is_paired_too() -> None:
    before, after = [*"xx1yy2zz"], [*"ax1by2cz"]
    assert pairs(before, after) == [(1, 1), (2, 2), (4, 4), (5, 5), (7, 7)]


def test_equal_texts_and_empty_ones_are_paired_whole_or_not_at_all() -> None:
    assert pairs([*"aab"], [*"aab"]) == [(0, 0), (1, 1), (2, 2)]
    assert pairs([], [*"ab"]) == pairs([*"ab"], []) == pairs([*"ab"], [*"cd"]) == []


def test_runs_without_anchors_are_compared_up_to_a_size() -> None:
    before, after = [*"ab"] * 50, [*"ba"] * 50
    assert len(pairs(before, after)) == 99
    assert pairs(before, [*after, "a"]) == []


def test_lines_that_stand_once_are_paired_in_texts_of_any_size() -> None:
    lines = [str(number) for number in range(300)]
    assert pairs([*lines, "x"], ["y", *lines]) == [(at, at + 1) for at in range(300)]
    assert pairs(["x", *lines], [*lines, "y"]) == [(at + 1, at) for at in range(300)]


class Counted(list[str]):
    """Lines that count how often they are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.looks += len(found) if isinstance(at, slice) else 1
        return found


def anchor_in_anchor(count: int, noise: str) -> Counted:
    """Lines of which one stands once at a time: with it, the next one does."""
    made = Counted()
    for number in range(count):
        made += [f"{noise}{number}", f"line {number}", f"{noise}{number} too", f"line {number - 1}"]
    return made


@for_each(
    "made",
    [
        lambda count, noise: Counted(["x"] * count + [noise] + ["x"] * count),
        lambda count, noise: Counted([noise, *"xyz" * count, noise]),
        lambda count, noise: Counted(f"{number % 7}{noise}" for number in range(count)),
        anchor_in_anchor,
    ],
)
def test_hostile_texts_are_looked_at_a_limited_number_of_times(made: Any) -> None:
    before, after = made(3_000, "p"), made(3_000, "q")
    pairs(before, after)
    assert before.looks + after.looks < 150 * (len(before) + len(after))
