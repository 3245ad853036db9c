"""Session handles of paths and branches, and of any session of the same store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Entry, Session, Store
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.opening import sniff_file
from sessiontree.errors import HandleError, TargetMissingError, TargetRefusedError
from sessiontree.handles import builtin
from sessiontree.handles import builtin as paths
from sessiontree.handles.resolve import HandleScope
from tests.support.conversation import assistant, forked, in_memory, line, said, talk, text, user
from tests.support.table import for_each


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def here(store: Store) -> Iterator[Session]:
    with store.create(cwd="/project", id="here") as session:
        yield session


@pytest.fixture
def far(store: Store) -> Iterator[Session]:
    """A session of another project of the store."""
    with store.create(cwd="/Other", id="far") as session:
        yield session


def found(session: Session, handle: Handle) -> ResolvedHandle:
    return HandleScope(session).resolve(handle)


def texts(resolved: ResolvedHandle) -> list[str]:
    return list(map(text, resolved.data["messages"]))


def test_a_path_is_the_messages_up_to_an_entry(here: Session) -> None:
    first, second, _ = talk(here, "one", "two", "three")
    resolved = found(here, Handle.path("here", second.uuid))
    assert resolved.kind == "document"
    assert resolved.data == {
        "session": "here",
        "leaf": second.uuid,
        "messages": [first["message"], second["message"]],
    }
    assert found(here, Handle.path("here", here.header.uuid)).data["messages"] == []


def test_a_path_is_what_a_context_there_has(here: Session) -> None:
    talk(here, "one", "two", "three")
    here.edit_context("@", "edited")
    here.compact("the start", first_kept="@")
    talk(here, "four")
    resolved = found(here, Handle.path("here", here.leaf.uuid))
    assert resolved.data["messages"] == here.context().messages
    assert texts(resolved) == ["the start", "edited", "four"]


def test_a_branch_is_the_path_to_its_last_entry_as_it_is_then(here: Session) -> None:
    one, _ = talk(here, "one", "two")
    here.branch(one, name="other")
    talk(here, "three")
    with here.lane("helper", at=one) as helper:
        talk(helper, "four")
    here.switch(here.find(type="message")[1])
    branch = Handle.branch("here", "other")
    assert texts(found(here, branch)) == ["one", "three"]
    assert texts(found(here, Handle.branch("here", "helper"))) == ["one", "four"]
    assert texts(found(here, Handle.branch("here", "main"))) == ["one", "two"]
    here.switch("other")
    talk(here, "five")
    assert texts(found(here, branch)) == ["one", "three", "five"]


def test_a_path_in_a_context_is_a_document(here: Session, far: Session) -> None:
    entry = talk(far, "from afar")[0]
    here.append_handle(Handle.path("far", entry.uuid), role="user", preview="what far said")
    assert here.leaf["kind"] == "document"
    assert '"messages":[{"role":"user","content":"from afar"}]' in said(here.context())[0]


@pytest.mark.parametrize("name", ["own", "by hand", "in the root", "of another name"])
def test_any_session_of_the_store_is_reached(
    here: Session, far: Session, store: Store, name: str
) -> None:
    entry = talk(far, "from afar")[0]
    assert far.file is not None
    folder = Path(far.file).parent
    places = {
        "own": Path(far.file),
        "by hand": folder / "notes.jsonl",
        "in the root": Path(store.root) / "notes.jsonl",
        "of another name": folder / "2026-01-02T03-04-05-678Z_other.jsonl",
    }
    os.rename(far.file, places[name])
    for handle in (Handle.entry("far", entry.uuid), Handle.block("far", entry.uuid, 0)):
        assert found(here, handle).data["role"] == "user"
    assert texts(found(here, Handle.branch("far", "main"))) == ["from afar"]


def test_a_session_outside_of_the_store_is_not_reached(
    here: Session, store: Store, tmp_path: Path
) -> None:
    with Session.create(tmp_path / "out.jsonl", id="out") as out:
        handle = Handle.entry("out", out.append_message(user("secret")).uuid)
    (Path(store.root) / "link.jsonl").symlink_to(tmp_path / "out.jsonl")
    (Path(store.root) / "+linked").symlink_to(tmp_path, target_is_directory=True)
    (Path(store.root) / "plain").mkdir()
    os.link(tmp_path / "out.jsonl", Path(store.root) / "plain" / "out.jsonl")
    store.create(cwd="/gone", id="gone").close()
    store.trash("gone")
    for wanted in (handle, Handle.entry("../../out", "x"), Handle.path("gone", "x")):
        with pytest.raises(TargetMissingError, match=f"not in {store.root}"):
            found(here, wanted)


def test_few_files_are_read_to_find_a_session(
    here: Session, far: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = talk(far, "from afar")[0]
    for number in range(20):
        store.create(cwd=f"/p{number}", id=f"s{number}").close()
    sniffed: list[str] = []

    def counted(log: Any) -> Any:
        sniffed.append(log.name)
        return sniff_file(log)

    monkeypatch.setattr("sessiontree.handles.builtin.sniff_file", counted)
    found(here, Handle.entry("far", entry.uuid))
    assert sniffed == [far.file]
    sniffed.clear()
    missing = [Handle.entry(f"missing{number}", "x") for number in range(50)]
    assert len(HandleScope(here).resolve_many(missing)) == 50
    assert len(sniffed) == 22


def test_a_limited_number_of_sessions_is_open(
    here: Session, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin, "MAX_OPEN", 2)
    closed: list[str] = []
    close = Session.close

    def noted(session: Session) -> None:
        closed.append(session.id)
        close(session)

    handles: list[Handle] = []
    for number in range(6):
        with store.create(cwd="/p", id=f"s{number}") as other:
            if number:  # each leads on to the one before
                other.append_handle(handles[-1])
            else:
                talk(other, "the end")
            handles.append(Handle.entry(other.id, other.leaf.uuid))
    monkeypatch.setattr(Session, "close", noted)
    assert found(here, handles[-1]).data["content"] == "the end"
    assert closed[:4] != ["s5"]
    closed.clear()
    resolved = HandleScope(here).resolve_many(handles * 2)
    assert all(isinstance(one, ResolvedHandle) for one in resolved)


def test_what_is_not_there_is_told(here: Session, far: Session) -> None:
    one, other = forked(far, "a", "b")
    far.branch(one, name="twice")
    talk(far, "c")
    assert far.file is not None
    with open(far.file, "a") as file:  # as a writer of another version may do
        file.write(json.dumps(line("branch", "again", other.uuid, name="twice")) + "\n")
    for handle, told in (
        (Handle.path("far", "gone"), "points to an entry that session far does not have"),
        (Handle.path("far", one.uuid[:8]), f"give its uuid whole: {one.uuid}"),
        (Handle.branch("far", "gone"), "a branch or lane that session far does not have"),
        (Handle.branch("far", "twice"), "is ambiguous: 2 branches"),
        (Handle.branch("gone", "main"), "points to a session that is not in"),
    ):
        with pytest.raises(TargetMissingError, match=told):
            found(here, handle)


@for_each(
    "handle, told",
    [
        (Handle.path("here", "gone"), "names no entry of this session"),
        (Handle.path("here", "streamed"), "names no entry of this session"),
        (Handle.branch("here", "gone"), "names no branch and no lane"),
    ],
)
def test_a_handle_into_this_session_that_points_to_nothing_is_not_written(
    here: Session, handle: Handle, told: str
) -> None:
    here.append("block", messageUuid="streamed", index=0, block={"type": "text", "text": "a"})
    with pytest.raises(HandleError, match=told):
        here.append_handle(handle)


def test_a_branch_of_the_original_is_not_one_of_its_fork(here: Session, tmp_path: Path) -> None:
    entry = talk(here, "one")[0]
    with Session.open(here.fork(tmp_path / "fork.jsonl")) as fork:
        talk(fork, "two")
        assert texts(found(fork, Handle.path("here", entry.uuid))) == ["one"]
        with pytest.raises(TargetMissingError, match="a session that is not in"):
            found(fork, Handle.branch("here", "main"))


def test_handles_on_a_path_are_resolved_where_they_are(here: Session, far: Session) -> None:
    blob = far.blobs.put(b"# Notes")
    far.append("handle", handle=str(Handle.blob(*blob, "text/plain")), kind="binary", role="user")
    middle = Handle.path("far", far.leaf.uuid)
    assert texts(found(here, middle)) == ["```\n# Notes\n```"]
    here.append_handle(middle)
    outer = texts(found(far, Handle.branch("here", "main")))[0]
    assert "# Notes" in outer


def test_a_path_on_a_path_of_the_same_session_is_not_resolved_there(
    here: Session, far: Session
) -> None:
    talk(here, "one")
    here.append("handle", handle=str(Handle.path("here", "loop")), kind="document", uuid="loop")
    with_itself = texts(found(here, Handle.path("here", "loop")))
    assert with_itself[0] == "one"
    assert "cannot be resolved: handles lead back to themselves" in with_itself[1]
    far.append_handle(Handle.branch("here", "main"))
    here.append_handle(Handle.branch("far", "main"))
    for context in (here.context(), far.context()):
        assert "is on a path of the same session" in said(context)[-1]


def tangle(store: Store, count: int) -> Session:
    """Sessions of which each has paths to the ends of all before, and to its own."""
    sessions: list[Session] = []
    for number in range(count):
        sessions.append(store.create(cwd="/p", id=f"s{number}"))
        for other in sessions:
            sessions[-1].append_handle(Handle.branch(other.id, "main"))
    for session in sessions[:-1]:
        session.close()
    return sessions[-1]


@pytest.mark.parametrize("count", [3, 20])
def test_paths_that_multiply_each_other_are_limited(
    store: Store, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(paths, "MAX_ENTRIES", 2000)
    read: list[int] = []
    up = Cursor.up

    def counted(cursor: Cursor, entry: Entry | None = None) -> Iterator[Entry]:
        for one in up(cursor, entry):
            read.append(1)
            yield one

    monkeypatch.setattr(Cursor, "up", counted)
    with tangle(store, count) as session:
        resolved = found(session, Handle.branch(session.id, "main"))
    is_limited = "more than 2,000 entries" in str(resolved.data)
    assert is_limited is (count == 20)
    assert len(read) < 20_000


def test_a_path_is_limited_in_bytes(here: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LARGEST", 100_000)
    here.append_message(user("x" * 90_000))  # in a blob
    here.append_message(assistant("y" * 90_000))
    with pytest.raises(TargetRefusedError, match="or 100,000 bytes"):
        found(here, Handle.path("here", here.leaf.uuid))
    here.compact("s", keep=0)
    assert texts(found(here, Handle.path("here", here.leaf.uuid))) == ["s"]


def test_a_session_in_memory_resolves_its_own_paths() -> None:
    with in_memory(id="here") as session:
        talk(session, "one")
        assert texts(found(session, Handle.branch("here", "main"))) == ["one"]
        with pytest.raises(TargetMissingError, match="in memory has no folder"):
            found(session, Handle.branch("far", "main"))
