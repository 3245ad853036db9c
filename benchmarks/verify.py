"""How fast a session file is looked over, against reading it.

    python -m benchmarks.verify [--keep FOLDER] [--runs N]

Takes turns at `Session.verify` by one process and by several, and a plain read of the
same file, and prints the medians by the clock, and the best: the file is in memory after
the first read, and whatever else the machine does only adds to a time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import corpus
from sessiontree import Session
from sessiontree.operations.workers import available

BLOCK = 256 * 1024


def read(file: Path) -> None:
    """Read a file from its start to its end, and keep nothing."""
    with open(file, "rb", buffering=0) as opened:
        while opened.read(BLOCK):
            pass


def verify(file: Path) -> None:
    """As `Session.verify` does, unless it is told otherwise."""
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []


def verify_shared(file: Path) -> None:
    """As the command does: by as many processes as there are processors."""
    with Session.open(file, readonly=True) as session:
        assert session.verify(processes=None) == []


def seconds(act: Callable[[Path], None], file: Path) -> float:
    started = time.perf_counter()
    act(file)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="keep the session files here, for the next time")
    parser.add_argument("--runs", type=int, default=7, help="the turns of each")
    options = parser.parse_args()
    print(f"file | one process | {available()} processes | a plain read | ratio to it")
    print("--- | --- | --- | --- | ---")
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("compacted", "branched"):
            file = corpus.path_of(name, folder)
            if not file.exists():
                corpus.make_file(name, folder)
            read(file)
            times: dict[str, list[float]] = {}
            for _ in range(options.runs):
                for act in (verify, verify_shared, read):
                    times.setdefault(act.__name__, []).append(seconds(act, file))
            size = file.stat().st_size / 1e6
            speeds = (
                f"{size / median(one):,.0f} MB/s, best {size / min(one):,.0f}"
                for one in times.values()
            )
            ratio = median(times["verify_shared"]) / median(times["read"])
            print(name, *speeds, f"{ratio:.1f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
