"""The calls that change the disk, and what comes of each call that fails, are what they were."""

from __future__ import annotations

import pytest

from tests.cli.calling import CASE, EXPECTED, called
from tests.support.table import for_each

FEW = list(CASE)[::5]
"""Some of each kind, for they stand by kinds."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@for_each("name", FEW)
def test_a_command_calls_the_disk_as_expected_also_where_a_call_fails(name: str) -> None:
    check(name)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@for_each("name", [name for name in CASE if name not in FEW])
def test_every_command_calls_the_disk_as_expected_also_where_a_call_fails(name: str) -> None:
    check(name)


def check(name: str) -> None:
    """`python -m tests.cli.calling` writes the expectations again, after a change on purpose."""
    expected = (EXPECTED / f"{name}.txt").read_text(encoding="utf-8")
    assert called(name).split("\n\n") == expected.split("\n\n")
