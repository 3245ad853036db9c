"""The last turns of a session, before the slow imports, as the browser shows them."""

from __future__ import annotations

import os

from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import facts_of
from sessiontree.library.one import opened_by_ends
from sessiontree.session import Session
from sessiontree.tui.first import filled_to, row
from sessiontree.tui.frame import write
from sessiontree.tui.lines import Piece, fitted
from sessiontree.tui.outline import last_line
from sessiontree.views.turns import latest


def draw_last(file: str) -> None:
    """Draw the last turns of a session, unless all of it must be translated or migrated first."""
    try:
        session = opened_by_ends(file)
        if session is None and facts_of(file).agent is not None:
            return
        with session or Session.open(file, readonly=True) as opened:
            found = latest(opened.cursor)
    except (SessionTreeError, OSError):  # the browser tells it
        return
    width, height = os.get_terminal_size()
    title = [Piece(file.rpartition("/")[2])]
    rows = [row(1, [Piece(filled_to(title, width), "bar")])]
    for number, turn in enumerate(found[-max(1, height - 2) :], 2):
        rows.append(row(number, fitted(last_line(turn, width), width)))
    write("".join(rows))
