"""A session that is kept where `ls` looks is named as a file is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree import Store
from tests.support.homes import empty_home, put_sessions
from tests.support.sessions import read, said
from tests.support.table import for_each
from tests.support.terminal import done, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Where this user's sessions are."""
    store = Store(tmp_path / "store")
    monkeypatch.setenv("SESSIONTREE_HOME", store.root)
    return store


@pytest.mark.parametrize("ref", ["aaaa-1111", "aaaa", "Chat", "latest"])
def test_a_command_takes_what_names_a_session_that_is_kept(store: Store, ref: str) -> None:
    file = said(store, "one", id="aaaa-1111", name="Chat")
    done("append", ref, "--text", "two")
    assert read(file) == ["one", "two"]
    assert json.loads(done("show", ref, "--json"))["file"] == file
    assert run("verify", ref).exit_code == 0
    assert done("search", "two", ref)


def test_a_path_comes_before_a_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(store, "kept", name="Chat")
    monkeypatch.chdir(tmp_path)
    done("new", "Chat")
    done("append", "Chat", "--text", "here")
    assert read(str(tmp_path / "Chat")) == ["here"]


@for_each(
    ("given", "about"),
    [
        ("nothing", "there is no file nothing, and no session in"),
        ("aa", "give 4 characters or more of an id"),
        ("Chat", "is ambiguous"),
        ("Chat.jsonl", "there is no file Chat.jsonl; check the path"),
        ("./Chat", "there is no file ./Chat; check the path"),
    ],
)
def test_what_names_no_session_is_refused(store: Store, given: str, about: str) -> None:
    said(store, "one", name="Chat", id="aaaa-1")
    said(store, "two", name="Chat", id="bbbb-2")
    for words in (("show", given), ("append", given, "--text", "x")):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert about in result.stderr


def test_what_names_no_session_keeps_no_other_from_being_verified(store: Store) -> None:
    said(store, "one", id="aaaa-1")
    result = run("verify", "nothing", "aaaa-1")
    assert result.exit_code == 1
    assert "there is no file nothing" in result.stderr
    assert ": no damage found" in result.stderr


def test_a_name_is_the_title_everywhere_after_the_agent_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = empty_home(tmp_path, monkeypatch)
    put_sessions(home)
    file = min((home / ".pi").rglob("*.jsonl"))
    id = json.loads(file.read_text().splitlines()[0])["id"]
    for number, word in enumerate(("zebra", "quagga")):
        _ask_pi(file, word, number)
        if not number:
            done("rename", id, "My pi name")
        (row,) = (one for one in json.loads(done("ls", "--json")) if one["id"] == id)
        assert row["name"] == "My pi name"
        assert "My pi name" in done("show", id).splitlines()[0]
        assert json.loads(done("show", id, "--json"))["name"] == "My pi name"
        assert done("tree", id).startswith("My pi name")
        for where in ((), (id,)):
            hits = json.loads(done("search", word, *where, "--json"))
            titles = {hit["title"] for hit in hits if hit["session"] == id}
            assert titles == {"My pi name"}
            assert "My pi name" in done("search", word, *where)
        assert "My pi name" in done("call", "session.search", "--pattern", word)
        turns = done("call", "session.outline", "--session", id)
        assert json.loads(turns)["title"] == "My pi name"


def _ask_pi(file: Path, word: str, number: int) -> None:
    """A prompt of a word at the end of a file of pi."""
    last = json.loads(file.read_text().splitlines()[-1])
    prompt = {"role": "user", "content": [{"type": "text", "text": f"rare {word}"}]}
    more = {"type": "message", "id": f"feedbee{number}", "parentId": last["id"]}
    more |= {"timestamp": f"2026-11-01T10:00:0{number}.000Z", "message": prompt}
    with file.open("a") as out:
        out.write(json.dumps(more) + "\n")
