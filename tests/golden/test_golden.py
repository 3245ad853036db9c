"""What the doors print, write and answer is what it was, byte for byte.

A failure names the rows that differ. `python -m tests.golden.make --help` says how to see what
differs in a row, and how to write the goldens again after a change on purpose.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.golden import seam
from tests.golden.families import FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_doors_give_what_they_gave(family: str) -> None:
    command = [sys.executable, "-m", "tests.golden.make", "--check", "--quick", family]
    ended = subprocess.run(command, cwd=seam.CHECKOUT, capture_output=True, text=True)
    assert ended.returncode == 0, f"\n{ended.stdout}{ended.stderr}"
