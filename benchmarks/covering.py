"""A plugin of pytest: which tests reach which lines, and a run of chosen tests.

`benchmarks.mutants` loads it in its copy of the project. What it does depends on the variables
of the environment below. `coverage` starts in each process by itself, also in the processes
that a test starts, because `COVERAGE_PROCESS_START` is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import coverage
import pytest

TIMES: Final = "MUTANTS_TIMES"
"""The file that gets a line for each test: its id, its seconds, whether it passed."""

CHOSEN: Final = "MUTANTS_CHOSEN"
"""The file that lists the ids of the tests to run, in order."""

PIPE: Final = "MUTANTS_PIPE"
"""The descriptor that gets a line when a test starts, and a line when it fails."""


def _tell(kind: str, test: str) -> None:
    if pipe := os.environ.get(PIPE):
        os.write(int(pipe), f"{kind} {test}\n".encode())


@cache
def _opened(path: str) -> int:
    """A descriptor kept open: a test may run as a user who cannot open the file."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests alone, in their order."""
    if not (chosen := os.environ.get(CHOSEN)):
        return
    order = {test: at for at, test in enumerate(Path(chosen).read_text("utf-8").splitlines())}
    kept = sorted((item for item in items if item.nodeid in order), key=lambda i: order[i.nodeid])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write the lines that run from here on down to this test."""
    _tell("start", item.nodeid)
    if measured := coverage.Coverage.current():
        measured.switch_context(item.nodeid)
    return (yield)


def pytest_configure() -> None:
    """Open the file of times."""
    if times := os.environ.get(TIMES):
        _opened(times)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _tell("fail", report.nodeid)
    if (times := os.environ.get(TIMES)) and (report.when == "call" or report.failed):
        line = json.dumps([report.nodeid, report.duration, report.passed])
        os.write(_opened(times), f"{line}\n".encode())


def pytest_unconfigure() -> None:
    """Write the lines down now: a worker of xdist may end without the calls at exit."""
    if measured := coverage.Coverage.current():
        measured.stop()
        measured.save()
