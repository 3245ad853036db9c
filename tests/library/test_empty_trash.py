"""The trash is emptied of old sessions when asked, and of nothing else."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessiontree import AsyncStore, Session, SessionTreeWarning, StorageError, Store, UsageError
from tests.support.faultydisk import KINDS, Fault, FaultyDisk
from tests.support.files import Record
from tests.support.loops import in_each_loop
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused, run

LARGE = "a text too large for a line " * 2000
MONTH = timedelta(days=30)
OLD = "2020-02-28T23-59-59-123Z_0123abcd"


def thrown(store: Store, id: str, stamp: str = OLD) -> Path:
    """A session with files of each kind, in the trash since long ago."""
    file = Path(said(store, LARGE, cwd="/p", id=id))
    for suffix in (".v1", ".archive-2026-01-01", ".damaged-20260101T000000Z", ".7-0a1b2c3d.tmp"):
        Path(f"{file}{suffix}").write_text(suffix)
    (blob,) = Path(f"{file}.blobs").iterdir()
    Path(f"{blob}.damaged-2026-01-01-0a1b").write_text("aside")
    Path(f"{file}.blobs/unfinished.tmp").write_text("unfinished")
    own = file.with_suffix("") / "subagents" / "deep"
    own.mkdir(parents=True)
    (own / "agent-1.jsonl").write_text("{}")
    folder = Path(store.trash(str(file))).parent.parent
    return Path(shutil.move(folder, folder.with_name(stamp)))


def files_in(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


def kept(store: Store) -> list[str]:
    """What is reported when the trash is emptied; nothing is removed."""
    problems: list[str] = []
    trash = Path(store.root, ".trash")
    before = files_in(trash)
    assert store.empty_trash(older_than=MONTH, report=problems.append) == []
    assert files_in(trash) == before
    return problems


def test_what_is_older_goes_with_all_its_files_and_each_is_named(store: Store) -> None:
    folder = thrown(store, "old")
    young, lives = store.trash(said(store, "young", id="young")), said(store, "lives")
    store.restore(store.trash(said(store, "back", id="back")))  # leaves an empty folder
    there = files_in(folder)
    planned = store.empty_trash(older_than=MONTH, dry_run=True)
    assert files_in(folder) == there
    (removed,) = done = store.empty_trash(older_than=MONTH)
    assert planned == done
    assert set(removed.files) == there
    assert removed.file in there
    assert removed.file.endswith("Z_old.jsonl")
    assert removed.trashed == "2020-02-28T23:59:59.123Z"
    assert not folder.exists()
    assert [one.file for one in store.trashed()] == [young]
    assert os.path.exists(lives)
    assert [one.file for one in store.empty_trash(older_than=timedelta(0))] == [young]
    assert os.listdir(Path(store.root, ".trash")) == []
    assert len(store.list()) == 2


def test_an_empty_trash_is_emptied_and_makes_nothing(store: Store) -> None:
    assert store.empty_trash(older_than=MONTH) == []
    assert not os.path.exists(store.root)


def session_in(folder: Path) -> Path:
    (file,) = (path for path in folder.glob("*/*.jsonl") if path.is_file())
    return file


def linked_blob(folder: Path, outside: Path) -> None:
    Path(f"{session_in(folder)}.blobs", "0" * 64).symlink_to(outside / "x.jsonl")


def linked_blobs(folder: Path, outside: Path) -> None:
    blobs = Path(f"{session_in(folder)}.blobs")
    shutil.rmtree(blobs)
    blobs.symlink_to(outside)


def linked_lock(folder: Path, outside: Path) -> None:
    Path(f"{session_in(folder)}.lock").unlink()
    Path(f"{session_in(folder)}.lock").symlink_to(outside / "x.jsonl")


def linked_project(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "p").symlink_to(outside)


def linked_folder(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(outside)


def pipe(folder: Path, outside: Path) -> None:
    os.mkfifo(f"{session_in(folder)}.v1.7-0a1b2c3d.tmp")


def notes_beside(folder: Path, outside: Path) -> None:
    (session_in(folder).parent / "notes.txt").touch()


def notes_named_alike(folder: Path, outside: Path) -> None:
    Path(f"{session_in(folder)}.notes").touch()


def notes_among_blobs(folder: Path, outside: Path) -> None:
    Path(f"{session_in(folder)}.blobs", "notes.txt").touch()


def second_session(folder: Path, outside: Path) -> None:
    shutil.copy(outside / "x.jsonl", folder)


def another_sessions_folder(folder: Path, outside: Path) -> None:
    (session_in(folder).with_suffix("") / "more.jsonl").touch()


def no_session(folder: Path, outside: Path) -> None:
    file = session_in(folder)
    shutil.rmtree(file.with_suffix(""))
    file.unlink()


def a_file(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


SPOILED: dict[str, list[Callable[[Path, Path], None]]] = {
    " is a link;": [linked_blob, linked_blobs, linked_lock, linked_project],
    " is a link or a file;": [linked_folder, a_file],
    " is a device or a pipe;": [pipe],
    " is not a file of the session;": [
        *(notes_beside, notes_named_alike, notes_among_blobs, second_session),
        another_sessions_folder,
    ],
    " it holds no session;": [no_session],
}


@pytest.mark.parametrize(
    ("spoil", "what"), [(spoil, what) for what, each in SPOILED.items() for spoil in each]
)
@pytest.mark.parametrize("prefix", ["", ".deleting-"])
def test_a_folder_with_anything_else_stays_whole_and_does_not_stop_the_others(
    store: Store, tmp_path: Path, spoil: Callable[[Path, Path], None], what: str, prefix: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.jsonl").write_text("another's")
    folder = thrown(store, "spoiled", prefix + OLD)
    spoil(folder, outside)
    (problem,) = kept(store)
    assert str(folder) in problem
    assert what in problem
    other = thrown(store, "other", OLD.replace("_0", "_1"))
    with pytest.warns(SessionTreeWarning, match="stays"):
        assert len(store.empty_trash(older_than=MONTH)) == 1
    assert not other.exists()
    assert folder.exists()
    assert files_in(outside) == {str(outside / "x.jsonl")}


@pytest.mark.parametrize(
    "name", ["mine", "2020-01-01", f"{OLD}x", f".deleting-{OLD}x", ".DS_Store"]
)
def test_what_trash_did_not_make_stays(store: Store, name: str) -> None:
    folder = thrown(store, "one", name)
    (problem,) = kept(store)
    assert problem == f"{folder} is not a session in the trash; it stays"


def test_a_folder_of_no_day_is_no_older_than_anything(store: Store) -> None:
    thrown(store, "one", OLD.replace("02-28", "02-31"))
    assert kept(store) == []


def test_nothing_is_removed_through_a_trash_that_is_a_link(store: Store, tmp_path: Path) -> None:
    folder = thrown(store, "one")
    moved = shutil.move(folder.parent, tmp_path / "elsewhere")
    folder.parent.symlink_to(moved)
    before = files_in(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(StorageError, match="is a link"):
            store.empty_trash(older_than=MONTH, dry_run=dry_run)
    assert files_in(tmp_path) == before


@pytest.mark.slow
def test_a_session_that_a_writer_holds_stays(store: Store) -> None:
    folder = thrown(store, "one")
    with Session.open(session_in(folder), exclusive=True):
        (problem,) = kept(store)
    assert "is held by" in problem
    assert len(store.empty_trash(older_than=MONTH)) == 1


@pytest.mark.slow
def test_a_session_whose_move_waits_for_a_writer_stays(store: Store) -> None:
    folder = thrown(store, "one")
    session = session_in(folder)
    back = Path(store.root, session.relative_to(folder))
    os.link(session, back)  # a restore was killed
    folder.with_name(f".moving-{OLD}").write_text(str(session.relative_to(folder.parent)))
    with Session.open(session, exclusive=True):
        (problem,) = kept(store)  # of the session, and none of the file that notes the move
    assert f"{folder} is being moved" in problem
    assert store.empty_trash(older_than=MONTH) == []
    assert not folder.exists()
    assert back.exists()


@pytest.mark.parametrize("older_than", [timedelta(-1), datetime(2999, 1, 1)])
def test_a_wrong_age_is_refused(store: Store, older_than: timedelta | datetime) -> None:
    thrown(store, "one")
    with pytest.raises(UsageError, match="older_than is"):
        store.empty_trash(older_than=older_than)


def test_an_age_is_a_duration_or_a_time(store: Store) -> None:
    thrown(store, "one")
    for older_than in (timedelta.max, datetime(2020, 2, 28, tzinfo=UTC)):
        assert store.empty_trash(older_than=older_than) == []
    assert len(store.empty_trash(older_than=datetime(2020, 2, 29, tzinfo=UTC))) == 1


def test_the_names_are_on_the_medium_before_a_file_goes(store: Store) -> None:
    folder = thrown(store, "one")
    session = str(session_in(folder)).replace(OLD, f".deleting-{OLD}")
    disk = FaultyDisk()
    disk.arm()
    Store(store.root, fs=disk).empty_trash(older_than=MONTH)
    calls = [call for call in disk.calls if call[0] in ("replace", "sync_folder", "unlink")]
    renamed = calls.index(("replace", str(folder.with_name(f".deleting-{OLD}"))))
    assert calls[renamed + 1] == ("sync_folder", str(folder.parent))
    assert "unlink" not in [kind for kind, _ in calls[:renamed]]
    last = calls.index(("unlink", session))
    assert calls[last - 1] == ("sync_folder", os.path.dirname(session))
    assert [path for kind, path in calls[last + 1 :] if kind == "unlink"] == [
        f"{store.root}/.moving.lock"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("stays", [False, True])
def test_a_fault_at_any_call_leaves_the_session_whole_or_out_of_the_trash(
    store: Store, tmp_path: Path, stays: bool, record_property: Record
) -> None:
    thrown(store, "one")
    counted = FaultyDisk()
    shutil.copytree(store.root, tmp_path / "counted")
    counted.arm()
    Store(tmp_path / "counted", fs=counted).empty_trash(older_than=MONTH)
    faults = [
        Fault(kind, nth, errno.EIO, stays)
        for kind in KINDS
        for nth in range(1, counted.counts[kind] + 1)
    ]
    for number, fault in enumerate(faults):
        left = Store(tmp_path / str(number), fs=FaultyDisk())
        shutil.copytree(store.root, left.root)
        there = files_in(Path(left.root))
        disk = FaultyDisk()
        disk.arm(fault)
        problems: list[str] = []
        try:
            Store(left.root, fs=disk).empty_trash(older_than=MONTH, report=problems.append)
        except StorageError as error:
            problems.append(str(error))
        gone = not left.trashed()
        assert gone or there <= files_in(Path(left.root)), fault
        assert problems or gone or fault.kind in ("close", "unlock"), fault
        left.empty_trash(older_than=MONTH)
        assert files_in(Path(left.root)) <= {f"{left.root}/.moving.lock"}, fault
    record_property("faults", len(faults))
    assert len(faults) > 30


@in_each_loop
async def test_an_async_store_empties_its_trash(tmp_path: Path) -> None:
    store = AsyncStore(tmp_path / "store")
    thrown(store.plain, "one")
    assert len(await store.empty_trash(older_than=MONTH)) == 1


def test_the_command_names_what_it_removes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", store.root)
    folder = thrown(store, "one")
    there, file = files_in(folder), session_in(folder)
    words = ("trash", "--empty", "--older-than", "30d")
    planned = run(*words, "--dry-run")
    assert planned.stdout.startswith(f"{file}  trashed 2020-0")
    assert planned.stdout.endswith(f", {len(there)} files, 57 KB\n")
    assert planned.stderr == f"Would remove 1 session from the trash of {store.root}, 57 KB\n"
    (told,) = printed_json(*words, "--dry-run")
    assert set(told["files"]) == there
    (folder / "notes").touch()
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"Error: {folder} stays: {folder}/notes is not a file of the session" in result.stderr
    (folder / "notes").unlink()
    assert run(*words).stdout == planned.stdout
    assert printed_json(*words, "--store", store.root) == []


@for_each("words", ["", "--empty", "--older-than 1d", "x --empty --older-than 1d", "x --dry-run"])
def test_the_trash_is_not_emptied_by_mistake(words: str) -> None:
    assert "--empty" in refused("trash", *words.split(), status=2)


def test_the_help_says_what_emptying_needs() -> None:
    told = " ".join(done("trash", "--help").split())
    assert "--older-than TIME Needed with --empty: what was trashed before this time" in told
    assert "with --older-than 0d, all" in told
