"""Text without marks is shown as it is, without being parsed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.views import markdown

_PIECES = (
    *("a", "b c", " ", "    ", "\t", "\n", "\n\n", "* ", "+ ", "1. ", "[a]:", " /u", '"t', "|"),
    *("|a|b|\n|:-:|-|", "_", "**", "![", "](", ")", "\\", "&amp;", "--- ", "- ", "* * *", "___"),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(_PIECES), max_size=9).map("".join))
def test_a_text_without_marks_is_what_parsing_makes_of_it(text: str) -> None:
    fast = markdown.prose(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown, "_MARKS", re.compile(""))
        assert markdown.prose(text) == fast
