"""A new file is made of pieces of any size, in writes that are worth their call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from errno import EIO
from functools import partial
from pathlib import Path

import pytest

from sessiontree.errors import StorageError
from sessiontree.storage.atomic import create_file, replace_file, swap_file
from sessiontree.storage.fs import DISK, READ
from sessiontree.storage.memory import MemoryFiles
from tests.support.faultydisk import Fault, FaultyDisk, NoLinks
from tests.support.table import for_each

CHANGES = ("write", "sync", "sync_folder", "replace", "link", "unlink")

WRITTEN = ["write new", "sync new"]
IN_PLACE = ["replace s.jsonl", "sync_folder folder"]
KEPT = [*WRITTEN, "link s.jsonl.v1", "sync_folder folder", *IN_PLACE]
COPIED = [*WRITTEN, "link s.jsonl.v1", "replace s.jsonl.v1", "unlink new", "sync_folder folder"]

keep = partial(replace_file, suffix=".v1")

STEPS: dict[str, tuple[Callable[..., None], type[FaultyDisk], list[str], list[str]]] = {
    "create": (
        create_file,
        FaultyDisk,
        [],
        [*WRITTEN, "link s.jsonl", "unlink new", "sync_folder folder"],
    ),
    "create without links": (
        create_file,
        NoLinks,
        [],
        [*WRITTEN, "link s.jsonl", "replace s.jsonl", "unlink new", "sync_folder folder"],
    ),
    "swap": (swap_file, FaultyDisk, ["s.jsonl"], [*WRITTEN, *IN_PLACE]),
    "keep": (keep, FaultyDisk, ["s.jsonl"], KEPT),
    "keep again": (keep, FaultyDisk, ["s.jsonl", "s.jsonl.v1"], KEPT),
    "keep beside a stray": (
        keep,
        FaultyDisk,
        ["s.jsonl", "s.jsonl.12-0123abcd.tmp"],
        ["unlink new", *KEPT],
    ),
    "keep without links": (
        keep,
        NoLinks,
        ["s.jsonl"],
        [*WRITTEN, "link s.jsonl.v1", *COPIED, "sync_folder folder", *IN_PLACE],
    ),
}
"""An operation and its disk, the files that are there, and the calls that change the disk."""


class Writes(MemoryFiles):
    """Keeps the size of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, fd: int, block: bytes) -> int:
        self.sizes.append(len(block))
        return super().write(fd, block)


@for_each("size", [0, 1, 1000, 300_000])
@for_each("count", [0, 1, 2, 700])
def test_pieces_of_any_size_are_written_whole_in_few_writes(size: int, count: int) -> None:
    disk = Writes()
    pieces = [bytes([number % 256]) * size for number in range(min(count, 10**7 // (size or 1)))]
    create_file(disk, "/s.jsonl", iter(pieces))
    whole = b"".join(pieces)
    assert disk.read(disk.open("/s.jsonl", READ), len(whole) + 1, 0) == whole
    assert all(disk.sizes)
    assert all(wrote >= 256 * 1024 for wrote in disk.sizes[:-1])


@for_each("put", [swap_file, partial(replace_file, suffix=".v1")])
def test_a_file_that_cannot_be_made_whole_leaves_the_old_one_alone(
    put: Callable[..., None], tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        put(DISK, str(file), blocks=broken())
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@for_each("name", list(STEPS))
def test_content_is_on_the_medium_before_its_name_and_both_at_the_end(
    name: str, tmp_path: Path
) -> None:
    put, make, there, expected = STEPS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    for file in there:
        (folder / file).write_bytes(b"old")
    disk = make()
    disk.arm()
    put(disk, str(folder / "s.jsonl"), blocks=iter([b"new"]))
    assert steps(disk) == expected
    kept = {"s.jsonl.v1": b"old"} if put is keep else {}
    assert contents(folder) == {"s.jsonl": b"new", **kept}


def steps(disk: FaultyDisk) -> list[str]:
    """The calls that changed the disk, each with its file; `new` is a temporary name."""
    found = [(kind, os.path.basename(path)) for kind, path in disk.calls if kind in CHANGES]
    names = {"s.jsonl", "s.jsonl.v1", "folder"}
    return [f"{kind} {name if name in names else 'new'}" for kind, name in found]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@for_each(
    "put, disk, kind",
    [
        (create_file, FaultyDisk, "link"),
        (create_file, NoLinks, "replace"),
        (swap_file, FaultyDisk, "replace"),
        (keep, FaultyDisk, "link"),
        (keep, FaultyDisk, "replace"),
        (keep, NoLinks, "replace"),
    ],
)
@for_each("stays", [False, True])
def test_a_new_file_that_cannot_have_its_name_is_removed(
    put: Callable[..., None], disk: type[FaultyDisk], kind: str, stays: bool, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    if put is not create_file:
        file.write_bytes(b"old")
    failing = disk()
    failing.arm(Fault(kind, 1, EIO, stays))
    with pytest.raises(StorageError):
        put(failing, str(file), blocks=iter([b"new"]))
    left = contents(tmp_path)
    left.pop("s.jsonl.v1", None)
    assert left == ({} if put is create_file else {"s.jsonl": b"old"})
