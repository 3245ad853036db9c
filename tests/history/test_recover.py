"""What is given of a file after reads and edits is the file: no line is ever wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.message import Call
from sessiontree.edits.diff import lines_of
from sessiontree.edits.patch import Hunk, parse_unified
from sessiontree.edits.tools import Edit, Seen, Swap, after, seen_in
from sessiontree.history.replay import Content, Gap
from tests.edits.test_patch import unified
from tests.support.enough import ENOUGH

words = st.sampled_from(["", "a", "b", "c d", "  a"])
files = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(words, max_size=8),
    st.sampled_from(["", "\n"]),
)


def told_truly(content: Content, text: str) -> None:
    """Each line that is given is that of the file, and so is each end."""
    if content.text is not None:
        assert content.text == text
        return
    if not content.is_there:
        assert text == ""
        return
    lines = lines_of(text)
    for number, line in enumerate(content.lines):
        assert line is None or (number < len(lines) and line == lines[number])
    assert not content.is_end_known or len(content.lines) == len(lines)


class Play:
    """A true file, what agents and others do to it, and what is known of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.content = Content()

    def take(self, event: Edit | Seen) -> None:
        self.content.take(event, ENOUGH)
        told_truly(self.content, self.text)

    def see(self, given: dict[str, int], told: dict[str, Any], result: str) -> None:
        for seen in seen_in(Call("c", "read", {"path": "f", **given}, ""), told, result):
            self.take(seen)

    def read(self, first: int, count: int) -> None:
        """An agent reads some lines, as Claude Code tells it: what follows the last LF counts."""
        lines = self.text.split("\n")
        shown = lines[first - 1 : first - 1 + count]
        if shown:
            numbers = {"startLine": first, "numLines": len(shown), "totalLines": len(lines)}
            file = {"filePath": "f", "content": "\n".join(shown), **numbers}
            self.see({"offset": first, "limit": count}, {"file": file}, "")

    def read_on(self, first: int) -> None:
        """An agent reads from a line on, as pi does."""
        lines = self.text.split("\n")
        if first <= len(lines):
            self.see({"offset": first}, {}, "\n".join(lines[first - 1 :]))

    def read_numbers(self, first: int, count: int) -> None:
        """An agent reads some lines with their numbers."""
        lines = list(enumerate(lines_of(self.text), 1))[first - 1 : first - 1 + count]
        self.see({"offset": first, "limit": count}, {}, "".join(f"{n:6}→{x}\n" for n, x in lines))

    def write(self, text: str) -> None:
        self.text = text
        self.take(Edit("f", "write", content=text))

    def swap(self, old: str, new: str, every: bool) -> None:
        """An edit by texts, which agents refuse if the text is not there, or more than once."""
        edit = Edit("f", "edit", swaps=(Swap(old, new, every),))
        made = after(edit, self.text, ENOUGH)
        if made is not None:
            self.text = made
            self.take(edit)

    def patch(self, text: str, context: int) -> None:
        """An edit of which the hunks are told, with their numbers."""
        if self.text.endswith("\n") and text.endswith("\n"):
            hunks = parse_unified(unified(lines_of(self.text), lines_of(text), context))
            self.text = text
            self.take(Edit("f", "edit", hunks=hunks))

    def append(self, text: str) -> None:
        self.text += text
        self.take(Edit("f", "append", content=text))

    def insert(self, line: int, text: str) -> None:
        edit = Edit("f", "edit", content=text, line=line)
        made = after(edit, self.text, ENOUGH)
        if made is not None:
            self.text = made
            self.take(edit)

    def format(self, text: str) -> None:
        """A command changes the file, and is known to do so."""
        self.text = text
        self.take(Edit("f", "change"))


def step(
    name: str, *given: st.SearchStrategy[Any]
) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.just(name), st.tuples(*given))


number, small = st.integers(1, 9), st.integers(0, 3)
pieces = st.text("ab \n", min_size=1, max_size=4)
steps = st.one_of(
    step("read", number, number),
    step("read_numbers", number, number),
    step("read_on", number),
    step("write", files),
    step("swap", pieces, pieces, st.booleans()),
    step("swap", pieces, pieces, st.just(False)),
    step("patch", files, small),
    step("append", files),
    step("insert", small, files),
    step("format", files),
)


@settings(max_examples=300, deadline=None)
@given(files, st.lists(steps, max_size=8))
def test_no_line_is_given_that_the_file_does_not_have(
    text: str, plays: list[tuple[str, tuple[Any, ...]]]
) -> None:
    play = Play(text)
    for name, given_ in plays:
        getattr(play, name)(*given_)


def test_lines_that_are_not_known_are_named() -> None:
    content = Content()
    assert content.gaps() == [Gap(1, None)]
    content.take(Seen("f", "three\nfour", 3), ENOUGH)
    content.take(Seen("f", "seven", 7, total=7), ENOUGH)
    assert content.gaps() == [Gap(1, 2), Gap(5, 6)]
    assert [gap.as_text() for gap in content.gaps()] == ["lines 1 to 2", "lines 5 to 6"]
    content.take(Edit("f", "edit", swaps=(Swap("three\n", "3\n3a\n"),)), ENOUGH)
    assert content.lines[2:5] == ["3", "3a", "four"]
    assert content.gaps() == [Gap(1, 2), Gap(6, 7)]
    content.take(Edit("f", "edit", swaps=(Swap("not there", "x"),)), ENOUGH)
    assert (content.gaps(), content.contradicted) == ([Gap(1, None)], True)


def test_a_look_at_what_was_changed_elsewhere_leaves_only_what_it_shows() -> None:
    content = Content()
    content.take(Edit("f", "write", content="one\ntwo\n"), ENOUGH)
    content.take(Seen("f", "zwei", 2), ENOUGH)
    assert (content.lines, content.contradicted) == ([None, "zwei"], True)
    content.take(Seen("f", "vier", 4, total=4), ENOUGH)
    content.take(Seen("f", "fünf", 5), ENOUGH)
    assert content.gaps() == [Gap(1, 4), Gap(6, None)]


def test_the_hunks_of_a_file_that_is_known_keep_its_line_ends() -> None:
    for end in ("\n", "\r\n"):
        content = Content()
        content.take(Edit("f", "write", content=f"one{end}two{end}"), ENOUGH)
        content.take(Edit("f", "edit", hunks=(Hunk(("two",), ("2", "3"), 2),)), ENOUGH)
        assert content.text == f"one{end}2{end}3{end}"


def test_a_file_that_was_deleted_is_not_there_until_it_is_written() -> None:
    content = Content()
    content.take(Edit("f", "delete"), ENOUGH)
    assert (content.is_there, content.gaps(), content.known()) == (False, [], 0)
    content.take(Edit("f", "write", content="x"), ENOUGH)
    assert (content.is_there, content.text) == (True, "x")
