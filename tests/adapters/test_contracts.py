"""Each adapter keeps the contracts of sessions and writers, and what breaks a rule is found."""

from __future__ import annotations

import importlib
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import anyio
import pytest

from sessiontree import Session, SessionTreeError, UsageError
from sessiontree.adapters.base import SessionFiles, UnknownSdkError
from sessiontree.storage.fs import CREATE
from sessiontree.storage.log import FileLog
from sessiontree.storage.memory import MemoryFiles
from tests.contracts import check_cuts, check_log, check_session
from tests.support.soak import in_soak
from tests.support.table import for_each

T = TypeVar("T")
Call = Callable[[], Coroutine[Any, Any, T]]
Adapter = tuple[Call[None], Call[list[Any]]]


def pydantic_ai(folder: Path) -> Adapter:
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

    store = SessionTreeConversationStore(folder)

    async def write() -> None:
        conversation = await store.load("one") or Conversation(conversation_id="one")
        conversation.messages.append(ModelRequest(parts=[UserPromptPart("ask")]))
        conversation.messages.append(ModelResponse(parts=[TextPart("told")]))
        await store.save(conversation)

    async def read() -> list[Any]:
        conversation = await store.load("one")
        return [] if conversation is None else list(conversation.messages)

    return write, read


def claude_agent_sdk(folder: Path) -> Adapter:
    pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")
    from sessiontree.adapters.claude_agent_sdk import SessionTreeStore

    store = SessionTreeStore(folder)
    key: Any = {"project_key": "p", "session_id": "5e5510"}
    uuids: list[str] = []

    async def write() -> None:
        lines: list[Any] = []
        for role in ("user", "assistant"):
            uuids.append(str(uuid.uuid4()))
            message = {"role": role, "content": [{"type": "text", "text": role}]}
            above = uuids[-2] if len(uuids) > 1 else None
            line = {"type": role, "uuid": uuids[-1], "parentUuid": above, "message": message}
            lines.append(
                {**line, "sessionId": key["session_id"], "timestamp": "2026-01-01T00:00:00Z"}
            )
        await store.append(key, lines)

    async def read() -> list[Any]:
        return list(await store.load(key) or [])

    return write, read


def openai_agents(folder: Path) -> Adapter:
    pytest.importorskip("agents", reason="openai-agents is not installed")
    from sessiontree.adapters.openai_agents import SessionTreeSession

    session = SessionTreeSession("one", folder)
    items: list[Any] = [
        {"role": "user", "content": "ask"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
    ]

    async def read() -> list[Any]:
        return list(await session.get_items())

    return lambda: session.add_items(items), read


def google_adk(folder: Path) -> Adapter:
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    from google.adk.events import Event, EventActions
    from google.genai import types

    from sessiontree.adapters.google_adk import SessionTreeSessionService

    service = SessionTreeSessionService(folder)
    names: Any = {"app_name": "app", "user_id": "me", "session_id": "one"}

    async def write() -> None:
        session = await service.get_session(**names) or await service.create_session(**names)
        parts = [types.Part(text="told"), types.Part(text="thought", thought=True)]
        actions = EventActions(state_delta={"n": len(session.events)})
        content = types.Content(role="model", parts=parts)
        await service.append_event(session, Event(author="a", content=content, actions=actions))

    async def read() -> list[Any]:
        session = await service.get_session(**names)
        return [] if session is None else session.events

    return write, read


def langgraph(folder: Path) -> Adapter:
    pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint

    from sessiontree.adapters.langgraph import SessionTreeSaver

    saver = SessionTreeSaver(folder)
    thread: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}

    async def write() -> None:
        found = await saver.aget_tuple(thread)
        before = found.checkpoint["channel_values"]["messages"] if found else []
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"]["messages"] = [*before, HumanMessage("ask"), AIMessage("told")]
        checkpoint["channel_versions"]["messages"] = len(before)
        told: Any = {"source": "loop", "step": len(before), "parents": {}}
        config = found.config if found else thread
        await saver.aput(config, checkpoint, told, {"messages": len(before)})

    async def read() -> list[Any]:
        found = await saver.aget_tuple(thread)
        return found.checkpoint["channel_values"]["messages"] if found else []

    return write, read


ADAPTERS: Final = (pydantic_ai, claude_agent_sdk, openai_agents, google_adk, langgraph)


@pytest.mark.slow
@for_each("adapter", ADAPTERS)
@in_soak("step", 173, 23)
def test_each_adapter_writes_sessions_that_a_cut_does_not_break(
    adapter: Callable[[Path], Adapter], tmp_path: Path, step: int
) -> None:
    giving, reading = adapter(tmp_path)
    write, read = ran(giving), ran(reading)
    write()
    (file,) = tmp_path.rglob("*.jsonl")
    check_session(file)
    before = read()

    def write_after() -> None:
        found = read()
        write()
        assert read()[: len(found)] == found, "what a cut left is still there after the next write"

    is_by_line = adapter in (openai_agents, claude_agent_sdk)  # a batch may be kept in part
    first = len(before)
    allowed = (lambda found: found[:first] == before) if is_by_line else None
    check_cuts(file, write_after, read, allowed=allowed, step=step)
    check_session(file)


@for_each("adapter", ADAPTERS)
def test_a_read_takes_no_lock_and_makes_no_file(
    adapter: Callable[[Path], Adapter], tmp_path: Path
) -> None:
    giving, reading = adapter(tmp_path)
    ran(giving)()
    for lock in tmp_path.rglob("*.lock"):
        lock.unlink()
    before = sorted(tmp_path.rglob("*"))
    assert ran(reading)()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@for_each("adapter", ADAPTERS)
def test_a_write_that_is_cancelled_while_it_waits_is_whole_or_not_there(
    adapter: Callable[[Path], Adapter], tmp_path: Path
) -> None:
    write, read = adapter(tmp_path)
    ran(write)()
    before = len(ran(read)())
    ran(write)()
    step = len(ran(read)()) - before
    (file,) = tmp_path.rglob("*.jsonl")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with Session.open(file) as session, session.locked():
            held.set()
            release.wait(20)

    async def cancel() -> bool:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await anyio.sleep(0.1)  # until it waits; if it does not yet, it is not begun
                scope.cancel()
                release.set()
        return scope.cancelled_caught

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        held.wait(20)
        assert ran(cancel)()
        holding.result(20)
    assert len(ran(read)()) in (before + step, before + 2 * step)
    ran(write)()
    assert len(ran(read)()) >= before + 2 * step
    check_session(file)


@pytest.mark.slow
@for_each("adapter", ADAPTERS)
def test_a_damaged_line_is_an_error_or_changes_nothing(
    adapter: Callable[[Path], Adapter], tmp_path: Path
) -> None:
    giving, reading = adapter(tmp_path)
    write, read = ran(giving), ran(reading)
    for _ in range(3):
        write()
    (file,) = tmp_path.rglob("*.jsonl")
    whole, lines = read(), file.read_bytes().splitlines(keepends=True)
    refused = 0
    for number, line in enumerate(lines):
        for damaged in (line[:60] + b"\0\xff" + line[62:], line.replace(b"ask", b"ASK")):
            if damaged == line:
                continue
            file.write_bytes(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
            fresh = ran(adapter(tmp_path)[1]) if adapter is langgraph else read
            try:
                assert len(fresh()) == len(whole), f"line {number} is damaged, and the rest is all"
            except (SessionTreeError, LookupError):
                refused += 1
    assert refused > len(lines) / 2


@for_each("adapter", ADAPTERS)
def test_a_file_that_is_no_session_is_refused_and_kept(
    adapter: Callable[[Path], Adapter], tmp_path: Path
) -> None:
    ran(adapter(tmp_path)[0])()
    (file,) = tmp_path.rglob("*.jsonl")
    foreign = b'{"type":"user","sessionId":"s","uuid":"u"}\n'
    with Session.create(tmp_path / "theirs.jsonl", metadata={"agent": "theirs"}) as other:
        other.append_message({"role": "user", "content": "not of the SDK"})
    theirs = (tmp_path / "theirs.jsonl").read_bytes()
    for content in (b"\x93\n", b"", foreign, theirs):
        file.write_bytes(content)
        for call in adapter(tmp_path):
            with pytest.raises(SessionTreeError, match=file.name):
                ran(call)()
        assert file.read_bytes() == content


async def _conversations(folder: Path) -> list[Any]:
    from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

    return list(await SessionTreeConversationStore(folder).read_records())


async def _checkpoints(folder: Path) -> list[Any]:
    from sessiontree.adapters.langgraph import SessionTreeSaver

    return [each async for each in SessionTreeSaver(folder).alist(None)]


@for_each("adapter, listed", [(pydantic_ai, _conversations), (langgraph, _checkpoints)])
def test_a_list_warns_of_a_file_that_another_program_made(
    adapter: Callable[[Path], Adapter], listed: Callable[[Path], Any], tmp_path: Path
) -> None:
    ran(adapter(tmp_path)[0])()
    (file,) = tmp_path.rglob("*.jsonl")
    with Session.create(file.with_name("theirs.jsonl"), metadata={"agent": "theirs"}):
        pass
    with pytest.warns(UserWarning, match=r"theirs\.jsonl is not a session that"):
        assert len(ran(lambda: listed(tmp_path))()) == 1


KNOWN: Final = {
    "pydantic_ai": ("pydantic-ai-slim", "2.68 to 2.x", ("2.67.9", "3.0.0", "1.0")),
    "claude_agent_sdk": ("claude-agent-sdk", "0.2 to 0.x", ("0.1.50", "1.0.0")),
    "openai_agents": ("openai-agents", "0.24 to 0.x", ("0.3.1",)),
    "google_adk": ("google-adk", "2.13 to 2.x", ("1.9",)),
    "langgraph": ("langgraph-checkpoint", "4.3 to 4.x", ("5.0",)),
}


@for_each("adapter", ADAPTERS)
def test_a_version_that_is_not_known_is_refused(
    adapter: Callable[[Path], Adapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter(tmp_path)
    package, known, versions = KNOWN[adapter.__name__]
    for version in versions:
        monkeypatch.setattr("sessiontree.adapters.base.Sdk._version", lambda sdk, v=version: v)
        with pytest.raises(UnknownSdkError, match=rf"{package} {version}.*{known} are"):
            adapter(tmp_path)


def ran(call: Call[T]) -> Callable[[], T]:
    async def run() -> T:
        return await call()

    return lambda: anyio.run(run, backend="asyncio")


def test_an_id_that_is_not_text_is_refused(tmp_path: Path) -> None:
    for id in (5, None, b"one"):
        with pytest.raises(UsageError, match="an id is a text, not"):
            SessionFiles(tmp_path, "sdk").file_of(cast(Any, id))


NEEDED: Final = {
    "pydantic_ai": ("pydantic_ai.conversation_store", "pydantic-ai-slim"),
    "claude_agent_sdk": ("claude_agent_sdk.types", "claude-agent-sdk"),
    "openai_agents": ("agents.result", "openai-agents"),
    "google_adk": ("google.adk.events", "google-adk"),
    "langgraph": ("langgraph.checkpoint.base", "langgraph-checkpoint"),
    "langgraph_checkpoints": ("langgraph.checkpoint.serde.base", "langgraph-checkpoint"),
}


@for_each("adapter", list(NEEDED))
def test_an_sdk_that_is_not_whole_is_one_clear_error(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, package = NEEDED[adapter]
    pytest.importorskip(module, reason=f"{package} is not installed")
    monkeypatch.setitem(sys.modules, module, cast(Any, None))
    monkeypatch.delitem(sys.modules, f"sessiontree.adapters.{adapter}", raising=False)
    with pytest.raises(UnknownSdkError) as found:
        importlib.import_module(f"sessiontree.adapters.{adapter}")
    told = str(found.value)
    assert told.startswith(f"{package} ")
    assert f"is installed, but not whole: import of {module} halted" in told
    assert "run: pip install 'sessiontree[" in told


class Careless(FileLog):
    """A log that appends wherever it ends."""

    def append(self, block: bytes, at: int) -> int:
        return super().append(block, self.size())


class Forgetful(FileLog):
    """A log that writes where it is open to read."""

    def to_read(self) -> FileLog:
        return self.beside()


@for_each(
    "kind, rule",
    [(Careless, "append_off_the_end"), (Forgetful, "a_log_opened_to_read_refuses_to_write")],
)
def test_a_log_that_breaks_a_rule_is_found(kind: type[FileLog], rule: str) -> None:
    class Logs:
        def make(self, content: bytes) -> FileLog:
            files = MemoryFiles()
            files.write(files.open("broken", CREATE), content)
            return kind(files, "broken")

        def again(self, log: Any) -> Any:
            return kind(log.fs, log.name)

    with pytest.raises((AssertionError, pytest.fail.Exception)) as found:
        check_log(Logs())
    assert any(rule in str(entry.name) for entry in found.traceback)


def test_a_damaged_session_is_found(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "a"})
    check_session(file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(AssertionError, match="the file has damage"):
        check_session(file)


def test_a_writer_that_loses_what_was_there_is_found(tmp_path: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("first\n")

    def write() -> None:
        file.write_text(file.read_text() + "more and more\n")

    with pytest.raises(AssertionError, match="cut at byte 7, the file reads as"):
        check_cuts(file, write, file.read_text)
    check_cuts(file, write, lambda: file.read_text().count("\n"))
    with pytest.raises(AssertionError, match="a file only grows"):
        check_cuts(file, lambda: file.write_text("other"), file.read_text)
    with pytest.raises(AssertionError, match="the write is read back"):
        check_cuts(file, lambda: None, file.read_text)
