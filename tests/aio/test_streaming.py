"""A message that is written while it arrives, by the words of a plain stream, awaited."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sessiontree import (
    AsyncSession,
    AsyncStreamAccumulator,
    EntryError,
    MessageStream,
    StreamAccumulator,
    UsageError,
)
from sessiontree.aio.iteration import AsyncMessageStream
from tests.aio.test_words import words
from tests.support.conversation import said
from tests.support.files import uuids_at
from tests.support.loops import in_each_loop


def test_every_word_is_there() -> None:
    assert words(MessageStream) <= words(AsyncMessageStream)


@in_each_loop
async def test_each_finished_block_is_kept(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        async with session.stream_message(model="m1", granularity="block") as message:
            await message.start("text")
            await message.delta("In ")
            await message.delta("Rust.")
            entry = await message.stop()
            assert entry is not None
            assert entry.uuid in uuids_at(path)
            await message.add({"type": "tool_use", "id": "t1", "name": "Read", "input": {}})
            await message.end(stopReason="tool_use")
            with pytest.raises(UsageError, match="has ended"):
                await message.delta("more")
        assert [one.type for one in message.entries] == ["block", "block", "message_end"]
        assert message.blocks[0]["text"] == "In Rust."
        context = await session.context(verbatim=True)
        assert context.messages[-1]["stopReason"] == "tool_use"


@in_each_loop
async def test_a_refused_block_is_an_error_and_the_message_goes_on(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        async with session.stream_message(granularity="block") as message:
            for _ in range(2):
                with pytest.raises(EntryError):
                    await message.add({"type": "text", "text": float("nan")})
            await message.start("text")
            await message.delta("on")
            await message.stop()
        assert said(await session.context())[-1] == "on"


@in_each_loop
async def test_what_arrived_before_a_cancellation_is_kept_and_marked(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        with anyio.CancelScope() as scope:
            async with session.stream_message() as message:
                await message.start("text")
                await message.delta("In Ru")
                scope.cancel()
                await anyio.sleep_forever()
        context = await session.context(verbatim=True)
        assert context.messages[-1]["stopReason"] == "aborted"
        assert said(context)[-1] == "In Ru"


LINES = [
    b'{"type": "system", "subtype": "init", "uuid": "a-0", "session_id": "s", "cwd": "/p"}\n',
    b'{"type": "assistant", "uuid": "a-1", "session_id": "s", "message": {"id": "m1",',
    b' "role": "assistant", "content": [{"type": "text", "text": "In Rust."}]}}\n',
    b'{"type": "assistant", "uuid": "a-2", "session_id": "s", "parent_tool_use_id": "t1",',
    b' "message": {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "S"}]}}\n',
]


@in_each_loop
async def test_a_running_agent_is_recorded(path: Path) -> None:
    assert words(StreamAccumulator) <= words(AsyncStreamAccumulator)
    async with AsyncSession.open(path) as session:
        with anyio.CancelScope() as scope:
            async with AsyncStreamAccumulator(session, prompt="Build a CLI") as recording:
                events = [event for line in LINES for event in await recording.feed(line)]
                assert recording.recognized == 3
                assert (await recording.head).type == "block"
                scope.cancel()
                await anyio.sleep_forever()
        assert events
        assert said(await session.context()) == ["hello", "Build a CLI", "In Rust."]
        async with session.lane("agent-t1") as lane:
            assert said(await lane.context()) == ["S"]
