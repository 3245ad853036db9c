"""Progress on a terminal, for a command that takes over a second."""

from __future__ import annotations

import sys
import time
from typing import Any

from sessiontree.cli.terminal import is_terminal
from sessiontree.core.display import one_line

PATIENCE_SECONDS = 1.0
"""How long a command is silent before it shows its progress."""

_WIDTH = 50


class Progress:
    """A bar on standard error; it appears after `PATIENCE_SECONDS`, and only on a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: float, total: float | None, title: str | None = None) -> None:
        """Show that `done` of `total` is done; a total of None is unknown."""
        if not self._is_terminal or time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        from rich.markup import escape  # heavy, and only a long command on a terminal needs it

        if self._bar is None:
            self._start()
        description = escape(one_line(title or self._title, _WIDTH))
        self._bar.update(self._task, completed=done, total=total, description=description)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True, soft_wrap=True)  # a long line above the bar stays one line
        self._bar = Bar(console=console, transient=True, redirect_stdout=is_terminal())
        self._task = self._bar.add_task("", total=None)
        self._bar.start()
