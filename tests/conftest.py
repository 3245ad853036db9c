"""What holds for all tests."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest
from hypothesis import settings

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

_NO_HOME: Final = tempfile.mkdtemp(prefix="no-home-")
"""A folder for the caches of commands, which has no sessions: the tests list none of the user's."""

atexit.register(shutil.rmtree, _NO_HOME, ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = os.path.join(_NO_HOME, "cache")
for _variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"):
    os.environ[_variable] = os.path.join(_NO_HOME, "agents")
os.environ.pop("PI_CODING_AGENT_SESSION_DIR", None)

# Elsewhere random tests look for what is not known yet; a submission is judged by examples that
# are the same each time, so that it fails for what it changes.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# A shell starts what runs in its background with Ctrl-C ignored, and children inherit
# that: the programs that tests interrupt would never hear of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def _permissions_bind() -> bool:
    """Whether a file that nobody may read cannot be read; root may read it as a rule."""
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return not os.access(file.name, os.R_OK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each soak as slow: `-m "not slow"` takes the place of the default `-m "not soak"`.

    A test of what permissions forbid is skipped for root, whom they do not bind.
    """
    for item in items:
        if item.get_closest_marker("unprivileged") and not _permissions_bind():
            item.add_marker(pytest.mark.skip(reason="permissions do not bind root"))
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.slow)


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
