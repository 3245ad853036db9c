"""What each command costs on each structure at five megabytes, as a table of the worst.

    python -m tests.hostile.sweep RESULTS [STRUCTURE …] [--command COMMAND …]

One process runs at a time. A command that takes over a second runs at a quarter of the size too,
for its growth. Each result is a line of JSON in RESULTS, and a run goes on where an earlier one
with that file ended; the table is of all that the file has.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.runner import Cost, Runner, commands_for
from tests.hostile.test_cost import LARGE, STRUCTURES

_SLOW: Final = 1.0
"""The seconds above which a command's growth is measured."""

_SHOWN: Final = 15


class _Run(NamedTuple):
    name: str
    command: str
    size: int
    cost: Cost

    @property
    def words(self) -> str:
        cost = self.cost
        said = cost.fault or (cost.said.strip().splitlines()[:1] or [""])[0][:60]
        ending = f"  ({said})" if cost.exit else ""
        return (
            f"{cost.seconds:6.2f} s {cost.megabytes:5.0f} MB  {self.name}: {self.command}{ending}"
        )


def main(results: Path, names: Iterable[str], commands: Iterable[str]) -> None:
    """Measure what the file of results does not have yet, and print its table."""
    chosen = set(commands)
    known = {(run.name, run.command, run.size) for run in _read(results)}
    with tempfile.TemporaryDirectory() as folder, Runner(Path(folder)) as runner:
        for name in names:
            every = commands_for(name)
            wanted = {
                command: every[command] for command in every if command in chosen or not chosen
            }
            for size in (LARGE, LARGE // 4):
                if size != LARGE:
                    slow = {run.command for run in _read(results) if _is_slow(run, name)}
                    wanted = {command: wanted[command] for command in wanted if command in slow}
                missing = {
                    command: words
                    for command, words in wanted.items()
                    if (name, command, size) not in known
                }
                if missing:
                    _write(results, name, size, runner.costs(name, size, missing))
    print("\n".join(_table(list(_read(results)))))


def _is_slow(run: _Run, name: str) -> bool:
    return run.name == name and run.size == LARGE and run.cost.seconds > _SLOW


def _read(results: Path) -> Iterator[_Run]:
    for line in results.read_text().splitlines() if results.exists() else ():
        name, command, size, cost = json.loads(line)
        yield _Run(name, command, size, Cost(**cost))


def _write(results: Path, name: str, size: int, found: dict[str, Cost]) -> None:
    with results.open("a") as out:
        for command, cost in found.items():
            print(json.dumps([name, command, size, vars(cost)]), file=out)


def _table(runs: list[_Run]) -> Iterator[str]:
    whole = [run for run in runs if run.size == LARGE]
    yield f"{len(whole):,} commands on {len({run.name for run in whole})} structures"
    yield "\nThe most time:"
    yield from _worst(whole, [run.cost.seconds for run in whole])
    yield "\nThe most memory:"
    yield from _worst(whole, [run.cost.megabytes for run in whole])
    quarters = {(run.name, run.command): run.cost for run in runs if run.size != LARGE}
    grown = [run for run in whole if (run.name, run.command) in quarters]
    growths = [r.cost.seconds / quarters[r.name, r.command].seconds for r in grown]
    yield "\nThe most growth of time at four times the size:"
    yield from _worst(grown, growths, "{:5.1f} times ")


def _worst(runs: list[_Run], by: list[float], lead: str = "") -> Iterator[str]:
    ordered = sorted(zip(by, runs, strict=True), key=lambda pair: -pair[0])
    for value, run in ordered[:_SHOWN]:
        yield lead.format(value) + run.words


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*", metavar="STRUCTURE")
    parser.add_argument("--command", action="append", default=[], dest="commands")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    main(given.results, given.names or STRUCTURES, given.commands)
