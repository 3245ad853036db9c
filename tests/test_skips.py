"""A run with `--no-skips` fails if a test was skipped that should have run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NO_CORPUS, NOT_BOUND
from tests.support.table import for_each

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@for_each(
    ("lines", "workers", "code"),
    [
        ([f"pytest.skip({NO_CORPUS!r})", f"pytest.skip({NOT_BOUND!r})", "pass"], 0, 0),
        (["pytest.skip('nothing is installed')"], 0, 1),
        (["pytest.importorskip('no_such_package')"], 1, 1),
    ],
)
def test_a_run_fails_for_a_test_that_is_skipped(
    lines: list[str], workers: int, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "test_one.py"
    tests = [f"def test_{number}():\n    {line}\n" for number, line in enumerate(lines)]
    file.write_text("import pytest\n" + "".join(tests))
    command = ["pytest", "-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "tests.conftest"]
    command += ["-p", "xdist.plugin", "-n", str(workers), "-rs", "--no-skips", str(file)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=alone, capture_output=True, text=True
    )
    assert run.returncode == code, run.stdout
    assert ("FAILED: tests were skipped" in run.stdout) == bool(code)
