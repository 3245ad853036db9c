"""Transcripts of Claude Code in sessions: what the SDK's own store does, and what files add."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

import claude_agent_sdk as sdk
from claude_agent_sdk.testing import run_session_store_conformance

from sessiontree import (
    CorruptionError,
    EntryError,
    Session,
    SessionTreeError,
    StorageError,
    Store,
    UsageError,
)
from sessiontree.adapters.claude_agent_sdk import SessionTreeStore
from sessiontree.engine.writer import EntryWriter
from tests.adapters import claude_writer
from tests.adapters.claude_twin import Twin
from tests.support.children import together
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

PROJECT: Final = sdk.project_key_for_directory("/project")
ID: Final = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
KEY: Final[Any] = {"project_key": PROJECT, "session_id": ID}
AGENT: Final[Any] = {**KEY, "subpath": "subagents/agent-a1"}

TEXTS: Final = st.text(max_size=8)
"""Texts, lone surrogates included."""

UUIDS: Final = st.sampled_from([f"{n:08}-0000-4000-8000-000000000000" for n in range(30)])
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
).filter(
    lambda value: json.loads(json.dumps(value)) == value and "Infinity" not in json.dumps(value)
)
BLOCKS: Final = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(
        lambda id: {"type": "tool_use", "id": id, "name": "Read", "input": {}},
        st.sampled_from("abc"),
    ),
    st.builds(
        lambda id: {"type": "tool_result", "tool_use_id": id, "content": "x"},
        st.sampled_from("abc"),
    ),
)
MESSAGES: Final = st.builds(
    lambda role, content, id: {"role": role, "content": content, "id": id},
    st.sampled_from(["user", "assistant"]),
    TEXTS | st.lists(BLOCKS, max_size=3),
    st.sampled_from(["m1", "m2", "m3"]),
)
LINES: Final = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant"])},
    optional={
        "uuid": UUIDS,
        "parentUuid": st.none() | UUIDS,
        "message": MESSAGES,
        "timestamp": st.sampled_from(["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"]),
        "sessionId": st.sampled_from([ID, "other"]),
        "isSidechain": st.booleans(),
        "isMeta": st.booleans(),
        "isCompactSummary": st.booleans(),
        "cwd": st.just("/project"),
        "toolUseResult": VALUES,
    },
)
MARKS: Final = st.builds(
    lambda uuid, above, kept: {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": uuid,
        "parentUuid": None,
        "logicalParentUuid": above,
        "compactMetadata": {"preservedMessages": {"uuids": [kept]}},
    },
    UUIDS,
    UUIDS,
    UUIDS,
)
SIDE: Final = st.one_of(
    st.builds(lambda title: {"type": "custom-title", "customTitle": title}, TEXTS),
    st.builds(
        lambda uuid, tag: {"type": "tag", "tag": tag, "uuid": uuid}, UUIDS, st.sampled_from("ab")
    ),
    st.builds(
        lambda cost: {"type": "cost-state", "modelUsage": {"m": {"costUSD": cost}}},
        st.integers(0, 3),
    ),
    st.just({"type": "mode", "mode": "normal"}),
    st.just({"type": "agent_metadata", "toolUseId": "a"}),
    st.builds(lambda uuid: {"type": "fork-context-ref", "parentLastUuid": uuid}, UUIDS),
    st.builds(lambda uuid: {"type": "progress", "uuid": uuid, "parentUuid": uuid}, UUIDS),
    st.dictionaries(TEXTS | st.sampled_from(["type", "uuid", "lane", "metadata"]), VALUES),
)
BATCHES: Final = st.lists(LINES | LINES | MARKS | SIDE, min_size=1, max_size=5)


def said(text: str, number: int, above: int | None = None) -> dict[str, Any]:
    """A line of the user."""
    return {
        "type": "user",
        "uuid": f"{number:08}-1111-4000-8000-000000000000",
        "parentUuid": None if above is None else f"{above:08}-1111-4000-8000-000000000000",
        "sessionId": ID,
        "cwd": "/project",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": text},
    }


def side(**keys: Any) -> dict[str, Any]:
    """A line without a uuid."""
    return {"type": "mode", "mode": "normal", **keys}


@pytest.fixture
def store(tmp_path: Path) -> SessionTreeStore:
    return SessionTreeStore(tmp_path)


@pytest.fixture
def session_file(store: SessionTreeStore) -> Path:
    return Path(store.file_of(PROJECT, ID))


def append(store: Any, *entries: Any, key: Any = KEY) -> None:
    anyio.run(store.append, key, list(entries))


def load(store: Any, key: Any = KEY) -> Any:
    return anyio.run(store.load, key)


def test_the_suite_of_the_sdk_passes(tmp_path: Path) -> None:
    names = iter(range(1000))
    anyio.run(run_session_store_conformance, lambda: SessionTreeStore(tmp_path / str(next(names))))


class Transcripts(RuleBasedStateMachine):
    """The methods of a store, and the SDK's functions over it, compared at each step."""

    KEYS: Final = tuple(
        {"project_key": project, "session_id": session, **subpath}
        for project in (PROJECT, "a/b")
        for session in (ID, "7" + ID[1:])
        for subpath in ({}, {}, {"subpath": "subagents/agent-a1"}, {"subpath": "x/agent-a1"})
    )

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.twin = Twin(SessionTreeStore(self.folder.name))

    def teardown(self) -> None:
        self.folder.cleanup()

    def run(self, call: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        async def awaited() -> Any:
            try:
                return await call(*args, **named)
            except (SessionTreeError, AssertionError):
                raise
            except Exception:
                if call.__module__.startswith("claude_agent_sdk"):  # it cannot read such lines
                    return None
                raise

        return anyio.run(awaited)

    @rule(key=st.sampled_from(KEYS), batch=BATCHES)
    def append(self, key: Any, batch: list[Any]) -> None:
        self.run(self.twin.append, key, batch)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: Any) -> None:
        self.run(self.twin.delete, key)

    @rule(number=st.sampled_from([ID, "7" + ID[1:]]), title=st.sampled_from(["one", "two"]))
    def rename(self, number: str, title: str) -> None:
        self.run(sdk.rename_session_via_store, self.twin, number, title, "/project")

    @rule(number=st.sampled_from([ID, "7" + ID[1:]]), tag=st.none() | st.just("a"))
    def tag(self, number: str, tag: str | None) -> None:
        self.run(sdk.tag_session_via_store, self.twin, number, tag, "/project")

    @rule(number=st.sampled_from([ID, "7" + ID[1:]]))
    def fork(self, number: str) -> None:
        forked = self.run(sdk.fork_session_via_store, self.twin, number, "/project")
        if forked is not None:
            self.run(self.twin.load, {"project_key": PROJECT, "session_id": forked.session_id})

    @rule(number=st.sampled_from([ID, "7" + ID[1:]]))
    def delete_by_the_sdk(self, number: str) -> None:
        self.run(sdk.delete_session_via_store, self.twin, number, "/project")

    @rule()
    def forget_the_indexes(self) -> None:
        self.twin.ours = SessionTreeStore(self.folder.name)

    @rule()
    def ask_the_sdk(self) -> None:
        self.run(sdk.list_sessions_from_store, self.twin, "/project")
        for session in (ID, "7" + ID[1:]):
            self.run(sdk.get_session_info_from_store, self.twin, session, "/project")
            self.run(sdk.get_session_messages_from_store, self.twin, session, "/project")
            agents = self.run(sdk.list_subagents_from_store, self.twin, session, "/project")
            for agent in agents or ():
                ask = sdk.get_subagent_messages_from_store
                self.run(ask, self.twin, session, agent, "/project")

    @invariant()
    def every_answer_is_the_same(self) -> None:
        for project in (PROJECT, "a/b"):
            self.run(self.twin.list_sessions, project)
            self.run(self.twin.list_session_summaries, project)
        for key in self.KEYS:
            self.run(self.twin.load, key)
            self.run(self.twin.list_subkeys, key)

    @invariant()
    def every_file_is_sound(self) -> None:
        for file in Path(self.folder.name).glob("claude-agent-sdk/*/*.jsonl"):
            with Session.open(file, readonly=True) as session:
                assert not session.verify()
                session.context()


TestTranscripts = Transcripts.TestCase
TestTranscripts.settings = settings(
    max_examples=amount(8),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# A retried batch

BATCH: Final = [side(), said("a", 1), side(), side(mode="plan"), said("b", 2, 1), side()]


@pytest.mark.parametrize("key", [KEY, AGENT])
def test_a_batch_that_is_given_again_is_stored_once(key: Any, store: SessionTreeStore) -> None:
    append(store, said("before", 0), side(), key=key)
    append(store, *BATCH, key=key)
    append(store, *BATCH, key=key)
    append(store, *BATCH[1:4], key=key)
    assert load(store, key) == [said("before", 0), side(), *BATCH]


def test_a_line_without_a_uuid_that_comes_again_in_a_new_batch_is_kept(
    store: SessionTreeStore,
) -> None:
    append(store, side(), side())
    append(store, side())
    append(store, side(), said("a", 1), side())
    assert load(store) == [side(), side(), side(), side(), said("a", 1), side()]


def test_a_part_of_a_transcript_that_was_missed_is_completed(store: SessionTreeStore) -> None:
    lines = [said("a", 1), side(n=1), said("b", 2, 1), side(n=2), said("c", 3, 2), side(n=3)]
    append(store, *lines[:1])
    append(store, *lines[4:])
    for _ in range(2):
        append(store, *lines[:3])
        append(store, *lines[3:])
    stored = load(store)
    assert stored == [lines[0], *lines[4:], *lines[1:4]]


@pytest.mark.parametrize("batch", [[side()], BATCH])
@pytest.mark.parametrize("key", [KEY, AGENT])
def test_a_write_that_failed_when_all_was_written_is_not_repeated(
    key: Any, batch: Any, store: SessionTreeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, side(), key=key)
    written = EntryWriter.write_lines

    def fail(writer: EntryWriter, lines: Any) -> None:
        written(writer, lines)
        raise StorageError("no more", "")

    with monkeypatch.context() as patch:
        patch.setattr(EntryWriter, "write_lines", fail)
        with pytest.raises(StorageError):
            append(store, *batch, key=key)
    append(store, *batch, key=key)
    assert load(store, key) == [side(), *batch]
    append(store, side(), key=key)
    assert load(store, key) == [side(), *batch, side()]


# Crashes and several writers


@for_each("key", [KEY, AGENT])
@in_soak("every", 31, 3)
def test_after_a_cut_anywhere_the_same_batch_completes_the_transcript(
    key: Any, tmp_path: Path, every: int
) -> None:
    costs = {"type": "cost-state", "modelUsage": {"m": {"costUSD": 1.5}}}
    batch = [*BATCH, costs, {"type": "custom-title", "customTitle": "T"}, side()]
    store = SessionTreeStore(tmp_path)
    append(store, said("before", 0), side(), key=key)
    file = Path(store.file_of(PROJECT, ID))
    before = file.stat().st_size
    append(store, *batch, key=key)
    whole = file.read_bytes()
    expected = load(store, key)
    summary = anyio.run(store.list_session_summaries, PROJECT)
    for size in range(before, len(whole), every):
        file.write_bytes(whole[:size])
        left = load(store, key)
        assert left == expected[: len(left)], size
        store = store if size % 2 else SessionTreeStore(tmp_path)
        append(store, *batch, key=key)
        assert load(store, key) == expected, size
        (told, again) = (
            s[0]["data"] if s else None
            for s in (summary, anyio.run(store.list_session_summaries, PROJECT))
        )
        assert told == again
        with Session.open(file, readonly=True) as session:
            assert session.stats().usage.cost == (1.5 if key is KEY else 0)


def test_a_summary_has_the_lines_that_a_crash_left(
    store: SessionTreeStore, session_file: Path
) -> None:
    append(store, said("a", 1))
    append(store, {"type": "custom-title", "customTitle": "T"})
    whole = session_file.read_bytes()
    session_file.write_bytes(whole[: whole.rindex(b'{"type":"session_info"') + 9])
    (summary,) = anyio.run(store.list_session_summaries, PROJECT)
    assert (summary["data"]["custom_title"], summary["data"]["first_prompt"]) == ("T", "a")
    (listed,) = anyio.run(store.list_sessions, PROJECT)
    assert listed["mtime"] == summary["mtime"]


def test_a_list_of_sessions_asks_no_method_of_a_subclass(tmp_path: Path) -> None:
    class WithoutSummaries(SessionTreeStore):
        async def list_session_summaries(self, project_key: str) -> Any:
            raise NotImplementedError

    store = WithoutSummaries(tmp_path)
    append(store, said("a", 1))
    (listed,) = anyio.run(store.list_sessions, PROJECT)
    assert listed["session_id"] == KEY["session_id"]


def test_times_only_grow_whatever_the_clock_says(
    store: SessionTreeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, said("a", 1))
    (before,) = anyio.run(store.list_sessions, PROJECT)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    append(store, said("b", 2, 1))
    (after,) = anyio.run(store.list_sessions, PROJECT)
    assert after["mtime"] == before["mtime"] + 1


@pytest.mark.slow
@in_soak("writers", 3, 8)
def test_processes_on_one_session_lose_nothing_and_repeat_nothing(
    tmp_path: Path, writers: int
) -> None:
    together(
        *(
            partial(anyio.run, claude_writer.main, str(tmp_path), str(name), 5)
            for name in range(writers)
        )
    )
    stored = load(SessionTreeStore(tmp_path), claude_writer.KEY)
    assert len(stored) == writers * 5 * 3
    for name in range(writers):
        own = [line for line in stored if _name_of(line) == str(name)]
        assert own == [line for n in range(5) for line in claude_writer.batch(str(name), n)]


def _name_of(line: Any) -> str:
    return str(line.get("uuid") or line["mode"]).replace("-", " ").split()[0]


@pytest.mark.slow
@in_soak("kills", 2, 10)
def test_what_a_killed_process_was_told_is_stored_is_stored_once(
    tmp_path: Path, kills: int
) -> None:
    random = Random(7)
    store = SessionTreeStore(tmp_path)
    expected: list[Any] = []
    for name in map(str, range(kills)):
        words = [sys.executable, "-m", "tests.adapters.claude_writer", str(tmp_path), name, "1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            told = [running.stdout.readline() for _ in range(random.randint(1, 20))]
            time.sleep(random.random() / 50)
            running.send_signal(signal.SIGKILL)
            told += running.stdout.readlines()
        last = int(told[-1])
        for number in range(last + 2):  # the one in the middle of which it was killed, too
            append(store, *claude_writer.batch(name, number), key=claude_writer.KEY)
            expected += claude_writer.batch(name, number)
        assert load(store, claude_writer.KEY) == expected


# What a session of it is


def of_a_tool(uuid: str, above: str, *blocks: Any, id: str = "", **more: Any) -> dict[str, Any]:
    role = "assistant" if id else "user"
    message: dict[str, Any] = {"role": role, "content": list(blocks)}
    if id:
        message |= {"id": id, "model": "claude-opus-4-6"}
    kept = {"uuid": uuid, "parentUuid": above, "sessionId": ID, "message": message}
    return {"type": role, **kept, "timestamp": f"2026-01-01T00:00:0{len(uuid)}.000Z", **more}


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": id}}


def answer(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}


def test_parallel_calls_are_one_path_as_the_reader_of_transcripts_has_it(
    store: SessionTreeStore, session_file: Path, tmp_path: Path
) -> None:
    lines = [
        said("go", 1),
        of_a_tool("a", said("go", 1)["uuid"], call("1"), id="m1"),
        of_a_tool("bb", "a", call("2"), id="m1"),
        side(),
        of_a_tool("ccc", "a", answer("1")),
        {"type": "attachment", "uuid": "hook", "parentUuid": "ccc", "attachment": {}},
        of_a_tool("dddd", "bb", answer("2")),
        of_a_tool("eeeee", "dddd", {"type": "text", "text": "done"}, id="m2"),
        of_a_tool("ffffff", "bb", {"type": "text", "text": "instead"}, id="m3"),
    ]
    for line in lines[:4], lines[4:7], lines[7:8]:
        append(store, *line)
    transcript = tmp_path / f"{ID}.jsonl"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines[:8]))
    with Session.open(session_file, readonly=True) as ours:
        path = [entry.uuid for entry in ours.context().entries]
        assert path == [said("go", 1)["uuid"], "a", "bb", "ccc", "dddd", "eeeee"]
        with Session.open(transcript, readonly=True) as theirs:
            assert ours.context().messages == theirs.context().messages
    append(store, *lines[8:])
    with Session.open(session_file, readonly=True) as ours:
        assert len(ours.branches()) == 2
        assert ours.context().messages[-1]["content"][0]["text"] == "instead"


def test_a_line_beside_the_conversation_does_not_move_the_leaf(
    store: SessionTreeStore, session_file: Path
) -> None:
    late = {"type": "progress", "uuid": "late", "parentUuid": said("", 1)["uuid"], "data": {}}
    append(store, said("a", 1), said("b", 2, 1), late)
    with Session.open(session_file, readonly=True) as session:
        assert [message["content"] for message in session.context().messages] == ["a", "b"]
    assert load(store) == [said("a", 1), said("b", 2, 1), late]


def test_a_compaction_is_one_and_keeps_what_its_mark_names(
    store: SessionTreeStore, session_file: Path
) -> None:
    first, second = said("a", 1), said("b", 2, 1)
    mark = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "mark",
        "parentUuid": None,
        "logicalParentUuid": second["uuid"],
        "compactMetadata": {"preTokens": 9, "preservedMessages": {"uuids": [second["uuid"]]}},
    }
    summary = {**said("They talked.", 3), "parentUuid": "mark", "isCompactSummary": True}
    lines = [first, second, mark, summary, said("c", 4, 3)]
    append(store, *lines)
    with Session.open(session_file, readonly=True) as session:
        (compaction,) = session.find(type="compaction")
        assert (compaction["summary"], compaction["tokensBefore"]) == ("They talked.", 9)
        assert [entry.uuid for entry in session.context().entries][-2:] == [
            second["uuid"],
            said("c", 4)["uuid"],
        ]
    assert load(store) == lines


def test_a_subagent_is_a_lane_that_its_call_started(
    store: SessionTreeStore, session_file: Path
) -> None:
    append(store, said("go", 1), of_a_tool("a", said("go", 1)["uuid"], call("t1"), id="m1"))
    about = {"type": "agent_metadata", "agentType": "Explore", "toolUseId": "t1"}
    own = {**said("look", 2), "isSidechain": True, "agentId": "a1"}
    append(store, about, own, key=AGENT)
    with Session.open(session_file, readonly=True, lane="agent-a1") as lane:
        assert [message["content"] for message in lane.context().messages] == ["look"]
        started = next(entry for entry in lane.entries() if entry.lane == "agent-a1")
        assert started["data"]["calledBy"] == "a"
    assert load(store, AGENT) == [about, own]


def test_a_forked_agent_goes_on_from_the_conversation(
    store: SessionTreeStore, session_file: Path
) -> None:
    append(store, said("go", 1))
    fork = {"type": "fork-context-ref", "parentLastUuid": said("", 1)["uuid"]}
    append(store, fork, said("look", 2), key=AGENT)
    append(store, {**said("new", 3), "parentUuid": None}, key=AGENT)
    with Session.open(session_file, readonly=True, lane="agent-a1") as lane:
        assert [message["content"] for message in lane.context().messages] == ["go", "new"]


def test_all_that_works_on_sessions_works_on_it(
    store: SessionTreeStore, session_file: Path, tmp_path: Path
) -> None:
    costs = {"type": "cost-state", "modelUsage": {"m": {"costUSD": 1.5}}}
    append(
        store,
        said("find the needle", 1),
        costs,
        {**side(), "type": "custom-title", "customTitle": "Needles"},
    )
    large = said("x" * 300_000, 2, 1)
    append(store, large)
    (hit,) = Store(tmp_path).search("needle", ignore_case=False)
    assert hit.file == str(session_file)
    (info,) = Store(tmp_path).list()
    assert (info.name, info.made_by, info.id, info.cwd) == (
        "Needles",
        "claude-code",
        ID,
        "/project",
    )
    assert session_file.stat().st_size < 10_000  # the large text is a blob
    assert load(store)[-1] == large
    with Session.open(session_file, readonly=True) as session:
        assert session.stats().usage.cost == 1.5
        fork = session.fork(tmp_path / "fork.jsonl")
        assert "needle" in "".join(session.to_markdown())
        assert session.convert("claude-code", tmp_path / "out").file
    assert fork


def test_what_a_person_adds_to_the_file_is_no_line_of_the_transcript(
    store: SessionTreeStore, session_file: Path
) -> None:
    append(store, said("a", 1))
    with Session.open(session_file) as session:
        session.append_message({"role": "user", "content": "mine"})
        session.rename("My name")
        session.label("@", "here")
    append(store, said("b", 2, 1), side())
    assert load(store) == [said("a", 1), said("b", 2, 1), side()]
    with Session.open(session_file, readonly=True) as session:
        assert session.name == "My name"
        assert [message["content"] for message in session.context().messages] == ["a", "b"]


def test_a_deleted_session_is_in_the_trash_and_its_id_is_free(
    store: SessionTreeStore, session_file: Path, tmp_path: Path
) -> None:
    for text in "ab":
        append(store, said(text, 1))
        append(store, said(text, 2), key=AGENT)
        anyio.run(store.delete, KEY)
        assert (load(store), load(store, AGENT)) == (None, None)
    one, _ = Store(tmp_path).trashed()
    Store(tmp_path).restore(one.file)
    assert load(store) in ([said("a", 1)], [said("b", 1)])


def test_a_deleted_subagent_stays_in_the_file(store: SessionTreeStore, session_file: Path) -> None:
    for text in "ab":
        append(store, said(text, 2), key=AGENT)
        anyio.run(store.delete, AGENT)
        assert load(store, AGENT) is None
    append(store, said("c", 2), key=AGENT)
    assert load(store, AGENT) == [said("c", 2)]
    assert anyio.run(store.list_subkeys, KEY) == [AGENT["subpath"]]
    text = session_file.read_text()
    assert all(f'"content":"{one}"' in text for one in "abc")


def test_a_session_is_imported_from_the_disk_and_again(
    store: SessionTreeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "config" / "projects" / PROJECT
    agents = folder / ID / "subagents"
    agents.mkdir(parents=True)
    lines = [side(), said("a", 1), side(), said("b", 2, 1), side(mode="x")]
    (folder / f"{ID}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (agents / "agent-a1.jsonl").write_text(json.dumps(said("look", 3)) + "\n")
    (agents / "agent-a1.meta.json").write_text('{"agentType":"Explore"}')
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))

    async def imported() -> None:
        await sdk.import_session_to_store(ID, store, directory="/project", batch_size=2)

    anyio.run(imported)
    assert load(store) == lines
    about = {"type": "agent_metadata", "agentType": "Explore"}
    assert load(store, AGENT) == [said("look", 3), about]
    anyio.run(imported)
    assert [line for line in load(store) if "uuid" in line] == [lines[1], lines[3]]


# Bad input


@pytest.mark.parametrize(
    "text", ["", "../../etc/passwd", "a/b\0c\nd", "x" * 10_000, ".", "..", "CON", "ä" * 300, "-"]
)
def test_any_text_names_a_session_and_a_subagent(
    text: str, store: SessionTreeStore, tmp_path: Path
) -> None:
    key: Any = {"project_key": text, "session_id": text}
    append(store, said("a", 1), key=key)
    assert load(store, key) == [said("a", 1)]
    assert [one["session_id"] for one in anyio.run(store.list_sessions, text)] == [text]
    assert Path(store.file_of(text, text)).parents[1] == tmp_path / "claude-agent-sdk"
    if text:
        append(store, said("b", 1), key={**key, "subpath": text})
        assert load(store, {**key, "subpath": text}) == [said("b", 1)]
        assert anyio.run(store.list_subkeys, key) == [text]


def test_an_empty_subpath_is_refused(store: SessionTreeStore) -> None:
    with pytest.raises(UsageError, match="leave it out"):
        append(store, said("a", 1), key={**KEY, "subpath": ""})


@for_each("value", [float("nan"), b"bytes", {1: 2}, object(), {"a": {"b": set()}}])
def test_a_value_that_json_cannot_carry_is_named_and_nothing_is_written(
    value: Any, store: SessionTreeStore
) -> None:
    with pytest.raises(EntryError, match="not JSON"):
        append(store, said("a", 1), side(value=value))
    assert load(store) is None


def test_an_entry_that_is_no_object_is_refused(store: SessionTreeStore) -> None:
    with pytest.raises(EntryError, match="an entry is an object, not list"):
        append(store, [1])


def test_lone_surrogates_and_large_numbers_come_back(store: SessionTreeStore) -> None:
    lines = [said("cut \ud83d", 1), side(text="\udc00", number=10**30, x=[{"\ud800": 1.5e300}])]
    append(store, *lines)
    append(store, *lines)
    assert load(store) == lines


def test_a_file_that_is_no_session_is_neither_deleted_nor_listed(
    store: SessionTreeStore, session_file: Path
) -> None:
    session_file.parent.mkdir(parents=True)
    for content in (b'{"type":"user","sessionId":"s","uuid":"u"}\n', b"\x93\n", b""):
        session_file.write_bytes(content)
        with pytest.raises(SessionTreeError, match=session_file.name):
            anyio.run(store.delete, KEY)
        with pytest.warns(match=session_file.name):
            assert anyio.run(store.list_sessions, PROJECT) == []
        assert session_file.read_bytes() == content


def test_a_session_of_another_key_is_refused(store: SessionTreeStore, session_file: Path) -> None:
    session_file.parent.mkdir(parents=True)
    Session.create(session_file).close()
    with pytest.raises(SessionTreeError, match="is not a session that claude-agent-sdk stored"):
        append(store, said("a", 1))


@pytest.mark.parametrize("damaged", ["a bit", "a line"])
def test_a_damaged_transcript_is_not_resumed_and_a_repaired_one_is(
    damaged: str, store: SessionTreeStore, session_file: Path
) -> None:
    append(store, said("a", 1), said("b", 2, 1), said("c", 3, 2))
    lines = session_file.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"b"', b'"B"') if damaged == "a bit" else b"[x\n"
    session_file.write_bytes(b"".join(lines))
    for one in (store, SessionTreeStore(store.store)):
        with pytest.raises(CorruptionError, match=rf"{session_file.name}.*sessiontree repair"):
            load(one)


def test_a_cancelled_call_is_done_or_not_begun(store: SessionTreeStore) -> None:
    async def talk() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.append(KEY, cast(Any, [said("a", 1)]))
        assert await store.load(KEY) in (None, [said("a", 1)])

    anyio.run(talk)


def test_the_answers_do_not_share_their_values(store: SessionTreeStore) -> None:
    append(store, said("a", 1))
    load(store)[0]["message"]["content"] = "changed"
    assert load(store) == [said("a", 1)]
