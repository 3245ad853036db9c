"""The first list, before the slow imports: the newest sessions, as the browser shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from sessiontree.library.listing import SessionInfo
from sessiontree.text.columns import CODES
from sessiontree.tui.frame import write
from sessiontree.tui.lines import Line, Piece, fitted, text_of
from sessiontree.tui.sessions import session_line, title_lines

_MOST_ROWS: Final = 500


def draw_list(sessions: Sequence[SessionInfo], order: str) -> None:
    """Draw the list as the browser is going to draw it."""
    width, height = os.get_terminal_size()
    now = datetime.now(UTC)
    title, _ = title_lines(len(sessions), len(sessions), "", order)
    rows = [row(1, [Piece(filled_to(title, width), "bar")])]
    for number, one in enumerate(sessions[: min(height - 3, _MOST_ROWS)], 3):
        rows.append(row(number, fitted(session_line(one, width, now), width)))
    write("".join(rows))


def filled_to(line: Line, width: int) -> str:
    """The text of a line, as wide as the screen."""
    text = text_of(fitted(line, width))
    return text + " " * max(0, width - len(text))


def row(number: int, line: Line) -> str:
    """A line with what puts it on a row of the terminal."""
    return f"\x1b[{number};1H\x1b[2K" + "".join(map(_coloured, line))


def _coloured(piece: Piece) -> str:
    code = CODES[piece.role]
    if not code or (os.environ.get("NO_COLOR") and piece.role != "bar"):
        return piece.text
    return f"\x1b[{code}m{piece.text}\x1b[0m"
