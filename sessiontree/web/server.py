"""The server of the live view: its socket, its token, its connections and its end.

Invariants: only this machine reaches the socket; a request counts only with the name of this server
as its `Host`, with its own `Origin` or none, and with the token as the first part of its path. The
token is nowhere else: a cookie or a `Referer` would reach every server on this machine, because
browsers keep cookies of a host and not of its port. So the links of pages are relative. A
connection without a whole request is closed after some seconds, whatever it sends; beyond some
number of them, each new one closes the oldest: uvicorn waits without end for the rest of a request,
so clients without the token could take all descriptors of the process.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NamedTuple

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sessiontree.errors import SessionTreeWarning, UsageError
from sessiontree.page.document import Document
from sessiontree.session import Session
from sessiontree.web.app import App
from sessiontree.web.sessions import Sessions

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
_REFUSAL: Final = "Open the address that 'sessiontree view' printed; it has the token of this run."
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class ViewListener(NamedTuple):
    """A bound socket, and the token that opens it."""

    listening: socket.socket
    port: int
    token: str

    def url_of(self, path: str) -> str:
        """The address of a page, with the token."""
        return f"http://{HOST}:{self.port}/{self.token}{path}"


def open_door(port: int) -> ViewListener:
    """Bind a port of this machine; 0: a free one.

    Raises:
        UsageError: the port is taken, or the system does not give it.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot listen on {HOST}:{port}: {error.strerror or error}; give another --port, or "
            "none for a free one"
        ) from error
    return ViewListener(listening, listening.getsockname()[1], secrets.token_urlsafe(24))


class Guarded:
    """Lets requests in that may come in."""

    def __init__(self, app: ASGIApp, door: ViewListener) -> None:
        self._app = app
        self._token = door.token
        self._hosts = {f"{name}:{door.port}" for name in _NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        inside = {**scope, "root_path": f"/{self._token}"}
        await self._app_for(scope)(inside, receive, answer)

    def _app_for(self, scope: Scope) -> ASGIApp:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get(b"host") not in self._hosts:
            return PlainTextResponse("This server has another name.", 403)
        if headers.get(b"origin", "null") not in (*self._origins, "null") or (
            b"origin" in headers and headers[b"origin"] == "null"
        ):
            return PlainTextResponse("Other sites do not get in.", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This server only reads.", 405)
        if not self._is_token(scope["path"].removeprefix("/").partition("/")[0]):
            return PlainTextResponse(_REFUSAL, 403)
        return self._app

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


_END_SECONDS: Final = 2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def serve(door: ViewListener, places: Sequence[str], started: Callable[[], object]) -> None:
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

    def __init__(self, door: ViewListener, places: Sequence[str]) -> None:
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


_MAX_WAITING: Final = 100
"""Connections without a whole request: a browser has six, and a process 256 descriptors or more."""

_REQUEST_SECONDS: Final = 5.0


class Connection(H11Protocol):
    """An HTTP connection."""

    deadline = 0.0
    """The time of the loop at which the next request must be whole."""

    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the connection is open and no request of it is being answered."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return not (is_answering or self.transport.is_closing())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        waiting = [each for each in self.connections if isinstance(each, Connection)]
        waiting = [each for each in waiting if each.is_waiting]
        if len(waiting) > _MAX_WAITING:
            min(waiting, key=lambda each: each.deadline).transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop()
        self.deadline = self.loop.time() + _REQUEST_SECONDS
        self._timer = self.loop.call_at(self.deadline, self._end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        if self.is_waiting:
            self.transport.close()
