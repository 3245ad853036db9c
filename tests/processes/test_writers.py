"""Any number of writers share a file: nothing is fused, lost, doubled or starved.

Each entry says who wrote it, its number and its length, so that a reader can tell
a whole one from a half.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from sessiontree import Entry, Session
from sessiontree.errors import ReadOnlyError
from sessiontree.storage.fs import Disk
from tests.support.children import (
    PATIENCE,
    in_threads,
    read_line,
    read_rest,
    running,
    tell,
    uuids_in,
)
from tests.support.conversation import user
from tests.support.files import Record
from tests.support.soak import in_soak

WRITER = """
import json, random, sys, time
import filelock  # once, and not in the first append
from sessiontree import Session
path, name, count, durability, largest = sys.argv[1:]
chance = random.Random(name)
worst = 0
with Session.open(path, durability=durability) as session:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        size = chance.randrange(int(largest))
        text = json.dumps([name, number, size, "x" * size])
        start = time.perf_counter()
        entry = session.append_message({"role": "user", "content": text})
        worst = max(worst, time.perf_counter() - start)
        print(entry.uuid, flush=True)
print("worst", worst, flush=True)
"""

HOLDER = """
import sys
from sessiontree import Session
with Session.open(sys.argv[1], durability="os") as session:
    with session.batch():
        entry = session.append_message({"role": "user", "content": "held"})
        print("held", flush=True)
        sys.stdin.readline()
print(entry.uuid, flush=True)
"""

READER = """
import json, sys
from sessiontree import Session
with Session.open(sys.argv[1], readonly=True) as session:
    seen = 0
    print("ready", flush=True)
    while True:
        session.refresh()
        leaf = session.leaf
        if leaf.type == "session":
            continue
        name, number, size, text = json.loads(leaf["message"]["content"])
        assert len(text) == size
        seen += 1
        if name == "end":
            break
    count = sum(1 for entry in session.entries())
    assert session.verify() == []
print(seen, count, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    Session.create(path, durability="os").close()
    return path


def whole(entry: Entry) -> tuple[str, int]:
    """Who wrote an entry, and its number; fails where it is not whole."""
    name, number, size, text = json.loads(entry["message"]["content"])
    assert len(text) == size
    return name, number


def append_end(path: Path) -> str:
    with Session.open(path, durability="os") as session, session.locked():
        text = json.dumps(["end", 0, 0, ""])
        return session.append_message(user(text)).uuid


def check_all_kept(path: Path, chains: list[list[str]]) -> None:
    """Each chain of acknowledged entries stands in the file once, each below the one before."""
    uuids, damage = uuids_in(path)
    assert damage == []
    assert len(set(uuids)) == len(uuids)
    with Session.open(path, readonly=True) as session:
        parents = {entry.uuid: entry.parent_uuid for entry in session.entries()}
    for chain in chains:
        assert [parents[uuid] for uuid in chain[1:]] == chain[:-1]
    assert {uuid for chain in chains for uuid in chain} <= set(uuids)


def let_write(
    path: Path, writers: int, count: int, durability: str
) -> tuple[list[list[str]], float]:
    """Let writers append at the same time while others look on.

    Returns the uuids each was told, and the worst time in seconds that one append took.
    """
    given: list[Entry] = []
    reader_session = Session.open(path, readonly=True)

    def follow(entries: Iterator[Entry]) -> None:
        for entry in entries:
            given.append(entry)
            if whole(entry)[0] == "end":
                return

    follower = threading.Thread(target=follow, args=(reader_session.follow(),))
    with ExitStack() as stack:
        stack.callback(reader_session.close)
        readers = [stack.enter_context(running(READER, path)) for _ in range(2)]
        children = [
            stack.enter_context(running(WRITER, path, name, count, durability, 1500))
            for name in range(writers)
        ]
        assert {read_line(child) for child in readers + children} == {"ready"}
        follower.start()
        for child in children:
            tell(child)
        told = [read_rest(child) for child in children]
        end = append_end(path)
        follower.join(PATIENCE)
        for reader in readers:
            seen, entries = read_line(reader).split()
            assert int(seen) > 0
            assert int(entries) == writers * count + 2
    uuids, _ = uuids_in(path)
    assert [entry.uuid for entry in given] == uuids[1:]
    assert uuids[-1] == end
    wrote = itertools.product(map(str, range(writers)), range(count))
    assert sorted(map(whole, given[:-1])) == sorted(wrote)
    worst = [float(lines.pop().removeprefix("worst ")) for lines in told]
    assert all(len(chain) == count for chain in told)
    return told, max(worst)


@pytest.mark.slow
@in_soak("rounds, count", (("os",), 100), (("fsync", "os") * 5, 500))
def test_eight_processes_write_as_others_look_on(
    tmp_path: Path, record_property: Record, rounds: Sequence[str], count: int
) -> None:
    for number, durability in enumerate(rounds):
        path = tmp_path / f"{number}.jsonl"
        Session.create(path, durability="os").close()
        chains, worst = let_write(path, writers=8, count=count, durability=durability)
        check_all_kept(path, chains)
        record_property("acknowledged appends by 8 processes", sum(map(len, chains)))
        record_property("worst append in ms", round(worst * 1000, 1))


@pytest.mark.slow
def test_writers_killed_at_work_neither_block_nor_harm_the_others(path: Path) -> None:
    chance = random.Random(3)
    with ExitStack() as stack:
        children = [
            stack.enter_context(running(WRITER, path, name, count, "os", 300_000))
            for name, count in enumerate([60, 60, 10_000, 10_000, 10_000])
        ]
        assert {read_line(child) for child in children} == {"ready"}
        for child in children:
            tell(child)
        chains = [[], [], *([read_line(child) for _ in range(15)] for child in children[2:])]
        for child in children[2:]:
            time.sleep(0.01 * chance.random())
            child.kill()
        for child, chain in zip(children, chains, strict=True):
            chain += [line for line in read_rest(child) if not line.startswith("worst")]
        assert [child.returncode for child in children] == [0, 0, -9, -9, -9]
        assert [len(chain) for chain in chains[:2]] == [60, 60]
    with Session.open(path, durability="os") as session:
        session.repair()  # a killed writer may have left the start of a line
    check_all_kept(path, chains)


def test_a_writer_killed_while_it_holds_the_lock_blocks_nobody(path: Path) -> None:
    waits = Waits()
    with ThreadPoolExecutor(1) as threads, running(HOLDER, path) as holder:
        assert read_line(holder) == "held"
        with Session.open(path, durability="os") as session:
            waiting = threads.submit(append_with, waits, path)
            waits.seen.wait(PATIENCE)
            holder.kill()
            appended = waiting.result(PATIENCE)
            session.refresh()
            assert [entry.uuid for entry in session.entries()][1:] == [appended]


class Waits(Disk):
    """The disk, which tells when a writer found the lock taken many times over."""

    def __init__(self) -> None:
        self.seen = threading.Event()
        self._refused = 0

    def lock(self, fd: int) -> bool:
        taken = super().lock(fd)
        self._refused += not taken
        if self._refused >= 100:
            self.seen.set()
        return taken


def append_with(disk: Disk, path: Path) -> str:
    with Session.open(path, durability="os", fs=disk) as session:
        return session.append_message(user("waited")).uuid


def test_a_stopped_writer_that_holds_the_lock_is_waited_for(path: Path) -> None:
    waits = Waits()
    with ThreadPoolExecutor(1) as threads, running(HOLDER, path) as holder:
        assert read_line(holder) == "held"
        holder.send_signal(signal.SIGSTOP)
        tell(holder)
        before = path.read_bytes()
        waiting = threads.submit(append_with, waits, path)
        waits.seen.wait(PATIENCE)
        assert not waiting.done()
        assert path.read_bytes() == before
        holder.send_signal(signal.SIGCONT)
        first = read_line(holder)
        appended = waiting.result(PATIENCE)
        assert holder.wait(PATIENCE) == 0
    uuids, damage = uuids_in(path)
    assert (uuids[1:], damage) == ([first, appended], [])


@pytest.mark.parametrize("share", [True, False])
def test_threads_write_through_one_session_or_their_own(path: Path, share: bool) -> None:
    chains: list[list[str]] = [[] for _ in range(8)]

    def write(session: Session, chain: list[str]) -> None:
        for number in range(60):
            message = user(json.dumps(["thread", number, 0, ""]))
            if number % 10 == 9:
                with session.batch():
                    batch = [session.append_message(message) for _ in range(3)]
                chain.extend(entry.uuid for entry in batch)
            else:
                chain.append(session.append_message(message).uuid)

    with ExitStack() as stack:
        count = 1 if share else 8
        sessions = [stack.enter_context(Session.open(path, durability="os")) for _ in range(count)]
        one = sessions[0]
        assert in_threads(*map(partial, [write] * 8, sessions * 8, chains)) == []
        one.refresh()
        for chain in chains:
            assert [one.entry(uuid).uuid for uuid in chain] == chain
    uuids, _ = uuids_in(path)
    assert sorted(uuids[1:]) == sorted(uuid for chain in chains for uuid in chain)
    # One writer, whatever thread it is called from: its entries are one chain.
    check_all_kept(path, [uuids] if share else chains)


def test_a_thread_may_close_what_others_write_through(path: Path) -> None:
    told: list[str] = []
    begun = threading.Event()
    session = Session.open(path, durability="os")

    def write() -> None:
        while True:
            told.append(session.append_message(user("x" * 1000)).uuid)
            if len(told) > 50:
                begun.set()

    def close() -> None:
        begun.wait(PATIENCE)
        session.close()

    failures = in_threads(write, write, write, close)
    assert [type(failure) for failure in failures] == [ReadOnlyError] * 3
    uuids, _ = uuids_in(path)
    assert sorted(uuids[1:]) == sorted(told)
    check_all_kept(path, [uuids])


class Pausing(Disk):
    """The disk, on which something else may happen in the middle of a read."""

    def __init__(self) -> None:
        self.reads_left = -1
        self.meanwhile: Callable[[], object] = list

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self.reads_left -= 1
        if self.reads_left == 0:
            self.meanwhile()
        return super().read(fd, size, offset)


@pytest.mark.parametrize("nth", [1, 2])
def test_a_thread_does_not_change_what_another_is_looking_at(path: Path, nth: int) -> None:
    """Both read through one window of the file: the one moved it while the other filled it."""
    with Session.open(path, durability="os") as writer, writer.batch():
        for _ in range(150):
            writer.append_message(user("x" * 2000))
    disk = Pausing()
    with Session.open(path, readonly=True, fs=disk) as session:
        entries = list(session.entries())
        early: list[Entry] = []
        other = threading.Thread(target=lambda: early.extend(session.path(entries[20])))

        def let_the_other_look() -> None:
            other.start()
            other.join(0.1)  # kept out, it goes on afterwards

        disk.reads_left, disk.meanwhile = nth, let_the_other_look
        assert session.path() == entries
        other.join(PATIENCE)
        assert early == entries[:21]


def look_at_lines(session: Session) -> None:
    uuids = [entry.uuid for entry in session.entries()]
    assert len(set(uuids)) == len(uuids)
    rows = list(session.tree())
    assert len(rows) >= len(uuids)
    assert [row.uuid for row in rows[: len(uuids)]] == uuids
    assert len(list(session.render(all=True))) > 1


def look_at_path(session: Session) -> None:
    path = session.path()
    assert path[0].type == "session"
    assert all(b.parent_uuid == a.uuid for a, b in itertools.pairwise(path))
    assert session.entry(path[-1].uuid) == path[-1]
    assert session.entry(path[1].uuid[:12]) == path[1]
    context = session.context()
    assert context.messages[0]["content"] == "first"
    assert context.model is None
    assert session.context(path[1]).messages == context.messages[:1]


def look_at_tree(session: Session) -> None:
    branches = session.branches()
    assert sum(branch.current for branch in branches) <= 1
    assert session.children(session.header)
    assert len(session.find(type="message")) >= 2
    assert session.name == "Shared"
    assert session.damage == []


def refresh(session: Session) -> None:
    """The size it had read was behind what others wrote, and so it closed the file on them."""
    for _ in range(20):
        session.refresh()


@pytest.mark.slow
@pytest.mark.parametrize("look", [look_at_lines, look_at_path, look_at_tree, refresh])
def test_threads_may_look_at_what_others_write(path: Path, look: Callable[[Session], None]) -> None:
    """`branches()` ended in an IndexError, for the index grew while it was gone through."""
    told: list[str] = []
    done: list[bool] = []
    looks = 12
    with Session.open(path, durability="os") as session:
        session.rename("Shared")
        first = session.append_message(user("first"))
        session.append_message(user("second"))

        def write() -> None:
            for number in range(300):
                if len(done) >= 3 * looks:
                    break
                if number % 10 == 9:
                    session.branch(first)
                message = user("x" * 2000)
                if number % 5:
                    told.append(session.append_message(message).uuid)
                    continue
                with session.batch():
                    told.extend(session.append_message(message).uuid for _ in range(3))

        def watch() -> None:
            try:
                for _ in range(looks):
                    look(session)
                    done.append(True)
            except BaseException:
                done.extend([True] * 3 * looks)
                raise

        assert in_threads(write, watch, watch, watch) == []
        look(session)
    uuids, damage = uuids_in(path)
    assert (set(told) <= set(uuids), damage) == (True, [])


FORKED_IN_A_BATCH = """
import os, sys
from sessiontree import Session
path, act = sys.argv[1:]
def said(text):
    return session.append_message({"role": "user", "content": text})
session = Session.open(path, durability="os")
said("before")
gone_on, may_go = os.pipe()
with session.batch():
    said("waits one")
    said("waits two")
    child = os.fork()
    if not child:
        os.close(may_go)
        os.read(gone_on, 1)  # until the parent's batch is written, and its end closed
        if act == "append":
            said("child")
        elif act == "look":
            assert len(session.context().messages) == 1
            assert session.leaf["message"]["content"] == "before"
        elif act == "refresh":
            session.refresh()
            assert len(session.context().messages) == 1
        elif act == "close":
            session.close()
        elif act == "batch":
            with session.batch():
                said("child")
if not child:
    if act == "append after":
        said("child")
    os._exit(0)
os.close(may_go)
assert os.waitpid(child, 0)[1] == 0
said("after")
"""
ACTS = ("nothing", "append", "append after", "look", "refresh", "close", "batch")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("act", ACTS)
def test_a_process_forked_in_a_batch_does_not_write_what_waits_in_it(path: Path, act: str) -> None:
    """It left the `with` block too, and wrote its parent's entries a second time."""
    with running(FORKED_IN_A_BATCH, path, act) as child:
        assert child.wait(PATIENCE) == 0
    uuids, damage = uuids_in(path)
    assert (len(set(uuids)), damage) == (len(uuids), [])
    with Session.open(path, readonly=True) as session:
        entries = {e["message"]["content"]: e for e in session.entries() if e.type == "message"}
    childs = {"child"} if act in ("append", "append after", "batch") else set()
    assert set(entries) == {"before", "waits one", "waits two", "after"} | childs
    assert entries["after"].parent_uuid == entries["waits two"].uuid
    if childs:
        assert entries["child"].parent_uuid == entries["before"].uuid


def test_a_forked_process_goes_on_as_a_writer_of_its_own(path: Path) -> None:
    script = (
        "import multiprocessing, sys\n"
        "from sessiontree import Session\n"
        "def write(session, name):\n"
        "    for n in range(50):\n"
        "        session.append_message({'role': 'user', 'content': name})\n"
        "session = Session.open(sys.argv[1], durability='os')\n"
        "session.append_message({'role': 'user', 'content': 'before'})\n"
        "fork = multiprocessing.get_context('fork').Process\n"
        "children = [fork(target=write, args=(session, name)) for name in 'abc']\n"
        "for child in children: child.start()\n"
        "write(session, 'parent')\n"
        "for child in children: child.join()\n"
        "session.append_message({'role': 'user', 'content': 'after'})\n"
    )
    with running(script, path) as child:
        assert child.wait(PATIENCE) == 0
    uuids, damage = uuids_in(path)
    assert (len(uuids), damage) == (203, [])
    with Session.open(path, readonly=True) as session:
        texts = [message["content"] for message in session.context().messages]
    assert texts == ["before", *["parent"] * 50, "after"]
