"""The adapters beside the SDKs' own stores: adding, loading and branching at several sizes.

`python -m benchmarks.adapters [--items 100 10000 100000]` prints the least of several calls, in
milliseconds of clock time, of each store in turns. All stores are files in one folder.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import anyio
from agents.extensions.memory import AdvancedSQLiteSession
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

from sessiontree.adapters.openai_agents import SessionTreeSession
from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

_TEXT: Final = "x" * 300
_ROUNDS: Final = 5


def main() -> None:
    """Measure, and print a row for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[100, 10_000, 100_000])
    for items in parser.parse_args().items:
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(_openai, folder, items)
            anyio.run(_pydantic, folder, items)


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
