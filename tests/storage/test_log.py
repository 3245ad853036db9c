"""What is acknowledged is in the file, what is in the file stays, and nothing is half made."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sessiontree import (
    FileReplacedError,
    NotASessionError,
    ReadOnlyError,
    Session,
    SessionExistsError,
    SessionNotFoundError,
    StorageError,
    WriteFailedError,
)
from sessiontree.core.entry import Entry
from sessiontree.storage.fs import Disk, Stat

HELLO = {"role": "user", "content": "hello"}
VERSION_1 = (
    b'{"type":"session","id":"one","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/project"}\n'
    b'{"type":"message","message":{"role":"user","content":"first"}}\n'
    b'{"type":"message","message":{"role":"assistant","content":"second"}}\n'
)


class Call(NamedTuple):
    """One call of the seam."""

    name: str
    path: str
    size: int = 0


class Recording(Disk):
    """The disk, and what was asked of it; the call numbered `fail_at` fails, and if wanted all on.

    Attributes:
        calls: the calls that change something, in order.
    """

    def __init__(
        self,
        fail_at: int = -1,
        code: int = errno.EIO,
        *,
        lasting: bool = False,
        short: bool = False,
    ) -> None:
        self.calls: list[Call] = []
        self.fail_at = fail_at
        self.code = code
        self.lasting = lasting
        self.short = short
        self._paths: dict[int, str] = {}

    def _note(self, name: str, path: str, size: int = 0) -> None:
        at = len(self.calls)
        self.calls.append(Call(name, path, size))
        if self.fail_at >= 0 and (at == self.fail_at or (self.lasting and at > self.fail_at)):
            raise OSError(self.code, os.strerror(self.code), path)

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._note("make", path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, block: bytes) -> int:
        self._note("write", self._paths[fd], len(block))
        return super().write(fd, block[:1] if self.short else block)

    def sync(self, fd: int) -> None:
        self._note("sync", self._paths[fd])
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self._note("sync_folder", path)
        super().sync_folder(path)

    def replace(self, source: str, target: str) -> None:
        self._note("replace", target)
        super().replace(source, target)

    def link(self, source: str, target: str) -> None:
        self._note("link", target)
        super().link(source, target)

    def unlink(self, path: str) -> None:
        self._note("unlink", path)
        super().unlink(path)

    def on(self, path: Path) -> list[str]:
        """The names of the calls on one file."""
        return [call.name for call in self.calls if call.path == str(path)]


class WithoutLinks(Disk):
    """A disk on which a file has one name only."""

    def link(self, source: str, target: str) -> None:
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), target)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd="/project") as session:
        session.append_message(HELLO)
    return path


def uuids(path: Path) -> list[str]:
    with Session.open(path, readonly=True) as session:
        return [entry.uuid for entry in session.entries()]


def names_in(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir() if found.suffix != ".lock")


@pytest.mark.parametrize(("durability", "calls"), [("fsync", ["write", "sync"]), ("os", ["write"])])
def test_an_append_is_one_write_and_the_sync_that_was_asked_for(
    path: Path, durability: str, calls: list[str]
) -> None:
    recording = Recording()
    with Session.open(path, durability=durability, fs=recording) as session:  # type: ignore[arg-type]
        session.append_message(HELLO)
        assert recording.on(path) == calls
        session.label("@", "here")
        assert recording.on(path) == calls * 2


class Looking(Disk):
    """The disk, and how often a file was looked at."""

    def __init__(self) -> None:
        self.looks: list[str] = []

    def stat(self, file: int | str) -> Stat:
        self.looks.append(Path(file).name if isinstance(file, str) else "an open file")
        return super().stat(file)


@pytest.mark.parametrize("exclusive", [False, True])
def test_an_append_looks_once_at_the_file_and_once_at_its_lock(path: Path, exclusive: bool) -> None:
    disk = Looking()
    with Session.open(path, exclusive=exclusive, fs=disk) as session:
        session.append_message(HELLO)
        disk.looks.clear()
        session.append_message(HELLO)
        assert disk.looks == [f"{path.name}.lock", path.name]


class Watching:
    """A hook, with which an entry is written the long way."""

    def after_append(self, session: Session, entry: Entry) -> None:
        pass


@pytest.mark.parametrize("metadata", [None, {"by": "me"}])
@pytest.mark.parametrize("lane", ["main", "side"])
def test_an_entry_is_written_alike_with_hooks_in_a_batch_and_plainly(
    path: Path, lane: str, metadata: dict[str, str] | None
) -> None:
    def append(session: Session) -> Entry:
        return session.append_message(HELLO, metadata=metadata)

    with Session.open(path, lane=lane) as session:
        plain = append(session)
        with session.batch():
            batched = append(session)
    with Session.open(path, lane=lane, hooks=[Watching()]) as session:
        hooked = append(session)
        with Session.open(path, readonly=True, lane=lane) as reader:
            stored = [reader.entry(entry.uuid) for entry in (plain, batched, hooked)]
    own = ("uuid", "parentUuid", "timestamp", "crc")
    kept = [[(k, None if k in own else v) for k, v in entry.body.items()] for entry in stored]
    assert kept[0] == kept[1] == kept[2]
    assert [entry.line for entry in stored] == [entry.line for entry in (plain, batched, hooked)]
    assert [entry.offset for entry in stored] == [e.offset for e in (plain, batched, hooked)]
    assert [stored[1].parent_uuid, stored[2].parent_uuid] == [plain.uuid, batched.uuid]


@pytest.mark.parametrize(("durability", "calls"), [("fsync", ["write", "sync"]), ("os", ["write"])])
def test_a_batch_is_one_write_and_one_sync(path: Path, durability: str, calls: list[str]) -> None:
    recording = Recording()
    with Session.open(path, durability=durability, fs=recording) as session:  # type: ignore[arg-type]
        with session.batch():
            entries = [session.append_message(HELLO) for _ in range(5)]
            assert recording.on(path) == []
        assert recording.on(path) == calls
        with session.batch():
            pass
        assert recording.on(path) == calls
    assert uuids(path)[-5:] == [entry.uuid for entry in entries]


def test_a_move_that_changes_nothing_writes_nothing(path: Path) -> None:
    recording = Recording()
    with Session.open(path, fs=recording) as session:
        session.switch("@")
        session.path()
        session.context()
    assert recording.calls == []


def test_a_torn_line_never_costs_the_next_entry(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"type":"message","uuid":"torn","par')
    before = path.read_bytes()
    with Session.open(path) as session:
        entry = session.append_message(HELLO)
        assert session.entry(entry.uuid) == entry
    assert path.read_bytes() == before + b"\n" + entry.line + b"\n"
    assert uuids(path)[-1] == entry.uuid


def test_a_last_line_without_a_newline_is_the_leaf_and_gets_its_newline_with_the_next(
    path: Path,
) -> None:
    before = path.read_bytes()[:-1]
    path.write_bytes(before)
    with Session.open(path) as session:
        leaf = session.leaf
        assert leaf.type == "message"
        entry = session.append_message(HELLO)
        assert entry.parent_uuid == leaf.uuid
        assert session.path()[-2:] == [leaf, entry]
        assert session.damage == []
    assert path.read_bytes() == before + b"\n" + entry.line + b"\n"


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_a_file_cut_anywhere_in_its_last_line_goes_on(path: Path, cut: int) -> None:
    with Session.open(path) as session:
        last = session.append_message(HELLO).line
    whole = path.read_bytes()
    path.write_bytes(whole[: -min(cut, len(last))])
    with Session.open(path) as session:
        entry = session.append_message(HELLO)
    assert path.read_bytes().startswith(whole[: -min(cut, len(last))])
    assert uuids(path)[-1] == entry.uuid


def test_short_writes_are_gone_on_with(path: Path) -> None:
    recording = Recording(short=True)
    with Session.open(path, fs=recording) as session:
        entry = session.append_message(HELLO)
    written = entry.line + b"\n"
    assert path.read_bytes().endswith(b"\n" + written)
    assert recording.on(path) == ["write"] * len(written) + ["sync"]


def test_a_new_file_is_whole_over_short_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Session.create(path, fs=Recording(short=True)) as session:
        assert path.read_bytes() == session.header.line + b"\n"


class WritesNothing(Disk):
    """A disk that takes no byte and does not say why."""

    def write(self, fd: int, block: bytes) -> int:
        return 0


def test_a_write_that_takes_nothing_is_a_failed_write(path: Path) -> None:
    with (
        Session.open(path, fs=WritesNothing()) as session,
        pytest.raises(WriteFailedError, match="the system wrote nothing"),
    ):
        session.append_message(HELLO)


@pytest.mark.parametrize("failing", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_write_or_sync_nothing_more_is_written_until_reopened(
    path: Path, failing: str, code: int
) -> None:
    recording = Recording(code=code)
    with Session.open(path, fs=recording) as session:
        before = path.read_bytes()
        leaf = session.leaf
        recording.fail_at = 1 + ["write", "sync"].index(failing)  # 0 makes the lock file
        with pytest.raises(WriteFailedError) as caught:
            session.append_message(HELLO)
        said = str(caught.value)
        assert str(path) in said
        assert os.strerror(code) in said
        assert "open the session again" in said
        assert "\n" not in said
        assert session.leaf == leaf

        recording.fail_at = -1
        after = path.read_bytes()
        assert after.startswith(before)
        writes: list[Callable[[], Entry]] = [
            lambda: session.append_message(HELLO),
            lambda: session.label("@", "name"),
            lambda: session.branch(session.header),
        ]
        for write in writes:
            with pytest.raises(WriteFailedError):
                write()
        with pytest.raises(WriteFailedError), session.batch():
            session.append_message(HELLO)
        assert path.read_bytes() == after
        assert len(session.path()) == 2  # what was read can still be read
    with Session.open(path) as session:
        entry = session.append_message(HELLO)
        assert session.path()[-1] == entry
    assert path.read_bytes().startswith(after)


class TearingWrite(Disk):
    """A disk that takes half a block and then has no space."""

    def __init__(self) -> None:
        self.is_full = False

    def write(self, fd: int, block: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.is_full = True
        return super().write(fd, block[: len(block) // 2])


def test_a_write_cut_short_by_a_full_disk_does_not_cost_other_writers(path: Path) -> None:
    with Session.open(path) as other, Session.open(path, fs=TearingWrite()) as session:
        with pytest.raises(WriteFailedError, match="No space left"):
            session.append_message(HELLO)
        entry = other.append_message(HELLO)
        assert other.path()[-1] == entry
        assert [found.kind for found in other.damage] == ["torn"]
    assert uuids(path)[-1] == entry.uuid


def test_an_entry_that_another_program_left_without_a_newline_keeps_its_place(
    path: Path,
) -> None:
    with Session.open(path) as session:
        theirs = session.leaf.line.replace(session.leaf.uuid.encode(), b"theirs")
        theirs = theirs.replace(session.header.uuid.encode(), session.leaf.uuid.encode())
        with path.open("ab") as file:
            file.write(theirs)
        assert session.label(session.leaf, "here").parent_uuid == "theirs"
    with Session.open(path, readonly=True) as session:
        assert session.context().messages == [HELLO, HELLO]


def test_a_failed_batch_may_keep_its_first_part_and_says_so(path: Path) -> None:
    with Session.open(path, fs=TearingWrite()) as session:
        batch = session.batch()
        batch.__enter__()
        first = session.append_message(HELLO)
        session.append_message(HELLO)
        session.append_message({"role": "user", "content": "x" * 10})
        with pytest.raises(WriteFailedError, match="open the session again to see"):
            batch.__exit__(None, None, None)
    assert uuids(path)[2:] == [first.uuid]


def replace_with(path: Path, content: bytes) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(content)
    os.replace(other, path)


def test_a_file_replaced_by_one_with_the_last_entry_is_gone_on_with(path: Path) -> None:
    with Session.open(path) as writer, Session.open(path, readonly=True) as reader:
        leaf = writer.leaf
        replace_with(path, path.read_bytes().replace(b"/project", b"/elsewhere"))
        entry = writer.append_message(HELLO)
        assert entry.parent_uuid == leaf.uuid
        assert writer.header["cwd"] == "/elsewhere"
        reader.refresh()
        assert reader.leaf == entry
        assert reader.header["cwd"] == "/elsewhere"
    assert uuids(path)[-2:] == [leaf.uuid, entry.uuid]


@pytest.fixture
def stranger(tmp_path: Path) -> bytes:
    """Another session's file."""
    with Session.create(tmp_path / "stranger.jsonl") as session:
        session.append_message(HELLO)
    return (tmp_path / "stranger.jsonl").read_bytes()


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_file_replaced_by_one_without_the_last_entry_is_never_written(
    path: Path, stranger: bytes, exclusive: bool
) -> None:
    with Session.open(path, exclusive=exclusive) as session:
        seen = session.path()
        replace_with(path, stranger)
        for _ in range(2):  # the refusal must not wear off
            with pytest.raises(FileReplacedError) as caught:
                session.append_message(HELLO)
            said = str(caught.value)
            assert str(path) in said
            assert session.leaf.uuid in said
            assert "open it again" in said
            with pytest.raises(FileReplacedError):
                session.refresh()
        assert session.path() == seen
        assert session.context().messages == [HELLO]
    assert path.read_bytes() == stranger


def test_a_reader_of_a_replaced_file_keeps_what_it_read(path: Path, stranger: bytes) -> None:
    with Session.open(path, readonly=True) as session:
        seen = session.path()
        replace_with(path, stranger)
        for _ in range(2):
            with pytest.raises(FileReplacedError):
                session.refresh()
        assert session.path() == seen
        assert [entry.uuid for entry in session.entries()] == [entry.uuid for entry in seen]


@pytest.mark.parametrize("content", [b"", b"not a session\n", b"\0" * 100])
def test_a_file_replaced_by_no_session_is_never_written(path: Path, content: bytes) -> None:
    with Session.open(path) as session:
        replace_with(path, content)
        for _ in range(2):
            with pytest.raises(NotASessionError):
                session.append_message(HELLO)
    assert path.read_bytes() == content


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_file_that_was_cut_is_noticed(path: Path, exclusive: bool) -> None:
    with Session.open(path, exclusive=exclusive) as session:
        entry = session.append_message(HELLO)
        cut = path.read_bytes()[: -len(entry.line) - 1]
        path.write_bytes(cut)
        for _ in range(2):
            with pytest.raises(FileReplacedError):
                session.append_message(HELLO)
    assert path.read_bytes() == cut


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_file_that_vanished_is_an_error_and_not_made_anew(path: Path, exclusive: bool) -> None:
    with Session.open(path, exclusive=exclusive) as session:
        path.rename(path.with_suffix(".away"))
        for act in (lambda: session.append_message(HELLO), session.refresh):
            with pytest.raises(SessionNotFoundError) as caught:
                act()
            said = str(caught.value)
            assert f"{path} vanished" in said
            assert "nothing was written" in said
            assert "export" in said
        assert not path.exists()
        assert session.context().messages == [HELLO]

        copy = path.with_name("copy.jsonl")
        session.export_branch(session.header, copy, with_path=True)
        assert uuids(copy)[1:] == [session.leaf.uuid]

        path.with_suffix(".away").rename(path)
        entry = session.append_message(HELLO)
    assert uuids(path)[-1] == entry.uuid


def test_what_others_wrote_is_seen_and_not_moved_to(path: Path) -> None:
    with (
        Session.open(path) as one,
        Session.open(path) as other,
        Session.open(path, readonly=True) as reader,
    ):
        leaf = one.leaf
        theirs = other.append_message(HELLO)
        one.refresh()
        assert one.leaf == leaf
        assert one.entry(theirs.uuid) == theirs
        mine = one.append_message(HELLO)
        assert mine.parent_uuid == leaf.uuid
        reader.refresh()
        assert reader.leaf == mine
        assert [found.uuid for found in reader.children(leaf.uuid)] == [theirs.uuid, mine.uuid]


def test_an_append_that_others_preceded_lands_behind_theirs(path: Path) -> None:
    with Session.open(path) as one, Session.open(path) as other:
        theirs = [other.append_message(HELLO) for _ in range(3)]
        mine = one.append_message(HELLO)
        assert one.entry(mine.uuid).line == mine.line
        assert one.path() == [*one.path()[:2], mine]
        assert [one.entry(found.uuid) for found in theirs] == theirs


def test_what_another_process_wrote_is_seen(path: Path) -> None:
    append = (
        "import sys; from sessiontree import Session; "
        "print(Session.open(sys.argv[1]).append_message({'role':'user','content':'x'}).uuid)"
    )
    with Session.open(path, readonly=True) as reader:
        done = subprocess.run(
            [sys.executable, "-c", append, str(path)], capture_output=True, text=True, check=True
        )
        assert len(reader.path()) == 2
        reader.refresh()
        assert reader.leaf.uuid == done.stdout.strip()


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with Session.create(tmp_path / "s.jsonl", exclusive=True) as session:
            session.append_message(HELLO)
            session.fork(tmp_path / "fork.jsonl")
        for found in tmp_path.iterdir():
            assert found.stat().st_mode & 0o777 == 0o600, found.name
    finally:
        os.umask(mask)


def test_create_never_takes_another_files_place(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(SessionExistsError) as caught:
        Session.create(path)
    assert (
        str(caught.value) == f"{path} is there already and was left as it is; choose another name"
    )
    assert path.read_bytes() == before
    assert names_in(path.parent) == ["s.jsonl"]


@pytest.mark.parametrize("disk", [Disk, WithoutLinks])
def test_export_and_fork_never_take_another_files_place(path: Path, disk: type[Disk]) -> None:
    taken = path.with_name("taken.jsonl")
    taken.write_bytes(b"mine")
    with Session.open(path, fs=disk()) as session:
        writes: list[Callable[[], str]] = [
            lambda: session.fork(taken),
            lambda: session.export_branch("@", taken),
        ]
        for write in writes:
            with pytest.raises(SessionExistsError):
                write()
    assert taken.read_bytes() == b"mine"
    assert names_in(path.parent) == ["s.jsonl", "taken.jsonl"]


def check_whole_or_absent(folder: Path, name: str) -> None:
    """No file of ours is there, or the one that was asked for, whole."""
    found = names_in(folder)
    assert found in ([], [name])
    if found:
        with Session.open(folder / name, readonly=True) as session:
            assert len(list(session.entries())) >= 1
            assert session.damage == []


def calls_of_create(tmp_path: Path) -> list[Call]:
    recording = Recording()
    Session.create(tmp_path / "probe.jsonl", fs=recording).close()
    (tmp_path / "probe.jsonl").unlink()
    return recording.calls


def test_creating_makes_and_syncs_the_file_before_it_has_its_name(tmp_path: Path) -> None:
    assert [call.name for call in calls_of_create(tmp_path)] == [
        "make",
        "write",
        "sync",
        "link",
        "unlink",
        "sync_folder",
    ]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_a_create_that_fails_anywhere_leaves_no_part(tmp_path: Path, code: int) -> None:
    for at, call in enumerate(calls_of_create(tmp_path)):
        folder = tmp_path / str(at)
        folder.mkdir()
        if call.name == "unlink":
            continue  # that removing what was left over fails leaves it over
        with pytest.raises(StorageError) as caught:
            Session.create(folder / "s.jsonl", fs=Recording(at, code))
        assert str(folder / "s.jsonl") in str(caught.value)
        check_whole_or_absent(folder, "s.jsonl")


class FailingReplace(WithoutLinks):
    def replace(self, source: str, target: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), target)


def test_without_hard_links_a_file_is_made_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Session.create(path, fs=WithoutLinks()) as session:
        session.append_message(HELLO)
    assert len(uuids(path)) == 2
    with pytest.raises(SessionExistsError):
        Session.create(path, fs=WithoutLinks())
    assert len(uuids(path)) == 2
    assert names_in(tmp_path) == ["s.jsonl"]


def test_without_hard_links_a_failed_create_leaves_no_empty_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        Session.create(tmp_path / "s.jsonl", fs=FailingReplace())
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("act", ["fork", "export"])
def test_a_copy_that_fails_anywhere_leaves_no_part(path: Path, tmp_path: Path, act: str) -> None:
    def copy(session: Session, file: Path) -> str:
        return session.fork(file) if act == "fork" else session.export_branch("@", file)

    recording = Recording()
    with Session.open(path, readonly=True, fs=recording) as session:
        copy(session, tmp_path / "probe.jsonl")
        calls = recording.calls.copy()
        for at, call in enumerate(calls):
            folder = tmp_path / str(at)
            folder.mkdir()
            if call.name == "unlink":
                continue
            recording.fail_at = len(recording.calls) + at
            with pytest.raises(StorageError):
                copy(session, folder / "copy.jsonl")
            recording.fail_at = -1
            check_whole_or_absent(folder, "copy.jsonl")


def test_a_copy_into_a_folder_that_is_not_there_names_the_folder(path: Path) -> None:
    nowhere = path.parent / "nowhere"
    with Session.open(path) as session, pytest.raises(SessionNotFoundError) as caught:
        session.fork(nowhere / "copy.jsonl")
    assert str(caught.value) == (
        f"cannot make {nowhere / 'copy.jsonl'}: there is no folder {nowhere}; make it first"
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.jsonl"
    path.write_bytes(VERSION_1)
    return path


def texts(session: Session) -> list[str]:
    return [message["content"] for message in session.context().messages]


@pytest.mark.parametrize("disk", [Disk, WithoutLinks])
def test_a_migration_keeps_the_original_beside_the_file(old: Path, disk: type[Disk]) -> None:
    with Session.open(old, fs=disk()) as session:
        assert texts(session) == ["first", "second"]
    assert Path(f"{old}.v1").read_bytes() == VERSION_1
    assert names_in(old.parent) == ["old.jsonl", "old.jsonl.v1"]


@pytest.mark.parametrize("lasting", [False, True])
def test_a_migration_that_fails_anywhere_leaves_the_old_file_or_the_new(
    tmp_path: Path, lasting: bool
) -> None:
    def open_in(folder: Path, disk: Disk) -> None:
        folder.mkdir()
        (folder / "old.jsonl").write_bytes(VERSION_1)
        Session.open(folder / "old.jsonl", fs=disk).close()

    recording = Recording()
    open_in(tmp_path / "probe", recording)
    assert [call.name for call in recording.calls] == [
        "make",  # the lock
        "make",
        "write",
        "sync",
        "link",
        "sync_folder",
        "replace",
        "sync_folder",
    ]
    for at in range(len(recording.calls)):
        folder = tmp_path / str(at)
        with pytest.raises(StorageError):
            open_in(folder, Recording(at, lasting=lasting))
        if not lasting:
            assert [name for name in names_in(folder) if name.endswith(".tmp")] == []
        with Session.open(folder / "old.jsonl") as session:
            assert texts(session) == ["first", "second"]
        assert (folder / "old.jsonl.v1").read_bytes() == VERSION_1


def test_a_migration_never_takes_another_files_place(old: Path) -> None:
    kept = Path(f"{old}.v1")
    kept.write_bytes(b"somebody's")
    with pytest.raises(SessionExistsError, match="is there already, and is not a copy") as caught:
        Session.open(old)
    assert str(kept) in str(caught.value)
    assert "move it away and try again" in str(caught.value)
    assert old.read_bytes() == VERSION_1
    assert kept.read_bytes() == b"somebody's"


def test_a_reader_of_an_old_file_goes_on_when_a_writer_migrates_and_branches_it(
    old: Path,
) -> None:
    with Session.open(old, readonly=True) as reader:
        assert texts(reader) == ["first", "second"]
        with Session.open(old) as writer:
            writer.branch(writer.path()[1])
            writer.append_message({"role": "assistant", "content": "other"})
        reader.refresh()
        assert texts(reader) == ["first", "other"]
        assert reader.damage == []
        with Session.open(old) as writer:
            writer.append_message({"role": "user", "content": "more"})
        reader.refresh()
        assert texts(reader) == ["first", "other", "more"]


def test_a_reader_of_an_old_file_sees_it_grow(old: Path) -> None:
    with Session.open(old, readonly=True) as reader:
        uuids_before = [entry.uuid for entry in reader.path()]
        with old.open("ab") as file:
            file.write(b'{"type":"message","message":{"role":"user","content":"third"}}\n')
        reader.refresh()
        assert texts(reader) == ["first", "second", "third"]
        assert [entry.uuid for entry in reader.path()][:3] == uuids_before


class ReadOnly(Disk):
    """A medium that takes no change at all."""

    def _refuse(self, path: object) -> OSError:
        return OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            raise self._refuse(path)
        return super().open(path, flags)

    def write(self, fd: int, block: bytes) -> int:
        raise self._refuse(fd)

    def sync(self, fd: int) -> None:
        raise self._refuse(fd)

    def sync_folder(self, path: str) -> None:
        raise self._refuse(path)

    def replace(self, source: str, target: str) -> None:
        raise self._refuse(target)

    def link(self, source: str, target: str) -> None:
        raise self._refuse(target)

    def unlink(self, path: str) -> None:
        raise self._refuse(path)

    def lock(self, fd: int) -> bool:
        raise self._refuse(fd)


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and times of everything in a folder, and the folder's own."""
    state = {
        found.name: (found.read_bytes(), found.stat().st_mtime_ns) for found in folder.iterdir()
    }
    return {**state, ".": (b"", folder.stat().st_mtime_ns)}


def look_at_everything(session: Session) -> list[Entry]:
    session.context()
    session.context("@", verbatim=True)
    session.path()
    session.turns()
    session.branches()
    list(session.tree())
    list(session.render())
    session.find(type="message")
    session.refresh()
    assert session.damage is not None
    return list(session.entries())


FILES = {
    "sound": VERSION_1.replace(
        b'"session"', b'"session","version":2,"format":"sessiontree/2","uuid":"r","parentUuid":null'
    )
    + b'{"type":"message","uuid":"m","parentUuid":"r","message":{"role":"user","content":"x"}}\n',
    "torn": b'{"type":"session","version":2,"uuid":"r","parentUuid":null,"id":"i"}\n{"type":"mess',
    "version 1": VERSION_1,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("disk", [Disk, ReadOnly])
def test_reading_changes_nothing(tmp_path: Path, name: str, disk: type[Disk]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(FILES[name])
    before = state_of(tmp_path)
    with Session.open(path, readonly=True, fs=disk()) as session:
        assert look_at_everything(session)
        with pytest.raises(ReadOnlyError, match="open it without readonly=True to write"):
            session.append_message(HELLO)
    assert state_of(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
@pytest.mark.parametrize("name", FILES)
def test_a_folder_one_may_not_write_to_can_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(FILES[name])
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with Session.open(path, readonly=True) as session:
            assert look_at_everything(session)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", FILES)
def test_a_read_only_medium_is_named_to_a_writer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(FILES[name])
    with pytest.raises(StorageError) as caught:
        Session.open(path, fs=ReadOnly())
    assert str(caught.value) == (
        f"cannot open {path}: Read-only file system; "
        "the medium is read-only; open it with readonly=True, or copy the file"
    )


def test_a_closed_session_says_so_and_closing_again_is_nothing(path: Path) -> None:
    session = Session.open(path)
    session.close()
    session.close()
    for act in (lambda: session.append_message(HELLO), session.branches, session.refresh):
        with pytest.raises(ReadOnlyError, match=r"s\.jsonl is closed; open the session again"):
            act()


class Unreadable(Disk):
    """A medium with a bad block behind the first bytes."""

    def __init__(self) -> None:
        self.is_broken = False

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(fd, size, offset)


def test_a_medium_that_cannot_be_read_is_an_error_that_names_the_place(path: Path) -> None:
    disk = Unreadable()
    with Session.open(path, readonly=True, fs=disk) as session:
        disk.is_broken = True
        with pytest.raises(
            StorageError, match=r"cannot read .*s\.jsonl at byte 0: Input/output error"
        ):
            session.branches()


def test_descriptors_are_let_go(path: Path, stranger: bytes) -> None:
    class Open(Disk):
        fds: set[int] = set()  # noqa: RUF012

        def open(self, path: str, flags: int) -> int:
            fd = super().open(path, flags)
            self.fds.add(fd)
            return fd

        def close(self, fd: int) -> None:
            super().close(fd)
            self.fds.remove(fd)

    disk = Open()
    with Session.open(path, exclusive=True, fs=disk) as session:
        session.append_message(HELLO)
        replace_with(path, path.read_bytes())
        session.append_message(HELLO)
        replace_with(path, stranger)
        with pytest.raises(FileReplacedError):
            session.append_message(HELLO)
    with pytest.raises(NotASessionError):
        Session.open(path.parent, fs=disk)
    path.write_bytes(b"nothing")
    with pytest.raises(NotASessionError):
        Session.open(path, fs=disk)
    path.write_bytes(VERSION_1)
    with Session.open(path, readonly=True, fs=disk) as session:
        session.path()
    Session.open(path, fs=disk).close()
    assert disk.fds == set()


@pytest.mark.parametrize("call", ["read", "stat"])
def test_what_a_writer_cannot_look_at_it_does_not_write(path: Path, call: str) -> None:
    class Blind(Disk):
        is_blind = False

        def read(self, fd: int, size: int, offset: int) -> bytes:
            self.fail("read")
            return super().read(fd, size, offset)

        def stat(self, file: int | str) -> Stat:
            self.fail("stat")
            return super().stat(file)

        def fail(self, name: str) -> None:
            if self.is_blind and name == call:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = Blind()
    with Session.open(path, fs=disk) as session:
        disk.is_blind = True
        before = path.read_bytes()
        with pytest.raises(StorageError, match="Input/output error"):
            session.append_message(HELLO)
        assert path.read_bytes() == before
        disk.is_blind = False
        session.append_message(HELLO)
    assert len(uuids(path)) == 3


def test_a_reader_of_a_file_that_vanished_is_told_what_a_reader_can_do(path: Path) -> None:
    with Session.open(path, readonly=True) as session:
        path.rename(path.with_name("elsewhere.jsonl"))
        with pytest.raises(SessionNotFoundError) as caught:
            session.refresh()
    assert "nothing was written" not in str(caught.value)
    assert str(caught.value).endswith("put it back, or open it where it is now")


class Barging(Disk):
    """A disk on which another program, which knows of no lock, appends just before we do.

    Attributes:
        bytes: what it appends, once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = b""

    def write(self, fd: int, block: bytes) -> int:
        with self.path.open("ab") as file:
            file.write(self.bytes)
        self.bytes = b""
        return super().write(fd, block)


THEIRS = b'{"type":"x-theirs","uuid":"theirs","parentUuid":null}\n'


@pytest.mark.parametrize("unended", [b"", b'{"type":"mess'])
@pytest.mark.parametrize("theirs", [THEIRS, THEIRS * 2, b'{"torn\n'])
def test_lines_appended_without_the_lock_at_the_same_moment_are_no_damage_to_ours(
    path: Path, theirs: bytes, unended: bytes
) -> None:
    disk = Barging(path)
    with path.open("ab") as file:
        file.write(unended)
    with Session.open(path, fs=disk) as session:
        before = session.leaf
        disk.bytes = theirs
        ours = session.append_message(HELLO)
        after = session.append_message(HELLO)
        assert [ours.parent_uuid, after.parent_uuid] == [before.uuid, ours.uuid]
        assert session.path()[-3:] == [before, ours, after]
        assert session.entry(ours.uuid).line == ours.line
        assert not {damage.kind for damage in session.damage} - {"torn", "json", "missing parent"}
        assert [entry.uuid for entry in session.entries()][-2:] == [ours.uuid, after.uuid]
    assert uuids(path)[-2:] == [ours.uuid, after.uuid]


def test_a_line_that_ours_was_fused_with_without_the_lock_is_told_at_once(path: Path) -> None:
    disk = Barging(path)
    with Session.open(path, fs=disk) as session:
        disk.bytes = b'{"type":"mess'
        for _ in range(2):
            with pytest.raises(WriteFailedError, match="'sessiontree repair' parts them"):
                session.append_message(HELLO)
    with Session.open(path) as session:
        assert session.repair().remaining == []
    assert len(uuids(path)) == 3  # what was written and not acknowledged is there
