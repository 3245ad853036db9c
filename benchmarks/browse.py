"""How soon the browser in the terminal shows something, in a terminal of 80 by 24.

    python -m benchmarks.browse [--sessions N] [--rounds N]

Each run is a process of its own in a pseudo-terminal, from the start of the process to the bytes on
the terminal, by the clock and by the processor. `first paint` is the frame; `list` the rows of all
sessions; `keys` the answer to a key that was typed ahead; `turns` the last turns of a session of
200 MB, and of a transcript of Claude Code of 150 MB; `outline` its whole outline. Figures are
medians.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks import corpus
from benchmarks.viewers import sessions

_LIMIT: Final = 60.0  # seconds

Sign = tuple[str, bytes]
"""A name, and the bytes on the terminal that it is about."""


def make_sessions(folder: Path, count: int) -> None:
    """A folder with so many sessions of about 20 KB."""
    folder.mkdir(parents=True)
    for number, lines in enumerate(islice(corpus.sessions(10), count)):
        (folder / f"{number}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def _processor(process: int) -> float:
    """The seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_until(
    arguments: Sequence[str], typed: bytes, signs: Sequence[Sign]
) -> dict[str, tuple[float, float]]:
    """The seconds of the clock and of the processor until each sign is on the terminal."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "sessiontree", "browse", *arguments]
    start = perf_counter()
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    os.write(control, typed)
    found: dict[str, tuple[float, float]] = {}
    screen = b""
    while len(found) < len(signs) and perf_counter() - start < _LIMIT:
        ready, _, _ = select.select([control], [], [], 1)
        if not ready:
            continue
        screen += os.read(control, 65536)
        for name, sign in signs:
            if name not in found and sign in screen:
                found[name] = perf_counter() - start, _processor(process.pid)
    process.kill()
    process.wait()
    os.close(control)
    return found


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--sessions", type=int, default=1000)
    given.add_argument("--rounds", type=int, default=5)
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_sessions(folder / "many", options.sessions)
        corpus.make_file("compacted", folder)
        large = corpus.path_of("compacted", folder)
        foreign = folder / "foreign.jsonl"
        sessions.write(foreign, sessions.made(), 150)
        listing: list[Sign] = [
            ("first paint", b"reading"),
            ("list", f"{options.sessions:,} sessions".encode()),
            ("keys", b"0 of "),
        ]
        opening: list[Sign] = [
            ("first paint", b"reading"),
            ("turns", "●".encode()),
            ("outline", b"benchmar "),
        ]
        runs = {
            f"{options.sessions:,} sessions": ([str(folder / "many")], b"qzqzqz", listing),
            "a session of 200 MB": ([str(large)], b"", opening),
            "Claude Code, 150 MB": ([str(foreign)], b"", opening[:2]),
        }
        for name, (arguments, typed, signs) in runs.items():
            found = [seconds_until(arguments, typed, signs) for _ in range(options.rounds)]
            for sign, _ in signs:
                times = [each[sign] for each in found if sign in each]
                if len(times) < len(found):
                    print(f"{name:<22} {sign:<12} not seen")
                    continue
                clock, processor = (median(each) for each in zip(*times, strict=True))
                print(f"{name:<22} {sign:<12} {clock:.2f} s, processor {processor:.2f} s")


if __name__ == "__main__":
    main()
