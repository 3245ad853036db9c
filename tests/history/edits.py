"""Edits of one file, as the tools of agents tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tests.history.lines import Line, Lines, text_of

Outcome = Literal["done", "failed", "refused", "open"]
"""What came of a call; an open one has no result."""

CONTEXT: Final = 3
"""The unchanged lines around a change that diffs show."""


class Span(NamedTuple):
    """New lines in place of those from `start` to `end`; lines that stay are among the new."""

    start: int
    end: int
    lines: Lines


class Pair(NamedTuple):
    """A text and the text in its place."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one file; `before` and `after` have LF, None is no file.

    Attributes:
        file: its absolute path; `target` is where it is moved to.
        pairs: the texts replaced, one after another, each once unless `every`.
    """

    file: Path
    before: str | None
    after: str | None
    pairs: tuple[Pair, ...] = ()
    every: bool = False
    target: Path | None = None


def _place(span: Span) -> tuple[int, int]:
    return span.start, span.end


def applied(lines: Lines, spans: Sequence[Span]) -> Lines:
    made = list(lines)
    for span in sorted(spans, key=_place, reverse=True):
        made[span.start : span.end] = span.lines
    return made


def pairs_of(lines: Lines, spans: Sequence[Span]) -> tuple[Pair, ...] | None:
    """The pairs that make these changes; None if two of them would touch."""
    text = text_of(lines)
    found = []
    last = 0
    for span in sorted(spans, key=_place):
        start, end = _unique(text, lines, span)
        if start < last:
            return None
        last = end
        before, after = lines[start : span.start], lines[span.end : end]
        old = _joined(lines[start:end])
        found.append(Pair(old, _joined([*before, *span.lines, *after])))
    return tuple(found) if replaced(text, found) == text_of(applied(lines, spans)) else None


def replaced(text: str, pairs: Sequence[Pair], *, every: bool = False) -> str | None:
    """The text with each old text replaced; None if one is not there, or there twice."""
    for old, new in pairs:
        count = text.count(old)
        if not count or (count > 1 and not every):
            return None
        text = text.replace(old, new)
    return text


def _unique(text: str, lines: Lines, span: Span) -> tuple[int, int]:
    """The lines around a span whose text is in the file once; at least one stays as it is."""
    start, end = span.start, span.end
    while True:
        has_context = start < span.start or end > span.end
        if has_context and text.count(_joined(lines[start:end])) == 1:
            return start, end
        if start == 0 and end == len(lines):
            return start, end
        if start and (end == len(lines) or span.start - start <= end - span.end):
            start -= 1
        else:
            end += 1


def _joined(lines: Lines) -> str:
    return "\n".join(line.text for line in lines)


class Hunk(NamedTuple):
    """A part of a diff: where it is, from 0, and its lines with their marks."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list[str]


def hunks(before: str, after: str, context: int = CONTEXT) -> list[Hunk]:
    old, new = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    made = []
    for group in matcher.get_grouped_opcodes(context):
        lines: list[str] = []
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[start:end]]
                continue
            lines += [f"-{line}" for line in old[start:end]]
            lines += [f"+{line}" for line in new[new_start:new_end]]
        first, last = group[0], group[-1]
        made.append(Hunk(first[1], last[2] - first[1], first[3], last[4] - first[3], lines))
    return made


def structured_patch(before: str, after: str) -> list[dict[str, Any]]:
    """The hunks as Claude Code stores them."""
    return [
        {
            "oldStart": hunk.old_start + 1,
            "oldLines": hunk.old_count,
            "newStart": hunk.new_start + 1,
            "newLines": hunk.new_count,
            "lines": hunk.lines,
        }
        for hunk in hunks(before, after)
    ]


def unified(before: str, after: str) -> str:
    """The hunks of a unified diff, without the names of files."""
    made = []
    for hunk in hunks(before, after):
        old = f"{hunk.old_start + 1},{hunk.old_count}"
        new = f"{hunk.new_start + 1},{hunk.new_count}"
        made += [f"@@ -{old} +{new} @@", *hunk.lines]
    return "".join(f"{line}\n" for line in made)


def numbered_diff(before: str, after: str) -> str:
    """The diff as pi shows it, with a number for each line."""
    width = len(str(max(before.count("\n"), after.count("\n")) + 1))
    made: list[str] = []
    for hunk in hunks(before, after, 4):
        if hunk.old_start:
            made.append(f" {'':{width}} ...")
        old, new = hunk.old_start, hunk.new_start
        for line in hunk.lines:
            old += line[0] != "+"
            new += line[0] != "-"
            made.append(f"{line[0]}{new if line[0] == '+' else old:{width}} {line[1:]}")
    return "\n".join(made)


def patch_of(edits: Sequence[tuple[Edit, str, str | None]]) -> str:
    """A patch for Codex of edits, each with its path and the path it is moved to."""
    lines = ["*** Begin Patch"]
    for edit, path, target in edits:
        if edit.before is None:
            lines.append(f"*** Add File: {path}")
            lines += [f"+{line}" for line in (edit.after or "").splitlines()]
        elif edit.after is None:
            lines.append(f"*** Delete File: {path}")
        else:
            lines.append(f"*** Update File: {path}")
            lines += [f"*** Move to: {target}"] if target is not None else []
            for hunk in hunks(edit.before, edit.after):
                lines += ["@@", *hunk.lines]
    return "\n".join([*lines, "*** End Patch"])


def in_patch(before: Lines, after: Lines) -> Lines:
    """The lines after a patch of Codex, which ends each line of its hunks with LF."""
    made = list(after)
    for hunk in hunks(text_of(before), text_of(after)):
        for at in range(hunk.new_start, hunk.new_start + hunk.new_count):
            line: Line = made[at]
            made[at] = line if line.eol == "\n" else replace(line, eol="\n")
    return made
