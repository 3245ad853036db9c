"""What a search by a call costs, against the command `search`.

    python -m benchmarks.calls [--sessions N] [--size BYTES] [--rounds N]

Three ways to search the same store take turns: the command `search`, the command `call
session.search`, and a call in a process that runs already, as a server makes it. Figures are the
medians of the processor's time of all processes, and of the clock's, and the median of the ratios
to the command of the same round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.finding import make_sessions, processor_seconds
from sessiontree.dispatch import Data, Dispatcher, Event, Scope

METHOD = "session.search"
WORDS = {"no hit": "needlezz", "many hits": "offset"}


def ways(store: str, word: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """The ways to search, the command first; each is limited to what a page may hold."""
    found: list[Any] = []
    dispatcher = Dispatcher(Scope(store, agents=False))

    def take(event: Event) -> None:
        if isinstance(event, Data):
            found[:] = event.value["items"]

    def call() -> None:
        dispatcher.call(METHOD, {"pattern": word}, take)

    call()
    limit = ("--limit", str(max(len(found), 1)))
    yield "search", _command(store, "search", word, *limit, "--json")
    yield f"call {METHOD}", _command(store, "call", METHOD, "--pattern", word, "--json")
    yield "in a server", call


def _command(store: str, *words: str) -> Callable[[], object]:
    environment = {**os.environ, "SESSIONTREE_HOME": store, "HOME": store}
    return lambda: subprocess.run(
        [sys.executable, "-m", "sessiontree", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--size", type=int, default=100_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        make_sessions(Path(store), options.sessions, options.size)
        for title, word in WORDS.items():
            took: dict[str, list[tuple[float, float]]] = {}
            jobs = list(ways(store, word))
            for _ in range(options.rounds):
                for name, job in jobs:
                    used, clock = processor_seconds(), perf_counter()
                    job()
                    times = (processor_seconds() - used, perf_counter() - clock)
                    took.setdefault(name, []).append(times)
            base = took["search"]
            for name, each in took.items():
                processor, clock = (median(times) * 1000 for times in zip(*each, strict=True))
                ratio = median(one[0] / other[0] for one, other in zip(each, base, strict=True))
                print(f"{title} | {name} | {processor:.0f} ms | {clock:.0f} ms | {ratio:.2f}")


if __name__ == "__main__":
    main()
