"""File handles read below their root, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.errors import (
    HandleSchemaError,
    SessionTreeError,
    TargetMissingError,
    TargetRefusedError,
)
from sessiontree.handles.builtin import FileResolver
from sessiontree.handles.registry import Registry, ResolverScope
from tests.support.table import for_each

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with files, and a secret beside it."""
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "notes.md").write_text("# Notes\n")
    (root / "docs" / "a b@2:x.txt").write_text("odd name")
    (root / "docs" / "deep" / "end.txt").write_text("deep")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "secret").write_text("secret")
    return root


def read(root: Path | str | None, handle: Handle | str, **limits: int) -> ResolvedHandle:
    registry = Registry([FileResolver(**limits)])
    with ResolverScope(registry, root=None if root is None else str(root)) as scope:
        return scope.resolve(handle)


@for_each(
    "path, content",
    [
        ("notes.md", b"# Notes\n"),
        ("./docs//deep/./end.txt", b"deep"),
        ("docs/a b@2:x.txt", b"odd name"),
    ],
)
def test_a_file_below_the_root_is_read(root: Path, path: str, content: bytes) -> None:
    for below in (root, f"{root}/"):
        found = read(below, Handle.file(path))
        assert (found.kind, found.data) == ("binary", content)
        assert found.media_type == "text/plain"


def test_an_odd_spelling_of_another_program_is_read(root: Path) -> None:
    assert read(root, "file@1.2.0::path:docs/./deep//end.txt").data == b"deep"


@for_each("path", ["/etc/passwd", "../secret", "docs/../../secret", "..", "a%00b"])
def test_no_path_leads_out_of_the_root(root: Path, path: str) -> None:
    with pytest.raises((TargetRefusedError, HandleSchemaError)):
        read(root, f"file@1.0.0::path:{path}")


@pytest.mark.parametrize(
    "links",
    [
        {"link": "../secret"},
        {"link": "{above}/secret"},
        {"link": "{above}/root-beside/secret"},  # begins with the name of the root
        {"link": "../root/notes.md"},  # out and in again
        {"up": "docs/../..", "link": "up/secret"},
        {"link": "{above}/root/../secret"},
    ],
)
def test_no_link_leads_out_of_the_root(root: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (root / name).symlink_to(target.format(above=root.parent))
    with pytest.raises(TargetRefusedError, match="leads out of the root by a link"):
        read(root, Handle.file("link"))


def test_links_that_stay_below_the_root_are_followed(root: Path) -> None:
    (root / "docs" / "up").symlink_to("../notes.md")
    (root / "folder").symlink_to("docs/deep/")
    (root / "absolute").symlink_to(root / "docs")
    (root / "chain").symlink_to("absolute/../folder/../../docs/up")
    for path in ("docs/up", "chain"):
        assert read(root, Handle.file(path)).data == b"# Notes\n", path
    for path in ("folder/end.txt", "absolute/deep/end.txt"):
        assert read(root, Handle.file(path)).data == b"deep", path


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    (root / "absolute").symlink_to(root / "notes.md")
    assert read(link, Handle.file("notes.md")).data == b"# Notes\n"
    assert read(link, Handle.file("absolute")).data == b"# Notes\n"


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(TargetMissingError, match="symbolic links"):
        read(root, Handle.file("a"))


def test_no_device_pipe_or_socket_is_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    for name in ("pipe", "socket"):
        with pytest.raises(TargetRefusedError, match="a device, a pipe or a socket"):
            read(root, Handle.file(name))
    with pytest.raises(TargetRefusedError, match="a device"):
        read("/dev", Handle.file("null"))


@for_each("path", ["docs", "docs/", "docs/deep/."])
def test_a_folder_is_no_file(root: Path, path: str) -> None:
    with pytest.raises(TargetRefusedError, match="is a folder"):
        read(root, f"file@1.0.0::path:{path}")


@for_each("path", ["none", "docs/none", "none/notes.md", "notes.md/x", "x" * 300])
def test_what_is_not_there_is_missing(root: Path, path: str) -> None:
    with pytest.raises(TargetMissingError, match="cannot read file@"):
        read(root, Handle.file(path))


@pytest.mark.unprivileged
def test_what_may_not_be_read_is_told(root: Path) -> None:
    (root / "notes.md").chmod(0)
    with pytest.raises(TargetMissingError, match="Permission denied"):
        read(root, Handle.file("notes.md"))


def test_a_root_that_is_none_is_told(root: Path) -> None:
    for wrong in (root / "none", root / "notes.md"):
        with pytest.raises(TargetMissingError, match=f"below {wrong}"):
            read(wrong, Handle.file("notes.md"))
    with pytest.raises(TargetRefusedError, match="name that folder as the root"):
        read(None, Handle.file("notes.md"))


def test_a_file_over_the_limit_is_refused_before_it_is_read(root: Path) -> None:
    with open(root / "large", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TargetRefusedError, match="1,099,511,627,776 bytes"):
        read(root, Handle.file("large"))
    (root / "eight").write_bytes(b"12345678")
    assert read(root, Handle.file("eight"), largest=8).data == b"12345678"
    with pytest.raises(TargetRefusedError, match="8 bytes, and 7 are allowed"):
        read(root, Handle.file("eight"), largest=7)


@needs_proc
def test_a_file_that_says_it_is_empty_is_read_to_the_limit_at_most() -> None:
    with pytest.raises(TargetRefusedError, match="grew beyond 10 bytes"):
        read("/proc/self", Handle.file("status"), largest=10)


@pytest.fixture
def swapped(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Callable[[Path], object]], None]:
    """Has an attacker put something in the place of a file once it was looked at."""
    look = os.stat

    def swap(place: Path, put: Callable[[Path], object]) -> None:
        def stat(part: Any, **how: Any) -> os.stat_result:
            found = look(part, **how)
            if part == place.name and not place.with_name("was").exists():
                place.rename(place.with_name("was"))
                put(place)
            return found

        monkeypatch.setattr(os, "stat", stat)

    return swap


@pytest.mark.parametrize(
    ("place", "path"),
    [("docs", "docs/secret"), ("notes.md", "notes.md"), ("docs/deep", "docs/deep/secret")],
)
def test_a_link_put_there_while_it_is_read_leads_nowhere(
    root: Path, swapped: Callable[..., None], place: str, path: str
) -> None:
    outside = root.parent / ("secret" if place == "notes.md" else "root-beside")
    swapped(root / place, lambda at: at.symlink_to(outside))
    with pytest.raises(TargetMissingError):
        read(root, Handle.file(path))


def test_a_pipe_put_there_while_it_is_read_is_not_waited_for(
    root: Path, swapped: Callable[..., None]
) -> None:
    swapped(root / "notes.md", os.mkfifo)
    with pytest.raises(TargetRefusedError, match="a pipe"):
        read(root, Handle.file("notes.md"))


@needs_proc
def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link").symlink_to("docs/../../secret")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("notes.md", "docs/deep/end.txt", "link", "none", "docs"):
        try:
            read(root, Handle.file(path))
        except SessionTreeError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_path_that_the_system_cannot_spell_is_a_typed_error(root: Path) -> None:
    with pytest.raises(SessionTreeError):
        read(root, Handle.file("lone \ud800 surrogate"))


def test_a_context_has_the_content_once_it_is_there(tmp_path: Path) -> None:
    with Session.create(tmp_path / "chat.jsonl", root=tmp_path) as session:
        session.append_handle("file@1.0.0::path:note.md")
        first = session.context()
        (tmp_path / "note.md").write_text("the note")
        session.append_message({"role": "user", "content": "on"})
        then = session.context()
    assert "cannot be resolved" in str(first.messages[0])
    assert "the note" in str(then.messages[0])
