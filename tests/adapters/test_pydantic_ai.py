"""Conversations of pydantic-ai: what its own store in memory does, and what files add to that."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from sessiontree import EntryError, Session, Store
from sessiontree.adapters.base import PYDANTIC_AI
from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore, restored, translated
from tests.adapters import pydantic_writer
from tests.adapters.twin import Twin
from tests.support.children import together
from tests.support.soak import amount, in_soak

TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS: Final = st.dictionaries(TEXTS, VALUES, max_size=3)
ITEMS: Final = st.one_of(
    TEXTS,
    st.binary(max_size=10).map(lambda data: BinaryImage(data, media_type="image/png")),
    st.binary(max_size=10).map(lambda data: BinaryContent(data, media_type="application/pdf")),
    st.just(ImageUrl("https://example.com/a.png")),
)
ASKED: Final[st.SearchStrategy[Any]] = st.one_of(
    st.builds(UserPromptPart, TEXTS | st.lists(ITEMS, max_size=3)),
    st.builds(SystemPromptPart, TEXTS),
    st.builds(
        ToolReturnPart,
        tool_name=TEXTS,
        content=TEXTS | OBJECTS,
        tool_call_id=TEXTS,
        outcome=st.sampled_from(["success", "failed"]),
    ),
)
ANSWERED: Final[st.SearchStrategy[Any]] = st.one_of(
    st.builds(TextPart, TEXTS),
    st.builds(ThinkingPart, TEXTS, signature=st.none() | TEXTS),
    st.builds(
        ToolCallPart, TEXTS, st.none() | OBJECTS | OBJECTS.map(json.dumps), tool_call_id=TEXTS
    ),
)
REQUESTS: Final = st.builds(
    ModelRequest, parts=st.lists(ASKED, max_size=4), instructions=st.none() | TEXTS
)
RESPONSES: Final = st.builds(
    ModelResponse,
    parts=st.lists(ANSWERED, max_size=4),
    usage=st.builds(RequestUsage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
    model_name=st.none() | TEXTS,
)
MESSAGES: Final = st.lists(REQUESTS | RESPONSES, min_size=1, max_size=4)


def said(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def texts(messages: Sequence[ModelMessage]) -> list[Any]:
    return [getattr(part, "content", None) for message in messages for part in message.parts]


@pytest.fixture
def store(tmp_path: Path) -> SessionTreeConversationStore:
    return SessionTreeConversationStore(tmp_path)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(MESSAGES)
def test_a_message_comes_back_as_it_was_given(messages: list[ModelMessage]) -> None:
    for message in ModelMessagesTypeAdapter.dump_python(messages, mode="json"):
        pieces = json.loads(json.dumps(translated(message)))
        assert restored(pieces) == message


@settings(max_examples=amount(25), suppress_health_check=list(HealthCheck), deadline=None)
@given(MESSAGES)
def test_a_conversation_comes_back_as_it_was_given(messages: list[ModelMessage]) -> None:
    async def save() -> list[ModelMessage]:
        with tempfile.TemporaryDirectory() as root:
            store = SessionTreeConversationStore(root)
            await store.save(Conversation(messages=messages, conversation_id="one"))
            (loaded,) = [await store.load("one")]
            assert loaded is not None
            return loaded.messages

    assert anyio.run(save) == messages


class Conversations(RuleBasedStateMachine):
    """The words of a store, on its own store in memory and on files, compared at each step."""

    IDS: Final = ("a", "b", "A/b")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.twin = Twin(SessionTreeConversationStore(self.folder.name))
        self.old: dict[str, str | None] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    def run(self, word: Any, *args: Any, **named: Any) -> Any:
        async def call() -> Any:
            try:
                return await word(*args, **named)
            except UserError:
                return None

        return anyio.run(call)

    @rule(id=st.sampled_from(IDS), messages=MESSAGES, scope=st.sampled_from([None, "me", "you"]))
    def save(self, id: str, messages: list[ModelMessage], scope: str | None) -> None:
        conversation = self.run(self.twin.load, id) or Conversation(conversation_id=id)
        self.old[id] = conversation.revision
        conversation.messages += messages
        self.run(self.twin.save, conversation, scope=scope)

    @rule(id=st.sampled_from(IDS), messages=MESSAGES)
    def save_what_is_outdated(self, id: str, messages: list[ModelMessage]) -> None:
        outdated = Conversation(messages=messages, conversation_id=id, revision=self.old.get(id))
        self.run(self.twin.save, outdated)

    @rule(id=st.sampled_from(IDS), keep=st.integers(0, 3))
    def rewrite(self, id: str, keep: int) -> None:
        conversation = self.run(self.twin.load, id)
        if conversation is not None:
            messages = [*conversation.messages[:keep], said("instead")]
            known = {"conversation_id": id, "revision": conversation.revision}
            self.run(self.twin.save, Conversation(messages=messages, **known))

    @rule(id=st.sampled_from(IDS), at=st.integers(0, 5), back=st.booleans())
    def branch(self, id: str, at: int, back: bool) -> None:
        record = self.run(self.twin.read_record, id)
        if record is None:
            return
        where = {"from_entry": record.branches[-1]} if back and record.branches else {"at": at}
        self.run(self.twin.branch, id, expected_revision=record.revision, **where)

    @rule(id=st.sampled_from(IDS), new=st.sampled_from(IDS), at=st.none() | st.integers(0, 5))
    def fork(self, id: str, new: str, at: int | None) -> None:
        self.run(self.twin.fork, id, at=at, new_conversation_id=new)

    @rule(id=st.sampled_from(IDS), scope=st.sampled_from([None, "me"]))
    def delete(self, id: str, scope: str | None) -> None:
        self.run(self.twin.delete, id, scope=scope)

    @rule(id=st.sampled_from(IDS), limit=st.integers(0, 5))
    def load_some(self, id: str, limit: int) -> None:
        self.run(self.twin.load_entries, id, limit=limit)

    @rule(scope=st.sampled_from([None, "me"]), limit=st.none() | st.integers(0, 3))
    def list_some(self, scope: str | None, limit: int | None) -> None:
        self.run(self.twin.list_conversations, scope=scope, limit=limit)

    @precondition(lambda self: self.old)
    @rule()
    def forget_where_entries_are(self) -> None:
        self.twin.ours = SessionTreeConversationStore(self.folder.name)

    @invariant()
    def every_entry_is_the_same(self) -> None:
        for id in list(self.twin.memory._entries)[-20:]:
            self.run(self.twin.read_entry, id)

    @invariant()
    def every_file_is_sound(self) -> None:
        for file in Path(self.folder.name, "pydantic-ai").glob("*.jsonl"):
            with Session.open(file, readonly=True) as session:
                assert not session.verify()


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=amount(8),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_a_conversation_of_an_agent_is_a_session(
    store: SessionTreeConversationStore, tmp_path: Path
) -> None:
    agent = Agent(TestModel(), instructions="Be brief.")

    @agent.tool_plain
    def weather(city: str) -> dict[str, str]:
        return {"city": city}

    async def talk() -> list[ModelMessage]:
        conversation = Conversation(conversation_id="talk")
        result = await agent.run("Rain?", conversation=conversation)
        await store.save(result)
        return result.all_messages()

    messages = anyio.run(talk)
    with Session.open(store.file_of("talk"), readonly=True) as session:
        prompt, call, result, answer = session.context().messages
        assert prompt["content"] == [{"type": "text", "text": "Rain?"}]
        assert (call["content"][0]["type"], result["role"]) == ("toolCall", "toolResult")
        assert answer["content"][0]["text"] == texts(messages)[-1]
        assert session.stats().usage.output > 0
    (found,) = Store(tmp_path).search("Rain?")
    assert found.file == store.file_of("talk")


def test_a_branch_is_a_branch_of_the_session(store: SessionTreeConversationStore) -> None:
    async def talk() -> None:
        conversation = Conversation(messages=[said("a"), said("b")], conversation_id="one")
        await store.save(conversation)
        assert conversation.revision is not None
        other = await store.branch("one", at=1, expected_revision=conversation.revision)
        other.messages.append(said("c"))
        await store.save(other)

    anyio.run(talk)
    with Session.open(store.file_of("one"), readonly=True) as session:
        assert [m["content"][0]["text"] for m in session.context().messages] == ["a", "c"]
        assert len(session.branches()) == 2


def test_a_fork_lives_on_without_what_it_was_forked_from(
    store: SessionTreeConversationStore, tmp_path: Path
) -> None:
    async def talk() -> None:
        await store.save(Conversation(messages=[said("a"), said("b")], conversation_id="one"))
        original = await store.load_entries("one")
        await store.fork("one", at=1, new_conversation_id="two")
        await store.delete("one")
        assert await store.load("one") is None
        copies = await store.load_entries("two")
        assert original is not None
        assert copies == original[:1]
        with pytest.raises(LookupError, match="no conversation in"):
            await store.read_entry(original[1].id)
        await store.save(Conversation(messages=[said("new")], conversation_id="one"))

    anyio.run(talk)
    assert len(Store(tmp_path).trashed()) == 1


def test_a_large_text_is_a_blob_and_comes_back(store: SessionTreeConversationStore) -> None:
    large: list[ModelMessage]
    large = [said("x" * 300_000), ModelResponse(parts=[ToolCallPart("t", {"a": "y" * 300_000})])]
    anyio.run(store.save, Conversation(messages=large, conversation_id="one"))
    assert Path(store.file_of("one")).stat().st_size < 10_000
    loaded = anyio.run(store.load, "one")
    assert loaded is not None
    assert loaded.messages == large


def test_a_fork_whose_program_was_killed_is_no_conversation(
    store: SessionTreeConversationStore,
) -> None:
    async def talk() -> list[str]:
        await store.save(Conversation(messages=[said("a")], conversation_id="one"))
        with Session.open(store.file_of("one"), readonly=True) as session:
            session.fork(store.file_of("two"))
        assert await store.load("two") is None
        listed = [record.conversation_id for record in await store.list_conversations()]
        await store.fork("one", new_conversation_id="two")
        forked = await store.load("two")
        assert forked is not None
        assert texts(forked.messages) == ["a"]
        return listed

    assert anyio.run(talk) == ["one"]


@pytest.mark.parametrize(
    "id", ["", "../../etc/passwd", "a/b\0c\nd", "x" * 10_000, ".", "\udcff", "CON", "ä" * 300]
)
def test_any_text_names_a_conversation(
    id: str, store: SessionTreeConversationStore, tmp_path: Path
) -> None:
    async def talk() -> None:
        await store.save(Conversation(messages=[said("a")], conversation_id=id))
        loaded = await store.load(id)
        assert loaded is not None
        assert texts(loaded.messages) == ["a"]

    if "\udcff" in id:
        with pytest.raises(EntryError, match="JSON"):
            anyio.run(talk)
        return
    anyio.run(talk)
    assert Path(store.file_of(id)).parent == tmp_path / "pydantic-ai"


def test_ids_that_differ_only_in_case_are_two_conversations(
    store: SessionTreeConversationStore,
) -> None:
    assert store.file_of("a").lower() != store.file_of("A").lower()


def test_a_value_that_json_cannot_carry_is_named_and_nothing_is_written(
    store: SessionTreeConversationStore,
) -> None:
    message = replace(said("a"), metadata={"it": object()})
    with pytest.raises(EntryError, match="cannot be stored as JSON"):
        anyio.run(store.save, Conversation(messages=[message], conversation_id="one"))
    assert anyio.run(store.load, "one") is None


def test_a_cancelled_save_is_done_or_not_begun(store: SessionTreeConversationStore) -> None:
    async def talk() -> None:
        conversation = Conversation(messages=[said("a")], conversation_id="one")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.save(conversation)
        loaded = await store.load("one")
        assert loaded is None or texts(loaded.messages) == ["a"]

    anyio.run(talk)


@pytest.mark.slow
@in_soak("writers", 3, 8)
def test_processes_on_one_conversation_lose_nothing(tmp_path: Path, writers: int) -> None:
    together(
        *(
            partial(anyio.run, pydantic_writer.main, tmp_path, "one", str(number), 5)
            for number in range(writers)
        )
    )
    loaded = anyio.run(SessionTreeConversationStore(tmp_path).load, "one")
    assert loaded is not None
    assert sorted(texts(loaded.messages)) == sorted(
        f"{n} {k}" for n in range(writers) for k in range(5)
    )


def test_an_sdk_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sessiontree.adapters.base.Sdk._version", lambda sdk: None)
    with pytest.raises(ImportError, match=r"pip install 'sessiontree\[pydantic-ai\]'"):
        PYDANTIC_AI.check()


def test_what_was_deleted_meanwhile_is_a_conflict_and_nothing_is_made(
    store: SessionTreeConversationStore, tmp_path: Path
) -> None:
    async def talk() -> None:
        first = Conversation(messages=[said("a")], conversation_id="one")
        await store.save(first)
        late = await store.load("one")
        assert late is not None
        assert late.revision is not None
        record = await store.read_record("one")
        assert record is not None
        assert record.head_id is not None
        await SessionTreeConversationStore(tmp_path).delete("one")
        late.messages.append(said("b"))
        with pytest.raises(ConversationConflict):
            await store.save(late)
        with pytest.raises(ConversationConflict):
            await store.delete_record("one", expected_revision=late.revision)
        with pytest.raises(LookupError, match="no conversation in"):
            await store.read_entry(record.head_id)
        assert await store.load("one") is None
        assert await store.list_conversations() == []

    anyio.run(talk)
    assert not os.path.exists(store.file_of("one"))


def test_a_conversation_that_is_deleted_while_it_is_looked_for_is_told(
    store: SessionTreeConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = store._file_with

    def found(entry: str) -> str | None:
        file = look(entry)
        os.unlink(store.file_of("one"))
        return file

    async def talk() -> None:
        await store.save(Conversation(messages=[said("a")], conversation_id="one"))
        record = await store.read_record("one")
        assert record is not None
        monkeypatch.setattr(store, "_file_with", found)
        with pytest.raises(LookupError, match=f"the entry {record.head_id} was deleted"):
            await store.read_history(record.head_id)

    anyio.run(talk)


def test_what_is_deleted_has_no_record_if_it_is_restored(
    store: SessionTreeConversationStore,
) -> None:
    async def talk() -> None:
        await store.save(Conversation(messages=[said("a")], conversation_id="one"))
        await store.delete("one")

    anyio.run(talk)
    (trashed,) = store.store.trashed()
    store.store.restore(trashed.file)
    assert anyio.run(store.load, "one") is None
    anyio.run(store.save, Conversation(messages=[said("b")], conversation_id="one"))
    loaded = anyio.run(store.load, "one")
    assert loaded is not None
    assert texts(loaded.messages) == ["b"]
