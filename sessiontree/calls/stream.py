"""A call as an asynchronous stream of events: the work runs in a thread of its own.

Invariant: when the consumer stops early or is cancelled, the work stops at its next report, and the
stream ends when the work has ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import from_thread, to_thread

from sessiontree.calls.dispatcher import Dispatcher, Event


@asynccontextmanager
async def stream(
    dispatcher: Dispatcher, name: str, params: Any
) -> AsyncIterator[AsyncIterator[Event]]:
    """Call a method; `async with stream(…) as events: async for event in events: …`.

    See `Dispatcher.call`.
    """
    stop = threading.Event()
    send, receive = anyio.create_memory_object_stream[Event](math.inf)

    def give(event: Event) -> None:
        with suppress(anyio.BrokenResourceError):  # the consumer has gone
            send.send_nowait(event)

    def take(event: Event) -> None:
        from_thread.run_sync(give, event)

    async def work() -> None:
        with send:
            await to_thread.run_sync(lambda: dispatcher.call(name, params, take, stop=stop))

    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        with receive:
            try:
                yield receive
            except Exception as error:  # the task group would put it into a group of errors
                failed = error
            finally:
                stop.set()
    if failed is not None:
        raise failed
