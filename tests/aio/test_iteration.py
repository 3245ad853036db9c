"""Items of a plain iterator, read in a thread: each once, in order, and then the error, if any."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from anyio.to_thread import run_sync

from sessiontree.aio.iteration import AsyncItems
from tests.support.loops import in_each_loop


@in_each_loop
async def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield from range(3)
        raise KeyError

    items = AsyncItems(run_sync, failing, piece=2)
    assert [await anext(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        await anext(items)
    with pytest.raises(StopAsyncIteration):
        await anext(items)


def test_a_task_of_asyncio_that_is_cancelled_leaves_the_item_to_the_next() -> None:
    goes_on = threading.Event()

    def slow() -> Iterator[int]:
        goes_on.wait()
        yield 1

    async def main() -> None:
        items = AsyncItems(run_sync, slow)
        first = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0.01)
        first.cancel()
        second = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0.01)
        goes_on.set()
        assert await second == 1

    asyncio.run(main())


@in_each_loop
async def test_closing_ends_the_iterator() -> None:
    closed: list[bool] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    items = AsyncItems(run_sync, endless)
    assert await anext(items) == 1
    await items.aclose()
    assert closed == [True]
    with pytest.raises(StopAsyncIteration):
        await anext(items)


def test_closing_waits_for_a_read_that_a_cancelled_task_of_asyncio_left() -> None:
    goes_on, reads = threading.Event(), threading.Event()
    closed: list[bool] = []

    def slow() -> Iterator[int]:
        try:
            reads.set()
            goes_on.wait()
            yield 1
        finally:
            closed.append(True)

    async def main() -> None:
        items = AsyncItems(run_sync, slow)
        first = asyncio.ensure_future(anext(items))
        await run_sync(reads.wait)
        first.cancel()
        closing = asyncio.ensure_future(items.aclose())
        await asyncio.sleep(0.01)
        goes_on.set()
        await closing
        assert closed == [True]

    asyncio.run(main())
