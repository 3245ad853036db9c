"""A sample of small faults, and whether the tests notice them.

    python -m benchmarks.mutants --seed N [--count 150] [--workers 1] [--folder FOLDER]

Draws mutants of `sessiontree/` (`benchmarks.mutations`), a third of them in the modules that
write, sync, rename, lock and delete. Each draw takes a kind of mutation first and then one of
its places, so that rare kinds are drawn too. Each mutant is applied alone, in a copy of the
project; the checkout is never written. The tests run in this order until one fails:

- `line`: the quick tests that reach the changed line, those of the module's folder first; all
  quick tests for a line that runs when the module is imported;
- `rest`: the other quick tests;
- `slow`: the slow tests of the module's folder.

The first run in a folder makes a map from lines to tests with `coverage` (two minutes); with
`--folder` the next run finds it, until a file changes. A test that runs ten times as long as
it did for the map, and 30 seconds, notices the mutant too. `--stages line` is a first look:
the map also knows the lines that processes started by a test run, so the other stages
rarely find more. `--only 3 17` repeats these mutants of a draw.

A survivor is a hole in the tests, or a mutant that changes no behaviour. A person decides it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from coverage import CoverageData

from benchmarks.covering import CHOSEN, PIPE, TIMES
from benchmarks.mutations import Mutant, mutants

CHECKOUT: Final = Path(__file__).parents[1]

WRITING: Final = (
    "sessiontree/storage/",
    "sessiontree/engine/gc.py",
    "sessiontree/engine/writer.py",
    "sessiontree/engine/repair.py",
    "sessiontree/catalog/move.py",
    "sessiontree/importing/",
)
"""The modules that write, sync, rename, lock and delete."""

FOLDERS: Final = {"sessiontree/session.py": "session", "sessiontree/store.py": "catalog"}
"""The folder of tests of a module that stands in no package."""

STAGES: Final = ("line", "rest", "slow")

FIRST: Final = 120
"""So many tests are tried before all the others that reach the line are collected."""

GRACE: Final = 30.0
"""Seconds that a test may take, added to ten times its time without a mutant."""

SLOW: Final = 300.0
"""Seconds that a start of pytest, or a test without a known time, may take."""

COVERAGE: Final = """
[run]
source = {project}/sessiontree
data_file = {data}
parallel = true
context = ${{PYTEST_CURRENT_TEST-}}
"""
"""A process that a test starts writes its lines down for that test."""


class Kept(NamedTuple):
    """What the map knows: each test with its seconds, and the tests that reach a line."""

    seconds: dict[str, float]
    reaching: dict[str, dict[int, list[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that reach a line; those of its folder first.

        What an import runs is noted for the test that happened to import the module, or for
        none. All tests may reach it, those that reach the module first.
        """
        lines = self.reaching.get(mutant.module, {})
        near = {test for line in lines.values() for test in line}
        found = set(lines.get(mutant.line, ()))
        if mutant.at_import or not found:
            found = set(self.seconds)
        own = f"tests/{folder_of(mutant.module)}/"
        return sorted(
            found,
            key=lambda test: (test not in near, not test.startswith(own), self.seconds[test], test),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    killer: str | None
    seconds: float


def folder_of(module: str) -> str:
    """The folder of `tests/` with the tests of a module."""
    return FOLDERS.get(module, module.split("/")[1])


def copy_project(to: Path) -> Path:
    """A copy of the checkout, with nothing that a run made."""
    unwanted = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", ".venv")
    shutil.copytree(CHECKOUT, to, ignore=unwanted, symlinks=True)
    return to


def environment(project: Path, **more: str) -> dict[str, str]:
    """The environment of a run in a copy: the copy is imported, random tests do not vary."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    scratch_of(project).mkdir(exist_ok=True)
    own = {"PYTHONPATH": str(project), "CI": "1", "TMPDIR": str(scratch_of(project))}
    return kept | own | more


def scratch_of(project: Path) -> Path:
    """The folder for the files of tests, which end without cleaning up."""
    return project.parent / f"{project.name}-scratch"


def pytest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.covering", *arguments]


# The map


def digest(project: Path) -> str:
    """What the map depends on: the code and the tests."""
    found = hashlib.sha256()
    for folder in ("sessiontree", "tests", "fixtures"):
        for path in sorted((project / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(project)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def the_map(folder: Path, project: Path) -> Kept:
    """The map of an earlier run of the same files, or a new one."""
    path, wanted = folder / "map.json", digest(project)
    if path.exists():
        stored = json.loads(path.read_bytes())
        if stored["digest"] == wanted:
            return from_json(stored)
    kept = make_map(folder, project)
    names = list(kept.seconds)
    number = {test: at for at, test in enumerate(names)}
    reaching = {
        module: {line: [number[test] for test in tests] for line, tests in lines.items()}
        for module, lines in kept.reaching.items()
    }
    stored = {"digest": wanted, "tests": list(kept.seconds.items()), "reaching": reaching}
    path.write_text(json.dumps(stored), encoding="utf-8")
    return kept


def from_json(stored: dict[str, Any]) -> Kept:
    """A stored map, whose lists of tests are lists of numbers."""
    tests: list[tuple[str, float]] = stored["tests"]
    reaching: dict[str, dict[str, list[int]]] = stored["reaching"]
    return Kept(
        dict(tests),
        {
            module: {int(line): [tests[at][0] for at in found] for line, found in lines.items()}
            for module, lines in reaching.items()
        },
    )


def make_map(folder: Path, project: Path) -> Kept:
    """Run the quick tests once, and note for each line the tests that reach it."""
    say("the map of lines to tests is made")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        rc, data, times = Path(made, "rc"), Path(made, "reach"), Path(made, "times")
        rc.write_text(COVERAGE.format(project=project, data=data), encoding="utf-8")
        measured = {"COVERAGE_PROCESS_START": str(rc), TIMES: str(times)}
        command = pytest("-n", "2", "-m", "not slow")
        quiet(command, project, environment(project, **measured))
        quiet([sys.executable, "-m", "coverage", "combine", f"--rcfile={rc}"], project, None)
        ran = [json.loads(line) for line in times.read_text("utf-8").splitlines()]
        failing = {test for test, _, passed in ran if not passed}
        for test in sorted(failing & alone(project, failing)):
            say(f"left out: {test} fails without a mutant")
            failing.discard(test)
            ran = [row for row in ran if row[0] != test]
        seconds = {test: taken for test, taken, _ in ran}
        return Kept(seconds, reached(data, project, seconds.keys() - failing))


def alone(project: Path, tests: set[str]) -> set[str]:
    """Those of some tests that fail where nothing is measured either."""
    if not tests:
        return set()
    killers = set()
    for test in tests:
        if Run(project, {}).killer([test], "not soak"):
            killers.add(test)
    return killers


def reached(data: Path, project: Path, tests: Iterable[str]) -> dict[str, dict[int, list[str]]]:
    """For each module, the tests of each line."""
    measured, known = CoverageData(str(data)), set(tests)
    measured.read()
    found = {}
    for path in measured.measured_files():
        lines = measured.contexts_by_lineno(path)
        found[str(Path(path).relative_to(project))] = {
            line: sorted({test for context in contexts if (test := in_test(context)) in known})
            for line, contexts in lines.items()
        }
    return found


def in_test(context: str) -> str:
    """The test of a context; that of a process it started ends in the phase of the test."""
    for phase in (" (setup)", " (call)", " (teardown)"):
        context = context.removesuffix(phase)
    return context


def quiet(command: Sequence[str], project: Path, env: dict[str, str] | None) -> None:
    subprocess.run(command, cwd=project, env=env, stdout=subprocess.DEVNULL, check=False)


# One mutant


class Run:
    """Runs of chosen tests in one copy of the project."""

    def __init__(self, project: Path, seconds: dict[str, float]) -> None:
        self.project = project
        self.seconds = seconds

    def killer(self, tests: list[str], marks: str = "not slow") -> str | None:
        """The first of some tests that fails, does not end, or cannot be collected."""
        if not tests:
            return None
        chosen = self.project.parent / f"{self.project.name}-chosen"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        return self._watched(["-m", marks, *files], {CHOSEN: str(chosen)})

    def slow(self, folder: str) -> str | None:
        """The first slow test of a folder that fails or does not end."""
        if not (self.project / "tests" / folder).is_dir():
            return None
        return self._watched(["-m", "slow and not soak", f"tests/{folder}"], {})

    def _watched(self, arguments: list[str], variables: dict[str, str]) -> str | None:
        reader, writer = os.pipe()
        process = subprocess.Popen(
            pytest("-n", "0", "-x", "--tb=no", *arguments),
            cwd=self.project,
            env=environment(self.project, **variables, **{PIPE: str(writer)}),
            pass_fds=[writer],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(writer)
        try:
            return self._told(reader, process)
        finally:
            os.close(reader)
            end(process)
            shutil.rmtree(scratch_of(self.project), ignore_errors=True)

    def _told(self, reader: int, process: subprocess.Popen[bytes]) -> str | None:
        """What the pipe tells: the failing test, or the test that takes too long."""
        running, limit, rest = "the start", SLOW, b""
        while select.select([reader], [], [], limit)[0]:
            if not (block := os.read(reader, 1 << 16)):
                break
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                kind, _, test = line.decode().partition(" ")
                if kind == "fail":
                    return test
                running, limit = test, GRACE + 10 * self.seconds.get(test, SLOW / 10)
        else:
            return f"{running} (time)"
        # No test failed: 0 is success, 5 is that no test was found.
        return None if process.wait() in (0, 5) else f"{running} (ended)"


def end(process: subprocess.Popen[bytes]) -> None:
    """End a run and the processes of its tests."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def verdict(mutant: Mutant, run: Run, kept: Kept, stages: Sequence[str]) -> Verdict:
    """Apply a mutant in a copy, run the tests, and take the mutant back."""
    started = time.monotonic()
    path = run.project / mutant.module
    source = path.read_bytes()
    try:
        written(path, mutant.applied(source))
        killers = (killer for stage in stages for killer in stage_of(stage, mutant, run, kept))
        killer = next((found for found in killers if found), None)
    finally:
        written(path, source)
    return Verdict(killer, time.monotonic() - started)


def stage_of(stage: str, mutant: Mutant, run: Run, kept: Kept) -> Iterator[str | None]:
    """The killers that a stage finds, a few tests first."""
    tests = kept.tests(mutant)
    if stage == "line":
        yield run.killer(tests[:FIRST])
        yield run.killer(tests[FIRST:])
    elif stage == "rest":
        yield run.killer(sorted(kept.seconds.keys() - set(tests), key=kept.seconds.__getitem__))
    else:
        yield run.slow(folder_of(mutant.module))


def written(path: Path, source: bytes) -> None:
    """Write a module; its compiled form could have the same size and time, and goes."""
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


# The sample


def draw(seed: int, count: int) -> list[Mutant]:
    """Some mutants of the checkout: a third of them where it writes, no two in one line."""
    groups: dict[bool, dict[str, list[Mutant]]] = {
        True: defaultdict(list),
        False: defaultdict(list),
    }
    for path in sorted((CHECKOUT / "sessiontree").rglob("*.py")):
        module = str(path.relative_to(CHECKOUT))
        for mutant in mutants(module, path.read_bytes()):
            groups[module.startswith(WRITING)][mutant.kind].append(mutant)
    chance = random.Random(seed)
    drawn: list[Mutant] = []
    places = set[str]()
    while len(drawn) < count:
        kinds = groups[len(drawn) % 3 == 0]
        mutant = chance.choice(kinds[chance.choice(sorted(kinds))])
        if mutant.place not in places:
            places.add(mutant.place)
            drawn.append(mutant)
    return drawn


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def judged(
    drawn: Sequence[tuple[int, Mutant]], workers: int, judge: Callable[[Mutant], Verdict]
) -> Iterator[tuple[int, Mutant, Verdict]]:
    """Each mutant with its verdict, in the order of the draw."""
    with ThreadPoolExecutor(workers) as pool:
        for (number, mutant), found in zip(
            drawn, pool.map(judge, [mutant for _, mutant in drawn]), strict=True
        ):
            yield number, mutant, found


def report(results: Iterable[tuple[int, Mutant, Verdict]]) -> None:
    """Print the table as it grows, then the shares."""
    print("| # | place | mutation | killed by | seconds |\n|---|---|---|---|---|")
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for number, mutant, found in results:
        killed = f"`{found.killer}`" if found.killer else "**survived**"
        change = mutant.change.replace("|", "\\|")
        print(
            f"| {number} | {mutant.place} | {change} | {killed} | {found.seconds:.0f} |", flush=True
        )
        group = "writing" if mutant.module.startswith(WRITING) else "the others"
        for name in (group, "all"):
            counts[name][0] += 1
            counts[name][1] += found.killer is not None
    print("\n| modules | drawn | killed | survived | share |\n|---|---|---|---|---|")
    for name, (tried, noticed) in sorted(counts.items(), reverse=True):
        print(f"| {name} | {tried} | {noticed} | {tried - noticed} | {noticed / tried:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps the copies and the map")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--only", nargs="+", type=int, help="numbers of the draw")
    options = parser.parse_args()
    drawn = list(enumerate(draw(options.seed, options.count), start=1))
    if options.only:
        drawn = [(number, mutant) for number, mutant in drawn if number in options.only]
    with tempfile.TemporaryDirectory() as made:
        folder = (options.folder or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        projects: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            shutil.rmtree(folder / f"copy-{number}", ignore_errors=True)
            projects.put(copy_project(folder / f"copy-{number}"))
        kept = the_map(folder, folder / "copy-0")

        def judge(mutant: Mutant) -> Verdict:
            project = projects.get()
            try:
                return verdict(mutant, Run(project, kept.seconds), kept, options.stages)
            finally:
                projects.put(project)

        report(judged(drawn, options.workers, judge))


if __name__ == "__main__":
    main()
