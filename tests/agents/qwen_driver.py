"""Drives the real Qwen Code offline, against a model that is made here."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.examples.model_server import model_server

PROGRAM: Final = os.environ.get("QWEN_CODE", "")
"""The file `cli-entry.js` of the npm package `@qwen-code/qwen-code`; empty without it."""

WAIT: Final = 300.0
"""Seconds after which a run is taken for dead."""

Json = dict[str, Any]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(name: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "name": name, "input": arguments}


class QwenCode:
    """Qwen Code with a home of its own.

    Attributes:
        home: its home, which has the folder `projects`.
        project: the working directory.
        requests: the messages of each request with tools, in order.
        answers: the blocks of the next answers to such requests; then it says that it is done.
        options: those of each run; `--bare` starts sooner, and has no subagents.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "qwen"
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        (self.home / "settings.json").write_text('{"memory":{"enableManagedAutoMemory":false}}')
        self.requests: list[list[Json]] = []
        self.answers: deque[list[Json]] = deque()
        self.options: tuple[str, ...] = ("--bare",)
        self._environment = {**os.environ, "HOME": str(folder), "QWEN_HOME": str(self.home)}

    def answer(self, api: str, body: Json) -> list[Json]:
        if not body.get("tools"):
            return [text("A summary of the notes.")]
        if "subagent" in str(body["messages"][0]["content"])[:100]:
            return [text("The notes have two lines.")]
        self.requests.append(body["messages"])
        return self.answers.popleft() if self.answers else [text("All done.")]

    def reached(self, variables: dict[str, str]) -> None:
        self._environment |= {**variables, "OPENAI_MODEL": "fake-1"}

    def run(self, *arguments: str, answers: list[list[Json]] | None = None) -> None:
        """Run one prompt to its end."""
        self.answers = deque(answers or [])
        subprocess.run(
            ["node", PROGRAM, "--auth-type", "openai", "-y", *self.options, *arguments],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=WAIT,
        )

    def chats(self) -> list[Path]:
        """The files of the sessions, the oldest first."""
        found = self.home.glob("projects/*/chats/*.jsonl")
        return sorted(found, key=lambda file: file.stat().st_mtime_ns)


@contextmanager
def running(folder: Path) -> Iterator[QwenCode]:
    qwen = QwenCode(folder)
    with model_server(qwen.answer) as model:
        qwen.reached(model.environment())
        yield qwen
        assert not model.faults
