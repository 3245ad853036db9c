"""A copy takes over only blobs that have the bytes of their names, and says which it lacks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from sessiontree import BlobMissingError, ContentLostWarning, Session, StorageError
from sessiontree.storage import blobs as storage
from sessiontree.storage.fs import Disk

CONTENT = b"a screenshot" * 100


def flip(path: Path) -> None:
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def test_a_folder_of_blobs_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    class Full(Disk):
        def make_folder(self, path: str) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    with Session.create(tmp_path / "chat.jsonl") as session:
        session.attach(BytesIO(CONTENT), "text/plain")
    with (
        Session.open(tmp_path / "chat.jsonl", readonly=True, fs=Full()) as session,
        pytest.raises(StorageError, match=r"make \S*/copy\.jsonl\.blobs/\w{64}"),
    ):
        session.fork(tmp_path / "copy.jsonl")


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("copy", [Session.fork, Session.export_branch])
def test_a_copy_does_not_take_over_a_damaged_blob(
    tmp_path: Path,
    copy: Callable[..., object],
    links: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not links:
        monkeypatch.setattr(storage, "link", lambda *given: False)
    file, made = tmp_path / "chat.jsonl", tmp_path / "copy.jsonl"
    with Session.create(file) as session:
        whole = session.attach(BytesIO(CONTENT), "text/plain")
        broken = session.attach(BytesIO(CONTENT + b"!"), "text/plain")
        (sha256,) = (name for name in os.listdir(f"{file}.blobs") if name in broken.line.decode())
        flip(Path(f"{file}.blobs") / sha256)
        arguments = [made] if copy is Session.fork else [whole, made]
        with pytest.warns(ContentLostWarning, match=f"lacks a blob.*damaged.*{sha256}"):
            copy(session, *arguments)
    names = os.listdir(f"{made}.blobs")
    assert len(names) == 1
    assert names[0] in whole.line.decode()
    with Session.open(made, readonly=True) as copied:
        assert [each.kind for each in copied.verify()] == ["blob"]
        with pytest.raises(BlobMissingError, match="is missing"):
            copied.blobs.read(sha256, len(CONTENT) + 1)


def test_a_copy_into_a_linked_folder_of_blobs_is_refused(tmp_path: Path) -> None:
    file, made, elsewhere = (tmp_path / name for name in ("chat.jsonl", "copy.jsonl", "elsewhere"))
    elsewhere.mkdir()
    Path(f"{made}.blobs").symlink_to(elsewhere)
    with Session.create(file) as session:
        session.attach(BytesIO(CONTENT), "text/plain")
        with pytest.raises(StorageError, match="is a link"):
            session.fork(made)
    assert os.listdir(elsewhere) == []
    assert not made.exists()
