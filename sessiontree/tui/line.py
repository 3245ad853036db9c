"""A line of the screen: texts in roles, safe and cut to the width.

Invariant: a fitted line has no control character and is never wider than asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sessiontree.text.columns import columns_of, cut

_MOST: Final = 4  # characters for each column: combining ones need no column


class Piece(NamedTuple):
    """A text in a role."""

    text: str
    role: str = ""


Line = Sequence[Piece]


def fitted(line: Line, width: int) -> list[Piece]:
    """The pieces that have room in so many columns, each made safe for the terminal."""
    found: list[Piece] = []
    for text, role in line:
        if width <= 0:
            break
        start = text[: _MOST * width + 1].replace("\n", "↵").replace("\t", " ")
        shown = cut(start, width)
        width -= columns_of(shown)
        if shown:
            found.append(Piece(shown, role))
    return found


def text_of(line: Line) -> str:
    return "".join(piece.text for piece in line)


def beside(left: Line, right: Line, width: int) -> list[Piece]:
    """A line whose right part ends at the width; the left part gets what that leaves."""
    ends = fitted(right, width)
    room = width - columns_of(text_of(ends)) - (2 if ends else 0)
    starts = fitted(left, room)
    gap = width - columns_of(text_of(starts)) - columns_of(text_of(ends))
    return [*starts, Piece(" " * max(0, gap)), *ends]


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
