"""The door: the socket of this machine, and who may come in.

Invariants: only this machine reaches the socket; a request counts only with the name of this server
as its `Host`, with its own `Origin` or none, and with the token as the first part of its path. The
token is nowhere else: a cookie or a `Referer` would reach every server on this machine, because
browsers keep cookies of a host and not of its port. So the links of pages are relative.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from typing import Final, NamedTuple

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sessiontree.errors import UsageError

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


class Door(NamedTuple):
    """A bound socket, and the token that opens it."""

    listening: socket.socket
    port: int
    token: str

    def url_of(self, path: str) -> str:
        """The address of a page, with the token."""
        return f"http://{HOST}:{self.port}/{self.token}{path}"


def open_door(port: int) -> Door:
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
    return Door(listening, listening.getsockname()[1], secrets.token_urlsafe(24))


class Guarded:
    """Lets requests in that may come in."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
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
