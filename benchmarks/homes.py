"""What it costs to look at all sessions of a user: bare `ls`, `search` and `stats`.

    python -m benchmarks.homes [--sessions N] [--size BYTES] [--rounds N]

A home is made with sessions of all agents where those keep them, in the shares of
`benchmarks.mixed`, and 200 forks among the rollouts of Codex. Each command runs as a process of its
own, in turns with the same command that names the folders; the first run of each, which counts the
turns, is apart. Figures are medians of the processor's time, of the clock's, and of the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks import corpus
from benchmarks.mixed import USUAL, Fields, claude_code, codex, codex_compressed, gemini, pi

VARIABLES: Final = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"),
    *("GEMINI_CLI_HOME", "SESSIONTREE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"),
)
PLACES: Final = {
    claude_code: ("claude/projects", ".claude/projects"),
    codex: ("codex", ".codex/sessions"),
    codex_compressed: ("codex", ".codex/sessions"),
    gemini: ("gemini", ".gemini/tmp"),
    pi: ("pi", ".pi/agent/sessions"),
}
"""For each writer of `benchmarks.mixed` the folder it writes to, and where the agent keeps it."""

STORE: Final = ".local/share/sessiontree"
FORKS: Final = 200


def make_home(home: Path, count: int, size: int) -> None:
    """Make a home with so many sessions of about so many bytes."""
    made = home / "made"
    for number, lines in enumerate(islice(corpus.sessions(max(1, size // 2000)), count)):
        USUAL[number % len(USUAL)](made, [json.loads(line) for line in lines])
    for source, target in dict(PLACES.values()).items():
        if (made / source).exists():
            _move(made / source, home / target)
    _move(made, home / STORE)
    _make_forks(home / ".codex/sessions", FORKS * count // 1000)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)


def _make_forks(sessions: Path, count: int) -> None:
    """Let rollouts continue others, so that their first prompt is in another file."""
    rollouts = sorted(sessions.rglob("*.jsonl"))
    for parent, fork in zip(rollouts[:count], rollouts[-count:], strict=True):
        if parent == fork:
            continue
        first, *rest = fork.read_bytes().splitlines(keepends=True)
        meta: Fields = json.loads(first)
        end = {"end_ordinal_exclusive": 10**9, "end_byte_offset": parent.stat().st_size}
        meta["payload"]["history_base"] = {"thread_id": parent.stem[-36:], **end}
        fork.write_bytes(json.dumps(meta).encode() + b"\n" + b"".join(rest[3:]))


def spent(home: Path, *words: str) -> tuple[float, float]:
    """The processor's and the clock's time of a command."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, "-m", "sessiontree", *words]
    before, started = getrusage(RUSAGE_CHILDREN), perf_counter()
    subprocess.run(
        command,
        env={**kept, "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after, clock = getrusage(RUSAGE_CHILDREN), perf_counter() - started
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = options.keep or Path(temporary)
        if not (home / ".claude").exists():
            make_home(home, options.sessions, options.size)
        shutil.rmtree(home / ".cache", ignore_errors=True)
        for words in (("ls",), ("search", "needlezz"), ("search", "part-317"), ("stats",)):
            first, first_clock = spent(home, *words)
            bare, named = [], []
            for _ in range(options.rounds):
                bare.append(spent(home, *words))
                named.append(spent(home, *words, str(home)))
            ratio = median(one[0] / other[0] for one, other in zip(bare, named, strict=True))
            used, clock = (median(times) * 1000 for times in zip(*bare, strict=True))
            about = f"first {first * 1000:.0f} ms, {first_clock * 1000:.0f} ms by the clock"
            print(f"{' '.join(words)} | {used:.0f} ms | {clock:.0f} ms | {ratio:.2f} | {about}")


if __name__ == "__main__":
    main()
