"""A move puts each new name on the medium before it removes the old one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import MOVING, bring_sidecars, move_session, moving
from tests.support.faultydisk import FaultyDisk, NoLinks
from tests.support.table import for_each

CHANGES = ("sync_folder", "replace", "link", "unlink", "make_folder")

FILES = ["s.jsonl", "s.jsonl.blobs/b", "s.jsonl.v1"]

LINKED = ["link there/s.jsonl", "link there/s.jsonl.v1", "sync_folder there"]
BLOBS = ["replace there/s.jsonl.blobs"]
MADE = ["make_folder there", "sync_folder .", "make_folder there/deep", "sync_folder there"]
UNLOCKED = ["unlink here/s.jsonl.lock", "sync_folder here"]

WITH_LINKS = [
    "link there/s.jsonl.lock",
    *(*LINKED, *BLOBS, "sync_folder there"),
    *("unlink here/s.jsonl.v1", "unlink here/s.jsonl", *UNLOCKED),
]
WITHOUT_LINKS = [
    "link there/s.jsonl.lock",
    *(*LINKED, *BLOBS, "replace there/s.jsonl.v1", "sync_folder there"),
    *("replace there/s.jsonl", "sync_folder there", *UNLOCKED),
]


@for_each("disk", [FaultyDisk, NoLinks])
@for_each("there", ["there", "there/deep"])
def test_the_file_of_a_session_is_the_last_to_leave_its_folder(
    disk: type[FaultyDisk], there: str, tmp_path: Path
) -> None:
    file = filled(tmp_path, "here", FILES)
    if there == "there":
        (tmp_path / there).mkdir()
    moved = disk()
    moved.arm()
    assert move_session(moved, str(file), str(tmp_path / there)) == str(
        tmp_path / there / file.name
    )
    expected = WITH_LINKS if disk is FaultyDisk else WITHOUT_LINKS
    if there != "there":
        expected = [*MADE, *(step.replace("there", there) for step in expected)]
    assert steps(moved, tmp_path) == expected
    assert files(tmp_path) == {f"{there}/{name}" for name in [*FILES, "s.jsonl.lock"]}


def test_sidecars_that_are_brought_are_on_the_medium_in_both_folders(tmp_path: Path) -> None:
    source = filled(tmp_path, "here", FILES[1:])
    file = filled(tmp_path, "there", FILES[:1])
    os.link(filled(tmp_path, "here", ["s.jsonl.archive"]).parent / "s.jsonl.v1", f"{file}.v1")
    disk = FaultyDisk()
    disk.arm()
    bring_sidecars(disk, str(source), str(file))
    done = steps(disk, tmp_path)
    assert done[-2:] == ["sync_folder there", "sync_folder here"]
    assert set(done[:-2]) == {*BLOBS, "unlink here/s.jsonl.v1", "replace there/s.jsonl.archive"}
    names = [*FILES, "s.jsonl.archive", "s.jsonl.lock"]
    assert files(tmp_path) == {f"there/{name}" for name in names}


def test_the_lock_for_moving_is_gone_at_the_end(tmp_path: Path) -> None:
    with moving(DISK, str(tmp_path)):
        assert files(tmp_path) == {MOVING}
    assert files(tmp_path) == set()
    with pytest.raises(RuntimeError, match="broken"), moving(DISK, str(tmp_path)):
        raise RuntimeError("broken")
    assert files(tmp_path) == set()


def filled(top: Path, folder: str, names: Sequence[str]) -> Path:
    """Make files of a session in a folder; give the path of the session there."""
    for name in names:
        file = top / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return top / folder / "s.jsonl"


def steps(disk: FaultyDisk, top: Path) -> list[str]:
    """The calls that changed the disk, each with its path."""
    return [f"{kind} {os.path.relpath(path, top)}" for kind, path in disk.calls if kind in CHANGES]


def files(top: Path) -> set[str]:
    """The paths of all files."""
    return {str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()}
