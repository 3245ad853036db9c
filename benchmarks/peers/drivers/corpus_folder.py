"""What a driver finds in a corpus, and how it says what a job took."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cases import Figures, Stopwatch

Job = Callable[["Corpus", str], Figures]
"""Does a job with a corpus; the string is a variant of it, or empty."""


class Corpus:
    """A folder as `benchmarks.peers.corpora` lays it out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: Mapping[str, Any] = json.loads((folder / "facts.json").read_text())

    @property
    def session(self) -> str:
        return str(self.facts["session"])

    def half(self, format: str) -> Any:
        """The entry in the middle of the path, as a format names it."""
        return self.facts["half"][format]

    def lines(self, name: str) -> Iterator[Any]:
        with (self.folder / name).open("rb") as lines:
            yield from map(json.loads, lines)

    def messages(self) -> list[dict[str, Any]]:
        """Messages to append, 2 KB each on average."""
        return list(self.lines("messages.jsonl"))


def small_messages(count: int) -> list[dict[str, Any]]:
    """Messages to append, of a line each."""
    return [{"role": "user", "content": f"And what about number {i}?"} for i in range(count)]


def main(jobs: Mapping[str, Job]) -> None:
    """Do the job that the command line names."""
    job, folder, *variant = sys.argv[1:]
    figures = jobs[job](Corpus(Path(folder)), variant[0] if variant else "")
    json.dump(figures, sys.stdout)


__all__ = ["Corpus", "Figures", "Job", "Stopwatch", "main", "small_messages"]
