"""What holds for all tests."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from functools import cache
from typing import Final

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.support.homes import AGENT_VARIABLES

FIGURES: Final[dict[str, Callable[[list[float]], float]]] = {
    "crash states": sum,
    "distinct crash states": sum,
    "faults": sum,
    "kills": sum,
    "offsets": sum,
    "tears": sum,
    "flipped bits": sum,
    "acknowledged appends by 8 processes": sum,
    "worst append in ms": max,
}
"""What the tests of durability count, and how the figures of many tests are made one."""

NO_CORPUS: Final = "the real sessions are not beside the checkout"
NOT_BOUND: Final = "permissions do not bind root"
_MAY_SKIP: Final = frozenset({NO_CORPUS, NOT_BOUND})
"""Why a test is skipped with `--no-skips`: nobody may publish the sessions of a user, and `.ci/run`
runs the tests that root cannot run in a step of their own."""

_NO_HOME: Final = tempfile.mkdtemp(prefix="no-home-")
"""A folder for the caches of commands, which has no sessions: the tests list none of the user's."""

atexit.register(shutil.rmtree, _NO_HOME, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = os.path.join(_NO_HOME, "cache")
for _variable in AGENT_VARIABLES:
    os.environ[_variable] = os.path.join(_NO_HOME, "agents")
os.environ.pop("PI_CODING_AGENT_SESSION_DIR", None)

# Hundreds of commands that tests start would each compile the package, and each worker the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what runs in its background with Ctrl-C ignored, and children inherit
# that: the programs that tests interrupt would never hear of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail if a test is skipped, but for real sessions and for root",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than processors: tests wait for servers, browsers and the disk."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Set how many random examples a run takes: all in the soak run, a quarter in each other.

    With `CI` a run takes the same examples each time, so that a submission fails for what it
    changes. Elsewhere random tests look for what is not known yet.
    """
    examples = 100 if _is_soak(config) else 25
    fixed = bool(os.environ.get("CI"))
    settings.register_profile("run", max_examples=examples, derandomize=fixed)
    settings.load_profile("run")


def _is_soak(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "soak")


@cache
def _permissions_bind() -> bool:
    """Whether a file that nobody may read cannot be read; root may read it as a rule."""
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return not os.access(file.name, os.R_OK)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported and collected, which lives until the end, to no garbage collection.

    A pass over those millions of objects takes seconds and finds nothing.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each soak as slow: `-m "not slow"` takes the place of the default `-m "not soak"`.

    The soak run takes each random test too. A test of what permissions forbid is skipped for root,
    whom they do not bind.
    """
    for item in items:
        if item.get_closest_marker("unprivileged") and not _permissions_bind():
            item.add_marker(pytest.mark.skip(reason=NOT_BOUND))
        if _is_soak(config) and is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.soak)
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with `--no-skips` in which a test was skipped that should have run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return  # a worker, whose reports the controller gets
    reasons = {str(report.longrepr[2]) for report in reporter.stats.get("skipped", [])}
    if {reason.removeprefix("Skipped: ") for reason in reasons} - _MAY_SKIP:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("\nFAILED: tests were skipped that --no-skips has run", red=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much was tried, so that a run that tried nothing does not look like any other."""
    counted: dict[str, list[float]] = {name: [] for name in FIGURES}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name in counted:
                counted[name].append(value)
    said = [f"{name} {FIGURES[name](found):,}" for name, found in counted.items() if found]
    if said:
        terminalreporter.write_line("durability: " + "; ".join(said))
