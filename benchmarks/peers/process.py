"""One run of one command, as a whole process: its time, its memory, what it printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Figures = dict[str, Any]

TIMEOUT: Final = 400.0
"""Seconds after which a run is ended and counts as failed."""

NOT_IN_TIME: Final = f"not done in {TIMEOUT:.0f} s"

_PATHS: Final = re.compile(r"(?:\w+://|/)[^\s'\"]*/")


def run(command: Sequence[str], env: Mapping[str, str], *, quiet: bool = False) -> Figures:
    """Run a command and wait for it.

    Args:
        quiet: what it prints is no figures; only count the lines.

    Returns:
        `process_wall` and `process_cpu` in seconds and `peak` in bytes, by the system's
        account of the process; the figures that it printed; or why it `failed`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)
        timer = threading.Timer(TIMEOUT, child.kill)
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        took = time.perf_counter() - began
        in_time = timer.is_alive()
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        # A process begins with the peak of the one that starts it, so that one stays small.
        scale = 1 if sys.platform == "darwin" else 1024
        figures: Figures = {
            "process_wall": took,
            "process_cpu": used.ru_utime + used.ru_stime,
            "peak": used.ru_maxrss * scale,
        }
        if not in_time:
            return figures | {"failed": NOT_IN_TIME}
        if child.returncode != 0:
            return figures | {"failed": _cause(err.read(), child.returncode)}
        if quiet:
            return figures | {"wall": took, "cpu": figures["process_cpu"], "count": _lines(out)}
        return {**json.loads(out.read()), **figures}


def _lines(out: Any) -> int:
    return sum(1 for _ in out)


def _cause(printed: bytes, code: int) -> str:
    """The line that says why, without the places of this machine."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines()]
    told = [line for line in lines if re.search(r"\b\w*(?:Error|FATAL|error)\b", line)]
    cause = (told or [line for line in lines if line] or [""])[-1]
    cause = _PATHS.sub("", cause).replace("|", "/")[:120]
    return f"exit {code}: {cause}" if cause else f"exit {code}"


def environment(folder: Path) -> dict[str, str]:
    """A home of their own for all programs; modules compiled once, outside the checkout."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR")}
    return {
        **kept,
        "HOME": str(home),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "PYTHONUTF8": "1",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
