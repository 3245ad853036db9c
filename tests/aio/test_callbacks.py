"""Hooks, summarizers and resolvers may be coroutine functions in an AsyncSession."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from sessiontree import (
    AsyncSession,
    AsyncStore,
    Entry,
    Handle,
    HandleSchema,
    HookDepthError,
    HookRejectedError,
    MetaField,
    Registry,
    Session,
    UsageError,
)
from sessiontree.engine.writer import current_task
from tests.support.conversation import in_memory, said, user
from tests.support.files import uuids_at
from tests.support.loops import in_each_loop


class Noting:
    """A hook that notes each message in an entry of its own."""

    async def after_append(self, session: AsyncSession, entry: Entry) -> None:
        if entry.type == "message":
            await checkpoint()
            await session.append("custom", customType="noted", data=entry.uuid)


class Refusing:
    async def before_append(self, session: AsyncSession, entry: Entry) -> None:
        await checkpoint()
        if "secret" in str(entry.body):
            raise HookRejectedError("that is a secret")


@in_each_loop
async def test_a_hook_writes_on_the_session(path: Path) -> None:
    async with AsyncSession.open(path, hooks=[Noting(), Refusing()]) as session:
        entry = await session.append_message(user("p"))
        assert session.leaf["data"] == entry.uuid
        with pytest.raises(HookRejectedError):
            await session.append_message(user("secret"))
        async with session.batch():
            inside = await session.append_message(user("q"))
            assert session.leaf["data"] == inside.uuid
            assert inside.uuid not in uuids_at(path)
        assert said(await session.context()) == ["hello", "p", "q"]


@in_each_loop
async def test_each_hook_gets_the_session_that_it_can_use(path: Path) -> None:
    seen: list[tuple[type, object, bool]] = []
    main = threading.get_ident()

    def note(session: object) -> None:
        seen.append((type(session), current_task(), threading.get_ident() == main))

    class Plain:
        def before_append(self, session: Session, entry: Entry) -> None:
            note(session)

    class Other:
        async def before_append(self, session: AsyncSession, entry: Entry) -> None:
            note(session)

    async with (
        AsyncSession.open(path, hooks=[Plain(), Other()]) as session,
        session.lane("other") as lane,
    ):
        await lane.append_message(user("p"))
    task = current_task()
    assert seen == [(Session, task, False), (AsyncSession, task, True)]


@in_each_loop
async def test_tasks_that_a_hook_starts_use_the_session(path: Path) -> None:
    class Splitting:
        async def before_compact(self, session: AsyncSession, entry: Entry) -> None:
            async with anyio.create_task_group() as tasks:
                for n in range(5):
                    tasks.start_soon(session.label, session.header, f"label{n}")

    async with AsyncSession.open(path, hooks=[Splitting()]) as session:
        await session.compact("in short", keep=0)
        assert len(await session.find(type="label")) == 5


@in_each_loop
async def test_a_hook_that_calls_itself_for_ever_is_stopped(path: Path) -> None:
    class Endless:
        async def after_append(self, session: AsyncSession, entry: Entry) -> None:
            await session.append_message(user("again"))

    async with AsyncSession.open(path, hooks=[Endless()]) as session:
        with pytest.raises(HookDepthError):
            await session.append_message(user("p"))
        assert len(await session.path()) == 2 + 9


@in_each_loop
async def test_many_tasks_wait_in_their_hooks_at_once(path: Path) -> None:
    class Slow:
        async def before_append(self, session: AsyncSession, entry: Entry) -> None:
            for _ in range(3):
                await checkpoint()
            await session.entry("@")

    async with AsyncSession.open(path, hooks=[Slow()], durability="os") as session:
        async with anyio.create_task_group() as tasks:
            for n in range(60):
                tasks.start_soon(session.append_message, user(f"{n}"))
        assert sorted(said(await session.context())[1:]) == sorted(map(str, range(60)))


@in_each_loop
async def test_others_append_while_a_summarizer_waits(path: Path) -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def summary(entries: Sequence[Entry]) -> str:
        asked.set()
        await answered.wait()
        return f"{len(entries)} entries"

    async with AsyncSession.open(path) as session, session.lane("other") as lane:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: session.compact(summary, keep=0))
            await asked.wait()
            entry = await lane.append_message(user("meanwhile"))
            assert entry.uuid in uuids_at(path)
            answered.set()
        assert (await session.context()).messages[0]["summary"] == "1 entries"


@in_each_loop
async def test_every_summary_may_be_asked_for(path: Path) -> None:
    async def summary(entries: Sequence[Entry]) -> str:
        await checkpoint()
        return f"{len(entries)} left"

    async with AsyncSession.open(path) as session:
        fork = session.leaf
        await session.push()
        await session.append_message(user("p"))
        assert (await session.pop(summary=summary))["summary"] == "1 left"
        tip = await session.append_message(user("q"))
        assert (await session.branch(fork, summary))["summary"] == "3 left"
        assert (await session.merge(tip, summary))["summary"] == "3 left"


@in_each_loop
async def test_a_compaction_goes_in_steps_around_a_model_that_is_awaited(path: Path) -> None:
    async def ask(entries: Sequence[Entry], instructions: str) -> str:
        await checkpoint()
        return f"{len(entries)} entries: {instructions}"

    async with AsyncSession.open(path) as session:
        assert await session.needs_compaction(10, 9)
        plan = await session.compaction_plan(instructions="In French")
        assert "hello" in plan.text
        await session.append_message(user("while the model works"))
        await session.compact("in short", plan)
        assert said(await session.context()) == ["in short", "while the model works"]
        entry = await session.compact(ask, instructions="In French")
        assert entry["summary"] == "2 entries: In French"
        with pytest.raises(UsageError, match="was written since"):
            await session.compact("again", plan)


@in_each_loop
async def test_a_pop_goes_in_steps_around_a_model_that_is_awaited(path: Path) -> None:
    async with AsyncSession.open(path) as session:
        start = session.leaf
        await session.append_message(user("aside"))
        plan = await session.pop_plan(start, instructions="In French")
        assert "aside" in plan.text
        await checkpoint()
        assert (await session.pop(plan, "in short"))["summary"] == "in short"
        assert said(await session.context()) == ["hello", "in short"]
        merged = await session.merge_plan(plan.leaf)
        await session.append_message(user("while the model works"))
        await session.merge(merged, "both")
        with pytest.raises(UsageError, match="since the pop was planned"):
            await session.pop(plan, "again")


@in_each_loop
async def test_an_error_of_a_summarizer_is_that_of_the_call(path: Path) -> None:
    async def summary(entries: Sequence[Entry]) -> str:
        raise ConnectionError("no model")

    async with AsyncSession.open(path) as session:
        with pytest.raises(ConnectionError, match="no model"):
            await session.compact(summary, keep=0)
        await session.append_message(user("p"))
        assert said(await session.context()) == ["hello", "p"]


@in_each_loop
async def test_cancelling_a_call_cancels_its_summarizer(path: Path) -> None:
    ended: list[bool] = []

    async def summary(entries: Sequence[Entry]) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)
        return ""

    async with AsyncSession.open(path) as session:
        with anyio.move_on_after(0.05):
            await session.compact(summary, keep=0)
        assert ended == [True]
        assert await session.find(type="compaction") == []
        await session.append_message(user("p"))


@in_each_loop
async def test_a_hook_is_refused_the_batch_that_it_would_wait_for(path: Path) -> None:
    entered, tried = anyio.Event(), anyio.Event()

    class Batching:
        async def before_append(self, session: AsyncSession, entry: Entry) -> None:
            if "ask" in str(entry.body):
                await entered.wait()
                with pytest.raises(UsageError, match="waits for this hook"):
                    async with session.batch():
                        pass
                tried.set()

    async def batching(session: AsyncSession) -> None:
        async with session.batch():
            entered.set()
            await tried.wait()

    async with (
        AsyncSession.open(path, hooks=[Batching()]) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(batching, session)
        await entered.wait()
        await session.append_message(user("ask"))


@in_each_loop
async def test_a_hook_waits_for_the_batch_of_another_session(path: Path, tmp_path: Path) -> None:
    entered, waits = anyio.Event(), anyio.Event()

    async with AsyncSession.create(tmp_path / "other.jsonl") as other:

        class Copying:
            async def before_append(self, session: AsyncSession, entry: Entry) -> None:
                await entered.wait()
                waits.set()
                async with other.batch():
                    await other.append_message(user("copied"))

        async def batching() -> None:
            async with other.batch():
                entered.set()
                await waits.wait()
                await other.append_message(user("batched"))

        async with (
            AsyncSession.open(path, hooks=[Copying()]) as session,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(batching)
            await session.append_message(user("on"))
        said = [entry.get("message")["content"] for entry in await other.find(type="message")]
        assert said == ["batched", "copied"]


SCHEMAS = [
    HandleSchema("far", method, "1.x", [MetaField("name")], "message")
    for method in ("text", "chain")
]


class Far:
    """Resolves handles with a coroutine function."""

    schemas = SCHEMAS

    async def resolve(self, handle: Handle, scope: Any) -> Any:
        await checkpoint()
        if handle.method == "chain":
            found = await scope.resolve(f"far@1.0.0::text:{handle.meta[0]}")
            return {"role": "user", "content": f"chained {found.data['content']}"}
        name = await scope.session.run(lambda plain: plain.id)
        hint = scope.metadata(handle).get("hint", "")
        return {"role": "user", "content": f"{handle.meta[0]} of {name}{hint}"}


@in_each_loop
async def test_a_resolver_asks_others_and_uses_the_session(path: Path) -> None:
    async with AsyncSession.open(path, registry=Registry([Far()])) as session:
        await session.append_handle("far@1.0.0::text:one", metadata={"hint": ", hinted"})
        await session.append_handle("far@1.0.0::chain:two")
        of = f"of {session.id}"
        assert said(await session.context()) == ["hello", f"one {of}, hinted", f"chained two {of}"]
        found = await session.resolve_many(["far@1.0.0::text:a", "far@1.0.0::text:b"])
        assert [one.data["content"] for one in found] == [f"a {of}", f"b {of}"]  # type: ignore[union-attr]


@in_each_loop
async def test_others_wait_while_a_resolver_is_asked_for_a_context(path: Path) -> None:
    """A context is folded from the path in steps; nothing changes the path between them."""
    asked, answered = anyio.Event(), anyio.Event()

    class Waiting:
        schemas = SCHEMAS

        async def resolve(self, handle: Handle, scope: Any) -> Any:
            asked.set()
            await answered.wait()
            return {"role": "user", "content": "resolved"}

    contexts: list[list[str]] = []

    async def look(session: AsyncSession) -> None:
        contexts.append(said(await session.context()))

    async with AsyncSession.open(path, registry=Registry([Waiting()])) as session:
        await session.append_handle("far@1.0.0::text:one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look, session)
            await asked.wait()
            tasks.start_soon(session.append_message, user("later"))
            await anyio.wait_all_tasks_blocked()
            answered.set()
        assert contexts == [["hello", "resolved"]]
        assert said(await session.context()) == ["hello", "resolved", "later"]


def test_a_session_refuses_coroutine_functions_and_names_the_class_for_them() -> None:
    with pytest.raises(UsageError, match=r"Refusing.before_append .* use AsyncSession"):
        in_memory(hooks=[Refusing()])

    async def summary(entries: object) -> str:
        return "in short"

    def made(entries: object) -> Any:
        return summary(entries)

    with in_memory(registry=Registry([Far()])) as session:
        session.append_message(user("p"))
        for given in (summary, made):
            with pytest.raises(UsageError, match="use AsyncSession"):
                session.compact(given, keep=0)
        with pytest.raises(UsageError, match=r"Far.resolve .* use AsyncSession"):
            session.resolve("far@1.0.0::text:one")
        session.append_handle("far@1.0.0::text:one")
        assert "use AsyncSession" in str(session.context().warnings)


@in_each_loop
async def test_what_nothing_awaits_is_a_plain_function(path: Path) -> None:
    async def given(*_: object) -> Any: ...

    async with AsyncSession.open(path) as session:
        with pytest.raises(UsageError, match="count is a plain function"):
            await session.context(count=given)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="count is a plain function"):
            await session.compact("in short", keep=0, count=given)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="progress is a plain function"):
            await session.verify(given)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="damaged is a plain function"):
            await anext(session.follow(given))
    with pytest.raises(UsageError, match="report is a plain function"):
        await AsyncStore(path.parent).list(report=given)  # type: ignore[arg-type]
