r"""What a program printed, as a terminal shows it: without colours, overwritten text gone.

Read are the ends of lines, `\r`, `\b`, and the sequences of ECMA-48 that move the cursor or erase a
part of the screen, as progress bars use them. Other control characters are left out.

Invariants: time and memory grow with the length of the text, whatever sequences it has.
"""

from __future__ import annotations

import re
from typing import Final

from sessiontree.core.display import printable

_MOVES: Final = re.compile(r"\r(?!\n)|\x08|(?:\x1b\[|\x9b)[0-9;]*[A-HJKf]")
_TOKEN: Final = re.compile(
    r"(?P<text>[^\x1b\x9b\r\n\x08]+)|(?P<line>\r*\n)|(?P<start>\r)|(?P<back>\x08)"
    r"|(?:\x1b\[|\x9b)(?P<count>\d{0,9})[0-9;]*(?P<move>[A-HJKf])"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[()*+#%].?|."
)
_FARTHEST: Final = 500
"""The rows and columns that one sequence moves the cursor by, at most."""

_MAX_BLANKS: Final = 4
"""The blanks that sequences may make, for each character of the text."""


def as_shown(text: str) -> str:
    """What a terminal shows of a text that a program printed; its colours are left out."""
    if text.isprintable() or _MOVES.search(text) is None:
        return printable(text.replace("\r\n", "\n"))
    return _Screen(_MAX_BLANKS * len(text)).shown(text)


class _Screen:
    """The lines that a text makes on a terminal as wide and as high as it needs."""

    def __init__(self, blanks: int) -> None:
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self._blanks = blanks  # that sequences may still make

    def shown(self, text: str) -> str:
        for token in _TOKEN.finditer(text):
            if (words := token["text"]) is not None:
                self._write(printable(words))
            elif token["line"] is not None:
                self._go(self._row + 1, 0)
            elif token["start"] is not None:
                self._column = 0
            elif token["back"] is not None:
                self._column = max(0, self._column - 1)
            elif (move := token["move"]) is not None:
                self._move(move, token["count"])
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def _write(self, text: str) -> None:
        line, at = self._lines[self._row], self._column
        if at > len(line):
            line.extend(" " * (at - len(line)))
        line[at : at + len(text)] = text
        self._column = at + len(text)

    def _go(self, row: int, column: int) -> None:
        while len(self._lines) <= row:
            self._lines.append([])
        self._row, self._column = row, column

    def _move(self, move: str, count: str) -> None:
        by = min(int(count or 1), _FARTHEST)
        match move:
            case "A" | "F":
                self._row = max(0, self._row - by)
            case "D":
                self._column = max(0, self._column - by)
            case "C" | "G" if self._blanks >= by:
                self._blanks -= by
                self._column = self._column + by if move == "C" else by - 1
            case "B" | "E" if self._blanks >= by:
                self._blanks -= by
                self._go(self._row + by, self._column)
            case "K":
                self._erase(count)
            case "J" if count in ("", "0"):
                self._erase(count)
                del self._lines[self._row + 1 :]
            case "J" | "H" | "f":  # a screen begins anew below what was shown
                self._go(len(self._lines) - (not self._lines[-1]), 0)
        if move in "EF":
            self._column = 0

    def _erase(self, which: str) -> None:
        line, at = self._lines[self._row], self._column
        if which in ("", "0"):
            del line[at:]
        elif which == "2":
            line.clear()
        elif self._blanks >= at:
            self._blanks -= at
            line[:at] = " " * min(at, len(line))
