"""An edit as a diff: the lines that it takes away and adds, as far as the agent tells them.

Invariants: a line that the edit leaves as it is is neither taken away nor added; time and memory
grow with the texts that the edit tells, never with their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sessiontree.core.edits import Edit, after, characters_of
from sessiontree.core.line_diff import Run, lines_of, runs
from sessiontree.core.steps import Steps
from sessiontree.errors import TooMuchError

AROUND: Final = 3
"""The lines around a change that are shown."""


class Counts(NamedTuple):
    """The lines that an edit adds and takes away."""

    added: int
    removed: int


class _Part(NamedTuple):
    """Lines before and after, the number of the first one before, and the lines in both."""

    before: Sequence[str]
    behind: Sequence[str]
    start: int | None
    same: list[Run]

    @property
    def counts(self) -> Counts:
        same = sum([length for _, _, length in self.same])  # a generator takes twice as long
        return Counts(len(self.behind) - same, len(self.before) - same)


class _Change(NamedTuple):
    """Lines that take the place of others: the indexes of each, the last ones exclusive."""

    low: int
    high: int
    start: int
    end: int


def diff_of(edit: Edit) -> list[str]:
    """The lines of a diff, each with its mark: ` `, `-`, `+`, or `@@` between parts."""
    return counted_diff_of(edit)[1]


def counts_of(edit: Edit) -> Counts:
    """How many lines an edit adds and takes away, as far as it tells."""
    if not (edit.swaps or edit.hunks or edit.content or edit.before):
        return Counts(0, 0)
    return _sum(part.counts for part in _parts(edit))


def counted_diff_of(edit: Edit) -> tuple[Counts, list[str]]:
    """What `counts_of` and `diff_of` give, for less than both."""
    parts = list(_parts(edit))
    return _sum(part.counts for part in parts), [line for part in parts for line in _shown(part)]


def _sum(all_counts: Iterator[Counts]) -> Counts:
    added = removed = 0
    for counts in all_counts:
        added, removed = added + counts.added, removed + counts.removed
    return Counts(added, removed)


def _parts(edit: Edit) -> Iterator[_Part]:
    made = _made(edit)
    if made is not None and edit.before is not None:
        yield _part(_lines(edit.before), _lines(made), 1)
    elif edit.kind in ("write", "append") or edit.line is not None:
        yield _part([], _lines(edit.content or ""), 1 if edit.kind == "write" else None)
    elif edit.hunks:
        for hunk in edit.hunks:
            yield _part(hunk.before, hunk.after, hunk.start)
    else:
        for swap in edit.swaps:
            yield _part(_lines(swap.old), _lines(swap.new), None)


def _made(edit: Edit) -> str | None:
    """The content after an edit; None where it is not known, or takes too many steps to find."""
    if edit.before is None:
        return None
    try:
        return after(edit, edit.before, Steps.of_edit(characters_of(edit)))
    except TooMuchError:
        return None


def _part(before: Sequence[str], behind: Sequence[str], start: int | None) -> _Part:
    return _Part(before, behind, start, runs(before, behind))


def _lines(text: str) -> list[str]:
    return lines_of(text.replace("\r\n", "\n"))


def _shown(part: _Part) -> Iterator[str]:
    """The changes of a part, each with a few lines around it, below a line with its place."""
    for changes in _together(part):
        first, last = changes[0], changes[-1]
        above = min(AROUND, first.low)
        lines = [f" {line}" for line in part.before[first.low - above : first.low]]
        at = first.low
        for change in changes:
            lines += (f" {line}" for line in part.before[at : change.low])
            lines += (f"-{line}" for line in part.before[change.low : change.high])
            lines += (f"+{line}" for line in part.behind[change.start : change.end])
            at = change.high
        lines += (f" {line}" for line in part.before[at : at + AROUND])
        if part.start is None:
            yield "@@"
        else:
            below = min(AROUND, len(part.before) - last.high)
            old, new = part.start + first.low - above, part.start + first.start - above
            minus = last.high + below - (first.low - above)
            plus = last.end + below - (first.start - above)
            yield f"@@ -{old},{minus} +{new},{plus} @@"
        yield from lines


def _together(part: _Part) -> Iterator[list[_Change]]:
    """The changes of a part; those with few lines between them are shown as one."""
    found: list[_Change] = []
    for change in _changes(part):
        if found and change.low - found[-1].high > 2 * AROUND:
            yield found
            found = []
        found.append(change)
    if found:
        yield found


def _changes(part: _Part) -> Iterator[_Change]:
    one = other = 0
    for left, right, length in [*part.same, (len(part.before), len(part.behind), 0)]:
        if one < left or other < right:
            yield _Change(one, left, other, right)
        one, other = left + length, right + length
