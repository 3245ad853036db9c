"""Blocks: a batch or a locked block of a session, entered with `async with`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from sessiontree.aio.worker import Worker
from sessiontree.errors import ReadOnlyError


class Block:
    """A block during which a session holds its lock.

    A second task that enters a block of the session waits for the end of the first block.
    """

    def __init__(self, worker: Worker, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._worker = worker
        self._make = make
        self._manager: AbstractContextManager[None] | None = None

    async def __aenter__(self) -> None:
        await self._worker.turn.take()
        try:
            await self._worker.run(self._enter)
        except BaseException:
            with suppress(ReadOnlyError):  # the worker has ended, and left its blocks
                self._worker.submit(self.leave)  # the cancelled call may have entered it
            self._worker.turn.give_back()
            raise

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._worker.run(self.leave, always=True)
        finally:
            self._worker.turn.give_back()

    def _enter(self) -> None:
        manager = self._make()
        manager.__enter__()
        self._manager = manager
        self._worker.entered(self)

    def leave(self) -> None:
        """Leave the block, in the worker."""
        manager, self._manager = self._manager, None
        if manager is not None:
            self._worker.left(self)
            manager.__exit__(None, None, None)
