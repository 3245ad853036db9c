"""Drives the browser by keys, and takes what is on the screen as text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

from sessiontree.library.listing import SessionInfo
from sessiontree.library.places import Selection, conversations_in, in_order
from sessiontree.tui.lines import Lines
from sessiontree.tui.picker import Browser
from tests.cli.screens import NOW

Steps = Callable[["Driven"], Awaitable[None]]


class Driven:
    """A browser that runs without a terminal."""

    def __init__(self, app: Browser, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        """Press keys one by one, each when what the one before started is done; the screen."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()
        return self.text

    async def type(self, text: str) -> str:
        return await self.press(*("space" if c == " " else c for c in text))

    async def paste(self, text: str) -> str:
        self.app.screen.post_message(events.Paste(text))
        return await self.settled()

    async def settled(self) -> str:
        for _ in range(2):
            await self.app.workers.wait_for_complete()
            await self.pilot.pause()
        return self.text

    @property
    def rows(self) -> list[str]:
        """The lines of the screen, without spaces at their ends."""
        strips = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def foot(self) -> str:
        """The message or the hint, on one line."""
        height = self.app.screen.query_one("#foot").size.height
        return " ".join(self.rows[-height:])

    @property
    def lines(self) -> Lines:
        return self.app.screen.query_one("#lines", Lines)

    @property
    def highlighted(self) -> list[str]:
        """The lines of the screen that are shown as the one with the cursor."""
        region = self.lines.region
        strips = self.app.screen._compositor.render_strips()[region.y : region.bottom]
        found = [strip for strip in strips if any(s.style and s.style.reverse for s in strip)]
        return [strip.text.strip() for strip in found]

    @property
    def chosen(self) -> str:
        """The line with the cursor, which is on the screen."""
        (line,) = self.highlighted
        return line


def drive(
    steps: Steps,
    *places: Path,
    file: Path | None = None,
    size: tuple[int, int] = (80, 24),
) -> Browser:
    """Run a browser over the sessions in some places, through all steps; the browser, ended."""

    def find() -> list[SessionInfo]:
        found = conversations_in(
            [str(place) for place in places], Selection(), lambda problem: None
        )
        return in_order(found, "modified")

    app = Browser(None, find, None if file is None else str(file), lambda: NOW)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            driven = Driven(app, pilot)
            await driven.settled()
            await steps(driven)

    asyncio.run(run())
    return app
