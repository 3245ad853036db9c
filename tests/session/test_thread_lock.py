"""No other thread that shares a session comes between the steps of an operation."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from sessiontree import Entry, Handle, HandleError, InvalidNameError, Session, UsageError
from sessiontree.core.index import TreeIndex
from sessiontree.engine.logtree import LogTree
from sessiontree.storage.fs import Disk, Stat
from sessiontree.views.costs import spending
from sessiontree.views.turns import numbers_of
from tests.support.conversation import talk
from tests.support.table import for_each


class Counted:
    """A lock that counts how often it is taken by a thread that does not have it yet."""

    times = depth = 0

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()
        Counted.times += not Counted.depth
        Counted.depth += 1

    def __exit__(self, *_: object) -> None:
        Counted.depth -= 1
        self._lock.release()


WATCHED: Final[dict[type, tuple[str, ...]]] = {
    LogTree: ("tree", "walk", "read", "holds", "grow", "appended", "entry_lines"),
    TreeIndex: tuple(
        name for name in vars(TreeIndex) if name[0] != "_" and callable(vars(TreeIndex)[name])
    ),
}
"""What another thread may change, and the methods that depend on it."""


def count_locks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have sessions that are opened from here on take locks that count.

    Returns:
        What is asked of a view without the lock; it is empty at first.
    """
    threads = SimpleNamespace(RLock=Counted, get_ident=threading.get_ident)
    monkeypatch.setattr("sessiontree.storage.lock.threading", threads)
    unlocked: list[str] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if not Counted.depth:
                unlocked.append(real.__name__)
            return real(*arguments, **named)

        return call

    for watching, names in WATCHED.items():
        for name in names:
            monkeypatch.setattr(watching, name, watched(getattr(watching, name)))
    return unlocked


class Watched(Disk):
    """A disk that counts the reads of a thread without the lock."""

    unlocked = 0
    looked = 0  # how deep in the lock the last look at a blob was

    def stat(self, file: int | str) -> Stat:
        if ".blobs/" in str(file):
            self.looked = Counted.depth
        return super().stat(file)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self.unlocked += not Counted.depth
        return super().read(fd, size, offset)


# How often each takes the lock: once, and once for each ref that it resolves first.
OPERATIONS: dict[str, tuple[int, Callable[[Session, Path], Any]]] = {
    "append": (1, lambda session, _: session.append_message({"role": "user", "content": "on"})),
    "context": (1, lambda session, _: session.context()),
    "path": (1, lambda session, _: session.path()),
    "tree": (1, lambda session, _: session.tree()),
    "branches": (1, lambda session, _: session.branches()),
    "stats": (1, lambda session, _: session.stats()),
    "refresh": (1, lambda session, _: session.refresh()),
    "conflict": (1, lambda session, _: session.conflict),
    "branch": (3, lambda session, _: session.branch("@~1", summary="left")),
    "switch": (3, lambda session, _: session.switch("@~1")),
    "rewind": (4, lambda session, _: session.rewind()),
    "push": (1, lambda session, _: session.push()),
    "pop": (3, lambda session, _: session.pop(summary="so far")),
    "compact": (3, lambda session, _: session.compact("so far", first_kept="@")),
    "merge": (3, lambda session, _: session.merge("other")),
    "label": (3, lambda session, _: session.label("@", "here")),
    "fork": (1, lambda session, folder: session.fork(folder / "copy.jsonl")),
    "repair": (1, lambda session, _: session.repair()),
    "gc": (1, lambda session, _: session.gc()),
    "close": (1, lambda session, _: session.close()),
    "render": (11, lambda session, _: list(session.render())),
    "children": (2, lambda session, _: session.children("@~1")),
    "find": (8, lambda session, _: session.find(type="message")),
    "entries": (1, lambda session, _: next(session.entries())),
    "a setting": (2, lambda session, _: session.context().model),
    "a label that is taken": (2, lambda session, _: refused(session)),
    "fork of a branch": (
        8,
        lambda session, folder: session.export_branch("@", folder / "b.jsonl"),
    ),
    "pick of another": (2, lambda session, _: session.cherry_pick("@~1", session)),
    "pick of a streamed message": (3, lambda session, _: streamed_and_picked(session)),
    "lane": (1, lambda session, _: session.lane("side").close()),
    "keep": (5, lambda session, _: kept(session)),
    "convert": (4, lambda session, folder: session.convert("pi", folder / "pi.jsonl")),
    "to_markdown": (21, lambda session, _: list(session.to_markdown())),
    "batch": (1, lambda session, _: in_batch(session)),
    "outline": (1, lambda session, _: session.outline()),
    "turn": (2, lambda session, _: session.turn(session.outline().turns[0])),
    "compare": (3, lambda session, _: session.compare("@", "@~2")),
    "labels": (1, lambda session, _: session.labels()),
    "original": (1, lambda session, _: session.original("@~1")),
    "request": (1, lambda session, _: no_request(session)),
    "entries with": (1, lambda session, _: session.reader.entries_with("p1")),
    "locked": (1, lambda session, _: locked(session)),
    "plan": (1, lambda session, _: session.compaction_plan()),
    "plan of a pop": (1, lambda session, _: session.pop_plan()),
    "plan of a merge": (1, lambda session, _: session.merge_plan("other")),
    "conversation": (1, lambda session, _: list(session.conversation())),
    "turns": (1, lambda session, _: session.turns()),
    "a branch by a handle": (3, lambda session, _: session.resolve(handle_to("branch", session))),
    "a path by a handle": (3, lambda session, _: session.resolve(handle_to("path", session))),
    "find a call": (1, lambda session, _: session.find(tool_call_id="c")),
    "spending": (1, lambda session, _: spending(session.cursor)),
    "numbers of turns": (1, lambda session, _: numbers_of(session.cursor)),
    "a setting above": (2, lambda session, _: session.context().system),
    "a named handle": (2, lambda session, _: session.append_handle(handle_to("branch", session))),
    "a message that is no piece": (4, lambda session, _: refused_handle(session)),
    "block": (1, lambda session, _: session.block("@~1", 0)),
    "resolved_path": (1, lambda session, _: session.resolved_path()),
    "resolved_tree": (1, lambda session, _: session.resolved_tree()),
    "edit_context": (4, lambda session, _: session.edit_context("@", "edited")),
    "append_usage": (1, lambda session, _: session.append_usage({"input": 1}, kind="summary")),
    "attach": (1, lambda session, _: session.attach(io.BytesIO(b"note"), "text/plain")),
    "rename": (1, lambda session, _: session.rename("title")),
    "update_metadata": (1, lambda session, _: session.update_metadata(a=1)),
    "metadata": (1, lambda session, _: session.metadata),
    "name": (1, lambda session, _: session.name),
    "damage": (1, lambda session, _: session.damage),
    "notes": (0, lambda session, _: session.notes),
    "leaf": (0, lambda session, _: session.leaf),
    "entry": (1, lambda session, _: session.entry("other")),
    "verify": (0, lambda session, _: session.verify()),
    "scratch": (3, lambda session, _: session.scratch("@~1").close()),
    "lane at an entry": (3, lambda session, _: session.lane("side", "@~2").close()),
    "compact by a plan": (3, lambda session, _: session.compact(lambda *_: "so far", keep=1)),
    "needs_compaction": (1, lambda session, _: session.needs_compaction(100, 1)),
    "branch by a summarizer": (3, lambda session, _: session.branch("@~1", lambda *_: "left")),
}


AFTERWARDS: Final = (
    "fork",
    "fork of a branch",
    "entries",
    "lane",
    "pick of a streamed message",
    "keep",
    "convert",
    "find a call",
    "spending",
    "to_markdown",
    "verify",
    "scratch",
    "lane at an entry",
)
"""What reads lines that never change without the lock."""


def streamed_and_picked(session: Session) -> None:
    with session.stream_message(granularity="block") as message:
        message.add({"type": "text", "text": "one"})
        message.add({"type": "text", "text": "two"})
    with session.lane("side", at=session.header) as other:
        Counted.times = 0
        other.cherry_pick(message.entries[0], session)
        counted = Counted.times
    Counted.times = counted


def no_request(session: Session) -> None:
    with pytest.raises(UsageError):
        session.sent_request()


def locked(session: Session) -> None:
    with session.locked():
        session.append_message({"role": "user", "content": "on"})
        session.append_message({"role": "user", "content": "and on"})


def handle_to(method: str, session: Session) -> str:
    leaf = session.branch("@", name="here")
    place = "here" if method == "branch" else leaf.uuid
    Counted.times = 0
    return f"session@2.0.0::{method}:{session.id}:{place}"


def refused_handle(session: Session) -> None:
    with pytest.raises(HandleError):
        session.append_handle(f"session@2.0.0::entry:{session.id}:nobody")


def refused(session: Session) -> None:
    with pytest.raises(InvalidNameError):
        session.label("@", "other")


def kept(session: Session) -> None:
    with session.scratch() as scratch:
        scratch.append_message({"role": "user", "content": "tried"})
        scratch.keep()


def in_batch(session: Session) -> None:
    with session.batch():
        session.append_message({"role": "user", "content": "on"})
        session.append_message({"role": "user", "content": "and on"})


def made(file: Path) -> None:
    with Session.create(file) as session:
        first, _ = talk(session, "p1", "a1")
        session.label(talk(session, "p2", "a2")[1], "other")
        session.branch(first)
        talk(session, "p3", "a3")
        session.push()
        session.append_message({"role": "user", "content": "q"})


@for_each("name", list(OPERATIONS))
def test_an_operation_reads_and_writes_under_one_lock(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made(file)
    unlocked = count_locks(monkeypatch)
    most, operation = OPERATIONS[name]
    disk = Watched()
    with Session.open(file, fs=disk) as session:
        disk.unlocked, Counted.times = 0, 0
        unlocked.clear()
        operation(session, tmp_path)
        assert unlocked == [] or name in AFTERWARDS
        assert (name, Counted.times) == (name, most)
        assert disk.unlocked == 0 or name in AFTERWARDS


class Hooked:
    """A hook, with which an entry is written in more steps."""

    def after_append(self, session: Session, entry: Entry) -> None:
        pass


HOOKED: dict[str, int] = {
    "append": 1,
    "branch": 3,
    "pop": 3,
    "compact": 3,
    "merge": 3,
    "label": 3,
    "pick of another": 2,
    "keep": 7,
    "batch": 1,
}
"""How often each takes the lock in a session with a hook."""


@for_each("name", list(HOOKED))
def test_an_operation_reads_and_writes_under_the_lock_also_with_hooks(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made(file)
    unlocked = count_locks(monkeypatch)
    disk = Watched()
    with Session.open(file, fs=disk, hooks=[Hooked()]) as session:
        disk.unlocked, Counted.times = 0, 0
        unlocked.clear()
        OPERATIONS[name][1](session, tmp_path)
        assert (name, Counted.times) == (name, HOOKED[name])
        # The scratch lane of `keep` is opened before another thread can have it.
        assert unlocked == (["walk"] if name == "keep" else [])
        assert disk.unlocked == 0 or name in AFTERWARDS


def test_a_refresh_of_a_session_opened_to_read_takes_the_lock_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(file)
    count_locks(monkeypatch)
    disk = Watched()
    with Session.open(file, readonly=True, fs=disk) as session:
        with Session.open(file) as other:
            other.append_message({"role": "user", "content": "on"})
        disk.unlocked, Counted.times = 0, 0
        session.refresh()
        assert (Counted.times, disk.unlocked) == (1, 0)


@for_each("way", ["append_handle", "append"])
def test_a_blob_is_looked_for_under_the_lock_before_its_handle_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    count_locks(monkeypatch)
    disk = Watched()
    with Session.create(file, fs=disk) as session:
        handle = Handle.blob(*session.blobs.put(b"note"), "text/plain")
        disk.looked = 0
        if way == "append_handle":
            session.append_handle(handle)
        else:
            session.append("handle", handle=str(handle), kind="document")
        assert disk.looked > 0


WAITING: dict[str, Callable[[Session], Any]] = {
    "append": lambda session: session.append_message({"role": "user", "content": "on"}),
    "close": lambda session: session.close(),
    "context": lambda session: session.context(),
    "entries": lambda session: next(session.entries()),
    "find": lambda session: session.find(type="message"),
    "tree": lambda session: list(session.tree()),
    "stats": lambda session: session.stats(),
    "verify": lambda session: session.verify(),
    "keep": lambda session: session.keep("scratch/other"),
    "another session": lambda session: session.lane("side").close(),
    "an exclusive one": lambda session: Session.open(str(session.file), exclusive=True).close(),
    "a lane": lambda session: session.lane("side").append("custom", customType="x"),
    "repair": lambda session: session.repair(),
    "gc": lambda session: session.gc(),
}


@for_each("name", list(WAITING))
def test_it_waits_for_the_batch_of_another_thread(file: Path, name: str) -> None:
    made(file)
    with Session.open(file) as session:
        with session.lane("scratch/other") as other:
            other.append_message({"role": "user", "content": "tried"})
        thread = threading.Thread(target=lambda: WAITING[name](session))
        with session.batch():
            session.append_message({"role": "user", "content": "in the batch"})
            before = file.read_bytes()
            thread.start()
            thread.join(0.1)
            assert thread.is_alive()
            assert file.read_bytes() == before
        thread.join()
