"""Files in memory follow the rules of the disk, in results and in errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.storage.fs import APPEND, CREATE, LOCK, OVERWRITE, READ, Disk, FileSystem
from sessiontree.storage.memory import MemoryFiles
from tests.support.table import for_each

STEPS: list[tuple[Any, ...]] = [
    *(("open", "a", READ), ("stat", "a"), ("unlink", "a"), ("replace", "a", "b")),
    *(("list", "f"), ("remove_folder", "f"), ("make_folder", "f"), ("make_folder", "f")),
    *(("open", "f/a", CREATE), ("write", 0, b"abc"), ("write", 0, b"de"), ("size", 0)),
    *(("read", 0, 3, 1), ("read", 0, 9, 4), ("read", 0, 9, 9), ("open", "f/a", CREATE)),
    *(("make_folder", "f/a"), ("link", "f/a", "f/b"), ("link", "f/a", "f/b"), ("list", "f")),
    *(("remove_folder", "f"), ("open", "f/b", APPEND), ("write", 1, b"f"), ("size", 0)),
    *(("open", "f/b", OVERWRITE), ("size", 0), ("open", "f/c", CREATE), ("write", 3, b"c")),
    *(("replace", "f/c", "f/a"), ("stat", "f/a"), ("stat", "f/b"), ("list", "f"), ("size", 0)),
    *(("unlink", "f/a"), ("unlink", "f/a"), ("unlink", "f/b"), ("size", 3), ("lock", 3)),
    *(("sync", 3), ("unlock", 3), ("close", 3), ("list", "f"), ("remove_folder", "f")),
    *(("stat", "f/a"), ("link", "f/a", "f/b"), ("list", "f")),
]


def results(fs: FileSystem, folder: str) -> list[Any]:
    """What each step gives; a number names an opened file, a text a path in the folder."""
    opened: list[int] = []
    found: list[Any] = []
    for kind, file, *more in STEPS:
        given = [f"{folder}/{one}" if isinstance(one, str) else one for one in more]
        target = f"{folder}/{file}" if isinstance(file, str) else opened[file]
        try:
            result = getattr(fs, kind)(target, *given)
        except OSError as error:
            found.append((kind, file, type(error), error.errno))
            continue
        if kind == "open":
            opened.append(result)
            result = None
        elif kind == "list":
            result = sorted(result)
        elif kind == "stat":
            result = (result.size, result.is_folder, result.is_stream)
        found.append((kind, file, result))
    for fd in opened[:3]:
        fs.close(fd)
    return found


def test_files_in_memory_follow_the_rules_of_the_disk(tmp_path: Path) -> None:
    assert results(MemoryFiles(), str(tmp_path)) == results(Disk(), str(tmp_path))


def test_a_file_in_memory_is_itself_under_each_name(tmp_path: Path) -> None:
    memory = MemoryFiles()
    memory.open("a", CREATE)
    memory.open("c", CREATE)
    memory.link("a", "b")
    assert memory.stat("a").identity == memory.stat("b").identity != memory.stat("c").identity


@for_each("kind", ["read", "size", "close"])
def test_a_closed_file_in_memory_is_gone(kind: str) -> None:
    memory = MemoryFiles()
    fd = memory.open("a", CREATE)
    memory.close(fd)
    with pytest.raises(KeyError):
        getattr(memory, kind)(fd, *((1, 0) if kind == "read" else ()))


@pytest.mark.parametrize("make", [Disk, MemoryFiles])
def test_one_descriptor_of_a_file_has_its_lock_until_it_unlocks_or_closes(
    make: type[FileSystem], tmp_path: Path
) -> None:
    fs, path = make(), str(tmp_path / "a")
    one, other = fs.open(path, LOCK), fs.open(path, LOCK)
    assert fs.lock(one)
    assert fs.lock(one)
    assert not fs.lock(other)
    fs.unlock(one)
    assert fs.lock(other)
    assert not fs.lock(one)
    fs.close(other)
    assert fs.lock(one)
    fs.close(one)


def test_two_sessions_without_a_file_share_nothing() -> None:
    with Session.create() as one, Session.create() as other:
        one.append_message({"role": "user", "content": "a"})
        assert (one.file, other.file) == (None, None)
        assert [len(list(session.entries())) for session in (one, other)] == [2, 1]


def test_a_file_may_have_the_name_of_a_session_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session.create("(in memory)") as session:
        assert session.file == "(in memory)"
    assert (tmp_path / "(in memory)").is_file()
