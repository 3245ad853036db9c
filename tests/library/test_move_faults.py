"""A session moved on a disk that fails is whole in one place, or in both; never parted."""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiontree import Session, Store
from sessiontree.errors import SessionExistsError, SessionNotFoundError, SessionTreeError
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import session_files
from sessiontree.storage.sidecars import bring_sidecars, make_folders
from tests.support.faultydisk import KINDS, Fault, FaultyDisk
from tests.support.table import for_each

TEXT = "a text too large for a line " * 2000

Move = Callable[[Store, str], object]


def trash(store: Store, file: str) -> object:
    return store.trash(file)


def rename(store: Store, file: str) -> object:
    return store.move_project("/old", "/new")


def restore(store: Store, file: str) -> object:
    return store.restore(file)


def made(root: Path, move: Move) -> str:
    """A store with a session that has sidecars of each kind, where `move` finds it."""
    store = Store(root)
    with store.create(cwd="/old", id="one", durability="os") as session:
        session.append_message({"role": "user", "content": TEXT})
    file = str(session.file)
    Path(f"{file}.v1").write_text("the original")
    if move is rename:  # so that the sessions of both are put together one by one
        store.create(cwd="/new", id="other").close()
    return store.trash(file) if move is restore else file


def wholes(root: Path) -> Iterator[str]:
    """Where a session is read with its text, which is in its blob."""
    for top in (root, root / ".trash"):
        for file in session_files(str(top), print) if top.is_dir() else ():
            if "_one" in file:
                with Session.open(file, readonly=True) as session:
                    try:
                        (message,) = session.context().messages
                    except SessionTreeError:
                        continue
                    if message["content"] == TEXT:
                        yield file


def calls(tmp_path: Path, move: Move) -> Counter[str]:
    """How often a move makes each call of the seam."""
    file = made(tmp_path / "counted", move)
    disk = FaultyDisk()
    store = Store(tmp_path / "counted", fs=disk)
    disk.arm(None)
    move(store, file)
    return Counter(disk.counts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sessiontree.ContentLostWarning")  # the fault may hide a blob
@for_each("move", [trash, restore, rename])
@for_each("stays", [False, True])
def test_a_fault_at_any_call_leaves_the_session_whole_and_moving_again_ends_it(
    tmp_path: Path, move: Move, stays: bool
) -> None:
    root = tmp_path / "store"
    counts = calls(tmp_path, move)
    file = made(root, move)
    shutil.copytree(root, tmp_path / "before")
    calls_made = [(kind, nth) for kind in KINDS for nth in range(1, counts[kind] + 1)]
    for fault in (Fault(*call, errno.EIO, stays) for call in calls_made):
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "before", root)
        disk = FaultyDisk()
        disk.arm(fault)
        failed = False
        try:
            move(Store(root, fs=disk), file)
        except SessionTreeError:
            failed = True
        left = list(wholes(root))
        assert left, fault
        if os.path.exists(file):
            assert failed, fault
            assert fault.kind == "unlink" or left == [file], fault
            move(Store(root), file)
        (end,) = wholes(root)
        assert Path(f"{end}.v1").read_text() == "the original", fault


class Guarded(FaultyDisk):
    """A disk that notes whether another process could write a session while its names change."""

    def __init__(self, root: Path, *, links: bool) -> None:
        super().__init__()
        self._root = root
        self._links = links
        self.changed = 0
        self.free: list[str] = []

    def replace(self, source: str, target: str) -> None:
        self._look(source, target)
        super().replace(source, target)

    def link(self, source: str, target: str) -> None:
        if not self._links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        self._look(source, target)
        super().link(source, target)

    def _look(self, *names: str) -> None:
        if "_one" not in names[0]:
            return  # a folder is renamed at once
        self.changed += not names[0].endswith(".lock")
        for lock in self._root.rglob("*_one.jsonl.lock"):
            fd = DISK.open(str(lock), os.O_RDWR)
            if DISK.lock(fd):
                self.free.append(f"{lock.parent.name}/{lock.name} for {names}")
                DISK.unlock(fd)
            DISK.close(fd)


@for_each("links", [True, False])
@for_each("move", [trash, restore, rename])
def test_no_other_process_can_write_a_session_whose_names_change(
    tmp_path: Path, move: Move, links: bool
) -> None:
    disk = Guarded(tmp_path, links=links)
    file = made(tmp_path, move)
    move(Store(tmp_path, fs=disk), file)
    assert (disk.free, disk.changed > 2) == ([], True)


def test_no_other_process_can_write_a_session_that_gets_its_sidecars_back(tmp_path: Path) -> None:
    file = made(tmp_path, trash)
    parted = str(tmp_path / "parted_one.jsonl")
    for ending in (".blobs", ".v1"):
        os.rename(file + ending, parted + ending)
    disk = Guarded(tmp_path, links=True)
    bring_sidecars(disk, parted, file)
    assert (disk.free, disk.changed) == ([], 2)
    assert list(wholes(tmp_path)) == [file]


@for_each("move", [trash, rename])
def test_a_name_that_is_taken_midway_undoes_the_move(tmp_path: Path, move: Move) -> None:
    file = made(tmp_path, move)

    class Disk(FaultyDisk):
        def link(self, source: str, target: str) -> None:
            super().link(source, target)
            if target.endswith(".jsonl"):  # a writer that lost the session stores a blob there
                os.makedirs(f"{target}.blobs/in-the-way")

    with pytest.raises(SessionTreeError, match=r"\.blobs|[Nn]ot empty"):
        move(Store(tmp_path, fs=Disk()), file)
    assert list(wholes(tmp_path)) == [file]
    assert os.path.exists(f"{file}.v1")
    assert [str(found) for found in tmp_path.rglob("*_one.jsonl")] == [file]


def test_blobs_stored_after_a_move_do_not_stop_the_move_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    large = tmp_path / "large"
    large.write_text(TEXT)
    with store.create(cwd="/p", id="one") as session:
        store.trash("one")
        with pytest.raises(SessionNotFoundError):
            session.append_message({"role": "user", "content": TEXT})
        with pytest.raises(SessionNotFoundError):
            session.attach(large)
        assert not os.path.exists(f"{session.file}.blobs")
    assert store.restore("one") == session.file


def test_blobs_that_no_entry_names_do_not_stop_the_move_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = made(tmp_path, trash)
    thrown = store.trash(file)
    (own,) = os.listdir(f"{thrown}.blobs")
    os.mkdir(f"{file}.blobs")
    shutil.copy(f"{thrown}.blobs/{own}", f"{file}.blobs")
    Path(f"{file}.blobs/{'0' * 64}").write_bytes(b"stored as the file was moved away")
    assert store.restore(thrown) == file
    assert sorted(os.listdir(f"{file}.blobs")) == ["0" * 64, own]
    assert list(wholes(tmp_path)) == [file]


IN_THE_WAY: dict[str, Callable[[str, Path], tuple[str, bytes]]] = {
    "a file that is no blob": lambda file, blob: (f"{file}.blobs/notes", b"somebody's own"),
    "another original": lambda file, blob: (f"{file}.v1", b"another file"),
    "a damaged blob": lambda file, blob: (f"{file}.blobs/{blob.name}", b"x" * blob.stat().st_size),
}


@for_each("what", IN_THE_WAY)
def test_what_is_in_the_way_stops_the_move_and_stays(tmp_path: Path, what: str) -> None:
    store = Store(tmp_path)
    file = made(tmp_path, trash)
    thrown = store.trash(file)
    (blob,) = Path(f"{thrown}.blobs").iterdir()
    path, content = IN_THE_WAY[what](file, blob)
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_bytes(content)
    with pytest.raises(SessionExistsError, match=r"\.(blobs|v1) is there already"):
        store.restore(thrown)
    assert Path(path).read_bytes() == content
    assert not os.path.exists(f"{file}.lock")
    assert list(wholes(tmp_path)) == [thrown]


def test_a_file_in_the_place_of_a_folder_stops_the_making_of_folders(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"somebody's own")
    with pytest.raises(SessionExistsError, match="taken is there already"):
        make_folders(DISK, str(tmp_path / "taken"))
    assert (tmp_path / "taken").read_bytes() == b"somebody's own"
