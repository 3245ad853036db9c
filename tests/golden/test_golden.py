"""What the doors print, write and answer is what it was, byte for byte.

A failure names the rows that differ. `python -m tests.golden.make --help` says how to see what
differs in a row, and how to write the goldens again after a change on purpose.
"""

from __future__ import annotations

import pytest

from tests.golden.families import FAMILIES
from tests.golden.make import main
from tests.support.soak import in_soak

EVERY = {"fixtures": 4, "cases": 4, "sessions": 4, "usage": 4}
"""Of the families with many rows of a kind, a run checks each fourth row of the quick check."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@in_soak("is_whole", False, True)
def test_the_doors_give_what_they_gave(
    family: str, is_whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--quick", "--every", str(EVERY.get(family, 1))]
    code = main(["--check", *([] if is_whole else quick), family])
    assert code == 0, f"\n{capsys.readouterr().out}"
