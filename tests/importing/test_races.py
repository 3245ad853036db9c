"""Simultaneous imports make one session, and see what others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.storage.fs import Disk
from tests.importing.conftest import assert_same
from tests.importing.test_crashes import FIRST, MORE, sessions_in
from tests.support.children import read_line, running, tell
from tests.support.files import uuids_at
from tests.support.table import for_each
from tests.support.transcripts import user, written

CHILD = """
import sys
from sessiontree.importing import import_session
print("ready", flush=True)
sys.stdin.readline()
done = import_session(sys.argv[1], sys.argv[2])
print(done.file, flush=True)
"""


@pytest.mark.slow
@for_each("was_there", [False, True])
def test_two_processes_at_once_make_one_session(was_there: bool, tmp_path: Path) -> None:
    lines = [user("u0", None)]
    lines += [user(f"u{n}", f"u{n - 1}", f"{n} " * 3_000) for n in range(1, 200)]
    source = written(tmp_path / "t" / "s.jsonl", lines[:100] if was_there else lines)
    out = tmp_path / "out"
    if was_there:
        import_session(source, out)
        written(source, lines)
    with running(CHILD, source, out) as one, running(CHILD, source, out) as other:
        children = (one, other)
        assert [read_line(child) for child in children] == ["ready", "ready"]
        for child in children:
            tell(child)
        files = {read_line(child) for child in children}
    (file,) = files
    assert sessions_in(out) == [Path(file)]
    assert_same(source, file)
    uuids = uuids_at(file)
    assert len(uuids) == len(set(uuids))


class Meddled(Disk):
    """A disk on which another writer appends while the target is first locked."""

    def __init__(self, meddle: Callable[[], Any]) -> None:
        self._meddle: Callable[[], Any] | None = meddle

    def lock(self, fd: int) -> bool:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
        return super().lock(fd)


class Busy(Disk):
    """A disk on which another writer appends just before the target is locked, each time."""

    def __init__(self, target: str) -> None:
        self._target = target

    def lock(self, fd: int) -> bool:
        with Session.open(self._target) as session:
            session.append_message({"role": "user", "content": "mine"})
        return super().lock(fd)


def test_an_import_ends_also_where_another_never_stops_writing(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    target = import_session(source, out).file
    import_session(written(source, MORE), out, fs=Busy(target))
    with Session.open(target, readonly=True) as session:
        assert session.entry("e").lane == "claude-code"
        assert session.verify() == []


def test_an_update_sees_what_a_user_writes_during_it(tmp_path: Path, out: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    target = import_session(source, out).file
    written(source, MORE)

    def go_on() -> None:
        with Session.open(target) as session:
            session.append_message({"role": "user", "content": "mine"})

    import_session(source, out, fs=Meddled(go_on))
    with Session.open(target, readonly=True) as session:
        assert session.leaf["message"]["content"] == "mine"
        assert session.entry("e").lane == "claude-code"
        assert session.verify() == []


def test_a_blob_that_goes_away_before_its_line_is_written_is_stored_again(
    tmp_path: Path, out: Path
) -> None:
    large = "word " * 20_000
    source = written(tmp_path / "t" / "s.jsonl", [user("a", None)])
    target = import_session(source, out).file
    written(source, [user("a", None), user("large", "a", large)])
    gone: list[Path] = []

    def collect() -> None:
        gone.extend(Path(f"{target}.blobs").iterdir())
        for blob in gone:
            blob.unlink()

    import_session(source, out, fs=Meddled(collect))
    assert gone
    with Session.open(target, readonly=True) as session:
        assert session.verify() == []
        assert session.find(type="message")[-1]["message"]["content"] == large
