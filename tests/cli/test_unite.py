"""The commands copy and sync: what they print, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from sessiontree import Session
from sessiontree.library.copies import Mirror
from tests.support.children import PATIENCE
from tests.support.conversation import assistant, user
from tests.support.table import for_each
from tests.support.terminal import done, run


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Session.create("chat.jsonl", id="one", spill_over=100) as session:
        session.append_message(user("hello"))
        session.append_message(assistant("x" * 200))
    return tmp_path / "chat.jsonl"


def append(file: str | Path, text: str) -> None:
    with Session.open(file) as session:
        session.append_message(user(text))


def test_a_copy_says_what_it_did(chat: Path) -> None:
    result = run("copy", "chat.jsonl", "there")
    size = chat.stat().st_size
    assert result.stdout == f"chat.jsonl -> there/chat.jsonl: {size:,} bytes, 1 blob\n"
    assert result.stderr == "Copied 1 session; 0 had nothing new\n"
    again = run("copy", "chat.jsonl", "there")
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == "Copied 0 sessions; 1 had nothing new\n"


def test_a_copy_as_json_has_its_keys(chat: Path) -> None:
    found = json.loads(done("copy", "chat.jsonl", "there.jsonl", "--json"))
    size = chat.stat().st_size
    session = {"source": "chat.jsonl", "target": "there.jsonl", "size": size, "written": size}
    assert found == {
        "sessions": [{**session, "blobs": 1, "parts": [], "problems": [], "damage": []}],
        "written": size,
        "blobs": 1,
        "skipped": [],
        "problems": [],
        "damage": [],
    }


def test_a_copy_that_cannot_be_made_ends_with_one_and_hides_no_other(chat: Path) -> None:
    os.mkdir("store")
    shutil.copy(chat, "store/a.jsonl")
    shutil.copytree(f"{chat}.blobs", "store/a.jsonl.blobs")
    shutil.copy("store/a.jsonl", "store/b.jsonl")
    os.mkdir("there")
    Path("there/a.jsonl").write_text("something else")
    result = run("copy", "store", "there")
    assert result.exit_code == 1
    assert "Problem: there/a.jsonl is there already" in result.stderr
    assert Path("there/a.jsonl").read_text() == "something else"
    assert Path("there/b.jsonl").read_bytes() == chat.read_bytes()
    alone = run("copy", "store/a.jsonl", "there")
    assert alone.exit_code == 1
    assert "they differ from byte 0 on" in alone.stderr


def test_damage_is_told_and_does_not_fail_a_copy(chat: Path) -> None:
    chat.write_bytes(chat.read_bytes().replace(b"hello", b"hallo"))
    result = run("copy", "chat.jsonl", "there.jsonl")
    assert result.exit_code == 0
    assert "Damage: chat.jsonl (byte" in result.stderr
    assert Path("there.jsonl").read_bytes() == chat.read_bytes()


def test_a_sync_says_what_each_side_got(chat: Path) -> None:
    done("copy", "chat.jsonl", "there.jsonl")
    append("chat.jsonl", "here")
    append("there.jsonl", "there")
    result = run("sync", "chat.jsonl", "there.jsonl")
    assert result.stdout == "one: chat.jsonl +2, there.jsonl +2 entries\n"
    assert result.stderr == "United 1 session; 0 had nothing new\n"
    found = json.loads(done("sync", "there.jsonl", "chat.jsonl", "--json"))
    session = {"id": "one", "a": "there.jsonl", "b": "chat.jsonl", "addedToA": 0, "addedToB": 0}
    more: dict[str, object] = {"blobs": 0, "copiedTo": None, "problems": [], "damage": []}
    assert found == {
        "sessions": [{**session, **more}],
        "skipped": [],
        "problems": [],
        "damage": [],
    }


def test_a_sync_of_stores_says_where_a_session_was_copied(chat: Path) -> None:
    for folder in ("a", "b"):
        os.mkdir(folder)
    done("copy", "chat.jsonl", "b")
    assert done("sync", "a", "b") == "one: copied to a/chat.jsonl\n"


@for_each(
    ("words", "told"),
    [
        (("sync", "chat.jsonl", "chat.jsonl"), "are the same"),
        (("sync", "chat.jsonl", "."), "the other one a store"),
        (("sync", "chat.jsonl", "none.jsonl"), "none.jsonl; check the path"),
        (("copy", "none.jsonl", "there"), "none.jsonl; check the path"),
        (("copy", ".", "there.jsonl"), "is a store, and"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    chat: Path, words: tuple[str, ...], told: str
) -> None:
    result = run(*words)
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("a", "c"), ("c", "a")])
def test_a_sync_of_a_folder_asks_for_the_other_folder_to_be_made(
    chat: Path, words: tuple[str, ...]
) -> None:
    os.mkdir("a")
    told = run("sync", *words)
    assert told.exit_code == 1
    assert told.stderr == (
        "Error: there is no folder c; make the folder first ('sessiontree copy' makes the first "
        "copy)\n"
    )


def test_a_watch_has_failed_only_if_its_first_pass_is_interrupted(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(copies: Mirror, stop: threading.Event) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Mirror, "_waits", interrupt)
    assert run("copy", "chat.jsonl", "there", "--watch").exit_code == 0
    monkeypatch.setattr(Mirror, "go", interrupt)
    told = run("copy", "chat.jsonl", "other", "--watch")
    assert told.exit_code == 130
    assert "run the same command again to continue" in told.stderr


@pytest.mark.slow
def test_a_watch_copies_what_is_new_until_it_is_interrupted(chat: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sessiontree", "copy", "chat.jsonl", "there", "--watch"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith("chat.jsonl -> there/chat.jsonl: ")
            append(chat, "more")
            assert watching.stdout.readline().startswith("chat.jsonl -> there/chat.jsonl: ")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(PATIENCE) == 0
        finally:
            watching.kill()
    assert (tmp_path / "there/chat.jsonl").read_bytes() == chat.read_bytes()
