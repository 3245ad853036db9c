"""Of a file its ends are there: its first line and its last lines, and no other file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree.storage.lines import MAGIC, ends_of
from tests.support.table import for_each


def test_every_read_is_of_the_first_line_and_of_the_last_lines(tmp_path: Path) -> None:
    lines = [b"%d " % number + b"x" * number + b"\n" for number in range(20)]
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"".join(lines))
    joined = lines[0] + b"".join(lines[-2:])
    ends = ends_of(str(file), len(lines[-1]) + len(lines[-2]) + 3)
    assert ends is not None
    fd = ends.open(str(file), os.O_RDONLY)
    assert ends.size(fd) == ends.stat(fd).size == ends.stat(str(file)).size == len(joined)
    for offset in range(len(joined) + 3):
        for size in range(len(joined) + 3):
            assert ends.read(fd, size, offset) == joined[offset : offset + size]
    with pytest.raises(FileNotFoundError):
        ends.open(str(tmp_path), os.O_RDONLY)
    ends.close(fd)


def test_a_file_that_grows_keeps_its_ends(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"first\n" + b"a line\n" * 10)
    ends = ends_of(str(file), 20)
    assert ends is not None
    with file.open("ab") as more:
        more.write(b"later\n")
    fd = ends.open(str(file), os.O_RDONLY)
    assert ends.read(fd, 99, 0) == b"first\na line\na line\n"
    ends.close(fd)


@for_each(
    "content",
    [
        b"first\nlast\n",
        b"",
        MAGIC + b"\n" + b"a line\n" * 20,
        b"one line " * 20,
        b"first\n" + b"x" * 100,
    ],
)
def test_a_file_that_is_small_or_has_no_lines_has_no_ends(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.jsonl").write_bytes(content)
    assert ends_of(str(tmp_path / "s.jsonl"), 20) is None
    assert ends_of(str(tmp_path / "gone.jsonl"), 20) is None
