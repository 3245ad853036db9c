"""Text cut or filled to the columns of a terminal; lines of texts in roles, and their colours.

Invariants: no text is wider than asked for, whatever characters it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from sessiontree.core.display import printable


def cut(text: str, width: int) -> str:
    """A text of at most so many columns; a cut one ends with `…`."""
    text = printable(text)
    if len(text) <= width and text.isascii():
        return text
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


def cut_start(text: str, width: int) -> str:
    """A text of at most so many columns; a cut one, such as a path, begins with `…`."""
    text = printable(text)
    if columns_of(text) <= width:
        return text
    end = text[-width:] if width > 1 else ""
    while end and columns_of(end) > width - 1:
        end = end[1:]
    return f"…{end}" if width > 0 else ""


def filled(text: str, width: int) -> str:
    """A text of exactly so many columns."""
    text = cut(text, width)
    return text + " " * (width - columns_of(text))


def columns_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


class Span(NamedTuple):
    """A text in a role of `CODES`."""

    text: str
    role: str = ""
    weight: int = 9
    """The spans of the least weight are left out first."""


Line = Sequence[Span]

_LONGEST: Final = 4  # characters for each column: combining ones need no column


def line_text(line: Line) -> str:
    return "".join(span.text for span in line)


def fitted(line: Line, width: int) -> list[Span]:
    """The spans that have room in so many columns, each made safe for the terminal."""
    found: list[Span] = []
    for span in line:
        if width <= 0:
            break
        start = span.text[: _LONGEST * width + 1].replace("\n", "↵").replace("\t", " ")
        shown = cut(start, width)
        width -= columns_of(shown)
        if shown:
            found.append(Span(shown, span.role))
    return found


def beside(left: Line, right: Line, width: int) -> list[Span]:
    """A line whose right part ends at the width; the left part gets what that leaves."""
    ends = fitted(right, width)
    room = width - columns_of(line_text(ends)) - (2 if ends else 0)
    starts = fitted(left, room)
    gap = width - columns_of(line_text(starts)) - columns_of(line_text(ends))
    return [*starts, Span(" " * max(0, gap)), *ends]


def dotted(line: Line, width: int) -> list[Span]:
    """Spans with dots between them, dim unless they have a role; one alone is cut to the width."""
    if len(line) == 1:
        line = [line[0]._replace(text=cut(line[0].text, width))]
    found: list[Span] = []
    for span in line:
        found += [Span(" · ", "dim"), Span(span.text, span.role or "dim")]
    return found[1:]


CODES: Final = {
    "": "",
    "title": "1",
    "prompt": "1",
    "number": "36",
    "dim": "2",
    "label": "33",
    "branch": "32",
    "agent": "35",
    "failure": "31",
    "here": "1;32",
    "compaction": "34",
    "tool": "36",
    "bar": "7",
    "found": "1;33",
}
"""The codes of each role (ECMA-48, Select Graphic Rendition)."""


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, long ones broken at spaces where there are any."""
    found: list[str] = []
    width = max(8, width)
    for line in text.expandtabs(4).split("\n"):
        found += _broken(line, width)
    return found


def _broken(line: str, width: int) -> list[str]:
    found: list[str] = []
    start = 0
    while True:
        end = start + width
        if not line[start : end + 1].isascii():
            end = start + max(1, _fitting(line[start:end], width))
        if end >= len(line):
            found.append(line[start:])
            return found
        at = line.rfind(" ", (start + end) // 2, end + 1)
        end = end if at < 0 else at
        found.append(line[start:end])
        start = end + (1 if at >= 0 else 0)


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit in so many columns."""
    count = len(text)
    while count > 1 and columns_of(text[:count]) > width:
        count -= max(1, (columns_of(text[:count]) - width) // 2)
    return count
