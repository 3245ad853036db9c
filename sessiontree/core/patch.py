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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

Lines = tuple[str, ...]

_BEGIN: Final = "*** Begin Patch"
_HEADING: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE: Final = "*** Move to: "
_END_OF_FILE: Final = "*** End of File"
_RANGE: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_NUMBERED: Final = re.compile(r"([ +-]) *(\d{1,9}) ?(.*)")
_NO_NEWLINE: Final = "\\"
MOST_FILES: Final = 1000
"""The files of one patch that are read."""


class Hunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines that follow each other, and the lines that take their place.

    Attributes:
        before, after: the lines with those around them, before and after.
        start: the number of the first of `before`, from 1; None if it is not told.
        above: lines that stand somewhere above, in order, such as the head of a function.
        ends: whether the lines end the file.
    """

    before: Lines
    after: Lines
    start: int | None = None
    above: Lines = ()
    ends: bool = False


class FilePatch(msgspec.Struct, frozen=True):
    """What a patch does to one file.

    Attributes:
        path: the path as written.
        kind: what it does.
        content: the content of a file that is added; else None.
        hunks: the changes of a file that is updated.
        moved_to: the new path of a file that is moved as well; else None.
    """

    path: str
    kind: Literal["add", "update", "delete"]
    content: str | None = None
    hunks: tuple[Hunk, ...] = ()
    moved_to: str | None = None


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
            if is_end or len(found) == MOST_FILES:
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
        elif line.rstrip() == _END_OF_FILE:
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
    elif mark != _NO_NEWLINE:
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
            start, before, after = None, [], []
            continue
        mark, number, rest = numbered[1], int(numbered[2]), numbered[3]
        if start is None:
            shift = sum(len(hunk.after) - len(hunk.before) for hunk in found)
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
                _take(line.removesuffix("\r"), before, after)
        found.append(Hunk(tuple(before), tuple(after), _first(start, len(before))))
    return tuple(found)


def _first(start: int, count: int) -> int:
    """The number of the first line: a diff numbers no lines by the line above them."""
    return max(start, 1) if count else start + 1


def applied(hunks: Sequence[Hunk], lines: Sequence[str]) -> list[str] | None:
    """Lines after hunks, in order; None if a hunk does not fit.

    A hunk is looked for below the one before it: first with the same lines, then without regard to
    spaces at the ends of lines, then at both ends, as Codex does.
    """
    made = list(lines)
    least = shift = 0
    for hunk in hunks:
        at = _place(hunk, made, least, shift)
        if at is None:
            return None
        end = at + len(hunk.before)
        made[at:end] = _with_own_context(hunk, made[at:end])
        grown = len(hunk.after) - len(hunk.before)
        least, shift = at + len(hunk.after), shift + grown
    return made


def are_applied(hunks: Sequence[Hunk], lines: Sequence[str]) -> bool:
    """Whether the new lines of hunks stand at the numbers told, and the old ones do not."""
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


def _place(hunk: Hunk, lines: Sequence[str], least: int, shift: int) -> int | None:
    """The index at which a hunk fits, at or below `least`."""
    for head in hunk.above:
        below = _index_of((head,), lines, least)
        if below is None:
            return None
        least = below + 1
    if not hunk.before:
        if hunk.start is not None:
            return min(max(hunk.start - 1 + shift, least), len(lines))
        return least if hunk.above else len(lines)
    if hunk.start is not None:
        told = hunk.start - 1 + shift
        if told >= 0 and _fits(hunk.before, lines, told, _same):
            return told
        return _nearest(hunk.before, lines, told)
    if hunk.ends and (at := len(lines) - len(hunk.before)) >= least:
        if _fits(hunk.before, lines, at, str.strip):
            return at
        if lines[-1:] == [""] and at > least and _fits(hunk.before, lines, at - 1, str.strip):
            return at - 1
    return _index_of(hunk.before, lines, least)


def _same(line: str) -> str:
    return line


def _index_of(block: Sequence[str], lines: Sequence[str], least: int) -> int | None:
    for form in (_same, str.rstrip, str.strip):
        wanted = form(block[0])
        for at in range(least, len(lines) - len(block) + 1):
            if form(lines[at]) == wanted and _fits(block, lines, at, form):
                return at
    return None


def _nearest(block: Sequence[str], lines: Sequence[str], told: int) -> int | None:
    found = [
        at
        for at in range(len(lines) - len(block) + 1)
        if lines[at] == block[0] and _fits(block, lines, at, _same)
    ]
    return min(found, key=lambda at: abs(at - told), default=None)


def _fits(block: Sequence[str], lines: Sequence[str], at: int, form: Any) -> bool:
    part = lines[at : at + len(block)]
    return len(part) == len(block) and all(map(_alike(form), part, block))


def _alike(form: Any) -> Any:
    return lambda one, other: form(one) == form(other)
