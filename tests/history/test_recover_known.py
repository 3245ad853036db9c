"""What is known of a file after what was told of it: as much as is certain, and where it is not."""

from __future__ import annotations

from typing import Final

from sessiontree.edits.patch import Hunk
from sessiontree.edits.tools import Edit, Seen, Swap
from sessiontree.history.replay import Content, Gap
from tests.support.enough import ENOUGH

Event = Edit | Seen

_: Final = None
"""A line that is not known."""


def whole(text: str) -> Seen:
    return Seen("f", text, is_whole=True)


def part(first: int, *lines: str, total: int | None = None) -> Seen:
    return Seen("f", "\n".join(lines), first, total=total)


def write(text: str) -> Edit:
    return Edit("f", "write", content=text)


def swap(old: str, new: str, every: bool = False) -> Edit:
    return Edit("f", "edit", swaps=(Swap(old, new, every),))


def swaps(*pairs: tuple[str, str]) -> Edit:
    return Edit("f", "edit", swaps=tuple(Swap(*pair) for pair in pairs))


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
        [CHANGED, Edit("f", "edit", swaps=(Swap("a", "b"),), before="a\n")],
        "b\n",
        False,
    ),
    "an edit of another content than before": (
        [write("x\n"), Edit("f", "edit", swaps=(Swap("a", "b"),), before="a\n")],
        "b\n",
        True,
    ),
    "a write after a deletion": ([write("a\n"), DELETED, write("b\n")], "b\n", False),
    "a write after a change": ([write("a\n"), CHANGED, write("b\n")], "b\n", False),
}


def after_all(events: list[Event]) -> Content:
    content = Content()
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
        found = Content(lines=lines, is_end_known=is_end_known).gaps()
        assert found == gaps
        assert [gap.as_text() for gap in found] == words
