"""Tasks of one event loop, and the threads that they start, on one session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Entry, Session, UsageError
from tests.support.conversation import in_memory, said, user
from tests.support.files import uuids_at
from tests.support.table import for_each

SECONDS = 60


def run(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, SECONDS))  # type: ignore[arg-type]


@for_each("memory", [False, True])
def test_what_another_task_appends_during_a_batch_is_kept_when_it_returns(
    path: Path, memory: bool
) -> None:
    async def both(session: Session) -> None:
        waits, goes_on = asyncio.Event(), asyncio.Event()

        async def batching() -> None:
            with session.batch():
                session.append_message(user("p1"))
                waits.set()
                await goes_on.wait()
                session.append_message(user("p3"))

        task = asyncio.create_task(batching())
        await waits.wait()
        entry = session.append_message(user("p2"))
        label = session.label(entry, "here")
        if not memory:  # and so is what waits in the batch, which comes before it
            assert [one for one in uuids_at(path) if one in (entry.uuid, label.uuid)]
            with Session.open(path, readonly=True) as other:
                assert said(other.context())[-2:] == ["p1", "p2"]
        goes_on.set()
        await task

    with in_memory() if memory else Session.open(path) as session:
        run(both(session))
        assert said(session.context())[-3:] == ["p1", "p2", "p3"]
        assert session.damage == []


def test_a_task_that_a_batch_starts_is_not_part_of_the_batch(path: Path) -> None:
    async def work(session: Session) -> None:
        async def append() -> Entry:
            entry = session.append_message(user("p"))
            assert entry.uuid in uuids_at(path)
            return entry

        with session.batch():
            first = session.append_message(user("first"))
            assert first.uuid not in uuids_at(path)
            await asyncio.gather(append(), append())
            last = session.append_message(user("last"))
            assert last.uuid not in uuids_at(path)
        assert last.uuid in uuids_at(path)

    with Session.open(path) as session:
        run(work(session))


def test_a_callback_of_the_loop_is_not_part_of_a_batch(path: Path) -> None:
    async def work(session: Session) -> None:
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        with session.batch():
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: done.set_result(session.append_message(user("p"))))
            assert (await done).uuid in uuids_at(path)

    with Session.open(path) as session:
        run(work(session))


def test_a_second_task_cannot_open_a_batch_and_is_told_why(path: Path) -> None:
    async def work(session: Session) -> None:
        async def second() -> None:
            with pytest.raises(UsageError, match="another task"), session.batch():
                pass

        with session.batch():
            await asyncio.create_task(second())
            session.append_message(user("p"))

    with Session.open(path) as session:
        run(work(session))


@for_each("memory", [False, True])
@for_each("block", ["batch", "locked"])
@for_each("act", ["append", "read"])
def test_a_thread_that_a_block_waits_for_is_refused(
    path: Path, memory: bool, block: str, act: str
) -> None:
    def in_thread(session: Session) -> object:
        return session.append_message(user("p")) if act == "append" else session.context()

    async def work(session: Session) -> None:
        with getattr(session, block)():
            with pytest.raises(UsageError, match="started inside a batch or a locked block"):
                await asyncio.to_thread(in_thread, session)
            session.append_message(user("own"))
        await asyncio.to_thread(in_thread, session)

    with in_memory() if memory else Session.open(path) as session:
        run(work(session))
        assert said(session.context())[-1] == ("p" if act == "append" else "own")


def test_a_thread_started_in_an_earlier_block_may_write(path: Path) -> None:
    async def work(session: Session) -> None:
        with session.batch():
            goes_on = asyncio.Event()

            async def later() -> None:
                await goes_on.wait()
                await asyncio.to_thread(session.append_message, user("p"))

            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        goes_on.set()
        await task

    with Session.open(path) as session:
        run(work(session))
        assert said(session.context())[-1] == "p"


ABANDONED = """
import asyncio, sys
from sessiontree import Session

async def main():
    session = Session.open(sys.argv[1], readonly=True)
    following = session.follow()
    try:
        await asyncio.wait_for(asyncio.to_thread(next, following, None), 0.2)
    except TimeoutError:
        print("given up", flush=True)

asyncio.run(main())
"""


def test_a_process_ends_after_it_gave_up_following(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED, path],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "given up\n"), done.stderr
