"""How fast a session file is looked over, against reading it.

    python -m benchmarks.verify [--keep FOLDER] [--runs N]

Takes turns at `Session.verify` and a plain read of the same file, and prints the
medians of the processor's time, and the best: the file is in memory after the
first read, and whatever else the machine does only adds to a time.
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

BLOCK = 256 * 1024


def read(file: Path) -> None:
    """Read a file from its start to its end, and keep nothing."""
    with open(file, "rb", buffering=0) as opened:
        while opened.read(BLOCK):
            pass


def verify(file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []


def seconds(act: Callable[[Path], None], file: Path) -> float:
    started = time.process_time()
    act(file)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="keep the session files here, for the next time")
    parser.add_argument("--runs", type=int, default=7, help="the turns of each")
    options = parser.parse_args()
    print("file | verify | a plain read | ratio")
    print("--- | --- | --- | ---")
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("compacted", "branched"):
            file = corpus.path_of(name, folder)
            if not file.exists():
                corpus.make_file(name, folder)
            read(file)
            ours, theirs = [], []
            for _ in range(options.runs):
                theirs.append(seconds(read, file))
                ours.append(seconds(verify, file))
            size = file.stat().st_size / 1e6
            speeds = (
                f"{size / median(times):,.0f} MB/s, best {size / min(times):,.0f}"
                for times in (ours, theirs)
            )
            print(name, *speeds, f"{median(ours) / median(theirs):.1f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
