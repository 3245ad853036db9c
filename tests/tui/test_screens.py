"""The main screens of the browser are what they were, and fit the terminal."""

from __future__ import annotations

from rich.cells import cell_len

from tests.support.table import for_each
from tests.tui.screens import EXPECTED, SIZES, screens

SCREENS = dict(screens())


@for_each("name", SCREENS)
def test_a_screen_is_what_is_expected(name: str) -> None:
    """`python -m tests.tui.screens` writes the expectations again, after a change on purpose."""
    assert SCREENS[name] == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


@for_each(("width", "height"), SIZES)
def test_a_screen_has_the_size_of_the_terminal(width: int, height: int) -> None:
    for name, text in SCREENS.items():
        if name.endswith(f"-{width}x{height}"):
            assert len(text.splitlines()) == height
            assert max(map(cell_len, text.splitlines())) <= width
