from __future__ import annotations

import pytest

from sessiontree.text.amounts import ago, dollars, in_short, lasting


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1250, "1.2k"),
        (9_960, "10k"),
        (41_200, "41k"),
        (999_499, "999k"),
        (999_600, "1M"),
        (4_380_000, "4.4M"),
        (10**9, "1.0G"),
    ],
)
def test_a_number_is_short(count: int, text: str) -> None:
    assert in_short(count) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [(0.376, "$0.38"), (1234.5, "$1,234.50"), (0.0021, "$0.0021"), (0.00001, "<$0.0001")],
)
def test_a_cost_is_in_dollars(cost: float, text: str) -> None:
    assert dollars(cost) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (361, "6 min"),
        (3_600, "1 h"),
        (9_660, "2 h 41 min"),
        (90_000, "25 h"),
        (180_000, "2 days"),
    ],
)
def test_a_length_of_time_has_its_unit(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "just now"),
        (-5, "just now"),
        (-3_600, "in the future"),
        (300, "5 min ago"),
        (7_300, "2 h ago"),
        (90_000, "1 day ago"),
        (86_400 * 61, "2 months ago"),
        (86_400 * 366, "1 year ago"),
        (86_400 * 900, "2 years ago"),
    ],
)
def test_a_moment_is_told_by_how_long_ago_it_was(seconds: float, text: str) -> None:
    assert ago(seconds) == text
