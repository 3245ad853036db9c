"""A copy that was made is there after any crash, with all that lies beside it; never a part.

Copies are files that other programs open, forks and exports. On a disk that lists all
states a crash may leave (`crashdisk.py`), the copy is there only with its blobs, and with
the files of its subagents; once the call has returned, it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessiontree import Redaction, Session
from tests.support.conversation import user
from tests.support.crashdisk import Folders, crash_states
from tests.support.table import for_each

FOLDER = "/model/"
FILE = "/model/chat.jsonl"
COPY = "/model/copy.jsonl"
LARGE = "a text too large for a line " * 10

Make = Callable[[Session], object]


def converted(to: Any) -> Make:
    return lambda session: session.convert(to, COPY)


def forked(session: Session) -> object:
    return session.fork(COPY)


def exported(session: Session) -> object:
    return session.export_branch(session.header, COPY, with_path=True)


def inlined(session: Session) -> object:
    return session.export_branch(session.header, COPY, with_path=True, inline=True)


def redacted(session: Session) -> object:
    return session.export_branch(session.header, COPY, with_path=True, redact=Redaction())


def original() -> dict[str, bytes]:
    """A session with a blob and the work of a subagent."""
    disk = Folders({FOLDER: b""})
    with Session.create(FILE, cwd="/p", fs=disk, spill_over=100) as session:
        session.append_message(user(LARGE))
        session.append_message({"role": "assistant", "content": "said"})
        with session.lane("agent-one") as lane:
            lane.append_message(user("look"))
            lane.append_message({"role": "assistant", "content": "seen"})
        session.append_message(user("go on"))
    return disk.files()


@for_each(
    "make, beside",
    [
        (converted("pi"), 0),
        (converted("claude-code"), 3),
        (converted("codex"), 0),
        (converted("gemini"), 0),
        (converted("atif"), 0),
        (forked, 2),
        (exported, 2),
        (inlined, 0),
        (redacted, 2),
    ],
)
def test_no_crash_leaves_a_part_of_a_copy(make: Make, beside: int) -> None:
    before = original()
    disk = Folders(before)
    with Session.open(FILE, readonly=True, fs=disk) as session:
        make(session)
    made = {path: content for path, content in disk.files().items() if path not in before}
    assert COPY in made
    assert len(made) == 1 + beside
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            assert before.items() <= files.items()
            if COPY in files:
                assert made.items() <= files.items()
            else:
                assert snapshot is not disk.snapshots[-1]
