"""What is told of the files of a project is what it was, to the last character."""

from __future__ import annotations

from tests.history.told import EXPECTED, SEEDS, told
from tests.support.soak import in_soak


@in_soak("seeds", SEEDS[:1], SEEDS)
def test_what_is_told_of_files_is_what_is_expected(seeds: tuple[int, ...]) -> None:
    """`python -m tests.history.told` writes the expectations again, after a change on purpose."""
    for seed in seeds:
        expected = (EXPECTED / f"{seed}.txt").read_text(encoding="utf-8")
        assert told(seed).split("\n$ ") == expected.split("\n$ ")
