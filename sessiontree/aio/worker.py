"""The thread that runs the calls of a session, and the blocks that hold its lock.

Invariants: Calls run in the order in which tasks make them; A call whose task is cancelled before
the call starts never runs. A call that has started runs to its end; its task gets the cancellation
at once; A coroutine function that a call needs (a hook, a summarizer, a resolver) runs in the task
that made the call, and is cancelled with it. Meanwhile the worker runs the calls of this function
and of the tasks that it starts, so that none waits for itself. It also runs the calls of other
tasks, unless the call is in the middle of a step; The thread ends when its sessions are closed,
when the event loop ends, or when the process ends. Then the sessions are closed, and an open batch
is written.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import anyio
from anyio.lowlevel import RunVar, checkpoint_if_cancelled, current_token

from sessiontree.core.callback import BRIDGE
from sessiontree.engine.hooks import DEPTH
from sessiontree.engine.writer import current_task
from sessiontree.errors import (
    ReadOnlyError,
    SessionTreeWarning,
    UsageError,
    hearing,
    warn,
)

T = TypeVar("T")

DEEPEST: Final = 16
"""How many calls may wait for their coroutines, each inside the one before."""


class _JobCancelled(BaseException):
    """Ends a call in the worker: its task was cancelled, or the event loop has ended."""


class Stoppable(Protocol):
    """A thread that the end of the process ends."""

    def end(self) -> None:
        """Have the thread end soon."""

    def join(self, patience: ShutdownDeadline) -> None:
        """Wait for the end of the thread."""


class ClosableSession(Protocol):
    """A session."""

    def close(self) -> None: ...


class ScopedBlock(Protocol):
    """A block that a task may leave open, such as a batch."""

    def leave(self) -> None: ...


RUNNING: Final[weakref.WeakSet[Stoppable]] = weakref.WeakSet()
"""The threads of this process."""


class ShutdownDeadline:
    """How long an event loop or the process waits for the ends of all its threads together."""

    def __init__(self) -> None:
        self._until: float | None = None

    def seconds(self) -> float:
        """Return the rest; the first call begins the waiting."""
        if self._until is None:
            # how long the end of an event loop or of the process waits for its threads
            self._until = monotonic() + 5.0
        return max(0.0, self._until - monotonic())


@atexit.register
def _stop_all() -> None:
    threads, patience = list(RUNNING), ShutdownDeadline()
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(patience)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RUNNING.clear)  # a forked child has none of the threads


def from_threads() -> Callable[[Callable[[], object]], object]:
    """Return the function by which other threads run a function in the running event loop."""
    loop = cast(Any, current_token().native_token)
    soon = getattr(loop, "call_soon_threadsafe", None)  # of asyncio; the other is trio's
    return cast("Callable[[Callable[[], object]], object]", soon or loop.run_sync_soon)


class Notice:
    """Wakes a task from another thread."""

    def __init__(self) -> None:
        self._soon = from_threads()
        self._event = anyio.Event()

    def give(self) -> None:
        """Wake the task, from any thread."""
        with suppress(RuntimeError):  # the event loop has ended, and the task with it
            self._soon(self._set)

    def _set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        """Wait for a notice; one that was given since the last wait counts."""
        await self._event.wait()
        self._event = anyio.Event()


class Job(Generic[T]):
    """A call that a task makes; what it runs finds it as its `Bridge`."""

    def __init__(self, worker: Worker, function: Callable[[], T]) -> None:
        self.task = current_task()
        self.inside = _INSIDE.get()
        self.worker = worker
        self.is_abandoned = self.is_finished = self.is_open = False
        self.answer: tuple[Any, BaseException | None] | None = None
        self.request: Callable[[], Coroutine[Any, Any, Any]] | None = None
        self.depth = 0
        self._notice = Notice()
        self._function: Callable[[], T] | None = function
        self._warnings: list[tuple[str, type[Warning]]] = []
        self._context = copy_context()
        self._context.run(BRIDGE.set, self)
        self._value: T | None = None
        self._error: BaseException | None = None

    def owner(self) -> Job[Any] | None:
        """Return the call of the same worker whose coroutine made this call, if it still runs."""
        job = self.inside
        while job is not None and (job.is_finished or job.worker is not self.worker):
            job = job.inside
        return job

    def run(self) -> None:
        """Run the call, in the worker."""
        assert self._function is not None
        try:
            self._value = self._context.run(self._heard, self._function)
        except BaseException as error:
            self._error = error
        self.finish()

    def _heard(self, function: Callable[[], T]) -> T:
        """Run a function, and keep its warnings for the task, whose line they name."""
        with hearing(lambda *warning: self._warnings.append(warning)):
            return function()

    def warn(self) -> None:
        """Give the warnings of the call, in the task that made it."""
        given, self._warnings = self._warnings, []
        for text, category in given:
            warn(text, category)

    def finish(self, error: BaseException | None = None) -> None:
        """End the call, with an error if it did not run."""
        self._error = self._error or error
        self.is_finished = True
        self._function = None
        del self._context  # which leads back to the call
        self._notice.give()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], *, alone: bool) -> Any:
        """See `Bridge.call`."""
        given = [self.worker.shown(argument) for argument in arguments]
        self.depth = DEPTH.get()
        self.is_open = not alone
        self.request = partial(function, *given)
        self._notice.give()
        self.worker.serve(self)
        if self.answer is None:
            raise _JobCancelled
        value, error = self.answer
        self.answer = None
        if error is not None:
            raise error
        return value

    async def wait(self) -> None:
        """Wait until the call ends, and run the coroutine functions that it needs."""
        while not self.is_finished:
            await self._notice.wait()
            request, self.request = self.request, None
            if request is not None:
                await self._run(request)

    async def _run(self, request: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        inside, depth = _INSIDE.set(self), DEPTH.set(self.depth)
        value: Any = None
        failed: BaseException | None = None
        try:
            value = await request()
        except Exception as error:
            failed = error
        except BaseException:
            self.worker.abandon(self)  # it is cancelled, and the call never gets its answer
            raise
        finally:
            _INSIDE.reset(inside)
            DEPTH.reset(depth)
        self.worker.answer(self, value, failed)

    def result(self) -> T:
        """Give the warnings of the call; return its result, once, or raise its error."""
        self.warn()
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return cast(T, self._value)
        finally:
            del error  # whose traceback leads back here


_INSIDE: Final[ContextVar[Job[Any] | None]] = ContextVar("call that this code is for", default=None)


class Worker:
    """The thread of a session and of its lanes; it starts with the first call.

    `shown` gives what a coroutine function gets in place of an argument.
    """

    def __init__(self, shown: Callable[[Worker, Any], Any]) -> None:
        self.shown = partial(shown, self)  # as given
        self.turn = BlockLock(self)  # the right to have a batch or a locked block open
        self._changed = threading.Condition()
        self._waiting: deque[Job[Any]] = deque()
        self._frames: list[Job[Any]] = []
        self._sessions: dict[int, ClosableSession] = {}
        self._blocks: list[ScopedBlock] = []
        self._dropped: list[ClosableSession] = []
        self._is_stopping = self._has_ended = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="sessiontree", daemon=True)
        self._at_end = _at_end_of_loop(self, _patience_of_loop())
        with suppress(StopIteration):
            self._at_end.__anext__().send(None)  # the loop now knows it

    # In the event loop

    async def run(self, function: Callable[[], T], *, always: bool = False) -> T:
        """Run a function in the worker, and return its result.

        With `always`, the function runs and its end is awaited even if the task is cancelled.
        """
        if not always:
            await checkpoint_if_cancelled()
        job = self.submit(function)
        await (self._finished(job) if always else self._ended(job))
        return job.result()

    def submit(self, function: Callable[[], T]) -> Job[T]:
        """Have the worker run a function after all calls before it."""
        if os.getpid() != self._process:
            raise UsageError(
                "a forked process opens its own AsyncSession; this one is its parent's"
            )
        job = Job(self, function)
        with self._changed:
            if self._has_ended or self._is_stopping:
                raise _closed()
            self._waiting.append(job)
            if self._thread.ident is None:
                self._thread.start()
                RUNNING.add(self)
            self._changed.notify_all()
        return job

    async def _ended(self, job: Job[Any]) -> None:
        try:
            await job.wait()
        except BaseException:
            self.abandon(job)
            raise

    async def _finished(self, job: Job[Any]) -> None:
        """Wait for the end of a call, and then raise what interrupted the task."""
        interrupted: BaseException | None = None
        while not job.is_finished:
            try:
                with anyio.CancelScope(shield=True):  # which keeps no cancelling of asyncio off
                    await job.wait()
            except anyio.get_cancelled_exc_class() as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def abandon(self, job: Job[Any]) -> None:
        """Take back a call that has not started; end what a started call waits for."""
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
            job.is_abandoned = True
            self._changed.notify_all()

    def answer(self, job: Job[Any], value: Any, error: BaseException | None) -> None:
        """Give the worker what a coroutine function returned or raised."""
        with self._changed:
            job.answer = value, error
            self._changed.notify_all()

    # In any thread

    def drop(self, session: ClosableSession) -> None:
        """Close a session that nobody holds any more."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._dropped.append(session)
            self._changed.notify_all()

    def end(self) -> None:
        """Have the thread close the sessions and end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def join(self, patience: ShutdownDeadline) -> None:
        """Wait for the end of the thread."""
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(patience.seconds())

    # In the worker

    def add(self, session: ClosableSession) -> None:
        """Take on a session: the thread runs until it is closed."""
        self._sessions[id(session)] = session

    def close(self, session: ClosableSession) -> None:
        """Close a session."""
        try:
            session.close()
        finally:
            self._sessions.pop(id(session), None)

    def entered(self, block: ScopedBlock) -> None:
        """Note an open block, which the end of the thread leaves."""
        self._blocks.append(block)

    def left(self, block: ScopedBlock) -> None:
        """Note that a block was left."""
        if block in self._blocks:
            self._blocks.remove(block)

    def serve(self, frame: Job[Any]) -> None:
        """Run calls until a call has the answer that it waits for, or never gets it."""
        if threading.current_thread() is not self._thread or frame.is_finished:
            raise UsageError(
                "only the thread of an AsyncSession calls coroutine functions, during the call "
                "that needs them; give plain functions to other threads"
            )
        self._frames.append(frame)
        try:
            while (job := self._next()) is not None:
                job.run()
        finally:
            self._frames.pop()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            del job  # and what it returned, until the next call
        with self._changed:
            unstarted = list(self._waiting)
            self._waiting.clear()
        for job in unstarted:
            job.finish(_closed())
        for block in self._blocks[::-1]:
            self._quietly(block.leave)
        for session in list(self._sessions.values()):
            self._quietly(session.close)
        self._sessions.clear()
        RUNNING.discard(self)
        with suppress(StopIteration, RuntimeError):  # the loop may be ending it
            self._at_end.aclose().send(None)

    def _next(self) -> Job[Any] | None:
        """Wait for the next call to run; None if the innermost frame, or the thread, is to end."""
        frame = self._frames[-1] if self._frames else None
        with self._changed:
            while True:
                if self._is_stopping:
                    break
                if frame is not None and (frame.answer is not None or frame.is_abandoned):
                    return None
                if frame is None and self._dropped:
                    dropped = self._dropped.pop()
                    self._quietly(partial(self.close, dropped))
                    continue
                for job in tuple(self._waiting):
                    if self._may_run(job):
                        self._waiting.remove(job)
                        return job
                if frame is None and not self._sessions:
                    break
                self._changed.wait()
            self._has_ended = self._has_ended or frame is None
            return None

    def _may_run(self, job: Job[Any]) -> bool:
        """True if a call may run now: of the innermost frame, or past frames that let others in."""
        owner = job.owner()
        past = self._frames[self._frames.index(owner) + 1 :] if owner else self._frames
        return not past or (len(self._frames) < DEEPEST and all(frame.is_open for frame in past))

    def _quietly(self, close: Callable[[], object]) -> None:
        try:
            close()
        except Exception as error:
            warnings.warn(f"closing a session failed: {error}", SessionTreeWarning, stacklevel=2)


async def _at_end_of_loop(worker: Worker, patience: ShutdownDeadline) -> AsyncGenerator[None, None]:
    """Stop a worker at the end of the event loop, which closes all asynchronous generators."""
    try:
        yield
    finally:
        worker.end()
        worker.join(patience)


def _patience_of_loop() -> ShutdownDeadline:
    patience = _PATIENCE.get(None)
    if patience is None:
        patience = ShutdownDeadline()
        _PATIENCE.set(patience)
    return patience


_PATIENCE: Final[RunVar[ShutdownDeadline | None]] = RunVar("patience")


class BlockLock:
    """The right to have a batch or a locked block open: one task at a time has it.

    Blocks of two tasks would not end in the order in which they began, and the lock could not be
    held for both.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = anyio.Lock()
        self._task: object = None
        self._block: object = None
        self._depth = 0

    async def take(self) -> None:
        """Wait for the end of other tasks' blocks.

        Raises:
            UsageError: the task would wait for a block that may wait for the task.
        """
        if self._task is not None and self._task is current_task():
            self._depth += 1
            return
        if self._block is not None and self._block in _BLOCKS.get():
            raise UsageError(
                "this task was started inside a batch or a locked block, and would wait for the "
                "block, which may wait for the task; append without a batch, or start the task "
                "after the block"
            )
        if self._block is not None and _is_inside(self._worker):
            raise UsageError(
                "another task has a batch or a locked block open, which waits for this hook; "
                "append without a batch"
            )
        await self._lock.acquire()
        self._task, self._block, self._depth = current_task(), object(), 1
        _BLOCKS.set((*_BLOCKS.get(), self._block))

    def give_back(self) -> None:
        """Let the next task have a block."""
        self._depth -= 1
        if self._depth:
            return
        _BLOCKS.set(tuple(block for block in _BLOCKS.get() if block is not self._block))
        self._task = self._block = None
        self._lock.release()


_BLOCKS: Final[ContextVar[tuple[object, ...]]] = ContextVar("blocks that code is in", default=())


def _is_inside(worker: Worker) -> bool:
    job = _INSIDE.get()
    while job is not None and (job.is_finished or job.worker is not worker):
        job = job.inside
    return job is not None


def _closed() -> ReadOnlyError:
    return ReadOnlyError("the session is closed; open the session again")


class AsyncBlock:
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
