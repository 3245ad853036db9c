"""A confined scope: no call reads or makes a file outside its folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Handle, Session, Store
from sessiontree.importing.importer import Importer
from tests.support.calls import Calls
from tests.support.foreign import TIME, foreign_session
from tests.support.sessions import by_hand, said
from tests.support.table import for_each


def test_a_handle_leads_to_no_session_of_another_project(tmp_path: Path) -> None:
    """The scope is the folder of one project; a store keeps all projects side by side."""
    store = Store(tmp_path)
    secret, own = (said(store, text, cwd=f"/{text}") for text in ("secret", "own"))
    with Session.open(own, readonly=True) as session:
        inner = session.id
    assert Path(own).parent != Path(secret).parent
    with Session.open(secret, readonly=True) as session:
        outer = session
        handle = str(Handle.entry(outer.id, outer.leaf.uuid))
        by_lane = str(Handle.branch(outer.id, "main"))
    for pointer in (handle, by_lane):
        Calls(tmp_path).value("node.create_handle", session=inner, handle=pointer)
    confined = Calls(Path(own).parent)
    for pointer in (handle, by_lane):
        answer = confined("handle.resolve", session=own, handle=pointer)
        assert answer.kind == "unresolved_handle"
        assert Calls(tmp_path).value("handle.resolve", session=own, handle=pointer)["data"]
    for name in ("context.get", "context.resolve", "context.get_path"):
        assert "secret" not in str(confined(name, session=own).events)


@for_each(
    ("name", "params"),
    [
        ("handle.resolve", {"handle": "file@1.0.0::path:hostname", "root": "/etc"}),
        ("context.get", {"root": "/etc"}),
        ("context.resolve", {"root": "/etc"}),
        ("tree.export_file", {"out": "/tmp/sessiontree-outside.md"}),
        ("tree.export_file", {"out": "../outside.md"}),
        ("tree.export_file", {"out": "a\0b"}),
        ("tree.export_branch", {"entry": "@", "out": "link/outside.jsonl"}),
        ("tree.convert", {"to": "pi", "out": "link/outside.jsonl"}),
    ],
)
def test_no_path_leads_out(tmp_path: Path, name: str, params: dict[str, Any]) -> None:
    root = tmp_path / "store"
    file = said(Store(root), "hello")
    (root / "link").symlink_to(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert Calls(root)(name, session=file, **params).kind == "outside"
    assert sorted(tmp_path.rglob("*")) == before


def test_no_file_is_made_in_the_folder_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents go on with what lies in their folders, so a call puts nothing there."""
    theirs = tmp_path / "claude" / "projects"
    theirs.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(theirs.parent))
    file = said(Store(tmp_path / "store"), "hello")
    calls = Calls(tmp_path / "store", agents=True)
    assert str(theirs) in calls.scope.places
    out = str(theirs / "planted.jsonl")
    assert calls("tree.convert", session=file, to="claude-code", out=out).kind == "outside"
    assert list(theirs.iterdir()) == []


def test_no_garbage_is_removed_from_a_session_that_a_link_leads_to(tmp_path: Path) -> None:
    files = [tmp_path / "outside" / "s.jsonl", tmp_path / "root" / "own.jsonl"]
    for file in files:
        by_hand(file, "hello", id=file.stem)
        tried = {"type": "message", "uuid": "t", "parentUuid": "m0", "lane": "scratch/a"}
        tried |= {"timestamp": "2020-01-01T00:00:00.000Z"}
        with file.open("a") as opened:
            opened.write(json.dumps({**tried, "message": {"role": "user", "content": "no"}}) + "\n")
    (tmp_path / "root" / "link.jsonl").symlink_to(files[0])
    before = files[0].read_bytes()
    assert Calls(tmp_path / "root").value("health.gc")["sessions"] == 1
    assert files[0].read_bytes() == before
    assert b"scratch/a" not in files[1].read_bytes()


def test_no_import_is_added_to_a_session_that_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "home"
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(theirs / ".pi/agent/sessions"))
    file = foreign_session(theirs, "pi", "the-id", "/project")
    elsewhere = Path(Importer(tmp_path / "elsewhere").take(str(file)).file)
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.jsonl").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    more = {"type": "message", "id": "a2", "parentId": "a1", "timestamp": TIME}
    with file.open("a") as opened:
        opened.write(json.dumps({**more, "message": {"role": "user", "content": "more"}}) + "\n")
    made = Calls(root, agents=True).value("session.import", sources=[str(file)])
    assert (made["imported"], made["updated"]) == (1, 0)
    assert elsewhere.read_bytes() == before
