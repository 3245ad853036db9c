"""A call as an asynchronous stream: its order, and its end when the consumer goes."""

from __future__ import annotations

import os
import threading
from typing import Any

import anyio
import pytest

from sessiontree.calls.dispatcher import Data, Dispatcher, Done, Event, Progress
from sessiontree.calls.scope import Scope
from sessiontree.calls.stream import stream
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call
from tests.ops.test_dispatcher import Answer, Asked
from tests.support.loops import PATIENCE, in_each_loop


class Counting:
    """A namespace whose one method counts: to 3, or for ever until it is stopped."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.failing = False
        namespace = Namespace("count", "For tests.")

        @namespace.method("Count")
        def up(call: Call, given: Asked) -> Answer:
            """Count to 3, or for ever."""
            try:
                step = 0
                while step < 3 or given.what == "ever":
                    call.progress(f"{given.what} {step}")
                    step += 1
            finally:
                self.ended.set()
            return Answer(given.what)

        self.dispatcher = Dispatcher(Scope(os.devnull, agents=False), [namespace])


async def collected(dispatcher: Dispatcher, what: str) -> list[Event]:
    async with stream(dispatcher, "count.up", {"what": what}) as events:
        return [event async for event in events]


def messages(found: list[Event]) -> list[str]:
    return [event.message for event in found if isinstance(event, Progress)]


@in_each_loop
async def test_the_events_come_in_order_and_end_with_done() -> None:
    found = await collected(Counting().dispatcher, "a")
    assert messages(found) == ["a 0", "a 1", "a 2"]
    assert [type(event) for event in found[3:]] == [Data, Done]


@in_each_loop
async def test_two_calls_run_at_once() -> None:
    """Each waits until the other is there, too."""
    both = threading.Barrier(2, timeout=PATIENCE / 6)
    namespace = Namespace("meet", "For tests.")

    @namespace.method("Meet")
    def other(call: Call, given: Asked) -> Answer:
        """Wait for another call."""
        both.wait()
        return Answer(given.what)

    dispatcher = Dispatcher(Scope(os.devnull, agents=False), [namespace])
    found: dict[str, list[type[Event]]] = {}

    async def meet(what: str) -> None:
        async with stream(dispatcher, "meet.other", {"what": what}) as events:
            found[what] = [type(event) async for event in events]

    async with anyio.create_task_group() as group:
        group.start_soon(meet, "one")
        group.start_soon(meet, "two")
    assert found == {"one": [Data, Done], "two": [Data, Done]}


@in_each_loop
async def test_the_work_has_ended_when_a_consumer_that_breaks_off_goes_on() -> None:
    counting = Counting()
    async with stream(counting.dispatcher, "count.up", {"what": "ever"}) as events:
        async for _ in events:
            break
    assert counting.ended.is_set()


@in_each_loop
async def test_a_consumer_that_takes_nothing_leaves_without_an_error() -> None:
    for what in ("a", "ever"):
        counting = Counting()
        async with stream(counting.dispatcher, "count.up", {"what": what}):
            await anyio.to_thread.run_sync(lambda: None)
        assert counting.ended.wait(PATIENCE)


@in_each_loop
async def test_the_error_of_a_consumer_is_its_own() -> None:
    counting = Counting()

    async def fail() -> None:
        async with stream(counting.dispatcher, "count.up", {"what": "ever"}) as events:
            async for _ in events:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert counting.ended.is_set()


@in_each_loop
async def test_cancellation_stops_the_work() -> None:
    counting = Counting()
    with anyio.CancelScope() as scope:
        async with stream(counting.dispatcher, "count.up", {"what": "ever"}) as events:
            async for _ in events:
                scope.cancel()
    assert scope.cancelled_caught
    assert counting.ended.is_set()


@in_each_loop
async def test_cancellation_of_a_consumer_that_waits_elsewhere_stops_the_work() -> None:
    counting = Counting()
    with anyio.move_on_after(0.01) as scope:
        async with stream(counting.dispatcher, "count.up", {"what": "ever"}) as events:
            await anext(events)
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert counting.ended.is_set()


@in_each_loop
async def test_a_wrong_call_is_a_stream_too() -> None:
    found: list[Any] = await collected(Dispatcher(Scope(os.devnull, agents=False), []), "a")
    assert [event.provenance for event in found] == ["sessiontree"] * 3
    assert isinstance(found[-1], Done)
