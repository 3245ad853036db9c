"""A store at an address does what a store in a folder does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.errors import (
    NothingToDoError,
    RefError,
    SessionExistsError,
    StorageError,
    UsageError,
)
from tests.places.kinds import STORES, empty_store, opened
from tests.support.conversation import assistant, user


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def store(root: str) -> Store:
    return Store(root)


def filled(store: Store) -> None:
    """Two sessions of one project and one of another, with a blob."""
    with store.create(cwd="/p/one", id="aaaa1111", name="The first", spill_over=100) as session:
        session.append_message(user("hello wörld"))
        session.append_message(assistant("z" * 5000))
    with store.create(cwd="/p/one", id="bbbb2222") as session:
        session.append_message(user("second"))
    with store.create(cwd="/q", id="cccc3333") as session:
        session.append_message(user("other"))


def test_sessions_are_listed_with_their_facts(store: Store) -> None:
    assert store.list() == []
    assert store.latest() is None
    filled(store)
    found = {one.id: one for one in store.list()}
    assert [one.id for one in store.list()] == ["cccc3333", "bbbb2222", "aaaa1111"]
    one = found["aaaa1111"]
    assert (one.cwd, one.name, one.first_message) == ("/p/one", "The first", "hello wörld")
    assert one.bytes > 300
    assert one.writer is None
    assert one.file.startswith(store.project_dir("/p/one").partition("?")[0])
    assert [one.id for one in store.list(cwd="/q")] == ["cccc3333"]
    assert store.paths(cwd="/q") == [found["cccc3333"].file]
    assert store.list(cwd="/none") == []
    latest = store.latest()
    assert latest is not None
    assert latest.id == "cccc3333"


def test_a_ref_names_a_session_and_opens_it(store: Store) -> None:
    filled(store)
    for ref in ("aaaa1111", "The first", "aaaa"):
        assert store.find(ref).id == "aaaa1111"
    assert store.find("latest", cwd="/p/one").id == "bbbb2222"
    with store.open("aaaa") as session:
        session.append_message(user("more"))
        assert [message["role"] for message in session.context().messages] == [
            *("user", "assistant", "user"),
        ]
    with Session.open(store.find("aaaa").file, readonly=True) as session:
        assert len(list(session.entries())) == 4
        assert session.verify() == []
    for wrong in ("nobody", "aa", "aaaa9"):
        with pytest.raises(RefError, match="is named"):
            store.find(wrong)


def test_a_search_finds_text_and_blobs_in_all_sessions(store: Store) -> None:
    filled(store)
    assert [hit.session for hit in store.search("wörld")] == ["aaaa1111"]
    assert [hit.session for hit in store.search("SECOND", ignore_case=True)] == ["bbbb2222"]
    assert [hit.session for hit in store.search("zzzz")] == []
    assert [hit.session for hit in store.search("zzzz", blobs=True)] == ["aaaa1111"]
    assert {hit.session for hit in store.search("o", role="user", current=True)} == {
        *("aaaa1111", "bbbb2222", "cccc3333"),
    }
    assert len(list(store.search("o", limit=1))) == 1


def test_a_fork_is_a_session_of_the_store_with_its_blobs(store: Store) -> None:
    filled(store)
    copy = store.fork("aaaa", id="dddd4444")
    assert store.find("dddd").file == copy
    store.trash("aaaa1111")
    store.empty_trash(older_than=datetime.now(UTC) + timedelta(days=1))
    with store.open("dddd", readonly=True) as session:
        assert session.context().messages[1]["content"][0]["text"] == "z" * 5000


def test_the_trash_keeps_a_session_whole_until_it_is_emptied(store: Store) -> None:
    filled(store)
    file = store.find("aaaa").file
    trashed = store.trash("aaaa")
    assert [one.id for one in store.list()] == ["cccc3333", "bbbb2222"]
    assert [one.file for one in store.trashed()] == [trashed]
    assert [hit.session for hit in store.search("wörld")] == []
    assert store.restore("aaaa") == file
    assert store.trashed() == []
    with Session.open(file, readonly=True) as session:
        assert session.context().messages[1]["content"][0]["text"] == "z" * 5000
    store.trash("aaaa")
    assert store.empty_trash(older_than=timedelta(days=1)) == []
    would = store.empty_trash(older_than=timedelta(0), dry_run=True)
    removed = store.empty_trash(older_than=timedelta(0))
    assert [one.file for one in would] == [one.file for one in removed]
    assert removed[0].bytes == would[0].bytes > 5000
    assert removed[0].trashed.endswith("Z")
    assert store.trashed() == []
    with pytest.raises(RefError, match="in the trash of"):
        store.restore("aaaa")


def test_what_is_not_of_the_store_is_not_moved(store: Store, tmp_path: Path) -> None:
    filled(store)
    with Session.create(tmp_path / "elsewhere.jsonl", cwd="/p"):
        pass
    with pytest.raises(UsageError, match="is not a session of"):
        store.trash(str(tmp_path / "elsewhere.jsonl"))
    file = store.find("bbbb").file
    with pytest.raises(UsageError, match="is not in the trash of"):
        store.restore(file)
    trashed = store.trash("bbbb")
    with pytest.raises(UsageError, match="is in the trash of"):
        store.trash(trashed)


def test_a_restore_takes_no_other_session_s_place(store: Store) -> None:
    filled(store)
    file = store.find("bbbb").file
    store.trash("bbbb")
    with Session.create(file, cwd="/p/one", id="taken"):
        pass
    with pytest.raises(SessionExistsError, match="to the trash, and restore this one then"):
        store.restore("bbbb")
    assert [one.id for one in store.trashed()] == ["bbbb2222"]
    assert store.find("taken").file == file


def test_a_project_is_moved_with_all_its_sessions(store: Store) -> None:
    filled(store)
    assert store.move_project("/p/one", "/q") == 2
    assert {one.id: one.cwd for one in store.list()} == {
        "aaaa1111": "/q",
        "bbbb2222": "/q",
        "cccc3333": "/q",
    }
    with store.open("aaaa", readonly=True) as session:
        assert session.verify() == []
    with pytest.raises(NothingToDoError, match="nothing is moved"):
        store.move_project("/p/one", "/q")
    with pytest.raises(NothingToDoError, match="is where its sessions are already"):
        store.move_project("/q", "/q")


def test_garbage_goes_from_all_sessions(store: Store) -> None:
    filled(store)
    with store.open("bbbb") as session, session.scratch() as lane:
        lane.append_message(user("tried"))
    later = datetime.now(UTC) + timedelta(days=40)
    would = store.gc(now=later, dry_run=True)
    done = store.gc(now=later)
    assert list(would) == list(done) == [store.find("bbbb").file]
    assert store.gc(now=later, dry_run=True) == {}
    with store.open("bbbb", readonly=True) as session:
        assert [entry.type for entry in session.entries()] == ["session", "message"]


def test_a_blob_that_no_entry_names_goes_after_seven_days_and_not_before(store: Store) -> None:
    with store.create(cwd="/p", id="aaaa1111") as session:
        session.append_message(user("one"))
        blob = session.blobs.put(b"for an entry that is being written")
        assert session.gc().blobs == []
        assert session.blobs.look(blob.sha256) is not None
        later = datetime.now(UTC) + timedelta(days=8)
        assert session.gc(now=later).blobs == [blob]
        assert session.blobs.look(blob.sha256) is None


def test_a_name_that_no_session_can_have_is_refused(store: Store) -> None:
    with pytest.raises((UsageError, StorageError)):
        store.create(cwd="/p", id="\ud800")
    with pytest.raises(UsageError, match="is not a path of a directory"):
        store.project_dir("/\ud800")
    made = store.create(cwd="/p", id="a/b%c+d")
    made.close()
    assert store.find("a/b%c+d").id == "a/b%c+d"


def test_the_default_store_is_where_a_variable_says(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_STORE", root)
    filled(Store())
    assert Store().root == Store(root).root
    assert len(Store(root).list()) == 3


def test_a_url_of_a_file_is_a_path(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/a%20b")
    assert store.root == str(tmp_path / "a b")
    filled(store)
    assert os.listdir(tmp_path) == ["a b"]
    file = store.find("bbbb").file
    with Session.open(f"file://{file.replace(' ', '%20')}", readonly=True) as session:
        assert session.id == "bbbb2222"


def handler(problem: str) -> Any:
    raise AssertionError(problem)


def test_nothing_is_reported_of_sound_sessions(store: Store) -> None:
    filled(store)
    store.trash("cccc")
    assert len(store.list(report=handler)) == 2
    assert len(list(store.search("o", report=handler))) == 2


def test_a_session_at_an_address_with_options_is_held_by_nobody(tmp_path: Path) -> None:
    with opened("objects", tmp_path) as (_, url):
        store = Store(f"{url}/team?region=us-east-1")
        filled(store)
        assert [one.writer for one in store.list()] == [None, None, None]
