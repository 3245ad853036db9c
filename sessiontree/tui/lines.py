"""The widgets of the browser: a line, a list of lines with a cursor, and a question.

Invariants: only lines on the screen are made; the line with the cursor is on the screen. So the
list scrolls by itself: a scroll view scrolls only after its next layout, and not at all if the
lines were too few to scroll before.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from sessiontree.text.columns import CODES, Line, Span, fitted

Draw = Callable[[int, int], Line]
"""Gives the line of a number in so many columns."""

_COLOURS = {"31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan"}


def _style(code: str) -> Style:
    codes = code.split(";")
    return Style(
        bold="1" in codes or None,
        dim="2" in codes or None,
        reverse="7" in codes or None,
        color=next((_COLOURS[each] for each in codes if each in _COLOURS), None),
    )


STYLES = {role: _style(code) for role, code in CODES.items()}
_CURSOR = Style(reverse=True)


def strip_of(line: Line, width: int, *, is_chosen: bool = False) -> Strip:
    """A line on the screen; the chosen one is reversed, which needs no colour."""
    segments = [Segment(span.text, STYLES[span.role]) for span in fitted(line, width)]
    if is_chosen:
        segments = [Segment(text, _CURSOR) for text, _, _ in segments]
    return Strip(segments).adjust_cell_length(width, _CURSOR if is_chosen else Style())


class Bar(Widget):
    """One line at the top or at the bottom."""

    DEFAULT_CSS = "Bar { height: 1; }"

    def __init__(self, id: str, role: str = "") -> None:
        super().__init__(id=id)
        self._line: Line = ()
        self._is_reversed = role == "bar"

    def show(self, line: Line) -> None:
        self._line = line
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip_of(self._line, self.size.width, is_chosen=self._is_reversed)


class PreviewLines(Widget):
    """A few lines without a cursor, such as a preview."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], list[Line]] = lambda width: []
        self._lines: list[Line] = []

    def show(self, draw: Callable[[int], list[Line]]) -> None:
        """Show the lines that a function makes for the width."""
        self._draw = draw
        self._lines = draw(self.size.width)
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self.show(self._draw)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.size.width)


class Lines(Widget):
    """`count` lines from `top` on, with a cursor on the line `at`."""

    DEFAULT_CSS = "Lines { height: 1fr; }"

    class CursorMoved(Message):
        """The cursor is on another line."""

    class Chosen(Message):
        """A line was clicked that has the cursor."""

    def __init__(self, id: str = "lines") -> None:
        super().__init__(id=id)
        self.count = 0
        self.at = 0
        self.top = 0
        self._draw: Draw = lambda number, width: ()

    def fill(self, count: int, draw: Draw, at: int = 0) -> None:
        """Show other lines, with the cursor on one of them."""
        self.count, self._draw = count, draw
        self.go(at)

    def go(self, at: int) -> None:
        """Put the cursor on a line, or on the nearest that there is."""
        self.at = max(0, min(at, self.count - 1))
        height = self.size.height
        top = min(self.at, max(self.top, self.at - height + 1))
        self.top = max(0, min(top, self.count - height))
        self.refresh()
        self.post_message(self.CursorMoved())

    def move(self, by: int) -> None:
        self.go(self.at + by)

    @property
    def page(self) -> int:
        """The number of lines of a screen, less one."""
        return max(1, self.size.height - 1)

    def on_resize(self, event: events.Resize) -> None:
        self.go(self.at)

    def on_click(self, event: events.Click) -> None:
        clicked = event.y + self.top
        if clicked >= self.count:
            return
        if clicked == self.at:
            self.post_message(self.Chosen())
        else:
            self.go(clicked)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-3)

    def render_line(self, y: int) -> Strip:
        number, width = y + self.top, self.size.width
        if number >= self.count:
            return Strip.blank(width)
        line = self._draw(number, width)
        return strip_of(line, width, is_chosen=number == self.at)


_CARET = "▏"


class Ask(ModalScreen[str | None]):
    """Asks for a line; Enter gives it, Esc gives None."""

    CSS = """
    Ask { background: transparent; align: left bottom; }
    Ask Bar { width: 100%; background: ansi_default; }
    """

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question, self._text = question, text

    def compose(self) -> ComposeResult:
        yield Bar("question")

    def on_mount(self) -> None:
        self._show(self._text)

    def _show(self, text: str) -> None:
        self._text = text
        pieces = [Span(f"{self._question}: ", "title"), Span(text), Span(_CARET, "dim")]
        self.query_one("#question", Bar).show(pieces)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key == "escape":
            self.dismiss(None)
        elif event.key == "enter":
            self.dismiss(self._text)
        elif event.key == "backspace":
            self._show(self._text[:-1])
        elif event.key == "ctrl+u":
            self._show("")
        elif event.character is not None and event.is_printable:
            self._show(self._text + event.character)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._show(self._text + " ".join(event.text.split()))
