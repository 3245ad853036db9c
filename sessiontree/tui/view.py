"""What all views have: a title, lines with a cursor, a line for messages and keys, and `?`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError, Step, fault
from sessiontree.text.columns import Line, Span, beside, filled, wrapped
from sessiontree.tui.lines import Ask, Bar, Lines, PreviewLines
from sessiontree.tui.loader import ReaderClosed

T = TypeVar("T")

_NAMES: Final = {"question_mark": "?", "slash": "/", "dollar_sign": "$", "left_square_bracket": "["}
_NEXT = {
    "import": "import the session first; 'sessiontree import' makes a copy that you can change",
    "repair": "'sessiontree repair' repairs what needs no guessing",
}
"""What helps after an error, in the words of the command line."""


def key(keys: str, action: str, description: str, shown: str = "") -> Binding:
    """A key of a view, with its line on the sheet of keys."""
    return Binding(keys, action, description, show=False, key_display=shown or None)


MOVING = (
    key("up", "move(-1)", "one line up", "↑"),
    key("down", "move(1)", "one line down", "↓"),
    key("pageup,ctrl+b", "turn_page(-1)", "one page up", "PgUp"),
    key("pagedown", "turn_page(1)", "one page down", "PgDn"),
    key("home", "go_to(0)", "the first line", "Home"),
    key("end", "go_to(-1)", "the last line", "End"),
)
LETTERS = (
    key("k", "move(-1)", "one line up"),
    key("j", "move(1)", "one line down"),
    key("space", "turn_page(1)", "one page down", "Space"),
    key("g", "go_to(0)", "the first line"),
    key("G", "go_to(-1)", "the last line"),
)
HELP = key("question_mark,f1", "keys", "list the keys", "?")
BACK = key("escape,q", "back", "go back; Ctrl-Q ends the browser", "Esc q")


def listing(chooses: str) -> list[Binding]:
    """The keys of a plain list."""
    return [*MOVING, *LETTERS, key("enter", "choose", chooses, "Enter"), HELP, BACK]


def message_of(error: Exception) -> str:
    """An error on one line, with what helps."""
    if isinstance(error, SessionTreeError):
        step: Step | None = error.step
        return f"{error}; {_NEXT[step]}" if step in _NEXT else str(error)
    if isinstance(error, OSError):
        return f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
    return fault(error)


class View(Screen[Any], inherit_bindings=False):
    """A screen with a title, lines, and a line for messages and keys."""

    BINDINGS: ClassVar[list[Any]] = [*MOVING, *LETTERS, HELP, BACK]
    HINTS: ClassVar[str] = "? keys  Esc back"
    CSS = "View { background: ansi_default; color: ansi_default; } #foot { height: 1; }"

    def compose(self) -> ComposeResult:
        yield Bar("title", "bar")
        yield Lines()
        yield PreviewLines("foot")

    @property
    def lines(self) -> Lines:
        return self.query_one("#lines", Lines)

    def on_mount(self) -> None:
        self.refresh_title()
        self.hint()
        self.opened()

    def opened(self) -> None:
        """Start what the view is about."""

    def on_resize(self) -> None:
        self.refresh_title()
        self.resized()

    def resized(self) -> None:
        """Lay out what depends on the width."""

    def title_line(self) -> tuple[Line, Line]:
        """What stands left and right in the title."""
        return (), ()

    def refresh_title(self) -> None:
        left, right = self.title_line()
        self.query_one("#title", Bar).show(beside(left, right, self.size.width))

    def tell(self, text: str, role: str = "title") -> None:
        """Show a message until the next key, on as many lines as it needs."""
        lines = wrapped(one_line(text, 1000), self.size.width)[:6]
        foot = self.query_one("#foot", PreviewLines)
        foot.styles.height = len(lines)
        foot.show(lambda width: [[Span(line, role)] for line in lines])

    def hint(self) -> None:
        """Show the keys that are used most."""
        foot = self.query_one("#foot", PreviewLines)
        foot.styles.height = 1
        foot.show(lambda width: [[Span(self.HINTS, "dim")]])

    async def tried(self, doing: Awaitable[T]) -> T | None:
        """What is done; None with a message if it fails."""
        try:
            return await doing
        except ReaderClosed:
            return None
        except Exception as error:
            self.tell(message_of(error), "failure")
            return None

    def ask(self, question: str, answered: Callable[[str], object], text: str = "") -> None:
        """Ask for a line; `answered` is called with it, unless the user leaves."""

        def take(line: str | None) -> None:
            if line is not None:
                answered(line)

        self.app.push_screen(Ask(question, text), take)

    def confirm(self, question: str, do: Callable[[], object]) -> None:
        """Ask a question, and do it if the answer is yes."""
        self.ask(f"{question} (y)", lambda text: text.casefold() in ("y", "yes") and do())

    def start(self, do: Callable[..., str], *given: str) -> None:
        """Write something in a thread, tell what was done, and show the new state."""
        self.run_worker(self._written(do, *given))

    async def _written(self, do: Callable[..., str], *given: str) -> None:
        done = await self.tried(asyncio.to_thread(do, *given))
        if done is not None:
            self.tell(done)
            self.written()

    def written(self) -> None:
        """Show the new state after something was written."""

    def on_lines_cursor_moved(self) -> None:
        self.refresh_title()
        self.moved()

    def moved(self) -> None:
        """Show what depends on the cursor."""

    def on_lines_chosen(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        """Open what the cursor is on."""

    def action_move(self, by: int) -> None:
        self.hint()
        self.lines.move(by)

    def action_turn_page(self, by: int) -> None:
        self.hint()
        self.lines.move(by * self.lines.page)

    def action_go_to(self, line: int) -> None:
        self.hint()
        self.lines.go(line if line >= 0 else self.lines.count - 1)

    def action_keys(self) -> None:
        self.app.push_screen(Keys(self))

    def action_back(self) -> None:
        self.dismiss()


def rows(screen: Screen[Any]) -> list[tuple[str, str]]:
    """The keys of a view, each with what it does; keys that do the same are on one row."""
    found: dict[str, list[str]] = {}
    for binding in screen.BINDINGS:
        assert isinstance(binding, Binding)
        found.setdefault(binding.description, []).append(binding.key_display or _named(binding.key))
    return [(" ".join(keys), does) for does, keys in found.items()]


def _named(keys: str) -> str:
    return " ".join(_NAMES.get(each, each) for each in keys.split(","))


class Keys(View):
    """The keys of another view."""

    def __init__(self, of: Screen[Any]) -> None:
        super().__init__()
        self._rows = rows(of)

    def title_line(self) -> tuple[Line, Line]:
        return [Span("Keys")], ()

    def on_mount(self) -> None:
        super().on_mount()
        self.lines.fill(len(self._rows), self._line)

    def _line(self, number: int, width: int) -> Line:
        keys, does = self._rows[number]
        return [Span(filled(keys, 16), "number"), Span(does)]
