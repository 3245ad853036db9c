"""The messages of one client on standard input and output.

Invariants: each line gets an answer, also one that is no message; what was asked before the end of
the input is answered after it, unless nobody reads the answers any more.
"""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterable
from types import TracebackType
from typing import Final, Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from sessiontree.storage.fs import DISK, Descriptor

Read = SessionMessage | Exception

_STANDARD_OUTPUT: Final = 1
_PAUSE_SECONDS: Final = 0.05
_END_SECONDS: Final = 10.0
"""How long calls may take after the end of the input."""

_ENDLESS: Final = "subscriptions/listen"
"""A request that is answered when its client ends it."""


class _Output(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class Exit:
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


class Wire:
    """Reads messages for a server, and takes its own.

    Args:
        source: the messages of the client, and an error for each line that is none.
        output: takes the messages for the client.
        exit: knows whether the client still reads.

    Attributes:
        messages: what the server reads.
    """

    def __init__(self, source: AsyncIterable[Read], output: _Output, exit: Exit) -> None:
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
            with anyio.move_on_after(_END_SECONDS):
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
