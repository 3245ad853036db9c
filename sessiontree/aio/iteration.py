"""Iteration: what a session or a store yields, read in a worker piece by piece."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Generic, Protocol, Self, TypeVar

from anyio.lowlevel import checkpoint

T = TypeVar("T")

PIECE: Final = 256
"""How many items are read at once where reading one takes little time."""


class Run(Protocol):
    """Runs a function outside of the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class Items(Generic[T]):
    """An asynchronous iterator over what a plain iterator yields; nothing is read before the first.

    If a task is cancelled while it waits, no item is lost: the next one comes next.
    """

    def __init__(self, run: Run, make: Callable[[], Iterator[T]], piece: int = PIECE) -> None:
        self._run = run
        self._make = make
        self._piece = piece
        self._iterator: Iterator[T] | None = None
        self._read: deque[T] = deque()
        self._alone = threading.Lock()  # the thread of a cancelled call may still read
        self._error: BaseException | None = None
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._read:
            await checkpoint()
        while not self._read:
            if self._is_over:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            await self._run(self._read_more)
        return self._read.popleft()

    async def aclose(self) -> None:
        """End the iteration."""
        self._read.clear()
        self._is_over = True
        with suppress(Exception):  # a closed session has nothing to end
            await self._run(self._end)

    def _read_more(self) -> None:
        with self._alone:
            if self._read or self._is_over:
                return  # a task that was cancelled had it read
            try:
                if self._iterator is None:
                    self._iterator = self._make()
                self._read.extend(islice(self._iterator, self._piece))
            except BaseException as error:
                self._is_over = True
                if not self._read:
                    raise
                self._error = error  # of the item after those that were read
            else:
                self._is_over = not self._read

    def _end(self) -> None:
        with self._alone:
            close = getattr(self._iterator, "close", None)
            if close is not None:
                close()
