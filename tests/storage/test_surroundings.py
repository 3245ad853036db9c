"""One look at a folder in place of a look at each of its files."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from sessiontree import Session, SessionBusyError, SessionNotFoundError
from sessiontree.storage.fs import DISK, Disk, Stat, Times
from sessiontree.storage.lock import SETTLED_SECONDS, TRUSTED_SECONDS, DirectoryWatch, WriterLock
from tests.support.faultydisk import LONG_AGO, Settled
from tests.support.files import HELLO
from tests.support.table import for_each


class Told(Disk):
    """The disk, but the times of a folder are those that it is told."""

    def __init__(self, modified: float, changed: float) -> None:
        self.told = modified, changed
        self.looks = 0

    def stat(self, file: int | str) -> Stat:
        self.looks += 1
        modified, changed = self.told
        return msgspec.structs.replace(super().stat(file), modified=modified, changed=changed)

    def times(self, fd: int) -> Times:
        return self.stat(fd).times


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "s.jsonl"
    path.parent.mkdir()
    Session.create(path, cwd="/project").close()
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands: its time is in the list."""
    at = [1000.0]
    monkeypatch.setattr("sessiontree.storage.lock.time.monotonic", lambda: at[0])
    return at


@pytest.mark.parametrize("exclusive", [False, True])
def test_an_append_looks_once_at_a_folder_that_is_settled(
    path: Path, exclusive: bool, clock: list[float]
) -> None:
    disk = Settled()
    with Session.open(path, exclusive=exclusive, fs=disk) as session:
        session.append_message(HELLO)
        disk.looks.clear()
        for _ in range(2):
            clock[0] += TRUSTED_SECONDS
            session.append_message(HELLO)
            session.append("custom", customType="own")
        assert disk.looks == ["folder", "", "folder", ""]  # by its path, and the open one
    assert path.read_bytes().count(b"\n") == 6


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_loop_of_appends_notices_a_change_in_the_folder_at_once(
    path: Path, exclusive: bool, clock: list[float]
) -> None:
    with Session.open(path, exclusive=exclusive, fs=Settled()) as session:
        for _ in range(3):
            session.append_message(HELLO)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(SessionNotFoundError, match="vanished"):
            session.append_message(HELLO)


def test_a_loop_of_appends_notices_at_once_that_its_lock_was_replaced(
    path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", -1)
    with Session.open(path, fs=Settled()) as session:
        for _ in range(3):
            session.append_message(HELLO)
        before = path.read_bytes()
        os.unlink(f"{path}.lock")
        with closing(WriterLock(DISK, f"{path}.lock")) as other, other.held():
            with pytest.raises(SessionBusyError):
                session.append_message(HELLO)
            assert path.read_bytes() == before


def test_a_loop_of_appends_notices_in_a_millisecond_that_a_folder_above_was_replaced(
    path: Path, clock: list[float]
) -> None:
    with Session.open(path, fs=Settled()) as session:
        for _ in range(3):
            session.append_message(HELLO)
        above = path.parent.parent
        moved = above.rename(above.with_name("moved"))
        try:
            kept = session.append_message(HELLO)  # as if it came before
            clock[0] += TRUSTED_SECONDS
            with pytest.raises(SessionNotFoundError, match="vanished"):
                session.append_message(HELLO)
        finally:
            moved.rename(above)
    assert path.read_bytes().endswith(kept.line + b"\n")


def test_a_session_that_is_closed_or_dropped_leaves_no_folder_open(path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with Session.open(path, fs=Settled()) as session:
        session.append_message(HELLO)
        session.append_message(HELLO)
        assert str(path.parent) in map(target, set(os.listdir("/proc/self/fd")) - before)
    dropped = Session.open(path, fs=Settled())
    dropped.append_message(HELLO)
    dropped.append_message(HELLO)
    del dropped
    gc.collect()
    assert str(path.parent) not in map(target, set(os.listdir("/proc/self/fd")) - before)


def target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # of the listing itself
        return ""


@for_each("exclusive", [False, True])
def test_what_another_wrote_is_seen_without_a_look_at_the_file(path: Path, exclusive: bool) -> None:
    disk = Settled()
    with Session.open(path, exclusive=exclusive, fs=disk) as session:
        session.append_message(HELLO)
        session.append_message(HELLO)
        with open(path, "ab") as file:  # as a program does that knows no lock
            file.write(b'{"type":"custom","uuid":"theirs","parentUuid":null}\n')
        mine = session.append_message(HELLO)
        assert [entry.uuid for entry in session.entries()][-2:] == ["theirs", mine.uuid]
        assert session.entry(mine.uuid).line == mine.line


def test_a_name_that_a_dead_owner_left_is_wiped_out_in_a_settled_folder(
    path: Path, clock: list[float]
) -> None:
    lock_file = Path(f"{path}.lock")
    with Session.open(path, fs=Settled()) as session:
        session.append_message(HELLO)
        session.append_message(HELLO)
        lock_file.write_bytes(b'{"pid":1}')
        clock[0] += TRUSTED_SECONDS
        session.append_message(HELLO)
        assert lock_file.read_bytes() == b""


NOW = 2_000_000_000.0

NOT_SETTLED = {
    "modified just now": (NOW, LONG_AGO),
    "changed just now, and given its old time back": (LONG_AGO, NOW),
    "of a clock that goes before ours": (NOW + 3600, NOW + 3600),
    "of a disk that tells no times": (0.0, 0.0),
}


@for_each("times", NOT_SETTLED.values(), ids=NOT_SETTLED)
def test_a_folder_is_not_relied_on_before_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: tuple[float, float]
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.time.time", lambda: NOW)
    disk = Told(*times)
    surroundings = DirectoryWatch(disk, str(tmp_path))
    assert len({surroundings.look() for _ in range(5)}) == 5
    assert disk.looks == 1


def test_a_folder_is_relied_on_once_it_is_settled_and_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = NOW
    monkeypatch.setattr("sessiontree.storage.lock.time.time", lambda: now)
    disk = Told(now, now)
    surroundings = DirectoryWatch(disk, str(tmp_path))
    surroundings.look()
    now += SETTLED_SECONDS
    settled = surroundings.look()
    assert [surroundings.look() for _ in range(3)] == [settled] * 3
    disk.told = now, now
    assert len({settled, surroundings.look(), surroundings.look()}) == 3
    disk.told = LONG_AGO, now - 2 * SETTLED_SECONDS
    assert surroundings.look() != settled


@for_each(
    "act",
    [
        lambda folder: (folder / "new").touch(),
        lambda folder: (folder / "a").unlink(),
        lambda folder: (folder / "a").rename(folder / "c"),
        lambda folder: (folder / "a").replace(folder / "b"),
        lambda folder: (folder / "a").rename(folder.with_name("outside")),
        lambda folder: (folder / "c").hardlink_to(folder / "a"),
    ],
)
def test_the_system_notes_in_a_folder_when_a_name_of_it_changed(
    path: Path, act: Callable[[Path], object]
) -> None:
    for name in "ab":
        path.with_name(name).touch()
    os.utime(path.parent, (LONG_AGO, LONG_AGO))
    act(path.parent)
    assert Disk().stat(str(path.parent)).modified > LONG_AGO
