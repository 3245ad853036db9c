"""The examples with handles: a message store, a walk that resolves, and a composite plugin."""

from __future__ import annotations

import runpy
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Handle, Registry, Session
from tests.support.conversation import user

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
LONG: Final = "Build a CLI " * 20


def run(example: str, folder: Path, *words: object, typed: str = "") -> tuple[list[str], str]:
    """Run an example in a folder; the lines that it prints, and what it prints to stderr."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *map(str, words)],
        input=typed,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A message store that counts its queries."""
    base: Any = runpy.run_path(str(EXAMPLES / "message_store.py"))["MessageStore"]

    class Counted(base):  # type: ignore[misc]
        queries = 0

        def resolve_many(self, *given: Any) -> Any:
            self.queries += 1
            return super().resolve_many(*given)

    return Counted(str(tmp_path / "counted.db"))


@pytest.mark.slow
def test_a_chat_over_handles_goes_on_and_tries_prompts_that_leave_nothing(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    said, _ = run("message_store.py", tmp_path, file, typed=f"{LONG}\n? In Rust?\nGo on\n")
    assert said[0] == f"1 messages, the last one: {LONG.strip()}"
    assert said[1] == "3 messages, the last one: In Rust?"
    assert said[2] == "3 messages, the last one: Go on"  # the trial is not in it
    assert LONG.strip() not in file.read_text()  # the session has the preview alone
    said, _ = run("message_store.py", tmp_path, file, typed="And then?\n")
    assert said[0] == "5 messages, the last one: And then?"
    with Session.open(file) as session:
        assert [entry.type for entry in session.path()] == ["session"] + ["handle"] * 6
        removed = session.gc(now=datetime.now(UTC) + timedelta(days=8))
        assert len(removed.entries) == 2


@pytest.mark.slow
def test_a_message_that_was_deleted_is_a_placeholder_with_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    run("message_store.py", tmp_path, file, typed="One\n")
    with sqlite3.connect(f"{file}.db") as database:
        database.execute("DELETE FROM messages WHERE content = 'One'")
    said, warned = run("message_store.py", tmp_path, file, typed="Two\n")
    assert said[0] == "3 messages, the last one: Two"
    assert "there is no message" in warned
    assert "One" in said[2]  # a drawing shows the preview, and asks no database


def test_a_context_asks_the_message_store_once_and_a_drawing_never(store: Any) -> None:
    with Session.create(cwd="/project", registry=Registry([store])) as session:
        for number in range(5):
            session.append_handle(store.add("user", f"{number}"), role="user", preview="…")
        assert len(list(session.render())) == 6
        assert [row.preview for row in session.tree()][1:] == ["…"] * 5
        assert store.queries == 0
        assert session.context().messages == [user(f"{number}") for number in range(5)]
        assert store.queries == 1


@pytest.mark.slow
def test_a_walk_gives_each_handle_of_each_branch_with_its_content_or_error(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Be quick\n")
    file = tmp_path / "chat.jsonl"
    notes, unknown = "file@1.0.0::path:notes.md", "x@1.0.0::y"
    with Session.create(file, cwd="/project") as session:
        first = session.append_message(user("hi"))
        session.append_handle(notes)
        below = session.append_handle(unknown, kind="document")
        session.append_handle(Handle.entry(session.id, first.uuid), parent=first)
        entry = Handle.entry(session.id, first.uuid)
    said, _ = run("walk_and_resolve.py", tmp_path, file, ".")
    assert said[0] == f"{notes} → binary: {b'Be quick' + bytes([10])!r}"
    assert said[1].startswith(f"{unknown} → unknown plugin 'x'")
    assert said[2] == f"{entry} → message: {user('hi')}"
    walk: Any = runpy.run_path(str(EXAMPLES / "walk_and_resolve.py"))["walk_and_resolve"]
    with Session.open(file, readonly=True) as session:
        assert [each.uuid for each, _ in walk(session, below.uuid)] == [below.uuid]


@pytest.mark.slow
def test_a_composite_plugin_resolves_handles_of_any_plugin_its_own_too(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Be quick\n")
    with Session.create(tmp_path / "other.jsonl", cwd="/project") as other:
        entry = Handle.entry(other.id, other.append_message(user("Build a CLI")).uuid)
    file = tmp_path / "chat.jsonl"
    words = ["file@1.0.0::path:notes.md", str(entry), "x@1.0.0::y", "file@1.0.0::path:../secret"]
    run("composite_plugin.py", tmp_path, file, *words)
    with Session.open(file, readonly=True) as session:
        first = session.leaf["handle"]
    said, _ = run("composite_plugin.py", tmp_path, file, first, "x@1.0.0::z")
    assert len(said) == 2
    for line in said:
        assert "Be quick" in line
        assert "Build a CLI" in line
        assert "unknown plugin 'x'" in line
        assert "not a relative path" in line


@pytest.mark.slow
def test_a_brief_that_contains_itself_is_an_error_and_not_an_endless_one(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    (folder := tmp_path / "chat.jsonl.briefs").mkdir()
    (folder / "abc").write_text('["brief@1.0.0::of:abc"]')
    said, _ = run("composite_plugin.py", tmp_path, file, "brief@1.0.0::of:abc")
    assert "handles lead back to themselves: brief@1.0.0::of:abc" in said[0]
