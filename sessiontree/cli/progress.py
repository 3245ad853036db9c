"""Progress on a terminal, for a command that takes over a second."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE_SECONDS = 1.0
"""How long a command is silent before it shows its progress."""


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
        if self._bar is None:
            if not self._is_terminal or time.monotonic() - self._started < PATIENCE_SECONDS:
                return
            self._start()
        self._bar.update(self._task, completed=done, total=total, description=title or self._title)

    def _start(self) -> None:
        from rich.console import Console  # heavy, and only a long command on a terminal needs it
        from rich.progress import Progress as Bar

        is_shown = sys.stdout is not None and sys.stdout.isatty()  # else it is data for a program
        console = Console(stderr=True, soft_wrap=True)  # a long line above the bar stays one line
        self._bar = Bar(console=console, transient=True, redirect_stdout=is_shown)
        self._task = self._bar.add_task(self._title, total=None)
        self._bar.start()
