"""Makes `fixtures/agents/cline`: `CLINE=… python -m tests.agents.cline_samples`.

The real Cline plays one session with parallel calls, failed ones, edits and a subagent.
Long texts and paths are replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.agents.cleaning import DAY, cleaned
from tests.agents.qwen_driver import WAIT, Json, call, text
from tests.examples.model_server import model_server

PROGRAM: Final = os.environ.get("CLINE", "")
"""The program `cline` of the npm package `cline`; empty without it."""

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "cline"
SHOWN: Final = "/home/user/project"
PROMPT: Final = "Why do our retries hammer the API? Fix the notes."


def _answers(notes: Path) -> list[list[Json]]:
    read = call("read_files", files=[{"path": str(notes)}, {"path": "/none.md"}])
    say = call("run_commands", commands=["echo two calls at once", "exit 3"])
    old, new = "Retries hammer the API.", "Retries wait twice as long each time."
    edit = call("editor", path=str(notes), old_text=old, new_text=new)
    fails = call("editor", path=str(notes), old_text="not there", new_text="x")
    made = call("editor", path=str(notes.with_name("new.md")), new_text="A new file\n")
    count = call("spawn_agent", task="Count the lines of notes.md", systemPrompt="You count.")
    return [
        [text("I read the notes."), read, say],
        [text("Now I add a line."), edit, fails, made],
        [text("A helper counts."), count],
        [text("Two lines.")],
        [text("The notes now say that retries back off.")],
    ]


def main() -> None:
    if not PROGRAM:
        sys.exit("Cline is not installed: set CLINE to the path of its program")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        notes = project / "notes.md"
        notes.write_text("# Notes\nRetries hammer the API.\n")
        answers = iter(_answers(notes))
        environ = {**os.environ, "HOME": folder}

        def run(*arguments: str) -> None:
            command = [PROGRAM, *arguments]
            nothing = subprocess.DEVNULL
            subprocess.run(
                command, cwd=project, env=environ, stdin=nothing, stdout=nothing, timeout=WAIT
            )

        def answer(api: str, body: Json) -> list[Json]:
            return next(answers, [text("All done.")]) if body.get("tools") else [text("Notes")]

        with model_server(answer) as model:
            url = model.environment()["OPENAI_BASE_URL"]
            run("auth", "-p", "openai-compatible", "-k", "x", "-m", "fake-1", "-b", url)
            run(PROMPT)
        version = "unknown"
        for file in sorted((Path(folder) / ".cline/data/sessions").glob("*/*.json"), reverse=True):
            told = json.loads(file.read_text().replace(str(project), SHOWN))
            found: Any = cleaned(told, folder, "/home/user", DAY, longest=1000)
            if "messages" in found:
                found["system_prompt"] = "You are Cline."
                version = found["origin"]["version"]
            target = SAMPLES / version / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(found, indent=2))
    sys.stdout.write(f"{target.parent}\n")


if __name__ == "__main__":
    shutil.rmtree(SAMPLES, ignore_errors=True)
    main()
