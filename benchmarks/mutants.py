"""A sample of small faults, and whether the tests notice them.

    python -m benchmarks.mutants --seed N [--count 150] [--workers 1] [--folder FOLDER]

Draws mutants of `sessiontree/` (`benchmarks.mutations`), a third of them in the modules that
write, sync, rename, lock and delete. Each draw takes a kind of mutation first and then one of
its places, so that rare kinds are drawn too. Mutants are applied in copies of the project; the
checkout is never written. The tests run in this order until one fails:

- `line`: the first quick tests that reach the changed line, those of the module's folder first,
  and those that compare whole outputs, for each mutant alone;
- `rest`: all quick tests, for all mutants left together. A test that fails then runs against
  each of them alone, which tells the mutants that it notices;
- `slow`: the slow tests of the modules' folders, and those of crashes and processes for modules
  that write, in the same way.

The first run in a folder makes a map from lines to tests with `coverage` (three minutes). With
`--folder` the next run finds it, and measures again the test files that changed, and those that
reach a changed module. A test that runs ten times as long as it did for the map, and 150 seconds,
notices the mutant too.
`--stages line` is a first look. `--only 3 17` repeats these mutants of a draw. `--within
sessiontree/importing/` draws from these modules alone.

At the end the tests that noticed something run without a mutant. One that fails then proves
nothing, and is named.

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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
    "sessiontree/library/trash.py",
    "sessiontree/library/trash.py",
    "sessiontree/importing/",
)
"""The modules that write, sync, rename, lock and delete."""

FOLDERS: Final = {"sessiontree/session.py": "session", "sessiontree/store.py": "catalog"}
"""The folder of tests of a module that stands in no package."""

OF_WRITING: Final = ("crash", "processes")
"""The folders of tests of the modules that write, beside those of their packages."""

STAGES: Final = ("line", "rest", "slow")

FIRST: Final = 120
"""So many of the tests that reach a line are tried for its mutant alone."""

BROAD: Final = (
    "tests/cli/test_called.py",
    "tests/cli/test_printed.py",
    "tests/history/test_told.py",
    "tests/importing/test_stepwise.py",
    "tests/page/test_printed.py",
)
"""The tests that compare much with what it was; those that reach the line come after the first."""

GRACE: Final = 150.0
"""Seconds that a test may take, added to ten times its time without a mutant.

What several tests share is made in the first of them that runs, and the machine may be busy.
"""

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

    def reach(self, mutant: Mutant) -> list[str]:
        """The tests that are known to reach a line."""
        return self.reaching.get(mutant.module, {}).get(mutant.line, [])

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that may reach a line; those of its folder first.

        What an import runs is noted for the test that happened to import the module, or for
        none. All tests may reach it, those that reach the module first.
        """
        lines = self.reaching.get(mutant.module, {})
        near = {test for line in lines.values() for test in line}
        found = set(self.reach(mutant))
        if mutant.at_import or not found:
            found = set(self.seconds)
        own = f"tests/{folder_of(mutant.module)}/"
        return sorted(
            found & self.seconds.keys(),
            key=lambda test: (test not in near, not test.startswith(own), self.seconds[test], test),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant."""

    killer: Killer | None
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


def the_map(folder: Path, project: Path) -> Kept:
    """The map of an earlier run, with what changed since measured again; or a new one."""
    path, files, modules = folder / "map.json", test_files(project), sources(project)
    if not path.exists():
        kept = make_map(folder, project, [])
    else:
        stored = json.loads(path.read_bytes())
        kept = from_json(stored)
        changed = differing(stored["modules"], modules)
        gone = differing(stored["files"], files) | reaching(kept, changed)
        kept = without(kept, gone, changed)
        if again := sorted(gone & files.keys()):
            kept = joined(kept, make_map(folder, project, again))
    names = list(kept.seconds)
    number = {test: at for at, test in enumerate(names)}
    lines_of = {
        module: {line: [number[test] for test in tests] for line, tests in lines.items()}
        for module, lines in kept.reaching.items()
    }
    made = {"files": files, "modules": modules, "tests": list(kept.seconds.items())}
    path.write_text(json.dumps(made | {"reaching": lines_of}), encoding="utf-8")
    return kept


def differing(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The keys whose values are not the same in both."""
    return {key for key in before | after if before.get(key) != after.get(key)}


def reaching(kept: Kept, modules: Iterable[str]) -> set[str]:
    """The files of tests that reach some modules.

    A test that reaches a new module reaches the changed module that calls it, or is new itself.
    """
    return {
        test.partition("::")[0]
        for module in modules
        for tests in kept.reaching.get(module, {}).values()
        for test in tests
    }


def test_files(project: Path) -> dict[str, str]:
    """The files of tests, each with a digest."""
    return digests(project, "tests", "test_*.py")


def sources(project: Path) -> dict[str, str]:
    """The modules, each with a digest."""
    return digests(project, "sessiontree", "*.py")


def digests(project: Path, folder: str, pattern: str) -> dict[str, str]:
    return {
        str(path.relative_to(project)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((project / folder).rglob(pattern))
    }


def without(kept: Kept, files: set[str], modules: set[str]) -> Kept:
    """The map without the tests of some files, and without some modules."""

    def stays(test: str) -> bool:
        return test.partition("::")[0] not in files

    return Kept(
        {test: seconds for test, seconds in kept.seconds.items() if stays(test)},
        {
            module: {line: list(filter(stays, tests)) for line, tests in lines.items()}
            for module, lines in kept.reaching.items()
            if module not in modules
        },
    )


def joined(one: Kept, other: Kept) -> Kept:
    """Two maps of different tests as one."""
    reaching: dict[str, dict[int, list[str]]] = {}
    for module in one.reaching.keys() | other.reaching.keys():
        here, there = one.reaching.get(module, {}), other.reaching.get(module, {})
        reaching[module] = {
            line: [*here.get(line, ()), *there.get(line, ())] for line in here.keys() | there.keys()
        }
    return Kept(one.seconds | other.seconds, reaching)


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


def make_map(folder: Path, project: Path, files: Sequence[str]) -> Kept:
    """Run quick tests once, by default all, and note for each line the tests that reach it."""
    say(f"the map of lines to tests is made: {len(files) or 'all'} files of tests")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        rc, data, times = Path(made, "rc"), Path(made, "reach"), Path(made, "times")
        rc.write_text(COVERAGE.format(project=project, data=data), encoding="utf-8")
        measured = {"COVERAGE_PROCESS_START": str(rc), TIMES: str(times)}
        command = pytest("-n", "2", "-m", "not slow", *files)
        quiet(command, project, environment(project, **measured))
        if not times.stat().st_size:
            return Kept({}, {})  # all of them are slow
        quiet([sys.executable, "-m", "coverage", "combine", f"--rcfile={rc}"], project, None)
        ran = [json.loads(line) for line in times.read_text("utf-8").splitlines()]
        failing = {test for test, _, passed in ran if not passed}
        for test in sorted(failing & failing_alone(project, failing)):
            say(f"left out: {test} fails without a mutant")
            failing.discard(test)
            ran = [row for row in ran if row[0] != test]
        seconds = {test: taken for test, taken, _ in ran}
        return Kept(seconds, reached(data, project, seconds.keys() - failing))


def failing_alone(project: Path, tests: Iterable[str]) -> set[str]:
    """Those of some tests that fail without a mutant, and where nothing is measured."""
    found, left = set[str](), sorted(tests)
    while failing := Run(project, {}).killer(left, "not soak"):
        if failing.test not in left:
            break
        found.add(failing.test)
        left = left[left.index(failing.test) + 1 :]
    return found


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


# The tests of a mutant


class Killer(NamedTuple):
    """The test that failed, and how if it did not fail by itself."""

    test: str
    how: str = ""

    def __str__(self) -> str:
        return f"`{self.test}`{self.how}"


class Run:
    """Runs of chosen tests in one copy of the project."""

    def __init__(self, project: Path, seconds: dict[str, float]) -> None:
        self.project = project
        self.seconds = seconds

    def killer(self, tests: Sequence[str], marks: str = "not slow") -> Killer | None:
        """The first of some tests that fails, does not end, or cannot be collected."""
        if not tests:
            return None
        chosen = self.project.parent / f"{self.project.name}-chosen"
        chosen.write_text("\n".join(tests), encoding="utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        reader, writer = os.pipe()
        process = subprocess.Popen(
            pytest("-n", "0", "-x", "--tb=no", "-m", marks, *files),
            cwd=self.project,
            env=environment(self.project, **{CHOSEN: str(chosen), PIPE: str(writer)}),
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

    def slow_tests(self, folders: Iterable[str]) -> list[str]:
        """The slow tests of some folders."""
        there = [f"tests/{name}" for name in folders if (self.project / "tests" / name).is_dir()]
        if not there:
            return []
        command = pytest("-n", "0", "-v", "--collect-only", "-m", "slow and not soak", *there)
        env = environment(self.project)
        ended = subprocess.run(
            command, cwd=self.project, env=env, stdout=subprocess.PIPE, text=True
        )
        return [line for line in ended.stdout.splitlines() if "::" in line]

    def _told(self, reader: int, process: subprocess.Popen[bytes]) -> Killer | None:
        """What the pipe tells: the failing test, or the test that takes too long."""
        running, limit, rest = "the start", SLOW, b""
        while select.select([reader], [], [], limit)[0]:
            if not (block := os.read(reader, 1 << 16)):
                break
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                kind, _, test = line.decode().partition(" ")
                if kind == "fail":
                    return Killer(test)
                running, limit = test, GRACE + 10 * self.seconds.get(test, SLOW / 10)
        else:
            return Killer(running, " (time)")
        # No test failed: 0 is success, 5 is that no test was found.
        return None if process.wait() in (0, 5) else Killer(running, " (ended)")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a run and the processes of its tests."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def applied(project: Path, faults: Iterable[Mutant]) -> Iterator[None]:
    """Apply mutants in a copy, and take them back."""
    modules: dict[Path, list[Mutant]] = defaultdict(list)
    for mutant in faults:
        modules[project / mutant.module].append(mutant)
    sources = {path: path.read_bytes() for path in modules}
    try:
        for path, found in modules.items():
            text = sources[path]
            for mutant in sorted(found, key=lambda mutant: -mutant.start):
                text = mutant.applied(text)
            written(path, text)
        yield
    finally:
        for path, text in sources.items():
            written(path, text)


def verdict(mutant: Mutant, run: Run, kept: Kept) -> Verdict:
    """Run the first tests that reach a mutant."""
    started = time.monotonic()
    tests = kept.tests(mutant)
    broad = [
        test for test in tests[FIRST:] if test.startswith(BROAD) and test in kept.reach(mutant)
    ]
    with applied(run.project, [mutant]):
        killer = run.killer(tests[:FIRST]) or run.killer(broad)
    return Verdict(killer, time.monotonic() - started)


def together(
    faults: Sequence[Mutant], tests: list[str], run: Run, kept: Kept, marks: str
) -> dict[Mutant, Killer]:
    """The mutants that some tests notice; all are applied at once until a test fails.

    That test then runs against each mutant that it reaches alone, and against the others only if
    it notices none of these.
    """
    noticed: dict[Mutant, Killer] = {}
    for group in apart(faults):
        left = tests
        while left and (waiting := [mutant for mutant in group if mutant not in noticed]):
            with applied(run.project, waiting):
                failing = run.killer(left, marks)
            if failing is None:
                break
            is_known = failing.test in left
            tried = [failing.test] if is_known else left
            reached = [mutant for mutant in waiting if failing.test in kept.reach(mutant)]
            for some in (reached, [mutant for mutant in waiting if mutant not in reached]):
                found = [(mutant, alone(mutant, tried, run, marks)) for mutant in some]
                noticed |= {mutant: killer for mutant, killer in found if killer}
                if any(killer for _, killer in found):
                    break
            left = left[left.index(failing.test) + 1 :] if is_known else []
    return noticed


def alone(mutant: Mutant, tests: list[str], run: Run, marks: str) -> Killer | None:
    with applied(run.project, [mutant]):
        return run.killer(tests, marks)


def apart(faults: Iterable[Mutant]) -> list[list[Mutant]]:
    """Groups of mutants, of which no two change the same bytes."""
    groups: list[list[Mutant]] = []
    for mutant in faults:
        for group in groups:
            if not any(overlap(mutant, other) for other in group):
                group.append(mutant)
                break
        else:
            groups.append([mutant])
    return groups


def overlap(one: Mutant, other: Mutant) -> bool:
    return one.module == other.module and one.start < other.end and other.start < one.end


def written(path: Path, source: bytes) -> None:
    """Write a module; its compiled form could have the same size and time, and goes."""
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


# The sample


def draw(seed: int, count: int, within: tuple[str, ...]) -> list[Mutant]:
    """Some mutants of the checkout: a third of them where it writes, no two in one line."""
    groups: dict[bool, dict[str, list[Mutant]]] = {
        True: defaultdict(list),
        False: defaultdict(list),
    }
    for path in sorted((CHECKOUT / "sessiontree").rglob("*.py")):
        module = str(path.relative_to(CHECKOUT))
        if module.startswith(within):
            for mutant in mutants(module, path.read_bytes()):
                groups[module.startswith(WRITING)][mutant.kind].append(mutant)
    chance = random.Random(seed)
    drawn: list[Mutant] = []
    places = set[str]()
    while len(drawn) < count:
        kinds = groups[len(drawn) % 3 == 0] or groups[False] or groups[True]
        mutant = chance.choice(kinds[chance.choice(sorted(kinds))])
        if mutant.place not in places:
            places.add(mutant.place)
            drawn.append(mutant)
    return drawn


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Sample:
    """Mutants with their numbers in the draw, and the table that grows."""

    def __init__(self, drawn: list[tuple[int, Mutant]], kept: Kept, projects: list[Path]) -> None:
        self.drawn = drawn
        self.kept = kept
        self.projects: SimpleQueue[Path] = SimpleQueue()
        for project in projects:
            self.projects.put(project)
        self.workers = len(projects)
        self.noticed: dict[Mutant, Killer] = {}

    @contextmanager
    def run(self) -> Iterator[Run]:
        project = self.projects.get()
        try:
            yield Run(project, self.kept.seconds)
        finally:
            self.projects.put(project)

    @property
    def left(self) -> list[Mutant]:
        return [mutant for _, mutant in self.drawn if mutant not in self.noticed]

    def line(self) -> None:
        """Each mutant alone, against the first tests that reach it."""

        def judge(mutant: Mutant) -> Verdict:
            with self.run() as run:
                return verdict(mutant, run, self.kept)

        print("| # | place | mutation | killed by | seconds |\n|---|---|---|---|---|")
        with ThreadPoolExecutor(self.workers) as pool:
            verdicts = pool.map(judge, [mutant for _, mutant in self.drawn])
            for (number, mutant), found in zip(self.drawn, verdicts, strict=True):
                if found.killer:
                    self.noticed[mutant] = found.killer
                self.row(number, mutant, f"{found.seconds:.0f}")

    def rest(self) -> None:
        """All mutants that are left, against all quick tests."""
        seconds = self.kept.seconds
        self._together(sorted(seconds, key=seconds.__getitem__), "not slow")

    def slow(self) -> None:
        """All mutants that are left, against the slow tests of their folders."""
        folders = {folder_of(mutant.module) for mutant in self.left}
        if any(mutant.module.startswith(WRITING) for mutant in self.left):
            folders |= set(OF_WRITING)
        with self.run() as run:
            tests = run.slow_tests(sorted(folders))
        self._together(tests, "slow and not soak")

    def _together(self, tests: list[str], marks: str) -> None:
        shares = [tests[at :: self.workers] for at in range(self.workers)]
        faults = self.left

        def judge(share: list[str]) -> dict[Mutant, Killer]:
            with self.run() as run:
                return together(faults, share, run, self.kept, marks)

        with ThreadPoolExecutor(self.workers) as pool:
            for found in pool.map(judge, shares):
                self.noticed |= found
        for number, mutant in self.drawn:
            if mutant in faults and mutant in self.noticed:
                self.row(number, mutant, "")

    def row(self, number: int, mutant: Mutant, seconds: str) -> None:
        killer = self.noticed.get(mutant, "**survived**")
        change = mutant.change.replace("|", "\\|")
        print(f"| {number} | {mutant.place} | {change} | {killer} | {seconds} |", flush=True)

    def shares(self) -> None:
        """Name what proves nothing, then print the survivors and the shares."""
        killers = {killer.test for killer in self.noticed.values()}
        with self.run() as run:
            failing = failing_alone(run.project, killers)
        print("\nSurvivors:\n")
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for number, mutant in self.drawn:
            killer = self.noticed.get(mutant)
            if killer and killer.test in failing:
                print(f"{number} was killed by {killer}, which fails without a mutant too")
                killer = None
            if not killer:
                print(f"{number} {mutant.place} {mutant.change}")
            for name in ("writing" if mutant.module.startswith(WRITING) else "the others", "all"):
                counts[name][0] += 1
                counts[name][1] += killer is not None
        print("\n| modules | drawn | killed | survived | share |\n|---|---|---|---|---|")
        for name, (tried, killed) in sorted(counts.items(), reverse=True):
            print(f"| {name} | {tried} | {killed} | {tried - killed} | {killed / tried:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps the copies and the map")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--only", nargs="+", type=int, help="numbers of the draw")
    parser.add_argument("--within", nargs="+", default=[""], help="starts of paths of modules")
    options = parser.parse_args()
    drawn = list(enumerate(draw(options.seed, options.count, tuple(options.within)), start=1))
    if options.only:
        drawn = [(number, mutant) for number, mutant in drawn if number in options.only]
    with tempfile.TemporaryDirectory() as made:
        folder = (options.folder or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        projects = [folder / f"copy-{number}" for number in range(options.workers)]
        for project in projects:
            shutil.rmtree(project, ignore_errors=True)
            copy_project(project)
        sample = Sample(drawn, the_map(folder, projects[0]), projects)
        for stage in options.stages:
            {"line": sample.line, "rest": sample.rest, "slow": sample.slow}[stage]()
        sample.shares()


if __name__ == "__main__":
    main()
