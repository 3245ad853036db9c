"""Whole sessions are put away, brought back and moved from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sessiontree import Session, StorageError, Store
from tests.support import terminal
from tests.support.sessions import read, said
from tests.support.terminal import printed_json, refused, run


@pytest.fixture(autouse=True)
def _is_home(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", store.root)


def done(*words: str | Path) -> list[str]:
    """The lines that a command printed that ended well."""
    return terminal.done(*words).splitlines()


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


def test_a_renamed_directory_keeps_its_sessions(store: Store) -> None:
    said(store, "one", cwd="/old")
    assert printed_json("move-project", "/old", "/new") == {"moved": 1}
    assert [one.cwd for one in store.list(cwd="/new")] == ["/new"]


def test_another_store_is_named(tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    file = said(other, "one")
    done("trash", file, "--store", other.root)
    assert done("restore", "latest", "--store", other.root) == [file]


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


def test_nothing_to_put_away_is_wrong_usage() -> None:
    refused("trash", status=2)


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


def test_a_home_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("SESSIONTREE_HOME", str(file))
    for words in (("ls", "--all"), ("search", "x"), ("trash", "latest"), ("restore",)):
        assert_refused(*words, about="a file, not a folder")
    with pytest.raises(StorageError, match="is not a folder"):
        Store(file).list()


def test_a_home_may_be_spelled_from_the_users(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(store, "one", id="aaaa-1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SESSIONTREE_HOME", "~/" + str(Path(store.root).relative_to(tmp_path)))
    assert "aaaa-1" in done("ls", "--all")[0]


def test_a_directory_renamed_to_itself_is_nothing_to_do(store: Store) -> None:
    said(store, "one", cwd="/old")
    assert_refused("move-project", "/old", "/old/", about="already")


def test_a_name_is_found_however_its_accents_are_spelled(store: Store) -> None:
    file = said(store, "one", name="caf\u00e9")
    assert store.find("cafe\u0301").file == file
