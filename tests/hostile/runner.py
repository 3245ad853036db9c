"""Runs commands over the structures of the corpus, each on a fresh copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.hostile import commands, corpus

GROWN: Final = "grown.jsonl"
"""Another copy of the session, for commands that take two."""


@dataclass(frozen=True)
class Cost:
    """What one command cost, and how it ended."""

    exit: int
    seconds: float
    megabytes: float
    said: str

    @property
    def fault(self) -> str:
        """How it ended as no command may; empty where it did not."""
        if self.exit not in (0, 1):
            return f"ended with {self.exit}"
        last = self.said.strip().splitlines()[-1:] or [""]
        for sign in ("Traceback", "a fault in sessiontree"):
            if sign in self.said:
                return last[0]
        return ""


def _homes(folder: str) -> dict[str, str]:
    """The user's home, the store and the agents' homes: all in the folder of the session."""
    agents = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME")
    own = {name: os.path.join(folder, "agents", name) for name in agents}
    return {"HOME": folder, "SESSIONTREE_HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache", **own}


class Runner:
    """A small process of its own that runs the commands; see `tests.hostile.server`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_homes(str(folder / "work"))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def costs(self, name: str, size: int, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, Cost]:
        """What each command costs on a structure of this size."""
        source, work = self._folder / "source", self._folder / "work"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        file = {**corpus.STRUCTURES, **corpus.FOREIGN}[name](source, size).name
        found: dict[str, Cost] = {}
        for command, words in wanted.items():
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(source, work)
            if GROWN in words:
                _grow(work / file, work / GROWN)
            found[command] = self._cost(work, [word.replace("FILE", file) for word in words])
        return found

    def _cost(self, folder: Path, words: list[str]) -> Cost:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([str(folder), *words]) + "\n")
        self._server.stdin.flush()
        return Cost(**json.loads(self._server.stdout.readline()))


def _grow(file: Path, grown: Path) -> None:
    """Make another copy of a session: with its lines in another order, and one more entry."""
    header, *lines = file.read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    own = b'{"type":"message","uuid":"grown","parentUuid":"h","message":{"role":"user"}}\n'
    grown.write_bytes(b"".join([header, *lines[half:], *lines[:half], own]))


def commands_for(name: str) -> Mapping[str, tuple[str, ...]]:
    return commands.OWN if name in corpus.STRUCTURES else commands.FOREIGN


def bare_growth(runner: Runner, name: str, quarter: int, whole: int) -> float:
    """How many times as long a decoder alone takes for the lines at the second size.

    A `dict` of 450,000 keys is larger than the cache of a processor, and one of a quarter is not:
    to decode the first takes eight times as long.
    """
    words = {commands.BARE: (commands.BARE, "FILE")}
    first, second = (runner.costs(name, size, words)[commands.BARE] for size in (quarter, whole))
    return second.seconds / first.seconds
