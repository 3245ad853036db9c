"""What is given of a file after reads and edits is the file: no line is ever wrong."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.message import ToolCall
from sessiontree.edits.diff import lines_of
from sessiontree.edits.patch import Hunk, parse_unified
from sessiontree.edits.tools import Edit, Replacement, SeenLines, after, seen_in
from sessiontree.history.replay import Gap, KnownContent
from tests.edits.test_patch import unified
from tests.support.enough import ENOUGH
from tests.support.soak import amount

words = st.sampled_from(["", "a", "b", "c d", "  a"])
files = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(words, max_size=8),
    st.sampled_from(["", "\n"]),
)


def told_truly(content: KnownContent, text: str) -> None:
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
        self.content = KnownContent()

    def take(self, event: Edit | SeenLines) -> None:
        self.content.take(event, ENOUGH)
        told_truly(self.content, self.text)

    def see(self, given: dict[str, int], told: dict[str, Any], result: str) -> None:
        for seen in seen_in(ToolCall("c", "read", {"path": "f", **given}, ""), told, result):
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
        edit = Edit("f", "edit", swaps=(Replacement(old, new, every),))
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


@settings(max_examples=amount(300), deadline=None)
@given(files, st.lists(steps, max_size=8))
def test_no_line_is_given_that_the_file_does_not_have(
    text: str, plays: list[tuple[str, tuple[Any, ...]]]
) -> None:
    play = Play(text)
    for name, given_ in plays:
        getattr(play, name)(*given_)


def test_lines_that_are_not_known_are_named() -> None:
    content = KnownContent()
    assert content.gaps() == [Gap(1, None)]
    content.take(SeenLines("f", "three\nfour", 3), ENOUGH)
    content.take(SeenLines("f", "seven", 7, total=7), ENOUGH)
    assert content.gaps() == [Gap(1, 2), Gap(5, 6)]
    assert [gap.as_text() for gap in content.gaps()] == ["lines 1 to 2", "lines 5 to 6"]
    content.take(Edit("f", "edit", swaps=(Replacement("three\n", "3\n3a\n"),)), ENOUGH)
    assert content.lines[2:5] == ["3", "3a", "four"]
    assert content.gaps() == [Gap(1, 2), Gap(6, 7)]
    content.take(Edit("f", "edit", swaps=(Replacement("not there", "x"),)), ENOUGH)
    assert (content.gaps(), content.contradicted) == ([Gap(1, None)], True)


def test_a_look_at_what_was_changed_elsewhere_leaves_only_what_it_shows() -> None:
    content = KnownContent()
    content.take(Edit("f", "write", content="one\ntwo\n"), ENOUGH)
    content.take(SeenLines("f", "zwei", 2), ENOUGH)
    assert (content.lines, content.contradicted) == ([None, "zwei"], True)
    content.take(SeenLines("f", "vier", 4, total=4), ENOUGH)
    content.take(SeenLines("f", "fünf", 5), ENOUGH)
    assert content.gaps() == [Gap(1, 4), Gap(6, None)]


def test_the_hunks_of_a_file_that_is_known_keep_its_line_ends() -> None:
    for end in ("\n", "\r\n"):
        content = KnownContent()
        content.take(Edit("f", "write", content=f"one{end}two{end}"), ENOUGH)
        content.take(Edit("f", "edit", hunks=(Hunk(("two",), ("2", "3"), 2),)), ENOUGH)
        assert content.text == f"one{end}2{end}3{end}"


def test_a_file_that_was_deleted_is_not_there_until_it_is_written() -> None:
    content = KnownContent()
    content.take(Edit("f", "delete"), ENOUGH)
    assert (content.is_there, content.gaps(), content.known()) == (False, [], 0)
    content.take(Edit("f", "write", content="x"), ENOUGH)
    assert (content.is_there, content.text) == (True, "x")


Event = Edit | SeenLines

_: Final = None
"""A line that is not known."""


def whole(text: str) -> SeenLines:
    return SeenLines("f", text, is_whole=True)


def part(first: int, *lines: str, total: int | None = None) -> SeenLines:
    return SeenLines("f", "\n".join(lines), first, total=total)


def write(text: str) -> Edit:
    return Edit("f", "write", content=text)


def swap(old: str, new: str, every: bool = False) -> Edit:
    return Edit("f", "edit", swaps=(Replacement(old, new, every),))


def swaps(*pairs: tuple[str, str]) -> Edit:
    return Edit("f", "edit", swaps=tuple(Replacement(*pair) for pair in pairs))


def hunk(start: int | None, before: str, after: str) -> Hunk:
    return Hunk(tuple(before), tuple(after), start)


def patch(*hunks: Hunk) -> Edit:
    return Edit("f", "edit", hunks=hunks)


DELETED: Final = Edit("f", "delete")
CHANGED: Final = Edit("f", "change")
MOVED: Final = Edit("f", "move", to="g")
NO_LINE: Final[list[str | None]] = []

WHOLE: Final[dict[str, tuple[list[Event], str, bool]]] = {
    "a write": ([write("a\n")], "a\n", False),
    "a look at all of it": ([whole("a\nb")], "a\nb", False),
    "the same look again": ([whole("a\n"), whole("a\n")], "a\n", False),
    "another content than before": ([whole("a\n"), whole("b\n")], "b\n", True),
    "a part that is as it was": ([write("a\nb\nc\n"), part(2, "b")], "a\nb\nc\n", False),
    "a part with the end": ([write("a\nb\n"), part(2, "b", "")], "a\nb\n", False),
    "a part, whatever the line ends": ([write("a\r\nb\r\n"), part(1, "a\r")], "a\r\nb\r\n", False),
    "an edit": ([write("a\nb\n"), swap("b", "c")], "a\nc\n", False),
    "an edit in each place": ([write("aba"), swap("a", "c", every=True)], "cbc", False),
    "text at the end": ([write("a\n"), Edit("f", "append", content="b\n")], "a\nb\n", False),
    "a move": ([write("a\n"), MOVED], "a\n", False),
    "hunks": ([write("a\nb\n"), patch(hunk(1, "a", "cd"))], "c\nd\nb\n", False),
    "an inserted text": (
        [write("a\nb\n"), Edit("f", "edit", content="c\n", line=1)],
        "a\nc\nb\n",
        False,
    ),
    "an edit that tells the content before": (
        [CHANGED, Edit("f", "edit", swaps=(Replacement("a", "b"),), before="a\n")],
        "b\n",
        False,
    ),
    "an edit of another content than before": (
        [write("x\n"), Edit("f", "edit", swaps=(Replacement("a", "b"),), before="a\n")],
        "b\n",
        True,
    ),
    "a write after a deletion": ([write("a\n"), DELETED, write("b\n")], "b\n", False),
    "a write after a change": ([write("a\n"), CHANGED, write("b\n")], "b\n", False),
}


def after_all(events: list[Event]) -> KnownContent:
    content = KnownContent()
    for event in events:
        content.take(event, ENOUGH)
    return content


def test_the_whole_content_is_known() -> None:
    for name, (events, text, contradicted) in WHOLE.items():
        content = after_all(events)
        assert content.text == text, name
        assert content.contradicted is contradicted, name
        assert content.is_there, name
        assert content.is_known(), name
        assert content.gaps() == [], name
        assert content.known() == len(text.splitlines()), name


PARTS: Final[dict[str, tuple[list[Event], list[str | None], bool]]] = {
    "nothing": ([], NO_LINE, False),
    "a part": ([part(2, "b", "c")], [_, "b", "c"], False),
    "the last part": ([part(2, "b", "c", total=3)], [_, "b", "c"], True),
    "two parts": ([part(1, "a"), part(3, "c", total=3)], ["a", _, "c"], True),
    "parts that overlap": ([part(1, "a", "b"), part(2, "b", "c")], ["a", "b", "c"], False),
    "a part before another": ([part(3, "c", total=3), part(1, "a")], ["a", _, "c"], True),
    "lines of another kind of end": ([part(1, "a\r", "b\r")], ["a", "b"], False),
    "a part that is now shorter": (
        [part(1, "a", "b", "c"), part(1, "a", "b", total=2)],
        ["a", "b"],
        True,
    ),
    "a part that is another": ([part(1, "a", "b"), part(2, "x")], [_, "x"], False),
    "a part beyond the end": ([part(1, "a", total=1), part(2, "b")], [_, "b"], False),
    "a part that is not as it was": ([write("a\nb\n"), part(2, "c")], [_, "c"], False),
    "a part after a deletion": ([DELETED, part(2, "b")], [_, "b"], False),
    "an edit in a part": ([part(2, "b", "c"), swap("b\nc", "d")], [_, "d"], False),
    "an edit of one line of a part": (
        [part(2, "b", "c"), swap("b", "x\ny")],
        [_, "x", "y", "c"],
        False,
    ),
    "edits of a part": ([part(2, "b", "c"), swaps(("b", "x"), ("x", "y"))], [_, "y", "c"], False),
    "an edit in the second part": (
        [part(1, "a"), part(3, "c"), swap("c", "d")],
        ["a", _, "d"],
        False,
    ),
    "the last line of a part goes": ([part(2, "b", "c"), swap("c", "")], [_, "b"], False),
    "an edit of the last line, whose end is known": (
        [part(1, "a", "b", total=2), swap("b", "c")],
        ["a", "c"],
        True,
    ),
    "text behind a part": (
        [part(2, "b", "c"), Edit("f", "append", content="d")],
        [_, "b", _],
        False,
    ),
    "text behind nothing": ([Edit("f", "append", content="d")], NO_LINE, False),
    "hunks of nothing that is known": ([patch(hunk(3, "a", "bc"))], [_, _, "b", "c"], False),
    "hunks in a part": ([part(1, "a", "b"), patch(hunk(2, "b", "cd"))], ["a", "c", "d"], False),
    "a hunk that takes lines away": (
        [part(1, "a", "b", "c"), patch(hunk(2, "b", ""))],
        ["a", "c"],
        False,
    ),
    "two hunks": (
        [part(1, "a", "b", "c", total=3), patch(hunk(1, "a", "xy"), hunk(3, "c", "z"))],
        ["x", "y", "b", "z"],
        True,
    ),
    "hunks that are not as it was": (
        [part(1, "a", "b"), patch(hunk(2, "x", "y"))],
        [_, "y"],
        False,
    ),
    "hunks of a file that was other": (
        [write("a\nb\n"), patch(hunk(2, "x", "y"))],
        [_, "y"],
        False,
    ),
    "a move of a part": ([part(2, "b"), MOVED], [_, "b"], False),
    "a change that is not told": ([part(2, "b"), CHANGED], NO_LINE, False),
    "an edit that does not fit": ([part(2, "b"), swap("x", "y")], NO_LINE, False),
    "an edit that fits twice": ([part(1, "b"), part(3, "b"), swap("b", "y")], NO_LINE, False),
    "an edit that fits twice in a part": ([part(1, "b", "b"), swap("b", "y")], NO_LINE, False),
    "an edit in each place of a part": ([part(1, "b"), swap("b", "y", every=True)], NO_LINE, False),
    "hunks without numbers": ([part(2, "b"), patch(hunk(None, "b", "c"))], NO_LINE, False),
    "an edit of a file that was other": ([write("a\n"), swap("x", "y")], NO_LINE, False),
    "a part of very high number": ([part(1_000_001, "b")], NO_LINE, False),
    "a part of high number": ([part(2, "b"), part(2_000_000, "c")], [_, "b"], False),
    "hunks of very high number": ([part(2, "b"), patch(hunk(1_000_001, "a", "b"))], NO_LINE, False),
}


def test_the_lines_that_were_told_are_known_and_no_others() -> None:
    for name, (events, lines, is_end_known) in PARTS.items():
        content = after_all(events)
        assert (content.text, content.lines) == (None, lines), name
        assert content.is_end_known is is_end_known, name
        assert content.is_there, name
        known = [line for line in lines if line is not None]
        assert content.known() == len(known), name
        assert content.is_known() is bool(known), name


def test_a_change_by_something_else_is_told_with_what_showed_it() -> None:
    cases: list[tuple[list[Event], bool]] = [
        ([part(1, "a"), part(1, "b")], True),
        ([part(1, "a", total=1), part(2, "b")], True),
        ([write("a\n"), part(1, "b")], True),
        ([write("a\n"), CHANGED], True),
        ([part(1, "a"), CHANGED], True),
        ([CHANGED, CHANGED], False),
        ([part(1, "a"), part(2, "b")], False),
        ([part(1, "a"), part(1, "b"), part(1, "b")], False),
        ([DELETED, part(1, "a")], False),
        ([write("a\n"), DELETED], False),
    ]
    for events, contradicted in cases:
        assert after_all(events).contradicted is contradicted


def test_a_file_that_is_deleted_has_no_line_and_no_gap() -> None:
    content = after_all([part(2, "b"), DELETED])
    assert (content.is_there, content.is_known(), content.known()) == (False, True, 0)
    assert content.gaps() == []


GAPS: Final[list[tuple[list[str | None], bool, list[Gap], list[str]]]] = [
    (["a", "b"], True, [], []),
    (["a"], False, [Gap(2, None)], ["lines from 2 on"]),
    ([], False, [Gap(1, None)], ["lines from 1 on"]),
    ([_, "b"], True, [Gap(1, 1)], ["line 1"]),
    ([_, _, "c", _, "d"], True, [Gap(1, 2), Gap(4, 4)], ["lines 1 to 2", "line 4"]),
    (["a", _, _], False, [Gap(2, None)], ["lines from 2 on"]),
    ([_, "b", _], True, [Gap(1, 1), Gap(3, 3)], ["line 1", "line 3"]),
    (["a"] + [_] * 1999, True, [Gap(2, 2000)], ["lines 2 to 2,000"]),
]


def test_lines_that_are_not_known_are_named_by_their_numbers() -> None:
    for lines, is_end_known, gaps, words in GAPS:
        found = KnownContent(lines=lines, is_end_known=is_end_known).gaps()
        assert found == gaps
        assert [gap.as_text() for gap in found] == words
