"""The jobs with claude-agent-sdk, which reads Claude Code's transcripts.

It has no call that appends a message (the program itself writes), none that goes
back in place, and none that searches.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

from benchmarks.peers.drivers.corpus_folder import Corpus, Figures, Job, Stopwatch, main

sdk: Any = importlib.import_module("claude_agent_sdk")


def resume(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        messages = sdk.get_session_messages(corpus.session)
    return watch.figures(count=len(messages))


def fork(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        forked = sdk.fork_session(corpus.session, up_to_message_id=corpus.half("claude"))
    return watch.figures(count=len(sdk.get_session_messages(forked.session_id)))


def listing(corpus: Corpus, variant: str) -> Figures:
    watch = Stopwatch()
    with watch.running():
        sessions = sdk.list_sessions()
    return watch.figures(count=len(sessions))


JOBS: Final[dict[str, Job]] = {"resume": resume, "fork": fork, "list": listing}


def _in_corpus(job: Job) -> Job:
    def there(corpus: Corpus, variant: str) -> Figures:
        os.environ["CLAUDE_CONFIG_DIR"] = str(corpus.folder / "claude")
        return job(corpus, variant)

    return there


if __name__ == "__main__":
    main({name: _in_corpus(job) for name, job in JOBS.items()})
