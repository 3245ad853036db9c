"""How large a side file may be: to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sessiontree.storage.fs import DISK
from sessiontree.storage.names import project_of_chat, read_side_file
from tests.support.table import for_each


def root(home: Path, size: int) -> None:
    (home / "tmp" / "app" / ".project_root").write_text("/project".ljust(size))


def registry(home: Path, size: int) -> None:
    content = json.dumps({"projects": {"/project": "app"}})
    (home / "projects.json").write_text(content.ljust(size))


@for_each("write, largest", [(root, 64 * 1024), (registry, 1024 * 1024)])
@for_each("more", [0, 1])
def test_the_project_of_a_chat_is_read_from_files_up_to_a_limit(
    tmp_path: Path, write: Callable[[Path, int], None], largest: int, more: int
) -> None:
    chat = tmp_path / "tmp" / "app" / "chats" / "session-1.json"
    chat.parent.mkdir(parents=True)
    write(tmp_path, largest + more)
    assert project_of_chat(DISK, str(chat)) == (None if more else "/project")


def test_a_side_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"12345")
    assert [read_side_file(DISK, str(file), most) for most in (4, 5, 6)] == [None, *[b"12345"] * 2]
    assert read_side_file(DISK, str(tmp_path)) is None
    assert read_side_file(DISK, str(tmp_path / "none")) is None
