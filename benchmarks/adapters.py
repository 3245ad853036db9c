"""The adapters beside the SDKs' own stores: adding, loading and branching at several sizes.

`python -m benchmarks.adapters [--items 100 10000 100000]` prints the least of several calls, in
milliseconds of clock time, of each store in turns. The stores are files in one folder, but for two
of the Claude Agent SDK: its store in memory and, with `--postgres DSN`, the store for PostgreSQL
among the examples of its source distribution, which must be on the path, with asyncpg.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from typing import Any, Final

import anyio
from agents.extensions.memory import AdvancedSQLiteSession
from claude_agent_sdk import InMemorySessionStore, fork_session_via_store, project_key_for_directory
from google.adk.events import Event, EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, Part
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

from sessiontree.adapters.claude_agent_sdk import SessionTreeStore
from sessiontree.adapters.google_adk import SessionTreeSessionService
from sessiontree.adapters.langgraph import SessionTreeSaver
from sessiontree.adapters.openai_agents import SessionTreeSession
from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

_TEXT: Final = "x" * 300
_ROUNDS: Final = 5
_MOST_APPENDED: Final = 10_000


def main() -> None:
    """Measure, and print a row for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--postgres", metavar="DSN")
    given = parser.parse_args()
    for items in given.items:
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(_claude, folder, items, given.postgres)
            anyio.run(_google, folder, items)
            anyio.run(_langgraph, folder, items)
            anyio.run(_openai, folder, items)
            anyio.run(_pydantic, folder, items)


async def _claude(folder: str, count: int, postgres: str | None) -> None:
    stores: dict[str, Any] = {"InMemorySessionStore": InMemorySessionStore()}
    pool = None
    if postgres is not None:
        pool = await import_module("asyncpg").create_pool(postgres)
        named = import_module("examples.session_stores.postgres_session_store")
        stores["PostgresSessionStore"] = named.PostgresSessionStore(pool, f"of_{count}")
        await stores["PostgresSessionStore"].create_schema()
    stores["SessionTreeStore"] = SessionTreeStore(folder)
    key: Any = {"project_key": project_key_for_directory(folder), "session_id": str(uuid.uuid4())}
    uuids = [str(uuid.uuid4()) for _ in range(count + _ROUNDS)]
    lines = [_line(key, number, uuids) for number in range(len(uuids))]
    more = {id(store): iter(lines[count:]) for store in stores.values()}

    async def fill(store: Any) -> None:
        for start in range(0, count, 500):  # as the SDK gives them
            await store.append(key, lines[start : min(count, start + 500)])

    async def fork(store: Any) -> None:
        await fork_session_via_store(store, key["session_id"], folder, uuids[count // 2])

    for label, word in (
        ("fill", fill),
        ("add one", lambda store: store.append(key, [next(more[id(store)])])),
        ("load", lambda store: store.load(key)),
        ("list", lambda store: store.list_sessions(key["project_key"])),
        ("fork in the middle", fork),
    ):
        rounds = 1 if label in ("fill", "fork in the middle") else _ROUNDS
        await _row(f"claude-agent-sdk, {label}", count, stores, word, rounds)
    if pool is not None:
        await pool.close()


def _line(key: Any, number: int, uuids: list[str]) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    content = [{"type": "text", "text": f"{number} {_TEXT}"}]
    return {
        "parentUuid": uuids[number - 1] if number else None,
        "isSidechain": False,
        "type": role,
        "uuid": uuids[number],
        "message": {
            "role": role,
            "content": content,
            **({"id": f"m{number}"} if number % 2 else {}),
        },
        "timestamp": "2026-01-01T00:00:00.000Z",
        "userType": "external",
        "cwd": "/project",
        "sessionId": key["session_id"],
        "version": "2.1.330",
        "gitBranch": "main",
    }


async def _openai(folder: str, count: int) -> None:
    theirs = AdvancedSQLiteSession(
        session_id="s", db_path=os.path.join(folder, "s.db"), create_tables=True
    )
    ours = SessionTreeSession("s", folder)
    both: dict[str, Any] = {"AdvancedSQLiteSession": theirs, "SessionTreeSession": ours}
    items: list[Any] = [{"role": "user", "content": f"{n} {_TEXT}"} for n in range(count)]
    names = iter(f"branch {number}" for number in range(1_000))

    async def branch(session: Any) -> None:
        await session.switch_to_branch("main")
        await session.create_branch_from_turn(count // 2, next(names))

    for label, word in (
        ("fill", lambda session: session.add_items(items)),
        ("add one", lambda session: session.add_items(items[:1])),
        ("load", lambda session: session.get_items()),
        ("load the last 20", lambda session: session.get_items(20)),
        ("branch in the middle", branch),
    ):
        await _row(f"openai-agents, {label}", count, both, word, 1 if label == "fill" else _ROUNDS)
    theirs.close()


async def _pydantic(folder: str, count: int) -> None:
    store = SessionTreeConversationStore(folder)
    messages = [ModelRequest(parts=[UserPromptPart(f"{n} {_TEXT}")]) for n in range(count)]
    conversation = Conversation(messages=[*messages], conversation_id="c")

    async def add(store: SessionTreeConversationStore) -> None:
        conversation.messages.append(messages[0])
        await store.save(conversation)

    async def branch(store: SessionTreeConversationStore) -> None:
        loaded = await store.branch(
            "c", at=count // 2, expected_revision=conversation.revision or ""
        )
        conversation.revision = loaded.revision

    for label, word in (
        ("fill", lambda store: store.save(conversation)),
        ("add one", add),
        ("load", lambda store: store.load("c")),
        ("load the last 20", lambda store: store.load("c", limit=20)),
        ("branch in the middle", branch),
    ):
        rounds = 1 if label in ("fill", "branch in the middle") else _ROUNDS
        await _row(f"pydantic-ai, {label}", count, {"ours": store}, word, rounds)


async def _google(folder: str, count: int) -> None:
    database = os.path.join(folder, "adk.db")
    services: dict[str, Any] = {
        "SqliteSessionService": SqliteSessionService(database),
        "SessionTreeSessionService": SessionTreeSessionService(folder),
    }
    names: Any = {"app_name": "app", "user_id": "me", "session_id": "one"}
    numbers = itertools.count()

    async def add(service: Any, times: int = 1) -> None:
        session = held[id(service)]
        for _ in range(times):
            number = next(numbers)
            content = Content(role="user", parts=[Part(text=f"{number} {_TEXT}")])
            actions = EventActions(state_delta={"step": number})
            event = Event(author="user", content=content, actions=actions)
            await service.append_event(session, event)

    held = {id(one): await one.create_session(**names) for one in services.values()}
    few = GetSessionConfig(num_recent_events=20)

    async def fill(service: Any) -> None:
        is_theirs = isinstance(service, SqliteSessionService)
        await add(service, 1 if is_theirs and count > _MOST_APPENDED else count)
        if is_theirs and count > _MOST_APPENDED:
            _repeat_event(database, count)

    for label, word in (
        ("fill", fill),
        ("add one", add),
        ("load", lambda service: service.get_session(**names)),
        ("load the last 20", lambda service: service.get_session(**names, config=few)),
    ):
        rounds = 1 if label == "fill" else _ROUNDS
        await _row(f"google-adk, {label}", count, services, word, rounds)


def _repeat_event(database: str, count: int) -> None:
    """Fill the database of ADK with copies of its event; one by one, that takes ten minutes."""
    with closing(sqlite3.connect(database)) as connection, connection:
        (row,) = connection.execute("SELECT * FROM events").fetchall()
        marks = ", ".join("?" * len(row))
        copies = ((str(number), *row[1:]) for number in range(1, count))
        connection.executemany(f"INSERT INTO events VALUES ({marks})", copies)


async def _langgraph(folder: str, count: int) -> None:
    connection = sqlite3.connect(os.path.join(folder, "graph.db"), check_same_thread=False)
    savers: dict[str, Any] = {
        "SqliteSaver": SqliteSaver(connection),
        "SessionTreeSaver": SessionTreeSaver(folder),
    }
    thread: Any = {"configurable": {"thread_id": "one", "checkpoint_ns": ""}}
    filled = [HumanMessage(f"{number} {_TEXT}", id=str(number)) for number in range(count)]
    held: dict[int, tuple[Any, list[Any]]] = {}

    async def fill(saver: Any) -> None:
        held[id(saver)] = _put(saver, thread, filled), filled

    async def step(saver: Any) -> None:
        """A checkpoint with one message more, and the writes of the task that gave it."""
        config, messages = held[id(saver)]
        saver.put_writes(config, [("messages", filled[0])], str(uuid.uuid4()))
        longer = [*messages, HumanMessage(_TEXT, id=str(len(messages)))]
        held[id(saver)] = _put(saver, config, longer), longer

    async def load(saver: Any) -> None:
        saver.get_tuple(thread)

    async def fork(saver: Any) -> None:
        """Go on from the checkpoint above the last one, as it is stored."""
        found = saver.get_tuple(saver.get_tuple(thread).parent_config)
        messages = found.checkpoint["channel_values"]["messages"]
        _put(saver, found.config, [*messages, HumanMessage(_TEXT, id="other")])

    for label, word in (("fill", fill), ("a step", step), ("load", load), ("branch", fork)):
        rounds = 1 if label == "fill" else _ROUNDS
        await _row(f"langgraph, {label}", count, savers, word, rounds)
    connection.close()


def _put(saver: Any, config: Any, messages: list[Any]) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = {"messages": messages, "step": len(messages)}
    versions: Any = dict.fromkeys(checkpoint["channel_values"], time.monotonic_ns())
    checkpoint["channel_versions"] = versions
    return saver.put(config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, versions)


async def _row(
    label: str,
    count: int,
    stores: dict[str, Any],
    call: Callable[[Any], Any],
    rounds: int,
) -> None:
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, store in stores.items():
            started = time.perf_counter()
            await call(store)
            took = time.perf_counter() - started
            least[name] = min(took, least.get(name, took))
    shown = "  ".join(f"{name} {took * 1000:.2f}" for name, took in least.items())
    print(f"{label:36} {count:7,}  {shown}", flush=True)


if __name__ == "__main__":
    main()
