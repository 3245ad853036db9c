"""Asynchronous iterators: what a session yields, the entries that it follows, streamed messages.

What a session or a store yields is read in a worker piece by piece. Following has a thread of its
own, which ends with the iterator, with the session, with the event loop or with the process.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import Context
from functools import partial, wraps
from itertools import islice
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from sessiontree.aio.worker import RUNNING, Job, Notice, ShutdownDeadline, Worker
from sessiontree.core.entry import Entry
from sessiontree.core.message import ToolCall
from sessiontree.recording.stream import MessageStream

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

PIECE: Final = 256
"""How many items are read at once where reading one takes little time."""


class Awaiting(Generic[S]):
    """An object whose calls are awaited; `awaited` and `items` derive its methods from `plain`."""

    _plain: S
    _piece: int = PIECE  # how many items are read at once

    async def _call(self, function: Callable[[], T]) -> T:
        """Run a function outside of the event loop; who holds this method holds the object."""
        return await run_sync(function)

    async def _on(self, function: Callable[[S], T]) -> T:
        return await self._call(partial(function, self._plain))


def awaited(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[Awaiting[S], P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: Awaiting[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._on(lambda plain: method(plain, *args, **kwargs))

    return call


def items(
    method: Callable[Concatenate[S, P], Iterator[T]],
) -> Callable[Concatenate[Awaiting[S], P], AsyncItems[T]]:
    @wraps(method)
    def call(self: Awaiting[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncItems[T]:
        return AsyncItems(self._call, partial(method, self._plain, *args, **kwargs), self._piece)

    return call


class Runner(Protocol):
    """Runs a function outside of the event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class AsyncItems(Generic[T]):
    """An asynchronous iterator over what a plain iterator yields; nothing is read before the first.

    If a task is cancelled while it waits, no item is lost: the next one comes next.
    """

    def __init__(self, run: Runner, make: Callable[[], Iterator[T]], piece: int = PIECE) -> None:
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


MAX: Final = 256
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
        self._stop.set()
        with self._changed:
            self._is_over = True
            self._entries.clear()
            self._tell()

    def join(self, patience: ShutdownDeadline) -> None:
        if self._thread is not None:
            self._thread.join(patience.seconds())

    async def next(self) -> Entry:
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
                    while len(self._entries) >= MAX and not self._stop.is_set():
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


class AsyncMessageStream(Awaiting[MessageStream]):
    """A message that is being written; the words of `MessageStream`, awaited.

    `AsyncSession.stream_message` returns it for `async with`. If the block is left by an error or
    is cancelled, what arrived is stored, with the stop reason `aborted`.
    """

    def __init__(self, worker: Worker, stream: MessageStream, session: object) -> None:
        self._worker = worker
        self._session = session  # which is closed when nothing holds it
        self._plain = stream
        self._is_settled = True

    @property
    def uuid(self) -> str:
        """See `MessageStream`."""
        return self._plain.uuid

    @property
    def entries(self) -> list[Entry]:
        """The entries written so far."""
        return self._plain.entries

    @property
    def blocks(self) -> dict[int, dict[str, Any]]:
        """The blocks of the message, by index."""
        return self._plain.blocks

    @property
    def stop_reason(self) -> str | None:
        """Why the message ended; see `MessageStream`."""
        return self._plain.stop_reason

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the whole answer; see `MessageStream.calls`."""
        return self._plain.calls

    async def start(self, type: str, **fields: Any) -> None:
        """Begin a block; see `MessageStream.start`."""
        await self._in_memory(partial(self._plain.start, type, **fields))

    async def delta(self, text: str) -> None:
        """Add text, or a piece of JSON, to the open block; see `MessageStream.delta`."""
        await self._in_memory(partial(self._plain.delta, text))

    async def stop(self, **fields: Any) -> Entry | None:
        """End the open block; see `MessageStream.stop`."""
        return await self._on(lambda stream: stream.stop(**fields))

    async def end(self, **facts: Any) -> Entry | None:
        """End the message; see `MessageStream.end`."""
        return await self._on(lambda stream: stream.end(**facts))

    add = awaited(MessageStream.add)
    feed = awaited(MessageStream.feed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._worker.run(partial(self._plain.__exit__, kind, error, trace), always=True)

    async def _in_memory(self, act: Callable[[], object]) -> None:
        """Do what writes nothing: at once, unless a cancelled call may still be running."""
        if self._is_settled:
            act()
        else:
            await self._call(act)

    async def _call(self, act: Callable[[], T]) -> T:
        settled, self._is_settled = self._is_settled, False
        try:
            result = await self._worker.run(act)
        except Exception:  # no cancellation: the call has ended
            self._is_settled = settled
            raise
        self._is_settled = settled
        return result
