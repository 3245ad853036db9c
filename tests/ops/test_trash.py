"""`session`: names, metadata, the trash and renamed directories, by calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from tests.support.calls import Calls
from tests.support.sessions import chat, said


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def file(store: Store) -> str:
    return said(store, "hello", cwd="/old", id="my-session")


@pytest.fixture
def calls(store: Store) -> Calls:
    return Calls(store.root)


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
