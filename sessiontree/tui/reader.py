"""One session, read in a thread of its own, so that no key waits for the disk.

Invariants: the session is opened read-only, with the first question, and used in that thread alone;
a reader that is closed gives up what it reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sessiontree.session import Session

T = TypeVar("T")


Opening = Callable[[str], Session | None]
"""Opens a file; None if it does not give a session."""


class Ended(Exception):
    """The reader was closed, or has no session."""


def _readonly(file: str) -> Session:
    return Session.open(file, readonly=True)


class Reader:
    """Answers questions about one session file, one after another."""

    def __init__(self, file: str, opening: Opening = _readonly) -> None:
        self.file = file
        self._opening = opening
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._session: Session | None = None
        self._is_closed = False
        Thread(target=self._run, name="reader", daemon=True).start()

    async def ask(self, question: Callable[[Session], T]) -> T:
        """What a function makes of the session.

        Raises:
            Ended: the reader is closed, or has no session.
            Exception: any error of the function, and of opening the session.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def run() -> None:
            value, error = None, None
            try:
                self.check()
                value = question(self._opened())
            except Exception as failed:
                error = failed
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, value, error)

        self._waiting.put(run)
        return await answer

    def check(self) -> None:
        """Raise Ended if the reader is closed; long readings call it from time to time."""
        if self._is_closed:
            raise Ended

    def close(self) -> None:
        """Close the session once what is read is done or given up."""
        self._is_closed = True
        self._waiting.put(None)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._opening(self.file)
        if self._session is None:
            raise Ended
        return self._session

    def _run(self) -> None:
        while (question := self._waiting.get()) is not None:
            question()
        if self._session is not None:
            self._session.close()
