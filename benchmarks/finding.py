"""What it costs to list sessions and to search them, near what the machine can do.

    python -m benchmarks.finding [--sessions N] [--size BYTES] [--rounds N]

Lists and searches run in this process and take turns with a plain read of the same
files and, where they are installed, with `rg` and `grep -F`, each in a process of
its own. Figures are the medians of the processor's time, user and system, of all
threads and processes, and of the clock's; the files are in memory after the first
round. `--keep FOLDER` keeps them for the next time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter

from benchmarks import corpus
from sessiontree import Store
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.operations.workers import available
from sessiontree.storage.names import session_files
from sessiontree.text.pattern import Pattern

BLOCK = 256 * 1024

Job = Callable[[], object]


def make_sessions(folder: Path, count: int, size: int) -> None:
    """Make sessions of about so many bytes each."""
    for number, lines in enumerate(islice(corpus.sessions(max(1, size // 2000)), count)):
        (folder / f"{number:05}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def plain_read(files: list[str]) -> int:
    buffer = memoryview(bytearray(BLOCK))
    total = 0
    for file in files:
        with open(file, "rb", buffering=0) as reading:
            while got := reading.readinto(buffer):
                total += got
    return total


def jobs(folder: str) -> Iterator[tuple[str, Job]]:
    files = sorted(session_files(folder, print))

    def searched(
        text: str, *, regex: bool = False, ignore_case: bool = False, processes: int = 1
    ) -> Job:
        pattern = Pattern(text, regex=regex, ignore_case=ignore_case)
        wanted = SearchFilter()
        return lambda: sum(1 for _ in search(pattern, files, wanted, print, processes=processes))

    yield "plain read", lambda: plain_read(files)
    yield "list", lambda: len(Store(folder).list())
    yield "search, literal", searched("needlezz")
    yield "search, literal, by all processors", searched("needlezz", processes=available())
    yield "search, ignoring case", searched("needlezz", ignore_case=True)
    yield "search, expression with a plain part", searched("needle.*zz", regex=True)
    for name, *words in (("rg", "-c"), ("grep", "-rcF")):
        if shutil.which(name):
            yield name, _command(name, *words, "needlezz", folder)


def _command(*words: str) -> Job:
    return lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=False)


def processor_seconds() -> float:
    """Of this process, and of those that ended."""
    used = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is made")
    options = parser.parse_args()
    took: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not any(folder.iterdir()):
            make_sessions(folder, options.sessions, options.size)
        for _ in range(options.rounds):
            for name, job in jobs(str(folder)):
                started, clock = processor_seconds(), perf_counter()
                job()
                times = (processor_seconds() - started, perf_counter() - clock)
                took.setdefault(name, []).append(times)
    for name, all_times in took.items():
        processor, clock = (median(times) * 1000 for times in zip(*all_times, strict=True))
        print(f"{name} | {processor:.0f} ms | {clock:.0f} ms by the clock")


if __name__ == "__main__":
    main()
