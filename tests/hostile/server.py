"""Runs commands in processes of their own, and says what each cost.

One request a line on standard input: a JSON list of `[folder, argv, ...]`. The answer is one line.
A process forked from this small one starts with the modules imported, so that its figures are those
of the command; forked from a test run, its peak memory would be that of the test run.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from typing import Any, Final

_SECONDS: Final = 12
_BYTES: Final = 6 << 30
"""Where a process is stopped, far above what a test accepts."""


def run(argv: list[str], folder: str) -> dict[str, Any]:
    """Run one command in a folder; its standard error is left there as `stderr`."""
    child = os.fork()
    if not child:
        _become(argv, folder)
    _, status, usage = os.wait4(child, 0)
    with open(os.path.join(folder, "stderr"), errors="replace") as told:
        text = told.read(4000)
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "stderr": text,
    }


def _become(argv: list[str], folder: str) -> None:
    code = 70
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stdout = open(1, "w", closefd=False)
        sys.stderr = open(2, "w", closefd=False)
        from sessiontree.cli import main

        main(argv, prog_name="sessiontree")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    from sessiontree.cli import COMMANDS

    for place, _ in COMMANDS.values():
        importlib.import_module(f"sessiontree.cli.{place.split(':')[0]}")
    for late in ("operations.convert", "operations.transcript", "formats.atif"):
        importlib.import_module(f"sessiontree.{late}")
    for line in sys.stdin:
        folder, *argv = json.loads(line)
        print(json.dumps(run(argv, folder)), flush=True)


if __name__ == "__main__":
    serve()
