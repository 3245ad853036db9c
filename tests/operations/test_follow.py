"""`follow()` gives each entry that is added, once, in order, whatever befalls the file.

A follower runs in a thread and puts what it gets into a queue; the tests wait for
entries, never for time. That something is *not* given is shown by what comes next.
"""

from __future__ import annotations

import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from sessiontree import Damage, Entry, FileReplacedError, Session, SessionNotFoundError, UsageError
from sessiontree.errors import ReadOnlyError, SessionTreeError
from sessiontree.storage.fs import Disk
from tests.support.conversation import user
from tests.support.files import VERSION_1, kinds_in

PATIENCE = 60
"""Seconds after which a test gives up waiting; none takes a tenth of it."""


class Following:
    """A follower at work in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._entries = session.follow()
        self._given: queue.SimpleQueue[Entry | BaseException | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            for entry in self._entries:
                self._given.put(entry)
            self._given.put(None)
        except BaseException as error:
            self._given.put(error)

    def next(self) -> Entry:
        found = self._given.get(timeout=PATIENCE)
        if isinstance(found, BaseException):
            raise found
        assert found is not None, "the following ended"
        return found

    def texts(self, count: int) -> list[str]:
        return [text_of(self.next()) for _ in range(count)]

    def ended(self) -> bool:
        """Whether nothing more was given before the end."""
        return self._given.get(timeout=PATIENCE) is None


def text_of(entry: Entry) -> str:
    content = entry["message"]["content"]
    assert isinstance(content, str)
    return content


@contextmanager
def following(path: Path) -> Iterator[Following]:
    """A session opened to read, followed; nothing but what is asked for was given."""
    with Session.open(path, readonly=True) as session:
        follower = Following(session)
        yield follower
    follower.thread.join(PATIENCE)
    assert follower.ended()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    with Session.create(path, durability="os") as session:
        session.append_message(user("before"))
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of version 1."""
    path = tmp_path / "old.jsonl"
    path.write_bytes(VERSION_1)
    return path


@pytest.fixture
def follower(path: Path) -> Iterator[Following]:
    with following(path) as follower:
        yield follower


@pytest.fixture
def session(path: Path) -> Iterator[Session]:
    """A session opened to read."""
    with Session.open(path, readonly=True) as session:
        yield session


def write_raw(path: Path, block: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(block)


def replace(path: Path, content: bytes) -> None:
    path.with_name("beside").write_bytes(content)
    path.with_name("beside").replace(path)


def line(uuid: str, text: str) -> bytes:
    keys = {"type": "message", "uuid": uuid, "parentUuid": None, "message": user(text)}
    return json.dumps(keys).encode() + b"\n"


def line_1(text: str) -> bytes:
    """A line of version 1."""
    return json.dumps({"type": "message", "message": user(text)}).encode() + b"\n"


def assert_goes_on(path: Path, follower: Following, *texts: str) -> None:
    """What is written now is given, each line before the next is written."""
    for text in texts:
        write_raw(path, line(f"uuid of {text}", text))
        assert follower.texts(1) == [text]


def test_what_others_append_is_given_once_in_order(path: Path, follower: Following) -> None:
    with Session.open(path, durability="os") as writer:
        written = [writer.append_message(user(f"{n}")) for n in range(50)]
        assert [follower.next() for _ in written] == written
        with writer.batch():
            batch = [writer.append_message(user(f"batch {n}")) for n in range(50)]
        assert [follower.next() for _ in batch] == batch


def test_what_was_added_before_the_first_entry_is_asked_for_is_given(
    path: Path, session: Session
) -> None:
    with Session.open(path) as writer:
        early = writer.append_message(user("after the open, before follow()"))
        entries = session.follow()
        late = writer.append_message(user("after follow(), before next()"))
        assert [next(entries), next(entries)] == [early, late]


def test_a_session_follows_itself_from_now_on(path: Path) -> None:
    with Session.open(path, durability="os") as session:
        session.append_message(user("known"))
        entries = session.follow()
        mine = session.append_message(user("mine"))
        assert next(entries) == mine


@pytest.mark.slow
def test_an_entry_between_the_first_look_and_the_watch_is_not_missed(
    path: Path, session: Session
) -> None:
    with Session.open(path) as writer:
        entries = session.follow()
        writer.append_message(user("first"))
        assert text_of(next(entries)) == "first"  # the watch is not started yet
        writer.append_message(user("second"))
        assert text_of(next(entries)) == "second"


def test_half_a_line_is_waited_out(path: Path, follower: Following) -> None:
    whole = line("u1", "slow")
    for byte in range(len(whole)):
        write_raw(path, whole[byte : byte + 1])
    assert follower.texts(1) == ["slow"]
    write_raw(path, line("u2", "next")[:-1])
    write_raw(path, b"\n")
    assert follower.texts(1) == ["next"]


def test_a_torn_end_that_the_next_writer_ends_is_no_entry(path: Path, follower: Following) -> None:
    with Session.open(path, durability="os") as writer:
        write_raw(path, line("torn", "never acknowledged")[:40])
        writer.append_message(user("on a line of its own"))
        assert follower.texts(1) == ["on a line of its own"]


def test_an_end_without_newline_that_was_known_is_not_given_when_it_gets_one(path: Path) -> None:
    write_raw(path, line("open", "whole, but for its newline")[:-1])
    with Session.open(path, readonly=True) as session:
        assert session.leaf.uuid == "open"
    with following(path) as follower, Session.open(path, durability="os") as writer:
        writer.append_message(user("next"))
        assert follower.texts(1) == ["next"]


def test_a_torn_end_that_was_met_is_given_when_it_is_completed(path: Path) -> None:
    whole = line("slow", "slow")
    write_raw(path, whole[:30])
    with following(path) as follower:
        write_raw(path, whole[30:])
        assert follower.texts(1) == ["slow"]


def test_damaged_lines_do_not_stop_it(path: Path, follower: Following) -> None:
    write_raw(path, b"\0\0\0\0\n\xff\xfe\n[1]\n{}\n\n" + line("u1", "sound"))
    assert follower.texts(1) == ["sound"]


def test_a_migrated_file_is_followed_on(old: Path) -> None:
    with following(old) as follower:
        write_raw(old, line_1("three"))
        three = follower.next()
        assert text_of(three) == "three"
        with Session.open(old, durability="os") as writer:
            assert writer.leaf == three
            four = writer.append_message(user("four"))
        assert follower.next() == four


def test_a_version_1_file_gives_whole_lines_only(old: Path) -> None:
    third = line_1("three")[:-1] + b"\r\n"
    with following(old) as follower:
        for part in (third[:20], third[20:-2], third[-2:]):
            write_raw(old, part)
        three = follower.next()
        assert text_of(three) == "three"
        with Session.open(old, readonly=True) as session:
            assert session.leaf.uuid == three.uuid


def test_a_version_1_file_that_was_migrated_before_following_began_gives_nothing_twice(
    old: Path,
) -> None:
    with Session.open(old, readonly=True) as session:
        with Session.open(old, durability="os") as writer:
            new = writer.append_message(user("new"))
        assert next(session.follow()) == new


def test_a_repaired_file_gives_nothing_twice_and_what_the_repair_found(
    path: Path, follower: Following
) -> None:
    with Session.open(path, durability="os") as writer:
        one = writer.append_message(user("one"))
        assert follower.next() == one
        fused = line("f1", "fused one")[:-1] + line("f2", "fused two")
        write_raw(path, b"\0\0\n" + fused)
        assert writer.repair().mended
        two = writer.append_message(user("two"))
        assert [follower.next().uuid for _ in range(3)] == ["f1", "f2", two.uuid]


@pytest.mark.slow
def test_a_file_replaced_twice_between_two_looks_gives_nothing_twice(
    path: Path, session: Session
) -> None:
    entries = session.follow()
    with Session.open(path, durability="os") as writer:
        written = []
        for number in range(3):
            written.append(writer.append_message(user(f"{number}")))
            write_raw(path, b"\n")
            assert writer.repair().mended
    assert [next(entries) for _ in written] == written
    write_raw(path, line("last", "last"))
    assert next(entries).uuid == "last"


def test_entries_that_a_restored_backup_had_lost_are_not_given_again(
    path: Path, follower: Following
) -> None:
    backup = path.read_bytes()
    one, two, three = (line(f"u{n}", text) for n, text in enumerate(("one", "two", "three")))
    write_raw(path, one)
    assert follower.texts(1) == ["one"]
    replace(path, backup + two)
    assert follower.texts(1) == ["two"]
    replace(path, backup + one + two + three)
    assert follower.texts(1) == ["three"]


def test_a_file_replaced_before_following_began_gives_what_is_new_in_it(
    path: Path, session: Session
) -> None:
    longer = path.read_bytes().replace(b"\n", b"\n\n" + b" " * 2000 + b"\n", 1)
    replace(path, longer + line("u1", "new"))
    assert next(session.follow()).uuid == "u1"


def test_a_file_removed_and_made_anew_is_waited_for(path: Path, follower: Following) -> None:
    assert_goes_on(path, follower, "one")
    content = path.read_bytes()
    path.unlink()
    for end in (0, 10, len(content)):
        path.write_bytes(content[:end])
    assert_goes_on(path, follower, "two")


def put_another_session(path: Path) -> None:
    other = path.with_name("other.jsonl")
    with Session.create(other) as stranger:
        stranger.append_message(user("of another session"))
    other.replace(path)


def cut_short(path: Path) -> None:
    os.truncate(path, path.read_bytes().index(b"\n") + 1)


def insert_a_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("r+b") as file:
        file.write(lines[0] + line("u0", "inserted") + lines[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (Path.unlink, SessionNotFoundError, "vanished"),
        (lambda path: shutil.rmtree(path.parent), SessionNotFoundError, "vanished"),
        (put_another_session, FileReplacedError, "another session"),
        (cut_short, FileReplacedError, "rewritten in place"),
        (insert_a_line, FileReplacedError, "rewritten in place"),
    ],
    ids=["gone", "its folder gone", "another session", "cut short", "a line inserted"],
)
def test_a_file_that_is_gone_or_another_one_is_an_error_and_none_of_it_is_given(
    path: Path,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    error: type[Exception],
    match: str,
) -> None:
    monkeypatch.setattr("sessiontree.operations.follow.GONE_SECONDS", 0.0)
    follower = Following(session)
    change(path)
    with pytest.raises(error, match=match):
        follower.next()


def test_a_line_inserted_between_the_look_and_the_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "two-lines.jsonl"
    with Session.create(path) as writer:
        writer.append_message(user("one"))

    class Rewriting(Disk):
        """A disk on which another program is faster by the moment between two calls."""

        is_armed = False

        def size(self, fd: int) -> int:
            if self.is_armed:
                self.is_armed = False
                insert_a_line(path)
            return super().size(fd)

    disk = Rewriting()
    with Session.open(path, readonly=True, fs=disk) as session:
        follower = Following(session)
        disk.is_armed = True
        with pytest.raises(FileReplacedError, match="rewritten in place"):
            follower.next()


@pytest.mark.slow
def test_fifty_megabytes_at_once_are_given_as_any_others(path: Path, follower: Following) -> None:
    with Session.open(path, durability="os") as writer:
        for _ in range(2):
            written = [writer.append_message(user("x" * 25_000_000)).uuid]
            with writer.batch():
                written += [writer.append_message(user("y" * 50_000)).uuid for _ in range(500)]
            assert [follower.next().uuid for _ in written] == written


def test_it_ends_when_the_session_is_closed_by_another_thread(path: Path, session: Session) -> None:
    follower = Following(session)
    assert_goes_on(path, follower, "one")
    session.close()
    assert follower.ended()
    follower.thread.join(PATIENCE)
    assert not follower.thread.is_alive()


def test_damage_that_is_added_is_told_once_and_kept(path: Path) -> None:
    """It was skipped in silence: whoever followed believed to have seen everything."""
    write_raw(path, b"known before\n")
    told: list[Damage] = []
    with Session.open(path, readonly=True) as session:
        entries = session.follow(told.append)
        of_windows = line("u1", "one").replace(b"\n", b"\r\n")
        header = session.header.line + b"\n"
        write_raw(path, b"\n" + b'{"torn":\n' + of_windows + header + line("u2", "two"))
        assert [next(entries).uuid, next(entries).uuid] == ["u1", "u2"]
        expected = [("blank", 4), ("json", 5), ("crlf", 6), ("second header", 7)]
        assert kinds_in(told) == expected
        assert kinds_in(session.damage) == [("json", 3), *expected]
        session.refresh()
        list(session.entries())
        assert kinds_in(session.damage) == [("json", 3), *expected]
        assert [path.read_bytes()[found.offset :][:1] for found in told] == [
            *(b"\n", b"{", b"{", b"{")
        ]


def test_damage_of_a_version_1_file_is_told_only_where_it_was_added(old: Path) -> None:
    write_raw(old, b"known before\n")
    told: list[Damage] = []
    with Session.open(old, readonly=True) as session:
        entries = session.follow(told.append)
        write_raw(old, b"new\n" + line_1("3"))
        assert text_of(next(entries)) == "3"
        assert kinds_in(told) == [("json", 5)]
        assert kinds_in(session.damage) == [("json", 4), ("json", 5)]


def test_damage_told_of_a_file_that_was_repaired_since_is_forgotten(path: Path) -> None:
    told: list[Damage] = []
    with Session.open(path, durability="os") as session:
        entries = session.follow(told.append)
        write_raw(path, b"\n" + line("u1", "one"))
        assert next(entries).uuid == "u1"
        assert [found.kind for found in session.damage] == ["blank"]
        assert session.repair().mended
        assert session.damage == []
        assert [found.kind for found in told] == ["blank"]


def test_what_was_spilled_is_given_whole(path: Path) -> None:
    with Session.open(path, durability="os", spill_over=10) as writer:
        entries = writer.follow()
        writer.append_message(user("much more than that"))
        given = next(entries)
        assert b"much more" not in given.line
        assert text_of(given) == "much more than that"


def open_files() -> set[str]:
    found = set()
    for fd in os.listdir("/dev/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/dev/fd/{fd}"))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files as Linux does")
@pytest.mark.parametrize("started", [False, True])
def test_closing_the_generator_lets_go_of_the_file(
    path: Path, started: bool, session: Session
) -> None:
    entries = session.follow()
    if started:
        write_raw(path, line("u1", "one"))
        next(entries)
    session.reader.log.release()
    assert str(path) in open_files()
    entries.close()  # type: ignore[attr-defined]
    assert str(path) not in open_files()
    with pytest.raises(StopIteration):
        next(entries)


FOLLOW = """
import sys
import watchfiles
from sessiontree import Session
try:
    with Session.open(sys.argv[1], readonly=True) as session:
        entries = session.follow()
        print("ready", flush=True)
        for entry in entries:
            print(entry.uuid, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


@contextmanager
def python(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A process of Python and what it prints; killed at the end."""
    child = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        yield child, child.stdout, child.stderr
    finally:
        child.kill()
        child.wait()


def interrupt(child: subprocess.Popen[str]) -> tuple[str, str, int]:
    """Send Ctrl-C; the rest of the output, the errors, and the exit code."""
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=PATIENCE)
    return out, errors, child.returncode


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 2])
def test_ctrl_c_ends_it(path: Path, count: int) -> None:
    with python("-c", FOLLOW, str(path)) as (child, out, _):
        assert out.readline() == "ready\n"
        for number in range(count):
            write_raw(path, line(f"u{number}", "more"))
            assert out.readline() == f"u{number}\n"
        assert interrupt(child) == ("", "", 130)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_the_command_prints_what_comes_until_ctrl_c(path: Path, options: list[str]) -> None:
    with python("-m", "sessiontree", "follow", str(path), *options) as (child, out, _):
        number = 0
        while not select.select([out], [], [], 0.05)[0]:  # it does not say when it began
            write_raw(path, line(f"uuid-{number}", f"say {number}"))
            number += 1
        shown = [out.readline()]
        write_raw(path, line("uuid-last", "the last \x1b[31m"))
        while "last" not in shown[-1]:
            shown.append(out.readline())
        assert interrupt(child) == ("", "", 130)
    if options:
        texts = [json.loads(row)["message"]["content"] for row in shown]
        assert texts[-1] == "the last \x1b[31m"
    else:
        texts = [row.split("  ")[-1].strip() for row in shown]
    begun = number - len(shown) + 1
    assert texts[:-1] == [f"say {n}" for n in range(begun, number)]
    assert not any("\x1b" in row for row in shown)


@pytest.mark.slow
def test_the_command_reports_damage_that_is_added(path: Path) -> None:
    with python("-m", "sessiontree", "follow", str(path)) as (child, _, errors):
        while not select.select([errors], [], [], 0.05)[0]:  # it does not say when it began
            write_raw(path, b"\x1b[31m garbage\n")
        reported = errors.readline()
        interrupt(child)
    assert reported.startswith(f"{path}, line ")
    assert "the line is not JSON" in reported
    assert "\x1b" not in reported


def test_the_command_warns_where_two_writers_branch(path: Path) -> None:
    with (
        python("-m", "sessiontree", "follow", str(path)) as (child, out, _),
        Session.open(path) as one,
        Session.open(path) as other,
    ):
        while not select.select([out], [], [], 0.05)[0]:  # it does not say when it began
            first = one.append_message(user("begin"))
        one.label(first, "here")
        with other.locked():
            pass
        mine = one.append_message(user("mine"))
        other.branch(first)  # a move on purpose
        other.append_message(user("theirs"))
        one.append_message(user("mine again"))
        with other.locked():
            other.append_message(user("the last"))
        while "the last" not in out.readline():
            pass
        _, told, _ = interrupt(child)
    warned = [row for row in told.splitlines() if row.startswith("Warning: ")]
    assert len(warned) == 1
    assert warned[0].endswith("(user: theirs); that entry is on a side branch now")
    assert str(mine.uuid) not in warned[0]
    assert "is not below the leaf of main, which was" in warned[0]


@pytest.mark.slow
def test_the_command_ends_when_nobody_reads_it_any_more(path: Path) -> None:
    with python("-m", "sessiontree", "follow", str(path)) as (child, out, errors):
        out.close()
        number = 0
        while child.poll() is None:
            write_raw(path, line(f"u{number}", "x"))
            number += 1
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.05)
        assert (errors.read(), child.returncode) == ("", 0)
        errors.close()


@pytest.mark.slow
def test_it_looks_now_and_then_where_there_is_no_watch_to_be_had(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Iterator[object]:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refuse)
    with following(path) as follower:
        assert_goes_on(path, follower, "one", "two")


def test_a_link_to_a_session_is_followed(path: Path) -> None:
    link = path.parent / "elsewhere" / "link.jsonl"
    link.parent.mkdir()
    link.symlink_to(path)
    with following(link) as follower:
        assert_goes_on(path, follower, "one")


def test_following_writes_nothing(path: Path) -> None:
    path.with_name("chat.jsonl.lock").unlink()
    before = path.read_bytes()
    with following(path):
        pass
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["chat.jsonl"]


def test_what_cannot_be_followed_is_refused_at_once(path: Path, session: Session) -> None:
    with Session.create() as in_memory, pytest.raises(UsageError, match="in memory"):
        in_memory.follow()
    path.unlink()
    with pytest.raises(SessionTreeError, match="no file"):
        session.follow()
    session.close()
    with pytest.raises(ReadOnlyError, match="closed"):
        session.follow()
