"""A full disk costs the entry that did not fit, and nothing else.

For real: a limit on the size of files, `/dev/full`, and a small file system that
is filled up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiontree import NotASessionError, Session, StorageError, WriteFailedError
from sessiontree.storage.fs import Disk
from tests.support.children import PATIENCE, read_line, running, tell, uuids_in
from tests.support.conversation import user
from tests.support.table import for_each

LINE = 3000
"""Roughly how long the lines are that fill the disk."""

LIMITED = """
import resource, signal, sys
from sessiontree import Session, WriteFailedError
path, limit, durability = sys.argv[1], int(sys.argv[2]), sys.argv[3]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
session = Session.open(path, durability=durability)
message = {"role": "user", "content": "x" * 3000}
count = 0
try:
    while True:
        print(session.append_message(message).uuid, flush=True)
        count += 1
except WriteFailedError as error:
    assert "File too large" in str(error), error
    assert error.file == path
assert len(session.context().messages) == count
print("failed", flush=True)
sys.stdin.readline()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    session.append_message(message)  # there is space again, but what of the last one was kept?
except WriteFailedError as error:
    assert "open the session again" in str(error)
else:
    raise AssertionError("a session that failed to write went on writing")
session.close()
with Session.open(path, durability=durability) as session:
    assert len(session.context().messages) == count
    print(session.append_message(message).uuid, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no limits on processes")
@for_each("durability", ["os", "fsync"])
@for_each("limit", [20_000, 20_001])
def test_a_file_limit_costs_what_did_not_fit(tmp_path: Path, durability: str, limit: int) -> None:
    path = tmp_path / "chat.jsonl"
    Session.create(path).close()
    with running(LIMITED, path, limit, durability) as child:
        acknowledged = []
        while (line := read_line(child)) != "failed":
            assert len(line) == 36, "the child failed; see its standard error"
            acknowledged.append(line)
        assert path.stat().st_size == limit  # what fitted of the last one stays
        before = path.read_bytes()
        assert_kept(path, acknowledged, torn=True)
        tell(child)
        acknowledged.append(read_line(child))
        assert child.wait(PATIENCE) == 0
    assert path.read_bytes().startswith(before + b"\n")
    assert_kept(path, acknowledged, torn=False)


def assert_kept(path: Path, acknowledged: list[str], *, torn: bool) -> None:
    """What was acknowledged, and no more, is there, and one fragment of a line."""
    uuids, damage = uuids_in(path)
    assert uuids[1:] == acknowledged
    assert [found.kind for found in damage] == ["torn" if torn else damage[0].kind]
    assert damage[0].kind in ("torn", "json")


class Filling(Disk):
    """The disk, on which the n-th write gets some bytes out and then meets a full device.

    Later writes find space again.
    """

    def __init__(self, full_at: int, fits: int) -> None:
        self._left = full_at
        self._fits = fits
        self._full = os.open("/dev/full", os.O_WRONLY)

    def write(self, fd: int, block: bytes) -> int:
        self._left -= 1
        if self._left == 0 and self._fits:
            return super().write(fd, block[: self._fits])
        if self._left == (-1 if self._fits else 0):
            return os.write(self._full, block)
        return super().write(fd, block)

    def release(self) -> None:
        os.close(self._full)


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    with Session.create(path, durability="os") as session:
        session.append_message(user("before"))
    return path


@needs_full
@pytest.mark.parametrize("fits", [0, 1, 60])
def test_a_full_device_costs_the_entry_that_did_not_fit(path: Path, fits: int) -> None:
    message = user("x" * LINE)
    before, _ = uuids_in(path)
    disk = Filling(2, fits)
    with Session.open(path, fs=disk) as session:
        kept = session.append_message(message)
        with pytest.raises(WriteFailedError, match="No space left on device"):
            session.append_message(message)
        with pytest.raises(WriteFailedError, match="open the session again"):
            session.append_message(message)
        assert session.leaf == kept
    disk.release()
    with Session.open(path) as session:
        last = session.append_message(message)
        assert last.parent_uuid == kept.uuid
    uuids, damage = uuids_in(path)
    assert uuids == [*before, kept.uuid, last.uuid]
    assert len(damage) == (1 if fits else 0)


@needs_full
def test_a_full_device_costs_a_batch_its_rest(path: Path) -> None:
    disk = Filling(1, 5 * LINE)
    with Session.open(path, fs=disk) as session:
        entries = []
        with pytest.raises(WriteFailedError), session.batch():
            entries += [session.append_message(user("x" * LINE)) for _ in range(10)]
    disk.release()
    uuids, _ = uuids_in(path)
    kept = uuids[2:]
    assert 0 < len(kept) < len(entries)
    assert kept == [entry.uuid for entry in entries[: len(kept)]]


@needs_full
def test_a_device_is_no_session(path: Path) -> None:
    link = path.with_name("link.jsonl")
    link.symlink_to("/dev/full")
    for readonly in (True, False):
        with pytest.raises(NotASessionError):
            Session.open(link, readonly=readonly)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("NOT TESTED on a disk that is full for real: there is no 'mount' here")
    if done.returncode:
        why = done.stderr.strip() or "mount failed"
        pytest.skip(f"NOT TESTED on a disk that is full for real, which takes root: {why}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space that is left, with one file."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def append_until_full(session: Session, message: dict[str, str]) -> list[str]:
    acknowledged: list[str] = []

    def go_on() -> None:
        while True:
            acknowledged.append(session.append_message(message).uuid)

    with pytest.raises(WriteFailedError, match="No space left on device"):
        go_on()
    with pytest.raises(WriteFailedError, match="open the session again"):
        session.append_message(message)
    return acknowledged


def kept_of(acknowledged: list[str], path: Path) -> list[str]:
    """Return the entries of a file: what was acknowledged, and perhaps the one that failed."""
    kept = uuids_in(path)[0][1:]
    assert kept[: len(acknowledged)] == acknowledged
    assert len(kept) <= len(acknowledged) + 1
    return kept


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs, as Linux has it")


@linux_only
@pytest.mark.parametrize("length", [100, LINE, 30_000])
def test_a_session_goes_on_once_a_full_disk_has_space_again(small_disk: Path, length: int) -> None:
    path = small_disk / "chat.jsonl"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 8192)
    message = user("x" * length)
    session = Session.create(path)
    acknowledged = append_until_full(session, message)
    left = path.read_bytes()
    assert [entry.uuid for entry in session.entries()][1:] == acknowledged
    session.close()
    kept = kept_of(acknowledged, path)
    with Session.open(path) as session:
        kept += append_until_full(session, message)
    kept = kept_of(kept, path)
    ballast.unlink()
    with Session.open(path) as session:
        last = session.append_message(user("space again"))
        assert last.parent_uuid == (kept or [session.header.uuid])[-1]
        kept.append(last.uuid)
    assert path.read_bytes().startswith(left)
    uuids, damage = uuids_in(path)
    assert uuids[1:] == kept
    assert {found.kind for found in damage} <= {"json", "torn"}


@linux_only
def test_a_line_that_fitted_but_for_its_newline_is_an_entry_once_there_is_space_again(
    small_disk: Path,
) -> None:
    path = small_disk / "chat.jsonl"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 8192)
    session = Session.create(path, spill_over=None)
    header = path.stat().st_size
    acknowledged = [session.append_message(user("")).uuid]
    size = path.stat().st_size
    disk = os.statvfs(small_disk)
    room = disk.f_bavail * disk.f_frsize + -size % disk.f_frsize
    with pytest.raises(WriteFailedError, match="No space left on device"):
        session.append_message(user("x" * (room + 1 - (size - header))))
    session.close()
    assert path.read_bytes().endswith(b"}")
    kept = kept_of(acknowledged, path)
    assert len(kept) == len(acknowledged) + 1
    ballast.unlink()
    with Session.open(path) as session:
        last = session.append_message(user("space again"))
    assert last.parent_uuid == kept[-1]
    assert uuids_in(path) == ([session.header.uuid, *kept, last.uuid], [])


@linux_only
def test_what_makes_a_new_file_leaves_all_as_it_was_on_a_full_disk(small_disk: Path) -> None:
    old = small_disk / "old.jsonl"
    old.write_bytes(
        b'{"type":"session","id":"old","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/p"}\n'
        + b'{"type":"message","message":{"role":"user","content":"one"}}\n' * 200
    )
    path = small_disk / "chat.jsonl"
    with Session.create(path) as session:
        session.append_message(user("x" * 6000))
    with path.open("ab") as file:
        file.write(b'{"type":"mess\n')
    os.close(os.open(f"{old}.lock", os.O_CREAT))  # a lock file takes no space, but a name does
    ballast = fill(small_disk)
    before = {file.name: file.read_bytes() for file in small_disk.iterdir()}

    with Session.open(path) as session:
        making: list[Callable[[], object]] = [
            lambda: Session.open(old),
            lambda: Session.create(small_disk / "new.jsonl"),
            session.repair,
            lambda: session.fork(small_disk / "fork.jsonl"),
            lambda: session.export_branch(session.leaf, small_disk / "export.jsonl"),
        ]
        for make in making:
            with pytest.raises(StorageError, match="the disk is full"):
                make()
    assert {file.name: file.read_bytes() for file in small_disk.iterdir()} == before
    ballast.unlink()
    with Session.open(old) as session:
        assert len(session.context().messages) == 200
    with Session.open(path) as session:
        assert session.repair().remaining == []
