"""A batch of an AsyncSession belongs to the task that entered it; no two overlap."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import anyio
import pytest

from sessiontree import AsyncSession, Session, UsageError
from tests.support.conversation import said, user
from tests.support.files import uuids_at
from tests.support.loops import in_each_loop


@in_each_loop
async def test_what_another_task_appends_during_a_batch_is_kept_when_it_returns(
    path: Path,
) -> None:
    async with AsyncSession.open(path) as session:
        waits, goes_on = anyio.Event(), anyio.Event()

        async def batching() -> None:
            async with session.batch():
                first = await session.append_message(user("p1"))
                assert first.uuid not in uuids_at(path)
                waits.set()
                await goes_on.wait()
                last = await session.append_message(user("p3"))
                assert last.uuid not in uuids_at(path)
            assert last.uuid in uuids_at(path)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batching)
            await waits.wait()
            entry = await session.append_message(user("p2"))
            assert entry.uuid == uuids_at(path)[-1]
            goes_on.set()
        assert said(await session.context()) == ["hello", "p1", "p2", "p3"]


@in_each_loop
async def test_a_block_that_was_left_is_forgotten(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        block = session.batch()
        left = weakref.ref(block)
        async with block:
            pass
        del block
        gc.collect()
        assert left() is None


@in_each_loop
async def test_batches_of_two_tasks_come_one_after_the_other(path: Path) -> None:
    async with AsyncSession.open(path) as session, session.lane("other") as lane:
        texts: list[str] = []

        async def batching(one: AsyncSession, name: str) -> None:
            async with one.batch():
                for n in range(3):
                    await one.append_message(user(f"{name}{n}"))
                    texts.append(name)
                    await anyio.sleep(0)

        async with anyio.create_task_group() as tasks:
            for one, name in ((session, "a"), (lane, "b"), (session, "c")):
                tasks.start_soon(batching, one, name)
        assert sorted(texts[::3]) == ["a", "b", "c"]
        assert texts == [name for name in texts[::3] for _ in range(3)]
    with Session.open(path, exclusive=True) as plain:  # the lock is free
        assert plain.verify() == []


@in_each_loop
async def test_a_batch_in_a_batch_of_the_same_task_is_refused(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        async with session.batch():
            with pytest.raises(UsageError, match="a batch is open already"):
                async with session.batch():
                    pass
            await session.append_message(user("p"))
        async with session.batch():
            await session.append_message(user("q"))
        assert said(await session.context()) == ["hello", "p", "q"]


@in_each_loop
async def test_a_task_that_a_batch_waits_for_is_refused_a_batch_and_may_append(
    path: Path,
) -> None:
    async with AsyncSession.open(path) as session:

        async def child() -> None:
            with pytest.raises(UsageError, match="started inside a batch"):
                async with session.batch():
                    pass
            await session.append_message(user("child"))

        async with session.batch(), anyio.create_task_group() as tasks:
            tasks.start_soon(child)
        assert said(await session.context()) == ["hello", "child"]


@in_each_loop
async def test_what_was_appended_is_written_when_a_batch_is_cancelled_or_fails(
    path: Path,
) -> None:
    async with AsyncSession.open(path) as session:
        with anyio.CancelScope() as scope:
            async with session.batch():
                one = await session.append_message(user("one"))
                scope.cancel()
                await anyio.sleep_forever()
        with pytest.raises(KeyError):
            await failing(session)
        two = session.leaf
        assert uuids_at(path)[-2:] == [one.uuid, two.uuid]


async def failing(session: AsyncSession) -> None:
    async with session.batch():
        await session.append_message(user("two"))
        raise KeyError


@in_each_loop
async def test_a_locked_block_begins_at_the_newest_leaf(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        with Session.open(path) as other:
            newest = other.append_message(user("newest"))
        async with session.locked():
            assert session.leaf == newest
            entry = await session.append_message(user("p"))
        assert entry.parent_uuid == newest.uuid


@in_each_loop
async def test_a_batch_on_a_second_session_of_the_file_leaves_the_loop_free(path: Path) -> None:
    async with AsyncSession.open(path) as one, AsyncSession.open(path) as two:
        order: list[str] = []

        async def second() -> None:
            await two.append_message(user("two"))
            order.append("two")

        async with anyio.create_task_group() as tasks, one.batch():
            tasks.start_soon(second)
            for _ in range(20):
                await one.append_message(user("one"))
                await anyio.sleep(0)
            order.append("one")
        assert order == ["one", "two"]
