"""A backup that is killed anywhere loses nothing, and the next one completes it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.importing.backup import Backup
from sessiontree.storage.fs import DISK, FileSystem
from tests.agents.conftest import state_of
from tests.importing.conftest import damage_in, messages
from tests.importing.test_crashes import Dying, at_each_change
from tests.support.faultydisk import Fault, FaultyDisk, faults
from tests.support.homes import settle
from tests.support.soak import in_soak
from tests.support.transcripts import Line, assistant, user, written

LARGE = "word " * 10_000
OLD: list[Line] = [user("a", None, sessionId="one"), assistant("b", "a", sessionId="one")]
GROWN: list[Line] = [*OLD, user("c", "b", LARGE, sessionId="one")]
NEW: list[Line] = [user("n", None, LARGE, sessionId="two")]


def sources(top: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted((top / "agent").glob("*.jsonl"))}


def prepared(top: Path) -> Path:
    """A folder with a session that was backed up and grew since, and one that is new."""
    one = written(top / "agent" / "one.jsonl", OLD)
    settle(one)
    backup(top)
    written(one, GROWN)
    written(top / "agent" / "two.jsonl", NEW)
    for path in sources(top).values():
        settle(path)
    return top


def backup(top: Path, fs: FileSystem = DISK) -> None:
    folder = str(top / "agent")
    result = Backup(str(top / "store"), [folder], fs=fs, cache=str(top / "cache")).run()
    assert fs is not DISK or result.is_complete


def was_killed(top: Path, at: int) -> bool:
    """Whether a process that backs up was killed at its nth change, before it ended."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            backup(top, Dying(at))
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return bool(status)


def kept(top: Path) -> dict[str, Path]:
    """The sessions in the store, by their ids."""
    found = sorted((top / "store").rglob("*.jsonl"))
    return {path.stem.rpartition("_")[2]: path for path in found}


def assert_nothing_lost(top: Path, before: dict[str, bytes]) -> None:
    """Assert that each earlier entry is there, and that the next backup makes all of it whole."""
    for id, path in kept(top).items():
        assert path.read_bytes().startswith(before.get(id, b""))
        assert all(found.kind == "torn" for found in damage_in(path))
    backup(top)
    backup(top)
    assert kept(top).keys() == {"one", "two"}
    for id, path in kept(top).items():
        assert messages(path) == messages(sources(top)[id])
        with Session.open(path) as session:
            session.repair()
        assert damage_in(path) == []


def each_top(tmp_path: Path) -> Callable[[], tuple[Path, dict[str, bytes]]]:
    """A function that gives the prepared folder anew, and what its store holds."""
    made = prepared(tmp_path / "made")
    before = {id: path.read_bytes() for id, path in kept(made).items()}
    top = tmp_path / "top"

    def again() -> tuple[Path, dict[str, bytes]]:
        shutil.rmtree(top, ignore_errors=True)
        shutil.copytree(made, top)
        return top, before

    return again


@pytest.mark.slow
def test_a_backup_killed_at_any_change_loses_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    again = each_top(tmp_path)
    for at in at_each_change():
        top, before = again()
        agents = state_of(top / "agent")
        killed = was_killed(top, at)
        assert_nothing_lost(top, before)
        assert state_of(top / "agent") == agents
        if not killed:
            break
    record_property("kills", at - 1)
    assert at > 20


@pytest.mark.slow
@in_soak("every", 7, 1)
def test_any_call_of_the_disk_that_fails_loses_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None], every: int
) -> None:
    again = each_top(tmp_path)
    disk = FaultyDisk()
    disk.arm()
    top, _ = again()
    backup(top, disk)
    changing = dict(disk.counts)
    for kind in ("open", "close", "read", "size", "stat", "list", "unlock"):
        changing[kind] = 0
    tried = 0
    for fault in islice(faults(changing, [5, 28]), None, None, every):
        top, before = again()
        _failing(top, fault)
        assert_nothing_lost(top, before)
        tried += 1
    record_property("faults", tried)
    assert tried > 100 // every


def _failing(top: Path, fault: Fault) -> None:
    """A backup on a disk that fails; it may refuse, but claims nothing that is not so."""
    disk = FaultyDisk()
    disk.arm(fault)
    folder = str(top / "agent")
    maker = Backup(str(top / "store"), [folder], fs=disk, cache=str(top / "cache"))
    try:
        result = maker.run()
    except OSError:
        return
    for one in (*result.new, *result.grown):
        assert messages(one.file) == messages(one.source)
    if result.is_complete:
        assert len(result.new) + len(result.grown) + result.unchanged == 2
