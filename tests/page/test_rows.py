"""Rows say of each shape of a message or an entry what they said, to the last character."""

from __future__ import annotations

from tests.page.shapes import EXPECTED, printed


def test_the_rows_of_each_shape_are_what_is_expected() -> None:
    """`python -m tests.page.shapes` writes the expectation again, after a change on purpose."""
    assert f"{printed()}\n".split("\n") == EXPECTED.read_text(encoding="utf-8").split("\n")
