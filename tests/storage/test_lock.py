"""One writer at a time: across sessions, threads and processes, however they end."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from sessiontree import Session, SessionBusyError, SessionNotFoundError, StorageError, UsageError
from sessiontree.storage.fs import Disk
from sessiontree.storage.lock import WriterLock
from tests.support.children import in_threads, read_line, running, together
from tests.support.faultydisk import Fault, FaultyDisk, Settled
from tests.support.files import HELLO
from tests.support.paused import in_fresh_process
from tests.support.table import for_each

OWNER = """
import sys
from sessiontree import Session
session = Session.open(sys.argv[1], exclusive=True)
session.append_message({"role": "user", "content": "mine"})
print("held", flush=True)
sys.stdin.readline()
"""


can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd="/project").close()
    return path


@pytest.fixture
def unlocked(path: Path) -> Path:
    """Where the lock file of the session will be."""
    lock_file = Path(f"{path}.lock")
    lock_file.unlink(missing_ok=True)
    return lock_file


@pytest.fixture
def lock(path: Path) -> Iterator[WriterLock]:
    """The lock of the session, as another program has it."""
    with closing(WriterLock(Disk(), f"{path}.lock")) as lock:
        yield lock


@pytest.mark.slow
def test_an_owner_is_named_to_writers_keeps_out_no_reader_and_ends_when_killed(path: Path) -> None:
    with running(OWNER, path) as owner, Session.open(path) as session:
        assert read_line(owner) == "held"
        with pytest.raises(SessionBusyError) as caught:
            session.append_message(HELLO)
        said = str(caught.value)
        assert str(path) in said
        assert f"process {owner.pid} on {socket.gethostname()} since 20" in said
        assert "close that session or end that process; reading is possible" in said
        assert "\n" not in said
        assert caught.value.file == str(path)
        with pytest.raises(SessionBusyError, match=str(owner.pid)):
            Session.open(path, exclusive=True)
        with Session.open(path, readonly=True) as reader:
            assert [message["content"] for message in reader.context().messages] == ["mine"]
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        session.append_message(HELLO)
        session.refresh()
    assert path.read_bytes().count(b"\n") == 3


def test_a_closed_owner_leaves_no_name_behind(path: Path) -> None:
    lock_file = Path(f"{path}.lock")
    with Session.open(path, exclusive=True) as session:
        assert str(os.getpid()) in lock_file.read_text()
        session.append_message(HELLO)
        assert str(os.getpid()) in lock_file.read_text()
    assert lock_file.read_bytes() == b""
    with Session.open(path) as other:
        other.append_message(HELLO)


def test_a_writer_whose_lock_file_was_removed_makes_it_anew(path: Path) -> None:
    with Session.open(path) as one, Session.open(path) as other:
        one.append_message(HELLO)
        os.unlink(f"{path}.lock")
        other.append_message(HELLO)
        one.append_message(HELLO)
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.slow
def test_an_owner_whose_lock_file_was_removed_takes_the_new_one(path: Path) -> None:
    with Session.open(path, exclusive=True) as owner:
        os.unlink(f"{path}.lock")
        owner.append_message(HELLO)
        with Session.open(path) as other, pytest.raises(SessionBusyError, match=str(os.getpid())):
            other.append_message(HELLO)


@pytest.mark.slow
@pytest.mark.parametrize("disk", [Disk, Settled])
def test_an_owner_without_its_lock_file_gives_way_to_another(path: Path, disk: type[Disk]) -> None:
    with Session.open(path, exclusive=True, fs=disk()) as owner:
        for _ in range(2):
            owner.append_message(HELLO)
        os.unlink(f"{path}.lock")
        with Session.open(path, exclusive=True):
            for _ in range(2):
                with pytest.raises(SessionBusyError, match=str(os.getpid())):
                    owner.append_message(HELLO)
        owner.append_message(HELLO)
        with Session.open(path) as other, pytest.raises(SessionBusyError, match=str(os.getpid())):
            other.append_message(HELLO)
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.slow
@can_fork
def test_a_forked_child_does_not_write_under_its_parents_lock(path: Path) -> None:
    with Session.open(path, exclusive=True) as session:

        def child() -> None:
            with pytest.raises(SessionBusyError):
                session.append_message(HELLO)
            session.close()

        together(child)
        assert str(os.getpid()) in Path(f"{path}.lock").read_text()
        with Session.open(path) as other, pytest.raises(SessionBusyError):
            other.append_message(HELLO)
        session.append_message(HELLO)
    assert path.read_bytes().count(b"\n") == 2


@can_fork
def test_a_forked_child_and_its_parent_exclude_each_other(path: Path, lock: WriterLock) -> None:
    with Session.open(path) as session:
        session.append_message(HELLO)
        with lock.held():

            def child() -> None:
                with pytest.raises(TimeoutError), lock_given_up():
                    session.append_message(HELLO)

            together(child)
        together(lambda: session.append_message(HELLO))
        session.append_message(HELLO)
    assert path.read_bytes().count(b"\n") == 4


@can_fork
def test_a_child_forked_under_the_lock_does_not_let_go_of_it(path: Path, lock: WriterLock) -> None:
    with ExitStack() as block:
        block.enter_context(lock.held())
        together(block.close)  # as where a child goes on with what its parent was in
        with Session.open(path) as session, pytest.raises(TimeoutError), lock_given_up():
            session.append_message(HELLO)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_lock_taken_twice_is_let_go_with_the_first(
    path: Path, lock: WriterLock, exclusive: bool
) -> None:
    with lock.held():
        with lock.held():
            pass
        with Session.open(path) as session, pytest.raises(TimeoutError), lock_given_up():
            session.append_message(HELLO)
    with Session.open(path, exclusive=exclusive) as session:
        session.append_message(HELLO)


def test_a_lock_that_was_kept_and_closed_is_let_go_after_its_next_use(
    path: Path, lock: WriterLock
) -> None:
    lock.keep()
    lock.close()
    with lock.held():
        pass
    with Session.open(path) as session, lock_given_up():
        session.append_message(HELLO)


@contextmanager
def lock_given_up() -> Iterator[None]:
    """Waits for a lock end in TimeoutError instead of going on for a minute."""
    with pytest.MonkeyPatch.context() as patch:

        def sleep(_: float) -> None:
            raise TimeoutError

        patch.setattr("sessiontree.storage.lock.time.sleep", sleep)
        yield


def test_a_writer_that_gives_no_name_is_waited_for_and_then_named_as_hanging(
    path: Path, lock: WriterLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", 0.0)
    hangs = pytest.raises(SessionBusyError, match=r"look for a process that hangs")
    with lock.held(), Session.open(path) as session, hangs as caught:
        session.append_message(HELLO)
    assert caught.value.file == str(path)


def test_a_lock_that_cannot_be_let_go_does_not_turn_a_kept_entry_into_an_error(path: Path) -> None:
    disk = FaultyDisk()
    disk.arm(Fault("unlock", 1, errno.EACCES, stays=True))
    with Session.open(path, fs=disk) as session, Session.open(path) as other:
        session.append_message(HELLO)
        other.append_message(HELLO)
        assert disk.fired
    assert path.read_bytes().count(b"\n") == 3


@for_each("disk", [Disk, Settled])
def test_a_folder_that_vanished_is_named(tmp_path: Path, disk: Callable[[], Disk]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "s.jsonl"
    with Session.create(path, fs=disk()) as session:
        session.append_message(HELLO)
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(SessionNotFoundError, match=r"s\.jsonl vanished .*nothing was written"):
            session.append_message(HELLO)
        assert not folder.exists()
        (tmp_path / "elsewhere").rename(folder)
        session.append_message(HELLO)
    assert path.read_bytes().count(b"\n") == 3


def test_a_batch_waits_for_the_batch_of_another_thread(path: Path) -> None:
    opened, go_on = threading.Event(), threading.Event()
    with Session.open(path) as session:

        def first() -> None:
            with session.batch():
                session.append_message(HELLO)
                opened.set()
                go_on.wait()

        def second() -> None:
            opened.wait()
            threading.Thread(target=go_on.set).start()
            with session.batch():
                session.append_message(HELLO)

        assert in_threads(first, second) == []
        with session.batch(), pytest.raises(UsageError, match="append inside it"):
            session.batch().__enter__()
    assert path.read_bytes().count(b"\n") == 3


def dropped(path: Path) -> weakref.ref[Session]:
    session = Session.open(path, exclusive=True)
    session.append_message(HELLO)
    session.append("custom", customType="c")
    assert session.context().messages
    assert session.branches()
    with session.scratch() as trial:
        trial.label("@", "here")
    return weakref.ref(session)


@pytest.mark.slow
def test_a_session_that_was_dropped_lets_go_of_its_lock_and_its_files(path: Path) -> None:
    """Its entries, which the collector does not see, held it: it stayed for ever."""
    gc.collect()
    before = open_files()
    session = dropped(path)
    gc.collect()
    assert session() is None
    assert open_files() == before
    assert Path(f"{path}.lock").read_bytes() == b""
    with Session.open(path) as other:
        other.append_message(HELLO)


@pytest.mark.slow
def test_an_entry_outlives_its_session_and_reaches_its_blobs(tmp_path: Path) -> None:
    session = Session.create(tmp_path / "b.jsonl", spill_over=10)
    session.append_message({"role": "user", "content": "x" * 100})
    *_, entry = session.entries()
    seen = weakref.ref(session)
    del session
    gc.collect()
    assert seen() is None
    assert entry["message"]["content"] == "x" * 100


@pytest.mark.slow
def test_a_forked_child_that_drops_a_session_lets_go_of_nothing(path: Path) -> None:
    held = [Session.open(path, exclusive=True)]

    def drop() -> None:
        held.clear()
        gc.collect()
        assert Path(f"{path}.lock").read_bytes()

    together(drop)
    with pytest.raises(SessionBusyError), Session.open(path) as other:
        other.append_message(HELLO)
    held[0].close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


ACTS: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append_message(HELLO),
    "label": lambda session: session.label(session.header, "x"),
    "repair": Session.repair,
    "gc": Session.gc,
    "exclusive": lambda session: None,
}


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("act", ACTS)
def test_a_lock_file_that_is_a_link_to_another_file_changes_nothing_of_it(
    path: Path, unlocked: Path, link: Callable[[Path, Path], None], act: str
) -> None:
    victim = path.with_name("precious.txt")
    victim.write_text("precious")
    link(victim, unlocked)
    refused = pytest.raises(StorageError, match=r"cannot lock .* remove it")
    with refused, Session.open(path, exclusive=act == "exclusive") as session:
        ACTS[act](session)
    assert victim.read_text() == "precious"


def test_a_lock_file_that_is_a_link_to_nothing_makes_no_file(path: Path, unlocked: Path) -> None:
    outside = path.with_name("outside")
    os.symlink(outside, unlocked)
    with Session.open(path) as session, pytest.raises(StorageError, match="cannot lock"):
        session.append_message(HELLO)
    assert not outside.exists()


def test_a_pipe_in_place_of_a_lock_file_is_refused_at_once(path: Path, unlocked: Path) -> None:
    os.mkfifo(unlocked)
    with Session.open(path) as session, pytest.raises(StorageError, match="it is not a file"):
        session.append_message(HELLO)


class Vanishing(Disk):
    """A disk on which another program removes the lock file before it is locked, once."""

    path = ""

    def lock(self, fd: int) -> bool:
        if self.path:
            os.unlink(self.path)
            self.path = ""
        return super().lock(fd)


def test_a_lock_file_that_vanishes_before_it_is_locked_is_made_again(path: Path) -> None:
    disk = Vanishing()
    with closing(WriterLock(disk, f"{path}.lock")) as lock:
        disk.path = f"{path}.lock"
        with lock.held(), Session.open(path) as other:
            assert os.path.exists(f"{path}.lock")
            with lock_given_up(), pytest.raises(TimeoutError):
                other.append_message(HELLO)


def test_a_writer_that_was_dropped_leaves_the_name_of_an_owner(path: Path) -> None:
    sessions = [Session.open(path)]
    sessions[0].append_message(HELLO)
    with Session.open(path, exclusive=True):
        sessions.clear()
        gc.collect()
        assert f'"pid":{os.getpid()}' in Path(f"{path}.lock").read_text()


LOCKING = """
import os
from sessiontree.storage import fs

before = fs._lock

def act():
    fd = os.open(FILE, os.O_RDWR | os.O_CREAT)
    fs.DISK.lock(fd)
    fs.DISK.unlock(fd)
    os.close(fd)
    return "unlocked"
"""


def test_a_thread_that_locks_can_unlock_while_another_loads_the_locks(tmp_path: Path) -> None:
    imports = f"FILE = {str(tmp_path / 'lock')!r}\n{LOCKING}"
    is_loaded = "frame.f_globals['_lock'] is not before"
    assert in_fresh_process(imports, "act()", "fs._lock", is_loaded)[:3] == ["unlocked"] * 3
