"""Makes `fixtures/agents/kimi`: `KIMI=… python -m tests.agents.kimi_samples`.

The real Kimi Code plays one session with parallel calls, one of which fails, edits and a subagent,
and a fork of it. Long texts and paths are replaced.
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

PROGRAM: Final = os.environ.get("KIMI", "")
"""The program `kimi` of the npm package `@moonshot-ai/kimi-code`, for Node 22; empty without it."""

VERSION: Final = "2.1.0"
SAMPLES: Final = Path(__file__).parents[2] / "fixtures" / "agents" / "kimi" / VERSION


def _answers(notes: Path) -> list[list[Json]]:
    read = call("Read", path=str(notes))
    say = call("Bash", command="echo two; exit 3")
    old, new = "Retries hammer the API.", "Retries wait twice as long each time."
    edit = call("Edit", path=str(notes), old_string=old, new_string=new)
    made = call("Write", path=str(notes.with_name("new.md")), content="A new file\n")
    count = call("Agent", prompt="Count the lines of notes.md", description="Count lines")
    return [
        [text("I read the notes."), read, say],
        [text("Now I add a line."), edit, made],
        [text("A helper counts."), count],
        [text("Two lines.")],
        [text("The notes now say that retries back off.")],
    ]


def main() -> None:
    if not PROGRAM:
        sys.exit("Kimi Code is not installed: set KIMI to the path of its program")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / ".kimi-code"

        def runs(url: str) -> Any:
            home.mkdir()
            provider = f'type = "openai"\nbase_url = "{url}"\napi_key = "x"\n'
            model = 'provider = "fake"\nmodel = "fake-1"\nmax_context_size = 100000\n'
            (home / "config.toml").write_text(
                f'default_model = "fake-1"\n[providers.fake]\n{provider}[models.fake-1]\n{model}'
            )
            yield ["-p", PROMPT]
            (session,) = home.glob("sessions/wd_*/session_*")
            yield ["fork", session.name]

        project = played(PROGRAM, Path(folder), runs, _answers)
        for file in home.glob("sessions/wd_*/*/**/*.json*"):
            if file.name not in ("wire.jsonl", "state.json"):
                continue
            lines = file.read_text().replace(str(project), SHOWN).splitlines()
            made = [cleaned(json.loads(line), folder, "/home/user", DAY) for line in lines]
            for line in made:
                if "tools" in line:
                    line["tools"] = []
            target = SAMPLES / file.relative_to(home / "sessions")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(json.dumps(line) + "\n" for line in made))
    sys.stdout.write(f"{SAMPLES}\n")


if __name__ == "__main__":
    shutil.rmtree(SAMPLES, ignore_errors=True)
    main()
