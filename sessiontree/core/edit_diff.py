"""An edit as a diff: the lines that it takes away and adds, as far as the agent tells them.

Invariant: a line that the edit leaves as it is is neither taken away nor added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sessiontree.core.edits import Edit, after
from sessiontree.core.line_diff import lines_of, pairs

AROUND: Final = 3
"""The lines around a change that are shown."""


class Counts(NamedTuple):
    """The lines that an edit adds and takes away."""

    added: int
    removed: int


def diff_of(edit: Edit) -> list[str]:
    """The lines of a diff, each with its mark: ` `, `-`, `+`, or `@@` between parts."""
    found: list[str] = []
    for before, behind, start in _parts(edit):
        for lines in _shortened(list(_marked(before, behind)), start):
            found += lines
    return found


def counts_of(edit: Edit) -> Counts:
    """How many lines an edit adds and takes away, as far as it tells."""
    added = removed = 0
    for before, behind, _ in _parts(edit):
        same = len(pairs(before, behind))
        added, removed = added + len(behind) - same, removed + len(before) - same
    return Counts(added, removed)


def _parts(edit: Edit) -> Iterator[tuple[Sequence[str], Sequence[str], int | None]]:
    """The lines before and after of each part, and the number of the first one before."""
    made = after(edit, edit.before) if edit.before is not None else None
    if made is not None and edit.before is not None:
        yield _lines(edit.before), _lines(made), 1
    elif edit.kind in ("write", "append") or edit.line is not None:
        yield [], _lines(edit.content or ""), 1 if edit.kind == "write" else None
    elif edit.hunks:
        for hunk in edit.hunks:
            yield hunk.before, hunk.after, hunk.start
    else:
        for swap in edit.swaps:
            yield _lines(swap.old), _lines(swap.new), None


def _lines(text: str) -> list[str]:
    return lines_of(text.replace("\r\n", "\n"))


def _marked(before: Sequence[str], behind: Sequence[str]) -> Iterator[str]:
    one = other = 0
    for left, right in [*pairs(before, behind), (len(before), len(behind))]:
        yield from (f"-{line}" for line in before[one:left])
        yield from (f"+{line}" for line in behind[other:right])
        if left < len(before):
            yield f" {before[left]}"
        one, other = left + 1, right + 1


def _shortened(lines: Sequence[str], start: int | None) -> Iterator[list[str]]:
    """The changes of a part, each with a few lines around it, below a line with its place."""
    changed = [at for at, line in enumerate(lines) if line[0] != " "]
    runs: list[tuple[int, int]] = []
    for at in changed:
        low, high = max(0, at - AROUND), min(len(lines), at + AROUND + 1)
        if runs and low <= runs[-1][1]:
            runs[-1] = runs[-1][0], high
        else:
            runs.append((low, high))
    for low, high in runs:
        if start is None:
            yield ["@@", *lines[low:high]]
            continue
        old = start + sum(line[0] != "+" for line in lines[:low])
        new = start + sum(line[0] != "-" for line in lines[:low])
        part = lines[low:high]
        minus, plus = (sum(line[0] != mark for line in part) for mark in "+-")
        yield [f"@@ -{old},{minus} +{new},{plus} @@", *part]
