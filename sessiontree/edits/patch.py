"""Patches as agents write and show them: hunks of lines, and where they stand.

Three forms are read: the patches of Codex's `apply_patch` (V4A), unified diffs, and the hunks that
Claude Code keeps beside a result (`structuredPatch`).

Sources: the grammar in the instructions of Codex's `apply_patch`, and of OpenAI's tool of the same
name; the unified format of POSIX `diff -u`.

Invariants: a line of a hunk has no line end; what is not understood gives no hunk, and never a
wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sessiontree.core.limits import LINE, Budget, take_search

Lines = tuple[str, ...]

_BEGIN: Final = "*** Begin Patch"
_HEADING: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE: Final = "*** Move to: "
_RANGE: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d{1,9}) ?(.*)")
MAX_FILES: Final = 1000
"""The files of one patch that are read."""


class Hunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines that follow each other, and the lines that take their place."""

    # the lines with those around them, before and after
    before: Lines
    after: Lines
    start: int | None = None  # the number of the first of `before`, from 1; None if it is not told
    above: Lines = ()  # lines that stand somewhere above, in order, such as the head of a function
    ends: bool = False  # whether the lines end the file


class FilePatch(msgspec.Struct, frozen=True):
    """What a patch does to one file."""

    path: str  # the path as written
    kind: Literal["add", "update", "delete"]  # what it does
    content: str | None = None  # the content of a file that is added; else None
    hunks: tuple[Hunk, ...] = ()  # the changes of a file that is updated
    moved_to: str | None = None  # the new path of a file that is moved as well; else None


def parse_patch(text: str) -> list[FilePatch]:
    """The files of a patch of `apply_patch`; empty for any other text."""
    if _BEGIN not in text:
        return []
    lines = iter(text[text.index(_BEGIN) :].replace("\r\n", "\n").split("\n")[1:])
    found: list[FilePatch] = []
    heading: re.Match[str] | None = None
    body: list[str] = []
    for line in lines:
        stripped = line.rstrip()
        is_heading = _HEADING.fullmatch(stripped)
        is_end = stripped == "*** End Patch"
        if is_heading or is_end:
            if heading is not None:
                found.append(_file_patch(heading, body))
            heading, body = is_heading, []
            if is_end or len(found) == MAX_FILES:
                break
        else:
            body.append(line)
    return found


def _file_patch(heading: re.Match[str], body: Sequence[str]) -> FilePatch:
    verb, path = heading[1], heading[2].strip()
    if verb == "Add":
        return FilePatch(path, "add", content=added_content(body))
    if verb == "Delete":
        return FilePatch(path, "delete")
    moved_to = None
    if body and body[0].startswith(_MOVE):
        moved_to, body = body[0][len(_MOVE) :].strip(), body[1:]
    return FilePatch(path, "update", hunks=tuple(hunks_of(body)), moved_to=moved_to)


def added_content(lines: Sequence[str]) -> str:
    """The content of a new file, whose lines each begin with `+`."""
    return "".join(line[1:] + "\n" for line in lines if line.startswith("+"))


def hunks_of(lines: Sequence[str]) -> Iterator[Hunk]:
    """The hunks below the heading of a file; a line without a mark is one that does not change."""
    above: list[str] = []
    before: list[str] = []
    after: list[str] = []
    last = len(lines)
    while last and not lines[last - 1]:
        last -= 1
    for line in lines[:last]:
        if line.startswith("@@"):
            if before or after:
                yield Hunk(tuple(before), tuple(after), None, tuple(above))
                above, before, after = [], [], []
            if head := line[2:].strip():
                above.append(head)
        elif line.rstrip() == "*** End of File":
            yield Hunk(tuple(before), tuple(after), None, tuple(above), ends=True)
            above, before, after = [], [], []
        else:
            _take(line, before, after)
    if before or after:
        yield Hunk(tuple(before), tuple(after), None, tuple(above))


def _take(line: str, before: list[str], after: list[str]) -> None:
    mark, rest = line[:1], line[1:]
    if mark == "-":
        before.append(rest)
    elif mark == "+":
        after.append(rest)
    elif mark != "\\":  # such as "\ No newline at end of file"
        kept = rest if mark == " " else line
        before.append(kept)
        after.append(kept)


def parse_unified(text: str) -> tuple[Hunk, ...]:
    """The hunks of a unified diff of one file; empty for any other text, and for a cut one."""
    found: list[Hunk] = []
    before: list[str] = []
    after: list[str] = []
    start = olds = news = 0  # the lines that the hunk has to have
    for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        if len(before) < olds or len(after) < news:
            _take(line or " ", before, after)
            if len(before) > olds or len(after) > news:
                return ()
        elif (at := _RANGE.match(line)) is not None:
            before, after = [], []
            olds, news = (int(at[group] or 1) for group in (2, 3))
            start = _first(int(at[1]), olds)
        if (olds or news) and (len(before), len(after)) == (olds, news):
            found.append(Hunk(tuple(before), tuple(after), start))
            before, after, olds, news = [], [], 0, 0
    return () if olds or news else tuple(found)


def parse_numbered(text: str) -> tuple[Hunk, ...]:
    """The hunks of a diff whose lines have numbers, as pi shows an edit; empty for another text.

    A line is a mark, the number of the line and its text; the numbers of lines that are added are
    those after the edit, all others those before it.
    """
    found: list[Hunk] = []
    shift = 0  # the lines that the hunks so far add
    start: int | None = None
    before: list[str] = []
    after: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None:
            if line.strip() not in ("", "..."):
                return ()
            if start is not None:
                found.append(Hunk(tuple(before), tuple(after), start))
                shift += len(after) - len(before)
            start, before, after = None, [], []
            continue
        mark, number, rest = numbered[1], int(numbered[2]), numbered[3]
        if start is None:
            start = max(number - shift if mark == "+" else number, 1)
        _take(mark + rest, before, after)
    if start is not None:
        found.append(Hunk(tuple(before), tuple(after), start))
    return tuple(found)


def structured_hunks(value: Any) -> tuple[Hunk, ...]:
    """The hunks in a `structuredPatch` of Claude Code; empty for any other value."""
    found: list[Hunk] = []
    for each in value if isinstance(value, list) else ():
        lines = each.get("lines") if isinstance(each, Mapping) else None
        start = each.get("oldStart") if isinstance(each, Mapping) else None
        if not isinstance(lines, list) or not isinstance(start, int):
            return ()
        before: list[str] = []
        after: list[str] = []
        for line in lines:
            if isinstance(line, str):
                if "\n" in line:
                    return ()
                _take(line.removesuffix("\r"), before, after)
        found.append(Hunk(tuple(before), tuple(after), _first(start, len(before))))
    return tuple(found)


def _first(start: int, count: int) -> int:
    """The number of the first line: a diff numbers no lines by the line above them."""
    return max(start, 1) if count else start + 1


def applied(hunks: Sequence[Hunk], lines: Sequence[str], steps: Budget) -> list[str] | None:
    """Lines after hunks, in order; None if a hunk does not fit.

    A hunk without a number is looked for below the one before it: first with the same lines, then
    without regard to spaces at the ends of lines, then at both ends, as Codex does. One with a
    number stands there, or else where its lines are nearest to it.
    """
    steps.take(LINE * len(lines))
    if any(hunk.start is None for hunk in hunks):
        return _applied_downwards(hunks, _Searched(lines, steps))
    return _applied_at_numbers(hunks, list(lines), steps)


def are_applied(hunks: Sequence[Hunk], lines: Sequence[str]) -> bool:
    """True if the new lines of hunks stand at the numbers told, and the old ones do not."""
    if not hunks or any(hunk.start is None for hunk in hunks):
        return False
    flipped = taken_back(hunks)
    new = all(_stands(hunk, lines) for hunk in flipped)
    return new and not all(_stands(hunk, lines) for hunk in hunks)


def _stands(hunk: Hunk, lines: Sequence[str]) -> bool:
    at = (hunk.start or 1) - 1
    return tuple(lines[at : at + len(hunk.before)]) == hunk.before


def taken_back(hunks: Sequence[Hunk]) -> tuple[Hunk, ...]:
    """The hunks that take others back, at the numbers that those had left their lines at."""
    shift = 0
    found: list[Hunk] = []
    for hunk in hunks:
        start = None if hunk.start is None else hunk.start + shift
        found.append(Hunk(hunk.after, hunk.before, start, hunk.above, hunk.ends))
        shift += len(hunk.after) - len(hunk.before)
    return tuple(found)


def _with_own_context(hunk: Hunk, found: Sequence[str]) -> list[str]:
    """The new lines of a hunk; lines that do not change stay as the file has them."""
    if tuple(found) == hunk.before:
        return list(hunk.after)
    own = dict(zip(hunk.before, found, strict=True))
    return [own.get(line, line) for line in hunk.after]


def _applied_downwards(hunks: Sequence[Hunk], searched: _Searched) -> list[str] | None:
    made: list[str] = []
    done = 0  # the lines that stand above the next hunk
    for hunk in hunks:
        at = _place_below(hunk, searched, done)
        if at is None:
            return None
        end = at + len(hunk.before)
        made += searched.lines[done:at]
        made += _with_own_context(hunk, searched.lines[at:end])
        done = end
    made += searched.lines[done:]
    return made


def _place_below(hunk: Hunk, searched: _Searched, least: int) -> int | None:
    """The index at which a hunk without a number fits, at or below `least`."""
    lines = searched.lines
    for head in hunk.above:
        below = searched.index((head,), least)
        if below is None:
            return None
        least = below + 1
    if not hunk.before:
        return least if hunk.above else len(lines)
    if hunk.ends and (at := len(lines) - len(hunk.before)) >= least:
        if _fits(hunk.before, lines, at):
            return at
        if lines[-1:] == [""] and at > least and _fits(hunk.before, lines, at - 1):
            return at - 1
    return searched.index(hunk.before, least)


def _fits(block: Sequence[str], lines: Sequence[str], at: int) -> bool:
    """True if lines stand at an index, but for spaces at their ends."""
    part = lines[at : at + len(block)]
    return len(part) == len(block) and all(map(_is_like, part, block))


def _is_like(one: str, other: str) -> bool:
    return one.strip() == other.strip()


class _Searched:
    """Lines in which others are looked for, from the first to the last."""

    def __init__(self, lines: Sequence[str], steps: Budget) -> None:
        self.lines = lines
        self._steps = steps
        self._forms: dict[Callable[[str], str], _LooseText] = {}

    def index(self, block: Lines, least: int) -> int | None:
        """The first index of lines at or below `least`, in the first form that has them."""
        exact = self._index(str, block, least)
        if exact is not None:
            return exact
        loosely = self._index(str.strip, block, least)
        if loosely is None:  # and so in no form
            return None
        at = self._index(str.rstrip, block, least)
        return loosely if at is None else at

    def _index(self, form: Callable[[str], str], block: Lines, least: int) -> int | None:
        if form not in self._forms:
            self._forms[form] = _LooseText(form, self.lines, self._steps)
        return self._forms[form].index(block, least)


class _LooseText:
    """Lines without some of their spaces, as one text."""

    def __init__(self, form: Callable[[str], str], lines: Sequence[str], steps: Budget) -> None:
        steps.take((LINE // 2 if form is str else 2 * LINE) * len(lines))
        self._form = form
        self._steps = steps
        self._lines = lines if form is str else list(map(form, lines))
        self._text = _between_ends(self._lines)
        self._line = self._offset = 0  # a line, and the place of the LF before it

    def index(self, block: Lines, least: int) -> int | None:
        """The first index of lines at or below `least`, which is never less than before."""
        if least > self._line:
            passed = self._lines[self._line : least]
            self._offset += sum(map(len, passed)) + len(passed)
            self._line = least
        take_search(self._steps, self._text, "\n", self._offset)
        at = self._text.find(_between_ends(list(map(self._form, block))), self._offset)
        if at < 0:
            return None
        self._line += self._text.count("\n", self._offset, at)
        self._offset = at
        return self._line


def _between_ends(lines: Sequence[str]) -> str:
    """Lines as a text in which they are found as whole lines: an LF is on both sides of each."""
    return "\n".join(["", *lines, ""])


def _applied_at_numbers(hunks: Sequence[Hunk], made: list[str], steps: Budget) -> list[str] | None:
    least = shift = 0
    for hunk in hunks:
        at = _place_at_number(hunk, made, least, shift, steps)
        if at is None:
            return None
        end = at + len(hunk.before)
        grown = len(hunk.after) - len(hunk.before)
        if grown:
            steps.take(len(made) - at)  # lines that move
        made[at:end] = _with_own_context(hunk, made[at:end])
        least, shift = at + len(hunk.after), shift + grown
    return made


def _place_at_number(
    hunk: Hunk, lines: Sequence[str], least: int, shift: int, steps: Budget
) -> int | None:
    """The index at which a hunk with a number fits; a hunk that only adds is below `least`."""
    told = (hunk.start or 1) - 1 + shift
    if not hunk.before:
        return min(max(told, least), len(lines))
    if told >= 0 and tuple(lines[told : told + len(hunk.before)]) == hunk.before:
        return told
    return _nearest(hunk.before, lines, told, steps)


def _nearest(block: Lines, lines: Sequence[str], told: int, steps: Budget) -> int | None:
    """The index of lines that is nearest to a number; the first one of two."""
    steps.take(2 * LINE * len(lines))
    text, wanted = _between_ends(lines), _between_ends(block)
    take_search(steps, text, "\n")
    steps.take(len(text))
    at = max(told, 0)
    middle = len(_between_ends(lines[:at])) - 1
    below = text.find(wanted, middle)
    # Backwards, `str.rfind` may compare all of `wanted` at each place.
    start = text[: middle + len(wanted) - 1]
    behind = start[::-1].find(wanted[::-1])
    above = len(start) - len(wanted) - behind if behind >= 0 else -1
    found = [text.count("\n", 0, place) for place in (above, below) if place >= 0]
    return min(found, key=lambda index: abs(index - told), default=None)
