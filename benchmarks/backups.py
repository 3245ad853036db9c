"""What it costs to back up all sessions of a user, for the first time and with nothing new.

    python -m benchmarks.backups [--sessions N] [--size BYTES] [--rounds N]

The home is that of `benchmarks.homes`; so many sessions of agents are in it. Each run is a process
of its own. Measured are the first backup, one with nothing new, one with nothing new and no cache,
and one after one session grew. Figures are medians of the processor's time and of the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.homes import STORE, make_home, spent

OLD = 3600.0
"""Seconds since the last change of the files, so that their times can be relied on."""


def make(home: Path, count: int, size: int) -> None:
    """Make a home with so many sessions of agents."""
    make_home(home, count * 5 // 4, size)  # a fifth of it is sessiontree's own
    shutil.rmtree(home / STORE)
    then = time.time() - OLD
    for path in home.rglob("*"):
        os.utime(path, (then, then))


def grow(home: Path, number: int) -> None:
    """Let Claude Code write one more prompt."""
    file = min((home / ".claude").rglob("*.jsonl"))
    line = json.loads(file.read_text().splitlines()[-1])
    more = {**line, "uuid": f"{number:08}-0000-4000-8000-000000000000", "parentUuid": line["uuid"]}
    with file.open("a") as opened:
        opened.write(json.dumps(more) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        make(home, options.sessions, options.size)
        first, clock = spent(home, "backup")
        kept = sum(1 for _ in (home / STORE).rglob("*.jsonl"))
        print(f"first, {kept} sessions | {first * 1000:.0f} ms | {clock * 1000:.0f} ms")
        spent(home, "backup")
        cache = home / ".cache"
        rounds: dict[str, Callable[[int], object]] = {
            "nothing new": lambda number: None,
            "one session grew": lambda number: grow(home, number),
            "nothing new, no cache": lambda number: shutil.rmtree(cache),
        }
        for name, prepare in rounds.items():
            times = []
            for number in range(options.rounds):
                prepare(number)
                times.append(spent(home, "backup"))
            used, clock = (median(each) * 1000 for each in zip(*times, strict=True))
            print(f"{name} | {used:.0f} ms | {clock:.0f} ms")


if __name__ == "__main__":
    main()
