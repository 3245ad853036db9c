"""A session is moved to names that are free, and to no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session, SessionExistsError
from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import move_session
from tests.support.table import for_each


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session with a folder of blobs."""
    file = tmp_path / "s.jsonl"
    with Session.create(file, spill_over=10) as session:
        session.append_message({"role": "user", "content": "more than ten characters"})
    return file


def names(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if not name.endswith(".lock")}


def test_an_empty_folder_of_blobs_is_in_no_ones_way(file: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "s.jsonl.blobs").mkdir(parents=True)
    move_session(DISK, str(file), str(there))
    assert not file.exists()
    with Session.open(there / "s.jsonl", readonly=True) as session:
        assert session.leaf["message"]["content"] == "more than ten characters"


@for_each("taken", ["s.jsonl", "s.jsonl.blobs"])
@for_each("kind", ["file", "folder"])
def test_a_name_that_is_taken_is_refused_and_all_stays_where_it_was(
    file: Path, tmp_path: Path, taken: str, kind: str
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    if kind == "file":
        (there / taken).write_text("of somebody else")
    else:
        (there / taken).mkdir()
        (there / taken / "x").write_text("of somebody else")
    before = names(tmp_path)
    with pytest.raises(SessionExistsError, match="is there already"):
        move_session(DISK, str(file), str(there))
    assert names(tmp_path) == before
    assert file.exists()
