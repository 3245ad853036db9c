"""What the machine and the language can do: the measures that are no peers.

Rows in an SQLite table of their own, or bytes by the system's calls: the lines
that sessiontree would write for the same messages, made beforehand.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Final

from benchmarks.peers.drivers.corpus_folder import (
    Corpus,
    Figures,
    Job,
    Stopwatch,
    main,
    small_messages,
)


def _lines(corpus: Corpus, variant: str) -> list[bytes]:
    from benchmarks.peers.drivers.ours import SMALL
    from sessiontree import Session

    with Session.create() as session:
        for message in small_messages(SMALL) if variant == "small" else corpus.messages():
            session.append_message(message)
        return [entry.line + b"\n" for entry in session.entries()]


def write(sync: bool) -> Job:
    def job(corpus: Corpus, variant: str) -> Figures:
        lines = _lines(corpus, variant)
        watch = Stopwatch()
        fd = os.open(corpus.folder / "bare.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, lines[0])
        with watch.running():
            for line in lines[1:]:
                os.write(fd, line)
                if sync:
                    os.fdatasync(fd)
        os.close(fd)
        return watch.figures(count=len(lines) - 1)

    return job


def insert(synchronous: str) -> Job:
    """A row and a commit for each, in the log mode that is fastest."""

    def job(corpus: Corpus, variant: str) -> Figures:
        lines = _lines(corpus, variant)
        watch = Stopwatch()
        with contextlib.closing(sqlite3.connect(corpus.folder / "bare.db")) as connection:
            connection.execute("PRAGMA log_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, line BLOB)")
            with watch.running():
                for line in lines[1:]:
                    connection.execute("INSERT INTO entries (line) VALUES (?)", (line,))
                    connection.commit()
        return watch.figures(count=len(lines) - 1)

    return job


JOBS: Final[dict[str, Job]] = {
    "write-os": write(sync=False),
    "write-fsync": write(sync=True),
    "sqlite-os": insert("NORMAL"),
    "sqlite-fsync": insert("FULL"),
}

if __name__ == "__main__":
    main(JOBS)
