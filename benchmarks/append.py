"""What an append costs, against the bare calls of the system and against SQLite.

    python benchmarks/append.py [--folder FOLDER] [--rounds N]

Writers of one process take turns, some appends each: a bare `os.write`, with
`os.fdatasync` where it syncs, of the very bytes that a session writes; a session;
a table of SQLite that takes the same lines as rows, one commit each. Times
are the clock's, for that is what a caller waits. Where the disk is waited for, a
figure is the median of the rounds, and a ratio that of each round's ratio to the
bare one; where nothing is, each figure is that of the fastest turn, for whatever
else the machine does only adds to it. Beside a session only the *least* encodes anything: the
fewest calls in Python that make and write a line of the format, with no look at what
others do and nothing kept for a reader. No session written in Python can cost less.
The turns begin when the folder of a session counts as settled, as it does for all but the
first seconds of one (`storage.lock`).
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Final, Literal
from zlib import crc32

import orjson

from sessiontree import Session
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.storage.lock import SETTLED_SECONDS

Durability = Literal["fsync", "os"]
Message = dict[str, str]
Append = Callable[[int], object]
"""Appends the message with this number."""

SIZES: Final = (100, 1000, 2000)
"""Characters of a message; its line is about 250 bytes longer."""

APPENDS: Final[dict[Durability, int]] = {"fsync": 5, "os": 100}
"""The appends of one turn."""


def messages(size: int, count: int) -> list[Message]:
    """Messages of some characters, the same ones each time."""
    draw = random.Random(size)
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9)))
        for _ in range(500)
    ]
    texts = (" ".join(draw.choices(words, k=size // 3))[:size] for _ in range(count))
    return [{"role": "user", "content": text} for text in texts]


def lines_of(wanted: list[Message]) -> list[bytes]:
    """The lines, with their newlines, that a session writes for messages."""
    with Session.create(cwd="/project") as session:
        return [session.append_message(message).line + b"\n" for message in wanted]


@contextmanager
def bare(folder: Path, durability: Durability, lines: list[bytes]) -> Iterator[Append]:
    fd = os.open(folder / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(number: int) -> None:
        os.write(fd, lines[number])

    def write_and_sync(number: int) -> None:
        os.write(fd, lines[number])
        os.fdatasync(fd)

    try:
        yield write_and_sync if durability == "fsync" else write
    finally:
        os.close(fd)


@contextmanager
def least(folder: Path, durability: Durability, wanted: list[Message]) -> Iterator[Append]:
    """What any writer of the format must do in Python, and nothing else."""
    fd = os.open(folder / "least", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    parent = fresh_uuid()

    def write(number: int) -> None:
        nonlocal parent
        uuid = fresh_uuid()
        entry = {
            "type": "message",
            "uuid": uuid,
            "parentUuid": parent,
            "timestamp": now(),
            "message": wanted[number],
        }
        body = orjson.dumps(entry)[:-1]
        os.write(fd, b'%b,"crc":"%08x"}\n' % (body, crc32(body)))
        parent = uuid

    def write_and_sync(number: int) -> None:
        write(number)
        os.fdatasync(fd)

    try:
        yield write_and_sync if durability == "fsync" else write
    finally:
        os.close(fd)


@contextmanager
def session(
    folder: Path, durability: Durability, wanted: list[Message], *, exclusive: bool
) -> Iterator[Append]:
    file = folder / "session.jsonl"
    opened = Session.create(file, cwd="/project", durability=durability, exclusive=exclusive)
    with opened:
        append = opened.append_message
        yield lambda number: append(wanted[number])


@contextmanager
def sqlite(folder: Path, durability: Durability, lines: list[bytes]) -> Iterator[Append]:
    """A table of the lines by uuid; a transaction for each row."""
    table = sqlite3.connect(folder / "sqlite.db", isolation_level=None)
    table.execute("PRAGMA journal_mode=WAL")
    table.execute(f"PRAGMA synchronous={'FULL' if durability == 'fsync' else 'NORMAL'}")
    table.execute("CREATE TABLE entries (uuid TEXT PRIMARY KEY, parent TEXT, line BLOB)")

    def insert(number: int) -> None:
        row = (os.urandom(16).hex(), os.urandom(16).hex(), lines[number])
        table.execute("INSERT INTO entries VALUES (?, ?, ?)", row)

    try:
        yield insert
    finally:
        table.close()


def seconds(append: Append, count: int) -> float:
    """The time of one append, in the mean of a turn."""
    started = time.perf_counter()
    for number in range(count):
        append(number)
    return (time.perf_counter() - started) / count


def measure(folder: Path, durability: Durability, size: int, rounds: int) -> dict[str, list[float]]:
    """The seconds of one append by each writer, round by round."""
    count = APPENDS[durability]
    wanted = messages(size, count)
    lines = lines_of(wanted)
    with ExitStack() as opened:
        inside = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        for name in ("shared", "exclusive"):  # what others make in a folder makes a session look
            (inside / name).mkdir()
        writers = {
            "bare": bare(inside, durability, lines),
            "least": least(inside, durability, wanted),
            "session": session(inside / "shared", durability, wanted, exclusive=False),
            "exclusive": session(inside / "exclusive", durability, wanted, exclusive=True),
            "SQLite": sqlite(inside, durability, lines),
        }
        appends = {name: opened.enter_context(writer) for name, writer in writers.items()}
        times: dict[str, list[float]] = {name: [] for name in appends}
        for append in appends.values():
            seconds(append, 3)
        time.sleep(SETTLED_SECONDS + 1)
        for append in appends.values():
            seconds(append, 3)
        for _ in range(rounds):
            for name, append in appends.items():
                times[name].append(seconds(append, count))
    return times


def row(durability: Durability, size: int, times: dict[str, list[float]]) -> str:
    """One row of the table: the bare time, then each writer's time and its ratio."""
    typical = median if durability == "fsync" else min
    bare_time = typical(times["bare"])
    cells = [durability, str(size), f"{bare_time * 1e6:.1f} µs ({1 / bare_time:,.0f}/s)"]
    for name in ("least", "session", "exclusive", "SQLite"):
        ours = typical(times[name])
        if durability == "fsync":
            ratio = median(map(truediv, times[name], times["bare"]))
        else:
            ratio = ours / bare_time
        cells.append(f"{ours * 1e6:.1f} µs ({1 / ours:,.0f}/s), {ratio:.2f}")
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to write; by default a temporary one")
    parser.add_argument("--rounds", type=int, default=200, help="the turns of each writer")
    options = parser.parse_args()
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores\n"
    )
    print("durability | characters | bare | least | session | exclusive=True | SQLite WAL")
    print("--- | --- | --- | --- | --- | --- | ---")
    for durability in APPENDS:
        for size in SIZES:
            times = measure(options.folder, durability, size, options.rounds)
            print(row(durability, size, times), flush=True)


if __name__ == "__main__":
    main()
