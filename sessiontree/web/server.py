"""Runs the server until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import Receive, Scope, Send

from sessiontree.errors import SessionTreeWarning
from sessiontree.page.document import Document
from sessiontree.session import Session
from sessiontree.web.app import App
from sessiontree.web.connection import Connection
from sessiontree.web.door import Door, Guarded
from sessiontree.web.sessions import Sessions

_END_SECONDS: Final = 2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def serve(door: Door, places: Sequence[str], started: Callable[[], object]) -> None:
    """Serve the sessions in some places; `started` is called when pages can be opened."""
    logging.basicConfig(level=logging.CRITICAL, force=True)
    application = _Application(door, places)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_END_SECONDS,
        server_header=False,
        date_header=False,
        lifespan="on",
        http=Connection,
        ws="none",
    )
    application.started = started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SessionTreeWarning)  # pages tell them
        _Server(config, application).run(sockets=[door.listening])


class _Application:
    """The guarded application, which is made in the loop that runs it."""

    def __init__(self, door: Door, places: Sequence[str]) -> None:
        self._door = door
        self._places = places
        self._app: App | None = None
        self._guarded: Guarded | None = None
        self.started: Callable[[], object] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._guarded is None:
            self._app = App(Sessions(self._places))
            self._guarded = Guarded(self._app.starlette, self._door)
        await self._guarded(scope, receive, send)

    def close(self) -> None:
        if self._app is not None:
            self._app.close()


class _Server(uvicorn.Server):
    """Ends at once when it is told to, and streams with it."""

    def __init__(self, config: uvicorn.Config, application: _Application) -> None:
        super().__init__(config)
        self._application = application
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end a program; unlike uvicorn's own, do not send them again."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Closing takes locks, and a signal may come while this thread holds one of them.
        if self._loop is not None and not self.should_exit:
            self._loop.call_soon_threadsafe(self._application.close)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)  # type: ignore[arg-type]
        self._application.started()
        threading.Thread(target=_warm, name="warm", daemon=True).start()


def _warm() -> None:
    """Make a page of next to nothing, so that the first one that is asked for waits for nothing."""
    with suppress(Exception), Session.create() as session:
        session.append_message({"role": "user", "content": "a"})
        session.append_message({"role": "assistant", "content": "```python\na = 1\n```"})
        for _ in Document(session.cursor, session.original).chunks():
            pass
