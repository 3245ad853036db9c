"""Programs that copy and unite sessions are killed, run at once, and meet programs that append."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import sessiontree
from sessiontree import Session
from sessiontree.operations.copy import SessionCopy
from sessiontree.operations.sync import sync_session
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import DISK, Disk
from sessiontree.storage.places import blobs_of, open_log
from tests.places.kinds import opened
from tests.support.children import (
    forked,
    in_threads,
    read_line,
    read_rest,
    running,
    tell,
    together,
    uuids_in,
)
from tests.support.conversation import assistant, user
from tests.support.soak import in_soak

LARGE: Final = "large content " * 20
CHUNK: Final = 400
"""The bytes that a copy writes at once in these tests, so that it takes several steps."""


class Killing(Disk):
    """The disk, on which the process is killed at the n-th call that changes something.

    With `half`, a write that meets this gets half of its bytes out.
    """

    def __init__(self, left: int, *, half: bool) -> None:
        self._left = left
        self._half = half

    def _step(self) -> bool:
        self._left -= 1
        if self._left == 0 and not self._half:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._left == 0

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_CREAT:
            self._step()
        return super().open(path, flags)

    def write(self, fd: int, block: bytes) -> int:
        if self._step():
            os.write(fd, block[: len(block) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, block)

    def sync(self, fd: int) -> None:
        self._step()
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self._step()
        super().sync_folder(path)

    def replace(self, source: str, target: str) -> None:
        self._step()
        super().replace(source, target)

    def link(self, source: str, target: str) -> None:
        self._step()
        super().link(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)

    def make_folder(self, path: str) -> None:
        self._step()
        super().make_folder(path)


STEPS: Final = 150
"""More calls than any work here makes."""


def killed_at_each_step(
    work: Callable[[Disk], object],
    begin: Callable[[], object],
    check: Callable[[], object],
    every: int,
) -> int:
    """Kill a process at each n-th step of some work, and check what it left; the kills."""
    kills = 0
    for half in (False, True):
        for step in range(1, STEPS, every):
            begin()
            child = forked(partial(work, Killing(step, half=half)))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status in (0, -signal.SIGKILL)
            check()
            kills += status != 0
            if status == 0 and not half:  # else this step was no write
                break
    return kills


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    file = tmp_path / "chat.jsonl"
    with Session.create(file, cwd="/p", spill_over=100, durability="os") as session:
        session.append_message(user("hello"))
        session.append_message(assistant(LARGE))
        session.append_message(user("go on"))
        session.append_message(assistant(LARGE + "again"))
    Path(f"{file}.v1").write_bytes(b"the original\n")
    return file


def blobs_in(file: Path) -> dict[str, bytes]:
    return {
        blob.sha256: Blobs(DISK, str(file)).read(*blob) for blob in Blobs(DISK, str(file)).blobs()
    }


@pytest.mark.slow
@in_soak("every", 8, 1)
def test_a_copy_that_is_killed_at_any_step_has_the_first_lines_and_is_finished_by_another(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setattr("sessiontree.operations.copy._AT_ONCE", CHUNK)
    folder = tmp_path / "copies"
    there = folder / "chat.jsonl"
    whole = chat.read_bytes()

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def work(disk: Disk) -> None:
        SessionCopy(disk, str(chat), str(there)).go()

    def check() -> None:
        if there.exists():
            left = there.read_bytes()
            assert whole.startswith(left)
            assert left
            uuids, damage = uuids_in(there)
            assert len(uuids) >= left.count(b"\n")
            assert {found.kind for found in damage} <= {"torn"}
            with Session.open(there, readonly=True) as session:
                assert len(session.context().messages) == len(uuids) - 1  # with their blobs
        SessionCopy(DISK, str(chat), str(there)).go()
        assert there.read_bytes() == whole
        assert blobs_in(there) == blobs_in(chat)
        assert Path(f"{there}.v1").read_bytes() == b"the original\n"

    assert killed_at_each_step(work, begin, check, every) > 15 // every
    assert chat.read_bytes() == whole


@pytest.mark.slow
@in_soak("every", 12, 1)
def test_a_sync_that_is_killed_at_any_step_ends_the_same_when_it_runs_again(
    chat: Path, tmp_path: Path, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.operations.sync._APPEND", CHUNK)
    first, files = tmp_path / "first", [tmp_path / "now" / name for name in ("a.jsonl", "b.jsonl")]
    first.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        SessionCopy(DISK, str(chat), str(first / name)).go()
        with Session.open(first / name, spill_over=100, durability="os") as session:
            session.append_message(user(f"{name} {LARGE}"))
            session.rename(f"named in {name}")
            with session.lane("l") as lane:
                lane.append_message(user(f"lane of {name}"))
                lane.append_message(user(f"more of {name} {LARGE}"))

    def begin() -> None:
        shutil.rmtree(tmp_path / "now", ignore_errors=True)
        shutil.copytree(first, tmp_path / "now")

    def work(disk: Disk) -> None:
        sync_session(disk, *map(str, order))

    order = files
    begin()
    work(Disk())
    before = [(first / file.name).read_bytes() for file in files]
    wanted = [entries(file) for file in files]
    assert wanted[0] == wanted[1]

    def check() -> None:
        for file, old in zip(files, before, strict=True):
            assert file.read_bytes().startswith(old)
            with Session.open(file, readonly=True) as session:
                for entry in session.entries():
                    assert entry.get("message", 0) is not None  # reads its blob
        sync_session(DISK, *map(str, files))
        assert [entries(file) for file in files] == wanted
        assert sync_session(DISK, *map(str, files)).is_unchanged

    assert killed_at_each_step(work, begin, check, every) > 20 // every
    order = files[::-1]
    assert killed_at_each_step(work, begin, check, every) > 20 // every


def entries(file: Path) -> tuple[object, ...]:
    """What a session is: its entries, and the leaf of each lane."""
    with Session.open(file, readonly=True) as session, session.lane("l") as lane:
        lines = sorted(entry.line for entry in session.entries())
        assert len(set(lines)) == len(lines)
        return lines, session.leaf.uuid, lane.leaf.uuid, session.name


WRITER: Final = """
import sys
from sessiontree import Session
path, count = sys.argv[1], int(sys.argv[2])
with Session.open(path, spill_over=100, durability="os") as session:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        text = f"{path} {number} " * (1 + 20 * (number % 3 == 0))
        print(session.append_message({"role": "user", "content": text}).uuid, flush=True)
"""

UNITER: Final = """
import sys
import sessiontree
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    sessiontree.sync(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "postgres", "s3"])
def test_programs_that_unite_and_append_at_once_lose_nothing_and_write_nothing_twice(
    kind: str, chat: Path, tmp_path: Path
) -> None:
    with ExitStack() as places:
        files = [str(chat), str(tmp_path / "other.jsonl")]
        if kind != "files":
            place, _ = places.enter_context(opened(kind, tmp_path / "place"))
            files = [place.address(f"p/{name}.jsonl") for name in ("a", "b")]
        for file in files:
            if file != str(chat):
                sessiontree.copy(chat, file)
        unite_and_append(files[0], files[1], count=60 if kind == "files" else 20)


def unite_and_append(first: str, second: str, count: int) -> None:
    with (
        running(WRITER, first, count) as one,
        running(WRITER, second, count) as two,
        running(UNITER, first, second, 6) as three,
        running(UNITER, second, first, 6) as four,
    ):
        children = one, two, three, four
        for child in children:
            assert read_line(child) == "ready"
        for child in children:
            tell(child)
        acknowledged = [*read_rest(one), *read_rest(two)]
        for child in children:
            assert child.wait() == 0
    assert len(acknowledged) == 2 * count
    check_united(first, second, acknowledged)


def check_united(first: str, second: str, acknowledged: list[str]) -> None:
    sync_session(DISK, first, second)
    assert sync_session(DISK, second, first).is_unchanged
    found = []
    for file in (first, second):
        with Session.open(file, readonly=True) as session:
            uuids = [entry.uuid for entry in session.entries()]
            assert session.verify() == []
            found.append((set(uuids), session.leaf.uuid))
        assert len(set(uuids)) == len(uuids)
        assert set(acknowledged) <= set(uuids)
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "objects"])
def test_threads_that_unite_and_append_at_once_lose_nothing_and_write_nothing_twice(
    kind: str, chat: Path, tmp_path: Path
) -> None:
    with opened(kind, tmp_path / "place") as (place, _):
        first, second = (place.address(f"p/{name}.jsonl") for name in ("a", "b"))
        sessiontree.copy(chat, first)
        sessiontree.copy(chat, second)
        acknowledged: list[str] = []

        def write(file: str) -> None:
            with Session.open(file, spill_over=100) as session:
                for number in range(40):
                    text = f"{file} {number} " * (1 + 20 * (number % 3 == 0))
                    acknowledged.append(session.append_message(user(text)).uuid)

        def unite(one: str, other: str) -> None:
            for _ in range(8):
                sessiontree.sync(one, other)

        works = [partial(write, file) for file in (first, second)]
        works += [partial(unite, first, second), partial(unite, second, first)]
        assert in_threads(*works) == []
        check_united(first, second, acknowledged)


@pytest.mark.slow
def test_programs_that_copy_the_same_session_at_once_make_one_copy(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.operations.copy._AT_ONCE", CHUNK)
    with Session.open(chat, durability="os") as session:
        for number in range(60):
            session.append_message(user(f"{number}"))
    there = tmp_path / "there.jsonl"
    copies = [partial(SessionCopy(DISK, str(chat), str(there)).go) for _ in range(4)]
    together(*copies)
    assert there.read_bytes() == chat.read_bytes()
    assert blobs_in(there) == blobs_in(chat)


COPIER: Final = """
import sys
import sessiontree
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    sessiontree.copy(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
def test_a_session_that_grows_is_copied_up_to_a_whole_line(chat: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    with running(WRITER, chat, 100) as writer, running(COPIER, chat, there) as copier:
        for child in (writer, copier):
            assert read_line(child) == "ready"
        for child in (writer, copier):
            tell(child)
        assert copier.wait() == 0
        assert len(read_rest(writer)) == 100
    assert chat.read_bytes().startswith(there.read_bytes())
    assert there.read_bytes().endswith(b"\n")
    assert uuids_in(there)[1] == []
    SessionCopy(DISK, str(chat), str(there)).go()
    assert there.read_bytes() == chat.read_bytes()


SERVED: Final = """
import sys, time
import sessiontree
from sessiontree.operations import copy, sync
copy._AT_ONCE = sync._APPEND = 2000
print("ready", flush=True)
sys.stdin.readline()
getattr(sessiontree, sys.argv[1])(sys.argv[2], sys.argv[3])
print("done", flush=True)
"""


def killed_soon(name: str, one: object, other: object, chance: random.Random) -> bool:
    """Run a copy or a sync in a process, and kill it after a while; whether it had not ended."""
    with running(SERVED, name, one, other) as child:
        assert read_line(child) == "ready"
        tell(child)
        time.sleep(0.1 * chance.random() ** 2)
        child.kill()
        return "done" not in read_rest(child)


def content(file: str) -> bytes:
    with closing(open_log(DISK, file, readonly=True)) as log:
        return log.read(0, log.size())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "s3"])
@in_soak("kills_of_each", 2, 8)
def test_programs_that_are_killed_between_a_file_and_a_server_are_finished_by_others(
    kind: str, chat: Path, tmp_path: Path, kills_of_each: int
) -> None:
    chance = random.Random(kind)
    with Session.open(chat, spill_over=100, durability="os") as session:
        for number in range(40):
            session.append_message(user(f"{number} " * (200 if number % 4 == 0 else 1)))
    whole = chat.read_bytes()
    kills = 0
    with opened(kind, tmp_path / "place") as (place, _):
        for number in range(kills_of_each):
            there = place.address(f"copied/{number}.jsonl")
            kills += killed_soon("copy", chat, there, chance)
            if place.find(f"copied/{number}.jsonl") is not None:
                left = content(there)
                assert whole.startswith(left)
                assert left.endswith(b"\n")
            copied = sessiontree.copy(chat, there)
            assert copied.problems == copied.damage == []
            assert content(there) == whole
        assert chat.read_bytes() == whole
        for number in range(kills_of_each):
            mine, there = tmp_path / f"{number}.jsonl", place.address(f"copied/{number}.jsonl")
            sessiontree.copy(chat, mine)
            for file in (str(mine), there):
                with Session.open(file, spill_over=100) as session:
                    for count in range(30):
                        session.append_message(user(f"{file} {count} " * (1 + 20 * (count % 2))))
            before = mine.read_bytes(), content(there)
            kills += killed_soon("sync", mine, there, chance)
            result = sessiontree.sync(there, mine)
            assert result.problems == result.damage == []
            after = mine.read_bytes(), content(there)
            assert all(new.startswith(old) for old, new in zip(before, after, strict=True))
            lines = [sorted(new.splitlines()) for new in after]
            assert lines[0] == lines[1]
            assert len(set(lines[0])) == len(lines[0])
            assert after[0].splitlines()[-1] == after[1].splitlines()[-1]
            assert sessiontree.sync(mine, there).is_unchanged
            assert not list(blobs_of(DISK, there).verify())
    assert kills > 0
