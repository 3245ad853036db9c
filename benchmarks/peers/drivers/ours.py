"""The jobs with sessiontree."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from benchmarks.peers.drivers.corpus_folder import (
    Corpus,
    Figures,
    Job,
    Stopwatch,
    main,
    small_messages,
)
from sessiontree import Session, Store
from sessiontree.storage.fs import Durability
from sessiontree.storage.lock import SETTLED_SECONDS

SMALL: Final = 20_000


def _file(corpus: Corpus) -> Path:
    return corpus.folder / "sessiontree" / "project" / "session.jsonl"


def resume(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        context = Session.open(_file(corpus), readonly=True).context()
        messages = context.messages
    # Each warning is a result supplied, or left out, where the context cuts a pair.
    return watch.figures(count=len(messages), mended=len(context.warnings))


def append(durability: Durability) -> Job:
    def job(corpus: Corpus, variant: str) -> Figures:
        small = variant == "small"
        messages = small_messages(SMALL) if small else corpus.messages()
        exclusive = variant in ("exclusive", "small")
        watch = Stopwatch()
        with Session.open(_file(corpus), durability=durability, exclusive=exclusive) as session:
            session.append_message({"role": "user", "content": "Begin"})
            time.sleep(SETTLED_SECONDS + 1)  # the folder was made this moment, which is unusual
            with watch.running():
                for message in messages:
                    session.append_message(message)
        return watch.figures(count=len(messages))

    return job


def fork(corpus: Corpus, variant: str) -> Figures:
    target = corpus.folder / "fork.jsonl"
    watch = Stopwatch()
    with watch.running(), Session.open(_file(corpus), readonly=True) as session:
        session.fork(target, at=corpus.half("sessiontree"))
    with Session.open(target, readonly=True) as forked:
        return watch.figures(count=len(forked.context().messages))


def branch(corpus: Corpus, variant: str) -> Figures:
    """Go back to the middle of a session that is being worked on, and build its context."""
    with Session.open(_file(corpus), durability="os") as session:
        messages = session.context().messages
        watch = Stopwatch()
        with watch.running():
            session.branch(corpus.half("sessiontree"))
            messages = session.context().messages
    return watch.figures(count=len(messages))


def listing(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        sessions = Store(corpus.folder / "sessiontree").list()
    return watch.figures(count=len(sessions))


JOBS: Final[dict[str, Job]] = {
    "resume": resume,
    "append-os": append("os"),
    "append-fsync": append("fsync"),
    "fork": fork,
    "branch": branch,
    "list": listing,
}

if __name__ == "__main__":
    main(JOBS)
