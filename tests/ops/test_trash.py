"""Names and facts of sessions, the trash and renamed directories: by calls and by commands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from tests.support import terminal
from tests.support.calls import Calls
from tests.support.sessions import chat, read, said
from tests.support.table import for_each
from tests.support.terminal import printed_json, refused, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the user, which commands find without a name."""
    made = Store(tmp_path / "store")
    monkeypatch.setenv("SESSIONTREE_HOME", made.root)
    return made


@pytest.fixture
def file(store: Store) -> str:
    return said(store, "hello", cwd="/old", id="my-session")


@pytest.fixture
def calls(store: Store) -> Calls:
    return Calls(store.root)


def done(*words: str | Path) -> list[str]:
    """The lines that a command printed that ended well."""
    return terminal.done(*words).splitlines()


def test_a_new_name_finds_the_session(calls: Calls, file: str) -> None:
    assert calls.value("session.rename", session="my-session", name="mine")["name"] == "mine"
    assert calls.value("session.show", session="mine")["file"] == file


def test_metadata_keeps_what_is_not_named(calls: Calls, file: str) -> None:
    calls.value("session.metadata", session=file, facts={"ticket": 7})
    noted = calls.value("session.metadata", session=file, facts={"owner": "me", "self": 1})
    assert noted["metadata"] == {"ticket": 7, "owner": "me", "self": 1}
    with Session.open(file, readonly=True) as session:
        assert session.metadata == noted["metadata"]


def test_a_session_goes_to_the_trash_and_back(calls: Calls, file: str) -> None:
    content = Path(file).read_bytes()
    put = calls.value("session.trash", session="my-session")
    assert put["file"] == file
    assert not Path(file).exists()
    (trashed,) = calls.value("session.trashed")["items"]
    assert (trashed["id"], trashed["file"]) == ("my-session", put["trashed"])
    back = calls.value("session.restore", session="latest")
    assert back == put
    assert Path(file).read_bytes() == content
    assert calls("session.restore", session="latest").kind == "session_not_found"


def test_what_is_put_away_comes_back(store: Store) -> None:
    one, two = said(store, "one", id="aaaa-1", cwd="/a"), said(store, "two", id="bbbb-2", cwd="/a")
    away = done("trash", one, "bbbb")
    assert [Path(file).name for file in away] == [Path(one).name, Path(two).name]
    assert store.list() == []
    assert [line.split()[-1] for line in done("restore")] == ["/a", "/a"]
    assert done("restore", "aaaa-1", away[1]) == [one, two]
    assert [read(one), read(two)] == [["one"], ["two"]]
    assert done("restore") == []


def test_where_each_was_and_is_can_be_read_by_programs(store: Store) -> None:
    file = said(store, "one", id="aaaa-1")
    (moved,) = printed_json("trash", "latest")
    assert moved["file"] == file
    (listed,) = printed_json("restore")
    assert (listed["id"], listed["file"]) == ("aaaa-1", moved["trashed"])
    assert printed_json("restore", "aaaa") == [moved]
    assert printed_json("restore") == []


def test_another_store_is_named(tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    file = said(other, "one")
    done("trash", file, "--store", other.root)
    assert done("restore", "latest", "--store", other.root) == [file]


def test_only_what_was_trashed_long_ago_is_removed_and_a_dry_run_removes_nothing(
    calls: Calls, file: str
) -> None:
    trashed = calls.value("session.trash", session=file)["trashed"]
    assert calls.value("session.empty_trash", older_than="1d")["sessions"] == 0
    tried = calls.value("session.empty_trash", older_than="2999-01-01", dry_run=True)
    assert tried["items"] == [trashed]
    assert Path(trashed).exists()
    done = calls.value("session.empty_trash", older_than="2999-01-01")
    assert done == tried
    assert not Path(trashed).exists()


def test_the_sessions_of_a_renamed_directory_move(calls: Calls, file: str) -> None:
    assert calls.value("session.move_project", old="/old", new="/new") == {"moved": 1}
    assert calls.value("session.list")["items"][0]["cwd"] == "/new"
    assert calls("session.move_project", old="/old", new="/new").kind == "nothing_to_do"
    assert printed_json("move-project", "/new", "/old") == {"moved": 1}
    assert_refused("move-project", "/old", "/old/", about="already")


@pytest.mark.slow
def test_what_cannot_be_moved_is_one_clear_line_and_stays(store: Store, tmp_path: Path) -> None:
    file = said(store, "one", id="held", cwd="/old")
    outside = tmp_path / "outside.jsonl"
    outside.write_text("")
    with Session.open(file, exclusive=True):
        for words in (("trash", "held"), ("move-project", "/old", "/new")):
            assert_refused(*words, about="held by")
    assert os.listdir(store.root) == [Path(file).parent.name]  # none was made in the trash
    assert_refused("trash", "none", about=f"'sessiontree ls {store.root}' lists them")
    assert_refused("restore", "none", about=f"sessiontree restore --store {store.root}")
    assert_refused("trash", outside, about="not a session of")
    assert_refused("restore", file, about="not in the trash")
    assert_refused("move-project", "/nowhere", "/new", about="/nowhere")
    assert_refused("trash", "held", "--store", tmp_path / "missing", about="no folder")
    assert read(file) == ["one"]
    assert outside.exists()


def assert_refused(*words: str | Path, about: str) -> None:
    (line,) = refused(*words).splitlines()
    assert about in line


def test_one_that_is_refused_keeps_none_of_the_others(store: Store) -> None:
    files = [said(store, text, id=text) for text in ("one-1", "two-2")]
    away = run("trash", "one-1", "nothing-of-the-kind", "two-2")
    assert away.exit_code == 1
    assert [Path(line).name for line in away.stdout.splitlines()] == [Path(f).name for f in files]
    assert "nothing-of-the-kind" in away.stderr
    back = run("restore", "nothing-of-the-kind", "one-1", "two-2", "--json")
    assert back.exit_code == 1
    assert [moved["file"] for moved in json.loads(back.stdout)] == files


def test_the_latest_in_the_trash_was_put_away_last(store: Store) -> None:
    first, second = said(store, "one", id="aaaa-1"), said(store, "two", id="bbbb-2")
    done("trash", second)
    done("trash", first)
    assert [one.id for one in store.trashed()] == ["aaaa-1", "bbbb-2"]
    assert done("restore", "latest") == [first]


def test_where_it_can_be_had_back_names_the_store_that_was_named(tmp_path: Path) -> None:
    other = Store(tmp_path / "my other")
    said(other, "one", id="aaaa-1")
    told = run("trash", "aaaa", "--store", other.root).stderr
    assert f"sessiontree restore --store '{other.root}' lists" in told


def test_what_is_no_session_is_told_a_few_times_not_a_thousand(store: Store) -> None:
    said(store, "one", id="aaaa-1")
    for number in range(15):
        Path(store.root, f"{number}.jsonl").write_text("no session")
    told = run("trash", "nothing-of-the-kind").stderr.splitlines()
    assert sum(line.startswith("Left out: ") for line in told) == 11
    assert told[10] == "Left out: and 5 more"


@for_each(
    ("name", "params", "kind"),
    [
        ("rename", {"session": "my-session", "name": ""}, "bad_value"),
        ("rename", {"session": "my-session", "name": "a\nb"}, "bad_value"),
        ("metadata", {"session": "my-session", "facts": {}}, "bad_value"),
        ("trash", {"session": "none"}, "session_not_found"),
        ("trash", {"session": "/etc/hostname.jsonl"}, "outside"),
        ("restore", {"session": "none"}, "session_not_found"),
        ("restore", {"session": "../../etc/passwd"}, "outside"),
        ("empty_trash", {"older_than": "soon"}, "bad_parameter"),
        ("move_project", {"old": "old", "new": "/new"}, "bad_value"),
        ("move_project", {"old": "/none", "new": "/new"}, "nothing_to_do"),
    ],
)
def test_what_cannot_be_done_is_refused(
    calls: Calls, file: str, name: str, params: dict[str, Any], kind: str
) -> None:
    before = Path(file).read_bytes()
    assert calls(f"session.{name}", **params).kind == kind
    assert Path(file).read_bytes() == before


def test_the_session_of_an_agent_is_not_put_away(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    theirs = tmp_path / "claude" / "projects" / "p"
    theirs.mkdir(parents=True)
    file = chat(theirs / "s.jsonl", "hello")
    calls = Calls(store.root, agents=True)
    assert calls("session.trash", session=str(file)).kind == "outside"
    assert file.exists()


@for_each(
    ("name", "params"),
    [
        ("rename", {"session": "my-session", "name": "a"}),
        ("metadata", {"session": "my-session", "facts": {"a": 1}}),
        ("trash", {"session": "my-session"}),
        ("restore", {"session": "latest"}),
        ("empty_trash", {"older_than": "1d"}),
        ("move_project", {"old": "/old", "new": "/new"}),
        ("import", {"sources": ["latest"]}),
        ("record", {"events": ["{}"]}),
        ("resume_command", {"session": "my-session", "agent": "pi", "cwd": "/"}),
    ],
)
def test_nothing_changes_where_calls_only_read(
    store: Store, file: str, name: str, params: dict[str, Any]
) -> None:
    before = sorted(Path(store.root).rglob("*"))
    content = Path(file).read_bytes()
    assert Calls(store.root, write=False)(f"session.{name}", **params).kind == "read_only"
    assert sorted(Path(store.root).rglob("*")) == before
    assert Path(file).read_bytes() == content
