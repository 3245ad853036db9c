"""repair loses no entry, changes no sound line, and keeps the original."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.core.codec import encode
from sessiontree.engine import repair
from sessiontree.errors import (
    ForeignFormatError,
    MigrationRefusedError,
    ReadOnlyError,
    SessionBusyError,
)
from sessiontree.session import repair_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from sessiontree.storage.memory import MemoryFiles
from tests.support.conversation import user
from tests.support.files import FILE, VERSION_1, content_of, file_of, in_memory, uuids
from tests.support.soak import in_soak
from tests.support.table import for_each

HEADER = encode(
    {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h", "id": "s", "cwd": "/"}
)
_BOM = "removed a byte order mark"
_CR = "removed a CR before the newline"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound session of three messages."""
    path = tmp_path / "chat.jsonl"
    with Session.create(path, cwd="/p", durability="os") as session:
        for text in ("one", "two", "three"):
            session.append_message(user(text))
    return path


def damage(path: Path) -> bytes:
    """Carriage returns, a blank line and a torn end; all entries can still be read."""
    content = path.read_bytes().replace(b"\n", b"\r\n", 2) + b'\n{"type":"mess'
    path.write_bytes(content)
    return content


def test_a_file_that_another_writer_holds_is_not_repaired(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.storage.lock.PATIENCE_SECONDS", 0)
    with Session.open(path, exclusive=True), pytest.raises(SessionBusyError):
        repair_file(path)


def test_a_sound_file_is_left_alone(path: Path) -> None:
    before, inode = path.read_bytes(), path.stat().st_ino
    with Session.open(path) as session:
        assert session.repair() == repair.RepairResult([], None, [])
    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)
    assert {file.name for file in path.parent.iterdir()} == {"chat.jsonl", "chat.jsonl.lock"}


def test_each_mending_names_its_line_and_what_was_done(path: Path) -> None:
    content = damage(path)
    with Session.open(path) as session:
        mended = session.repair().mended
    assert [(found.line, found.what) for found in mended] == [
        *((1, _CR), (2, _CR), (5, "removed a blank line")),
        (6, "removed a torn fragment of 13 bytes"),
    ]
    starts = [0, *(place + 1 for place, byte in enumerate(content) if byte == 10)]
    assert all(found.offset == starts[found.line - 1] for found in mended)


@for_each(
    "before, behind, whats",
    [
        (b"\0\0", b"\0", ["removed 3 NUL bytes"]),
        (b"\0\xef\xbb\xbf\0\xef\xbb\xbf", b"", ["removed 2 NUL bytes", _BOM]),
        (b"", b"\0\r\0\r", ["removed 2 NUL bytes", _CR]),
        (b"\xef\xbb\xbf\0", b"\r", ["removed 1 NUL bytes", _BOM, _CR]),
    ],
)
def test_what_is_around_a_line_is_taken_out(before: bytes, behind: bytes, whats: list[str]) -> None:
    said = user("a mark inside stays: \ufeff")
    entry = encode({"type": "message", "uuid": "a", "parentUuid": "h", "message": said})
    disk = in_memory(file_of(HEADER, before + entry + behind))
    with Session.open(FILE, fs=disk) as session:
        assert [found.what for found in session.repair().mended] == whats
    assert content_of(disk) == file_of(HEADER, entry)


def test_a_dry_run_of_a_file_opened_to_read(path: Path) -> None:
    content = damage(path)
    with Session.open(path, readonly=True) as session:
        assert len(session.repair(dry_run=True).mended) == 4
        with pytest.raises(ReadOnlyError):
            session.repair()
    assert path.read_bytes() == content


def test_a_link_to_a_file_stays_a_link_and_the_evidence_is_where_it_is_said(path: Path) -> None:
    content = damage(path)
    link = path.parent / "elsewhere" / "link.jsonl"
    link.parent.mkdir()
    link.symlink_to(path)
    with Session.open(link) as session:
        done = session.repair()
    assert link.is_symlink()
    assert done.evidence is not None
    assert Path(done.evidence).read_bytes() == content


def test_a_session_goes_on_below_the_entry_it_stood_at(path: Path) -> None:
    damage(path)
    with Session.open(path) as session:
        session.branch("@~1")
        leaf = session.leaf
        session.repair()
        assert session.leaf == leaf
        assert session.append_message(user("four")).parent_uuid == leaf.uuid


def test_what_a_batch_waits_with_is_written_before_a_repair(path: Path) -> None:
    damage(path)
    with Session.open(path) as session:
        with session.batch():
            first = session.append_message(user("waits"))
            session.repair()
            second = session.append_message(user("follows"))
        assert uuids(session)[-2:] == [first.uuid, second.uuid]
    with Session.open(path, readonly=True) as session:
        assert session.leaf.parent_uuid == first.uuid
        assert session.verify() == []


def test_a_reader_with_the_file_open_keeps_reading(path: Path) -> None:
    damage(path)
    with Session.open(path, readonly=True) as reader, Session.open(path) as writer:
        before = uuids(reader)
        writer.repair()
        assert uuids(reader) == before
        assert len(reader.context().messages) == 3
        entry = writer.append_message(user("four"))
        reader.refresh()
        assert uuids(reader) == [*before, entry.uuid]
        assert reader.leaf == entry


def test_another_writer_notices_the_new_file_and_goes_on_below_what_it_saw(path: Path) -> None:
    damage(path)
    with Session.open(path) as one, Session.open(path) as other:
        seen = other.leaf
        one.repair()
        mine = one.append_message(user("mine"))
        theirs = other.append_message(user("theirs"))
        assert theirs.parent_uuid == seen.uuid
        assert mine.parent_uuid == seen.uuid
    with Session.open(path, readonly=True) as session:
        assert uuids(session)[-2:] == [mine.uuid, theirs.uuid]
        assert session.verify() == []


def test_a_writer_that_wrote_behind_a_tear_meanwhile_loses_nothing(path: Path) -> None:
    damage(path)
    with Session.open(path) as one, Session.open(path) as other:
        entry = other.append_message(user("behind the tear"))
        one.repair()
        assert uuids(one)[-1] == entry.uuid
        assert one.verify() == []


def test_a_file_of_version_1_is_to_be_migrated_first(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(VERSION_1)
    refused = pytest.raises(MigrationRefusedError, match="migrate it first")
    with closing(FileLog(DISK, str(path))) as log, refused:
        repair.repair(log)
    with Session.open(path, readonly=True) as session, refused:
        session.repair(dry_run=True)
    assert path.read_bytes() == VERSION_1
    assert list(tmp_path.iterdir()) == [path]


def test_what_an_older_program_appended_counts_again_in_the_context(tmp_path: Path) -> None:
    """It went on after the migration, compacted by its own counting, and was lost to the tree."""
    path = tmp_path / "old.jsonl"
    lines = [b'{"type":"message","message":{"role":"user","content":"%d"}}' % n for n in range(4)]
    path.write_bytes(file_of(VERSION_1.splitlines()[0], *lines))
    Session.open(path).close()
    later = [
        b'{"type":"message","message":{"role":"user","content":"later"}}',
        b'{"type":"compaction","summary":"in short","firstKeptEntryIndex":4,"tokensBefore":9}',
        b'{"type":"message","message":{"role":"user","content":"last"}}',
    ]
    path.write_bytes(path.read_bytes() + file_of(*later))
    with Session.open(path) as session:
        assert session.context().messages[-1]["content"] == "3"
        done = session.repair()
        assert [found.what[:31] for found in done.mended] == ["adopted an entry without a uuid"] * 3
        assert done.remaining == []
        session.switch(uuids(session)[-1])
        contents = [message.get("content") for message in session.context().messages]
        assert contents[-3:] == ["3", "later", "last"]
        assert "0" not in contents


def test_what_a_killed_repair_left_beside_is_taken_away_by_the_next(path: Path) -> None:
    """It is made under the lock, so whoever has the lock knows that nobody is at it."""
    damage(path)
    left = path.with_name("chat.jsonl.4321-0123abcd.tmp")
    names = ["chat.jsonl.tmp", "other.jsonl.4321-0123abcd.tmp", f"{left.name}.jsonl"]
    others = [path.with_name(name) for name in names]
    for file in (left, *others):
        file.write_bytes(b"half a file")
    with Session.open(path) as session:
        session.repair(dry_run=True)
        assert left.exists()
        session.repair()
    assert not left.exists()
    assert all(file.exists() for file in others)


def test_a_session_in_memory_is_sound() -> None:
    with Session.create(cwd="/p") as session:
        session.append_message(user("one"))
        assert session.repair() == repair.RepairResult([], None, [])


def test_verify_tells_how_far_it_is(path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Session.open(path, readonly=True) as session:
        session.verify(lambda done, of: told.append((done, of)))
    size = path.stat().st_size
    assert told[-1] == (size, size)


def test_the_parts_of_one_long_broken_line_are_found_in_one_pass() -> None:
    """Thousands of torn lines and entries without a newline between: it took minutes."""
    entry = encode({"type": "message", "uuid": "a", "message": user("é" * 50)})
    fused = b"".join(entry + entry[:70] for _ in range(3000)) + entry
    disk = in_memory(file_of(HEADER, fused))
    with Session.open(FILE, fs=disk) as session:
        session.repair()
    assert content_of(disk) == file_of(HEADER, *[entry] * 3001)


texts = st.text(st.characters(codec="utf-8"), max_size=12)
steps = st.lists(st.tuples(st.sampled_from(["say", "branch", "label", "compact", "note"]), texts))


def played(disk: MemoryFiles, moves: list[tuple[str, str]]) -> None:
    with Session.create(FILE, cwd="/p", fs=disk, durability="os") as session:
        session.append_message(user("first"))
        for kind, text in moves:
            if kind == "branch":
                session.branch(session.path()[len(text) % len(session.path())])
            elif kind == "label":
                session.label("@", f"label-{len(list(session.entries()))}")
            elif kind == "compact" and len(session.context().messages) > 1:
                session.compact(f"in short: {text}", first_kept="@")
            else:
                session.append("custom" if kind == "note" else "message", **_fields(kind, text))


def _fields(kind: str, text: str) -> dict[str, Any]:
    return {"customType": "note", "data": text} if kind == "note" else {"message": user(text)}


Harm = Callable[[bytes, int, int], bytes]


def _insert(what: bytes) -> Harm:
    return lambda content, at, size: content[:at] + what + content[at:]


HARMS: dict[str, Harm] = {
    "cut": lambda content, at, size: content[:at] + content[at + size :],
    "zero": lambda content, at, size: (
        content[:at] + bytes(len(content[at : at + size])) + content[at + size :]
    ),
    "flip": lambda content, at, size: (
        content[:at] + bytes([content[at] ^ 1 << size % 8]) + content[at + 1 :]
    ),
    "fuse": lambda content, at, size: content[:at] + content[at:].replace(b"\n", b"", 1),
    "double": lambda content, at, size: content[:at] + content[at : at + size * 8] + content[at:],
}
foreign = b'{"type":"message","uuid":"f","parentUuid":"h","message":{"role":"user","content":"f"}}'
old = b'\n{"type":"message","message":{"role":"user","content":"old"}}\n'
inserts = map(_insert, (b"\r", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf", foreign, old))
harm = st.sampled_from([*HARMS.values(), *inserts])
wound = st.tuples(harm, st.integers(0, 1 << 16), st.integers(1, 40))
harms = st.lists(wound, min_size=1, max_size=6)


def harmed(content: bytes, wounds: list[tuple[Harm, int, int]]) -> bytes:
    """The file damaged below its header, without which it would be no session."""
    header, _, rest = content.partition(b"\n")
    for harm, at, size in wounds:
        if rest:
            rest = harm(rest, at % len(rest), size)
    return header + b"\n" + rest


def check_repair(content: bytes) -> None:
    disk = in_memory(content)
    with Session.open(FILE, fs=disk) as session:
        entries = list(session.entries())
        before = [entry.uuid for entry in entries]
        found = session.verify()
        unsound = {damage.offset for damage in found if damage.kind not in _OF_THE_TREE}
        planned = session.repair(dry_run=True)
        assert content_of(disk) == content
        done = session.repair()
        after = uuids(session)
        lines = content_of(disk).split(b"\n")
        remaining = iter(after)
        assert all(uuid in remaining for uuid in before), "an entry that could be read is lost"
        lines_left = iter(lines)
        sound = [entry.line for entry in entries if entry.offset not in unsound]
        assert all(line in lines_left for line in sound), "a sound line was changed"
        assert done.mended == planned.mended
        assert (done.evidence is None) == (done.mended == [])
        if done.evidence is not None:
            assert content_of(disk, done.evidence) == content
        assert session.verify() == done.remaining
        assert not {damage.kind for damage in done.remaining} & {"crlf", "bom", "blank", "open end"}
        repaired = content_of(disk)
        again = session.repair()
        assert (again.mended, again.evidence, again.remaining) == ([], None, done.remaining)
        assert content_of(disk) == repaired
        leaf = session.leaf
        assert session.append_message(user("afterwards")).parent_uuid == leaf.uuid
        session.context()


_OF_THE_TREE = {"missing parent", "late parent", "duplicate", "cycle", "second header", "reference"}
"""Damage of which no line is the cause by itself."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@in_soak("examples", 100, 5_000)
def test_repair_loses_no_entry_and_changes_no_sound_line(examples: int) -> None:
    @settings(deadline=None, max_examples=examples)
    @given(steps, harms)
    def check(moves: list[tuple[str, str]], wounds: list[tuple[Harm, int, int]]) -> None:
        disk = MemoryFiles()
        played(disk, moves)
        check_repair(harmed(content_of(disk), wounds))

    check()


def test_alike_lines_of_an_older_program_are_adopted_each_by_itself(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "p1"})
    line = b'{"type":"x-y"}\n'  # shorter than any entry with a uuid
    with file.open("ab") as opened:
        opened.write(line * 300)
    with Session.open(file) as session:
        session.repair()
        found = session.find(type="x-y")
        assert len({entry.uuid for entry in found}) == 300
        assert [entry.parent_uuid for entry in found[1:]] == [entry.uuid for entry in found[:-1]]
        assert session.verify() == []


def test_a_file_of_another_agent_is_not_repaired(tmp_path: Path) -> None:
    file = tmp_path / "pi.jsonl"
    file.write_text('{"type":"session","version":3,"id":"p","cwd":"/p"}\n{"type":"mess')
    before = file.read_bytes()
    with pytest.raises(
        ForeignFormatError, match="is a file of the pi coding agent, which is never"
    ):
        repair_file(file)
    assert file.read_bytes() == before


def test_relink_joins_an_entry_to_the_one_before_it_and_keeps_the_evidence(path: Path) -> None:
    path.unlink()
    with Session.create(path) as session:
        uuids = [session.append_message({"role": "user", "content": f"say {n}"}) for n in range(4)]
        with session.lane("other") as lane:
            aside = lane.append_message({"role": "user", "content": "aside"})
        last = session.append_message({"role": "user", "content": "last"})
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    lost, after = uuids[1].uuid, uuids[2].uuid
    path.write_bytes(b"".join(line for line in lines if f'"uuid":"{lost}"'.encode() not in line))
    damaged = path.read_bytes()
    with Session.open(path, readonly=True) as session:
        assert [entry.uuid for entry in session.path()] == [after, uuids[3].uuid, last.uuid]
        [plan] = session.repair(dry_run=True, relink=True).mended
        assert session.repair(dry_run=True).mended == []
    done = repair_file(path, relink=True)
    assert done.mended == [plan]
    assert f"joined entry {after} to the one before it, {uuids[0].uuid}" in plan.what
    assert done.remaining == []
    assert Path(str(done.evidence)).read_bytes() == damaged
    with Session.open(path, readonly=True) as session:
        assert [e["message"]["content"] for e in session.path()[1:]] == [
            "say 0",
            "say 2",
            "say 3",
            "last",
        ]
        assert session.entry(after).get("metadata") == {"missingParent": lost}
        assert session.entry(aside.uuid).parent_uuid == aside.parent_uuid
        assert "is missing from the file" in session.context().warnings[0]
    assert repair_file(path, relink=True).mended == []
    kept = set(path.read_bytes().splitlines()) & set(whole.splitlines())
    assert len(kept) == len(lines) - 2
