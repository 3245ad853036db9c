"""A new file is made of pieces of any size, in writes that are worth their call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sessiontree.storage.atomic import create_file, replace_file, swap_file
from sessiontree.storage.fs import DISK, READ, Memory


class Writes(Memory):
    """Keeps the size of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, fd: int, block: bytes) -> int:
        self.sizes.append(len(block))
        return super().write(fd, block)


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
@pytest.mark.parametrize("count", [0, 1, 2, 700])
def test_pieces_of_any_size_are_written_whole_in_few_writes(size: int, count: int) -> None:
    disk = Writes()
    pieces = [bytes([number % 256]) * size for number in range(min(count, 10**7 // (size or 1)))]
    create_file(disk, "/s.jsonl", iter(pieces))
    whole = b"".join(pieces)
    assert disk.read(disk.open("/s.jsonl", READ), len(whole) + 1, 0) == whole
    assert all(disk.sizes)
    assert all(wrote >= 256 * 1024 for wrote in disk.sizes[:-1])


@pytest.mark.parametrize("put", [swap_file, partial(replace_file, suffix=".v1")])
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
