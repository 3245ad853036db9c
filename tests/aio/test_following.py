"""`follow` gives each new entry once, in order, and ends when it is closed or its session is."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest

from sessiontree import AsyncSession, Entry, FileReplacedError, Session, UsageError
from tests.support.conversation import user
from tests.support.loops import in_each_loop


@in_each_loop
async def test_each_new_entry_is_given_once_whoever_writes_it(path: Path) -> None:
    async with AsyncSession.open(path) as session, AsyncSession.open(path) as other:
        following = session.follow()
        written = [await one.append_message(user("p")) for one in (session, other) * 20]
        async with other.batch():  # more than wait to be asked for
            written += [await other.append_message(user("b")) for _ in range(400)]
        assert [await anext(following) for _ in written] == written
        await following.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(following)


@in_each_loop
async def test_waiting_that_is_cancelled_loses_no_entry(path: Path) -> None:
    async with AsyncSession.open(path) as session, session.follow() as following:
        for n in range(5):
            with anyio.move_on_after(0 if n % 2 else 0.02):
                await anext(following)
            written = await session.append_message(user("p"))
            assert await anext(following) == written


@in_each_loop
async def test_following_ends_with_its_session(path: Path) -> None:
    session = await AsyncSession.open(path)
    found: list[Entry] = []

    async def follow() -> None:
        async for entry in session.follow():
            found.append(entry)
            waits.set()

    async with anyio.create_task_group() as tasks:
        waits = anyio.Event()
        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        written = await session.append_message(user("p"))
        await waits.wait()
        await session.close()
    assert found == [written]


@in_each_loop
async def test_abandoned_followers_leave_no_thread(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        await session.append_message(user("p"))
        before = threading.active_count()
        for _ in range(20):
            following = session.follow()
            written = await session.append_message(user("p"))
            async for entry in following:
                assert entry == written
                break
            with anyio.move_on_after(0.001):
                await anext(following)
        del following
        with anyio.fail_after(30):
            while threading.active_count() > before:
                await anyio.sleep(0.01)


@in_each_loop
async def test_what_cannot_be_followed_is_refused(path: Path) -> None:
    async with AsyncSession.create() as session:
        with pytest.raises(UsageError, match="in memory"):
            await anext(session.follow())
    async with AsyncSession.open(path, readonly=True) as session:
        following = session.follow()
        with Session.open(path) as other:
            written = other.append_message(user("p"))
        assert await anext(following) == written
        path.write_bytes(b"{}\n" * 100)
        with pytest.raises(FileReplacedError):
            await anext(following)


def test_an_event_ends_a_plain_follow(path: Path) -> None:
    stop = threading.Event()
    with Session.open(path) as session:
        entries = session.follow(stop=stop)
        written = session.append_message(user("p"))
        assert next(entries) == written
        stop.set()
        assert next(entries, None) is None
        session.append_message(user("p"))
