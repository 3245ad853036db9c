"""What is refused, or fails at any call of the disk, leaves no file open."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.storage.log import FileLog
from tests.support.conversation import user
from tests.support.faultydisk import Fault, FaultyDisk
from tests.support.files import VERSION_1

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
    "a repair": lambda session: session.repair(),
    "gc": lambda session: session.gc(),
}


def own(file: Path) -> None:
    with Session.create(file, durability="os") as session:
        session.append_message(user("q"))
        session.lane("side").append_message(user("s"))


KINDS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "own": (own, False),
    "own, to read": (own, True),
    "version 1, to read": (lambda file: file.write_bytes(VERSION_1), True),
    "another agent's": (lambda file: file.write_bytes(FOREIGN), True),
}


def attempt(disk: FaultyDisk, file: Path, step: Step, *, readonly: bool) -> BaseException | None:
    """The error of opening a session and of a step, with the frames that it came through."""
    session = None
    try:
        session = Session.open(file, fs=disk, readonly=readonly, durability="os")
        made = step(session)
        if hasattr(made, "close"):
            made.close()
    except (SessionTreeError, OSError) as error:
        return error
    finally:
        if session is not None:
            disk.heal()
            session.close()
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_an_attempt_that_fails_at_any_call_leaves_no_file_open(
    step: str, kind: str, tmp_path: Path
) -> None:
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
