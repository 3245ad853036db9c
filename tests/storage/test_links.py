"""A session from somebody else may bring links: nothing behind them is written or removed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest

from sessiontree import Session, SessionBusyError, SessionExistsError, StorageError, Store
from sessiontree.cli import main
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import DISK
from sessiontree.storage.lock import WriterLock
from sessiontree.storage.log import FileLog
from sessiontree.storage.sidecars import move_session
from tests.support.conversation import user
from tests.support.table import for_each

LATER = datetime.now(UTC) + timedelta(days=30)
LONG = "a screenshot, " * 4000


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """The blobs of a session; nothing in the other session names them."""
    file = tmp_path / "victim" / "chat.jsonl"
    file.parent.mkdir()
    with Session.create(file, spill_over=1000) as session:
        session.append_message(user(LONG))
    return Path(f"{file}.blobs")


@pytest.fixture
def evil(tmp_path: Path, victim: Path) -> Path:
    """A session whose folder of blobs is a link to the victim's."""
    file = tmp_path / "evil.jsonl"
    Session.create(file).close()
    Path(f"{file}.blobs").symlink_to(victim)
    return file


WRITES: dict[str, Callable[[Session], object]] = {
    "spill": lambda session: session.append_message(user(LONG + "!")),
    "attach": lambda session: session.attach(BytesIO(b"bytes"), "image/png"),
    "gc": lambda session: session.gc(now=LATER),
    "a dry run of gc": lambda session: session.gc(now=LATER, dry_run=True),
}


@pytest.mark.parametrize("act", WRITES)
def test_no_blob_is_written_or_removed_through_a_link(evil: Path, victim: Path, act: str) -> None:
    before = contents(victim)
    with (
        Session.open(evil, spill_over=1000) as session,
        pytest.raises(StorageError, match=r"evil\.jsonl\.blobs is a link.*remove the link"),
    ):
        WRITES[act](session)
    assert contents(victim) == before


def test_each_change_to_a_linked_folder_of_blobs_is_refused(evil: Path, victim: Path) -> None:
    before = contents(victim)
    sha256 = next(iter(before))
    blobs, own = Blobs(DISK, str(evil)), Blobs(DISK, str(victim.parent / "other.jsonl"))
    blob = own.put(b"content")
    for act in (
        lambda: blobs.put(b"x"),
        lambda: blobs.put(iter([b"x"])),
        lambda: blobs.remove(sha256),
        lambda: blobs.link_from(own, [blob]),
    ):
        with pytest.raises(StorageError, match="is a link"):
            act()
    assert contents(victim) == before


def test_gc_on_the_command_line_says_that_the_folder_is_a_link(
    evil: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(victim)
    with pytest.raises(SystemExit) as ended:
        main(["gc", str(evil)])
    assert ended.value.code == 1
    assert "is a link" in capsys.readouterr().err
    assert contents(victim) == before


def test_gc_leaves_what_is_not_a_file_of_its_own_under_a_blob_s_name(tmp_path: Path) -> None:
    file, outside = tmp_path / "chat.jsonl", tmp_path / "outside"
    outside.write_bytes(b"outside")
    with Session.create(file) as session:
        session.attach(BytesIO(b"bytes"), "image/png")
        folder = Path(f"{file}.blobs")
        (folder / ("a" * 64)).symlink_to(outside)
        (folder / ("b" * 64)).mkdir()
        os.mkfifo(folder / ("c" * 64))
        assert session.gc(now=LATER).blobs == []
    assert sorted(path.name[0] for path in folder.iterdir() if len(set(path.name)) == 1) == [*"abc"]


@for_each("leads", [True, False])
def test_gc_writes_no_archive_through_a_link(tmp_path: Path, leads: bool) -> None:
    file, outside = tmp_path / "chat.jsonl", tmp_path / "outside"
    with Session.create(file) as session:
        with session.scratch() as trial:
            trial.append_message(user("tried"))
        if leads:
            outside.write_text("precious\n")
        Path(f"{file}.archive-{LATER.date()}").symlink_to(outside)
        before = file.read_bytes()
        with pytest.raises(StorageError, match=r"archive-.* is a link"):
            session.gc(now=LATER)
        assert file.read_bytes() == before
    assert outside.read_text() == "precious\n" if leads else not outside.exists()


def test_gc_removes_and_reads_no_old_archive_that_is_a_link(tmp_path: Path) -> None:
    file, outside = tmp_path / "chat.jsonl", tmp_path / "outside"
    outside.write_text("precious\n")
    links = [Path(f"{file}.archive-2020-01-0{day}") for day in (1, 2, 3)]
    with Session.create(file) as session:
        Blobs(DISK, str(file)).put(b"content")
        links[0].symlink_to(outside)
        links[1].symlink_to(tmp_path / "nowhere")
        links[2].symlink_to("/dev/zero")
        assert session.gc(now=LATER).archives == []
    assert all(link.is_symlink() for link in links)


def test_the_file_of_version_1_is_kept_under_a_name_that_is_no_link(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    header = {"type": "session", "id": "s", "timestamp": "2025-11-20T09:00:00.000Z", "cwd": "/p"}
    file.write_text(json.dumps(header) + "\n")
    kept = Path(f"{file}.v1")
    before = file.read_bytes()
    for target in (file, tmp_path / "nowhere"):
        kept.symlink_to(target)
        with (
            pytest.raises(SessionExistsError, match=r"\.v1 is a link"),
            Session.open(file) as session,
        ):
            session.append_message(user("more"))
        assert file.read_bytes() == before
        assert not (tmp_path / "nowhere").exists()
        kept.unlink()


def test_a_link_beside_a_session_moves_as_a_link(tmp_path: Path) -> None:
    from sessiontree.storage.sidecars import move_session

    file, outside, folder = tmp_path / "chat.jsonl", tmp_path / "outside", tmp_path / "to"
    Session.create(file).close()
    outside.write_text("precious")
    links = {"chat.jsonl.note": outside, "chat.jsonl.lost": tmp_path / "nowhere"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    move_session(DISK, str(file), str(folder))
    assert {name: Path(os.readlink(folder / name)) for name in links} == links
    assert outside.read_text() == "precious"


def test_a_blob_is_readable_through_a_linked_folder(evil: Path, victim: Path) -> None:
    sha256, content = next(iter(contents(victim).items()))
    with Session.open(evil, readonly=True) as session:
        assert session.blobs.read(sha256, len(content)) == content


@for_each("leads", [True, False])
def test_a_log_reads_and_writes_no_part_through_a_link(tmp_path: Path, leads: bool) -> None:
    file, outside = tmp_path / "chat.jsonl", tmp_path / "outside"
    file.write_bytes(b"{}\n")
    if leads:
        outside.write_text("precious")
    link = Path(f"{file}.part")
    link.symlink_to(outside)
    log = FileLog(DISK, str(file))
    for use in (lambda: log.parts.write(".part", iter([b"x"])), lambda: [*log.parts.read(".part")]):
        with pytest.raises(SessionExistsError, match=r"\.part is a link"):
            use()
    if leads:
        assert log.parts.size(".part") == -1
    log.parts.remove(".part")
    log.close()
    assert (link.is_symlink(), outside.exists()) == (False, leads)


def test_a_link_to_a_session_is_not_moved_to_the_trash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.create(cwd="/p") as session:
        session.append_message(user("kept"))
    link = tmp_path / "link.jsonl"
    link.symlink_to(str(session.file))
    with pytest.raises(StorageError, match="is a link; move the file that it leads to"):
        store.trash(str(link))
    assert link.is_symlink()
    assert Path(str(session.file)).exists()


def test_a_disk_that_reads_less_than_asked_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pread = tmp_path / "file", os.pread
    file.write_bytes(b"0123456789")
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    fd = os.open(file, os.O_RDONLY)
    found = [DISK.read(fd, size, at) for size, at in ((3, 0), (8, 1), (20, 2), (4, 9), (4, 10))]
    os.close(fd)
    assert found == [b"012", b"12345678", b"23456789", b"9", b""]


def test_a_session_is_not_moved_below_a_lock_that_another_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", 0)
    file, there = tmp_path / "s.jsonl", tmp_path / "there"
    with Session.create(file) as session:
        session.append_message(user("kept"))
    there.mkdir()
    with closing(WriterLock(DISK, str(there / "s.jsonl.lock"))) as lock, lock.held():
        with pytest.raises(SessionBusyError):
            move_session(DISK, str(file), str(there))
        assert contents(there).keys() == {"s.jsonl.lock"}
    assert move_session(DISK, str(file), str(there)) == str(there / "s.jsonl")
