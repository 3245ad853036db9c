"""What the commands print and write is what it was, to the last character."""

from __future__ import annotations

import pytest

from tests.cli import outlines
from tests.cli.cases import CASES
from tests.cli.printing import EXPECTED, printed
from tests.support.table import for_each


@pytest.mark.filterwarnings("ignore")
@for_each("name", CASES)
def test_the_commands_print_and_write_what_is_expected(name: str) -> None:
    """`python -m tests.cli.printing` writes the expectations again, after a change on purpose."""
    expected = (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
    assert printed(CASES[name]).split("\n$ ") == expected.split("\n$ ")


@pytest.mark.filterwarnings("ignore")
@for_each("name", outlines.NAMES)
def test_a_screen_shows_what_is_expected(name: str) -> None:
    expected = (outlines.OUTLINES / f"{name}.txt").read_text(encoding="utf-8")
    assert outlines.drawn(name).split("\n$ ") == expected.split("\n$ ")


def test_an_outline_on_screens_of_all_heights_is_what_is_expected() -> None:
    expected = (outlines.OUTLINES / "heights.txt").read_text(encoding="utf-8")
    assert outlines.pictures().split("--- ") == expected.split("--- ")
