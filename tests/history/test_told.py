"""What is told of the files of a project is what it was, to the last character."""

from __future__ import annotations

from tests.history.told import EXPECTED, SEEDS, told


def test_what_is_told_of_files_is_what_is_expected() -> None:
    """`python -m tests.history.told` writes the expectations again, after a change on purpose."""
    for seed in SEEDS:
        expected = (EXPECTED / f"{seed}.txt").read_text(encoding="utf-8")
        assert told(seed).split("\n$ ") == expected.split("\n$ ")
