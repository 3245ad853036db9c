"""Another writer may come in wherever an operation does not hold the lock.

Each operation runs once for each time that it takes the lock or lets it go, and another thread of
the session, or another process, acts right before or after. A lock that is not held around steps
that belong together is then taken for each of them, and the other comes between.
"""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sessiontree import Entry, Session, SessionTreeError
from sessiontree.storage.fs import Disk
from tests.support.conversation import said, talk, user
from tests.support.table import for_each

Step = Callable[[Session], Any]
LARGE = user("w" * 2_000)
ALWAYS = 0
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def streamed(session: Session) -> Entry:
    with session.stream_message(granularity="block") as message:
        message.add({"type": "text", "text": "one"})
        message.add({"type": "text", "text": "two"})
    return message.entries[-1]


def batched(session: Session) -> Entry:
    with session.batch():
        session.append_message(user("in a batch"))
        session.label("@", "batch")
        return session.append_message(user("and on"))


def batched_beside(session: Session) -> Entry:
    with session.lane("side") as other, session.batch():
        session.append_message(user("in a batch"))
        other.append_message(user("beside the batch"))
        return session.append_message(user("and on"))


def kept(session: Session) -> Entry:
    with session.scratch() as trial:
        trial.append_message(user("tried"))
        return trial.keep()


OPERATIONS: dict[str, Step] = {
    "append": lambda session: session.append_message(user("on")),
    "spill": lambda session: session.append_message(LARGE),
    "uuid": lambda session: session.append("custom", uuid="chosen", customType="x"),
    "attach": lambda session: session.attach(io.BytesIO(b"a note"), "text/plain"),
    "label": lambda session: session.label("@", "mine"),
    "rename": lambda session: session.rename("title"),
    "branch": lambda session: session.branch("@~1", summary="left"),
    "switch": lambda session: session.switch("p1"),
    "rewind": lambda session: session.rewind(),
    "push": lambda session: session.push(),
    "pop": lambda session: session.pop(summary="so far"),
    "compact": lambda session: session.compact("so far", first_kept="@"),
    "merge": lambda session: session.merge("other"),
    "edit": lambda session: session.edit_context("@", "edited"),
    "stream": streamed,
    "batch": batched,
    "batch and lane": batched_beside,
    "keep": kept,
    "refresh": lambda session: session.refresh(),
    "context": lambda session: session.context(),
    "gc": lambda session: session.gc(now=LATER),
    "repair": lambda session: session.repair(),
}


def copied(session: Session) -> None:
    """Put a copy in the place of the file, as a restored backup does."""
    assert session.file
    shutil.copyfile(session.file, f"{session.file}.copy")
    Path(f"{session.file}.copy").replace(session.file)


INTRUDERS: dict[str, Step] = {
    "append": lambda session: session.append_message(user("intruded")),
    "spill": lambda session: session.append_message(user("w" * 3_000)),
    "uuid": lambda session: session.append("custom", uuid="chosen", customType="y"),
    "label": lambda session: session.label("@", "mine"),
    "lane": lambda session: session.lane("side").append_message(user("aside")),
    "gc": lambda session: session.gc(now=LATER),
    "copy": copied,
}


REFUSED = {
    ("attach", "process"): {"gc: BlobMissingError"},
    ("attach", "thread"): {"gc: BlobMissingError"},
    ("edit", "thread"): {"uuid: UsageError"},  # the leaf is an entry without content then
    ("keep", "process"): {"gc: NothingToDoError"},
    ("keep", "thread"): {"gc: NothingToDoError"},
    ("uuid", "process"): {"uuid: EntryError"},
    ("uuid", "thread"): {"uuid: EntryError"},
}
"""The operations that another writer may make impossible, with what it does and the error."""


class Intrusion:
    """Acts right before the lock is taken, or after it is let go, for the nth time or always."""

    def __init__(self, act: Callable[[], Any], nth: int) -> None:
        self._act = act
        self._nth = nth
        self._is_acting = False
        self.times = 0
        self.done: list[Any] = []

    def come(self) -> None:
        if self._is_acting:
            return
        self.times += 1
        if self._nth in (self.times, ALWAYS):
            self._is_acting = True
            with suppress(SessionTreeError):
                self.done.append(self._act())
            self._is_acting = False


class Guard:
    """What lets an intrusion come where a lock is free."""

    depth = 0
    intrusion: Intrusion | None = None

    @classmethod
    def come(cls) -> None:
        if cls.intrusion is not None and not cls.depth:
            cls.intrusion.come()


class Opened:
    """A lock of threads at which another thread comes in."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        Guard.come()
        self._lock.acquire()
        Guard.depth += 1

    def __exit__(self, *_: object) -> None:
        Guard.depth -= 1
        self._lock.release()
        Guard.come()


class Shared(Disk):
    """A disk at whose locks another process comes in."""

    def lock(self, fd: int) -> bool:
        Guard.come()
        taken = super().lock(fd)
        Guard.depth = int(taken)
        return taken

    def unlock(self, fd: int) -> None:
        super().unlock(fd)
        Guard.depth = 0
        Guard.come()


def made(file: Path) -> None:
    with Session.create(file, durability="os") as session:
        first, _ = talk(session, "p1", "a1")
        session.label(first, "p1")
        session.label(talk(session, "p2", "a2")[1], "other")
        session.branch(first)
        session.push()
        talk(session, "p3", "a3")
        with session.lane("scratch/old") as old:
            old.append_message(user("never kept"))


def played(file: Path, name: str, intruder: str, is_thread: bool, nth: int) -> tuple[int, str]:
    """Run an operation with an intrusion; how often one could come, and the error."""
    options: dict[str, Any] = {"durability": "os", "spill_over": 1_000}
    disk = Disk() if is_thread else Shared()
    with Session.open(file, fs=disk, **options) as session, Session.open(file, **options) as other:
        intrusion = Intrusion(lambda: INTRUDERS[intruder](session if is_thread else other), nth)
        leaf, done, refused = session.leaf, None, ""
        Guard.intrusion = intrusion
        try:
            done = OPERATIONS[name](session)
        except SessionTreeError as error:
            refused = type(error).__name__
        finally:
            Guard.intrusion = None
        told = [entry for entry in (done, *intrusion.done) if isinstance(entry, Entry)]
        check(session, told)
        if name == intruder == "append" and len(told) == 2:
            below = {entry.parent_uuid for entry in told}
            assert leaf.uuid in below
            assert len(below) == (2 if is_thread else 1)
    return intrusion.times, refused


def check(session: Session, told: list[Entry]) -> None:
    """What was acknowledged is there once, and the session sees what a new reader sees."""
    assert session.file
    session.refresh()
    leaf = session.leaf.uuid
    with Session.open(session.file, readonly=True) as reader:
        assert not reader.verify()
        uuids = [entry.uuid for entry in reader.entries()]
        assert len(uuids) == len(set(uuids))
        assert {entry.uuid for entry in told} <= set(uuids)
        assert [entry.uuid for entry in session.entries()] == uuids
        assert said(session.context()) == said(reader.context(leaf))
        for entry in session.entries():
            assert entry.get("message") == reader.entry(entry.uuid).get("message")


@pytest.mark.filterwarnings("ignore")
@for_each("who", ["thread", "process"])
@for_each("name", list(OPERATIONS))
def test_nothing_is_lost_whenever_another_writer_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, who: str
) -> None:
    source, file = tmp_path / "source.jsonl", tmp_path / "chat.jsonl"
    made(source)
    if who == "thread":
        threads = SimpleNamespace(RLock=Opened, get_ident=threading.get_ident)
        monkeypatch.setattr("sessiontree.storage.lock.threading", threads)
    refused = set()
    for intruder in INTRUDERS:
        nth, times = ALWAYS, 0
        while nth <= times:
            for each in tmp_path.glob("chat.jsonl*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            shutil.copyfile(source, file)
            found, error = played(file, name, intruder, who == "thread", nth)
            nth, times = nth + 1, times if nth == ALWAYS and times else max(times, found)
            if error:
                refused.add(f"{intruder}: {error}")
    assert refused == REFUSED.get((name, who), set())
