"""The recorder for asyncio and trio: a running agent's stream, kept as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Self, TypeVar

import anyio

from sessiontree.aio.session import AsyncSession
from sessiontree.core.entry import Entry
from sessiontree.recording.events import Event
from sessiontree.recording.recorder import StreamAccumulator
from sessiontree.recording.stream import Granularity
from sessiontree.session import Session

T = TypeVar("T")


class AsyncStreamAccumulator:
    """A `StreamAccumulator` for an `AsyncSession`, with the same methods to await.

    Args:
        session, granularity, prompt: as for `StreamAccumulator`.
    """

    def __init__(
        self,
        session: AsyncSession,
        *,
        granularity: Granularity = "block",
        prompt: str | None = None,
    ) -> None:
        self._session = session
        self._make = partial(StreamAccumulator, granularity=granularity, prompt=prompt)
        self._made: StreamAccumulator | None = None

    @property
    def recognized(self) -> int:
        """The number of events that the recorder knows; see `StreamAccumulator`."""
        return 0 if self._made is None else self._made.recognized

    @property
    def head(self) -> Coroutine[Any, Any, Entry]:
        """The last entry that is no annotation, as of `StreamAccumulator`: `await … .head`."""
        return self._run(lambda plain: plain.head)

    async def feed(self, chunk: bytes | str) -> list[Event]:
        """Take the next piece of the stream; see `StreamAccumulator.feed`."""
        return await self._run(lambda plain: plain.feed(chunk))

    async def take(self, event: Mapping[str, Any]) -> list[Event]:
        """Take a decoded event; see `StreamAccumulator.take`."""
        return await self._run(lambda plain: plain.take(event))

    async def close(self) -> list[Event]:
        """Take the rest of the stream, and end open messages, also in a cancelled scope."""
        events: list[Event] = []
        with anyio.CancelScope(shield=True):
            events += await self._run(lambda plain: plain.close())
        return events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _run(self, act: Callable[[StreamAccumulator], T]) -> T:
        def work(session: Session) -> T:
            if self._made is None:
                self._made = self._make(session)
            return act(self._made)

        return await self._session.run(work)
