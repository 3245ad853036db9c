"""The content of a file after each of its edits, as far as what is told makes it certain.

A write, a look at all of the file, and the content that an agent keeps beside an edit make all
lines known. A look at a part makes these lines known, at their numbers. An edit changes the lines
that are known. What contradicts what was known shows that something else changed the file: then
only what was told since is known.

Invariants: no line is guessed; a part that is not known is named by the numbers of its lines, and
its length where that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sessiontree.core.edits import Edit, Seen, after
from sessiontree.core.line_diff import lines_of
from sessiontree.core.patch import Hunk
from sessiontree.core.steps import LINE, Steps, find

_MOST_LINES: Final = 1_000_000
"""The number of a line above which a part of a file is not kept."""


class Gap(msgspec.Struct, frozen=True):
    """Lines that are not known: the first, and the last; None if it is not known where it ends."""

    first: int
    last: int | None

    def as_text(self) -> str:
        """Its lines, for a message."""
        if self.last is None:
            return f"lines from {self.first:,} on"
        return (
            f"line {self.first:,}"
            if self.first == self.last
            else f"lines {self.first:,} to {self.last:,}"
        )


class Content(msgspec.Struct):
    """What is known of a file at one time.

    Attributes:
        text: the whole content; None where some of it is not known, or the file is not there.
        lines: its lines without ends, None for one that is not known.
        is_end_known: whether no line follows the last of `lines`.
        is_there: whether the file is there.
        contradicted: whether the last event showed that something else had changed the file.
    """

    text: str | None = None
    lines: list[str | None] = []
    is_end_known: bool = False
    is_there: bool = True
    contradicted: bool = False

    def gaps(self) -> list[Gap]:
        """The parts that are not known."""
        if self.text is not None or not self.is_there:
            return []
        found: list[Gap] = []
        for number, line in enumerate(self.lines, 1):
            if line is not None:
                continue
            if found and found[-1].last == number - 1:
                found[-1] = Gap(found[-1].first, number)
            else:
                found.append(Gap(number, number))
        if not self.is_end_known:
            open_from = len(self.lines) + 1
            if found and found[-1].last == open_from - 1:
                open_from = found.pop().first
            found.append(Gap(open_from, None))
        return found

    def is_known(self) -> bool:
        """Whether any line is known, or that the file is not there."""
        return self.text is not None or not self.is_there or any(map(_is_known, self.lines))

    def known(self) -> int:
        """The number of lines that are known."""
        if self.text is not None:
            return len(lines_of(self.text))
        return sum(line is not None for line in self.lines)

    def take(self, event: Edit | Seen, steps: Steps) -> None:
        """Go on with the next event.

        Raises:
            TooMuchError: it needs more steps than are left.
        """
        self.contradicted = False
        steps.take(LINE * len(self.lines))
        if isinstance(event, Seen):
            self._see(event, steps)
            return
        if event.before is not None:
            self._is_whole(event.before)
        made = after(event, self.text if self.is_there else None, steps)
        if event.kind == "delete":
            self._replace(Content(is_there=False))
        elif made is not None:
            self._replace(_whole(made))
        elif event.kind == "move" and not event.hunks:
            return
        elif (made := self._edited(event, steps)) is not None:
            self.lines = list(lines_of(made))
        elif event.kind == "append":
            self._open_end()
        elif event.hunks and all(hunk.start is not None for hunk in event.hunks):
            self._patch(event.hunks, steps)
        elif not self._swap(event, steps):
            self._forget()

    def _edited(self, edit: Edit, steps: Steps) -> str | None:
        """The content after an edit of lines that are all known, but for the end of the last."""
        lines = [line for line in self.lines if line is not None]
        is_known = self.text is None and self.is_there and self.is_end_known
        if not is_known or not lines or len(lines) < len(self.lines) or edit.kind != "edit":
            return None
        return after(edit, "".join(f"{line}\n" for line in lines), steps)

    def _replace(self, other: Content) -> None:
        self.text, self.lines = other.text, other.lines
        self.is_end_known, self.is_there = other.is_end_known, other.is_there

    def _open_end(self) -> None:
        """Something was added at the end, maybe to the last line that is known."""
        self.is_end_known = False
        self.lines[-1:] = [None] if self.lines else []

    def _forget(self) -> None:
        """Something changed the file in a way that is not told."""
        self.contradicted = self.text is not None or any(map(_is_known, self.lines))
        self._replace(Content())

    def _is_whole(self, text: str) -> None:
        contradicted = self.text is not None and self.text != text
        self._replace(_whole(text))
        self.contradicted = contradicted

    def _see(self, seen: Seen, steps: Steps) -> None:
        if seen.is_whole:
            self._is_whole(seen.text)
            return
        shown = [line.removesuffix("\r") for line in seen.text.split("\n")]
        low, high = seen.first - 1, seen.first - 1 + len(shown)
        steps.take(LINE * min(high, _MOST_LINES))
        if self.text is not None:
            steps.take(len(self.text) + LINE * self.text.count("\n"))
            if lines_of(self.text.replace("\r\n", "\n"))[low:high] == _trimmed(shown):
                return
            self._forget()
        if high > _MOST_LINES:
            return
        if not self.is_there:
            self._replace(Content())
        known = self.lines[low:high]
        is_longer = self.is_end_known and high > len(self.lines)
        is_other = any(
            one is not None and one != two for one, two in zip(known, shown, strict=False)
        )
        if is_longer or is_other:
            self._forget()
        self.lines = [*self.lines, *[None] * (high - len(self.lines))]
        self.lines[low:high] = shown
        if seen.total is not None and seen.total == high:
            self.is_end_known = True
            del self.lines[high:]

    def _patch(self, hunks: Sequence[Hunk], steps: Steps) -> None:
        """Replace lines at numbers that are told."""
        if any((hunk.start or 0) > _MOST_LINES for hunk in hunks):
            self._forget()
            return
        lines = [] if self.text is None else lines_of(self.text.replace("\r\n", "\n"))
        made: list[str | None] = list(lines) if self.text is not None else list(self.lines)
        shift = 0
        for hunk in hunks:
            low = max((hunk.start or 1) - 1 + shift, 0)
            high = low + len(hunk.before)
            steps.take(max(high, len(made)))  # lines that are made, or move
            made += [None] * (high - len(made))
            if any(
                one is not None and one != two
                for one, two in zip(made[low:high], hunk.before, strict=True)
            ):
                self._forget()
                made = [None] * high
            made[low:high] = hunk.after
            shift += len(hunk.after) - len(hunk.before)
        is_end_known = self.is_end_known and self.text is None
        self._replace(Content(None, made, is_end_known))

    def _swap(self, edit: Edit, steps: Steps) -> bool:
        """Replace texts that stand in lines that are known; whether all do, once."""
        if self.text is not None or not edit.swaps or not self.is_there:
            return False
        made = list(self.lines)
        for swap in edit.swaps:
            steps.take(LINE * len(made))
            place = None if swap.every else _place_of(swap.old, made, steps)
            if place is None:
                return False
            first, last, text = place
            is_at_end = last == len(made)
            made[first:last] = text.replace(swap.old, swap.new, 1).split("\n")
            if is_at_end and not made[-1]:  # an empty line, or what follows the last LF
                made.pop()
                self.is_end_known = False
        self.lines = made
        return True


def _place_of(old: str, lines: Sequence[str | None], steps: Steps) -> tuple[int, int, str] | None:
    """The run of known lines that has a text once, and no other run has; with its text."""
    found: list[tuple[int, int, str]] = []
    first = 0
    while first < len(lines):
        if lines[first] is None:
            first += 1
            continue
        last = first
        while last < len(lines) and lines[last] is not None:
            last += 1
        text = "\n".join(line for line in lines[first:last] if line is not None)
        if (at := find(text, old, 0, steps)) >= 0:
            if find(text, old, at + len(old), steps) >= 0:
                return None
            found.append((first, last, text))
        first = last
    return found[0] if len(found) == 1 else None


def _whole(text: str) -> Content:
    return Content(text, [], is_end_known=True)


def _trimmed(lines: Sequence[str]) -> list[str]:
    return list(lines[:-1] if lines and not lines[-1] else lines)


def _is_known(line: str | None) -> bool:
    return line is not None
