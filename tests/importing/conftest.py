"""The promises of every import, as helpers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Damage, Session
from sessiontree.importing.importer import ImportResult, import_session
from tests.agents.conftest import state_of, untouched
from tests.support.transcripts import Line, assistant, user

__all__ = ["untouched"]

_ASIDE: dict[str, Any] = {"isSidechain": True, "agentId": "one"}
SUBAGENT: list[Line] = [user("s1", None, **_ASIDE), assistant("s2", "s1", "n", **_ASIDE)]


def messages(file: str | Path, lane: str = "main", ref: str | None = None) -> list[list[Any]]:
    """The messages of a session's context, paired and verbatim."""
    with Session.open(file, readonly=True, lane=lane) as session:
        return [session.context(ref, verbatim=way).messages for way in (False, True)]


def without_origins(file: str | Path) -> list[list[Any]]:
    """The same without `fromUuid`, which an import may correct."""
    ways = messages(file)
    return [[{key: m[key] for key in m if key != "fromUuid"} for m in way] for way in ways]


def damage_in(file: str | Path) -> list[Damage]:
    with Session.open(file, readonly=True) as session:
        return session.verify()


def lanes_of(file: str | Path) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return sorted({entry.lane or "main" for entry in session.entries()})


def assert_same(source: Path, target: str) -> None:
    """Assert that each lane has the context of the source read in place, and no damage."""
    assert lanes_of(target) == lanes_of(source)
    for lane in lanes_of(source):
        assert messages(target, lane) == messages(source, lane)
    with Session.open(target, readonly=True) as session, Session.open(source, readonly=True) as own:
        assert session.verify() == []
        context, expected = session.context(), own.context()
        assert (context.system, context.model) == (expected.system, expected.model)
        assert context.thinking_level == expected.thinking_level
        assert session.name == own.name


def imported(source: Path, folder: Path) -> ImportResult:
    """Import a file, and check every promise of an import."""
    before = state_of(source.parent)
    done = import_session(source, folder)
    assert_same(source, done.file)
    content = Path(done.file).read_bytes()
    again = import_session(source, folder)
    assert (again.file, again.new, again.is_up_to_date) == (done.file, 0, True)
    assert Path(done.file).read_bytes() == content
    assert state_of(source.parent) == before
    return done


def touched(file: Path) -> Path:
    """The file with a later time, so that it is read again."""
    found = file.stat()
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
