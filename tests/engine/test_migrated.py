"""A file of version 1: migrated by a writer, read as if it were by a reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session, SessionExistsError
from sessiontree.storage.fs import Disk
from tests.support.conversation import user
from tests.support.faultydisk import NoLinks
from tests.support.files import VERSION_1


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.jsonl"
    path.write_bytes(VERSION_1)
    return path


def texts(session: Session) -> list[str]:
    return [message["content"] for message in session.context().messages]


@pytest.mark.parametrize("disk", [Disk, NoLinks])
def test_a_migration_keeps_the_original_beside_the_file(old: Path, disk: type[Disk]) -> None:
    with Session.open(old, fs=disk()) as session:
        assert texts(session) == ["one", "two"]
    assert Path(f"{old}.v1").read_bytes() == VERSION_1
    assert {path.suffix for path in old.parent.iterdir()} <= {".jsonl", ".v1", ".lock"}


class Overtaken(Disk):
    """A disk on which another program migrates a file, and writes, before it is locked."""

    def __init__(self, file: Path) -> None:
        self._file: Path | None = file

    def lock(self, fd: int) -> bool:
        file, self._file = self._file, None
        if file is not None:
            with Session.open(file) as other:
                other.append_message(user("three"))
        return super().lock(fd)


def test_a_file_that_another_program_migrated_meanwhile_is_migrated_once(old: Path) -> None:
    with Session.open(old, fs=Overtaken(old)) as session:
        assert texts(session) == ["one", "two", "three"]
        session.append_message(user("four"))
    with Session.open(old, readonly=True) as session:
        assert texts(session) == ["one", "two", "three", "four"]
    assert Path(f"{old}.v1").read_bytes() == VERSION_1


def test_a_migration_never_takes_another_files_place(old: Path) -> None:
    kept = Path(f"{old}.v1")
    kept.write_bytes(b"somebody's")
    with pytest.raises(SessionExistsError, match="is there already, and is not a copy") as caught:
        Session.open(old)
    assert str(kept) in str(caught.value)
    assert "move it away and try again" in str(caught.value)
    assert old.read_bytes() == VERSION_1
    assert kept.read_bytes() == b"somebody's"


def test_a_reader_of_an_old_file_goes_on_when_a_writer_migrates_and_branches_it(old: Path) -> None:
    with Session.open(old, readonly=True) as reader:
        assert texts(reader) == ["one", "two"]
        with Session.open(old) as writer:
            writer.branch(writer.path()[1])
            writer.append_message({"role": "assistant", "content": "other"})
        reader.refresh()
        assert texts(reader) == ["one", "other"]
        assert reader.damage == []
        with Session.open(old) as writer:
            writer.append_message(user("more"))
        reader.refresh()
        assert texts(reader) == ["one", "other", "more"]


def test_a_reader_of_an_old_file_sees_it_grow(old: Path) -> None:
    with Session.open(old, readonly=True) as reader:
        uuids_before = [entry.uuid for entry in reader.path()]
        with old.open("ab") as file:
            file.write(b'{"type":"message","message":{"role":"user","content":"third"}}\n')
        reader.refresh()
        assert texts(reader) == ["one", "two", "third"]
        assert [entry.uuid for entry in reader.path()][:3] == uuids_before


def test_many_lines_alike_in_an_old_file_are_one_finding(old: Path) -> None:
    old.write_bytes(VERSION_1 + b"no json\n" * 5000)
    with Session.open(old, readonly=True) as session:
        assert texts(session) == ["one", "two"]
        (found,) = session.damage
        assert found.offset == len(VERSION_1)
        assert "4,999 more lines" in found.cause


def test_the_statistics_of_an_old_file_have_its_own_size(old: Path) -> None:
    with Session.open(old, readonly=True) as session:
        assert session.stats().file_bytes == len(VERSION_1)
