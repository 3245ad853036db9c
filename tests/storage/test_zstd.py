"""A compressed file unpacks within a limit that its size sets, and costs the memory of a step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from sessiontree import NotASessionError, Session, StorageError, Store
from sessiontree.storage import lines
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import ALWAYS_UNPACKED, LARGEST_RATIO, Decompressed
from sessiontree.storage.log import FileLog
from tests.support.table import for_each

pytest.importorskip("zstandard", reason="needs a decoder of Zstandard: sessiontree[zstd]")

BLOCK = 128 * 1024
META = {
    "timestamp": "2026-01-01T00:00:00.000Z",
    "type": "session_meta",
    "payload": {"id": "0b8f6d54-0c7e-4b6e-8a3c-5a3d2f1e0c9b", "cwd": "/p", "originator": "codex"},
}


def bomb(start: bytes, filler: bytes, blocks: int) -> bytes:
    """A frame (RFC 8878, 3.1.1) of a raw block, and blocks that repeat one byte."""

    def head(kind: int, size: int, *, last: bool = False) -> bytes:
        return (last | kind << 1 | size << 3).to_bytes(3, "little")

    window = bytes([(17 - 10) << 3])
    repeated = head(1, BLOCK) + filler
    frame = lines.MAGIC + b"\0" + window + head(0, len(start)) + start
    return frame + repeated * blocks + head(1, 1, last=True) + b"\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """96 KB that unpack to 3 GB."""
    file = tmp_path / "rollout-2026-01-01T00-00-00-0b8f6d54.jsonl.zst"
    file.write_bytes(bomb(json.dumps(META).encode() + b"\n", b"a", 24_000))
    return file


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc for the memory")
@pytest.mark.parametrize(
    "command", [["show", "@"], ["context"], ["export"], ["verify"], ["search", "aaa"], ["import"]]
)
def test_a_small_file_that_unpacks_to_gigabytes_is_refused(
    small: Path, tmp_path: Path, command: list[str]
) -> None:
    arguments = [command[0], str(small), *command[1:]]
    if command[0] == "search":
        arguments = ["search", command[1], str(small)]
    if command[0] == "import":
        arguments += ["-o", str(tmp_path / "imported")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"{small} is not read: it unpacks to more than" in done.stderr
    assert "unpack it with 'zstd -d'" in done.stderr
    assert "Traceback" not in done.stderr
    assert int(done.stderr.rsplit("peak ", 1)[1]) < 300_000


LIMITED = """
import atexit, sys
peak = lambda: open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
atexit.register(lambda: print("peak", peak(), file=sys.stderr))
from sessiontree.cli import main
main(sys.argv[1:])
"""


def test_a_list_has_a_small_file_that_unpacks_to_gigabytes(small: Path) -> None:
    problems: list[str] = []
    found = Store(small.parent).list(report=problems.append)
    assert len(found) + len(problems) == 1


def unpacked(file: Path) -> int:
    with closing(FileLog(DISK, str(file), readonly=True)) as log:
        return Decompressed(log).size()


@for_each("more", [0, 1])
def test_the_limit_is_a_multiple_of_the_size_and_never_below_a_minimum(
    tmp_path: Path, more: int
) -> None:
    file = tmp_path / "x.jsonl.zst"
    whole = ALWAYS_UNPACKED // BLOCK
    file.write_bytes(bomb(b"", b"a", whole - 1 + more))
    if more:
        with pytest.raises(StorageError, match=f"{ALWAYS_UNPACKED:,} bytes"):
            unpacked(file)
    else:
        assert unpacked(file) == ALWAYS_UNPACKED - BLOCK + 1


@for_each("content", [b"hello\n", b'{"type":"note"}\n', b""])
def test_a_compressed_file_that_is_no_session_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.jsonl.zst"
    file.write_bytes(bomb(content, b" ", 0))
    with pytest.raises(NotASessionError, match=r"x\.jsonl\.zst"):
        Session.open(file, readonly=True)


class InMemory(NamedTuple):
    """A compressed file that says what size it has."""

    content: bytes
    said: int
    name: str = "x.jsonl.zst"

    def read(self, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]

    def size(self) -> int:
        return self.said


def test_a_file_unpacks_to_a_hundred_times_its_size_and_no_more() -> None:
    content = bomb(b"a" * 99, b"a", 200)
    unpacked, size = 200 * BLOCK + 100, 2 * BLOCK + 1
    assert unpacked == 100 * size > ALWAYS_UNPACKED
    assert Decompressed(InMemory(content, size)).size() == unpacked
    with pytest.raises(StorageError, match=f"{100 * (size - 1):,} bytes"):
        Decompressed(InMemory(content, size - 1)).size()


def test_a_large_file_may_unpack_to_more(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl.zst"
    noise = b"".join(bomb(os.urandom(BLOCK), b"a", 0) for _ in range(8))
    file.write_bytes(noise + bomb(b"", b"a", 90 * 8))
    assert ALWAYS_UNPACKED < unpacked(file) <= LARGEST_RATIO * len(noise)


def test_no_step_unpacks_more_than_its_bound(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "ALWAYS_UNPACKED", 1 << 40)
    largest = 0
    check: Callable[[Decompressed, int], None] = Decompressed._check_limit

    def noting(content: Decompressed, more: int) -> None:
        nonlocal largest
        largest = max(largest, more)
        check(content, more)
        if content._out > 1 << 28:
            raise KeyboardInterrupt

    monkeypatch.setattr(Decompressed, "_check_limit", noting)
    with pytest.raises(KeyboardInterrupt):
        unpacked(small)
    assert BLOCK < largest <= 16 * 1024 * 1024


def test_lack_of_memory_is_not_damage(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(content: Decompressed, more: int) -> None:
        raise MemoryError

    monkeypatch.setattr(Decompressed, "_check_limit", lacking)
    with pytest.raises(MemoryError):
        Session.open(small, readonly=True)


def test_what_is_before_the_last_read_is_unpacked_again() -> None:
    content = bytes(range(256)) * 2000
    packed = pytest.importorskip("zstandard").compress(content)
    unpacked = Decompressed(InMemory(packed, len(packed)))
    for at in (0, 500_000, 3, 511_990, 0):
        assert unpacked.read(at, 20) == content[at : at + 20]


def test_the_cause_of_damage_stays_the_same_when_the_end_is_read_again() -> None:
    content = b"".join(str(number * number).encode() for number in range(50_000))
    packed = bytearray(pytest.importorskip("zstandard").compress(content))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) // 2)
    unpacked = Decompressed(InMemory(bytes(packed), len(packed)))
    causes = set()
    for _ in range(3):
        assert content.startswith(unpacked.read(0, len(content)))
        causes.add(unpacked.cause.partition(" near ")[0])
    assert causes == {"the compressed file is damaged"}
