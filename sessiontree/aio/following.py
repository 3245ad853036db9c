"""Following: the entries that any writer adds, as an asynchronous iterator.

A thread of its own waits for each entry, as a plain `follow` does. It ends with the iterator, with
the session, with the event loop or with the process.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Final, Self

from anyio.lowlevel import checkpoint

from sessiontree.aio.worker import RUNNING, Job, Notice, Patience, Worker
from sessiontree.core.entry import Entry

MOST: Final = 256
"""How many entries wait to be asked for; then the thread waits."""

LOOK_SECONDS: Final = 0.5

Start = Callable[[threading.Event], Iterator[Entry]]


class Following:
    """New entries of a session, as they come. `AsyncSession.follow` returns one.

    `async for` takes the entries; leaving `async with`, or `aclose`, ends the following.
    """

    def __init__(self, worker: Worker, start: Start, session: object) -> None:
        self._session = session  # which is closed when nothing holds it
        self._pump = _Pump()
        self._start: Job[None] | None = worker.submit(lambda: self._pump.start(start))
        weakref.finalize(self, self._pump.end)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        await checkpoint()
        if self._start is not None:
            await self._start.wait()
            start, self._start = self._start, None
            start.result()
        return await self._pump.next()

    async def aclose(self) -> None:
        """End the following."""
        self._pump.end()
        await checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._pump.end()


class _Pump:
    """The thread that waits for entries, and the entries that were not asked for yet."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._notices: list[Notice] = []
        self._error: BaseException | None = None
        self._is_over = False
        self._thread: threading.Thread | None = None

    def start(self, start: Start) -> None:
        """Fix the place from which entries are new, and begin to wait for them."""
        entries = Context().run(start, self._stop)  # it does not end with the task that began it
        self._thread = threading.Thread(
            target=self._run, args=(entries,), name="sessiontree-follow", daemon=True
        )
        self._thread.start()
        RUNNING.add(self)

    def end(self) -> None:
        """End the thread, without waiting for it."""
        self._stop.set()
        with self._changed:
            self._is_over = True
            self._entries.clear()
            self._tell()

    def join(self, patience: Patience) -> None:
        """Wait for the end of the thread."""
        if self._thread is not None:
            self._thread.join(patience.seconds())

    async def next(self) -> Entry:
        """Wait for the next entry."""
        while True:
            with self._changed:
                if self._entries:
                    self._changed.notify_all()
                    return self._entries.popleft()
                if self._is_over:
                    error, self._error = self._error, None
                    raise error or StopAsyncIteration
                notice = Notice()
                self._notices.append(notice)
            await notice.wait()

    def _run(self, entries: Iterator[Entry]) -> None:
        error: BaseException | None = None
        try:
            for entry in entries:
                with self._changed:
                    while len(self._entries) >= MOST and not self._stop.is_set():
                        self._changed.wait(LOOK_SECONDS)
                    if self._stop.is_set():
                        break
                    self._entries.append(entry)
                    self._tell()
        except BaseException as raised:
            error = raised
        finally:
            del entries  # closes the file
            with self._changed:
                self._error, self._is_over = error, True
                self._tell()
            RUNNING.discard(self)

    def _tell(self) -> None:
        notices, self._notices = self._notices, []
        for notice in notices:
            notice.give()
        self._changed.notify_all()
