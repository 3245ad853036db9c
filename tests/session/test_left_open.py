"""What is refused, or fails at any call of the disk, leaves no file open."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.engine.translated import history_files
from sessiontree.storage.fs import Descriptor
from sessiontree.storage.log import FileLog
from tests.support.conversation import user
from tests.support.faultydisk import Fault, FaultyDisk
from tests.support.files import VERSION_1
from tests.support.table import for_each

FIXTURES = Path(__file__).parents[2] / "fixtures"
FOREIGN = (FIXTURES / "foreign-claude-code" / "session.jsonl").read_bytes()
PARTS = ("open", "read", "stat", "size")

Step = Callable[[Session], Any]
STEPS: dict[str, Step] = {
    "nothing more": lambda session: None,
    "a lane": lambda session: session.lane("side"),
    "no such lane": lambda session: session.lane("nobody"),
    "a lane at no entry": lambda session: session.lane("fresh", at="nobody"),
    "a scratch lane": lambda session: session.scratch(),
    "a scratch lane at no entry": lambda session: session.scratch(at="nobody"),
    "a follower": lambda session: session.follow(),
    "a fork": lambda session: session.fork(f"{session.file}.fork.jsonl"),
    "a repair": lambda session: damaged(session).repair(),
    "a repair by another": lambda session: repaired(session).refresh(),
    "another session in its place": lambda session: replaced(session).refresh(),
    "an append after one": lambda session: repaired(session).append_message(user("on")),
    "gc": lambda session: session.gc(),
}


def damaged(session: Session) -> Session:
    with Path(session.file or "").open("ab") as stream:
        stream.write(b'{"type"')
    return session


def repaired(session: Session) -> Session:
    """The session, whose file another one replaced."""
    with Session.open(damaged(session).file or "", durability="os") as other:
        other.repair()
    return session


def replaced(session: Session) -> Session:
    """The session, whose file is that of another session now."""
    other = Path(f"{session.file}.other.jsonl")
    with Session.create(other, durability="os") as made:
        made.append_message(user("other"))
    other.replace(session.file or "")
    return session


def own(file: Path) -> None:
    """A session with a lane, and an old blob that nothing names."""
    with Session.create(file, durability="os") as session:
        session.append_message(user("q"))
        with session.lane("side") as side:
            side.append_message(user("s"))
    blob = Path(f"{file}.blobs", hashlib.sha256(b"old").hexdigest())
    blob.parent.mkdir()
    blob.write_bytes(b"old")
    os.utime(blob, (0, 0))


def of_several_files(file: Path) -> None:
    shutil.copytree(FIXTURES / "foreign-codex-history", file.parent, dirs_exist_ok=True)
    (file.parent / "session.jsonl").rename(file)


KINDS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "own": (own, False),
    "own, to read": (own, True),
    "version 1, to read": (lambda file: file.write_bytes(VERSION_1), True),
    "Codex's, of several files": (of_several_files, True),
    "another agent's": (lambda file: file.write_bytes(FOREIGN), True),
}


def files_in(disk: FaultyDisk) -> list[str]:
    """The open files, without locks and folders, which stay open as long as the session."""
    return sorted(path for path in disk.descriptors.values() if ".lock" not in path)


def attempt(disk: FaultyDisk, file: Path, step: Step, *, readonly: bool) -> BaseException | None:
    """The error of opening a session and of a step, with the frames that it came through."""
    session = None
    try:
        session = Session.open(file, fs=disk, readonly=readonly, durability="os")
        before = files_in(disk)
        try:
            made = step(session)
            if hasattr(made, "close"):
                made.close()
        finally:
            assert files_in(disk) == before
    except (SessionTreeError, OSError) as error:
        return error
    finally:
        if session is not None:
            disk.heal()
            session.close()
    return None


@for_each("kind", list(KINDS))
@for_each("step", list(STEPS))
def test_an_attempt_that_fails_at_any_call_leaves_no_file_open(
    step: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Descriptor, "__del__", lambda _: None)  # which does not run in all Pythons
    make, readonly = KINDS[kind]
    file = tmp_path / "s.jsonl"
    make(file)
    disk = FaultyDisk()
    disk.arm()
    held = [attempt(disk, file, STEPS[step], readonly=readonly)]
    assert not disk.descriptors
    for part in PARTS:
        for nth in range(1, disk.counts[part] + 1):
            faulty = FaultyDisk()
            faulty.arm(Fault(part, nth, errno.EIO, stays=False))
            held.append(attempt(faulty, file, STEPS[step], readonly=readonly))
            assert (part, nth, faulty.descriptors) == (part, nth, {})


def test_a_log_that_is_dropped_closes_its_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    own(tmp_path / "s.jsonl")
    log = FileLog(disk, str(tmp_path / "s.jsonl"), readonly=True)
    assert disk.descriptors
    del log
    assert not disk.descriptors


def test_the_files_of_a_session_of_codex_are_told_and_left_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Descriptor, "__del__", lambda _: None)
    file = tmp_path / "rollout-2026-02-10T22-11-00-01a204ba-0000-7000-8000-000000000002.jsonl"
    of_several_files(file)
    older = next(path for path in tmp_path.iterdir() if path != file and path.suffix == ".jsonl")
    disk = FaultyDisk()
    disk.arm()
    assert history_files(str(file), disk) == [str(older)]
    assert not disk.descriptors
    for part in PARTS:
        for nth in range(1, disk.counts[part] + 1):
            faulty = FaultyDisk()
            faulty.arm(Fault(part, nth, errno.EIO, stays=False))
            assert history_files(str(file), faulty) in ([], [str(older)])
            assert (part, nth, faulty.descriptors) == (part, nth, {})
