"""The sidecar: what was put comes back as it was, or there is a typed error."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.handle import Blob
from sessiontree.errors import (
    BlobDamagedError,
    BlobMissingError,
    BlobUnreadableError,
    StorageError,
    UsageError,
)
from sessiontree.storage.blobs import BLOCK, Blobs
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.memory import MemoryFiles
from tests.support.faultydisk import Fault, FaultyDisk, NoLinks
from tests.support.soak import amount
from tests.support.table import for_each

CONTENT = b"a screenshot" * 1000
BLOB = Blob(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
LARGE = os.urandom(BLOCK * 2 + 5)


def blobs_in(folder: Path, name: str = "chat.jsonl", fs: FileSystem = DISK) -> Blobs:
    return Blobs(fs, str(folder / name))


def path_of(blobs: Blobs, blob: Blob = BLOB) -> Path:
    return Path(blobs.folder) / blob.sha256


def files_of(blobs: Blobs) -> list[str]:
    return sorted(os.listdir(blobs.folder))


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    blobs = blobs_in(tmp_path)
    blobs.put(CONTENT)
    return blobs


@for_each("make", [lambda: DISK, MemoryFiles])
def test_a_blob_is_read_as_it_was_put(tmp_path: Path, make: Callable[[], FileSystem]) -> None:
    blobs = blobs_in(tmp_path, fs=make())
    for content in (b"", b"x", CONTENT, LARGE):
        blob = blobs.put(content)
        assert blob == Blob(hashlib.sha256(content).hexdigest(), len(content))
        assert blobs.put(iter([content[:7], b"", content[7:]])) == blob
        assert blobs.read(*blob) == content
        assert b"".join(blobs.blocks(*blob)) == content
    assert sorted(blob.size for blob in blobs.blobs()) == [0, 1, len(CONTENT), len(LARGE)]
    assert list(blobs.verify()) == []
    assert blobs.unfinished() == []


@given(st.lists(st.binary(max_size=50), max_size=8))
@settings(deadline=None, max_examples=amount(60))
def test_however_content_is_cut_it_is_the_same_blob(blocks: list[bytes]) -> None:
    blobs = Blobs(MemoryFiles(), "/model/chat.jsonl")
    whole = b"".join(blocks)
    assert blobs.put(blocks) == blobs.put(whole)
    assert blobs.read(*blobs.put(whole)) == whole
    assert len(list(blobs.blobs())) == 1


def test_the_folder_and_the_blobs_are_their_owners_alone(blobs: Blobs) -> None:
    assert os.stat(blobs.folder).st_mode & 0o777 == 0o700
    assert path_of(blobs).stat().st_mode & 0o777 == 0o600
    assert blobs.folder.endswith("chat.jsonl.blobs")


def test_the_folder_of_blobs_is_beside_the_real_file(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.jsonl"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "link.jsonl").symlink_to(real)
    assert blobs_in(tmp_path, "link.jsonl").put(CONTENT) == BLOB
    assert Path(f"{real}.blobs", BLOB.sha256).exists()


def test_reading_blobs_makes_no_folder(tmp_path: Path) -> None:
    blobs = blobs_in(tmp_path)
    assert [*blobs.blobs(), *blobs.unfinished(), *blobs.verify()] == []
    with pytest.raises(BlobMissingError, match="backup"):
        blobs.read(*BLOB)
    assert list(tmp_path.iterdir()) == []


def noted(disk: FaultyDisk) -> list[str]:
    """The calls that write, sync or read; a synced folder by its name."""
    return [
        f"sync {os.path.basename(path)}" if kind == "sync_folder" else kind
        for kind, path in disk.calls
        if kind in ("write", "sync", "sync_folder", "read")
    ]


@pytest.fixture
def disk() -> FaultyDisk:
    """A disk that keeps the calls."""
    disk = FaultyDisk()
    disk.arm()
    return disk


def test_content_put_again_costs_a_look(tmp_path: Path, disk: FaultyDisk) -> None:
    blobs = blobs_in(tmp_path, fs=disk)
    blobs.put(CONTENT)
    assert noted(disk) == [f"sync {tmp_path.name}", "write", "sync", "sync chat.jsonl.blobs"]
    disk.calls.clear()
    assert blobs.put(CONTENT) == BLOB
    assert noted(disk) == []


def test_a_blob_that_another_program_stored_is_compared_and_synced_before_it_counts(
    tmp_path: Path, blobs: Blobs, disk: FaultyDisk
) -> None:
    """Whoever stored it may have died before its name, or the folder's, was on the medium."""
    blobs_in(tmp_path, fs=disk).put(CONTENT)
    assert noted(disk) == ["read", "sync", f"sync {tmp_path.name}", "sync chat.jsonl.blobs"]


def test_a_blob_is_on_the_medium_before_it_is_confirmed(
    tmp_path: Path, blobs: Blobs, disk: FaultyDisk
) -> None:
    found = blobs_in(tmp_path, fs=disk)
    found.confirm(BLOB)
    assert noted(disk) == ["read", "sync", f"sync {tmp_path.name}", "sync chat.jsonl.blobs"]
    disk.calls.clear()
    found.confirm(BLOB)
    assert noted(disk) == []


def test_a_blob_that_is_linked_or_copied_is_on_the_medium_with_its_name(
    tmp_path: Path, blobs: Blobs, disk: FaultyDisk
) -> None:
    assert (
        blobs_in(tmp_path, "linked.jsonl", disk).link_from(blobs_in(tmp_path, fs=disk), [BLOB])
        == []
    )
    folders = [f"sync {tmp_path.name}", "sync linked.jsonl.blobs"]
    assert noted(disk) == ["read", folders[0], "sync", folders[1]]
    disk.calls.clear()
    assert blobs_in(tmp_path, "copied.jsonl", disk).link_from(blobs, [BLOB]) == []
    assert noted(disk) == [f"sync {tmp_path.name}", "write", "sync", "sync copied.jsonl.blobs"]


def test_without_fsync_nothing_is_synced(tmp_path: Path, disk: FaultyDisk) -> None:
    Blobs(disk, str(tmp_path / "chat.jsonl"), "os").put(CONTENT)
    assert noted(disk) == ["write"]


def test_a_blob_removed_meanwhile_is_put_again(tmp_path: Path, blobs: Blobs) -> None:
    assert blobs.has(BLOB)
    path_of(blobs).unlink()
    assert not blobs.has(BLOB)
    assert blobs.put(CONTENT) == BLOB
    assert blobs.has(BLOB)
    shutil.rmtree(blobs.folder)
    assert blobs.put(CONTENT) == BLOB
    assert blobs.read(*BLOB) == CONTENT


def test_a_file_that_replaced_a_blob_does_not_count(blobs: Blobs) -> None:
    beside = Path(blobs.folder, "other")
    for place, content in ((path_of(blobs), CONTENT[:-1]), (beside, CONTENT[:-1] + b"?")):
        place.write_bytes(content)
        place.rename(path_of(blobs))
        assert not blobs.has(BLOB)
        assert blobs.put(CONTENT) == BLOB
        assert blobs.read(*BLOB) == CONTENT


def test_a_session_does_not_have_what_it_did_not_put(tmp_path: Path, blobs: Blobs) -> None:
    assert not blobs_in(tmp_path).has(BLOB)
    assert not blobs.has(Blob(BLOB.sha256, BLOB.size + 1))


Damage = Callable[[Path], object]


def _flipped(path: Path) -> None:
    path.write_bytes(CONTENT[:-1] + b"?")


def _linked(path: Path) -> None:
    """Even to the very bytes: who can change the link can have others read."""
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the whole path is longer than a socket's name may be
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _instead(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


REWRITTEN: dict[str, Damage] = {
    "cut off": lambda path: path.write_bytes(CONTENT[:-1]),
    "lengthened": lambda path: path.write_bytes(CONTENT + b"x"),
    "flipped": _flipped,
    "emptied": lambda path: path.write_bytes(b""),
}
OCCUPIED: dict[str, Damage] = {
    "linked": _linked,
    "dangling": _instead(lambda path: path.symlink_to("nowhere")),
    "folder": _instead(Path.mkdir),
    "pipe": _instead(os.mkfifo),
    "socket": _instead(_socket),
}


@pytest.mark.parametrize(
    "damage", [*REWRITTEN.values(), *OCCUPIED.values()], ids=[*REWRITTEN, *OCCUPIED]
)
def test_content_that_is_not_the_blob_is_never_given(blobs: Blobs, damage: Damage) -> None:
    damage(path_of(blobs))
    for read in (blobs.read, lambda *blob: b"".join(blobs.blocks(*blob))):
        with pytest.raises(BlobDamagedError) as raised:
            read(*BLOB)
        assert str(path_of(blobs)) in str(raised.value)
        assert raised.value.file == blobs.file
        assert "; " in str(raised.value)
        assert "\n" not in str(raised.value)
    for needed in ([BLOB], []):
        assert [type(error) for error in blobs.verify(needed)] == [BlobDamagedError]


@pytest.mark.parametrize("damage", REWRITTEN.values(), ids=REWRITTEN)
@pytest.mark.parametrize("how", [bytes, lambda content: [content[:9], content[9:]]])
def test_damage_in_the_place_of_a_blob_is_kept_aside_when_it_is_stored_again(
    tmp_path: Path, blobs: Blobs, damage: Damage, how: Callable[[bytes], bytes | list[bytes]]
) -> None:
    damage(path_of(blobs))
    damaged = path_of(blobs).read_bytes()
    again = blobs_in(tmp_path)
    assert again.put(how(CONTENT)) == BLOB
    assert again.read(*BLOB) == CONTENT
    sound, aside = files_of(again)
    assert sound == BLOB.sha256
    assert aside.startswith(f"{BLOB.sha256}.damaged-")
    assert (path_of(again).parent / aside).read_bytes() == damaged
    assert list(again.blobs()) == [BLOB]
    assert list(again.verify([BLOB])) == []


@pytest.mark.parametrize("damage", OCCUPIED.values(), ids=OCCUPIED)
def test_a_folder_or_link_with_the_name_of_a_blob_is_left_there(
    tmp_path: Path, blobs: Blobs, damage: Damage
) -> None:
    damage(path_of(blobs))
    before = files_of(blobs)
    for content in (CONTENT, [CONTENT]):
        with pytest.raises(BlobDamagedError):
            blobs_in(tmp_path).put(content)
        assert files_of(blobs) == before


@pytest.mark.parametrize(
    ("kind", "error"), [("open", errno.EACCES), ("stat", errno.EIO), ("read", errno.EIO)]
)
def test_a_blob_that_cannot_be_read_is_an_error_of_its_own(
    tmp_path: Path, blobs: Blobs, kind: str, error: int
) -> None:
    disk = FaultyDisk()
    disk.arm(Fault(kind, 1, error, stays=True))
    failing = blobs_in(tmp_path, fs=disk)
    for read in (failing.read, lambda *blob: list(failing.blocks(*blob))):
        with pytest.raises(BlobUnreadableError, match=os.strerror(error)):
            read(*BLOB)
    with pytest.raises((BlobUnreadableError, StorageError)):
        failing.put(CONTENT)
    assert [type(found) for found in failing.verify([BLOB])] == [BlobUnreadableError]


def test_wrong_content_is_found_before_its_last_block_is_given(tmp_path: Path) -> None:
    blobs = blobs_in(tmp_path)
    blob = blobs.put(LARGE)
    for place in (0, BLOCK, len(LARGE) - 1):
        damaged = bytearray(LARGE)
        damaged[place] ^= 1
        path_of(blobs, blob).write_bytes(damaged)
        given: list[bytes] = []
        with pytest.raises(BlobDamagedError):
            given.extend(blobs.blocks(*blob))
        assert sum(map(len, given)) < len(LARGE) - 4


def test_a_file_that_is_cut_off_while_it_is_read_is_found(tmp_path: Path) -> None:
    blobs = blobs_in(tmp_path)
    blob = blobs.put(LARGE)
    blocks = blobs.blocks(*blob)
    assert next(blocks) == LARGE[:BLOCK]
    path_of(blobs, blob).write_bytes(LARGE[: BLOCK * 2])
    with pytest.raises(BlobDamagedError):
        list(blocks)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "", "x" * 64, BLOB.sha256.upper(), BLOB.sha256 + "\n", "a/b.tmp"]
)
def test_a_name_that_is_no_hash_leads_nowhere(blobs: Blobs, name: str) -> None:
    with pytest.raises(BlobMissingError, match="SHA-256"):
        blobs.read(name, 5)
    with pytest.raises(BlobMissingError):
        blobs.remove(name)


@pytest.mark.slow
def test_a_large_attachment_never_sits_in_memory(tmp_path: Path) -> None:
    blobs = blobs_in(tmp_path)
    tracemalloc.start()
    try:
        blob = blobs.put(bytes([n]) * BLOCK for n in range(48))
        assert sum(len(block) for block in blobs.blocks(*blob)) == blob.size == 48 * BLOCK
        assert blobs_in(tmp_path).put(blobs.blocks(*blob)) == blob
        assert list(blobs.verify()) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * BLOCK


def test_a_stream_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[bytes]:
        yield CONTENT
        raise ValueError("the stream broke off")

    blobs = blobs_in(tmp_path)
    with pytest.raises(ValueError, match="broke off"):
        blobs.put(breaking())
    assert files_of(blobs) == []


@for_each("content", ["text", bytearray(b"xy"), [b"x", "y"], [bytearray(b"x")]])
def test_only_bytes_are_stored(tmp_path: Path, content: list[bytes]) -> None:
    blobs = blobs_in(tmp_path)
    with pytest.raises(UsageError, match="bytes"):
        blobs.put(content)
    assert files_of(blobs) == []


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl.blobs").touch()
    blobs = blobs_in(tmp_path)
    for content in (CONTENT, [CONTENT]):
        with pytest.raises(StorageError, match="move it away"):
            blobs.put(content)
    with pytest.raises(BlobMissingError):
        blobs.read(*BLOB)
    with pytest.raises(StorageError, match="move it away"):
        list(blobs.blobs())


def test_a_fork_takes_no_space_and_outlives_the_original(tmp_path: Path, blobs: Blobs) -> None:
    fork = blobs_in(tmp_path, "fork.jsonl")
    assert fork.link_from(blobs, [BLOB, BLOB]) == []
    assert path_of(fork).samefile(path_of(blobs))
    assert fork.has(BLOB)
    blobs.remove(BLOB.sha256)
    assert fork.read(*BLOB) == CONTENT
    assert fork.link_from(blobs, []) == []


@for_each("error", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP])
def test_where_there_are_no_links_a_fork_has_copies(tmp_path: Path, error: int) -> None:
    disk = NoLinks(error)
    blobs, fork = blobs_in(tmp_path, fs=disk), blobs_in(tmp_path, "fork.jsonl", disk)
    blob = blobs.put(LARGE)
    assert fork.link_from(blobs, [blob]) == []
    assert not path_of(fork, blob).samefile(path_of(blobs, blob))
    assert fork.read(*blob) == LARGE
    assert files_of(fork) == [blob.sha256]


def test_without_links_damage_is_kept_aside_as_a_copy(tmp_path: Path, blobs: Blobs) -> None:
    blobs.put(CONTENT)
    _flipped(path_of(blobs))
    assert blobs_in(tmp_path, fs=NoLinks()).put(CONTENT) == BLOB
    sound, aside = files_of(blobs)
    assert sound == BLOB.sha256
    assert path_of(blobs).read_bytes() == CONTENT
    assert Path(blobs.folder, aside).read_bytes() == CONTENT[:-1] + b"?"


def test_from_memory_to_the_disk_and_back(tmp_path: Path) -> None:
    memory, disk = blobs_in(tmp_path, fs=MemoryFiles()), blobs_in(tmp_path)
    memory.put(CONTENT)
    assert disk.link_from(memory, [BLOB]) == []
    again = Blobs(MemoryFiles(), "(in memory)")
    assert again.link_from(disk, [BLOB]) == []
    assert disk.read(*BLOB) == again.read(*BLOB) == CONTENT


def test_a_fork_names_the_lost_blobs_and_takes_the_rest(tmp_path: Path, blobs: Blobs) -> None:
    other = blobs.put(b"another")
    path_of(blobs).write_bytes(CONTENT[:-1])
    missing = Blob("0" * 64, 5)
    fork = blobs_in(tmp_path, "fork.jsonl")
    lost = fork.link_from(blobs, [BLOB, missing, other])
    assert [type(error) for error in lost] == [BlobDamagedError, BlobMissingError]
    assert files_of(fork) == [other.sha256]


def test_damage_in_a_fork_is_repaired_from_the_original(tmp_path: Path, blobs: Blobs) -> None:
    fork = blobs_in(tmp_path, "fork.jsonl")
    fork.put(CONTENT)
    _flipped(path_of(fork))
    assert blobs_in(tmp_path, "fork.jsonl").link_from(blobs, [BLOB]) == []
    assert fork.read(*BLOB) == CONTENT
    assert len(files_of(fork)) == 2


def test_a_link_in_the_place_of_a_blob_is_not_linked_on(tmp_path: Path, blobs: Blobs) -> None:
    _linked(path_of(blobs))
    fork = blobs_in(tmp_path, "fork.jsonl")
    assert [type(error) for error in fork.link_from(blobs, [BLOB])] == [BlobDamagedError]


def test_verify_finds_what_is_needed_and_what_is_not(tmp_path: Path, blobs: Blobs) -> None:
    unneeded = blobs.put(b"unneeded")
    path_of(blobs, unneeded).write_bytes(b"unneede?")
    found = list(blobs.verify([BLOB, Blob("0" * 64, 5), Blob(BLOB.sha256, 4)]))
    kinds = sorted(type(error).__name__ for error in found)
    assert kinds == ["BlobDamagedError", "BlobDamagedError", "BlobMissingError"]


def test_only_blobs_are_listed(tmp_path: Path, blobs: Blobs) -> None:
    for name in ("notes", "1-2.tmp", BLOB.sha256 + ".damaged-1"):
        Path(blobs.folder, name).touch()
    Path(blobs.folder, "0" * 64).mkdir()
    Path(blobs.folder, "1" * 64).symlink_to("nowhere")
    assert list(blobs.blobs()) == [BLOB]
    assert blobs.unfinished() == ["1-2.tmp"]
    assert blobs.aside() == [BLOB.sha256 + ".damaged-1"]
    found = blobs.look("1-2.tmp")
    assert found is not None
    assert abs(found.modified - os.stat(Path(blobs.folder, "1-2.tmp")).st_mtime) < 1
    assert blobs.look("gone.tmp") is None


def test_after_a_removal_it_is_gone(blobs: Blobs) -> None:
    Path(blobs.folder, "1-2.tmp").touch()
    for name in (BLOB.sha256, "1-2.tmp") * 2:
        blobs.remove(name)
    assert not blobs.has(BLOB)
    assert files_of(blobs) == []
    assert list(blobs.blobs()) == []
    with pytest.raises(BlobMissingError):
        blobs.read(*BLOB)


@for_each(
    "put, cause",
    [
        (os.mkdir, "a folder is in its place"),
        (os.mkfifo, "a pipe or a device is in its place"),
        (lambda path: Path(path).write_bytes(b"x"), f"it was cut off: 1 of {BLOB.size:,} bytes"),
        (
            lambda path: Path(path).write_bytes(b"x" * 20_000),
            f"it had something added: 20,000 of {BLOB.size:,} bytes",
        ),
    ],
)
def test_what_stands_in_the_place_of_a_blob_is_named(
    tmp_path: Path, put: Callable[[str], object], cause: str
) -> None:
    blobs = blobs_in(tmp_path)
    blobs.put(CONTENT)
    path = path_of(blobs)
    path.unlink()
    put(str(path))
    with pytest.raises(BlobDamagedError, match=cause):
        blobs.read(*BLOB)
