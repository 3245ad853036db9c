"""The browser: its first view, and what it gives back when it ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding

from sessiontree.catalog.listing import SessionInfo
from sessiontree.tui.outline import OutlineView
from sessiontree.tui.picker import Clock, Find, Picker
from sessiontree.tui.resuming import Resume
from sessiontree.tui.viewing import Viewing


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
        self.viewing = Viewing()

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        if self._file is None:
            self.push_screen(Picker(self._sessions, self._find, self._clock))
        else:
            self.push_screen(OutlineView(self._file), lambda _: self.exit())

    def on_unmount(self) -> None:
        self.viewing.close()
