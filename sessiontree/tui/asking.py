"""A question at the foot of a view: a line of text."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from sessiontree.tui.line import Piece
from sessiontree.tui.lines import Bar

_CURSOR = "▏"


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
        pieces = [Piece(f"{self._question}: ", "title"), Piece(text), Piece(_CURSOR, "dim")]
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
