"""A table of sessions is what it was, and fits any screen; a time is shown or unknown."""

from __future__ import annotations

from rich.cells import cell_len

from sessiontree.cli.lists import time_of
from tests.cli.printing import EXPECTED
from tests.cli.tables import tables
from tests.support.table import for_each
from tests.support.terminal import utc


def test_tables_of_all_widths_are_what_is_expected() -> None:
    """`python -m tests.cli.printing` writes the expectations again, after a change on purpose."""
    assert (EXPECTED / "tables.txt").read_text(encoding="utf-8") == tables()


def test_no_row_is_wider_than_its_screen() -> None:
    for block in tables().split("--- ")[1:]:
        width, *lines = block.splitlines()
        if width.isdigit():
            assert max(map(cell_len, lines)) <= max(int(width), 36)


@for_each(
    ("stored", "told"),
    [
        (None, "unknown"),
        ("", "unknown"),
        ("2026-11-23T09:20:59.999Z", "2026-11-23 09:20"),
        ("2026-11-23T09:20:00+02:00", "2026-11-23 07:20"),
        ("yesterday", "unknown"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31 23:59"),
        ("9999-12-31T23:59:59-12:00", "unknown"),
        ("0001-01-01T00:00:00+12:00", "unknown"),
    ],
)
def test_a_time_is_shown_by_the_minute_or_unknown(stored: str | None, told: str) -> None:
    with utc():
        assert time_of(stored) == told
