"""Runs: many short lines in a row that are alike, such as blank lines, taken together.

A file of a few megabytes may have millions of lines without an entry. A finding for each would take
more time and memory than the rest of the file. A run is reported once, with the number of its
lines.

Invariants: a line in a run is shorter than any entry; lines that are no run are given one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sessiontree.core.codec import ended_lines, head
from sessiontree.core.damage import Report

SHORTEST_ENTRY: Final = len('{"type":"","uuid":"x"}')

_RUN: Final = re.compile(
    rb"(?:(?<=\n)|\A)([^\n]{0,%d}\n)\1{7,}+" % (SHORTEST_ENTRY - 1)  # at least eight lines alike
)
_USUAL_LENGTH: Final = 40
"""A block whose lines are longer than this on average has too few short lines to look for runs."""

Lines = list[bytes]
"""Consecutive lines, each with its LF."""


def parts(block: bytes, lines: Lines | None = None) -> Iterator[tuple[Lines, int]]:
    """Whole lines as parts: lines and 1, or the one line of a run and how often it stands there."""
    lines = ended_lines(block) if lines is None else lines
    if len(lines) * _USUAL_LENGTH <= len(block):
        yield lines, 1
        return
    done = 0
    for run in _RUN.finditer(block):
        if done < run.start():
            yield ended_lines(block[done : run.start()]), 1
        yield [run[1]], (run.end() - run.start()) // len(run[1])
        done = run.end()
    if done < len(block):
        yield ended_lines(block[done:]), 1


def report_run(line: bytes, count: int, offset: int, report: Report) -> None:
    """Report what is wrong with `count` lines alike, given without LF, the first at `offset`."""

    def report_all(kind: str, offset: int, cause: str) -> None:
        report(kind, offset, f"{cause}, and {count - 1:,} more lines like it follow")

    head(line, offset, report_all)
