"""Sessions of the OpenAI Agents SDK: what its SQLite sessions do, and what a file adds to that."""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings
from agents.memory import Session as SdkSession

from sessiontree import EntryError, Session, Store, UsageError
from sessiontree.adapters.openai_agents import SessionTreeSession
from tests.adapters import openai_writer
from tests.adapters.openai_model import Scripted, calls, says
from tests.support.children import together
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

set_tracing_disabled(True)


def asked(text: str) -> Any:
    return {"role": "user", "content": text}


TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
ITEMS: Final[st.SearchStrategy[Any]] = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
    st.builds(
        lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}]}, TEXTS
    ),
    st.builds(
        lambda text: {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        },
        TEXTS,
    ),
    st.builds(
        lambda name: {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"},
        st.sampled_from(["read", "bash"]),
    ),
    st.just({"type": "function_call_output", "call_id": "c", "output": "42"}),
    st.sampled_from(["a line\n\x1b[31mand another\u202e", "long " * 30]).map(asked),
    st.just({"type": "tool_search_call", "id": "t"}),
    st.just({"type": "tool_search_output", "id": "t", "tools": []}),
    st.just({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sealed"}),
    st.just({"type": "item_reference", "id": "m"}),
    st.builds(lambda n: {"type": "of_next_year", "n": n}, st.integers() | st.none() | TEXTS),
)
NAMES: Final = st.sampled_from(["main", "b", "a plan", "*"])


@pytest.fixture
def session(tmp_path: Path) -> SessionTreeSession:
    return SessionTreeSession("one", tmp_path)


def contents(items: Any) -> list[Any]:
    return [item.get("content") for item in items]


class Words(RuleBasedStateMachine):
    """The words of the SDK on its SQLite session and on a file, compared at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.theirs = AdvancedSQLiteSession(
            session_id="s", db_path=Path(self.folder.name, "s.db"), create_tables=True
        )
        self.has_empty_branch = False

    @property
    def ours(self) -> SessionTreeSession:
        """A new object each time: nothing is in memory alone."""
        return SessionTreeSession("s", Path(self.folder.name, "store"))

    def teardown(self) -> None:
        self.theirs.close()
        self.folder.cleanup()

    def both(self, word: str, *args: Any, **named: Any) -> Any:
        async def call() -> tuple[Any, Any]:
            return await answer(self.theirs), await answer(self.ours)

        async def answer(session: Any) -> Any:
            try:
                return plain(await getattr(session, word)(*args, **named))
            except ValueError:
                return ValueError

        theirs, ours = anyio.run(call)
        assert ours == theirs, word
        return theirs

    @rule(items=st.lists(ITEMS, min_size=1, max_size=4))
    def add(self, items: list[Any]) -> None:
        self.both("add_items", items)

    @rule()
    def pop(self) -> None:
        if len(self.both("get_items")) > 1:
            self.both("pop_item")

    @rule()
    def clear(self) -> None:
        self.both("clear_session")

    @rule(turn=st.integers(2, 4), name=NAMES)
    def branch(self, turn: int, name: str) -> None:
        self.both("create_branch_from_turn", turn, name)

    @rule(term=TEXTS.filter(bool))
    def find(self, term: str) -> None:
        self.both("find_turns_by_content", term)

    @rule(name=NAMES)
    def switch(self, name: str) -> None:
        if self.both("get_items", None, name):
            self.both("switch_to_branch", name)

    @rule(name=NAMES, force=st.booleans())
    def delete(self, name: str, force: bool) -> None:
        if self.both("get_items", None, "main"):
            self.both("delete_branch", name, force)

    @invariant()
    def all_is_the_same(self) -> None:
        self.both("get_items")
        self.both("get_items", 2)
        self.both("list_branches")
        self.both("get_conversation_by_turns")
        self.both("get_tool_usage")
        turns = self.both("get_conversation_turns")
        assert [turn["turn"] for turn in turns] == list(range(1, len(turns) + 1))


def plain(answer: Any) -> Any:
    """An answer without times, and without the order of what has none."""
    if isinstance(answer, dict):
        return {k: plain(v) for k, v in answer.items() if k not in ("timestamp", "created_at")}
    if isinstance(answer, list):
        found = [plain(each) for each in answer]
        is_unordered = any(isinstance(each, tuple) or "branch_id" in each for each in found if each)
        return sorted(found, key=str) if is_unordered else found
    return answer


TestWords = Words.TestCase
TestWords.settings = settings(
    max_examples=amount(8),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_turns_and_tools_are_in_the_words_of_the_sdk(tmp_path: Path) -> None:
    items: list[Any] = [
        asked("a line\n\x1b[31mand another"),
        {"type": "tool_search_output", "id": "t", "tools": []},
        asked("long " * 30),
        {"type": "tool_search_call", "id": "t"},
        {"type": "tool_search_output", "id": "t", "tools": []},
        {"role": "user", "content": [{"type": "input_text", "text": "a part with é"}]},
    ]
    theirs = AdvancedSQLiteSession(session_id="s", db_path=tmp_path / "s.db", create_tables=True)
    ours = SessionTreeSession("s", tmp_path)

    async def answers(session: Any) -> list[Any]:
        await session.add_items(items)
        return [
            plain(await session.get_conversation_turns()),
            plain(await session.find_turns_by_content("A")),
            plain(await session.get_tool_usage()),
        ]

    expected = anyio.run(answers, theirs)
    assert expected[2] == [("tool_search", 1, 1), ("tool_search", 1, 2)]
    assert anyio.run(answers, ours) == expected
    for session in (theirs, ours):
        session.close()


def test_it_is_a_session_of_the_sdk(session: SessionTreeSession) -> None:
    assert isinstance(session, SdkSession)


def test_a_run_is_a_session_with_calls_and_usage(
    session: SessionTreeSession, tmp_path: Path
) -> None:
    @function_tool
    def weather(city: str) -> str:
        return f"rain in {city}"

    async def talk() -> Any:
        model = Scripted([calls("weather", '{"city":"Rome"}'), says("It rains."), says("Still.")])
        agent = Agent("a", model=model, tools=[weather])
        result = await Runner.run(agent, "Rome?", session=session)
        await session.store_run_usage(result)
        await Runner.run(agent, "Now?", session=session)
        assert contents(model.inputs[-1])[0] == "Rome?"
        assert await session.get_session_usage() == {
            "requests": 2,
            "input_tokens": 20,
            "output_tokens": 10,
            "total_tokens": 30,
            "total_turns": 1,
        }
        turn = await session.get_turn_usage(1)
        assert isinstance(turn, dict)
        assert (turn["requests"], turn["total_tokens"]) == (2, 30)
        assert await session.get_turn_usage(2) == {}
        assert await session.get_tool_usage() == [("weather", 1, 1)]

    anyio.run(talk)
    with Session.open(session.file, readonly=True) as stored:
        roles = [message.get("role") or message["type"] for message in stored.context().messages]
        assert roles == [
            *("user", "function_call", "function_call_output", "assistant", "user", "assistant")
        ]
        assert stored.stats().usage.output == 10
    (found,) = Store(tmp_path).search("rain in Rome")
    assert found.file == session.file


def test_a_streamed_run_is_kept_too(session: SessionTreeSession) -> None:
    async def talk() -> list[Any]:
        agent = Agent("a", model=Scripted([says("Yes.")]))
        result = Runner.run_streamed(agent, "Well?", session=session)
        async for _ in result.stream_events():
            pass
        return await session.get_items()

    assert [item.get("role") for item in anyio.run(talk)] == ["user", "assistant"]


def test_a_run_that_fails_can_be_made_again(session: SessionTreeSession) -> None:
    async def talk() -> list[Any]:
        model = Scripted([RuntimeError("down"), says("Yes.")])
        agent = Agent("a", model=model)
        with pytest.raises(RuntimeError):
            await Runner.run(agent, "Well?", session=session)
        while await session.pop_item():
            pass
        await Runner.run(agent, "Well?", session=session)
        return await session.get_items()

    assert [item.get("role") for item in anyio.run(talk)] == ["user", "assistant"]


def test_the_limit_of_the_settings_is_what_a_run_sees(tmp_path: Path) -> None:
    session = SessionTreeSession("one", tmp_path, session_settings=SessionSettings(limit=2))

    async def talk() -> list[Any]:
        await session.add_items([asked(str(number)) for number in range(5)])
        model = Scripted([says("Yes.")])
        await Runner.run(Agent("a", model=model), "Well?", session=session)
        return contents(model.inputs[0])

    assert anyio.run(talk) == ["3", "4", "Well?"]


def test_settings_may_be_a_dict_of_known_keys(tmp_path: Path) -> None:
    session = SessionTreeSession("one", tmp_path, session_settings={"limit": 0})
    anyio.run(session.add_items, [asked("a")])
    assert anyio.run(session.get_items) == []
    assert anyio.run(session.get_items, 1) == [asked("a")]
    assert SessionTreeSession("two", tmp_path).session_settings == SessionSettings()
    with pytest.raises(TypeError, match="limitt"):
        SessionTreeSession("one", tmp_path, session_settings={"limitt": 1})


def test_runs_at_the_same_time_lose_no_item(session: SessionTreeSession) -> None:
    async def talk() -> list[Any]:
        async def run(number: int) -> None:
            agent = Agent("a", model=Scripted([says(f"answer {number}")]))
            await Runner.run(agent, f"question {number}", session=session)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(run, number)
        return await session.get_items()

    found = str(anyio.run(talk))
    assert sorted(re.findall(r"(?:question|answer) \d", found)) == sorted(
        [f"{word} {number}" for word in ("question", "answer") for number in range(8)]
    )


def test_what_a_compaction_replaces_stays_in_the_file(session: SessionTreeSession) -> None:
    async def compact(**asked: Any) -> Any:
        assert len(asked["input"]) == 4
        kept = {"type": "compaction", "id": "cmp", "encrypted_content": "sealed"}
        return SimpleNamespace(output=[kept], usage=None, id="resp")

    client: Any = SimpleNamespace(responses=SimpleNamespace(compact=compact))
    compacted = OpenAIResponsesCompactionSession("one", session, client=client)

    async def talk() -> list[Any]:
        model = Scripted([says("One."), says("Two.")])
        for prompt in ("first", "second"):
            await Runner.run(Agent("a", model=model), prompt, session=session)
        await compacted.run_compaction({"force": True, "compaction_mode": "input"})
        return await session.get_items()

    (left,) = anyio.run(talk)
    assert left["type"] == "compaction"
    with Session.open(session.file, readonly=True) as stored:
        assert len(stored.branches()) == 2
        assert len(stored.find(type="message")) == 5


def test_what_is_popped_and_cleared_stays_in_the_file(session: SessionTreeSession) -> None:
    async def talk() -> None:
        await session.add_items([asked("a"), asked("b")])
        assert await session.pop_item() == asked("b")
        await session.clear_session()
        await session.add_items([asked("c")])
        assert await session.get_items() == [asked("c")]

    anyio.run(talk)
    with Session.open(session.file, readonly=True) as stored:
        found = [
            entry["message"]["content"] for entry in stored.entries() if entry.type == "message"
        ]
        assert found == ["a", "b", "c"]
        assert not stored.verify()


def test_the_branch_is_that_of_the_file(session: SessionTreeSession, tmp_path: Path) -> None:
    async def talk() -> None:
        await session.add_items([asked("a"), asked("b"), asked("c")])
        assert await session.create_branch_from_content("C", "other") == "other"
        again = SessionTreeSession("one", tmp_path)
        await again.add_items([asked("d")])
        assert contents(await session.get_items()) == ["a", "b", "d"]
        assert contents(await again.get_items(branch_id="main")) == ["a", "b", "c"]
        named = await again.create_branch_from_turn(2)
        assert named.startswith("branch_from_turn_2_")
        assert contents(await session.get_items()) == ["a"]

    anyio.run(talk)
    with Session.open(session.file, readonly=True) as stored:
        assert "other" in [branch.name for branch in stored.branches()]


def test_usage_is_that_of_the_turn_wherever_it_is_seen(session: SessionTreeSession) -> None:
    async def talk() -> None:
        model = Scripted([says(str(number)) for number in range(3)])
        for prompt in ("first", "second"):
            result = await Runner.run(Agent("a", model=model), prompt, session=session)
            await session.store_run_usage(result)
            await session.store_run_usage(result)  # the last one counts
        await session.create_branch_from_turn(2, "b")
        assert len(await session.get_turn_usage()) == 1
        assert len(await session.get_turn_usage(branch_id="main")) == 2
        usage = await session.get_session_usage()
        assert usage is not None
        assert (usage["requests"], usage["total_turns"]) == (2, 2)

    anyio.run(talk)


@for_each("id", ["", "../../etc/passwd", "a/b\0c\nd", "x" * 10_000, "ä" * 300])
def test_any_text_names_a_session(id: str, tmp_path: Path) -> None:
    session = SessionTreeSession(id, tmp_path)
    anyio.run(session.add_items, [asked("a")])
    assert anyio.run(session.get_items) == [asked("a")]
    assert Path(session.file).parent == tmp_path / "openai-agents"


@pytest.mark.parametrize("item", ["text", 1, None, {"role": "user", "content": float("nan")}])
def test_what_json_cannot_carry_is_refused_and_nothing_is_added(
    item: Any, session: SessionTreeSession
) -> None:
    anyio.run(session.add_items, [asked("a")])
    before = Path(session.file).read_bytes()
    with pytest.raises(EntryError):
        anyio.run(session.add_items, [asked("b"), item])
    assert anyio.run(session.get_items) == [asked("a")]
    assert Path(session.file).read_bytes() == before


def test_what_is_not_there_is_named(session: SessionTreeSession) -> None:
    for word, given, told in (
        ("create_branch_from_turn", 1, "no turn 1"),
        ("create_branch_from_content", "a", "no prompt has the text 'a'"),
        ("switch_to_branch", "b", "no branch 'b'"),
        ("delete_branch", "b", "no branch 'b'"),
        ("delete_branch", "main", "'main' stays"),
    ):
        with pytest.raises(UsageError, match=told):
            anyio.run(getattr(session, word), given)


@pytest.mark.slow
@in_soak("writers", 3, 8)
def test_processes_on_one_session_lose_nothing(tmp_path: Path, writers: int) -> None:
    together(
        *(
            partial(anyio.run, openai_writer.main, tmp_path, "one", str(number), 5)
            for number in range(writers)
        )
    )
    items = anyio.run(SessionTreeSession("one", tmp_path).get_items)
    assert sorted(contents(items)) == sorted(f"{n} {k}" for n in range(writers) for k in range(5))
