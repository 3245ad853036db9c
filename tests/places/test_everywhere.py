"""What holds of sessions in memory holds in each kind of place: the tests of sessions run in all.

A test that looks at its file fails in every place. Those that pass in memory are about sessions,
and pass in a database and in a bucket as well.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.places.kinds import KINDS

ROOT = Path(__file__).parents[2]
ROOMS = ("session", "operations", "engine", "recording", "handles", "aio")


@cache
def outcomes(kind: str, folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The tests that pass in a kind of place, and all that ran."""
    report = folder / f"{kind}.xml"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--tb=no", "-m", "not slow"),
        *("-p", "tests.places.everywhere", "--place", kind, f"--junit-xml={report}"),
        *(f"tests/{room}" for room in ROOMS),
    ]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=3600)
    passed, ran = set[str](), set[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            ran.add(name)
        if not kinds & {"failure", "error", "skipped"}:
            passed.add(name)
    return frozenset(passed), frozenset(ran)


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted({*KINDS} - {"memory"}))
def test_what_holds_in_memory_holds_in_each_kind_of_place(kind: str, reports: Path) -> None:
    in_memory, _ = outcomes("memory", reports)
    passed, ran = outcomes(kind, reports)
    assert len(in_memory) > 1_500
    assert in_memory & ran - passed == frozenset()
