"""Whatever ends a session: the file has what was acknowledged, the lock is free, nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from sessiontree import AsyncSession, ReadOnlyError, Session
from sessiontree.aio.worker import ShutdownDeadline
from tests.support.children import PATIENCE, read_rest, running, tell
from tests.support.conversation import said, user
from tests.support.files import uuids_at
from tests.support.loops import LOOPS, in_each_loop, run_in
from tests.support.table import for_each


def acknowledged(script: str, *arguments: object, warnings: str = "error") -> list[str]:
    """What a Python program printed, which must end by itself and without complaint."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


LEFT = """
import sys, threading, anyio
from sessiontree import AsyncSession, Session

async def hold(session):
    async with session.batch():
        print((await session.append_message({"role": "user", "content": "p"})).uuid, flush=True)
        await anyio.sleep_forever()

async def main():
    global session, following
    session = await AsyncSession.open(sys.argv[1], exclusive=True)
    following = session.follow()
    print((await session.append_message({"role": "user", "content": "p"})).uuid, flush=True)
    await anext(following)
    how = sys.argv[3]
    if how == "in a follow":
        with anyio.move_on_after(0.2):
            await anext(following)
    if how == "in a batch":
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold, session)
            await session.append_message({"role": "user", "content": "q"})
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()

anyio.run(main, backend=sys.argv[2])
Session.open(sys.argv[1], exclusive=True).close()  # while `session` is still held
"""


@pytest.mark.slow
@for_each("how", ["at once", "in a follow", "in a batch"])
@for_each("loop", LOOPS)
def test_a_program_that_leaves_without_closing(path: Path, loop: str, how: str) -> None:
    kept = acknowledged(LEFT, path, loop, how)
    assert kept
    assert set(kept) <= set(uuids_at(path))


FORGOTTEN = """
import asyncio, sys
from sessiontree import AsyncSession

async def main():
    global session, following
    session = await AsyncSession.open(sys.argv[1], exclusive=True)
    following = session.follow()
    print((await session.append_message({"role": "user", "content": "p"})).uuid, flush=True)
    await anext(following)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
if sys.argv[2] == "closed":
    loop.close()
"""


@pytest.mark.slow
@for_each("loop", ["closed", "left"])
def test_a_program_that_ends_its_loop_by_hand_or_not_at_all(path: Path, loop: str) -> None:
    kept = acknowledged(FORGOTTEN, path, loop, warnings="ignore")
    assert set(kept) <= set(uuids_at(path))
    Session.open(path, exclusive=True).close()


KILLED = """
import sys, anyio
from sessiontree import AsyncSession

async def say(session):
    for n in range(10000):
        if n % 7 == 3:
            made = []
            async with session.batch():
                for _ in range(3):
                    entry = await session.append_message({"role": "user", "content": "b"})
                    made.append(entry.uuid)
            sys.stdout.write("".join(uuid + "\\n" for uuid in made))
        else:
            entry = await session.append_message({"role": "user", "content": str(n)})
            sys.stdout.write(entry.uuid + "\\n")
        sys.stdout.flush()

async def main():
    async with AsyncSession.open(sys.argv[1], durability="os") as session:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(say, session)

sys.stdin.readline()
anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.slow
@for_each("loop", LOOPS)
@for_each("after", [1, 20, 300])
def test_a_killed_process_loses_nothing_that_was_acknowledged(
    path: Path, loop: str, after: int
) -> None:
    with running(KILLED, path, loop) as child:
        tell(child)
        assert child.stdout is not None
        kept = [child.stdout.readline().strip() for _ in range(after)]
        child.send_signal(signal.SIGKILL)
        kept += read_rest(child)
    assert len(kept) >= after
    assert set(kept) <= set(uuids_at(path))


@for_each("loop", LOOPS)
def test_the_end_of_the_loop_closes_a_session_that_is_still_held(path: Path, loop: str) -> None:
    held: list[AsyncSession] = []
    before = threading.active_count()

    async def main() -> None:
        held.append(await AsyncSession.open(path, exclusive=True))
        await held[0].append_message(user("p"))

    run_in(loop, main)
    assert threading.active_count() == before
    with Session.open(path, exclusive=True) as plain:
        assert said(plain.context()) == ["hello", "p"]

    async def again() -> None:
        with pytest.raises(ReadOnlyError, match="open the session again"):
            await held[0].append_message(user("q"))

    run_in(loop, again)


FORKED = """
import asyncio, os, sys, anyio
from sessiontree import AsyncSession, UsageError

async def use(session):
    with anyio.fail_after(5):
        await session.append_message({"role": "user", "content": "q"})

async def main():
    async with AsyncSession.open(sys.argv[1]) as session:
        await session.append_message({"role": "user", "content": "p"})
        child = os.fork()
        if not child:
            try:
                asyncio.run(use(session))
            except UsageError:
                print("refused", flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

anyio.run(main)
"""


def test_a_forked_process_is_told_to_open_a_session_of_its_own(path: Path) -> None:
    assert acknowledged(FORKED, path, warnings="ignore") == ["refused"]
    with Session.open(path, readonly=True) as plain:
        assert said(plain.context()) == ["hello", "p"]


async def until_threads_are(number: int) -> None:
    with anyio.fail_after(PATIENCE):
        while threading.active_count() > number:
            await anyio.sleep(0.001)


def test_a_session_that_ends_before_its_loop_takes_no_time_from_the_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ShutdownDeadline] = []

    def seconds(patience: ShutdownDeadline) -> float:
        asked.append(patience)
        return PATIENCE

    monkeypatch.setattr(ShutdownDeadline, "seconds", seconds)

    async def main() -> AsyncSession:
        for _ in range(3):
            before = threading.active_count()
            async with AsyncSession.open(path) as session:
                await session.append_message(user("p"))
            await until_threads_are(before)
        return await AsyncSession.open(path, exclusive=True)

    assert asyncio.run(main())
    assert len(asked) <= 1
    Session.open(path, exclusive=True).close()


@in_each_loop
async def test_a_session_that_nobody_holds_is_closed(path: Path) -> None:
    before = threading.active_count()
    session = await AsyncSession.open(path, exclusive=True)
    await session.append_message(user("p"))
    del session
    gc.collect()
    await until_threads_are(before)
    Session.open(path, exclusive=True).close()


def test_a_loop_of_another_thread_is_no_part_of_it(path: Path) -> None:
    """Two loops, each with a session of its own, in two threads."""

    def work(n: int) -> None:
        async def main() -> None:
            async with AsyncSession.open(path) as session:
                for _ in range(10):
                    await session.append_message(user(f"{n}"))

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    with Session.open(path, readonly=True) as plain:
        assert len(list(plain.entries())) == 22
        assert plain.verify() == []
