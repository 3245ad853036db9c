"""The tests of sessions run in each kind of place, and as many pass as on files.

Which tests are about files is decided by the rules of `everywhere`, once, on files; the tests that
are left in run in each kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import NO_CORPUS, NOT_BOUND
from tests.places import servers
from tests.places.everywhere import NAMED, RULES
from tests.places.kinds import KINDS
from tests.support.files import Record

ROOT = Path(__file__).parents[2]
ROOMS = (
    *("session", "operations", "engine", "recording", "handles", "aio"),
    *("library", "importing", "cli", "ops"),
)


@cache
def outcomes(kind: str, folder: Path) -> dict[str, str]:
    """What became of each test in a kind of place; see `everywhere`."""
    counted = folder / f"{kind.replace(' ', '-')}.json"
    decided = [] if kind == "file" else ["--decided", str(folder / "file.json")]
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "0", "--tb=short", "-m", "not slow"),
        *("-p", "tests.places.everywhere", "--place", kind, "--counted", str(counted)),
        *decided,
        *(f"tests/{room}" for room in ROOMS),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT) + os.pathsep + os.pathsep.join(sys.path)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=3600)
    assert counted.exists(), run.stdout.decode()
    found: dict[str, str] = json.loads(counted.read_text())
    return found


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_as_many_tests_of_sessions_pass_in_each_kind_of_place_as_on_files(
    kind: str, reports: Path, record_property: Record
) -> None:
    if kind == "s3" and not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    on_files, there = outcomes("file", reports), outcomes(kind, reports)
    for became, number in Counter(there.values()).items():
        record_property(became, number)
    assert {test for test, became in there.items() if became == "failed"} == set()
    assert there == on_files
    counted = Counter(there.values())
    assert counted["passed"] > 500
    left_out = {*RULES, *NAMED.values(), NOT_BOUND, NO_CORPUS}
    assert set(counted) <= {"passed", "no session", *left_out}
