"""Ctrl-C at any line harms no other file, loses no entry, and leaves no lock behind.

Each operation runs again and again, and a `KeyboardInterrupt` is raised at each of its lines in
turn. The program catches it and goes on: it opens files of its own, which get the descriptors
that are free, appends, and closes the session. The usual run takes a third of the lines of
`OWNERS`, and a sample of all lines; `pytest -m soak` takes each line as often as it runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

import sessiontree
from sessiontree import ReadOnlyError, Session
from sessiontree.storage.fs import DISK, FileSystem
from tests.support.conversation import user
from tests.support.faultydisk import Settled
from tests.support.files import Record
from tests.support.interrupts import PACKAGE, Interrupt, Signal, Work
from tests.support.table import for_each

OWNERS: Final = tuple(
    os.path.join(PACKAGE, "storage", name) for name in ("fs.py", "lock.py", "log.py")
)
"""What has descriptors and locks."""
SAMPLE: Final = 4
LATER: Final = datetime.now(UTC) + timedelta(days=8)
"""When what was tried now is garbage."""
VICTIMS: Final = 12
PATIENCE: Final = 30.0
PRECIOUS: Final = b"PRECIOUS " * 40


class Quick(Settled):
    """A settled disk that syncs nothing: no test here loses power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass


class Program:
    """A program that uses one session, and files of its own.

    Attributes:
        path: the session file.
        session: the session that the program has open; None: there is none.
        is_exclusive: whether that session keeps its lock until it is closed.
        acknowledged: the uuids of the entries that are kept.
    """

    def __init__(self, folder: Path, fs: FileSystem = DISK) -> None:
        self.folder = folder
        self.path = folder / "s.jsonl"
        self.fs = fs
        self.session: Session | None = None
        self.is_exclusive = False
        self.acknowledged: list[str] = []

    def create(self) -> Session:
        return Session.create(self.path, cwd="/project", durability="os", fs=self.fs)

    def open(self, **named: Any) -> Session:
        return Session.open(self.path, durability="os", fs=self.fs, **named)

    def say(self, session: Session, words: str = "words") -> None:
        self.acknowledged.append(session.append_message(user(words)).uuid)

    def begin(self) -> Session:
        """Open the session that is interrupted later."""
        self.session = self.create()
        self.say(self.session)
        return self.session

    def go_on(self) -> None:
        """Make the next call after an interrupt."""
        if self.session is None:
            self.session = self.open() if self.path.exists() else self.create()
        try:
            self.say(self.session, "after")
        except ReadOnlyError:  # it was being closed
            self.session.close()
            self.session = self.open()
            self.is_exclusive = False
            self.say(self.session, "after")


Operation = Callable[[Program], Work]


def create(program: Program) -> Work:
    yield
    program.session = program.create()


def open_(program: Program) -> Work:
    program.begin().close()
    program.session = None
    yield
    program.session = program.open()


def open_exclusive(program: Program) -> Work:
    program.begin().close()
    program.session = None
    yield
    with program.open(exclusive=True) as session:
        program.say(session)


def read(program: Program) -> Work:
    program.begin()
    yield
    with program.open(readonly=True) as session:
        session.context()


def append(program: Program) -> Work:
    session = program.begin()
    yield
    program.say(session)


def append_behind_another(program: Program) -> Work:
    session = program.begin()
    with program.open() as other:
        program.say(other)
    yield
    program.say(session)


def append_after_a_rewrite(program: Program) -> Work:
    session = program.begin()
    spoil(program.path)
    with program.open() as other:
        other.repair()
    yield
    program.say(session)


def append_large(program: Program) -> Work:
    session = program.begin()
    yield
    program.say(session, "large " * 8000)


def label(program: Program) -> Work:
    session = program.begin()
    yield
    program.acknowledged.append(session.label(session.leaf.uuid, "here").uuid)


def batch(program: Program) -> Work:
    session = program.begin()
    yield
    made = []
    with session.batch():
        made = [session.append_message(user("batch")).uuid for _ in range(2)]
    program.acknowledged += made


def locked(program: Program) -> Work:
    session = program.begin()
    yield
    with session.locked():
        program.say(session)
        program.say(session)


def scratch(program: Program) -> Work:
    session = program.begin()
    yield
    with session.scratch() as trial:
        program.say(trial)


def keep(program: Program) -> Work:
    session = program.begin()
    with session.scratch() as trial:
        program.say(trial)
        yield
        program.acknowledged.append(trial.keep().uuid)


def close(program: Program) -> Work:
    session = program.begin()
    yield
    session.close()


def close_exclusive(program: Program) -> Work:
    program.begin().close()
    program.session = session = program.open(exclusive=True)
    program.is_exclusive = True
    yield
    session.close()


def drop(program: Program) -> Work:
    program.begin()
    yield
    program.session = None
    gc.collect()


def repair(program: Program) -> Work:
    session = program.begin()
    spoil(program.path)
    yield
    session.repair()


def collect(program: Program) -> Work:
    session = program.begin()
    with session.scratch() as trial:
        trial.append_message(user("garbage"))
    yield
    session.gc(now=LATER)


def copy(program: Program) -> Work:
    program.begin()
    yield
    sessiontree.copy(program.path, program.folder / "copy.jsonl")


def fork(program: Program) -> Work:
    session = program.begin()
    yield
    session.fork(program.folder / "fork.jsonl")


OPERATIONS: Final[list[Operation]] = [
    *(create, open_, open_exclusive, read),
    *(append, append_behind_another, append_after_a_rewrite, append_large, label),
    *(batch, locked, scratch, keep, close, close_exclusive, drop),
    *(repair, collect, copy, fork),
]


def spoil(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"type":"mess\n')


def check_free(path: Path) -> None:
    """Check that another program can lock a session without waiting."""
    with contextlib.suppress(FileNotFoundError), open(f"{path}.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def check_interrupted(
    operation: Operation, folder: Path, interrupt: Interrupt, fs: FileSystem
) -> Interrupt:
    """Interrupt an operation, go on, and check all files."""
    folder.mkdir()
    program = Program(folder, fs)
    work = operation(program)
    next(work)
    interrupt.run(work)
    work.close()
    del work
    with contextlib.ExitStack() as victims:
        opened = []
        for number in range(VICTIMS):
            victim = folder / f"victim-{number}"
            victim.write_bytes(PRECIOUS)
            opened.append(victims.enter_context(victim.open("r+b", buffering=0)))
        inodes = [os.fstat(file.fileno()).st_ino for file in opened]
        gc.collect()
        try:
            if isinstance(interrupt, Signal):
                in_another_thread(program.go_on)
            else:
                program.go_on()
            if not program.is_exclusive:
                check_free(program.path)
            assert program.session is not None
            program.session.close()
            program.session = None
            gc.collect()
            check_free(program.path)
        except BaseException as error:
            error.add_note(f"after an interrupt at {interrupt.place}")
            raise
        assert [os.fstat(file.fileno()).st_ino for file in opened] == inodes, interrupt.place
        for file in opened:
            assert Path(file.name).read_bytes() == PRECIOUS, interrupt.place
    lines = program.path.read_bytes().splitlines()
    found = [json.loads(line)["uuid"] for line in lines if line.endswith(b"}")]
    assert len(found) == len(set(found)), interrupt.place
    assert set(program.acknowledged) <= set(found), interrupt.place
    shutil.rmtree(folder)
    return interrupt


def in_another_thread(call: Callable[[], object]) -> None:
    """Make a call in another thread, which must not wait for this one."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "another thread waits for a lock that nobody holds"
    for error in failed:
        raise error


@pytest.fixture(autouse=True, scope="module")
def _collects_fast() -> None:
    """Let the collector look only at what these tests make, and not at what others left."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no lock that nobody gives back."""
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", 0.2)


@pytest.fixture(autouse=True)
def _interrupted_finalizers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let finalizers be interrupted, which Python can only report, but not fail."""
    failed: list[object] = []

    def note(unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            failed.append(unraisable.exc_value)

    monkeypatch.setattr(sys, "unraisablehook", note)
    yield
    assert not failed


@pytest.mark.slow
@for_each("operation", OPERATIONS)
def test_an_interrupt_harms_no_other_file_loses_no_entry_and_leaves_no_lock(
    operation: Operation, tmp_path: Path
) -> None:
    check_interrupted(operation, tmp_path / "first", Interrupt(-1), Quick())  # it imports modules
    moments = check_interrupted(operation, tmp_path / "whole", Interrupt(-1), Quick()).moments
    first = {line: at for at, line in reversed(list(enumerate(moments)))}
    chosen = {*sorted(at for (file, _), at in first.items() if file in OWNERS)[::9]}
    chosen.update(range(0, len(moments), len(moments) // SAMPLE + 1))
    for at in sorted(chosen):
        check_interrupted(operation, tmp_path / str(at), Interrupt(at), Quick())


@pytest.mark.slow
@for_each("operation", OPERATIONS)
def test_a_signal_leaves_no_lock_that_another_thread_waits_for(
    operation: Operation, tmp_path: Path
) -> None:
    check_interrupted(operation, tmp_path / "first", Signal(-1), Quick())
    moments = check_interrupted(operation, tmp_path / "whole", Signal(-1), Quick()).moments
    for at in range(0, len(moments), len(moments) // SAMPLE + 1):
        check_interrupted(operation, tmp_path / str(at), Signal(at), Quick())


@pytest.mark.soak
@for_each("kind", [Interrupt, Signal])
@for_each("settled", [True, False])
@for_each("operation", OPERATIONS)
def test_an_interrupt_at_any_moment_harms_nothing(
    operation: Operation,
    settled: bool,
    kind: type[Interrupt],
    tmp_path: Path,
    record_property: Record,
) -> None:
    at = 0
    while True:
        fs = Quick() if settled else DISK
        if not check_interrupted(operation, tmp_path / str(at), kind(at), fs).place:
            break
        at += 1
    assert at
    record_property("moments", at)
