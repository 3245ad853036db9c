from __future__ import annotations

from sessiontree.text.amounts import ago, briefly_ago, counted, dollars, in_short, lasting


def test_a_number_is_short() -> None:
    cases: list[tuple[int, str]] = [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1250, "1.2k"),
        (9_949, "9.9k"),
        (9_950, "10k"),
        (9_960, "10k"),
        (41_200, "41k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (999_600, "1M"),
        (4_380_000, "4.4M"),
        (999_499_999, "999M"),
        (999_500_000, "1.0G"),
        (10**9, "1.0G"),
        (10**12 + 10**8, "1,000.1G"),
    ]
    for count, text in cases:
        assert in_short(count) == text


def test_a_cost_is_in_dollars() -> None:
    cases: list[tuple[float, str]] = [
        (0.376, "$0.38"),
        (1234.5, "$1,234.50"),
        (0.01, "$0.01"),
        (0.0099, "$0.0099"),
        (0.0021, "$0.0021"),
        (0.0001, "$0.0001"),
        (0.00009, "<$0.0001"),
    ]
    for cost, text in cases:
        assert dollars(cost) == text


def test_a_length_of_time_has_its_unit() -> None:
    cases: list[tuple[float, str]] = [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (361, "6 min"),
        (3_600, "1 h"),
        (3_569, "59 min"),
        (3_571, "1 h"),
        (9_660, "2 h 41 min"),
        (35_940, "9 h 59 min"),
        (36_060, "10 h"),
        (172_740, "47 h"),
        (172_800, "2 days"),
        (90_000, "25 h"),
        (180_000, "2 days"),
    ]
    for seconds, text in cases:
        assert lasting(seconds) == text


def test_a_moment_is_told_by_how_long_ago_it_was() -> None:
    cases: list[tuple[float, str]] = [
        (5, "just now"),
        (-5, "just now"),
        (-3_600, "in the future"),
        (59.9, "just now"),
        (-59.9, "just now"),
        (-60, "in the future"),
        (60, "1 min ago"),
        (300, "5 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 day ago"),
        (86_400 * 29.9, "29 days ago"),
        (86_400 * 30, "1 month ago"),
        (86_400 * 364.9, "12 months ago"),
        (86_400 * 365, "1 year ago"),
        (7_300, "2 h ago"),
        (90_000, "1 day ago"),
        (86_400 * 61, "2 months ago"),
        (86_400 * 366, "1 year ago"),
        (86_400 * 900, "2 years ago"),
    ]
    for seconds, text in cases:
        assert ago(seconds) == text


def test_how_long_ago_something_was_fits_four_characters() -> None:
    cases: list[tuple[float, str]] = [
        (-5, "now"),
        (59.9, "now"),
        (60, "1m"),
        (3_599, "59m"),
        (3_600, "1h"),
        (86_399, "23h"),
        (86_400, "1d"),
        (86_400 * 6.9, "6d"),
        (86_400 * 7, "1w"),
        (86_400 * 29.9, "4w"),
        (86_400 * 30, "1mo"),
        (86_400 * 364.9, "12mo"),
        (86_400 * 365, "1y"),
    ]
    for seconds, text in cases:
        assert briefly_ago(seconds) == text


def test_things_are_counted_in_their_number() -> None:
    cases: list[tuple[str, str]] = [
        (counted(0, "file"), "0 files"),
        (counted(1, "file"), "1 file"),
        (counted(2300, "file"), "2,300 files"),
        (counted(1, "reply", "replies"), "1 reply"),
        (counted(2, "reply", "replies"), "2 replies"),
    ]
    for found, text in cases:
        assert found == text
