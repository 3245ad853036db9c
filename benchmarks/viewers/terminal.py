"""The terminal interfaces: how soon something is on the screen, and the sessions are.

Each runs in a pseudo-terminal of 80 by 24, in a new home folder, so that nothing is kept from an
earlier run; a second run shows what its index or its cache is worth.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.viewers import sessions
from benchmarks.viewers.browser import memory_of
from benchmarks.viewers.installs import Installed

_LIMIT: Final = 120.0
_CONTROL: Final = re.compile(rb"\x1b(\[[0-9;?<>=$ ]*[A-Za-z~]|[\]P_^][^\x07\x1b]*(\x07|\x1b\\)?|.)")
_PAINTED: Final = 20
"""Characters that are not blank, by which something is on the screen."""

_TITLE: Final = sessions.PROMPT.encode()


def rows(
    installs: Mapping[str, Installed], count: int, say: Callable[[str], None]
) -> Iterator[str]:
    """The rows of a table."""
    head = f"{count:,} sessions|first paint, s|list, s|memory, MB|again: first paint, s|list, s"
    yield f"|{head}|"
    yield f"|{'---|' * (head.count('|') + 1)}"
    ours = Installed("sessiontree browse", (sys.executable, "-m", "sessiontree"))
    programs = {
        ours.title: (ours, ("browse",)),
        "fast-resume": (installs["fast-resume"], ("--no-images", "--theme", "dark")),
        "claude-code-log": (installs["claude-code-log"], ("--tui",)),
    }
    for program, words in programs.values():
        if program.missing:
            yield f"| {program.title} | not installed: {program.missing} |"
            continue
        with tempfile.TemporaryDirectory() as folder:
            sessions.home_of_many(Path(folder), count)
            found = [_painted([*program.command, *words], Path(folder)) for _ in range(2)]
        shown = " | ".join(f"{_seconds(paint)} | {_seconds(list_)}" for paint, list_, _ in found)
        first, _, second = shown.partition(" | ")
        cold, _, warm = second.partition(" | ")
        yield f"| {program.title} | {first} | {cold} | {found[0][2]:.0f} | {warm} |"
    yield _indexed(installs["agentsview"], count)


def _seconds(found: float | None) -> str:
    return f"not in {_LIMIT:.0f} s" if found is None else f"{found:.2f}"


def _environment(home: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "PYTHONPATH") if key in os.environ}
    about = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "TERM": "xterm-256color"}
    return {**kept, **about}


def _painted(command: Sequence[str], home: Path) -> tuple[float | None, float | None, float]:
    """The seconds until something is on the screen, and a session; the memory in MB then."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=_environment(home), cwd=home
    )
    os.close(terminal)
    screen, memory, painted, listed = b"", 0.0, None, None
    while listed is None and time.perf_counter() - began < _LIMIT:
        ready, _, _ = select.select([control], [], [], 1)
        if ready:
            try:
                screen += os.read(control, 65536)
            except OSError:  # the program ended
                break
            if painted is None and len(_CONTROL.sub(b"", screen).split()) >= 3:
                painted = time.perf_counter() - began
            if _TITLE in screen:
                listed = time.perf_counter() - began
        memory = memory_of(process.pid, "VmHWM") or memory
    process.kill()
    process.wait()
    os.close(control)
    return painted, listed, memory


def _indexed(program: Installed, count: int) -> str:
    """agentsview has no interface in the terminal: the time of its index."""
    if program.missing:
        return f"| {program.title} | not installed: {program.missing} |"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sessions.home_of_many(home, count)
        took: list[float] = []
        for _ in range(2):
            began = time.perf_counter()
            subprocess.run(
                [*program.command, "sync"], env=_environment(home), check=True, capture_output=True
            )
            took.append(time.perf_counter() - began)
    return f"| {program.title} (`sync`) | | {took[0]:.2f} | | | {took[1]:.2f} |"
