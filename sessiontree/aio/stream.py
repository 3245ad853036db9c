"""Streaming: a message that is written while it arrives; see `recording.stream`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, TypeVar

from sessiontree.aio.worker import Worker
from sessiontree.core.entry import Entry
from sessiontree.recording.stream import MessageStream

T = TypeVar("T")


class AsyncMessageStream:
    """A message that is being written; the words of `MessageStream`, awaited.

    `AsyncSession.stream_message` returns it for `async with`. If the block is left by an error or
    is cancelled, what arrived is stored, with the stop reason `aborted`.
    """

    def __init__(self, worker: Worker, stream: MessageStream, session: object) -> None:
        self._worker = worker
        self._session = session  # which is closed when nothing holds it
        self._stream = stream
        self._is_settled = True

    @property
    def uuid(self) -> str:
        """See `MessageStream`."""
        return self._stream.uuid

    @property
    def entries(self) -> list[Entry]:
        """The entries written so far."""
        return self._stream.entries

    @property
    def blocks(self) -> dict[int, dict[str, Any]]:
        """The blocks of the message, by index."""
        return self._stream.blocks

    async def start(self, type: str, **fields: Any) -> None:
        """Begin a block; see `MessageStream.start`."""
        await self._in_memory(partial(self._stream.start, type, **fields))

    async def delta(self, text: str) -> None:
        """Add text, or a piece of JSON, to the open block; see `MessageStream.delta`."""
        await self._in_memory(partial(self._stream.delta, text))

    async def stop(self, **fields: Any) -> Entry | None:
        """End the open block; see `MessageStream.stop`."""
        return await self._run(partial(self._stream.stop, **fields))

    async def add(
        self,
        block: Mapping[str, Any],
        index: int | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry | None:
        """Add a complete block; see `MessageStream.add`."""
        return await self._run(partial(self._stream.add, block, index, metadata=metadata))

    async def feed(self, event: Mapping[str, Any]) -> list[Entry]:
        """Take a stream event of a provider; see `MessageStream.feed`."""
        return await self._run(partial(self._stream.feed, event))

    async def end(self, **facts: Any) -> Entry | None:
        """End the message; see `MessageStream.end`."""
        return await self._run(partial(self._stream.end, **facts))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._worker.run(partial(self._stream.__exit__, kind, error, trace), always=True)

    async def _in_memory(self, act: Callable[[], object]) -> None:
        """Do what writes nothing: at once, unless a cancelled call may still be running."""
        if self._is_settled:
            act()
        else:
            await self._run(act)

    async def _run(self, act: Callable[[], T]) -> T:
        settled, self._is_settled = self._is_settled, False
        try:
            result = await self._worker.run(act)
        except Exception:  # no cancellation: the call has ended
            self._is_settled = settled
            raise
        self._is_settled = settled
        return result
