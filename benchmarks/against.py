"""This checkout against another one, in one run.

    python -m benchmarks.against OTHER [--folder FOLDER] [--rounds N]

OTHER is the path of another checkout of sessiontree. For each case a process of each
checkout does the same work in turns, and the figure is the median of the ratios of the
rounds, so that what else the machine does weighs on both alike. A figure below 1.00 means
that this checkout is faster. Appends are timed inside their processes; the other cases are
whole processes, timed by the processor time that they and their children use.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import corpus

APPENDS: Final = {"os": 200, "fsync": 5}
"""The appends of one round, by durability."""

WRITER: Final = """
import sys, tempfile, time
sys.path.insert(0, sys.argv[1])
from sessiontree import Session
durability, count, folder = sys.argv[2], int(sys.argv[3]), sys.argv[4]
message = {"role": "user", "content": "x" * 1000}
with tempfile.TemporaryDirectory(dir=folder) as made:
    with Session.create(made + "/s.jsonl", durability=durability) as session:
        append = session.append_message
        append(message)
        time.sleep(4)  # until the folder counts as settled
        for _ in range(count):
            append(message)
        print("ready", flush=True)
        for _ in sys.stdin:
            started = time.perf_counter()
            for _ in range(count):
                append(message)
            print((time.perf_counter() - started) / count, flush=True)
"""

CASES: Final = {
    "resume, compacted": "Session.open(sys.argv[2], readonly=True).context().messages",
    "resume, 36,000 deep": "Session.open(sys.argv[3], readonly=True).context().messages",
    "index": "sum(1 for _ in Session.open(sys.argv[3], readonly=True).branches())",
    "list 1,000 sessions": "Store(sys.argv[4]).list()",
    "search 1,000 sessions": "list(Store(sys.argv[4]).search('no such text'))",
    "search with hits": "list(Store(sys.argv[4]).search('function'))",
    "start of --help": "from sessiontree.cli import main; main(['--help'], standalone_mode=False)",
    "import of the library": "Session",
}
"""What each whole process does, by the name of its case."""

PRELUDE: Final = "import sys; sys.path.insert(0, sys.argv[1])\n"


def ratios(rounds: int, here: Callable[[], float], other: Callable[[], float]) -> list[float]:
    """The time here divided by the time there, for each round, the first turn alternating."""
    found = []
    for number in range(rounds):
        if number % 2:
            first = other()
            found.append(here() / first)
        else:
            first = here()
            found.append(first / other())
    return found


@contextmanager
def writer(checkout: Path, durability: str, folder: Path) -> Iterator[Callable[[], float]]:
    """A process that appends when it is asked to, and says how long an append took."""
    arguments = [str(checkout), durability, str(APPENDS[durability]), str(folder)]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, answers = process.stdin, process.stdout
        answers.readline()

        def turn() -> float:
            to.write("\n")
            to.flush()
            return float(answers.readline())

        yield turn


def whole(checkout: Path, work: str, files: Sequence[str]) -> float:
    """The processor time of a process, its children included."""
    names = "" if "main(" in work else "from sessiontree import Session, Store\n"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", PRELUDE + names + work, str(checkout), *files],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def out(case: str, found: list[float]) -> None:
    low, high = min(found), max(found)
    print(f"| {case} | {median(found):.3f} | {low:.2f} to {high:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="This checkout against another one.")
    parser.add_argument("other", type=Path, help="the path of the other checkout")
    parser.add_argument("--folder", type=Path, help="where to make the files")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--case", action="append", help="only the cases whose names begin so")
    given = parser.parse_args()
    here, other = Path(__file__).parents[1], given.other.resolve()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        wanted = tuple(given.case or ("",))
        print("| case | median ratio | range |\n|---|---|---|")
        for durability in APPENDS:
            case = f"append, {'synced' if durability == 'fsync' else 'not synced'}"
            if not case.startswith(wanted):
                continue
            with (
                writer(here, durability, folder) as ours,
                writer(other, durability, folder) as theirs,
            ):
                out(case, ratios(given.rounds * 20, ours, theirs))
        if not any(case.startswith(wanted) for case in CASES):
            return
        files = []
        for name in ("compacted", "branched"):
            corpus.make_file(name, folder)
            files.append(str(corpus.path_of(name, folder)))
        many = folder / "many"
        for number, lines in enumerate(corpus.sessions(60)):
            if number == 1000:
                break
            target = many / f"p{number % 20}" / f"s{number}.jsonl"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"".join(line + b"\n" for line in lines))
        for case, work in CASES.items():
            if case.startswith(wanted):
                ours = partial(whole, here, work, [*files, str(many)])
                theirs = partial(whole, other, work, [*files, str(many)])
                ours(), theirs()  # fill the caches of the system
                out(case, ratios(given.rounds, ours, theirs))


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
