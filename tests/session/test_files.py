"""Making, reading and closing files: none is taken, none is changed by reading."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from sessiontree import ReadOnlyError, Session, StorageError
from sessiontree.core.entry import Entry
from sessiontree.core.header import check_header
from sessiontree.engine import logtree
from sessiontree.errors import NotASessionError, SessionExistsError, SessionNotFoundError
from sessiontree.storage.fs import Disk
from tests.support.faultydisk import Fault, FaultyDisk, NoLinks
from tests.support.files import HELLO, VERSION_1
from tests.support.table import for_each


def names_in(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir() if found.suffix != ".lock")


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with Session.create(tmp_path / "s.jsonl", exclusive=True) as session:
            session.append_message(HELLO)
            session.fork(tmp_path / "fork.jsonl")
        for found in tmp_path.iterdir():
            assert found.stat().st_mode & 0o777 == 0o600, found.name
    finally:
        os.umask(mask)


def test_create_never_takes_another_files_place(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(SessionExistsError) as caught:
        Session.create(path)
    told = f"{path} is there already and was left as it is; choose another name"
    assert str(caught.value) == told
    assert path.read_bytes() == before
    assert names_in(path.parent) == ["s.jsonl"]


@for_each("disk", [Disk, NoLinks])
def test_export_and_fork_never_take_another_files_place(path: Path, disk: type[Disk]) -> None:
    taken = path.with_name("taken.jsonl")
    taken.write_bytes(b"mine")
    with Session.open(path, fs=disk()) as session:
        with pytest.raises(SessionExistsError):
            session.fork(taken)
        with pytest.raises(SessionExistsError):
            session.export_branch("@", taken)
    assert taken.read_bytes() == b"mine"
    assert names_in(path.parent) == ["s.jsonl", "taken.jsonl"]


def test_a_copy_into_a_folder_that_is_not_there_names_the_folder(path: Path) -> None:
    nowhere = path.parent / "nowhere"
    with Session.open(path) as session, pytest.raises(SessionNotFoundError) as caught:
        session.fork(nowhere / "copy.jsonl")
    assert str(caught.value) == (
        f"cannot make {nowhere / 'copy.jsonl'}: there is no folder {nowhere}; make it first"
    )


class ReadOnly(Disk):
    """A medium that takes no change at all."""

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            _refuse()
        return super().open(path, flags)


def _refuse(*_: object) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


for _call in ("write", "sync", "sync_folder", "replace", "link", "unlink", "lock"):
    setattr(ReadOnly, _call, _refuse)


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and times of everything in a folder, and the folder's own."""
    state = {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}
    return {**state, ".": (b"", folder.stat().st_mtime_ns)}


def look_at_everything(session: Session) -> list[Entry]:
    session.context()
    session.context("@", verbatim=True)
    session.path()
    session.turns()
    session.branches()
    list(session.tree())
    list(session.render())
    session.find(type="message")
    session.refresh()
    assert session.damage is not None
    return list(session.entries())


FILES = {
    "sound": VERSION_1.replace(
        b'"session"', b'"session","version":2,"format":"sessiontree/2","uuid":"r","parentUuid":null'
    )
    + b'{"type":"message","uuid":"m","parentUuid":"r","message":{"role":"user","content":"x"}}\n',
    "torn": b'{"type":"session","version":2,"uuid":"r","parentUuid":null,"id":"i"}\n{"type":"mess',
    "version 1": VERSION_1,
}


@pytest.fixture(params=FILES)
def made(file: Path, request: pytest.FixtureRequest) -> Path:
    file.write_bytes(FILES[request.param])
    return file


@pytest.mark.parametrize("disk", [Disk, ReadOnly])
def test_reading_changes_nothing(tmp_path: Path, made: Path, disk: type[Disk]) -> None:
    before = state_of(tmp_path)
    with Session.open(made, readonly=True, fs=disk()) as session:
        assert look_at_everything(session)
        with pytest.raises(ReadOnlyError, match="open it without readonly=True to write"):
            session.append_message(HELLO)
    assert state_of(tmp_path) == before


@pytest.mark.unprivileged
def test_a_folder_one_may_not_write_to_can_be_read(tmp_path: Path, made: Path) -> None:
    made.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with Session.open(made, readonly=True) as session:
            assert look_at_everything(session)
    finally:
        tmp_path.chmod(0o700)


def test_a_read_only_medium_is_named_to_a_writer(made: Path) -> None:
    with pytest.raises(StorageError) as caught:
        Session.open(made, fs=ReadOnly())
    assert str(caught.value) == (
        f"cannot open {made}: Read-only file system; "
        "the medium is read-only; open it with readonly=True, or copy the file"
    )


def test_a_medium_that_cannot_be_read_is_an_error_that_names_the_place(path: Path) -> None:
    disk = FaultyDisk()
    with Session.open(path, readonly=True, fs=disk) as session:
        disk.arm(Fault("read", 1, errno.EIO, stays=True))
        with pytest.raises(
            StorageError, match=r"cannot read .*s\.jsonl at byte 0: Input/output error"
        ):
            session.branches()


@for_each("blank", [b"\n", b"  \n", b"\r\n", b" " * 5_000 + b"\n"])
def test_a_header_is_found_behind_any_number_of_blank_lines(tmp_path: Path, blank: bytes) -> None:
    path = tmp_path / "blank.jsonl"
    with Session.create(path) as session:
        session.append_message({"role": "user", "content": "p1"})
    lines = path.read_bytes()
    for count in (1, 4_095, 4_096, 4_097, 9_000):
        path.write_bytes(blank * min(count, 3_000_000 // len(blank)) + lines)
        with Session.open(path, readonly=True) as session:
            assert [message["content"] for message in session.context().messages] == ["p1"]
            assert session.header.offset == path.read_bytes().index(b"{")
    path.write_bytes(blank * 5_000 if len(blank) < 10 else blank)
    with pytest.raises(NotASessionError, match="it holds no entry"):
        Session.open(path, readonly=True)


def test_an_open_reads_the_header_once(file: Path) -> None:
    Session.create(file, name="chat").close()
    found: list[bytes] = []

    def check(line: bytes, *about: str) -> dict[str, Any]:
        found.append(line)
        return check_header(line, *about)

    with patch.object(logtree, "check_header", check), Session.open(file) as session:
        assert session.name == "chat"
    assert found == [file.read_bytes().removesuffix(b"\n")]
