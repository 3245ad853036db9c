"""Runs commands in processes of their own, and says what each cost.

A request is a line on standard input: a JSON list of a folder and the words of a command; the
answer is a line. Each command runs in a process forked from this small one, with the modules
imported, so that its figures are its own: forked from a test run, its peak memory would be at
least that of the test run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import sys
import traceback
from typing import Any, Final

import orjson

from tests.hostile.commands import BARE

_SECONDS: Final = 30
_BYTES: Final = 4 << 30
"""Where a process is stopped, far above what a test accepts."""

_NOT_OF_COMMANDS: Final = ("sessiontree.__main__", "sessiontree.adapters")
"""Modules that no command imports; the SDKs that adapters import take 50 MB."""


def run(folder: str, words: list[str]) -> dict[str, Any]:
    """Run one command in a folder; what it says on standard error goes to the file `said`."""
    child = os.fork()
    if not child:
        _become(folder, words)
    _, status, usage = os.wait4(child, 0)
    with open(os.path.join(folder, "said"), errors="replace") as said:
        text = said.read(4000)
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "said": text,
    }


def _become(folder: str, words: list[str]) -> None:
    code = 70
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # `sys.stdin`, `sys.stdout` … stay as they are
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)
        if words[0] == BARE:
            _decode(words[1])
        else:
            from sessiontree.cli import main

            main(words, prog_name="sessiontree")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _decode(file: str) -> None:
    """Decode each line of a file; see `BARE`."""
    with open(file, "rb") as lines:
        for line in lines:
            for _ in range(5):
                with contextlib.suppress(ValueError, RecursionError):
                    orjson.loads(line)


def serve() -> None:
    """Answer requests until the input ends."""
    import sessiontree

    for module in pkgutil.walk_packages(sessiontree.__path__, "sessiontree."):
        if not module.name.startswith(_NOT_OF_COMMANDS):
            importlib.import_module(module.name)
    for line in sys.stdin:
        folder, *words = json.loads(line)
        print(json.dumps(run(folder, words)), flush=True)


if __name__ == "__main__":
    serve()
