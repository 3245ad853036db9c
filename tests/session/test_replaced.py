"""A file that is replaced, cut, or moved away while a session has it open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import (
    CorruptionError,
    FileReplacedError,
    NotASessionError,
    Session,
    SessionNotFoundError,
)
from sessiontree.storage.fs import Disk
from tests.support.faultydisk import FaultyDisk, Settled
from tests.support.files import HELLO, VERSION_1, uuids_at


@pytest.fixture(
    params=[(exclusive, disk) for exclusive in (False, True) for disk in (Disk, Settled)],
    ids=lambda how: f"{'exclusive' if how[0] else 'shared'}-{how[1].__name__}",
)
def session(request: pytest.FixtureRequest, path: Path) -> Iterator[Session]:
    """A writer, whose folder counts as settled after two entries where the disk says so."""
    exclusive, disk = request.param
    with Session.open(path, exclusive=exclusive, fs=disk()) as session:
        session.append_message(HELLO)
        session.append_message(HELLO)
        yield session


@pytest.fixture
def stranger(tmp_path: Path) -> bytes:
    """Another session's file."""
    with Session.create(tmp_path / "stranger.jsonl") as session:
        session.append_message(HELLO)
    return (tmp_path / "stranger.jsonl").read_bytes()


def replace_with(path: Path, content: bytes) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(content)
    os.replace(other, path)


def test_a_file_replaced_by_one_with_the_last_entry_is_gone_on_with(
    session: Session, path: Path
) -> None:
    with Session.open(path, readonly=True) as reader:
        leaf = session.leaf
        replace_with(path, path.read_bytes().replace(b"/project", b"/elsewhere"))
        entry = session.append_message(HELLO)
        assert entry.parent_uuid == leaf.uuid
        assert session.header["cwd"] == "/elsewhere"
        reader.refresh()
        assert reader.leaf == entry
        assert reader.header["cwd"] == "/elsewhere"
    assert uuids_at(path)[-2:] == [leaf.uuid, entry.uuid]


def test_a_file_replaced_by_one_without_the_last_entry_is_never_written(
    session: Session, path: Path, stranger: bytes
) -> None:
    seen = session.path()
    replace_with(path, stranger)
    for _ in range(2):  # the refusal must not wear off
        with pytest.raises(FileReplacedError, match="open it again") as caught:
            session.append_message(HELLO)
        assert str(path) in str(caught.value)
        assert session.leaf.uuid in str(caught.value)
        with pytest.raises(FileReplacedError):
            session.refresh()
    assert session.path() == seen
    assert session.context().messages == [HELLO] * 3
    assert path.read_bytes() == stranger


def test_a_reader_of_a_replaced_file_keeps_what_it_read(path: Path, stranger: bytes) -> None:
    with Session.open(path, readonly=True) as session:
        seen = session.path()
        replace_with(path, stranger)
        for _ in range(2):
            with pytest.raises(FileReplacedError):
                session.refresh()
        assert session.path() == seen
        assert [entry.uuid for entry in session.entries()] == [entry.uuid for entry in seen]


@pytest.mark.parametrize("content", [b"", b"not a session\n", b"\0" * 100])
def test_a_file_replaced_by_no_session_is_never_written(
    session: Session, path: Path, content: bytes
) -> None:
    replace_with(path, content)
    for _ in range(2):
        with pytest.raises(NotASessionError):
            session.append_message(HELLO)
    assert path.read_bytes() == content


def test_a_file_that_was_cut_is_noticed(session: Session, path: Path) -> None:
    cut = path.read_bytes()[: -len(session.leaf.line) - 1]
    path.write_bytes(cut)
    for _ in range(2):
        with pytest.raises(FileReplacedError):
            session.append_message(HELLO)
    assert path.read_bytes() == cut


def test_a_file_that_vanished_is_an_error_and_not_made_anew(session: Session, path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    for act in (lambda: session.append_message(HELLO), session.refresh):
        with pytest.raises(SessionNotFoundError, match=r"nothing was written.*export") as caught:
            act()
        assert f"{path} vanished" in str(caught.value)
    assert not path.exists()
    assert session.context().messages == [HELLO] * 3
    copy = path.with_name("copy.jsonl")
    session.export_branch(session.header, copy, with_path=True)
    assert uuids_at(copy)[1:] == [entry.uuid for entry in session.path()[1:]]
    path.with_suffix(".away").rename(path)
    assert uuids_at(path)[-1] != session.append_message(HELLO).uuid == uuids_at(path)[-1]


def test_a_reader_of_a_file_that_vanished_is_told_what_a_reader_can_do(path: Path) -> None:
    with Session.open(path, readonly=True) as session:
        path.rename(path.with_name("elsewhere.jsonl"))
        with pytest.raises(SessionNotFoundError) as caught:
            session.refresh()
    assert "nothing was written" not in str(caught.value)
    assert str(caught.value).endswith("put it back, or open it where it is now")


def test_a_summarizer_gets_no_line_that_changed_meanwhile(path: Path, session: Session) -> None:
    def summary(entries: Any) -> str:
        content = path.read_bytes()
        start = content.rindex(b"\n", 0, -1) + 1
        with path.open("r+b") as file:
            file.seek(start)
            file.write(b"x" * (len(content) - start - 1))
        return str(len(list(entries)))

    with pytest.raises((FileReplacedError, CorruptionError)):
        session.branch("@~2", summary=summary)


def test_descriptors_are_let_go(path: Path, stranger: bytes) -> None:
    disk = FaultyDisk()
    with Session.open(path, exclusive=True, fs=disk) as session:
        session.append_message(HELLO)
        replace_with(path, path.read_bytes())
        session.append_message(HELLO)
        replace_with(path, stranger)
        with pytest.raises(FileReplacedError):
            session.append_message(HELLO)
    with pytest.raises(NotASessionError):
        Session.open(path.parent, fs=disk)
    path.write_bytes(b"nothing")
    with pytest.raises(NotASessionError):
        Session.open(path, fs=disk)
    path.write_bytes(VERSION_1)
    with Session.open(path, readonly=True, fs=disk) as session:
        session.path()
    Session.open(path, fs=disk).close()
    assert disk.descriptors == {}


def test_a_line_that_changed_since_the_index_was_built_is_never_read_as_an_entry(
    session: Session, path: Path
) -> None:
    reader = session.reader
    tree = reader.index()
    rows = range(len(tree.offsets))
    before = reader.entries_at(rows)
    assert [reader.entry_at(row) for row in rows] == before
    with path.open("r+b") as file:
        file.seek(tree.offsets[2])
        file.write(b"x" * 20)
    with pytest.raises(FileReplacedError):
        reader.entry_at(2)
    with pytest.raises(FileReplacedError):
        reader.entries_at(rows)
    assert reader.entries_at([3, 1]) == [before[3], before[1]]
