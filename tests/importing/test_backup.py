"""`backup`: what the agents have is kept, told, and kept on after they delete it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from sessiontree import Session, SessionBusyError, Store
from sessiontree.errors import StorageError
from sessiontree.importing import backup as backups
from sessiontree.importing.backup import Backup, BackupResult
from sessiontree.importing.importer import import_session
from sessiontree.storage.fs import LOCK
from tests.agents.conftest import state_of
from tests.importing.conftest import damage_in, messages
from tests.support.faultydisk import Fault, FaultyDisk
from tests.support.homes import (
    FOLDERS,
    SESSIONS,
    delete,
    empty_home,
    files_of_agents,
    go_on,
    put_sessions,
    settle,
    transcript,
)
from tests.support.terminal import done, printed_json, refused, run
from tests.support.transcripts import Line, assistant, user, written

TOPS = [folder.partition("/")[0] for folder in FOLDERS.values()]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any session."""
    return empty_home(tmp_path, monkeypatch)


@pytest.fixture
def home(bare: Path) -> Path:
    """A home with sessions of all agents."""
    put_sessions(bare)
    return bare


def backed_up(home: Path, *paths: Path, fs: FaultyDisk | None = None) -> BackupResult:
    """A pass as a command makes it: in its own memory, with the cache of the one before."""
    cache = str(home / ".cache")
    places = [str(path) for path in paths]
    if fs is None:
        return Store().backup(places, cache=cache)
    return Backup(str(home / "store"), places, fs=fs, cache=cache).run()


def counts(result: BackupResult) -> tuple[int, int, int, int]:
    kept = len(result.new), len(result.grown), result.unchanged, len(result.kept_alone)
    assert result.is_complete, result.failed
    return kept


def content_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.jsonl")}


def test_sessions_of_all_agents_are_kept_and_nothing_twice(home: Path) -> None:
    before = [state_of(home / top) for top in TOPS]
    first = backed_up(home)
    assert counts(first) == (SESSIONS, 0, 0, 0)
    assert {result.agent for result in first.new} == set(FOLDERS)
    for result in first.new:
        assert messages(result.file) == messages(result.source)
        assert damage_in(result.file) == []
    kept = content_of(home / "store")
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)
    assert content_of(home / "store") == kept
    assert [state_of(home / top) for top in TOPS] == before


def test_a_transcript_beside_its_compressed_copy_is_no_damage(bare: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    file = written(bare / ".claude" / "projects" / "-p" / "s.jsonl", [user("u", None, "one")])
    packed = zstandard.ZstdCompressor().compress(file.read_bytes())
    file.with_name(f"{file.name}.zst").write_bytes(packed)
    assert backed_up(bare).failed == []


def test_what_grew_is_added(home: Path) -> None:
    backed_up(home)
    go_on(transcript(home), "one more")
    result = backed_up(home)
    assert counts(result) == (0, 1, SESSIONS - 1, 0)
    assert result.grown[0].new == 1
    assert "one more" in str(messages(result.grown[0].file))


def test_a_file_that_did_not_change_is_not_opened_again(home: Path) -> None:
    backed_up(home)
    backed_up(home)
    disk = FaultyDisk()
    disk.arm()
    assert counts(backed_up(home, fs=disk)) == (0, 0, SESSIONS, 0)
    opened = [path for kind, path in disk.calls if kind == "open"]
    of_several = [path for path in opened if ".gemini" in path]  # are they one session?
    beside = {path for path in opened if "index" in path or path.endswith(".settings.json")}
    assert {*opened} - {*of_several} - beside == set()  # such files have no change of their own


@pytest.mark.parametrize("damage", ["removed", "cut", "noise", "empty", "of nothing", "a folder"])
def test_a_cache_that_is_damaged_costs_time_only(home: Path, damage: str) -> None:
    backed_up(home)
    go_on(transcript(home), "one more")
    (cache,) = (home / ".cache").glob("backup-*")
    content = cache.read_bytes()
    cache.unlink()
    if damage == "a folder":
        cache.mkdir()
    elif damage != "removed":
        changed = {"cut": content[: len(content) // 2], "noise": os.urandom(500), "empty": b""}
        cache.write_bytes(changed.get(damage, b"\x92\x80\x80"))
    assert counts(backed_up(home)) == (0, 1, SESSIONS - 1, 0)
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)


def test_a_cache_that_cannot_be_written_changes_nothing(home: Path) -> None:
    (home / ".cache").write_text("a file")
    assert counts(backed_up(home)) == (SESSIONS, 0, 0, 0)
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)


def test_the_cache_holds_no_text_of_a_session(home: Path) -> None:
    backed_up(home)
    (cache,) = (home / ".cache").glob("backup-*")
    assert b"HELLO" not in cache.read_bytes()
    assert b"list the files" not in cache.read_bytes()


@pytest.mark.parametrize("agent", FOLDERS)
def test_a_session_that_its_agent_deleted_stays_and_resume_puts_it_back(
    agent: str, home: Path
) -> None:
    first = backed_up(home)
    of_agent = [result for result in first.new if result.agent == agent]
    before = {result.id: messages(result.file) for result in of_agent}
    kept = content_of(home / "store")
    for top in TOPS:
        shutil.rmtree(home / top)
    result = backed_up(home)
    assert counts(result) == (0, 0, 0, SESSIONS)
    alone = {one.id: one for one in result.kept_alone if one.agent == agent}
    assert set(alone) == set(before)
    for id, one in alone.items():
        assert messages(one.file) == before[id]
        made = printed_json("resume", id, "--cwd", str(home))
        assert Path(made["file"]).is_relative_to(home / FOLDERS[agent])
        assert made["agent"] == agent
        with Session.open(made["file"], readonly=True) as session:
            assert session.verify() == []
            assert prompts(session) == prompts_of(one.file)
    again = backed_up(home)
    assert counts(again) == (0, 0, len(before), SESSIONS - len(before))
    assert content_of(home / "store") == kept


def prompts(session: Session) -> list[str]:
    """The prompts of the user, without those of subagents."""
    return [turn.prompt for turn in session.outline().turns if turn.prompt and not turn.lane]


def prompts_of(file: str) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return prompts(session)


def test_an_agent_that_goes_on_with_a_session_that_was_put_back_adds_to_the_same_one(
    home: Path,
) -> None:
    backed_up(home)
    delete(transcript(home))
    id = next(one.id for one in backed_up(home).kept_alone)
    put_back = Path(printed_json("resume", id, "--cwd", str(home))["file"])
    go_on(put_back, "after the return")
    result = backed_up(home)
    assert counts(result) == (0, 1, SESSIONS - 1, 0)
    assert "after the return" in str(messages(result.grown[0].file))
    assert len(list((home / "store").rglob(f"*{id}.jsonl"))) == 1


def test_a_session_is_not_called_deleted_if_its_file_or_folder_cannot_be_read(home: Path) -> None:
    backed_up(home)
    file = transcript(home)
    file.write_bytes(b"\x00\xff" * 300)
    result = backed_up(home)
    assert result.kept_alone == []
    (failure,) = result.failed
    assert failure.file == str(file)
    assert failure.cause
    assert failure.next
    assert result.unchanged == SESSIONS - 1


def test_paths_tell_what_is_deleted_only_of_agents_whose_folders_they_have(home: Path) -> None:
    backed_up(home)
    delete(transcript(home))
    assert counts(backed_up(home, home / ".codex" / "sessions"))[3] == 0
    (alone,) = backed_up(home, home / ".claude").kept_alone
    assert alone.agent == "claude-code"


def test_a_file_that_its_agent_shortened_loses_nothing(home: Path) -> None:
    backed_up(home)
    file = transcript(home)
    kept = content_of(home / "store")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)
    assert content_of(home / "store") == kept
    file.write_bytes(lines[0] + lines[1])
    go_on(file, "after the cut")
    result = backed_up(home)
    assert counts(result) == (0, 1, SESSIONS - 1, 0)
    for path, content in kept.items():
        assert path.read_bytes().startswith(content)


def test_a_file_with_another_session_in_its_place_keeps_both(bare: Path) -> None:
    file = bare / ".pi" / "agent" / "sessions" / "--p--" / "s.jsonl"
    file.parent.mkdir(parents=True)
    for id in ("one", "two"):
        header: Line = {"type": "session", "version": 3, "id": id, "cwd": "/p"}
        said: Line = {"type": "message", "id": f"m-{id}", "parentId": None}
        said["message"] = {"role": "user", "content": f"say {id}"}
        lines = [{**header, "timestamp": "2026-01-01T00:00:00.000Z"}, said]
        other = file.with_name("other")
        other.write_text("".join(json.dumps(line) + "\n" for line in lines))
        other.replace(file)
        settle(file)
        result = backed_up(bare)
        assert [one.id for one in result.new] == [id]
    assert [one.id for one in result.kept_alone] == ["one"]
    assert "say one" in str(messages(result.kept_alone[0].file))
    assert "say two" in str(messages(result.new[0].file))


def test_a_file_of_the_same_size_and_time_as_before_is_seen_to_be_another(bare: Path) -> None:
    folder = bare / ".claude" / "projects" / "-p"
    file = settle(written(folder / "s.jsonl", [user("a", None, "x" * 30, sessionId="one")]))
    assert len(backed_up(bare).new) == 1
    other = settle(written(folder / "other", [user("a", None, "y" * 30, sessionId="two")]))
    assert other.stat().st_size == file.stat().st_size
    other.replace(file)
    settle(file)
    assert [one.id for one in backed_up(bare).new] == ["two"]


def test_half_a_line_is_told_and_added_when_it_is_whole(home: Path) -> None:
    file = transcript(home)
    content = file.read_bytes()
    go_on(file, "in two parts")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(content) + 40])
    result = backed_up(home)
    assert counts(result) == (SESSIONS, 0, 0, 0)
    (note,) = result.notes
    assert note.startswith(f"{file} ends in the middle of line ")
    file.write_bytes(whole)
    result = backed_up(home)
    assert counts(result) == (0, 1, SESSIONS - 1, 0)
    assert result.notes == []
    assert "in two parts" in str(messages(result.grown[0].file))


def test_a_session_that_is_written_during_a_backup_is_kept_whole_by_the_next(home: Path) -> None:
    file = transcript(home)
    is_ended = threading.Event()

    def write() -> None:
        for number in range(60):
            go_on(file, f"say {number}", f"99999999-0000-4000-8000-{number:012}")
            time.sleep(0.002)
        is_ended.set()

    agent = threading.Thread(target=write)
    agent.start()
    while not is_ended.is_set():
        assert backed_up(home).is_complete
    agent.join()
    backed_up(home)
    (kept,) = [path for path in content_of(home / "store") if file.stem in path.name]
    assert messages(kept) == messages(file)
    assert damage_in(kept) == []


def test_a_damaged_line_is_told_with_its_place_and_the_rest_is_kept(home: Path) -> None:
    file = transcript(home)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:5], b"no JSON\n", *lines[5:]]))
    result = backed_up(home)
    (failure,) = result.failed
    assert (failure.file, failure.line) == (str(file), 6)
    assert failure.offset == sum(map(len, lines[:5]))
    assert failure.next
    assert len(result.new) == SESSIONS


@pytest.mark.unprivileged
def test_a_file_that_may_not_be_read_hides_no_other(home: Path) -> None:
    file = transcript(home)
    file.chmod(0)
    result = backed_up(home)
    assert len(result.new) == SESSIONS - 1
    (failure,) = result.failed
    assert (failure.file, "Permission denied" in failure.cause) == (str(file), True)
    told = run("backup")
    assert told.exit_code == 1
    assert f"Not kept: cannot open {file}: Permission denied; check the perm" in told.stderr


@pytest.mark.unprivileged
@pytest.mark.parametrize("folder", [".claude/projects/-project", ".claude/projects", ".claude"])
def test_a_folder_that_may_not_be_read_is_told_and_nothing_in_it_is_called_deleted(
    home: Path, folder: str
) -> None:
    backed_up(home)
    (home / folder).chmod(0)
    try:
        result = backed_up(home)
    finally:
        (home / folder).chmod(0o700)
    assert result.kept_alone == []
    assert result.unchanged == SESSIONS - 1
    (failure,) = result.failed
    assert str(home / folder) in failure.file or failure.file in str(home / folder / "projects")
    assert "ermission" in str(failure)


def test_a_file_that_cannot_be_read_hides_no_other(home: Path) -> None:
    file = transcript(home)

    class Unreadable(FaultyDisk):
        def open(self, path: str, flags: int) -> int:
            if path == str(file):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().open(path, flags)

    result = backed_up(home, fs=Unreadable())
    assert len(result.new) == SESSIONS - 1
    (failure,) = result.failed
    assert failure.file == str(file)
    assert os.strerror(errno.EIO) in str(failure)
    assert counts(backed_up(home)) == (1, 0, SESSIONS - 1, 0)


def test_without_a_home_there_is_nothing_to_do(bare: Path) -> None:
    assert counts(backed_up(bare)) == (0, 0, 0, 0)
    assert not (bare / "store").exists()
    told = run("backup")
    assert told.exit_code == 0
    assert "No agent keeps sessions here" in told.stderr


def test_a_backup_that_is_told_to_stop_ends_after_the_file_at_hand(home: Path) -> None:
    stop = threading.Event()
    backup = Backup(str(home / "store"), stop=stop)
    result = backup.run(each=lambda kept: stop.set())
    assert (len(result.new), result.kept_alone) == (1, [])
    assert len(content_of(home / "store")) == 1
    assert counts(backed_up(home)) == (SESSIONS - 1, 0, 1, 0)


def test_an_empty_file_is_nothing_to_keep(home: Path) -> None:
    transcript(home).with_name("new.jsonl").touch()
    assert counts(backed_up(home)) == (SESSIONS, 0, 0, 0)


def test_transcripts_of_subagents_that_outlive_their_session_make_no_sessions(home: Path) -> None:
    backed_up(home)
    file = transcript(home)
    subagents = sorted((file.with_suffix("") / "subagents").glob("*.jsonl"))
    assert len(subagents) == 2
    file.unlink()
    for _ in range(2):
        result = backed_up(home)
        assert counts(result) == (0, 0, SESSIONS - 1 + len(subagents), 1)
    go_on(subagents[0], "one more")
    (made,) = backed_up(home).new
    assert made.source == str(subagents[0])
    assert "one more" in str(messages(made.file))
    assert counts(backed_up(home)) == (0, 0, SESSIONS - 1 + len(subagents), 1)


def test_an_import_by_hand_counts(home: Path) -> None:
    made = import_session(transcript(home))
    assert counts(backed_up(home)) == (SESSIONS - 1, 0, 1, 0)
    go_on(transcript(home), "one more")
    (grown,) = backed_up(home).grown
    assert grown.file == made.file


def test_a_session_that_the_user_went_on_with_in_the_store_stays_the_users(home: Path) -> None:
    (made,) = (one for one in backed_up(home).new if one.agent == "claude-code")
    with Session.open(made.file) as session:
        mine = session.append_message({"role": "user", "content": "mine"}).uuid
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)
    go_on(transcript(home), "the agent's")
    assert counts(backed_up(home)) == (0, 1, SESSIONS - 1, 0)
    with Session.open(made.file, readonly=True) as session:
        assert session.leaf.uuid == mine


def test_what_the_user_put_into_the_trash_stays_there_until_its_agent_goes_on(home: Path) -> None:
    (made,) = (one for one in backed_up(home).new if one.agent == "claude-code")
    Store().trash(made.file)
    for _ in range(2):
        result = backed_up(home)
        assert counts(result) == (0, 0, SESSIONS - 1, 0)
        assert result.trashed == 1
    go_on(transcript(home), "one more")
    result = backed_up(home)
    assert counts(result) == (1, 0, SESSIONS - 1, 0)
    assert result.trashed == 0


def test_what_was_put_into_the_trash_twice_stays_there_and_the_newest_is_restored(
    home: Path,
) -> None:
    store = Store()
    (made,) = (one for one in backed_up(home).new if one.agent == "claude-code")
    store.trash(made.file)
    go_on(transcript(home), "one more")
    (again,) = backed_up(home).new
    store.trash(again.file)
    result = backed_up(home)
    assert (counts(result), result.trashed) == ((0, 0, SESSIONS - 1, 0), 1)
    restored = store.restore(made.id)
    with Session.open(restored, readonly=True) as session:
        assert "one more" in str([entry.message_value for entry in session.entries()])
    assert len(store.trashed()) == 1


def test_a_session_that_was_removed_from_the_store_is_kept_again(home: Path) -> None:
    (made,) = (one for one in backed_up(home).new if one.agent == "claude-code")
    Path(made.file).unlink()
    assert counts(backed_up(home)) == (1, 0, SESSIONS - 1, 0)


def test_what_sessions_of_several_agents_share_is_stored_once(bare: Path) -> None:
    large = "word " * 20_000
    folder = bare / ".claude" / "projects" / "-p"
    for id in ("one", "two"):
        lines = [user(f"a{id}", None, large, sessionId=id), assistant("b", f"a{id}")]
        written(folder / f"{id}.jsonl", lines)
    result = backed_up(bare)
    blobs = [blob for one in result.new for blob in Path(f"{one.file}.blobs").iterdir()]
    assert len(blobs) == 2
    assert blobs[0].samefile(blobs[1])


def test_the_store_is_no_source_of_itself(home: Path) -> None:
    assert len(backed_up(home, home).new) == SESSIONS
    kept = content_of(home / "store")
    result = backed_up(home, home)
    assert (len(result.new), len(result.grown), result.unchanged) == (0, 0, SESSIONS)
    assert content_of(home / "store") == kept


def test_a_session_in_two_of_the_paths_counts_once(home: Path) -> None:
    paths = [home / folder for folder in FOLDERS.values()]
    found = sum(counts(backed_up(home, *paths)))
    assert counts(backed_up(home, *paths, *paths)) == (0, 0, found, 0)


def test_two_backups_at_once_make_each_session_once(home: Path) -> None:
    results: list[BackupResult] = []
    threads = [threading.Thread(target=lambda: results.append(backed_up(home))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(result.new) for result in results) == SESSIONS
    assert all(result.is_complete for result in results)
    assert len(content_of(home / "store")) == SESSIONS


def test_a_backup_that_does_not_end_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "PATIENCE_SECONDS", 0.0)
    backed_up(home)
    disk = FaultyDisk()
    fd = disk.open(str(home / "store" / ".backup.lock"), LOCK)
    assert disk.lock(fd)
    assert counts(backed_up(home)) == (0, 0, SESSIONS, 0)  # nothing new needs no lock
    go_on(transcript(home), "one more")
    with pytest.raises(SessionBusyError, match=r"another backup into .* let it end"):
        backed_up(home)
    disk.close(fd)
    assert counts(backed_up(home)) == (0, 1, SESSIONS - 1, 0)


@pytest.mark.parametrize("kind", ["write", "sync", "make_folder"])
def test_a_full_disk_costs_what_did_not_fit_and_says_so(home: Path, kind: str) -> None:
    disk = FaultyDisk()
    disk.arm(Fault(kind, 3, errno.ENOSPC, True))
    result = backed_up(home, fs=disk)
    assert len(result.new) < SESSIONS
    assert len(result.new) + len(result.failed) == SESSIONS
    assert all(
        "the disk is full; make space" in str(failure) or kind == "make_folder"
        for failure in result.failed
    )
    for one in result.new:
        assert messages(one.file) == messages(one.source)
    again = backed_up(home)
    assert counts(again) == (SESSIONS - len(result.new), 0, len(result.new), 0)


def test_a_store_that_cannot_be_written_is_an_error_only_if_there_is_news(home: Path) -> None:
    backed_up(home)
    disk = FaultyDisk()
    for kind in ("write", "link", "replace", "make_folder", "sync", "unlink"):
        disk.arm(Fault(kind, 1, errno.EROFS, True))
        assert counts(backed_up(home, fs=disk)) == (0, 0, SESSIONS, 0)
    go_on(transcript(home), "one more")

    class ReadOnly(FaultyDisk):
        def open(self, path: str, flags: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return super().open(path, flags)

    with pytest.raises(StorageError, match="the medium is read-only"):
        backed_up(home, fs=ReadOnly())


@pytest.mark.unprivileged
def test_a_store_that_may_not_be_written_is_one_clear_line(home: Path) -> None:
    (home / "store").mkdir()
    (home / "store").chmod(0o555)
    told = refused("backup")
    assert "cannot lock" in told
    assert "Permission denied" in told
    assert told.count("\n") == 1


def test_a_root_that_is_a_file_is_named(home: Path) -> None:
    (home / "store").write_text("a file")
    assert f"{home / 'store'}, the default store, is a file" in refused("backup")


def test_the_command_prints_what_it_kept(home: Path) -> None:
    told = run("backup")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == f"{SESSIONS} new, 0 grown, 0 unchanged in {home / 'store'}\n"
    shutil.rmtree(home / "store")
    told = run("backup", "--verbose")
    assert told.stdout.count("\n") == SESSIONS
    assert told.stdout.count("  new, ") == SESSIONS
    delete(transcript(home))
    told = run("backup")
    assert told.stdout == ""
    assert (
        "1 session kept that the agents no longer have: 'resume ID [--in AGENT]' continues one"
        in told.stderr
    )
    assert done("backup", "--quiet") == ""
    assert run("backup", "--quiet").stderr == ""


def test_json_has_all_of_it(home: Path) -> None:
    first = printed_json("backup")
    assert len(first["new"]) == SESSIONS
    assert {"source", "file", "id", "agent", "entries", "new"} <= first["new"][0].keys()
    delete(transcript(home))
    second = printed_json("backup")
    assert (second["new"], second["grown"], second["unchanged"]) == ([], [], SESSIONS - 1)
    (alone,) = second["keptAlone"]
    assert alone["agent"] == "claude-code"
    assert second["store"] == str(home / "store")
    transcript_again = home / FOLDERS["claude-code"] / "-project" / "x.jsonl"
    transcript_again.write_bytes(b"\x00\xff" * 300)
    told = run("backup", "--json")
    assert told.exit_code == 1
    (failed,) = json.loads(told.stdout)["failed"]
    assert failed["file"] == str(transcript_again)
    assert failed["cause"]
    assert failed["next"]


def test_entries_on_one_line_are_kept_and_noted_and_what_is_no_entry_is_not_kept(
    home: Path,
) -> None:
    file = transcript(home)
    first, second, *others = file.read_text().splitlines()
    file.write_text("\n".join([first + second, *others, ""]))
    kept = run("backup")
    assert kept.exit_code == 0
    assert f"Note: {file}, line 1: the line has 2 entries; each is read\n" in kept.stderr
    assert "Not kept" not in kept.stderr
    file.write_text("\n".join([first + second + "rubbish", *others, ""]))
    lost = run("backup")
    assert lost.exit_code == 1
    (told,) = (line for line in lost.stderr.splitlines() if line.startswith("Not kept"))
    assert f"{file}, line 1: 7 bytes beside whole entries are not JSON" in told


def test_a_path_that_is_not_there_is_told_and_the_others_are_backed_up(home: Path) -> None:
    told = run("backup", "--verbose", home / "nowhere", home / ".claude")
    assert told.exit_code == 1
    assert told.stdout.count("\n") == 1
    assert f"Not kept: there is no file {home / 'nowhere'}; check the path" in told.stderr


def test_a_named_file_that_is_no_session_of_an_agent_is_told(home: Path) -> None:
    with Session.create(home / "ours.jsonl"):
        told = run("backup", home / "ours.jsonl")
    assert told.exit_code == 1
    assert "Not kept: " in told.stderr
    assert "is a session of sessiontree already; open it as it is" in told.stderr


def test_a_file_that_is_deleted_during_a_backup_is_no_failure(home: Path) -> None:
    backed_up(home)
    file = transcript(home)
    go_on(file, "lost with the file")

    class Deleting(FaultyDisk):
        def open(self, path: str, flags: int) -> int:
            if path == str(file):
                delete(file)
            return super().open(path, flags)

    (alone,) = backed_up(home, fs=Deleting()).kept_alone
    assert alone.source == file.name


def test_a_rollout_that_codex_compressed_and_that_cannot_be_read_is_not_called_deleted(
    home: Path,
) -> None:
    backed_up(home)
    file = max((home / ".codex").rglob("rollout-*.jsonl"))
    file.rename(f"{file}.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"noise" * 50)
    result = backed_up(home)
    assert [failure.file for failure in result.failed] == [f"{file}.zst"]
    assert result.kept_alone == []


def test_another_store_is_used_if_it_is_there(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "disk"
    assert "there is no folder" in refused("backup", "--store", other)
    other.mkdir()
    done("backup", "--store", other)
    assert len(content_of(other)) == SESSIONS
    assert not (home / "store").exists()


def test_files_of_agents_stay_as_they_are(home: Path) -> None:
    before = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files_of_agents(home)]
    for _ in range(2):
        done("backup")
    after = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files_of_agents(home)]
    assert after == before


def test_a_path_that_is_not_unicode_is_backed_up_each_time_and_cached_never(home: Path) -> None:
    backed_up(home)
    settle(home)
    odd = home / os.fsdecode(b"caf\xe9")
    shutil.copytree(home / FOLDERS["claude-code"].partition("/")[0], odd)
    for path in [*odd.rglob("*"), *odd.rglob("*.jsonl")]:
        settle(path)
    found = [backed_up(home, odd) for _ in range(3)]
    assert [result.is_complete for result in found] == [True] * 3
    assert len({len(content_of(home / "store")) for _ in found}) == 1
    assert counts(backed_up(home))[:2] == (0, 0)
