"""Does the jobs: corpus by corpus, the contenders of a job taking turns."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.corpora import has_databases
from benchmarks.peers.installs import Program
from benchmarks.peers.jobs import FORMATS, Contender, Job
from benchmarks.peers.process import Figures, environment, run
from benchmarks.peers.record import Record, wants_more

ROOT: Final = Path(__file__).parents[2]
_MAKERS: Final = {"openai": "openai_agents", "langgraph": "langgraph_saver"}


class Runner:
    """Runs jobs in a throwaway folder.

    Args:
        folder: holds the corpora while they are needed, and copies of them.
        programs: what is installed, by key.
        record: takes the figures.
        runs: how often each contender does each job.
        keep: leave the corpora for the next time.
        say: told of each step.
    """

    def __init__(
        self,
        folder: Path,
        programs: Mapping[str, Program],
        record: Record,
        *,
        runs: int,
        keep: bool,
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._programs = programs
        self._record = record
        self._runs = runs
        self._keep = keep
        self._say = say
        self._env = environment(folder)
        os.chdir(ROOT)  # the drivers are modules of the checkout

    def run(self, jobs: Sequence[Job], corpora: Sequence[str]) -> None:
        """Do all jobs with the corpora named that still want runs."""
        for corpus in corpora:
            cells = [cell for job in jobs for cell in self._cells(job, corpus)]
            if not any(self._wanted(job, corpus, contender) for job, contender in cells):
                continue
            self._make(corpus)
            _read_once(self._place(corpus))
            for turn in range(self._runs):
                for job, contender in cells:
                    made = len(self._record.runs.get((job.key, corpus, contender.name), []))
                    if made <= turn and self._wanted(job, corpus, contender):
                        self._measure(job, corpus, contender)
            if not self._keep:
                shutil.rmtree(self._place(corpus))

    def _cells(self, job: Job, corpus: str) -> Iterator[tuple[Job, Contender]]:
        if corpus not in job.corpora:
            return
        for contender in job.contenders:
            there = not contender.only or corpus in contender.only
            if there and not self._programs[contender.program].missing:
                yield job, contender

    def _wanted(self, job: Job, corpus: str, contender: Contender) -> bool:
        runs = self._record.runs.get((job.key, corpus, contender.name), [])
        return wants_more(runs, self._runs)

    def _place(self, corpus: str) -> Path:
        return self._folder / "corpora" / corpus

    def _make(self, corpus: str) -> None:
        place = self._place(corpus)
        if not place.exists():
            self._say(f"making {corpus}")
            maker = (sys.executable, "-m", "benchmarks.peers.corpora")
            subprocess.run([*maker, corpus, str(place.parent)], check=True, env=self._env)
        for key, driver in _MAKERS.items() if has_databases(corpus) else ():
            program = self._programs[key]
            if not program.missing and list((place / key).glob("*.jsonl")):
                self._say(f"making the database of {program.title}")
                module = f"benchmarks.peers.drivers.{driver}"
                command = [*program.command, "-m", module, "make", str(place)]
                subprocess.run(command, check=True, env=self._env, stdout=subprocess.DEVNULL)
        self._record.sizes[corpus] = {
            format: size(place / format) for format in set(FORMATS.values())
        }
        self._record.save()

    def _measure(self, job: Job, corpus: str, contender: Contender) -> None:
        place = self._place(corpus)
        scratch = self._folder / "scratch"
        if job.writes:
            shutil.rmtree(scratch, ignore_errors=True)
            _copy(place, scratch, FORMATS.get(contender.program, ""))
            os.sync()  # a sync of the job's own writes nothing of the copy
            place = scratch
        arguments = (part.replace("{folder}", str(place)) for part in contender.arguments)
        command = [*self._programs[contender.program].command, *arguments]
        figures = run(command, self._env, quiet=contender.quiet)
        _check(figures, contender, self._place(corpus))
        figures["load"] = os.getloadavg()[0]
        self._record.add((job.key, corpus, contender.name), figures)
        told = figures.get("failed") or f"{figures['wall']:.4f} s"
        self._say(f"{job.key}, {corpus}, {contender.name}: {told}")
        shutil.rmtree(scratch, ignore_errors=True)


def _check(figures: Figures, contender: Contender, place: Path) -> None:
    """A run that gave something else than was there is no figure, but a failure."""
    if not contender.expects or "failed" in figures:
        return
    expected = json.loads((place / "facts.json").read_text())[contender.expects]
    wanted = expected if isinstance(expected, int) else expected[FORMATS[contender.program]]
    if abs(figures["count"] - wanted) > figures.get("mended", 0):
        figures["failed"] = f"gave {figures['count']}, and there are {wanted}"


def _copy(place: Path, scratch: Path, format: str) -> None:
    scratch.mkdir()
    for name in ("facts.json", "messages.jsonl"):
        if (place / name).exists():
            shutil.copyfile(place / name, scratch / name)
    if format:
        shutil.copytree(place / format, scratch / format)


def _read_once(folder: Path) -> None:
    """Let the system have the files in memory, else whoever comes first waits for the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def size(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
