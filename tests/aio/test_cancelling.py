"""A cancelled call is done or not done, never in half, and the next call knows which.

Each script is cancelled at its first suspension, then at its second, and so on to its last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from sessiontree import AsyncSession, Entry, Session
from tests.support.conversation import said, user
from tests.support.loops import PATIENCE, Watched, in_each_loop
from tests.support.table import for_each

Script = Callable[[AsyncSession, list[str]], Awaitable[None]]


async def appends(session: AsyncSession, kept: list[str]) -> None:
    for n in range(3):
        entry = await session.append_message(user(f"{n}"))
        kept.append(entry.uuid)


async def batches(session: AsyncSession, kept: list[str]) -> None:
    for n in range(2):
        made: list[str] = []
        try:
            async with session.batch():
                made.append((await session.append_message(user(f"{n}a"))).uuid)
                await anyio.sleep(0)
                made.append((await session.append_message(user(f"{n}b"))).uuid)
        finally:
            kept += made


async def streams(session: AsyncSession, kept: list[str]) -> None:
    async with session.stream_message(granularity="block") as message:
        for _ in range(2):
            await message.start("text")
            await message.delta("words")
            entry = await message.stop()
            assert entry is not None
            kept.append(entry.uuid)


async def lanes(session: AsyncSession, kept: list[str]) -> None:
    async with session.lane("other", at=session.header) as lane:
        kept.append((await lane.append_message(user("lane"))).uuid)
        await session.append_message(user("main"))


async def summarizes(session: AsyncSession, kept: list[str]) -> None:
    async def summary(_: object) -> str:
        await anyio.sleep(0)
        kept.append((await session.append("custom", customType="asked")).uuid)
        await anyio.sleep(0)
        return "in short"

    kept.append((await session.compact(summary, keep=0)).uuid)


class Pausing:
    """A hook that may be cancelled as well."""

    async def before_append(self, session: AsyncSession, entry: Entry) -> None:
        await anyio.sleep(0)

    async def after_append(self, session: AsyncSession, entry: Entry) -> None:
        await anyio.sleep(0)


SCRIPTS = [appends, batches, streams, lanes, summarizes]


async def check_after(session: AsyncSession, path: Path, kept: list[str]) -> None:
    """What was acknowledged is there, the next call works, and the file is sound."""
    before = [entry.uuid async for entry in session.entries()]
    assert set(kept) <= set(before)
    leaf = session.leaf
    entry = await session.append_message(user("next"))
    assert entry.parent_uuid == leaf.uuid
    async with session.batch():
        await session.append_message(user("last"))
    with Session.open(path, readonly=True) as plain:
        found = [one.uuid for one in plain.entries()]
        assert plain.verify() == []
        assert found == [*before, entry.uuid, session.leaf.uuid]
        assert said(plain.context())[-2:] == ["next", "last"]


@pytest.mark.parametrize("hooks", [[], [Pausing()]], ids=["", "hooks"])
@pytest.mark.parametrize("script", SCRIPTS)
@in_each_loop
async def test_a_scope_cancelled_at_any_suspension(
    path: Path, script: Script, hooks: list[Pausing]
) -> None:
    at = 0
    is_over = False
    while not is_over:
        at += 1
        kept: list[str] = []
        async with AsyncSession.open(path, durability="os", hooks=hooks) as session:
            with anyio.CancelScope() as scope:
                await Watched(script(session, kept), at, scope.cancel)
                is_over = not scope.cancel_called
            await check_after(session, path, kept)
    assert at > 3


@for_each("hooks", [[], [Pausing()]])
@for_each("script", SCRIPTS)
def test_a_task_of_asyncio_cancelled_at_any_suspension(
    path: Path, script: Script, hooks: list[Pausing]
) -> None:
    async def cancelled(at: int) -> bool:
        kept: list[str] = []
        async with AsyncSession.open(path, durability="os", hooks=hooks) as session:
            work = asyncio.ensure_future(Watched(script(session, kept), at, lambda: work.cancel()))
            done = await asyncio.wait([work], timeout=PATIENCE)
            assert done[0]
            await check_after(session, path, kept)
        return work.cancelled()

    async def main() -> int:
        at = 1
        while await cancelled(at):
            at += 1
        return at

    assert asyncio.run(main()) > 3


@in_each_loop
async def test_opening_cancelled_at_any_suspension_leaves_no_lock(path: Path) -> None:
    at = 0
    is_over = False
    while not is_over:
        at += 1
        with anyio.CancelScope() as scope:
            session = await Watched(AsyncSession.open(path, exclusive=True), at, scope.cancel)
            is_over = True
            await session.close()
        async with AsyncSession.open(path) as again:
            while True:
                try:
                    await again.append_message(user("p"))
                    break
                except OSError:  # the thread of the session has yet to close it
                    await anyio.sleep(0.01)
    assert at > 1


@in_each_loop
async def test_a_call_that_is_cancelled_before_it_starts_never_runs(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.append_message(user("never"))
        await session.append_message(user("p"))
        assert said(await session.context()) == ["hello", "p"]


@in_each_loop
async def test_a_call_waiting_for_others_is_taken_back(path: Path) -> None:
    async with AsyncSession.open(path) as one, AsyncSession.open(path) as two:

        async def waits(scope: anyio.CancelScope, text: str) -> None:
            with scope:
                await two.append_message(user(text))

        first, second = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks, one.batch():
            tasks.start_soon(waits, first, "first")
            await anyio.sleep(0.05)  # it waits for the file's lock, in its thread
            tasks.start_soon(waits, second, "second")
            await anyio.sleep(0.05)
            second.cancel()
            first.cancel()
            await anyio.sleep(0.05)
        assert [entry.type for entry in await two.path()][-1] == "message"
        assert "second" not in said(await two.context())


@in_each_loop
async def test_closing_goes_on_in_a_cancelled_scope(path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with AsyncSession.open(path, exclusive=True) as session:
            await session.append_message(user("p"))
            scope.cancel()
            await anyio.sleep_forever()
    with Session.open(path, exclusive=True) as plain:
        assert said(plain.context()) == ["hello", "p"]
