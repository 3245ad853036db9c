"""Every call to the disk fails once, and once for good, in every operation.

After each fault: the error is one of the library's own, one line that says what
to do; what was acknowledged is in the file exactly once, in order; a session whose
write failed writes no more and syncs no more until it is opened again; nothing
half made is left; and the reopened session takes the next entry.

An interrupted call (EINTR) is repeated by Python itself (PEP 475), so one that
reaches the library is a failure like any other. A short write is none: the rest is
written. What a fault may pass over in silence is named in `SURVIVED`.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.core.entry import Entry
from sessiontree.errors import WriteFailedError
from tests.support.conversation import user
from tests.support.faultydisk import Fault, FaultyDisk, NoLinks, faults
from tests.support.files import VERSION_1, Record
from tests.support.files import uuids_at as _uuids
from tests.support.kept import check_kept, check_says
from tests.support.table import for_each

SURVIVED = {"close", "unlock", "unlink", "list"}
"""Calls that may fail without a word: what they end is synced or of no use by then. A
lock that cannot be let go of is let go of by closing; a name that cannot be removed is
that of a file written beside, which nothing refers to; and a folder is listed to find
such files."""

LATER = datetime.now(UTC) + timedelta(days=8)
"""When what was tried now is garbage."""

ERRORS = (errno.EIO, errno.ENOSPC, errno.EINTR)


class Run:
    """One operation on one disk, in a folder of its own.

    Attributes:
        before: the entries that could be read before anything failed.
        acknowledged: the entries that were said to be kept, in order.
        made: the files that were said to be made.
        garbage: entries of a trial, which a collection may take out.
        original: what a migration keeps beside the file.
    """

    def __init__(self, disk: FaultyDisk, folder: Path) -> None:
        self.disk = disk
        self.path = str(folder / "chat.jsonl")
        self.copy = str(folder / "copy.jsonl")
        self.folder = folder
        self.session: Session | None = None
        self.before: list[str] = []
        self.acknowledged: list[str] = []
        self.made: list[str] = []
        self.garbage: list[str] = []
        self.original = b""

    def open(self, *, readonly: bool = False) -> Session:
        self.session = Session.open(self.path, fs=self.disk, readonly=readonly)
        return self.session

    def wrote(self, *entries: Entry) -> None:
        self.acknowledged += [entry.uuid for entry in entries]


Operation = Callable[[Run], Iterator[None]]
"""What stands before its `yield` runs on a sound disk, what follows on one that fails."""


def create(run: Run) -> Iterator[None]:
    yield
    run.session = Session.create(run.copy, cwd="/p", fs=run.disk)
    run.made.append(run.copy)
    run.wrote()


def open_to_write(run: Run) -> Iterator[None]:
    yield
    run.open()


def open_to_read(run: Run) -> Iterator[None]:
    yield
    run.open(readonly=True)


def open_exclusive(run: Run) -> Iterator[None]:
    yield
    run.session = Session.open(run.path, exclusive=True, fs=run.disk)


def append(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    for text in ("one", "two", "three"):
        run.wrote(session.append_message(user(text)))


def append_behind_a_torn_end(run: Run) -> Iterator[None]:
    with open(run.path, "ab") as file:
        file.write(b'{"type":"message","uu')
    session = run.open()
    yield
    run.wrote(session.append_message(user("next")))


def batch(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    with session.batch():
        entries = [session.append_message(user(text * 400)) for text in ("a", "b")]
    run.wrote(*entries)


def append_to_a_replaced_file(run: Run) -> Iterator[None]:
    session = run.open()
    beside = Path(run.path + ".new")
    beside.write_bytes(Path(run.path).read_bytes())
    beside.replace(run.path)
    yield
    run.wrote(session.append_message(user("in the new file")))


def append_behind_another_writer(run: Run) -> Iterator[None]:
    session = run.open()
    with Session.open(run.path, durability="os") as other:
        run.wrote(other.append_message(user("from elsewhere")))
    yield
    run.wrote(session.append_message(user("and here")))


def batch_that_another_lane_precedes(run: Run) -> Iterator[None]:
    session = run.open()
    with session.lane("side") as side, ExitStack() as batch:
        batch.enter_context(session.batch())
        waiting = session.append_message(user("waits"))
        run.wrote(side.append_message(user("does not wait")))
        yield
        batch.close()
        run.wrote(waiting)


def collect_into_an_archive_that_exists(run: Run) -> Iterator[None]:
    """Where there is none, `test_gc_crash.py` has each call fail."""
    kept = b'{"type":"message","uuid":"archived before"}\n'
    archive = Path(f"{run.path}.archive-{LATER.date().isoformat()}")
    archive.write_bytes(kept)
    session = run.open()
    with session.scratch() as trial:
        run.garbage.append(trial.append_message(user("tried")).uuid)
    yield
    session.gc(now=LATER)
    assert archive.read_bytes().startswith(kept)


def label(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.wrote(session.label("@", "here"))


def branch_with_summary(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.wrote(session.branch("@~2", summary="tried", name="other"))


def pop(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.wrote(session.pop(summary="done"))


def compact(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.wrote(session.compact("in short", keep=1))


def migrate(run: Run) -> Iterator[None]:
    Path(run.path).write_bytes(VERSION_1)
    run.original = VERSION_1
    yield
    run.open()


def fork(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.made.append(session.fork(run.copy))


def export(run: Run) -> Iterator[None]:
    session = run.open()
    yield
    run.made.append(session.export_branch("@~1", run.copy))


def repair(run: Run) -> Iterator[None]:
    lines = Path(run.path).read_bytes().splitlines()
    lines[1:3] = [b"\0\0" + lines[1] + b"\r", b"", lines[2] + lines[3][:40]]
    Path(run.path).write_bytes(b"\n".join(lines))
    session = run.open()
    yield
    done = session.repair()
    assert done.evidence is not None
    run.made.append(done.evidence)
    run.wrote(session.append_message(user("mended")))


def verify(run: Run) -> Iterator[None]:
    session = run.open(readonly=True)
    yield
    session.verify()


def refresh(run: Run) -> Iterator[None]:
    session = run.open()
    with Session.open(run.path) as other:
        run.wrote(other.append_message(user("from elsewhere")))
    yield
    session.refresh()
    run.wrote(session.append_message(user("and here")))


def context(run: Run) -> Iterator[None]:
    yield
    assert run.open(readonly=True).context().messages


def whole_tree(run: Run) -> Iterator[None]:
    yield
    session = run.open(readonly=True)
    assert list(session.tree())
    assert session.branches()


def close(run: Run) -> Iterator[None]:
    session = run.open()
    run.wrote(session.append_message(user("last")))
    yield
    session.close()


OPERATIONS: tuple[Operation, ...] = (
    *(create, open_to_write, open_to_read, open_exclusive, append, append_behind_a_torn_end),
    *(batch, label, branch_with_summary, pop, compact, migrate, fork, export, repair),
    *(verify, refresh, context, whole_tree, close),
    *(append_behind_another_writer, append_to_a_replaced_file, batch_that_another_lane_precedes),
    collect_into_an_archive_that_exists,
)
MAKING: tuple[Operation, ...] = (create, migrate, fork, export, repair)
"""Operations that make files, by way of links where there are any."""

LONG: tuple[Operation, ...] = (migrate, repair, collect_into_an_archive_that_exists)


@pytest.fixture(scope="module")
def session_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("made") / "chat.jsonl"
    with Session.create(path, cwd="/p", durability="os") as session:
        session.append_message(user("first"))
        session.append_message({"role": "assistant", "content": "answer"})
        session.push("aside")
        session.append_message(user("second"))
        session.append_message({"role": "assistant", "content": "answer " * 20})
    return path.read_bytes()


def _start(operation: Operation, disk: FaultyDisk, folder: Path, content: bytes) -> Run:
    folder.mkdir(exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    run = Run(disk, folder)
    Path(run.path).write_bytes(content)
    return run


def _play(operation: Operation, run: Run, fault: Fault | None) -> SessionTreeError | None:
    """Run an operation to its end or its error; the disk is sound again afterwards."""
    steps = operation(run)
    next(steps)
    run.before = [uuid for uuid in _uuids(run.path) if uuid not in run.garbage]
    run.disk.arm(fault)
    try:
        next(steps, None)
    except SessionTreeError as error:
        return error
    finally:
        run.disk.heal()
    return None


def _check_told(error: SessionTreeError | None, fault: Fault, run: Run) -> None:
    if error is None:
        # What an exclusive writer leaves in the lock file is a courtesy; and whoever cannot look
        # at the folder looks at the files themselves.
        is_survived = fault.is_short or fault.kind in SURVIVED
        is_look = fault.kind == "stat" and run.disk.fired_for == str(run.folder)
        is_told = not is_survived and not is_look and not run.disk.fired_for.endswith(".lock")
        assert not is_told, "passed over in silence"
        return
    assert not fault.is_short, f"a short write was no reason to fail: {error}"
    check_says(str(error), run.folder.name)


def _check_writes_no_more(run: Run, fault: Fault) -> None:
    """Nothing more goes to a file whose write or sync failed; a failed sync is not tried again."""
    if fault.is_short or fault.kind not in ("write", "sync"):
        return
    same = run.disk.fired_for
    again = [call for call in run.disk.after if call in (("write", same), ("sync", same))]
    assert again == [], "written or synced again after a failure"


def _check_refuses(session: Session, path: str) -> None:
    before = Path(path).read_bytes()
    refused: list[Callable[[], object]] = [
        lambda: session.append_message(user("more")),
        lambda: session.label("@", "more"),
        lambda: session.branch("@~1"),
        lambda: session.compact("more", keep=0),
        lambda: session.repair(),
    ]
    for write in refused:
        with pytest.raises(WriteFailedError):
            write()
    with pytest.raises(WriteFailedError), session.batch():
        session.append_message(user("more"))
    assert session.context().messages is not None
    assert Path(path).read_bytes() == before


def _check_after(run: Run, fault: Fault) -> None:
    """What must hold once the disk is sound again."""
    found = _uuids(run.path)
    check_kept(found, run.before, run.acknowledged)
    for path in (run.path, *run.made, *([run.copy] if os.path.exists(run.copy) else [])):
        assert _uuids(path), f"{path} is not whole"
    with Session.open(run.path, fs=run.disk) as session:
        entry = session.append_message(user("afterwards"))
    assert _uuids(run.path) == [*found, entry.uuid]
    assert not run.original or Path(run.path + ".v1").read_bytes() == run.original
    left = [name for name in os.listdir(run.folder) if name.endswith(".tmp")]
    assert left == [] or fault.kind == "unlink", f"left {left}"


def _sweep(
    operation: Operation,
    folder: Path,
    content: bytes,
    make: Callable[[], FaultyDisk],
    *,
    all_ways: bool = False,
) -> Counter[str]:
    """Play an operation with each of its calls failing; how many failed, by kind."""
    run = _start(operation, make(), folder, content)
    assert _play(operation, run, None) is None
    counts = run.disk.counts
    if run.session is not None:
        run.session.close()
    injected: Counter[str] = Counter()
    # A full disk stays full, and an interruption passes.
    odd = {(errno.ENOSPC, False), (errno.EINTR, True)}
    for fault in faults(counts, ERRORS):
        if not all_ways and (fault.error, fault.stays) in odd:
            continue
        run = _start(operation, make(), folder, content)
        story = f"{operation.__name__}, {fault}"
        try:
            error = _play(operation, run, fault)
            assert run.disk.fired, "the fault did not come about"
            injected[fault.kind] += 1
            _check_told(error, fault, run)
            _check_writes_no_more(run, fault)
            if isinstance(error, WriteFailedError):
                assert run.session is not None
                _check_refuses(run.session, run.path)
            if run.session is not None:
                run.session.close()
            assert not run.disk.descriptors, f"left open: {run.disk.descriptors}"
            _check_after(run, fault)
        except (AssertionError, OSError, SessionTreeError) as wrong:
            raise AssertionError(f"{story}: {wrong!r}") from wrong
    return injected


@pytest.mark.parametrize(
    ("make", "operation"),
    [
        *((FaultyDisk, operation) for operation in OPERATIONS if operation not in LONG),
        *(pytest.param(FaultyDisk, operation, marks=pytest.mark.slow) for operation in LONG),
        *(pytest.param(NoLinks, operation, marks=pytest.mark.slow) for operation in MAKING),
    ],
    ids=lambda part: part.__name__,
)
def test_no_failing_call_costs_an_acknowledged_entry_or_leaves_half_a_file(
    make: Callable[[], FaultyDisk],
    operation: Operation,
    tmp_path: Path,
    session_bytes: bytes,
    record_property: Record,
) -> None:
    injected = _sweep(operation, tmp_path / "run", session_bytes, make)
    record_property("faults", sum(injected.values()))
    assert injected


@pytest.mark.soak
@for_each("make", [FaultyDisk, NoLinks])
@for_each("operation", OPERATIONS)
def test_no_failing_call_costs_an_acknowledged_entry_whatever_the_error(
    operation: Operation, make: Callable[[], FaultyDisk], tmp_path: Path, session_bytes: bytes
) -> None:
    assert _sweep(operation, tmp_path / "run", session_bytes, make, all_ways=True)


class WritesInSilence(FaultyDisk):
    """Says that a block was written when the system refused it."""

    def write(self, fd: int, block: bytes) -> int:
        try:
            return super().write(fd, block)
        except OSError:
            return len(block)


class TakesShortForWhole(FaultyDisk):
    """Says that a block was written whole when it was not."""

    def write(self, fd: int, block: bytes) -> int:
        super().write(fd, block)
        return len(block)


class SyncsAgain(FaultyDisk):
    """Tries a failed sync again, which the system then reports as done."""

    def sync(self, fd: int) -> None:
        try:
            super().sync(fd)
        except OSError:
            super().sync(fd)


class ForgetsDescriptors(FaultyDisk):
    """Leaves files open when the next call fails."""

    def close(self, fd: int) -> None:
        if not self.fired:
            super().close(fd)


@for_each(
    "make, operation",
    [
        (WritesInSilence, append),
        (WritesInSilence, create),
        (TakesShortForWhole, append),
        (TakesShortForWhole, fork),
        (SyncsAgain, append),
        (SyncsAgain, create),
        (ForgetsDescriptors, open_to_read),
    ],
)
def test_a_disk_that_hides_its_faults_is_caught(
    make: Callable[[], FaultyDisk], operation: Operation, tmp_path: Path, session_bytes: bytes
) -> None:
    with pytest.raises(AssertionError, match=operation.__name__):
        _sweep(operation, tmp_path / "run", session_bytes, make)


def test_a_batch_that_was_not_written_leaves_the_session_where_it_stood(tmp_path: Path) -> None:
    """The leaf was the batch's last entry, which no file held: a path to it led nowhere."""
    disk = FaultyDisk()
    with Session.create(tmp_path / "chat.jsonl", fs=disk) as session:
        kept = session.append_message(user("kept"))
        assert len(session.context().messages) == 1
        disk.arm(Fault("write", 1, errno.ENOSPC, stays=True))
        with pytest.raises(WriteFailedError), session.batch():
            session.append_message(user("lost"))
        assert session.leaf == kept
        assert [message["content"] for message in session.context().messages] == ["kept"]


def test_a_session_closed_inside_a_batch_that_fails_is_closed_all_the_same(tmp_path: Path) -> None:
    disk = FaultyDisk()
    session = Session.create(tmp_path / "chat.jsonl", fs=disk)
    with pytest.raises(WriteFailedError), session.batch():  # noqa: PT012
        session.append_message(user("lost"))
        disk.arm(Fault("write", 1, errno.EIO, stays=True))
        session.close()
    assert not disk.descriptors
