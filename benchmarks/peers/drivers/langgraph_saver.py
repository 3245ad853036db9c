"""The jobs with the SqliteSaver of langgraph-checkpoint-sqlite.

Each checkpoint holds the whole state again, here a list of messages as plain
dicts. A database with one checkpoint a message, as a graph writes it, grows with
the square of the session; but for the smallest, a corpus holds the last alone.
"""

from __future__ import annotations

import importlib
import sqlite3
from typing import Any, Final

from benchmarks.peers.drivers.corpus_folder import Corpus, Figures, Job, Stopwatch, main

base: Any = importlib.import_module("langgraph.checkpoint.base")
sqlite: Any = importlib.import_module("langgraph.checkpoint.sqlite")

THREAD: Final = {"configurable": {"thread_id": "main", "checkpoint_ns": ""}}
HISTORY_OF: Final = 500
"""The messages of a session of which all checkpoints are kept."""

APPENDED_BYTES: Final = 100_000_000


def _saver(corpus: Corpus, name: str = "state.db") -> Any:
    path = corpus.folder / "langgraph" / name
    return sqlite.SqliteSaver(sqlite3.connect(path, check_same_thread=False))


def _put(saver: Any, config: Any, messages: list[Any], version: int) -> Any:
    checkpoint = base.empty_checkpoint()
    checkpoint["id"] = str(base.uuid6(clock_seq=-2))
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": version}
    metadata = {"source": "loop", "step": version}
    return saver.put(config, checkpoint, metadata, {"messages": version})


def make(corpus: Corpus, variant: str) -> Figures:
    """The database: the state at the leaf; of a short session also the whole history."""
    source = corpus.folder / "langgraph" / "messages.jsonl"
    messages = list(corpus.lines("langgraph/messages.jsonl"))
    kept = corpus.facts["context"]["langgraph"]
    saver = _saver(corpus)
    _put(saver, THREAD, messages[-kept:], kept)
    saver.conn.close()
    if len(messages) <= HISTORY_OF:
        saver = _saver(corpus, "history.db")
        config: Any = THREAD
        for count in range(1, len(messages) + 1):
            config = _put(saver, config, messages[:count], count)
        saver.conn.close()
    source.unlink()
    return Stopwatch().figures()


def resume(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        state = _saver(corpus).get_tuple(THREAD)
        messages = state.checkpoint["channel_values"]["messages"]
    return watch.figures(count=len(messages))


def append(corpus: Corpus, variant: str) -> Figures:
    """As many as come to some 100 MB of checkpoints, three at least."""
    saver = _saver(corpus)
    state = saver.get_tuple(THREAD)
    config, messages = state.config, state.checkpoint["channel_values"]["messages"]
    count = max(3, min(200, APPENDED_BYTES // (2000 * len(messages))))
    added = corpus.messages()[:count]
    watch = Stopwatch()
    with watch.running():
        for message in added:
            messages = [*messages, message]
            config = _put(saver, config, messages, len(messages))
    return watch.figures(count=count)


def fork(corpus: Corpus, variant: str) -> Figures:
    """The checkpoint in the middle, put again for another thread."""
    half = corpus.facts["half"]["messages"]
    watch = Stopwatch()
    with watch.running():
        saver = _saver(corpus, "history.db")
        found = next(saver.list(THREAD, filter={"step": half}, limit=1))
        messages = found.checkpoint["channel_values"]["messages"]
        other = {"configurable": {"thread_id": "fork", "checkpoint_ns": ""}}
        _put(saver, other, messages, half)
    return watch.figures(count=len(messages))


JOBS: Final[dict[str, Job]] = {
    "make": make,
    "resume": resume,
    "append-fsync": append,
    "fork": fork,
}

if __name__ == "__main__":
    main(JOBS)
