"""Session files for the tests of what is below a session, on disk and in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Damage, Session
from sessiontree.storage.fs import CREATE, READ, Disk
from sessiontree.storage.memory import MemoryFiles

FILE: Final = "/chat.jsonl"
HELLO: Final[dict[str, Any]] = {"role": "user", "content": "hello"}
VERSION_1: Final = b"".join(
    line + b"\n"
    for line in (
        b'{"type":"session","id":"old","timestamp":"2025-11-20T23:33:50.805Z","cwd":"/p"}',
        b'{"type":"message","message":{"role":"user","content":"one"}}',
        b'{"type":"message","message":{"role":"assistant","content":"two"}}',
    )
)

Record = Callable[[str, object], None]
"""The fixture `record_property`, with which a test counts what it tried."""

Found = list[tuple[str, int]]
"""Kinds of damage and the numbers of their lines."""


def file_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def kinds_in(damage: list[Damage]) -> Found:
    return [(found.kind, found.line) for found in damage]


def uuids(session: Session) -> list[str]:
    return [entry.uuid for entry in session.entries()]


def uuids_at(path: Path | str) -> list[str]:
    with Session.open(path, readonly=True) as session:
        return uuids(session)


def in_memory(content: bytes, path: str = FILE) -> MemoryFiles:
    """A file system that holds one file."""
    disk = MemoryFiles()
    disk.write(disk.open(path, CREATE), content)
    return disk


def content_of(disk: MemoryFiles, path: str = FILE) -> bytes:
    return disk.read(disk.open(path, READ), disk.stat(path).size, 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The name of a session file that is not there yet."""
    return tmp_path / "s.jsonl"


@pytest.fixture
def path(file: Path) -> Path:
    """The file of a session with one message."""
    with Session.create(file, cwd="/project") as session:
        session.append_message(HELLO)
    return file


class Counting(Disk):
    """The disk, and how many bytes were read of it, from where on."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.lowest_after_header = 1 << 62

    def read(self, fd: int, size: int, offset: int) -> bytes:
        block = super().read(fd, size, offset)
        self.bytes_read += len(block)
        if offset > 4096 and block:
            self.lowest_after_header = min(self.lowest_after_header, offset)
        return block
