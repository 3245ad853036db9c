"""Long resumes, against decoding the lines of their path with orjson.

    python -m benchmarks.long_resume [OTHER] [--folder FOLDER] [--rounds N]

Each round runs one process for the reference and one for each checkout, in turns. A ratio is the
processor time of a resume divided by that of the reference in the same round; the figure is the
median. The garbage collector is off in the reference; it is off and on in a resume. OTHER is the
path of another checkout of sessiontree, to compare with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import corpus

TARGET: Final = 1.3
CHAIN: Final = "chain-300,000"
FILES: Final = {CHAIN: CHAIN, "branched": "branched-path"}
"""Each session file, and the file with the lines of its path alone."""

FIGURES: Final = "print(json.dumps([seconds, peak_memory() / 1e6]), flush=True); os._exit(0)"
PRELUDE: Final = """
import gc, json, os, sys, time
sys.path[:0] = sys.argv[1:3]
from cases import peak_memory
if sys.argv[4] == "off": gc.disable()
"""
DECODE: Final = f"""{PRELUDE}
import orjson
started = time.process_time()
entries = [orjson.loads(line) for line in open(sys.argv[3], "rb")]
seconds = time.process_time() - started
{FIGURES}
"""
RESUME: Final = f"""{PRELUDE}
from sessiontree import Session
import sessiontree.context.context
started = time.process_time()
messages = Session.open(sys.argv[3], readonly=True).context().messages
seconds = time.process_time() - started
{FIGURES}
"""


def run(code: str, checkout: Path, file: Path, collector: str) -> tuple[float, float]:
    """The seconds and the megabytes of one process."""
    arguments = [str(Path(__file__).parent), str(checkout), str(file), collector]
    done = subprocess.run([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    done.check_returncode()
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def make_files(folder: Path) -> None:
    corpus.FILES[CHAIN] = partial(corpus.chain, length=300_000)
    for name in FILES:
        corpus.make_file(name, folder)
    path = corpus.path_of(FILES["branched"], folder)
    if not path.exists():
        from sessiontree import Session

        with Session.open(corpus.path_of("branched", folder), readonly=True) as session:
            path.write_bytes(b"".join(entry.line + b"\n" for entry in session.path()))


def measure(folder: Path, checkouts: list[Path], rounds: int) -> None:
    print("file | collector | checkout | ratio | target | resume | reference | peak")
    print("--- | --- | --- | --- | --- | --- | --- | ---")
    here = checkouts[0]
    for name, lines in FILES.items():
        for collector in ("off", "on"):
            taken: dict[Path, list[tuple[float, float, float]]] = {one: [] for one in checkouts}
            for _ in range(rounds):
                reference, _ = run(DECODE, here, corpus.path_of(lines, folder), "off")
                for checkout in checkouts:
                    seconds, peak = run(RESUME, checkout, corpus.path_of(name, folder), collector)
                    taken[checkout].append((seconds, reference, peak))
            for checkout, found in taken.items():
                ratio = median(seconds / reference for seconds, reference, _ in found)
                seconds, reference, peak = map(median, zip(*found, strict=True))
                who = "this" if checkout == here else "other"
                print(
                    f"{name} | {collector} | {who} | {ratio:.2f} | {TARGET} | {seconds:.2f} s | "
                    f"{reference:.2f} s | {peak:.0f} MB",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Long resumes, against decoding their path.")
    parser.add_argument("other", type=Path, nargs="?", help="another checkout, to compare with")
    parser.add_argument("--folder", type=Path, help="where to make the files, and keep them")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    checkouts = [Path(__file__).parents[1], *([given.other.resolve()] if given.other else [])]
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = given.folder or Path(temporary)
        make_files(folder)
        measure(folder, checkouts, given.rounds)


if __name__ == "__main__":
    main()
