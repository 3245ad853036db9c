"""Serving over standard input and output, or over HTTP.

Invariants:

- Nothing but messages goes to standard output.
- Over HTTP, a request counts only with a known `Host`, with a known `Origin` or none, and with the
  token where there is one.
- An address that other machines reach always has one.
- Each line gets an answer, also one that is no message.
- What was asked before the end of the input is answered after it, unless nobody reads the answers
  any more.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import secrets
import select
import socket
from collections.abc import AsyncIterable, Iterable
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sessiontree.core.display import one_line
from sessiontree.errors import UsageError
from sessiontree.storage.fs import DISK, Descriptor

Read = SessionMessage | Exception

_STANDARD_OUTPUT: Final = 1
_PAUSE_SECONDS: Final = 0.05
_CLOSE_SECONDS: Final = 10.0
"""How long calls may take after the end of the input."""

_ENDLESS: Final = "subscriptions/listen"
"""A request that is answered when its client ends it."""


class _Output(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class StdoutGuard:
    """Knows whether somebody still reads standard output. Enter it while that is in its place."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._copy = Descriptor(DISK, -1)

    def __enter__(self) -> Self:
        self._copy = Descriptor(DISK, os.dup(_STANDARD_OUTPUT))
        self._poll.register(self._copy.number, 0)
        return self

    def __exit__(self, *error: object) -> None:
        self._copy.close()

    @property
    def is_closed(self) -> bool:
        return bool(self._poll.poll(0))


class StdioTransport:
    """Reads messages for a server, and takes its own.

    Args:
        source: the messages of the client, and an error for each line that is none.
        output: takes the messages for the client.
        exit: knows whether the client still reads.

    Attributes:
        messages: what the server reads.
    """

    def __init__(self, source: AsyncIterable[Read], output: _Output, exit: StdoutGuard) -> None:
        self._source = source
        self._output = output
        self._exit = exit
        self._waiting: set[types.RequestId] = set()
        self._checked, self.messages = anyio.create_memory_object_stream[Read](0)

    async def read(self) -> None:
        """Pass messages on until the end of the input, and wait for the last answers."""
        async with self._checked:
            async for item in self._source:
                if isinstance(item, Exception):
                    error = types.JSONRPCError(jsonrpc="2.0", id=None, error=_fault(item))
                    await self._output.send(SessionMessage(error))
                    continue
                message = item.message
                if isinstance(message, types.JSONRPCRequest) and message.method != _ENDLESS:
                    self._waiting.add(message.id)
                await self._checked.send(item)
            with anyio.move_on_after(_CLOSE_SECONDS):
                while self._waiting and not self._exit.is_closed:
                    await anyio.sleep(_PAUSE_SECONDS)

    async def send(self, item: SessionMessage, /) -> None:
        await self._output.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._waiting.discard(item.message.id)

    async def aclose(self) -> None:
        await self._output.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _fault(found: Exception) -> types.ErrorData:
    problems = found.errors(include_url=False) if isinstance(found, ValidationError) else []
    for problem in problems:
        if problem["type"] == "json_invalid":
            why = problem["ctx"]["error"]
            return types.ErrorData(code=types.PARSE_ERROR, message=f"the line is not JSON: {why}")
    return types.ErrorData(
        code=types.INVALID_REQUEST,
        message="the line is not a message of JSON-RPC 2.0: give one object with 'jsonrpc', "
        "'method' and, for a request, 'id'",
    )


PATH: Final = "/mcp"

_LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a request over HTTP."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_END_SECONDS: Final = 2


class ListenAddress(NamedTuple):
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


def address_of(given: str) -> ListenAddress:
    """Read `HOST:PORT`, `:PORT` or `PORT`; without a host, only this machine is served.

    Raises:
        UsageError: it is none of them.
    """
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"{given!r} is not an address; give HOST:PORT, such as 127.0.0.1:8931")
    return ListenAddress(host.removeprefix("[").removesuffix("]") or _LOOPBACK[0], int(port))


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, until its end."""

    async def serve() -> None:
        with StdoutGuard() as exit:
            async with stdio_server() as (read, write), anyio.create_task_group() as group:
                wire = StdioTransport(read, write, exit)
                group.start_soon(wire.read)
                await server.run(wire.messages, wire, server.create_initialization_options())
                group.cancel_scope.cancel()

    _log_as_lines()
    anyio.run(serve)


def _log_as_lines() -> None:
    """Print what the packages below log as single lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLineFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _OneLineFormatter(logging.Formatter):
    """Without the stack of an error."""

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return ""

    def format(self, record: logging.LogRecord) -> str:
        cause = record.exc_info[1] if record.exc_info else None
        record.exc_info = record.exc_text = None
        return one_line(super().format(record) + (f": {cause}" if cause is not None else ""))


class HttpDoor(NamedTuple):
    """A bound socket, and who may come in."""

    listening: socket.socket
    address: ListenAddress
    token: str | None
    hosts: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"http://{self.address.in_url}:{self.address.port}{PATH}"


def open_door(address: ListenAddress, token: str | None, hosts: Iterable[str]) -> HttpDoor:
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
    bound = ListenAddress(address.host, listening.getsockname()[1])
    if token is None and not address.is_local:
        token = secrets.token_urlsafe(32)
    return HttpDoor(listening, bound, token, tuple(hosts))


def serve_http(server: Server[Any], door: HttpDoor) -> None:
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
