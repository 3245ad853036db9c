"""The main screens of the browser are what they were, and fit the terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.support.table import for_each
from tests.tui.screens import EXPECTED, SIZES, screens


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return dict(screens())


def test_the_screens_are_what_is_expected(drawn: dict[str, str]) -> None:
    """`python -m tests.tui.screens` writes the expectations again, after a change on purpose."""
    expected = {file.stem: file.read_text(encoding="utf-8") for file in EXPECTED.glob("*.txt")}
    assert drawn.keys() == expected.keys()
    assert [name for name in drawn if drawn[name] != expected[name]] == []


@for_each(("width", "height"), SIZES)
def test_a_screen_has_the_size_of_the_terminal(
    drawn: dict[str, str], width: int, height: int
) -> None:
    for name, text in drawn.items():
        if name.endswith(f"-{width}x{height}"):
            assert len(text.splitlines()) == height
            assert max(map(cell_len, text.splitlines())) <= width
