"""Texts in columns: none is wider than asked for, and none is cut more than it has to be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.text.columns import columns_of, cut, cut_start, filled

TEXTS = st.text(alphabet="ab é漢🍰", max_size=12)


def test_a_text_is_cut_at_its_end_or_at_its_start() -> None:
    cases: list[tuple[str, int, str, str]] = [
        ("abc", 3, "abc", "abc"),
        ("abcd", 3, "ab…", "…cd"),
        ("abcd", 1, "…", "…"),
        ("abcd", 0, "", ""),
        ("", 0, "", ""),
        ("ab cd", 4, "ab…", "… cd"),
        ("漢字", 4, "漢字", "漢字"),
        ("漢字", 3, "漢…", "…字"),
        ("漢字", 2, "…", "…"),
        ("a漢字", 4, "a漢…", "…字"),
        ("a\x1bb", 9, "ab", "ab"),
    ]
    for text, width, start, end in cases:
        assert (cut(text, width), cut_start(text, width)) == (start, end)


@given(TEXTS, st.integers(0, 12))
def test_no_text_is_wider_than_asked_for(text: str, width: int) -> None:
    assert columns_of(cut(text, width)) <= width
    assert columns_of(filled(text, width)) == width
    assert filled(text, width).startswith(cut(text, width))
    ended = cut_start(text, width)
    assert columns_of(ended) <= width
    if ended != text and width > 0:
        longer = text[-len(ended) :]
        assert ended[0] == "…"
        assert text.endswith(ended[1:])
        assert columns_of(longer) + 1 > width
