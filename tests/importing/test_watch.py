"""`backup --watch`: what agents write is kept while they write, until Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiontree import SessionTreeError
from sessiontree.importing.backup import Backup, BackupResult, watched
from tests.importing.conftest import messages
from tests.support.children import PATIENCE
from tests.support.homes import SESSIONS, empty_home, go_on, put_sessions, transcript
from tests.support.transcripts import user, written

QUICK = """
from sessiontree.cli import main
from sessiontree.importing import backup
backup.POLL_SECONDS = 1.0
main()
"""
"""The program, which looks more often without a notice of the system."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = empty_home(tmp_path, monkeypatch)
    put_sessions(home)
    return home


@contextmanager
def watching(*words: str) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", QUICK, "backup", "--watch", "--verbose", *words]
    pipe = subprocess.PIPE
    child = subprocess.Popen(program, stdout=pipe, stderr=pipe, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def passes(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert child.stdout is not None
    for line in child.stdout:
        yield json.loads(line)


def ended(child: subprocess.Popen[str], kind: signal.Signals) -> str:
    """What the program says on standard error until it ends by a signal, well."""
    child.send_signal(kind)
    _, told = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, told
    assert "Traceback" not in told
    return told


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_each_change_is_kept_until_the_program_is_told_to_end(
    home: Path, kind: signal.Signals
) -> None:
    file = transcript(home)
    with watching("--json") as child:
        found = passes(child)
        assert len(next(found)["new"]) == SESSIONS
        for number in range(3):
            go_on(file, f"say {number}", f"99999999-0000-4000-8000-{number:012}")
            (grown,) = next(found)["grown"]
            assert f"say {number}" in str(messages(grown["file"]))
        told = ended(child, kind)
    assert messages(grown["file"]) == messages(file)
    assert "1 grown" in told


@pytest.mark.slow
def test_no_change_of_an_agent_that_writes_without_a_pause_is_lost(home: Path) -> None:
    file = transcript(home)
    with watching("--json") as child:
        found = passes(child)
        (made,) = (one for one in next(found)["new"] if one["source"] == str(file))
        for number in range(100):
            go_on(file, f"say {number}", f"99999999-0000-4000-8000-{number:012}")
        while "say 99" not in str(messages(made["file"])):
            next(found)
        ended(child, signal.SIGINT)
    assert messages(made["file"]) == messages(file)


@pytest.mark.slow
def test_a_home_that_is_made_later_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = empty_home(tmp_path, monkeypatch)
    with watching("--json") as child:
        found = passes(child)
        assert next(found)["new"] == []
        file = home / ".claude" / "projects" / "-p" / "s.jsonl"
        written(file, [user("a", None)])
        (made,) = next(found)["new"]
        written(file, [user("a", None), user("b", "a")])
        (grown,) = next(found)["grown"]
        assert grown["file"] == made["file"]
        ended(child, signal.SIGINT)


@pytest.mark.slow
def test_what_cannot_be_read_is_told_once_and_the_watch_goes_on(home: Path) -> None:
    file = transcript(home)
    bad = file.with_name("bad.jsonl")
    bad.write_bytes(b"\x00\xff" * 300)
    with watching() as child:
        assert child.stdout is not None
        for _ in range(SESSIONS):
            assert "  new, " in child.stdout.readline()
        for number in range(2):
            go_on(file, f"{number}", f"99999999-0000-4000-8000-{number:012}")
            assert "  grown, 1 new entry" in child.stdout.readline()
        told = ended(child, signal.SIGINT)
    assert told.count(f"Not kept: {bad}") == 1


@pytest.mark.slow
def test_a_store_that_vanishes_is_told_and_tried_again(home: Path) -> None:
    store = home / "disk"
    store.mkdir()
    with watching("--store", str(store)) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for _ in range(SESSIONS):
            child.stdout.readline()
        child.stderr.readline()
        store.rename(home / "away")
        go_on(transcript(home), "one more")
        assert child.stderr.readline().startswith("Error: ")
        assert not store.exists()
        (home / "away").rename(store)
        assert "  grown, 1 new entry" in child.stdout.readline()
        ended(child, signal.SIGINT)


def test_without_watches_there_is_a_pass_now_and_then(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*places: str, **options: object) -> Iterator[object]:
        raise OSError("no watches left")

    monkeypatch.setattr("watchfiles.watch", refused)
    monkeypatch.setattr("sessiontree.importing.backup.POLL_SECONDS", 0.0)
    stop = threading.Event()
    backup = Backup(str(home / "store"), stop=stop)
    results = watched(backup, stop, backup.run)
    assert len(told(next(results)).new) == SESSIONS
    go_on(transcript(home), "one more")
    assert len(told(next(results)).grown) == 1
    assert told(next(results)).unchanged == SESSIONS
    stop.set()
    assert list(results) == []


def told(result: BackupResult | SessionTreeError) -> BackupResult:
    assert isinstance(result, BackupResult)
    return result
