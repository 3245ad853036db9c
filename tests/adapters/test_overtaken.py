"""Two programs lose no update through an adapter in a bucket, where no lock keeps them apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import pytest

from sessiontree import Store
from sessiontree.errors import SessionExistsError
from sessiontree.storage.places import place_of
from tests.adapters.test_contracts import ADAPTERS, ran
from tests.places import kinds
from tests.places.overtaking import Programs, programs


@pytest.fixture
def two() -> Iterator[Programs]:
    with programs() as found:
        yield found


@pytest.mark.parametrize(
    "adapter",
    [one for one in ADAPTERS if one.__name__ not in ("pydantic_ai", "google_adk", "langgraph")],
    ids=lambda adapter: adapter.__name__,
)
def test_what_two_programs_write_at_once_is_all_there(adapter: Any, two: Programs) -> None:
    (write, read), (write_there, read_there) = adapter(two.first), adapter(two.second)
    ran(write)()
    once = len(ran(read)())
    with two.overtaking(ran(write_there)):
        ran(write)()
    found = ran(read)()
    assert len(found) == 3 * once
    assert found == ran(read_there)()


def test_two_programs_that_pop_an_item_get_different_ones(two: Programs) -> None:
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from sessiontree.adapters.openai_agents import SessionTreeSession

    first, second = (SessionTreeSession("one", url) for url in (two.first, two.second))
    items: list[Any] = [{"role": "user", "content": text} for text in "abc"]
    anyio.run(first.add_items, items)
    popped: list[Any] = []
    with two.overtaking(lambda: popped.append(anyio.run(second.pop_item))):
        popped.append(anyio.run(first.pop_item))
    assert [item["content"] for item in popped] == ["c", "b"]
    left: list[Any] = anyio.run(second.get_items)
    assert [item["content"] for item in left] == ["a"]


def test_states_that_two_programs_change_at_once_have_both_changes(two: Programs) -> None:
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    from sessiontree.adapters.google_adk import SessionTreeSessionService

    def create(url: str, id: str, key: str) -> None:
        service = SessionTreeSessionService(url)
        names: Any = {"app_name": "app", "user_id": "me", "session_id": id}
        state = {f"app:{key}": 1, f"user:{key}": 2}
        anyio.run(partial(service.create_session, **names, state=state))

    create(two.second, "one", "a")
    with two.overtaking(lambda: create(two.second, "two", "b")):
        create(two.first, "three", "c")
    service = SessionTreeSessionService(two.first)
    names: Any = {"app_name": "app", "user_id": "me", "session_id": "one"}
    session = anyio.run(partial(service.get_session, **names))
    assert session is not None
    expected = {f"app:{key}": 1 for key in "abc"} | {f"user:{key}": 2 for key in "abc"}
    assert dict(session.state) == expected


def test_checkpoints_that_two_programs_put_and_hide_at_once_are_all_there_and_hidden(
    two: Programs,
) -> None:
    pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    from sessiontree.adapters.langgraph import SessionTreeSaver
    from tests.adapters.langgraph_thread import Thread

    first, second = (Thread(SessionTreeSaver(url), "t") for url in (two.first, two.second))
    first.put({"n": 0})
    with two.overtaking(lambda: second.put({"n": 1}, run_id="theirs")):
        first.put({"n": 2}, run_id="mine")
    with two.overtaking(lambda: second.write([("n", 3)])):
        first.write([("n", 4)])
    listed = list(first.saver.list({"configurable": {"thread_id": "t"}}))
    assert sorted(one.checkpoint["channel_values"]["n"] for one in listed) == [0, 1, 2]
    assert sorted(value for one in listed for _, _, value in one.pending_writes or []) == [3, 4]
    with two.overtaking(lambda: second.saver.delete_for_runs(["theirs"])):
        first.saver.delete_for_runs(["mine"])
    listed = list(first.saver.list({"configurable": {"thread_id": "t"}}))
    assert [one.checkpoint["channel_values"]["n"] for one in listed] == [0]


class _Talk:
    """Conversations of pydantic-ai in two programs."""

    def __init__(self, two: Programs) -> None:
        pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
        from pydantic_ai.conversation_store import ConversationConflict

        from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

        self.conflict = pytest.raises(ConversationConflict)
        self.first, self.second = map(SessionTreeConversationStore, (two.first, two.second))

    def save(self, store: Any, text: str) -> None:
        """Save a turn of the conversation, which is made if it is not there."""
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        async def go() -> None:
            found = await store.load("one") or Conversation(conversation_id="one")
            found.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
            await store.save(found)

        anyio.run(go)

    def said(self) -> list[str]:
        found = anyio.run(self.first.load, "one")
        assert found is not None
        parts: list[Any] = [part for message in found.messages for part in message.parts]
        return [part.content for part in parts]


def test_a_conversation_that_another_program_saved_meanwhile_is_a_conflict(two: Programs) -> None:
    talk = _Talk(two)
    talk.save(talk.first, "start")
    with two.overtaking(lambda: talk.save(talk.second, "theirs")), talk.conflict:
        talk.save(talk.first, "mine")
    assert talk.said() == ["start", "theirs"]


@pytest.mark.parametrize("at", ["jsonl/head", "/log/"])
def test_a_conversation_that_another_program_makes_meanwhile_is_a_conflict(
    two: Programs, at: str
) -> None:
    talk = _Talk(two)
    with two.overtaking(lambda: talk.save(talk.second, "theirs"), at=at), talk.conflict:
        talk.save(talk.first, "mine")
    assert talk.said() == ["theirs"]


def test_a_conversation_that_is_made_while_it_is_deleted_is_a_conflict_and_not_in_the_trash(
    two: Programs,
) -> None:
    talk = _Talk(two)
    talk.save(talk.first, "start")

    def delete() -> None:
        anyio.run(talk.second.delete, "one")

    async def make() -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        new = Conversation(conversation_id="one")
        new.messages.append(ModelRequest(parts=[UserPromptPart("mine")]))
        await talk.first.save(new)

    place, _ = place_of(two.second)
    with patch.object(place, "move", side_effect=InterruptedError), suppress(InterruptedError):
        delete()
    with pytest.raises(SessionExistsError, match="sessiontree trash"):
        anyio.run(make)
    Store(two.first).trash(talk.first.file_of("one"))
    anyio.run(make)
    assert talk.said() == ["mine"]


@pytest.mark.slow
def test_two_processes_that_make_the_same_conversations_at_once_lose_nothing(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

    ids = [f"c{number}" for number in range(12)]
    with kinds.opened("s3", tmp_path) as (_, root):
        words = [sys.executable, "-m", "tests.adapters.pydantic_writer", root, ",".join(ids)]
        running = [subprocess.Popen([*words, name, "1"]) for name in ("a", "b")]
        assert [process.wait() for process in running] == [0, 0]
        store = SessionTreeConversationStore(root)
        for id in ids:
            found = anyio.run(store.load, id)
            assert found is not None
            parts: list[Any] = [part for message in found.messages for part in message.parts]
            assert sorted(part.content for part in parts) == ["a 0", "b 0"]
        assert not any("/.trash/" in session.file for session in Store(root).list())
