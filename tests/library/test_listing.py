"""What a list tells of a file, from its head and its tail, whatever the file is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.errors import FileError, SessionNotFoundError, StorageError
from sessiontree.library.listing import (
    FIRST_MESSAGE_WITHIN,
    HEAD,
    TAIL,
    SessionInfo,
    facts_of,
    session_infos,
)
from sessiontree.storage.names import session_files
from tests.agents import test_pi
from tests.support.sessions import by_hand, chat, version_1
from tests.support.table import for_each

MUCH = "x" * 2 * TAIL


def made(file: Path, **options: Any) -> Session:
    return Session.create(file, durability="os", **options)


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_a_list_tells_what_the_session_itself_tells(file: Path) -> None:
    with made(file, cwd="/project", name="Chat", id="chat-id") as session:
        session.append_message({"role": "user", "content": "Build\na CLI"})
        session.append_message({"role": "user", "content": "Not this"})
        with Session.open(file, lane="reviewer", durability="os") as reviewer:
            last = reviewer.append_message({"role": "assistant", "content": "Hm"})
    assert facts_of(str(file)) == SessionInfo(
        file=str(file),
        id="chat-id",
        cwd="/project",
        name="Chat",
        first_message="Build↵a CLI",
        created=session.header.timestamp,
        modified=str(last.timestamp),
        bytes=file.stat().st_size,
        lane="reviewer",
        writer=None,
    )


def test_the_first_prompt_is_found_behind_much_else(file: Path) -> None:
    system = {"role": "system", "content": "s" * 3 * HEAD}
    prompt = {"role": "user", "content": [{"type": "text", "text": "At last"}]}
    chat(file, system, assistant('says "user" first'), prompt, assistant(MUCH))
    assert facts_of(str(file)).first_message == "At last"


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (HEAD, "At last"),
        (4 * HEAD, "At last"),
        (FIRST_MESSAGE_WITHIN - 1024, "At last"),
        (FIRST_MESSAGE_WITHIN, None),
    ],
)
def test_the_first_prompt_is_looked_for_in_so_many_bytes(
    file: Path, before: int, told: str | None
) -> None:
    with made(file, spill_over=None) as session:
        session.append_message({"role": "system", "content": "s" * before})
        session.append_message({"role": "user", "content": "At last"})
    assert facts_of(str(file)).first_message == told


def test_a_first_prompt_of_any_length_is_cut(file: Path) -> None:
    chat(file, {"role": "user", "content": [{"type": "text", "text": MUCH}]})
    told = facts_of(str(file)).first_message
    assert told == MUCH[:199] + "…"  # the rest is in a blob, which is not read
    by_hand(file, "y" * 10_000)
    assert facts_of(str(file)).first_message == "y" * 199 + "…"


@pytest.mark.parametrize("size", [0, 2 * TAIL])
def test_a_list_gives_the_last_name_wherever_it_was_given(file: Path, size: int) -> None:
    with made(file, name="First", spill_over=None) as session:
        assert facts_of(str(file)).name == "First"
        session.rename("Second")
        session.append_message({"role": "user", "content": "z" * size})
        assert facts_of(str(file)).name == "Second"
        session.rename("Third ✓")
        session.append_message({"role": "user", "content": 'no "session_info" of "compaction"'})
        assert facts_of(str(file)).name == "Third ✓"


def test_a_compaction_in_the_tail_repeats_the_name(file: Path) -> None:
    chat(file, MUCH, name="First", spill_over=None)
    with Session.open(file, durability="os", spill_over=None) as session:
        session.rename("In the middle")
        for text, answer in ((MUCH, "Yes"), ("And?", MUCH)):
            session.append_message({"role": "user", "content": text})
            session.append_message(assistant(answer))
        assert facts_of(str(file)).name == "First"  # as is said, and why Store.find looks again
        session.compact("All of it")
        assert facts_of(str(file)).name == "In the middle"


def test_a_last_line_longer_than_the_tail_is_read_whole(file: Path) -> None:
    with made(file, spill_over=None) as session:
        last = session.append_message({"role": "user", "content": MUCH})
    assert facts_of(str(file)).modified == last.timestamp


def test_a_list_ignores_a_torn_end(file: Path) -> None:
    with made(file) as session:
        last = session.append_message({"role": "user", "content": "hello"})
    with file.open("ab") as out:
        out.write(b'{"type":"message","uuid":"torn')
    assert facts_of(str(file)).modified == last.timestamp


def test_without_a_time_in_an_entry_a_list_gives_the_time_of_the_file(tmp_path: Path) -> None:
    file = by_hand(tmp_path / "chat.jsonl", "hello")
    os.utime(file, (0, 86400.5))
    assert facts_of(str(file)).modified == "1970-01-02T00:00:00.500Z"
    assert facts_of(str(file)).created is None


def test_a_file_of_version_1_is_listed_as_it_is(tmp_path: Path) -> None:
    file = version_1(tmp_path / "old.jsonl", "first")
    found = facts_of(str(file))
    assert (found.id, found.cwd, found.first_message) == ("old", "/old", "first")
    assert [path.name for path in tmp_path.iterdir()] == ["old.jsonl"]


def test_another_agents_file_is_listed_under_its_name(tmp_path: Path) -> None:
    lines = [test_pi.HEADER, test_pi.message("e0", None, "user", "hello")]
    found = facts_of(str(test_pi.written(tmp_path / "pi.jsonl", lines)))
    assert (found.id, found.cwd, found.first_message) == ("s", "/project", "hello")
    assert found.agent is not None
    assert "pi" in found.agent


def test_a_list_names_the_writer_that_holds_a_session_alone(file: Path) -> None:
    made(file).close()
    lock = Path(f"{file}.lock")
    assert not lock.exists()
    with Session.open(file, exclusive=True):
        writer = facts_of(str(file)).writer
        assert writer is not None
        assert f"process {os.getpid()} on " in writer
    assert facts_of(str(file)).writer is None
    lock.write_text('{"pid": 1, "host": "gone", "since": "then"}')  # as a killed writer leaves it
    assert facts_of(str(file)).writer is None
    assert lock.read_text().startswith('{"pid"')


def test_listing_makes_no_file_and_changes_none(tmp_path: Path) -> None:
    file = by_hand(tmp_path / "chat.jsonl", "hello")
    before = file.read_bytes(), file.stat().st_mtime_ns
    facts_of(str(file))
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert [path.name for path in tmp_path.iterdir()] == ["chat.jsonl"]


ODD: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nowhere": lambda file: file.symlink_to(file.parent / "nothing"),
    "a circle of links": lambda file: file.symlink_to(file),
    "an empty file": Path.touch,
    "bytes": lambda file: file.write_bytes(bytes(range(256)) * 100),
    "another log": lambda file: file.write_text('{"some": "log line"}\n' * 10),
    "a newer format": lambda file: file.write_text(
        '{"type":"session","format":"sessiontree/9","uuid":"u"}\n'
    ),
    "blank lines": lambda file: file.write_text("\n" * 5000),
}


@for_each("kind", ODD)
def test_what_is_no_session_is_one_typed_error_and_hides_nothing(tmp_path: Path, kind: str) -> None:
    odd = tmp_path / "odd.jsonl"
    ODD[kind](odd)
    by_hand(tmp_path / "good.jsonl", "hello")
    problems: list[str] = []
    found = list(session_infos(session_files(str(tmp_path), problems.append), problems.append))
    assert [Path(one.file).name for one in found] == ["good.jsonl"]
    (problem,) = problems
    assert str(odd) in problem
    assert "\n" not in problem
    with pytest.raises((FileError, StorageError)):
        facts_of(str(odd))


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that everybody may enter, for a test that is not root."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        effective = os.geteuid()
        os.seteuid(effective or NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(effective)


NOBODY = 65534


def test_a_file_that_may_not_be_read_is_reported_and_hides_nothing(anybodys: Path) -> None:
    def make() -> None:
        for name in ("closed.jsonl", "good.jsonl", "a/b.jsonl"):
            by_hand(anybodys / name, "hello").chmod(0o644)
        (anybodys / "closed.jsonl").chmod(0)
        (anybodys / "a").chmod(0)

    _as_owner(make)
    problems: list[str] = []
    found = list(session_infos(session_files(str(anybodys), problems.append), problems.append))
    assert [Path(one.file).name for one in found] == ["good.jsonl"]
    assert len(problems) == 2
    assert all("Permission denied" in problem for problem in problems)
    _as_owner(lambda: (anybodys / "a").chmod(0o755))


def _as_owner(change: Callable[[], object]) -> None:
    """Do what only the owner of a folder may."""
    effective = os.geteuid()
    os.seteuid(os.getuid())
    try:
        change()
    finally:
        os.seteuid(effective)


def test_a_store_that_may_not_be_read_is_not_listed_as_empty(anybodys: Path) -> None:
    def make() -> None:
        (anybodys / "store" / ".trash").mkdir(parents=True)
        (anybodys / "store").chmod(0)

    _as_owner(make)
    store = Store(anybodys / "store")
    for look in (store.list, store.trashed):
        with pytest.raises(StorageError, match=f"cannot read {store.root}.*: Permission denied"):
            look()
    _as_owner(lambda: (anybodys / "store").chmod(0o755))


def test_a_file_that_vanishes_while_being_listed_is_reported(tmp_path: Path) -> None:
    files = [by_hand(tmp_path / f"{number}.jsonl", "hello") for number in range(3)]
    problems: list[str] = []
    paths = sorted(session_files(str(tmp_path), problems.append))
    files[1].unlink()
    found = list(session_infos(paths, problems.append))
    assert [one.file for one in found] == [str(files[0]), str(files[2])]
    assert len(problems) == 1
    assert "not there" in problems[0]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        list(session_files(str(tmp_path / "nothing"), print))


def test_hidden_folders_are_entered_but_not_those_that_hold_no_sessions(tmp_path: Path) -> None:
    by_hand(tmp_path / "chat.jsonl", "hello")
    by_hand(tmp_path / "chat.jsonl.blobs" / "no.jsonl")
    by_hand(tmp_path / ".hidden" / "er" / "yes.jsonl")
    for name in (".git", "node_modules", ".trash", ".deleting-2026"):
        by_hand(tmp_path / name / "no.jsonl")
    by_hand(tmp_path / "deep" / "er" / "yes.jsonl")
    for suffix in (".v1", ".lock", ".archive-2026-01-01", ".1-ab.tmp"):
        (tmp_path / f"chat.jsonl{suffix}").touch()
    (tmp_path / "again").symlink_to(tmp_path)
    found = sorted(session_files(str(tmp_path), pytest.fail))
    assert found == [
        str(tmp_path / ".hidden" / "er" / "yes.jsonl"),
        str(tmp_path / "chat.jsonl"),
        str(tmp_path / "deep" / "er" / "yes.jsonl"),
    ]
    assert list(session_files(str(tmp_path / ".git"), pytest.fail))  # named, it is walked


def test_a_link_to_a_session_is_followed(tmp_path: Path) -> None:
    by_hand(tmp_path / "real.jsonl", "hello", id="real")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert facts_of(str(tmp_path / "link.jsonl")).id == "real"
