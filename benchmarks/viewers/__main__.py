"""Viewers of sessions, measured beside sessiontree in one run.

    python -m benchmarks.viewers FOLDER [--sizes 1,10,100] [--session FILE] [--only NAME …]
    python -m benchmarks.viewers FOLDER --terminal

FOLDER gets the viewers (a Python environment and a folder of Node) and stays for the next run. The
session is a transcript of Claude Code, made by this program or given as FILE, and repeated to each
size. pi gets it as a session of its own, converted by sessiontree. Each figure is of one run.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.viewers import sessions, terminal
from benchmarks.viewers.browser import Look, look, memory_of
from benchmarks.viewers.installs import Installed, installed
from benchmarks.viewers.programs import OTHERS, OURS, Failed, Ready, Viewer, program_of, started

_HEAD = (
    "viewer|MB|make or start, s|memory of that, MB|output|readable, s|loaded, s|heap, MB|"
    "renderer, MB|nodes"
)


def main() -> None:
    options = _options()
    say = _said
    print(f"{_machine()}\n")
    if options.terminal:
        for row in terminal.rows(installed(options.folder, say), options.sessions, say):
            print(row, flush=True)
        return
    installs = installed(options.folder, say)
    lines = (
        sessions.read(options.session) if options.session else sessions.made(turns=options.turns)
    )
    print(f"|{_HEAD}|\n|{'---|' * (_HEAD.count('|') + 1)}")
    for size in options.sizes:
        for viewer in (*OURS, *OTHERS):
            if options.only and viewer.name not in options.only:
                continue
            print(_row(viewer, program_of(viewer, installs), lines, size), flush=True)


def _row(viewer: Viewer, program: Installed, lines: list[sessions.Line], size: float) -> str:
    title = f"{program.title} | {size:g}"
    if program.missing:
        return f"| {title} | not installed: {program.missing} |"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        file = sessions.home_of(home, lines, size)
        if viewer.name == "pi":
            file = _converted(file, home / "session.jsonl")
        try:
            with started(viewer, program.command, home, file) as ready:
                found = look(ready.url, viewer.click, viewer.seen, viewer.whole)
                return _shown(title, ready, found)
        except Failed as error:
            return f"| {title} | {error} |"


def _shown(title: str, ready: Ready, found: Look) -> str:
    memory = ready.memory or memory_of(ready.process or 0, "VmHWM")
    files = f" in {ready.files} files" if ready.files > 1 else ""
    output = f"{ready.output / 1e6:.2f} MB{files}" if ready.output else "none"
    made = f"{ready.seconds:.2f} | {memory:.0f} | {output}"
    if found.told:
        return f"| {title} | {made} | {found.told} |"
    times = f"{found.seconds:.2f} | {found.loaded:.2f}"
    seen = f"{times} | {found.heap:.1f} | {found.renderer:.0f} | {found.nodes:,}"
    return f"| {title} | {made} | {seen} |"


def _converted(file: Path, made: Path) -> Path:
    command = [sys.executable, "-m", "sessiontree", "convert", "--to", "pi", str(file)]
    subprocess.run([*command, "-o", str(made)], check=True, capture_output=True)
    return made


def _machine() -> str:
    chromium = shutil.which("chromium")
    told = subprocess.run([chromium or "chromium", "--version"], capture_output=True, text=True)
    version = " ".join(told.stdout.split()[:2])
    day = datetime.now(UTC).date().isoformat()
    return f"{day}, {platform.system()}, Python {platform.python_version()}, {version}"


def _said(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> Any:
    given = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given.add_argument("folder", type=Path)
    given.add_argument(
        "--sizes", type=_sizes, default=[1, 10, 100], help="MB, for example 1,10,100"
    )
    given.add_argument("--session", type=Path, help="the transcript to repeat")
    given.add_argument("--turns", type=int, default=12, help="prompts after which it repeats")
    given.add_argument("--only", nargs="*", help="the names of viewers")
    given.add_argument("--terminal", action="store_true", help="measure the terminal interfaces")
    given.add_argument("--sessions", type=int, default=1000, help="sessions in the terminal")
    return given.parse_args()


def _sizes(text: str) -> list[float]:
    return [float(size) for size in text.split(",")]


if __name__ == "__main__":
    main()
