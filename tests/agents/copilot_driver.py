"""Drives the real Copilot CLI offline, against a model that is made here."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.agents.qwen_driver import Json, text
from tests.examples.model_server import model_server

PROGRAM: Final = os.environ.get("COPILOT", "")
"""The program `copilot` of the npm package `@github/copilot-linux-x64`; empty without it."""

WAIT: Final = 300.0
"""Seconds after which a run is taken for dead."""

_OF_COPILOT: Final = "__copilot"
"""How the keys begin that Copilot CLI adds to messages, for its own service."""


class CopilotCli:
    """Copilot CLI with a home of its own.

    Attributes:
        home: its home, which has the folder `session-state`.
        project: the working directory.
        requests: the messages of each request with tools, in order.
        answers: the blocks of the next answers to such requests; then it says that it is done.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "copilot"
        self.project = folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.requests: list[list[Json]] = []
        self.answers: deque[list[Json]] = deque()
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "COPILOT_HOME": str(self.home),
            "COPILOT_OFFLINE": "true",
            "COPILOT_MODEL": "fake-1",
            "COPILOT_PROVIDER_API_KEY": "none",
        }

    def answer(self, api: str, body: Json) -> list[Json]:
        if not body.get("tools"):
            return [text("A summary of the notes.")]
        self.requests.append(body["messages"])
        return self.answers.popleft() if self.answers else [text("All done.")]

    def run(self, *arguments: str, answers: list[list[Json]] | None = None) -> None:
        """Run one prompt to its end."""
        self.answers = deque(answers or [])
        subprocess.run(
            [PROGRAM, "--allow-all-tools", "--allow-all-paths", *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=WAIT,
        )

    def sessions(self) -> list[Path]:
        """The files of the sessions."""
        return sorted(self.home.glob("session-state/*/events.jsonl"))


@contextmanager
def running(folder: Path) -> Iterator[CopilotCli]:
    copilot = CopilotCli(folder)
    with model_server(copilot.answer) as model:
        take = model.take

        def take_bare(api: Any, key: str, body: Json) -> Any:
            return take(api, key, {**body, "messages": list(map(_bare, body["messages"]))})

        model.take = take_bare  # type: ignore[method-assign]
        copilot.environment["COPILOT_PROVIDER_BASE_URL"] = f"{model.address}/v1"
        yield copilot
        assert not model.faults


def _bare(message: Json) -> Json:
    return {key: value for key, value in message.items() if not key.startswith(_OF_COPILOT)}
