"""What a file is after an edit, and after the edit is taken back."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.edits.tools import Edit, Swap, after, undone
from tests.support.enough import ENOUGH

LONG: Final = "a long line"
AFTER: Final[dict[str, tuple[dict[str, Any], str | None, str | None]]] = {
    "a whole file": ({"kind": "write", "content": "new\n"}, "old\n", "new\n"),
    "a new file": ({"kind": "write", "content": "new\n"}, None, "new\n"),
    "text at the end": ({"kind": "append", "content": "new\n"}, "old\n", "old\nnew\n"),
    "text at the end of an unknown file": ({"kind": "append", "content": "new\n"}, None, None),
    "one text for another": ({"swaps": (Swap("b", "x"),)}, "a b c", "a x c"),
    "one that is not there": ({"swaps": (Swap("d", "x"),)}, "a b c", None),
    "one that is there twice": ({"swaps": (Swap("b", "x"),)}, "b b", None),
    "each of several": ({"swaps": (Swap("b", "x", True),)}, "b b", "x x"),
    "two, one after the other": ({"swaps": (Swap("a", "b b"), Swap("c", "d"))}, "a c", "b b d"),
    "a text in a file with CRLF": ({"swaps": (Swap("a\nb", "x\ny"),)}, "a\r\nb\r\n", "x\r\ny\r\n"),
    "a text with CRLF": ({"swaps": (Swap("a\r\nb", "x"),)}, "a\r\nb\r\n", "x\r\n"),
    "nothing for nothing": ({"swaps": (Swap("", "x"),)}, "a", None),
    "a line in front": ({"line": 0, "content": "new"}, "a\nb\n", "new\na\nb\n"),
    "a line behind another": ({"line": 1, "content": "new\n"}, "a\nb\n", "a\nnew\nb\n"),
    "a line behind the end": ({"line": 9, "content": "new"}, "a\n", None),
    "a file that is moved": ({"kind": "move", "to": "g"}, "a\n", "a\n"),
    "a file that is deleted": ({"kind": "delete"}, "a\n", None),
    "a change that is not told": ({"kind": "change"}, "a\n", None),
}


def test_what_an_edit_makes_of_a_text() -> None:
    for name, (fields, text, made) in AFTER.items():
        assert after(Edit(**{"path": "f", "kind": "edit", **fields}), text, ENOUGH) == made, name


@given(st.lists(st.sampled_from([LONG, "another line", "a"])), st.integers(0, 3))
def test_an_edit_that_is_taken_back_gives_the_text_before_or_nothing(
    lines: list[str], place: int
) -> None:
    """It gives nothing where the new text stands elsewhere, too: which one is not told."""
    edit = Edit("f", "edit", swaps=(Swap("<old>", LONG),))
    lines.insert(place, "<old>")
    text = "\n".join(lines)
    made, back = after(edit, text, ENOUGH), undone(edit)
    assert back is not None
    assert after(back, made, ENOUGH) == (text if LONG not in text else None)


def test_an_edit_whose_place_is_not_told_by_its_text_is_not_taken_back() -> None:
    cases: list[dict[str, Any]] = [
        {"swaps": (Swap("old", LONG, True),)},
        {"swaps": (Swap("old", "short"),)},
        {"line": 1, "content": LONG},
        {"kind": "write", "content": LONG},
    ]
    for fields in cases:
        assert undone(Edit(**{"path": "f", "kind": "edit", **fields})) is None
