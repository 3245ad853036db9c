"""A fork in a store is a session of its own, in the folder of its working directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import AsyncStore, RefError, Session, SessionNotFoundError, Store
from sessiontree.storage.fs import Disk
from tests.support.loops import in_each_loop
from tests.support.sessions import by_hand, chat, read, said
from tests.support.terminal import done, printed_json, refused

LARGE = "a text too large for a line " * 2000


@pytest.fixture(autouse=True)
def _is_home(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", store.root)


def test_a_fork_is_a_session_of_its_own_beside_the_original(store: Store) -> None:
    original = said(store, LARGE, cwd="/p", id="original", name="Chat")
    before = Path(original).read_bytes()
    with Session.open(original) as session:
        session.append_message({"role": "user", "content": "more"})
    after = Path(original).read_bytes()
    made = store.fork("original", "@~1", id="copy")
    assert Path(original).read_bytes() == after > before
    assert os.path.dirname(made) == store.project_dir("/p")
    assert made.endswith("Z_copy.jsonl")
    found = store.find("copy")
    assert (found.file, found.cwd, found.name) == (made, "/p", "Chat")
    assert read(made) == [LARGE]  # with its blob
    with Session.open(made, readonly=True) as copy:
        assert copy.header["parentSession"]["id"] == "original"
    again = store.fork(made)
    assert len({one.id for one in store.list()}) == 3
    assert read(again) == [LARGE]


def test_a_fork_may_belong_to_another_directory(store: Store, tmp_path: Path) -> None:
    outside = chat(tmp_path / "outside.jsonl", "hello", cwd="/p")
    for cwd, expected in ((None, "/p"), ("/q/../r", "/r")):
        made = store.fork(str(outside), cwd=cwd)
        assert os.path.dirname(made) == store.project_dir(expected)
        with Session.open(made, readonly=True) as copy:
            assert copy.header["cwd"] == expected


def test_the_fork_of_a_moved_session_is_in_the_folder_that_its_original_is_in(
    store: Store,
) -> None:
    said(store, "hello", cwd="/old", id="moved")
    store.move_project("/old", "/new")
    assert os.path.dirname(store.fork("moved")) == store.project_dir("/new")


def test_a_fork_of_a_session_without_a_directory_is_in_the_current_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = store.fork(str(by_hand(tmp_path / "x.jsonl", "hello")))
    assert store.list(cwd=tmp_path)[0].file == made


def test_a_project_that_is_moved_meanwhile_does_not_stop_a_fork(
    store: Store, tmp_path: Path
) -> None:
    original = chat(tmp_path / "original.jsonl", "hello", cwd="/p")
    left = [2]

    class Disk2(Disk):
        def open(self, path: str, flags: int) -> int:
            if path.endswith(".tmp") and left[0]:
                left[0] -= 1
                os.rmdir(os.path.dirname(path))
            return super().open(path, flags)

    made = Store(store.root, fs=Disk2()).fork(str(original))
    assert read(made) == ["hello"]
    left[0] = 100
    os.rename(store.project_dir("/p"), tmp_path / "away")
    with pytest.raises(SessionNotFoundError):
        Store(store.root, fs=Disk2()).fork(str(original))


def test_a_fork_of_nothing_makes_nothing(store: Store) -> None:
    original = said(store, "hello", id="original")
    for ref, at in (("none", None), ("original", "none")):
        with pytest.raises(RefError):
            store.fork(ref, at)
    assert store.paths() == [original]


@in_each_loop
async def test_an_async_store_forks(tmp_path: Path) -> None:
    store = AsyncStore(tmp_path / "store")
    said(store.plain, "hello", id="original", cwd="/p")
    assert read(await store.fork("original", id="copy")) == ["hello"]


def test_the_command_copies_into_the_store_if_no_new_file_is_named(
    store: Store, tmp_path: Path
) -> None:
    original = said(store, "hello", cwd="/p", id="original")
    with Session.open(original) as session:
        session.append_message({"role": "user", "content": "more"})
    made = done("fork", "orig", "--at", "@~1").strip()
    assert (read(made), os.path.dirname(made)) == (["hello"], store.project_dir("/p"))
    other = Store(tmp_path / "other")
    os.mkdir(other.root)
    header = printed_json("fork", original, "--store", other.root, "--cwd", "/q")
    assert (header["cwd"], other.find(header["id"]).cwd) == ("/q", "/q")
    assert printed_json("fork", original, tmp_path / "new.jsonl", "--cwd", "/q")["cwd"] == "/q"


def test_the_command_says_how_to_name_the_entry_of_a_copy_in_the_store(store: Store) -> None:
    original = said(store, "hello")
    assert "give REF as --at REF" in refused("fork", original, "@", status=2)
    assert "leave out NEWFILE" in refused("fork", original, "x", "--store", ".", status=2)
    assert store.paths() == [original]


def test_a_copy_has_the_name_that_it_is_given_and_says_what_it_is_a_copy_of(store: Store) -> None:
    """Whatever the copied lines say: a name or fact of before, a compaction that repeats one."""
    original = said(store, "hello", cwd="/p", id="original", name="First")
    for name, facts in (("Second", {"model": "m", "agentSessionId": "x"}), ("Third", {"model": 1})):
        with Session.open(original) as session:
            session.rename(name)
            session.update_metadata(**facts)
        with Session.open(original) as session:  # its next entry hangs below the name
            session.append_message({"role": "user", "content": name})
    with Session.open(original) as session:
        at_third = session.leaf
        session.compact("short")
        session.rename("Chat")
        session.update_metadata(model=2)
    made = [store.fork("original", at) for at in (at_third, None)]
    named = [store.fork("original", None, name="Own"), store.fork(made[0], name="Own")]
    named.append(done("fork", "original", "--name", "Own").strip())
    for file, name in ((made[0], "Chat"), (made[1], "Chat"), *((file, "Own") for file in named)):
        with Session.open(file, readonly=True) as copy:
            assert (copy.name, copy.metadata.get("model")) == (name, 2)
            assert copy.metadata.get("agentSessionId") is None
            assert copy.verify() == []
    listed = {info.file: info for info in store.list()}
    assert {listed[file].name for file in named} == {"Own"}
    assert listed[named[0]].copy_of == "original"
    assert listed[original].copy_of is None
    lines = done("ls", "--cwd", "/p").splitlines()
    assert sum("fork of original" in line for line in lines) == 4
    assert "a session's name must be" in refused("fork", original, "--name", "two\nlines")
