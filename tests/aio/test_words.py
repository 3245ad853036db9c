"""An AsyncSession has the words of a Session, and an AsyncStore those of a Store."""

from __future__ import annotations

import gc
import inspect
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiontree import (
    AsyncSession,
    AsyncStore,
    Entry,
    ReadOnlyError,
    RefError,
    Session,
    SessionExistsError,
    SessionNotFoundError,
    Store,
    UsageError,
)
from tests.support.conversation import assistant, said, user
from tests.support.files import uuids_at
from tests.support.loops import in_each_loop

BY_RUN = {"blobs", "handles"}
"""What has no awaited form: `AsyncSession.run` reaches it."""


def words(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_word_is_there() -> None:
    for plain, other in ((Session, AsyncSession), (Store, AsyncStore)):
        assert words(plain) - words(other) == (BY_RUN if plain is Session else set())
        assert words(other) - words(plain) <= {"run"}


def test_the_arguments_are_the_same() -> None:
    for plain, other in ((Session, AsyncSession), (Store, AsyncStore)):
        for name in words(plain) & words(other) - {"follow"}:
            if callable(getattr(plain, name)):
                given = [
                    inspect.signature(getattr(kind, name)).parameters for kind in (plain, other)
                ]
                assert list(given[0].values()) == list(given[1].values()), name


READING = (
    *("header", "id", "lane_name", "leaf", "name", "metadata", "damage", "notes", "file"),
    *("entries", "path", "context", "turns", "branches", "tree", "outline", "labels"),
    *("render", "conversation", "stats", "resolved_path", "resolved_tree", "verify", "conflict"),
    *("to_markdown", "compaction_plan"),
)


@in_each_loop
async def test_each_word_that_reads_says_what_it_says_of_a_session(file: Path) -> None:
    with Session.create(file, cwd="/project") as session:
        prompt = session.append_message(user("p1"))
        session.append_message(assistant("a1"))
        session.label(prompt, "here")
        session.branch("here", summary="left")
        session.append_message(user("p2"))
    async with AsyncSession.open(file, readonly=True) as other:
        with Session.open(file, readonly=True) as plain:
            for name in READING:
                expected, found = getattr(plain, name), getattr(other, name)
                expected = expected() if callable(expected) else expected
                found = found() if callable(found) else found
                if inspect.iscoroutine(found):
                    found = await found
                if hasattr(found, "__aiter__"):
                    found = [each async for each in found]
                assert plain_form(found) == plain_form(expected), name


def plain_form(value: Any) -> Any:
    """A value that can be compared: contexts and entries by what they hold."""
    if isinstance(value, str | dict | Entry) or value is None:
        return value
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return [repr(each) for each in value] if hasattr(value, "__iter__") else repr(value)


@in_each_loop
async def test_what_is_written_is_read_back(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        prompt = await session.append_message(user("p1"))
        await session.append_message(assistant("a1"))
        await session.label(prompt, "here")
        await session.rename("A name")
        await session.update_metadata(owner="ann")
        await session.branch("here")
        answer = await session.append_message(assistant("a2"))
        assert session.leaf == answer
        assert await session.name == "A name"
        assert await session.metadata == {"owner": "ann"}
        assert await session.damage == []
        assert said(await session.context()) == ["hello", "p1", "a2"]
        assert [len(turn) for turn in await session.turns()] == [1, 2]
        assert (await session.stats()).branches == 2
        assert (session.file, session.lane_name) == (str(path), "main")


@in_each_loop
async def test_many_entries_are_yielded_in_order_also_after_a_cancelled_wait() -> None:
    async with AsyncSession.create() as session:
        async with session.batch():
            made = [await session.append_message(user(f"{n}")) for n in range(600)]
        entries = session.entries()
        found: list[Entry] = [await anext(entries)]
        cancelled = 0
        while len(found) <= len(made):
            with anyio.CancelScope() as scope:
                if len(found) == cancelled * 64 + 1:  # also where the next piece is to be read
                    cancelled += 1
                    scope.cancel()
                found.append(await anext(entries))
        assert cancelled == 10
        assert found[1:] == made
        with pytest.raises(StopAsyncIteration):
            await anext(entries)


@in_each_loop
async def test_a_session_is_awaited_or_entered(file: Path) -> None:
    session = await AsyncSession.create(file, cwd="/project")
    entry = await session.append_message(user("p"))
    await session.close()
    await session.close()
    async with AsyncSession.open(file, readonly=True) as again:
        assert again.leaf == entry
        with pytest.raises(ReadOnlyError, match="opened to read"):
            await again.append_message(user("p"))
    for closed in (session, again):
        with pytest.raises(ReadOnlyError, match="is closed; open the session again"):
            await closed.append_message(user("p"))


@in_each_loop
async def test_what_cannot_be_opened_leaves_no_thread(file: Path, path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(SessionNotFoundError):
        await AsyncSession.open(file.with_name("nothing"))
    with pytest.raises(SessionExistsError):
        async with AsyncSession.create(path):
            pass
    with anyio.fail_after(10):
        while threading.active_count() > before:
            await anyio.sleep(0.001)


@in_each_loop
async def test_lanes_write_in_the_thread_of_their_session_also_inside_its_batch(
    path: Path,
) -> None:
    async with AsyncSession.open(path) as session:
        await session.append_message(user("p"))
        async with session.lane("explorer") as lane, session.batch():
            mine = await session.append_message(user("mine"))
            theirs = await lane.append_message(user("theirs"))
            assert theirs.uuid in uuids_at(path)
            threads = {await one.run(lambda _: threading.get_ident()) for one in (session, lane)}
            assert len(threads) == 1
        async with session.scratch() as trial:
            await trial.append_message(assistant("tried"))
            await trial.keep()
        assert said(await session.context()) == ["hello", "p", "mine", "tried"]
        assert lane.lane_name == "explorer"
        assert mine.uuid in uuids_at(path)


@in_each_loop
async def test_a_lane_goes_on_after_its_session_was_closed(path: Path) -> None:
    session = await AsyncSession.open(path)
    lane = await session.lane("explorer")
    await session.close()
    entry = await lane.append_message(user("p"))
    await lane.close()
    assert uuids_at(path)[-1] == entry.uuid


@in_each_loop
async def test_a_function_runs_in_the_thread_of_the_session(path: Path) -> None:
    async with AsyncSession.open(path) as session:

        def store(plain: Session, content: bytes) -> tuple[str, int]:
            return plain.blobs.put(content)

        assert (await session.run(store, b"four"))[1] == 4


@in_each_loop
async def test_a_store_opens_lists_and_finds(tmp_path: Path) -> None:
    store = AsyncStore(tmp_path)
    async with store.create(cwd="/project", name="A name") as session:
        await session.append_message(user("needle"))
        file = session.file
    assert [one.file for one in await store.list()] == [file]
    assert [one.file async for one in store.iter_sessions()] == [file]
    assert [hit.file async for hit in store.search("needle")] == [file]
    async with store.open("A name") as again:
        assert said(await again.context()) == ["needle"]
    latest = await store.latest()
    assert latest is not None
    assert latest.file == (await store.find("latest")).file == file
    trashed = await store.trash("A name")
    assert [one.file for one in await store.trashed()] == [trashed]
    assert await store.restore("A name") == file
    assert store.project_dir("/project") == Store(tmp_path).project_dir("/project")
    with pytest.raises(RefError):
        await store.open("nothing")


@in_each_loop
async def test_what_is_meant_for_the_other_class_says_so(path: Path) -> None:
    with pytest.raises(UsageError, match="use AsyncSession"):
        async with Session.open(path):
            pass
    with Session.open(path) as plain, pytest.raises(UsageError, match="use AsyncSession"):
        await plain.append_message(user("p"))
    with pytest.raises(UsageError, match="'async with'"), AsyncSession.open(path):
        pass
    async with AsyncSession.open(path) as session:
        with pytest.raises(UsageError, match="'async with'"), session:
            pass


@in_each_loop
async def test_a_context_reads_nothing_after_it_was_returned(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        await session.set_model("anthropic", "m1")
        context = await session.context()
        entered, read = anyio.Event(), anyio.Event()

        async def batching() -> None:
            async with session.batch():
                entered.set()
                await read.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batching)
            await entered.wait()  # the thread of the session holds its lock now
            assert context.model == {"provider": "anthropic", "modelId": "m1"}
            assert context.to_anthropic().params["messages"]
            read.set()


@in_each_loop
async def test_what_a_session_yields_keeps_the_session_open(path: Path) -> None:
    entries = (await AsyncSession.open(path)).entries()
    following = (await AsyncSession.open(path)).follow()
    message = (await AsyncSession.open(path)).stream_message()
    gc.collect()
    assert len([entry async for entry in entries]) == 2
    async with message:
        await message.add({"type": "text", "text": "In Rust."})
    assert [await anext(following)] == message.entries
