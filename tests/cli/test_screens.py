"""The screens of lists, hits and costs are what they were, and fit the terminal."""

from __future__ import annotations

import re

from rich.cells import cell_len

from tests.cli.printing import EXPECTED
from tests.cli.screens import SIZES, screens
from tests.support.table import for_each

SCREENS = dict(screens())


@for_each("name", SCREENS)
def test_a_screen_is_what_is_expected(name: str) -> None:
    """`python -m tests.cli.printing` writes the expectations again, after a change on purpose."""
    assert SCREENS[name] == (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")


@for_each("kind", ["screen", "spending"])
@for_each(("width", "height"), SIZES)
def test_a_screen_is_full_and_not_wider_than_the_terminal(
    width: int, height: int, kind: str
) -> None:
    plain = SCREENS[f"{kind}-{width}x{height}"]
    assert max(map(cell_len, plain.splitlines())) in range(width - 3, width + 1)
    coloured = SCREENS[f"{kind}-{width}x{height}-colour"]
    without = re.sub("␛\\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()[:9]] == [
        line.rstrip() for line in plain.splitlines()[:9]
    ]
