"""A file that is played back has the writers that it truly has, where every change is told."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.edits.diff import lines_of
from sessiontree.edits.patch import parse_unified
from sessiontree.edits.tools import Edit, Replacement
from sessiontree.history.replay import LineWriter, Replay
from tests.edits.test_patch import unified
from tests.support.enough import ENOUGH
from tests.support.soak import amount

Line = tuple[str, int | None]
"""A line, and the number of the edit that wrote it; None for a person's."""


class Play:
    """A true file whose lines are all different, and what is played back of it."""

    def __init__(self) -> None:
        self.lines: list[Line] = [(f"a line of a person {n}", None) for n in range(4)]
        self.replay = Replay(ENOUGH)
        self.replay.see(self.text)
        self._edits = count()
        self._names = count(100)

    @property
    def text(self) -> str:
        return "".join(f"{text}\n" for text, _ in self.lines)

    def _changed(self, at: int, gone: int, new: int, writer: int | None) -> list[Line]:
        at = min(at, len(self.lines))
        made = [(f"def name_{next(self._names)}(): pass", writer) for _ in range(new)]
        return [*self.lines[:at], *made, *self.lines[at + gone :]]

    def person(self, at: int, gone: int, new: int, *_: Any) -> None:
        self.lines = self._changed(at, gone, new, None)
        self.replay.see(self.text)

    def agent(self, at: int, gone: int, new: int, how: str) -> None:
        number = next(self._edits)
        before = self.text
        self.lines = self._changed(at, gone, new, number)
        edit = _edit(how, before, self.text)
        if edit is not None:
            assert self.replay.edit(number, edit)
        else:
            self.replay.see(self.text)
            self.lines = [(text, None if who == number else who) for text, who in self.lines]

    def is_true(self) -> None:
        told = self.replay.writers
        assert lines_of(self.replay.text or "") == [text for text, _ in self.lines]
        truth = [None if who is None else LineWriter(who, "exact") for _, who in self.lines]
        assert told == truth


def _edit(how: str, before: str, after: str) -> Edit | None:
    """The change as a call tells it; None where the call would not be done so."""
    if how == "write":
        return Edit("f", "write", content=after, before=before)
    if how == "hunks" and before != after:
        return Edit("f", "edit", hunks=parse_unified(unified(lines_of(before), lines_of(after), 3)))
    if how == "swap" and before:
        return Edit("f", "edit", swaps=(Replacement(before, after),))
    return None


steps = st.tuples(
    st.sampled_from(["person", "agent", "agent"]),
    st.integers(0, 8),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["write", "hunks", "swap"]),
)


@settings(max_examples=amount(300), deadline=None)
@given(st.lists(steps, max_size=10))
def test_no_line_of_a_person_is_an_agents_and_each_line_of_an_agent_is_its_edits(
    plays: list[tuple[str, int, int, int, str]],
) -> None:
    play = Play()
    for who, *change in plays:
        getattr(play, who)(*change)
        play.is_true()
    play.replay.end()
    play.is_true()


def test_an_edit_that_does_not_fit_explains_nothing_short() -> None:
    replay = Replay(ENOUGH)
    replay.see("one\n")
    assert not replay.edit(0, Edit("f", "edit", swaps=(Replacement("two", "2"),)))
    assert replay.see("one\n2\n") == [None, None]


def test_content_that_comes_back_undoes_the_edits_between() -> None:
    replay = Replay(ENOUGH)
    replay.see("one\n")
    replay.edit(0, Edit("f", "write", content="two\n"))
    replay.edit(1, Edit("f", "write", content="three\n"))
    replay.see("one\n")
    assert replay.undone == {0, 1}
