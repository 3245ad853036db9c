"""The figures of all runs, kept as JSON so that a later call can go on with them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.peers.process import Figures

Cell = tuple[str, str, str]
"""The key of a job, the name of a corpus, the name of a contender."""


class Record:
    """All runs by cell; sizes of the corpora by format; what was measured, and on what."""

    def __init__(self, file: Path) -> None:
        self._file = file
        kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self.runs: dict[Cell, list[Figures]] = {}
        for *cell, runs in kept.get("runs", []):
            job, corpus, contender = cell
            self.runs[job, corpus, contender] = runs
        self.sizes: dict[str, dict[str, int]] = kept.get("sizes", {})
        self.about: dict[str, Any] = kept.get("about", {})

    def save(self) -> None:
        kept = {
            "about": self.about,
            "sizes": self.sizes,
            "runs": [[*cell, runs] for cell, runs in self.runs.items()],
        }
        unfinished = self._file.with_suffix(".tmp")
        unfinished.write_text(json.dumps(kept, indent=1))
        os.replace(unfinished, self._file)

    def add(self, cell: Cell, figures: Figures) -> None:
        self.runs.setdefault(cell, []).append(figures)
        self.save()

    def forget(self, jobs: Iterable[str]) -> None:
        """Drop the runs of some jobs, to measure them anew."""
        dropped = set(jobs)
        self.runs = {cell: runs for cell, runs in self.runs.items() if cell[0] not in dropped}
        self.save()

    def failure(self, job: str, corpus: str, contender: str) -> str:
        """Why a contender cannot do it; empty where it did, or was not asked."""
        runs = self.runs.get((job, corpus, contender), [])
        return next((run["failed"] for run in runs if "failed" in run), "")

    def median(self, job: str, corpus: str, contender: str, figure: str = "wall") -> float | None:
        """The median of a figure; None where there is none."""
        if self.failure(job, corpus, contender):
            return None
        runs = self.runs.get((job, corpus, contender), [])
        values: list[float] = [run[figure] for run in runs if figure in run]
        return median(values) if values else None

    def each(self, job: str, corpus: str, contender: str) -> float | None:
        """The median time of one of the operations of a run."""
        runs = self.runs.get((job, corpus, contender), [])
        if self.failure(job, corpus, contender) or not runs:
            return None
        values: list[float] = [run["wall"] / run["count"] for run in runs]
        return median(values)


SLOW: Final = 10.0
"""Seconds above which a run is not repeated: its ratio is far from any doubt."""


def wants_more(runs: list[Figures], wanted: int) -> bool:
    """Whether a cell is to be run again."""
    if any("failed" in run for run in runs):
        return False
    return len(runs) < (1 if any(run["process_wall"] > SLOW for run in runs) else wanted)
