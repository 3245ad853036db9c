"""The browser and its list of sessions: typing filters the list, Enter opens one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding

from sessiontree.library.listing import SessionInfo
from sessiontree.library.places import ORDERS, in_order
from sessiontree.library.spending import all_counted
from sessiontree.text.columns import Line, Span
from sessiontree.tui import loader
from sessiontree.tui.drawing import matching, preview_lines, session_line, title_lines
from sessiontree.tui.leaving import Resume, ViewServers, ask_to_resume
from sessiontree.tui.lines import Bar, Lines, PreviewLines
from sessiontree.tui.outline import OutlineView
from sessiontree.tui.view import HELP, MOVING, View, key

Find = Callable[[], list[SessionInfo]]
"""Reads the list of all sessions."""

_BY_COST: Final = "cost"
_ORDERS: Final = (*ORDERS, _BY_COST)

Clock = Callable[[], datetime]


class Picker(View, inherit_bindings=False):
    """All sessions."""

    BINDINGS: ClassVar[list[Any]] = [
        key("any", "nothing", "filter the list by what you type", "a-z"),
        *MOVING,
        key("enter", "choose", "open the session", "Enter"),
        key("ctrl+s", "sort", "sort by the next of: modified, created, size, name, cost", "Ctrl-S"),
        key("ctrl+f", "search", "search the sessions of the list", "Ctrl-F"),
        key("ctrl+e", "costs", "add up what the sessions of the list cost", "Ctrl-E"),
        key("ctrl+r", "resume", "resume the session in its agent, or in another", "Ctrl-R"),
        key("ctrl+y", "copy", "copy the id of the session", "Ctrl-Y"),
        key("ctrl+t", "trash", "move the session to the trash, or hide an agent's", "Ctrl-T"),
        key("f5", "read", "read the list again", "F5"),
        HELP,
        key("escape", "clear", "clear the filter; without a filter, end", "Esc"),
        key("ctrl+q", "app.quit", "end", "Ctrl-Q"),
    ]
    HINTS = "type to filter  Enter open  Ctrl-F search  Ctrl-R resume  ? keys  Esc end"
    CSS = """
    Picker #preview { height: 7; border-top: solid ansi_bright_black; }
    """

    def __init__(self, sessions: Sequence[SessionInfo] | None, find: Find, clock: Clock) -> None:
        super().__init__()
        self._all = list(sessions or ())
        self._is_read = sessions is not None
        self._find = find
        self._words = ""
        self._order = "modified"
        self._shown: list[SessionInfo] = []
        self._clock = clock
        self.now = clock()

    def compose(self) -> ComposeResult:
        yield Bar("title", "bar")
        yield Bar("filter")
        yield Lines()
        yield PreviewLines("preview")
        yield PreviewLines("foot")

    def opened(self) -> None:
        if self._is_read:
            self._refill(0)
            self.run_worker(self._count())
        else:
            self.action_read()

    @property
    def chosen(self) -> SessionInfo | None:
        """The session that the cursor is on."""
        return self._shown[self.lines.at] if self._shown else None

    def title_line(self) -> tuple[Line, Line]:
        return title_lines(len(self._shown), len(self._all), self._words, self._order)

    def _refill(self, at: int) -> None:
        self._shown = matching(self._all, self._words)
        self.query_one("#filter", Bar).show([Span("> ", "dim"), Span(self._words, "prompt")])
        self.lines.fill(len(self._shown), self._line, at)
        if not self._shown:
            text = "no session has all these words" if self._words else "there is no session"
            self.query_one("#preview", PreviewLines).show(lambda width: [[Span(text, "dim")]])

    def _line(self, number: int, width: int) -> Line:
        return session_line(self._shown[number], width, self.now)

    def moved(self) -> None:
        if (one := self.chosen) is not None:
            self.query_one("#preview", PreviewLines).show(
                lambda width: preview_lines(one, width, self.now)
            )

    def on_key(self, event: events.Key) -> None:
        if event.key == "backspace":
            self._filter(self._words[:-1])
        elif event.key == "slash" and not self._words:
            pass  # the key to the filter, where the cursor is
        elif event.character is not None and event.is_printable and event.character != "?":
            self._filter(self._words + event.character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        self._filter(self._words + " ".join(event.text.split()))

    def _filter(self, words: str) -> None:
        self._words = words
        self.hint()
        self._refill(0)

    def action_nothing(self) -> None:
        """Typing is not a key of its own."""

    def action_clear(self) -> None:
        if self._words:
            self._filter("")
        else:
            self.app.exit()

    def action_sort(self) -> None:
        self._order = _ORDERS[(_ORDERS.index(self._order) + 1) % len(_ORDERS)]
        self._all = _sorted(self._all, self._order)
        self._refill(0)

    def action_read(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        found = await self.tried(asyncio.to_thread(self._find))
        if found is None:
            return
        one, self._all, self.now = self.chosen, _sorted(found, self._order), self._clock()
        self._refill(0)
        self._go_to(one)
        await self._count()

    def _go_to(self, one: SessionInfo | None) -> None:
        files = [each.file for each in self._shown]
        if one is not None and one.file in files:
            self.lines.go(files.index(one.file))

    async def _count(self) -> None:
        """Count the turns and the costs of the newest sessions, as `ls` does."""
        problems: list[str] = []
        counted = await self.tried(asyncio.to_thread(all_counted, list(self._all), problems.append))
        known = {one.file: one for one in counted or ()}
        self._all = [known.get(one.file, one) for one in self._all]
        self._refill(self.lines.at)
        if problems:
            self.tell(problems[0])

    def action_choose(self) -> None:
        if (one := self.chosen) is not None:
            self.app.push_screen(OutlineView(one.file), self._came_back)

    def _came_back(self, has_written: Any) -> None:
        if has_written:
            self.action_read()

    def written(self) -> None:
        self.action_read()

    def action_search(self) -> None:
        self.ask("Search the sessions of the list for", self._search)

    def _search(self, words: str) -> None:
        if words.strip():
            from sessiontree.tui.lists import HitsView

            files = [one.file for one in self._shown]
            self.app.push_screen(HitsView(words, lambda: files), self._open_hit)

    def _open_hit(self, hit: Any) -> None:
        if hit is not None:
            self.app.push_screen(OutlineView(hit.file, hit.ref), self._came_back)

    def action_costs(self) -> None:
        if self._shown:
            from sessiontree.tui.lists import SpendingView

            self.app.push_screen(SpendingView(self._shown))

    def action_resume(self) -> None:
        if (one := self.chosen) is not None:
            ask_to_resume(self, one.file, runs=True)

    def action_copy(self) -> None:
        if (one := self.chosen) is not None:
            self.app.copy_to_clipboard(one.id)
            self.tell(f"copied {one.id}, as far as the terminal allows it")

    def action_trash(self) -> None:
        if (one := self.chosen) is not None:
            file = one.file
            self.confirm(loader.removal(file), lambda: self.start(loader.remove, file))


def _sorted(sessions: list[SessionInfo], order: str) -> list[SessionInfo]:
    if order == _BY_COST:
        return sorted(sessions, key=lambda one: one.dollars, reverse=True)
    return in_order(sessions, next(each for each in ORDERS if each == order))


class Browser(App[Resume]):
    """Shows all sessions, or at once the only one in `file`."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[Any]] = [Binding("ctrl+q,ctrl+c", "quit", priority=True)]
    CSS = "* { scrollbar-size: 0 0; }"

    def __init__(
        self,
        sessions: Sequence[SessionInfo] | None,
        find: Find,
        file: str | None = None,
        clock: Clock = lambda: datetime.now(UTC),
    ) -> None:
        no_colour = os.environ.get("NO_COLOR")
        super().__init__(ansi_color=True)
        if no_colour is not None:  # textual takes it away from programs that run later
            os.environ["NO_COLOR"] = no_colour
        self._sessions, self._find, self._file = sessions, find, file
        self._clock = clock
        self.viewing = ViewServers()

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        if self._file is None:
            self.push_screen(Picker(self._sessions, self._find, self._clock))
        else:
            self.push_screen(OutlineView(self._file), lambda _: self.exit())

    def on_unmount(self) -> None:
        self.viewing.close()
