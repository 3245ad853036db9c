"""Following another agent's file gives each entry that the agent adds, once, while it writes.

The steps of the agent stand in place of the system's notices, so each step is seen by itself.
"""

from __future__ import annotations

import itertools
import json
import select
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiontree import (
    Damage,
    Entry,
    FileReplacedError,
    NotASessionError,
    Session,
    SessionNotFoundError,
)
from sessiontree.engine.opening import SessionFile, reopened
from sessiontree.operations import follow
from sessiontree.storage.log import FileLog
from tests.docs.examples import ROOT
from tests.operations.test_follow import interrupt, open_files, python
from tests.support.table import for_each

FIXTURES = ROOT / "fixtures"
CLAUDE = FIXTURES / "foreign-claude-code" / "session.jsonl"
SUBAGENTS = FIXTURES / "agents" / "claude_code" / "2.1.330"
GROWING = [
    *sorted(FIXTURES.glob("foreign-*/session.jsonl")),
    *sorted(file for file in (FIXTURES / "agents").rglob("*.jsonl") if "_" not in file.stem),
]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Entry]]:
    """Follow a file while steps are taken; return what was given."""
    monkeypatch.setattr(follow, "_PAUSE", 0)

    def given(
        path: Path, steps: Iterator[object], damage: list[Damage] | None = None
    ) -> list[Entry]:
        monkeypatch.setattr(FileLog, "changes", lambda log, stop: steps)
        with Session.open(path, readonly=True) as session:
            return list(session.follow(None if damage is None else damage.append))

    return given


def uuids(path: Path) -> list[str]:
    """Each entry but a branch at the end, which may say what the agent's own rule says."""
    with Session.open(path, readonly=True) as session:
        entries = list(session.entries())
    ends = {entry.lane: entry for entry in entries}
    return [e.uuid for e in entries if not (e.type == "branch" and ends[e.lane] is e)]


def in_halves(path: Path, lines: list[bytes]) -> Iterator[object]:
    """Append the halves of each line, each by itself."""
    for line in lines:
        for half in (line[: len(line) // 2], line[len(line) // 2 :]):
            with path.open("ab") as file:
                file.write(half)
            yield None


@pytest.mark.parametrize("sample", GROWING, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_what_an_agent_appends_is_given_once(
    tmp_path: Path, given: Callable[..., list[Entry]], sample: Path
) -> None:
    shutil.copytree(sample.parent, tmp_path, dirs_exist_ok=True)
    path = tmp_path / sample.name
    lines = path.read_bytes().splitlines(keepends=True)
    whole = uuids(path)
    known = next(n for n in range(1, len(lines) + 1) if is_session(path, lines[:n]))
    before = uuids(path)
    damage: list[Damage] = []
    found = [entry.uuid for entry in given(path, in_halves(path, lines[known:]), damage)]
    assert path.read_bytes() == b"".join(lines)
    assert sorted(found) == sorted(set(whole) - set(before))
    with Session.open(path, readonly=True) as session:
        assert {(d.offset, d.kind) for d in damage} <= {(d.offset, d.kind) for d in session.damage}


def is_session(path: Path, lines: list[bytes]) -> bool:
    """Whether the lines, written to a file, are a session already."""
    path.write_bytes(b"".join(lines))
    try:
        return bool(uuids(path))
    except NotASessionError:
        return False


def test_a_subagent_that_writes_alone_is_followed(
    tmp_path: Path, given: Callable[..., list[Entry]]
) -> None:
    shutil.copytree(SUBAGENTS, tmp_path, dirs_exist_ok=True)
    path = next(tmp_path.glob("*.jsonl"))
    agent = min(tmp_path.rglob("agent-*.jsonl"))
    lines = agent.read_bytes().splitlines(keepends=True)
    whole = uuids(path)
    agent.write_bytes(lines[0])
    before = uuids(path)
    found = [entry.uuid for entry in given(path, in_halves(agent, lines[1:]))]
    assert found
    assert sorted(found) == sorted(set(whole) - set(before))


def test_a_file_that_is_being_written_anew_is_waited_for(
    tmp_path: Path, given: Callable[..., list[Entry]]
) -> None:
    path = tmp_path / "session.jsonl"
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    before = uuids(path)

    def steps() -> Iterator[object]:
        path.unlink()
        yield None
        path.write_bytes(b"")
        yield None
        path.write_bytes(b"".join(lines))
        yield None

    assert [entry.uuid for entry in given(path, steps())] == uuids(path)[len(before) :]


def test_another_session_at_the_path_is_an_error(
    tmp_path: Path, given: Callable[..., list[Entry]]
) -> None:
    path = tmp_path / "session.jsonl"
    shutil.copy(CLAUDE, path)

    def steps() -> Iterator[object]:
        shutil.copy(FIXTURES / "foreign-pi-3" / "session.jsonl", path)
        yield None

    with pytest.raises(FileReplacedError, match="another session"):
        given(path, steps())


def test_a_file_that_is_gone_is_an_error_after_a_while(
    tmp_path: Path, given: Callable[..., list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "GONE_SECONDS", 0)
    path = tmp_path / "session.jsonl"
    shutil.copy(CLAUDE, path)

    def steps() -> Iterator[object]:
        path.unlink()
        yield None
        yield None

    with pytest.raises(SessionNotFoundError, match="vanished"):
        given(path, steps())


def test_reading_takes_a_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonl"
    shutil.copy(CLAUDE, path)
    read = []
    now = itertools.count()
    again = reopened

    def counted(file: SessionFile) -> SessionFile:
        read.append(file)
        return again(file)

    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr(follow, "reopened", counted)

    def steps() -> Iterator[object]:
        for _ in range(30):
            with path.open("ab") as file:
                file.write(b"\n")
            yield None

    monkeypatch.setattr(FileLog, "changes", lambda log, stop: steps())
    with Session.open(path, readonly=True) as session:
        assert list(session.follow()) == []
    assert 3 <= len(read) <= 8


@pytest.mark.slow
def test_the_command_prints_what_an_agent_adds(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    with python("-m", "sessiontree", "follow", str(path), "--json") as (child, out, _):
        number = 0
        while not select.select([out], [], [], 0.05)[0]:  # it does not say when it began
            with path.open("ab") as file:
                file.write(b'{"type":"note","uuid":"u%d","sessionId":"s"}\n' % number)
            number += 1
        assert json.loads(out.readline())["type"] == "custom"
        assert interrupt(child)[1:] == ("", 130)


def test_the_end_of_the_following_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    shutil.copy(CLAUDE, path)
    stop = threading.Event()
    stop.set()
    with Session.open(path, readonly=True) as session:
        assert list(session.follow(stop=stop)) == []
    assert str(path) not in open_files()


@for_each("kind", ["own", "an agent's"])
def test_a_file_may_be_gone_again_and_again_for_a_short_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The time begins anew each time, and a file that is back for a moment is read."""
    path = tmp_path / "session.jsonl"
    if kind == "own":
        with Session.create(path) as session:
            session.append_message({"role": "user", "content": "one"})
            session.append_message({"role": "user", "content": "two"})
    else:
        shutil.copy(CLAUDE, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    clock = 100.0

    def steps() -> Iterator[object]:
        nonlocal clock
        for content in (None, lines[:-1], None, lines[:-1], None, lines):
            clock += 0.6 * follow.GONE_SECONDS
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(b"".join(content))
            yield None
            yield None

    monkeypatch.setattr("time.monotonic", lambda: clock)
    monkeypatch.setattr(FileLog, "changes", lambda log, stop: steps())
    before = uuids(path)
    with Session.open(path, readonly=True) as session:
        found = [entry.uuid for entry in session.follow()]
    assert found == uuids(path)[len(before) :]
    assert found


@for_each("kind", ["own", "an agent's"])
@for_each("passed", [0.9, 1.1])
def test_a_file_is_waited_for_as_long_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, passed: float
) -> None:
    path = tmp_path / "session.jsonl"
    if kind == "own":
        Session.create(path).close()
    else:
        shutil.copy(CLAUDE, path)
    content = path.read_bytes()
    clock = 100.0

    def steps() -> Iterator[object]:
        nonlocal clock
        path.unlink()
        yield None
        clock += passed * follow.GONE_SECONDS
        yield None
        path.write_bytes(content)
        yield None

    monkeypatch.setattr("time.monotonic", lambda: clock)
    monkeypatch.setattr(FileLog, "changes", lambda log, stop: steps())
    with Session.open(path, readonly=True) as session:
        if passed < 1:
            assert list(session.follow()) == []
        else:
            with pytest.raises(SessionNotFoundError, match="vanished"):
                list(session.follow())


def test_another_own_session_at_the_path_is_an_error_and_no_file_stays_open(
    tmp_path: Path, given: Callable[..., list[Entry]]
) -> None:
    path, other = tmp_path / "session.jsonl", tmp_path / "other.jsonl"
    for file in (path, other):
        with Session.create(file) as session:
            session.append_message({"role": "user", "content": "hello"})
    before = open_files()

    def steps() -> Iterator[object]:
        other.replace(path)
        yield None

    with pytest.raises(FileReplacedError, match="another session"):
        given(path, steps())
    assert open_files() == before
