"""Drives the real OpenCode, or Kilo CLI, offline, against a model that is made here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from tests.agents.qwen_driver import Json, text
from tests.examples.model_server import model_server

PROGRAM: Final = os.environ.get("OPENCODE", "")
"""The program `opencode` of the npm package `opencode-linux-x64`; empty without it."""

WAIT: Final = 300.0
"""Seconds after which a run is taken for dead."""

_PLUGINS: Final = ("@opencode-ai/plugin", "@kilocode/plugin")
_VARIABLES: Final = (
    *("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENCODE_DB", "KILO_DB"),
)


class OpenCode:
    """OpenCode with a home of its own.

    Attributes:
        home: the user's home, which has OpenCode's database in it.
        project: the working directory.
        requests: the messages of each request with tools, in order.
        answers: the blocks of the next answers to such requests; then it says that it is done.
    """

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        self.home = folder
        self.name = Path(program).name
        self.project = folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.requests: list[list[Json]] = []
        self.answers: deque[list[Json]] = deque()
        kept = {key: value for key, value in os.environ.items() if key not in _VARIABLES}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "PWD": str(self.project),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        self._program = program

    def work_in(self, project: Path) -> None:
        """Let it work in another folder; the variable tells it, too."""
        self.project = project
        self.environment["PWD"] = str(project)

    @property
    def database(self) -> Path:
        return self.home / ".local/share" / self.name / f"{self.name}.db"

    def answer(self, api: str, body: Json) -> list[Json]:
        if not body.get("tools"):
            return [text("A summary of the notes.")]
        self.requests.append(body["messages"])
        return self.answers.popleft() if self.answers else [text("All done.")]

    def reached(self, address: str) -> None:
        """Let it ask the model at an address."""
        model = {
            "name": "Fake",
            "tool_call": True,
            "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
            "limit": {"context": 100_000, "output": 1000},
            "cost": {"input": 1, "output": 4, "cache_read": 0.1},
        }
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{address}/v1", "apiKey": "none"},
            "models": {"fake-1": model},
        }
        settings = {
            "model": "fake/fake-1",
            "small_model": "fake/fake-1",
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
            "enabled_providers": ["fake"],
            "provider": {"fake": provider},
        }
        file = self.home / ".config" / self.name / "opencode.json"
        if file.exists():
            shutil.rmtree(file.parent)
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
        (file.parent / "node_modules").mkdir()  # or it asks the registry for its plugins
        plugins = {"dependencies": dict.fromkeys(_PLUGINS, "1")}
        (file.parent / "package-lock.json").write_text(json.dumps({"packages": {"": plugins}}))

    def call(self, *arguments: str) -> str:
        """Run a command to its end; gives what it prints."""
        done = subprocess.run(
            [self._program, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    @contextmanager
    def served(self) -> Iterator[Callable[..., Any]]:
        """A server of it, by which one process plays many prompts; gives what asks it."""
        command = [self._program, "serve", "--port", "0"]
        with subprocess.Popen(
            command,
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            said = iter(process.stdout.readline, b"")
            address = next(found[0] for line in said if (found := _ADDRESS.search(line.decode())))
            try:
                yield partial(_ask, address)
            finally:
                process.kill()
                process.stdout.close()


_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")


def _ask(address: str, path: str, body: Json | None = None) -> Any:
    """What the server answers to a POST of JSON, or to a GET without any."""
    content = None if body is None else json.dumps(body).encode()
    request = Request(f"{address}{path}", content, {"Content-Type": "application/json"})
    with urlopen(request, timeout=WAIT) as answer:
        said = answer.read()
    return json.loads(said) if said else None


@contextmanager
def running(folder: Path, program: str = PROGRAM) -> Iterator[OpenCode]:
    opencode = OpenCode(folder, program)
    with model_server(opencode.answer) as model:
        opencode.reached(model.address)
        yield opencode
        assert not model.faults
