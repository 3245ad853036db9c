"""The lines that two texts share, and an edit as a diff.

Lines that occur once in both texts are anchors, if they come in the same order (the patience diff
of Bram Cohen). Between anchors the same is done again, and short runs without anchors are compared
line by line. The diff of an edit has the lines that it takes away and adds, as far as the agent
records them.

Invariants:

- Pairs of lines are equal, and rise in both texts.
- A line that the edit leaves as it is is neither taken away nor added.
- Time and memory grow with the length of the texts, never with its square.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sessiontree.core.limits import SHOWN_EDIT_STEPS, Budget
from sessiontree.edits.tools import Edit, after, characters_of
from sessiontree.errors import TooMuchError

_SHORT: Final = 10_000
"""The most cells of a table that compares two runs line by line."""


Run = tuple[int, int, int]
"""Lines that are the same: where they begin in each text, and how many they are."""


_MAX_LOOKS: Final = 6
"""How often all lines are looked at, to find anchors; texts that need more were made to cost time.

Two texts that have nothing to do with each other need three.
"""


def lines_of(text: str) -> list[str]:
    """The lines of a text, without line ends."""
    return text.removesuffix("\n").split("\n") if text else []


def pairs(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """The indexes of the lines that are the same in both, in order."""
    return [
        (one + more, other + more)
        for one, other, length in runs(before, after)
        for more in range(length)
    ]


def runs(before: Sequence[str], after: Sequence[str]) -> list[Run]:
    """The lines that are the same in both, as runs, in order."""
    if not before or not after:
        return []
    found: list[Run] = []
    waiting = [(0, len(before), 0, len(after))]
    looks = _MAX_LOOKS * (len(before) + len(after))
    while waiting:
        low, high, start, end = waiting.pop()
        if same := _common(before, low, high, after, start, end):
            found.append((low, start, same))
            low, start = low + same, start + same
        if same := _common_end(before, low, high, after, start, end):
            high, end = high - same, end - same
            found.append((high, end, same))
        if low == high or start == end:
            continue
        if high - low == 1 or end - start == 1:
            found += _alone(before, low, high, after, start, end)
            continue
        looks -= high - low + end - start
        anchors = _anchors(before, low, high, after, start, end) if looks >= 0 else []
        if anchors:
            for one, other in anchors:
                waiting.append((low, one, start, other))
                found.append((one, other, 1))
                low, start = one + 1, other + 1
            waiting.append((low, high, start, end))
        elif (high - low) * (end - start) <= _SHORT:
            compared = _compared(before, low, high, after, start, end)
            found += ((one, other, 1) for one, other in compared)
    found.sort()
    return _joined(found)


def _alone(
    before: Sequence[str], low: int, high: int, after: Sequence[str], start: int, end: int
) -> list[Run]:
    """The line of a run of one line, at its first place in the other run."""
    if high - low == 1:
        places = [(low, at, 1) for at in range(start, end) if after[at] == before[low]]
    else:
        places = [(at, start, 1) for at in range(low, high) if before[at] == after[start]]
    return places[:1]


def _joined(found: list[Run]) -> list[Run]:
    made: list[Run] = []
    for one, other, length in found:
        last = made[-1] if made else (-1, -1, 0)
        if last[0] + last[2] == one and last[1] + last[2] == other:
            made[-1] = (last[0], last[1], last[2] + length)
        else:
            made.append((one, other, length))
    return made


def _common(
    before: Sequence[str], low: int, high: int, after: Sequence[str], start: int, end: int
) -> int:
    """How many lines are the same from two lines on."""

    def is_same(first: int, last: int) -> bool:
        return before[low + first : low + last] == after[start + first : start + last]

    return _length(is_same, min(high - low, end - start))


def _common_end(
    before: Sequence[str], low: int, high: int, after: Sequence[str], start: int, end: int
) -> int:
    """How many lines are the same up to two ends."""

    def is_same(first: int, last: int) -> bool:
        return before[high - last : high - first] == after[end - last : end - first]

    return _length(is_same, min(high - low, end - start))


def _length(is_same: Callable[[int, int], bool], most: int) -> int:
    """How many lines are the same, at most `most`; slices are compared, in growing steps."""
    same, step = 0, 1
    while same < most:
        step = min(step, most - same)
        if is_same(same, same + step):
            same += step
            step *= 2
        elif step == 1:
            break
        else:
            step = max(step // 4, 1)
    return same


def _anchors(
    before: Sequence[str], low: int, high: int, after: Sequence[str], start: int, end: int
) -> list[tuple[int, int]]:
    """The lines that stand once in both runs, the longest row of them that rises in both."""
    once = _once(before, low, high) & _once(after, start, end)
    others = {after[at]: at for at in range(start, end) if after[at] in once} if once else {}
    both = [(at, others[before[at]]) for at in range(low, high) if before[at] in others]
    tails: list[int] = []  # the least end in `after` of a row of each length
    ends: list[int] = []  # the index in `both` of that end
    above = [-1] * len(both)
    for index, (_, other) in enumerate(both):
        length = bisect_left(tails, other)
        if length:
            above[index] = ends[length - 1]
        if length == len(tails):
            tails.append(other)
            ends.append(index)
        else:
            tails[length], ends[length] = other, index
    row: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        row.append(both[at])
        at = above[at]
    row.reverse()
    return row


def _once(lines: Sequence[str], low: int, high: int) -> set[str]:
    return {line for line, count in Counter(lines[low:high]).items() if count == 1}


def _compared(
    before: Sequence[str], low: int, high: int, after: Sequence[str], start: int, end: int
) -> list[tuple[int, int]]:
    """A longest common row of lines of two short runs; of several the one that comes first.

    For each line of `before`, an integer has a bit for each line of `after`, the last one lowest.
    A bit is set if the longest row from there on is longer with this line of `after`. A sum makes
    the bits of a line of those of the line below it (Crochemore and others, 2001).
    """
    width = end - start
    full = (1 << width) - 1
    same: dict[str, int] = {}
    for column in range(width):
        line = after[start + column]
        same[line] = same.get(line, 0) | 1 << (width - 1 - column)
    longer = [0] * (high - low + 1)
    for row in range(high - low - 1, -1, -1):
        flat = full & ~longer[row + 1]
        both = flat & same.get(before[low + row], 0)
        longer[row] = full & ~((flat + both) | (flat - both))
    found: list[tuple[int, int]] = []
    row = column = 0
    while row < high - low and column < width:
        if before[low + row] == after[start + column]:
            found.append((low + row, start + column))
            row, column = row + 1, column + 1
            continue
        below = longer[row + 1] & ((1 << (width - column)) - 1)
        beside = longer[row] & ((1 << (width - column - 1)) - 1)
        if below.bit_count() >= beside.bit_count():
            row += 1
        else:
            column += 1
    return found


AROUND: Final = 3
"""The lines around a change that are shown."""


class DiffCounts(NamedTuple):
    """The lines that an edit adds and takes away."""

    added: int
    removed: int


class _DiffPart(NamedTuple):
    """Lines before and after, the number of the first one before, and the lines in both."""

    before: Sequence[str]
    behind: Sequence[str]
    start: int | None
    same: list[Run]

    @property
    def counts(self) -> DiffCounts:
        same = sum([length for _, _, length in self.same])  # a generator takes twice as long
        return DiffCounts(len(self.behind) - same, len(self.before) - same)


class _Change(NamedTuple):
    """Lines that take the place of others: the indexes of each, the last ones exclusive."""

    low: int
    high: int
    start: int
    end: int


def diff_of(edit: Edit) -> list[str]:
    """The lines of a diff, each with its mark: ` `, `-`, `+`, or `@@` between parts."""
    return counted_diff_of(edit)[1]


def counts_of(edit: Edit) -> DiffCounts:
    """How many lines an edit adds and takes away, as far as it tells."""
    if not (edit.swaps or edit.hunks or edit.content or edit.before):
        return DiffCounts(0, 0)
    return _sum(part.counts for part in _parts(edit))


def counted_diff_of(edit: Edit) -> tuple[DiffCounts, list[str]]:
    """What `counts_of` and `diff_of` give, for less than both."""
    parts = list(_parts(edit))
    return _sum(part.counts for part in parts), [line for part in parts for line in _shown(part)]


def _sum(all_counts: Iterator[DiffCounts]) -> DiffCounts:
    added = removed = 0
    for counts in all_counts:
        added, removed = added + counts.added, removed + counts.removed
    return DiffCounts(added, removed)


def _parts(edit: Edit) -> Iterator[_DiffPart]:
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
        return after(edit, edit.before, Budget(SHOWN_EDIT_STEPS, characters_of(edit) + 1_000))
    except TooMuchError:
        return None


def _part(before: Sequence[str], behind: Sequence[str], start: int | None) -> _DiffPart:
    return _DiffPart(before, behind, start, runs(before, behind))


def _lines(text: str) -> list[str]:
    return lines_of(text.replace("\r\n", "\n"))


def _shown(part: _DiffPart) -> Iterator[str]:
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


def _together(part: _DiffPart) -> Iterator[list[_Change]]:
    """The changes of a part; those with few lines between them are shown as one."""
    found: list[_Change] = []
    for change in _changes(part):
        if found and change.low - found[-1].high > 2 * AROUND:
            yield found
            found = []
        found.append(change)
    if found:
        yield found


def _changes(part: _DiffPart) -> Iterator[_Change]:
    one = other = 0
    for left, right, length in [*part.same, (len(part.before), len(part.behind), 0)]:
        if one < left or other < right:
            yield _Change(one, left, other, right)
        one, other = left + length, right + length
