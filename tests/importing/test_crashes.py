"""A killed import leaves the old or the new state, and moves no user's leaf."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.storage.fs import Disk
from tests.agents.conftest import state_of
from tests.importing.conftest import assert_same, damage_in, imported, messages
from tests.support.transcripts import Line, assistant, user, written

LARGE = "word " * 20_000
FIRST: list[Line] = [user("a", None, LARGE), assistant("b", "a"), user("c", "b", "other " * 20_000)]
MORE: list[Line] = [*FIRST, assistant("d", "c"), user("e", "d", "third " * 20_000)]


class Dying(Disk):
    """A disk that kills the process at its nth change; a write is half done by then."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _change(self) -> bool:
        self.left -= 1
        return not self.left

    def write(self, fd: int, block: bytes) -> int:
        if self._change():
            super().write(fd, block[: len(block) // 2])
            die()
        return super().write(fd, block)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(kind: str) -> Callable[..., Any]:
    """A call of the disk, before which the process may be killed."""

    def call(disk: Dying, *arguments: Any) -> Any:
        if disk._change():
            die()
        return getattr(Disk, kind)(disk, *arguments)

    return call


for _kind in ("replace", "link", "unlink", "make_folder", "sync", "sync_folder"):
    setattr(Dying, _kind, _dying(_kind))


def was_killed(source: Path, out: Path, at: int) -> bool:
    """Whether an importing process was killed at its nth change, before it ended."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            import_session(source, out, fs=Dying(at))
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return bool(status)


def sessions_in(out: Path) -> list[Path]:
    return sorted(out.glob("*.jsonl"))


def at_each_change() -> Iterator[int]:
    yield from range(1, 200)
    pytest.fail("it never ended")


@pytest.mark.slow
def test_an_import_killed_anywhere_leaves_all_or_nothing(tmp_path: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    before = state_of(source.parent)
    for at in at_each_change():
        out = tmp_path / f"out{at}"
        killed = was_killed(source, out, at)
        for found in sessions_in(out):
            assert_same(source, str(found))
        done = imported(source, out)
        assert sessions_in(out) == [Path(done.file)]
        if not killed:
            break
    assert at > 10
    assert state_of(source.parent) == before


@pytest.mark.slow
def test_an_update_killed_anywhere_keeps_every_earlier_entry(tmp_path: Path) -> None:
    for at in at_each_change():
        source = written(tmp_path / f"t{at}" / "s.jsonl", FIRST)
        out = tmp_path / f"out{at}"
        target = import_session(source, out).file
        old = messages(target)
        written(source, MORE)
        killed = was_killed(source, out, at)
        torn = damage_in(target)
        assert all(found.kind == "torn" for found in torn)
        assert messages(target)[1][: len(old[1])] == old[1]
        import_session(source, out)
        assert messages(target) == messages(source)
        if torn:
            with Session.open(target) as session:
                session.repair()
        assert damage_in(target) == []
        assert import_session(source, out).is_up_to_date
        if not killed:
            break
    assert at > 5


@pytest.mark.slow
def test_an_update_that_is_killed_does_not_move_the_users_leaf(tmp_path: Path) -> None:
    for at in at_each_change():
        source = written(tmp_path / f"t{at}" / "s.jsonl", FIRST)
        out = tmp_path / f"out{at}"
        target = import_session(source, out).file
        with Session.open(target) as session:
            mine = session.append_message({"role": "user", "content": "mine"}).uuid
        written(source, MORE)
        killed = was_killed(source, out, at)
        for _ in range(2):
            with Session.open(target, readonly=True) as session:
                assert session.leaf.uuid == mine
            import_session(source, out)
        assert messages(target, "claude-code") == messages(source)
        if not killed:
            break
