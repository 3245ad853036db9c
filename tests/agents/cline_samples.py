"""Makes `fixtures/agents/cline`: `CLINE=… python -m tests.agents.cline_samples`.

The real Cline plays one session with parallel calls, failed ones, edits and a subagent.
Long texts and paths are replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.agents.cleaning import DAY, cleaned
from tests.agents.played import PROMPT, SHOWN, played
from tests.agents.qwen_driver import Json, call, text

PROGRAM: Final = os.environ.get("CLINE", "")
"""The program `cline` of the npm package `cline`; empty without it."""

SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "cline"


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


def _runs(url: str) -> list[list[str]]:
    model = ["-k", "x", "-m", "fake-1", "-b", url]
    return [["auth", "-p", "openai-compatible", *model], [PROMPT]]


def main() -> None:
    if not PROGRAM:
        sys.exit("Cline is not installed: set CLINE to the path of its program")
    with tempfile.TemporaryDirectory() as folder:
        project = played(PROGRAM, Path(folder), _runs, _answers)
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
    sys.stdout.write(f"{SAMPLES / version}\n")


if __name__ == "__main__":
    shutil.rmtree(SAMPLES, ignore_errors=True)
    main()
