"""A store is searched from Python as it is from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import SearchHit, Session, SessionTreeWarning, StorageError, Store, UsageError
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import printed_json, refused


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "home")
    said(store, "Fix the caf\u00e9", cwd="/here")
    with Session.open(said(store, "Fix the parser", cwd="/there")) as session:
        session.append_message({"role": "assistant", "content": "Fixed: " + "x" * 40_000})
        session.append_message({"role": "assistant", "content": [CALL]})
        session.branch("@~1")
    return store


CALL = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make fix"}}

ASKED: dict[str, tuple[str, dict[str, object], list[str]]] = {
    "plain": ("Fix", {}, ["Fix"]),
    "words in any order": ("parser Fix", {}, ["parser Fix"]),
    "small letters match any case": ("fix", {}, ["fix"]),
    "a capital counts": ("FIX", {}, ["FIX"]),
    "a phrase": ('"the parser"', {}, ['"the parser"']),
    "case on request": ("fix", {"ignore_case": False}, ["-s", "fix"]),
    "regex": ("Fix(ed)?\\b", {"regex": True}, ["--regex", "Fix(ed)?\\b"]),
    "ignore_case": ("fix", {"ignore_case": True}, ["-i", "fix"]),
    "role": ("Fix", {"role": "user"}, ["--role", "user", "Fix"]),
    "roles": ("i", {"role": ["user", "tool"]}, ["--role", "user", "--role", "tool", "i"]),
    "tool": ("fix", {"tool": "Bash"}, ["--tool", "Bash", "fix"]),
    "since": ("i", {"since": datetime.now(UTC) - timedelta(hours=1)}, ["--since", "1h", "i"]),
    "later": ("i", {"since": datetime(3000, 1, 1)}, ["--since", "3000-01-01", "i"]),
    "cwd": ("Fix", {"cwd": "/here"}, ["--cwd", "/here", "Fix"]),
    "current": ("make", {"current": True}, ["--current", "make"]),
    "blobs": ("xxxx", {"blobs": True}, ["--blobs", "xxxx"]),
    "limit": ("Fix", {"limit": 1}, ["--limit", "1", "Fix"]),
    "accents": ("cafe\u0301", {}, ["cafe\u0301"]),
    "nothing": ("no such words", {}, ["no such words"]),
}


@for_each("name", ASKED)
def test_python_and_the_command_line_find_the_same(store: Store, name: str) -> None:
    pattern, options, words = ASKED[name]
    hits = list(store.search(pattern, **options))  # type: ignore[arg-type]
    assert [(hit.file, hit.ref, hit.snippet) for hit in hits] == [
        (row["file"], row["ref"], row["snippet"]) for row in printed_json("search", *words)
    ]
    assert bool(hits) == (name not in ("later", "nothing", "current", "a capital counts"))


def test_hits_come_one_by_one_and_are_shared_by_processes_alike(store: Store) -> None:
    hits = store.search("Fix")
    first = next(hits)
    assert isinstance(first, SearchHit)
    start, end = first.match
    assert first.snippet[start:end] == "Fix"
    assert [first, *hits] == list(store.search("Fix", processes=2))


def test_a_search_gives_at_most_the_limit_of_hits(store: Store) -> None:
    assert [len(list(store.search("Fix", limit=n))) for n in (0, 1, 2, 3)] == [0, 1, 2, 2]


def test_an_invalid_pattern_is_refused_at_once_and_named_as_typed(store: Store) -> None:
    with pytest.raises(UsageError, match=r"'C:\\Users\\' is not a regular expression: "):
        store.search("C:\\Users\\", regex=True)
    told = refused("search", "--regex", "C:\\Users\\", status=2)
    assert "Error: 'C:\\Users\\' is not a regular expression: " in told


def test_a_store_search_reports_a_file_that_cannot_be_read(store: Store) -> None:
    torn = Path(store.root, "torn.jsonl")
    torn.write_text("Fix nothing\n")
    problems: list[str] = []
    assert len(list(store.search("Fix", report=problems.append))) == 2
    (problem,) = problems
    assert str(torn) in problem
    with pytest.warns(SessionTreeWarning, match="torn.jsonl"):
        assert len(list(store.search("Fix"))) == 2


def test_a_search_of_a_store_without_folder_finds_nothing(tmp_path: Path) -> None:
    assert list(Store(tmp_path / "nowhere").search("Fix")) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is not a folder"):
        Store(tmp_path / "file").search("Fix")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system has no names for pipes")
def test_a_pipe_is_searched_no_more_than_it_is_read() -> None:
    reading, writing = os.pipe()
    try:
        told = refused("search", "Fix", f"/dev/fd/{reading}")
        assert "is a device or a pipe; give a session file or a folder" in told
    finally:
        os.close(reading)
        os.close(writing)


def test_a_search_waits_for_no_pipe_and_opens_no_folder_or_dangling_link(tmp_path: Path) -> None:
    """In a process of its own, because the wait for a pipe has no end."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    with Session.create(tmp_path / "good.jsonl") as session:
        session.append_message({"role": "user", "content": "needle"})
    command = [sys.executable, "-m", "sessiontree", "search", "--json", "needle", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.count("good.jsonl")) == (0, 1)
    for kind in ("a folder", "a link that leads nowhere", "a device or a pipe"):
        assert f"is not a session file: it is {kind}" in done.stderr
