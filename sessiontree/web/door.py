"""The door: the socket of this machine, and who may come in.

Invariants: only this machine reaches the socket; a request counts only with the name of this server
as its `Host`, with its own `Origin` or none, and with the token; the token is in an address once,
then in a cookie that neither scripts nor other sites get.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sessiontree.errors import UsageError

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
_PARAMETER: Final = "token"
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
        return f"http://{HOST}:{self.port}{path}?{_PARAMETER}={self.token}"


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
        self._cookie = f"sessiontree-{door.port}"
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

        await self._app_for(scope)(scope, receive, answer)

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
        given = parse_qs(scope["query_string"].decode("latin-1")).get(_PARAMETER, [""])[0]
        if given and self._is_token(given):
            return self._entered(scope["path"])
        if not self._is_token(self._cookie_in(headers.get(b"cookie", ""))):
            return PlainTextResponse(_REFUSAL, 403)
        return self._app

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _cookie_in(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _entered(self, path: str) -> ASGIApp:
        """Go on at the same path, without the token in the address."""
        answer = RedirectResponse("/" + path.lstrip("/"), 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return answer
