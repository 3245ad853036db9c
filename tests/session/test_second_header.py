"""A second header is damage, and not in the tree: not a leaf, not a parent, not an entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import RefError, Session
from tests.support.conversation import user
from tests.support.table import for_each

OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(params=["the same uuid", "another uuid"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A session of two messages that ends with a second header."""
    path = tmp_path / "session.jsonl"
    with Session.create(path) as session:
        session.append_message(user("one"))
        session.append_message(user("two"))
        root = session.header.uuid
    header = path.read_bytes().splitlines(keepends=True)[0]
    if request.param == "another uuid":
        header = header.replace(root.encode(), OTHER.encode())
    with path.open("ab") as out:
        out.write(header)
    return path


def said(session: Session) -> list[str]:
    return [message["content"] for message in session.context().messages]


@for_each("is_indexed", [False, True])
def test_the_next_entry_hangs_below_the_last_one(file: Path, is_indexed: bool) -> None:
    with Session.open(file) as session:
        if is_indexed:
            assert session.branches()
        assert session.leaf.get("message") == user("two")
        assert said(session) == ["one", "two"]
        session.append_message(user("three"))
        assert [entry.type for entry in session.path()] == ["session", *["message"] * 3]
    with Session.open(file) as session:
        assert said(session) == ["one", "two", "three"]
        assert "second header" in {found.kind for found in session.verify()}
        assert [entry.type for entry in session.entries()].count("session") == 1


@for_each("is_indexed", [False, True])
def test_no_ref_leads_to_it(file: Path, is_indexed: bool) -> None:
    with Session.open(file) as session:
        if is_indexed:
            assert session.branches()
        header = session.header
        assert session.entry(header.uuid) == header
        assert session.entry(header.uuid).offset == 0
        with pytest.raises(RefError):
            session.entry(OTHER)
        session.branch(header)
        session.append_message(user("anew"))
        assert said(session) == ["anew"]


def test_one_that_another_program_appends_moves_nothing(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    with Session.open(file) as session:
        with file.open("ab") as out:
            out.write(lines[-1])
        session.append_message(user("three"))
        assert said(session) == ["one", "two", "three"]
    with Session.open(file) as session:
        assert said(session) == ["one", "two", "three"]


def test_a_child_of_it_has_no_parent_but_the_first_header(file: Path) -> None:
    content = file.read_bytes()
    uuid = content.splitlines()[-1].partition(b'"uuid":"')[2][:36]
    child = b'{"type":"message","uuid":"x","parentUuid":"%b","message":{"role":"user"}}\n' % uuid
    file.write_bytes(content + child)
    for is_indexed in (False, True):
        with Session.open(file, readonly=True) as session:
            if is_indexed:
                assert session.branches()
            path = [entry.uuid for entry in session.path("x")]
            assert path == (["x"] if uuid == OTHER.encode() else [session.header.uuid, "x"])


def test_a_rewrite_keeps_its_line(file: Path) -> None:
    line = file.read_bytes().splitlines()[-1]
    with Session.open(file) as session:
        session.repair()
        session.gc()
    assert line in file.read_bytes().splitlines()
