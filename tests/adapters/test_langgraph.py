"""Checkpoints of LangGraph: its own suite, the answers of its saver in memory, and real runs."""

from __future__ import annotations

import copy
import operator
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from sessiontree import CorruptionError, Session, SessionTreeError, UsageError
from sessiontree.adapters.langgraph import SessionTreeSaver
from tests.adapters import langgraph_writer
from tests.adapters.langgraph_thread import Thread
from tests.support.children import together
from tests.support.soak import amount, in_soak
from tests.support.table import for_each


def _call(id: str) -> Any:
    return {"name": "look", "args": {"q": 1}, "id": id, "type": "tool_call"}


MESSAGES: Final[st.SearchStrategy[BaseMessage]] = st.one_of(
    st.builds(HumanMessage, st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    st.builds(HumanMessage, st.just([{"type": "text", "text": "a"}, "b"]), name=st.just("n")),
    st.builds(lambda n: AIMessage("", tool_calls=[_call(f"c{n}")]), st.integers(0, 3)),
    st.just(AIMessage("see", tool_calls=[_call("c1"), _call("c2")], id="7")),
    st.just(AIMessage([{"type": "tool_use", "id": "c1", "name": "look", "input": {}}])),
    st.just(AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": None}])),
    st.just(
        AIMessage(
            "told",
            usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
            response_metadata={"model_name": "m", "model_provider": "p"},
        )
    ),
    st.just(ToolMessage("42", tool_call_id="c1", name="look", artifact={"rows": [1]})),
    st.just(ToolMessage([{"type": "text", "text": "no"}], tool_call_id="c2", status="error")),
    st.just(SystemMessage("be kind", additional_kwargs={"cache": True})),
    st.just(RemoveMessage(id="7")),
)
PLAIN: Final = st.one_of(
    *(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.binary(max_size=4),
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
VALUES: Final = st.one_of(
    PLAIN,
    st.lists(PLAIN, max_size=12),
    st.dictionaries(st.text("ab", max_size=2), PLAIN | st.lists(PLAIN, max_size=3), max_size=3),
    st.tuples(PLAIN, PLAIN),
    st.just({1: "a number as a key"}),
    MESSAGES,
)


@pytest.fixture
def saver(tmp_path: Path) -> SessionTreeSaver:
    return SessionTreeSaver(tmp_path)


def thread(id: str = "one", **more: str) -> Any:
    return {"configurable": {"thread_id": id, "checkpoint_ns": "", **more}}


def values(saver: SessionTreeSaver, config: Any = None) -> dict[str, Any]:
    found = saver.get_tuple(config or thread())
    assert found is not None
    return found.checkpoint["channel_values"]


def contents(messages: list[BaseMessage]) -> list[Any]:
    return [message.content for message in messages]


def test_the_suite_of_langgraph_passes() -> None:
    @checkpointer_test(name="sessiontree")
    async def made() -> AsyncIterator[SessionTreeSaver]:
        with tempfile.TemporaryDirectory() as folder:
            yield SessionTreeSaver(folder)

    report = anyio.run(lambda: validate(made), backend="asyncio")
    assert [found.failures for found in report.results.values() if found.failures] == []
    assert sum(found.tests_passed for found in report.results.values()) == 81
    assert report.passed_all()


class Savers(RuleBasedStateMachine):
    """LangGraph's saver in memory and ours, which get the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.memory = InMemorySaver()
        self.ours = SessionTreeSaver(self.folder.name)
        self.configs: list[Any] = []
        self.version = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(
        data=st.data(),
        space=st.sampled_from(["", "child:1", "a|b:\u20ac"]),
        messages=st.lists(MESSAGES, max_size=3),
        change=st.sampled_from(["grow", "grow", "same", "trim", "replace", "mutate", "drop"]),
        notes=st.lists(VALUES, max_size=9),
        others=st.dictionaries(st.sampled_from(["n", "rows"]), VALUES, max_size=2),
        early=st.booleans(),
    )
    def put(
        self,
        data: st.DataObject,
        space: str,
        messages: list[Any],
        change: str,
        notes: list[Any],
        others: dict[str, Any],
        early: bool,
    ) -> None:
        above = data.draw(
            st.sampled_from([None, *(one for one in self.configs if _space(one) == space)][-4:])
        )
        config = above or thread(checkpoint_ns=space)
        found = None if above is None else self.ours.get_tuple(above)
        checkpoint = empty_checkpoint()
        if found is not None:
            checkpoint["channel_values"] = found.checkpoint["channel_values"]
            checkpoint["channel_versions"] = dict(found.checkpoint["channel_versions"])
        now = checkpoint["channel_values"]
        new = dict(others)
        if notes:
            new["notes"] = [*now.get("notes", []), *notes]
        before = now.get("messages", [])
        if change == "mutate" and before:
            before[0].content = "changed in place"
        if change == "trim":
            new["messages"] = before[1:]
        elif change != "same":
            new["messages"] = messages if change == "replace" else [*before, *messages]
        now.update(new)
        if change == "drop":
            del now["messages"]
        self.version += 1
        versions: Any = dict.fromkeys(new, self.version)
        checkpoint["channel_versions"].update(versions)
        checkpoint["id"] = f"{self.version:04}"
        own = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        if early:
            self.write(data, own)
        told: Any = {"source": "loop", "step": self.version, "parents": {}, "odd": self.version % 2}
        asked = copy.deepcopy((checkpoint, told, versions))
        first = self.memory.put(config, *copy.deepcopy(asked))
        assert self.ours.put(config, *asked) == first
        self.configs.append(first)

    @precondition(lambda self: self.configs)
    @rule(data=st.data())
    def write_somewhere(self, data: st.DataObject) -> None:
        self.write(data, data.draw(st.sampled_from(self.configs)))

    def write(self, data: st.DataObject, config: Any) -> None:
        channels = st.sampled_from(["messages", "n", "__error__", "__interrupt__"])
        writes = data.draw(st.lists(st.tuples(channels, VALUES), max_size=3))
        task, path = data.draw(st.sampled_from(["t1", "t2"])), data.draw(st.sampled_from(["", "p"]))
        self.memory.put_writes(config, copy.deepcopy(writes), task, path)
        self.ours.put_writes(config, writes, task, path)

    @rule()
    def restart(self) -> None:
        self.ours = SessionTreeSaver(self.folder.name)

    @invariant()
    def latest_are_the_same(self) -> None:
        for space in ("", "child:1", "other"):
            config = thread(checkpoint_ns=space)
            assert _told(self.ours.get_tuple(config)) == _told(self.memory.get_tuple(config))

    @precondition(lambda self: self.configs)
    @rule(data=st.data(), limit=st.none() | st.integers(0, 3), odd=st.none() | st.integers(0, 1))
    def ask(self, data: st.DataObject, limit: int | None, odd: int | None) -> None:
        config = data.draw(st.sampled_from(self.configs))
        assert _told(self.ours.get_tuple(config)) == _told(self.memory.get_tuple(config))
        asked: Any = {"filter": None if odd is None else {"odd": odd}}
        bases: list[Any] = [None, thread(), thread_only(), config]
        for base in bases:
            for before in (None, config):
                found = list(self.ours.list(base, before=before, **asked))
                theirs = list(self.memory.list(base, before=before, **asked))
                assert sorted(map(_told, found)) == sorted(map(_told, theirs))
                first = list(self.ours.list(base, before=before, limit=limit, **asked))
                assert list(map(_told, first)) == list(map(_told, found))[:limit]
        history = {"config": config, "channels": ["messages", "n", "none"]}
        assert repr(self.ours.get_delta_channel_history(**history)) == repr(
            self.memory.get_delta_channel_history(**history)
        )


def _space(config: Any) -> str:
    return str(config["configurable"]["checkpoint_ns"])


def _told(found: CheckpointTuple | None) -> str:
    """A tuple as a text that tells types and the order of nothing but lists."""
    if found is None:
        return ""
    parts = found._asdict()
    values = sorted(found.checkpoint["channel_values"].items())
    parts["checkpoint"] = sorted({**found.checkpoint, "channel_values": values}.items())
    parts["config"] = sorted(found.config["configurable"].items())
    return repr(sorted(parts.items()))


Savers.TestCase.settings = settings(
    max_examples=amount(12),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSameAnswersAsTheSaverInMemory = pytest.mark.slow(Savers.TestCase)


class State(TypedDict, total=False):
    """The state of the graphs of these tests."""

    messages: Annotated[list[BaseMessage], add_messages]
    notes: Annotated[list[str], operator.add]


def _answer(state: State) -> State:
    number = len(state["messages"])
    return {"messages": [AIMessage("", id=f"a{number}", tool_calls=[_call(f"c{number}")])]}


def _look(state: State) -> State:
    (call,) = state["messages"][-1].tool_calls  # type: ignore[attr-defined]
    found = ToolMessage("42", tool_call_id=call["id"], name="look", id=f"r{call['id']}")
    return {"messages": [found], "notes": [f"looked for {call['id']}"]}


def _confirm(state: State) -> State:
    return {"messages": [AIMessage(f"you said {interrupt('sure?')}", id="confirmed")]}


def graph(saver: Any, *more: Any) -> Any:
    built = StateGraph(State)
    nodes = {getattr(node, "__name__", "below"): node for node in (_answer, _look, *more)}
    for name, node in nodes.items():
        built.add_node(name, node)
    names = list(nodes)
    for one, next_one in zip([START, *names], [*names, END], strict=True):
        built.add_edge(one, next_one)
    return built.compile(checkpointer=saver)


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text, id=text)]}


def test_a_run_is_a_conversation_and_time_travel_a_branch(saver: SessionTreeSaver) -> None:
    app = graph(saver)
    for prompt in ("one", "two"):
        app.invoke(ask(prompt), thread())
    old = next(found for found in app.get_state_history(thread()) if found.next == ("_look",))
    assert contents(old.values["messages"]) == ["one", "", "42", "two", ""]
    states = list(app.get_state_history(thread()))
    first = next(found for found in states if len(found.values.get("messages", [])) == 3)
    again = graph(SessionTreeSaver(saver.store)).invoke(ask("other"), first.config)
    assert contents(again["messages"]) == ["one", "", "42", "other", "", "42"]
    with Session.open(saver.file_of("one"), readonly=True) as session:
        assert [message["role"] for message in session.context().messages] == [
            *("user", "assistant", "toolResult"),
            *("user", "assistant", "toolResult"),
        ]
        prompts = [turn[0]["message"]["content"] for turn in session.turns()]
        assert prompts == ["one", "other"]
        assert len(session.branches()) == 2
        assert session.verify() == []
    app.invoke(None, old.config)  # the same step once more
    assert contents(values(saver)["messages"]) == ["one", "", "42", "two", "", "42"]


def test_messages_that_are_replaced_leave_the_context(saver: SessionTreeSaver) -> None:
    app = graph(saver)
    app.invoke(ask("one"), thread())
    app.update_state(thread(), {"messages": [RemoveMessage(id="one")]})
    app.update_state(thread(), {"messages": [HumanMessage("later", id="later")]})
    assert contents(values(saver)["messages"]) == ["", "42", "later"]
    with Session.open(saver.file_of("one"), readonly=True) as session:
        roles = [message["role"] for message in session.context().messages]
    assert roles == ["compactionSummary", "assistant", "toolResult", "user"]


def test_an_interrupted_run_goes_on_in_another_process(saver: SessionTreeSaver) -> None:
    stopped = graph(saver, _confirm).invoke(ask("one"), thread())
    assert stopped["__interrupt__"][0].value == "sure?"
    app = graph(SessionTreeSaver(saver.store), _confirm)
    assert contents(app.invoke(Command(resume="yes"), thread())["messages"])[-1] == "you said yes"
    assert app.get_state(thread()).next == ()


def test_a_subgraph_is_a_lane(saver: SessionTreeSaver) -> None:
    app = graph(saver, graph(True))
    app.invoke(ask("one"), thread())
    spaces = {found.config["configurable"]["checkpoint_ns"] for found in saver.list(thread_only())}
    assert len(spaces) == 2
    with Session.open(saver.file_of("one"), readonly=True) as session:
        lanes = {entry.lane for entry in session.entries()}
        assert len(lanes) == 2
        assert len(session.turns()) == 1


def thread_only() -> Any:
    return {"configurable": {"thread_id": "one"}}


def test_a_graph_runs_awaited(saver: SessionTreeSaver) -> None:
    async def run() -> list[Any]:
        app = graph(saver)
        await app.ainvoke(ask("one"), thread())
        history = [found async for found in app.aget_state_history(thread(), limit=2)]
        assert await saver.aget_delta_channel_history(config=thread(), channels=["none"]) == {
            "none": {"writes": []}
        }
        return history

    assert len(anyio.run(run, backend="asyncio")) == 2


def test_a_step_costs_what_is_new(saver: SessionTreeSaver) -> None:
    one = Thread(saver, "one")
    messages = [HumanMessage(f"{number} {'x' * 200}") for number in range(500)]
    notes = [{"n": number} for number in range(500)]
    same = "y" * 5000
    one.put({"messages": messages, "notes": notes, "same": same})
    file = Path(saver.file_of("one"))
    sizes = [file.stat().st_size]
    for number in range(3):
        messages, notes = [*messages, HumanMessage("new")], [*notes, {"new": number}]
        one.put({"messages": messages, "notes": notes, "same": same})
        sizes.append(file.stat().st_size)
    steps = [after - before for before, after in pairwise(sizes)]
    assert max(steps) < 2500
    assert len(values(SessionTreeSaver(saver.store))["notes"]) == 503


def test_long_values_are_blobs_that_are_stored_once(saver: SessionTreeSaver) -> None:
    text = "long " * 10_000
    one = Thread(saver, "one")
    one.put({"a": {"deep": [text]}, "messages": [HumanMessage(text)]})
    one.put({"a": {"deep": [text, 1]}, "messages": [HumanMessage(text)]})
    file = saver.file_of("one")
    assert len(list(Path(f"{file}.blobs").iterdir())) == 1
    assert Path(file).stat().st_size < 10_000
    assert values(SessionTreeSaver(saver.store)) == {
        "a": {"deep": [text, 1]},
        "messages": [HumanMessage(text)],
    }


class Reversed(CipherProtocol):
    """A cipher that only turns bytes around."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_an_encrypting_serializer_leaves_nothing_in_plain_text(tmp_path: Path) -> None:
    saver = SessionTreeSaver(tmp_path, serde=EncryptedSerializer(Reversed()))
    one = Thread(saver, "one")
    secret = {"messages": [HumanMessage("hush")], "notes": ["hush"] * 20, "n": {"hush": ["hush"]}}
    one.put(secret, told="hush")
    one.write([("notes", ["hush"])])
    one.put({**secret, "notes": ["hush"] * 21})
    assert b"hush" not in Path(saver.file_of("one")).read_bytes()
    assert values(saver) == {**secret, "notes": ["hush"] * 21}


def test_what_is_deleted_goes_to_the_trash_or_is_hidden(saver: SessionTreeSaver) -> None:
    one = Thread(saver, "one")
    for run in "aab":
        one.put({"n": run}, run_id=run)
    before = Path(saver.file_of("one")).stat().st_size
    saver.delete_for_runs(["b"])
    assert values(saver) == {"n": "a"}
    saver.prune(["one", "none"])
    assert [found.metadata["step"] for found in saver.list(thread_only())] == [2]
    assert Path(saver.file_of("one")).stat().st_size > before
    one.put({"n": "c"})
    assert values(saver) == {"n": "c"}
    saver.copy_thread("one", "two")
    assert [found.metadata["step"] for found in saver.list(thread("two"))] == [4, 2]
    (copied, *_) = [
        one for one in saver.list(None) if one.config["configurable"]["thread_id"] != "one"
    ]
    assert copied.config["configurable"]["thread_id"] == "two"
    with pytest.raises(SessionTreeError, match="is there already"):
        saver.copy_thread("one", "two")
    saver.prune(["one"], strategy="delete")
    assert saver.get_tuple(thread()) is None
    assert len(saver.store.trashed()) == 1
    with pytest.raises(UsageError, match="'keep_latest' or 'delete'"):
        saver.prune(["one"], strategy="all")


@for_each("is_awaited", [False, True])
def test_a_run_whose_thread_is_deleted_does_not_bring_it_back(
    tmp_path: Path, is_awaited: bool
) -> None:
    saver = SessionTreeSaver(tmp_path)

    def delete(state: Any) -> Any:
        SessionTreeSaver(tmp_path).delete_thread("one")  # as another process does
        return {}

    app = graph(saver, delete)
    if is_awaited:
        anyio.run(partial(app.ainvoke, ask("gone"), thread(), durability="sync"), backend="asyncio")
    else:
        app.invoke(ask("gone"), thread(), durability="sync")
    assert saver.get_tuple(thread()) is None
    assert not Path(saver.file_of("one")).exists()
    graph(saver).invoke(ask("new"), thread())
    assert contents(values(saver)["messages"]) == ["new", "", "42"]


def test_what_is_late_for_a_deleted_thread_is_dropped_also_beside_a_new_one(
    saver: SessionTreeSaver,
) -> None:
    late = Thread(saver, "one")
    late.put({"n": "old"})
    saver.delete_thread("one")
    late.put({"n": "late"})
    late.put({"n": "later"})
    assert saver.get_tuple(thread()) is None
    Thread(saver, "one").put({"n": "new"})
    late.put({"n": "latest"})
    assert [found.checkpoint["channel_values"] for found in saver.list(thread_only())] == [
        {"n": "new"}
    ]


@for_each("id", ["", "../../etc/passwd", "a/b\0c\nd", "x" * 10_000, "ä" * 300])
def test_any_text_names_a_thread_a_namespace_and_a_checkpoint(
    id: str, saver: SessionTreeSaver
) -> None:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = f"id {id}"
    told: Any = {"source": "input", "step": -1, "parents": {}}
    config = saver.put(thread(id, checkpoint_ns=id), checkpoint, told, {})
    saver.put_writes(config, [("n", 1)], id, id)
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint == checkpoint
    assert found.pending_writes == [(id, "n", 1)]
    assert Path(saver.file_of(id)).parent == Path(saver.folder)


def test_what_no_serializer_writes_is_refused_and_nothing_is_added(saver: SessionTreeSaver) -> None:
    one = Thread(saver, "one")
    one.put({"n": 1})
    before = Path(saver.file_of("one")).read_bytes()
    with pytest.raises(SessionTreeError, match="cannot write a value of type int"):
        one.put({"n": 1 << 64})
    with pytest.raises(SessionTreeError, match="cannot write a value of type int"):
        one.write([("n", 1 << 64)])
    assert Path(saver.file_of("one")).read_bytes() == before


def test_writes_that_come_before_their_checkpoint_survive_a_put_that_fails(
    saver: SessionTreeSaver,
) -> None:
    one = Thread(saver, "one")
    one.put({"n": 0})
    checkpoint = empty_checkpoint()
    told: Any = {"source": "loop", "step": 2, "parents": {}}
    own = thread(checkpoint_id=checkpoint["id"])
    saver.put_writes(own, [("n", 1)], "task")
    for value in (1 << 64, 2):
        checkpoint["channel_values"], versions = {"n": value}, {"n": 7}
        checkpoint["channel_versions"] = dict(versions)
        if value == 2:
            saver.put(one.config, checkpoint, told, dict(versions))
        else:
            with pytest.raises(SessionTreeError, match="cannot write"):
                saver.put(one.config, checkpoint, told, dict(versions))
    for each in (saver, SessionTreeSaver(saver.store)):
        found = each.get_tuple(own)
        assert found is not None
        assert found.pending_writes == [("task", "n", 1)]


def test_a_value_whose_checkpoint_is_lost_is_named(saver: SessionTreeSaver) -> None:
    one = Thread(saver, "one")
    kept = "kept"
    one.put({"n": kept})
    one.put({"n": kept, "m": 1})
    file = Path(saver.file_of("one"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(CorruptionError, match="needs a value of one that is not in the file"):
        SessionTreeSaver(saver.store).get_tuple(thread())


def test_after_a_cut_anywhere_the_first_checkpoints_are_there(saver: SessionTreeSaver) -> None:
    one = Thread(saver, "one")
    file = Path(saver.file_of("one"))
    messages = [HumanMessage("a")]
    one.put({"messages": messages, "n": 1})
    before = file.stat().st_size
    config = one.config
    longer = [*messages, AIMessage("b"), HumanMessage("c")]
    one.put({"messages": longer, "n": 1})
    whole = file.read_bytes()
    for size in [*range(before, len(whole), 23), len(whole)]:
        file.write_bytes(whole[:size])
        fresh = SessionTreeSaver(saver.store)
        found = contents(values(fresh)["messages"])
        assert found in (["a"], ["a", "b", "c"])
        other = Thread(fresh, "one")
        other.config = config
        other.put({"messages": [*messages, HumanMessage("d")]})
        assert contents(values(fresh)["messages"]) == ["a", "d"]
        assert contents(values(fresh, config)["messages"]) == ["a"]


@pytest.mark.slow
@in_soak("writers", 3, 8)
def test_processes_on_one_thread_lose_nothing(tmp_path: Path, writers: int) -> None:
    write = partial(langgraph_writer.main, tmp_path, "one")
    together(*(partial(write, str(number), 5) for number in range(writers)))
    found = list(SessionTreeSaver(tmp_path).list(thread_only()))
    steps = [contents(one.checkpoint["channel_values"]["messages"]) for one in found]
    assert sorted(steps) == sorted(
        [f"{name} {step}" for step in range(last + 1)]
        for name in range(writers)
        for last in range(5)
    )
    assert all(
        [write[2] for write in one.pending_writes or []] == [messages[-1]]
        for one, messages in zip(found, steps, strict=True)
    )


def test_an_awaited_method_is_the_one_of_a_subclass(tmp_path: Path) -> None:
    class Noting(SessionTreeSaver):
        def delete_thread(self, thread_id: str) -> None:
            deleted.append(thread_id)

    deleted: list[str] = []
    anyio.run(Noting(tmp_path).adelete_thread, "one")
    assert deleted == ["one"]
