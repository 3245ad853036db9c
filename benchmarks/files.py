"""What it costs to tell who wrote the lines of a file, against a search for its name.

    python -m benchmarks.files [--sessions N] [--size BYTES] [--rounds N]

A home is made as in `benchmarks.homes`, and a project in a git repository: a file of 2,000 lines
with 40 commits. In 40 sessions of Claude Code, an agent makes ten edits of the file each. `blame`,
`history --stat` and `search` for the name of the file run as processes of their own, in turns.
Figures are medians of the processor's time, of the clock's, and of the ratio to the search.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.homes import make_home, spent

NAME: Final = "dispatch_table.py"
LINES: Final = 2000
SESSIONS: Final = 40
EDITS: Final = 10
START: Final = datetime(2026, 3, 1, tzinfo=UTC)


def make_project(home: Path) -> Path:
    """Make the project, and the edits of its file in sessions that are there."""
    project = home / "work" / "app"
    project.mkdir(parents=True)
    file = project / NAME
    lines = [f"rule_{number} = compute({number}, {number * 7 % 31})" for number in range(LINES)]
    _commit(project, file, lines, START, "init")
    transcripts = sorted((home / ".claude/projects").rglob("*.jsonl"))[:SESSIONS]
    for number, transcript in enumerate(transcripts):
        at = START + timedelta(hours=number + 1)
        with transcript.open("a", encoding="utf-8") as out:
            for turn in range(EDITS):
                where = (number * 37 + turn * 11) % LINES
                old = lines[where]
                lines[where] = f"rule_{where} = compute({number}, {turn})  # session {number}"
                for line in _turn(project, file, f"{number}-{turn}", old, lines[where], at):
                    out.write(json.dumps(line) + "\n")
                at += timedelta(minutes=1)
        _commit(project, file, lines, at, "commit")
    return file


def _turn(
    project: Path, file: Path, name: str, old: str, new: str, at: datetime
) -> list[dict[str, Any]]:
    """A prompt, the call that edits the file, and its result."""
    prompt, call, result = (f"{kind}-{name}" for kind in ("prompt", "call", "result"))
    shared = {"cwd": str(project), "isSidechain": False, "version": "2.1.300", "sessionId": "s"}
    swap = {"file_path": str(file), "old_string": old, "new_string": new}
    tool = {"type": "tool_use", "id": f"toolu_{name}", "name": "Edit", "input": swap}
    done = {"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": "Updated."}
    stamps = [(at + timedelta(seconds=more)).isoformat() for more in range(3)]
    made: list[dict[str, Any]] = [
        {"type": "user", "uuid": prompt, "message": {"role": "user", "content": f"Do {name}"}},
        {
            "type": "assistant",
            "uuid": call,
            "message": {"role": "assistant", "model": "claude-opus-4-6", "content": [tool]},
        },
        {"type": "user", "uuid": result, "message": {"role": "user", "content": [done]}},
    ]
    parents = (None, prompt, call)
    return [
        {**line, **shared, "parentUuid": parent, "timestamp": stamp}
        for line, parent, stamp in zip(made, parents, stamps, strict=True)
    ]


def _commit(project: Path, file: Path, lines: list[str], at: datetime, how: str) -> None:
    file.write_text("".join(f"{line}\n" for line in lines))
    who = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": at.isoformat()}
    known = {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", how]):
        if words[0] != "init" or how == "init":
            environment = {**os.environ, **known, "GIT_CONFIG_GLOBAL": os.devnull}
            subprocess.run(["git", *words], cwd=project, env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home, options.sessions, options.size)
        file = str(make_project(home))
        cases = {
            "search": ("search", NAME),
            "blame": ("blame", file),
            "history": ("history", file, "--stat"),
        }
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for number in range(options.rounds + 1):
            for name, words in cases.items():
                times = spent(home, *words)
                if number:  # the first round reads the files into memory
                    took[name].append(times)
    for name, all_times in took.items():
        processor, clock = (median(times) for times in zip(*all_times, strict=True))
        ratios = [
            one / other for (one, _), (other, _) in zip(all_times, took["search"], strict=True)
        ]
        print(
            f"{name} | {processor * 1000:.0f} ms | {clock * 1000:.0f} ms by the clock | "
            f"{median(ratios):.2f} of the search"
        )


if __name__ == "__main__":
    main()
