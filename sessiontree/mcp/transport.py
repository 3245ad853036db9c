"""Serves over standard input and output, or over HTTP.

Invariants: nothing but messages goes to standard output; over HTTP, a request counts only with a
known `Host`, with a known `Origin` or none, and with the token where there is one; an address that
other machines reach always has one.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
import socket
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sessiontree.core.display import one_line
from sessiontree.errors import UsageError
from sessiontree.mcp.wire import Exit, Wire

PATH: Final = "/mcp"

_LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a request over HTTP."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_END_SECONDS: Final = 2


class Address(NamedTuple):
    """Where the server listens."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def in_url(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(given: str) -> Address:
    """Read `HOST:PORT`, `:PORT` or `PORT`; without a host, only this machine is served.

    Raises:
        UsageError: it is none of them.
    """
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"{given!r} is not an address; give HOST:PORT, such as 127.0.0.1:8931")
    return Address(host.removeprefix("[").removesuffix("]") or _LOOPBACK[0], int(port))


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, until its end."""

    async def serve() -> None:
        with Exit() as exit:
            async with stdio_server() as (read, write), anyio.create_task_group() as group:
                wire = Wire(read, write, exit)
                group.start_soon(wire.read)
                await server.run(wire.messages, wire, server.create_initialization_options())
                group.cancel_scope.cancel()

    _log_as_lines()
    anyio.run(serve)


def _log_as_lines() -> None:
    """Print what the packages below log as single lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Line("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _Line(logging.Formatter):
    """Without the stack of an error."""

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return ""

    def format(self, record: logging.LogRecord) -> str:
        cause = record.exc_info[1] if record.exc_info else None
        record.exc_info = record.exc_text = None
        return one_line(super().format(record) + (f": {cause}" if cause is not None else ""))


class Door(NamedTuple):
    """A bound socket, and who may come in."""

    listening: socket.socket
    address: Address
    token: str | None
    hosts: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"http://{self.address.in_url}:{self.address.port}{PATH}"


def open_door(address: Address, token: str | None, hosts: Iterable[str]) -> Door:
    """Bind the address; make a token where other machines reach it and none is given.

    Raises:
        UsageError: the system does not give the address.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen()  # so that a client may come before the server has started
    except (OSError, UnicodeError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {address.in_url}:{address.port}: {reason}; give another address"
        ) from error
    bound = Address(address.host, listening.getsockname()[1])
    if token is None and not address.is_local:
        token = secrets.token_urlsafe(32)
    return Door(listening, bound, token, tuple(hosts))


def serve_http(server: Server[Any], door: Door) -> None:
    """Serve clients over HTTP, until the process is told to end."""
    names = dict.fromkeys([*_LOOPBACK, door.address.in_url, *door.hosts])
    hosts = [form for name in names for form in (name, f"{name}:*")]
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_LARGEST,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts,
            allowed_origins=[
                f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")
            ],
        ),
    )
    if door.token is not None:
        app = _Guarded(app, door.token)
    _log_as_lines()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_END_SECONDS,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[door.listening])


class _Guarded:
    """Lets only requests with the token through."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                said = {"error": "give the token of this server as 'Authorization: Bearer TOKEN'"}
                refusal = JSONResponse(said, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
