"""The jobs with the AdvancedSQLiteSession of openai-agents."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from benchmarks.peers.drivers.corpus_folder import (
    Corpus,
    Figures,
    Job,
    Stopwatch,
    main,
    small_messages,
)
from benchmarks.peers.shapes import openai_items

memory: Any = importlib.import_module("agents.extensions.memory")

BATCH: Final = 5000
APPENDED: Final = 300
NEEDLE: Final = "part-317.ts"


def _session(corpus: Corpus, id: str = "main") -> Any:
    db_path = corpus.folder / "openai" / "session.db"
    return memory.AdvancedSQLiteSession(session_id=id, db_path=db_path, create_tables=True)


def make(corpus: Corpus, variant: str) -> Figures:
    """The database, from the items.

    What is not on the path goes to a session beside: a branch there would copy a
    row for each message above it.
    """
    asyncio.run(_fill(corpus))
    for name in ("main.jsonl", "aside.jsonl"):
        (corpus.folder / "openai" / name).unlink()
    return Stopwatch().figures()


async def _fill(corpus: Corpus) -> None:
    for id in ("main", "aside"):
        session = _session(corpus, id)
        for batch in _batches(corpus.lines(f"openai/{id}.jsonl")):
            await session.add_items(batch)
        session.close()


def _batches(items: Iterable[Any]) -> Iterable[list[Any]]:
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, BATCH)):
        yield batch


def _asynchronous(job: Any) -> Job:
    def synchronous(corpus: Corpus, variant: str) -> Figures:
        coroutine: Coroutine[Any, Any, Figures] = job(corpus, variant)
        return asyncio.run(coroutine)

    return synchronous


async def resume(corpus: Corpus, variant: str) -> Figures:
    """All items; or where the context was compacted, which it cannot keep, the last so many."""
    limit = corpus.facts["context"]["openai"] if variant == "compacted" else None
    watch = Stopwatch()
    with watch.running():
        items = await _session(corpus).get_items(limit)
    return watch.figures(count=len(items))


async def append(corpus: Corpus, variant: str) -> Figures:
    said = small_messages(APPENDED) if variant == "small" else corpus.messages()[:APPENDED]
    messages = [openai_items(message) for message in said]
    session = _session(corpus)
    await session.add_items([{"role": "user", "content": "Begin"}])
    watch = Stopwatch()
    with watch.running():
        for items in messages:
            await session.add_items(items)
    return watch.figures(count=len(messages))


async def fork(corpus: Corpus, variant: str) -> Figures:
    """A branch in the same database, which is what it has for this."""
    watch = Stopwatch()
    with watch.running():
        session = _session(corpus)
        await session.create_branch_from_turn(corpus.half("openai"))
    return watch.figures(count=len(await session.get_items()))


async def branch(corpus: Corpus, variant: str) -> Figures:
    session = _session(corpus)
    items = await session.get_items()
    watch = Stopwatch()
    with watch.running():
        await session.create_branch_from_turn(corpus.half("openai"))
        items = await session.get_items()
    return watch.figures(count=len(items))


async def search(corpus: Corpus, variant: str) -> Figures:
    """Among the user's messages, which is where it can."""
    watch = Stopwatch()
    with watch.running():
        turns = await _session(corpus).find_turns_by_content(NEEDLE)
    return watch.figures(count=len(turns))


JOBS: Final[dict[str, Job]] = {
    "make": make,
    "resume": _asynchronous(resume),
    "append-fsync": _asynchronous(append),
    "fork": _asynchronous(fork),
    "branch": _asynchronous(branch),
    "search": _asynchronous(search),
}

if __name__ == "__main__":
    main(JOBS)
