"""Lives of the coding agent: each is a process that ends, or is killed.

A process that has imported the agent and its SDKs once forks each life, so a life costs what the
agent does, not what it imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "examples" / "coding_agent.py"


class Lives:
    """The process that forks. One life at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._asks: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    def start(self, folder: Path, lines: str, variables: Mapping[str, str], *given: str) -> int:
        """Start the agent with lines on its standard input. Returns its process id."""
        (folder / "stdin").write_text(lines)
        life = {"folder": str(folder), "variables": dict(variables), "arguments": given}
        print(json.dumps(life), file=self._asks, flush=True)
        return int(self._answers.readline())

    def wait(self) -> int:
        """Wait until the life ends. Returns its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(int(self._answers.readline()))


@contextmanager
def lives(**variables: str) -> Iterator[Lives]:
    """Start the process that forks. The agent writes to `stdout` and `stderr` in its folder."""
    command = [sys.executable, "-m", "tests.examples.lives"]
    environment = os.environ | variables
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=-1, stdout=-1, text=True
    ) as process:
        try:
            yield Lives(process)
        finally:
            process.kill()


def _live(agent: Mapping[str, Any], life: Mapping[str, Any]) -> None:
    os.chdir(life["folder"])
    os.environ.update(life["variables"])
    sys.argv = [str(AGENT), *life["arguments"]]
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "a"), ("stderr", "a"))):
        with open(name, mode) as file:
            os.dup2(file.fileno(), number)
    asyncio.run(agent["main"]())


def _serve() -> None:
    agent = runpy.run_path(str(AGENT))
    for line in sys.stdin:
        process = os.fork()
        if not process:
            _live(agent, json.loads(line))
            sys.stdout.flush()
            os._exit(0)
        print(process, flush=True)
        print(os.waitpid(process, 0)[1], flush=True)


if __name__ == "__main__":
    _serve()
