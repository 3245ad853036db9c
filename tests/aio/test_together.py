"""Many tasks on one session, and many sessions in one loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import AsyncSession, Entry, SessionTreeError
from tests.support.conversation import assistant, in_memory, said, said_in, user
from tests.support.files import uuids_at
from tests.support.loops import LOOPS, Watched, in_each_loop, run_in
from tests.support.soak import amount, in_soak


@in_each_loop
async def test_two_sessions_are_told_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    async with AsyncSession.create(file) as one, AsyncSession.open(file) as other:
        theirs = await other.append_message(user("theirs"))
        assert await one.conflict is None
        mine = await one.append_message(user("mine"))
        assert await one.conflict == theirs
        await other.refresh()
        assert await other.conflict == mine
        await one.merge(theirs)
        assert await one.conflict is None


@in_each_loop
@in_soak("count", 25, 100)
async def test_many_sessions_at_once(tmp_path: Path, count: int) -> None:
    before = threading.active_count()

    async def converse(n: int) -> None:
        file = tmp_path / f"{n}.jsonl"
        async with AsyncSession.create(file, durability="os") as session:
            following = session.follow()
            for turn in range(5):
                entry = await session.append_message(user(f"{n}.{turn}"))
                assert await anext(following) == entry
            async with session.batch(), session.lane("other") as lane:
                await session.append_message(assistant("done"))
                await lane.append_message(user("lane"))

    async with anyio.create_task_group() as tasks:
        for n in range(count):
            tasks.start_soon(converse, n)
    for n in range(count):
        texts = [f"{n}.{turn}" for turn in range(5)]
        assert said_in(tmp_path / f"{n}.jsonl") == [*texts, "done"]
    with anyio.fail_after(30):
        while threading.active_count() > before + 10:  # anyio keeps some of its own
            await anyio.sleep(0.01)


async def talks(session: AsyncSession, kept: list[Entry]) -> None:
    kept.append(await session.append_message(user("p1")))
    async with session.batch():
        kept.append(await session.append_message(assistant("a1")))
        kept.append(await session.append_message(user("p2")))
    async with session.stream_message(granularity="block") as message:
        await message.start("text")
        await message.delta("a2")
        kept.append(await message.end())  # type: ignore[arg-type]
    await session.label(session.leaf, session.leaf.uuid[:4] + "-here")
    kept.append(await session.compact("in short", keep=0))
    await session.context()


@in_each_loop
async def test_another_task_writes_at_each_suspension_of_a_script(path: Path) -> None:
    at = 0
    while True:
        at += 1
        kept: list[Entry] = []
        now = anyio.Event()

        async def other(session: AsyncSession, now: anyio.Event, kept: list[Entry]) -> None:
            await now.wait()
            entry = await session.append("custom", customType="other")
            assert entry.uuid in uuids_at(path)
            kept.append(entry)

        async with AsyncSession.open(path, durability="os") as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(other, session, now, kept)
                script = Watched(talks(session, kept), at, now.set)
                await script
                now.set()
            assert len(kept) == 6
            written = uuids_at(path)
            assert {entry.uuid for entry in kept} <= set(written)
            assert {entry.uuid for entry in kept} <= {one.uuid for one in await session.path()}
            assert await session.verify() == []
        if script.count < at:
            break
    assert at > 10


@in_each_loop
async def test_tasks_append_below_what_the_session_saw_last(path: Path) -> None:
    async with AsyncSession.open(path, durability="os") as session:
        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(session.append_message, user(f"{n}"))
        texts = said(await session.context())
        assert sorted(texts[1:]) == sorted(map(str, range(50)))
        assert len(await session.branches()) == 1


Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "answer", "branch", "label", "compact", "push", "pop", "rewind"]),
        st.integers(0, 30),
    ),
    max_size=12,
)


def act(session: Any, entries: list[Entry], step: Step) -> Callable[[], Any]:
    """A step, as a call of a session of either kind."""
    name, n = step
    ref = entries[n % len(entries)].uuid
    calls: dict[str, Callable[[], Any]] = {
        "say": partial(session.append_message, user(f"p{n}")),
        "answer": partial(session.append_message, assistant(f"a{n}")),
        "branch": partial(session.branch, ref),
        "label": partial(session.label, ref, f"label{n}"),
        "compact": partial(session.compact, keep=n),
        "push": session.push,
        "pop": session.pop,
        "rewind": session.rewind,
    }
    return calls[name]


@contextmanager
def failing() -> Iterator[list[type]]:
    """The type of the error that the block is refused with, if it is."""
    failure: list[type] = []
    try:
        yield failure
    except SessionTreeError as error:
        failure.append(type(error))


def drawn(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [(row.type, row.depth, row.preview, row.label, row.current) for row in rows]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@pytest.mark.parametrize("loop", LOOPS)
@settings(deadline=None, max_examples=amount(40))
@given(steps=STEPS)
def test_any_steps_make_the_same_tree_as_in_a_session(loop: str, steps: list[Step]) -> None:
    with in_memory() as plain:
        outcomes = []
        for step in steps:
            with failing() as failure:
                act(plain, list(plain.entries()), step)()
            outcomes.append(list(failure))
        tree = drawn(list(plain.tree()))
        texts = said(plain.context())

    async def main() -> None:
        async with AsyncSession.create(cwd="/project") as session:
            for step, outcome in zip(steps, outcomes, strict=True):
                entries = [entry async for entry in session.entries()]
                with failing() as failure:
                    await act(session, entries, step)()
                assert failure == outcome
            assert drawn([row async for row in session.tree()]) == tree
            assert said(await session.context()) == texts

    run_in(loop, main)
