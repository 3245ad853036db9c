"""What damage to a first line costs: what the header alone said, and not one entry.

One garbled line made a file of thousands of sound entries no session, which could be
neither read nor repaired. Here the header of a session of four entries below it is
damaged in every way feared; a file that is not such a session must not become one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import (
    FileReplacedError,
    ForeignFormatError,
    MissingHeaderError,
    NewerFormatError,
    NotASessionError,
    Session,
    SessionTreeError,
    repair_file,
)
from sessiontree.cli import main
from sessiontree.core.codec import CRC_LENGTH, encode
from sessiontree.core.salvage import LOOK, stand_in
from sessiontree.library.listing import facts_of
from tests.support.conversation import user
from tests.support.files import FILE, Counting, Found, in_memory, kinds_in, uuids
from tests.support.files import file_of as _file
from tests.support.soak import amount
from tests.support.table import for_each

NOON = "2026-01-02T12:00:00.000Z"
FACTS: dict[str, Any] = {"timestamp": NOON, "id": "s", "cwd": "/p", "name": "given"}
OURS = "sessiontree/2"
OPENING: dict[str, Any] = {"type": "session", "version": 2, "format": OURS}
ROOT = encode({**OPENING, "uuid": "root", "parentUuid": None, **FACTS})


def _line(uuid: str, parent: str | None, **fields: Any) -> bytes:
    message = user(f"what {uuid} says")
    fields = fields or {"type": "message", "message": message, "timestamp": NOON}
    return encode({"uuid": uuid, "parentUuid": parent, **fields})


A, B, C, D = (_line(uuid, parent) for parent, uuid in zip(["root", *"abc"], "abcd", strict=True))
BELOW = (A, B, C, D)
ALL = "root a b c d"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


def _resealed(line: bytes, old: bytes, new: bytes) -> bytes:
    """A line with other bytes in it, under the checksum that it had."""
    assert old in line
    return line.replace(old, new)


def _zeroed(length: int) -> bytes:
    return bytes(length) + _file(ROOT, *BELOW)[length:]


class Case(NamedTuple):
    """One row of the table.

    Attributes:
        content: the damaged file.
        readable: the uuids that can be read, the stand-in first.
        found: what `verify` finds.
        remaining: what it finds after a repair.
        kept: the keys of the header that are as they were.
    """

    content: bytes
    readable: str = ALL
    found: Found = [("header", 1)]  # noqa: RUF012
    remaining: Found = []  # noqa: RUF012
    kept: str = ""


FACTS_KEPT = "id cwd name timestamp"

CASES = {
    "garbage in its place": Case(_file(b"garbage", *BELOW)),
    "JSON of something else in its place": Case(_file(b'{"level":"info"}', *BELOW)),
    "torn in the middle": Case(_file(ROOT[:60], *BELOW)),
    "torn, and the next entry in its line": Case(ROOT[:60] + _file(*BELOW)),
    "torn, and all entries in its line": Case(ROOT[:60] + b"".join(BELOW)),
    "garbage, and the header behind it in the line": Case(
        b"xx" + _file(ROOT, *BELOW), kept=FACTS_KEPT
    ),
    "garbage in front of it": Case(
        _file(b"$ cat chat", b"", ROOT, *BELOW),
        found=[("header", 1), ("blank", 2)],
        kept=FACTS_KEPT,
    ),
    "removed": Case(_file(*BELOW)),
    "removed, with the first entries": Case(_file(C, D), "b c d"),
    "removed, and the first entry damaged": Case(
        _file(_resealed(A, b"says", b"sayz"), B, C, D),
        found=[("crc", 1), ("header", 1)],
        remaining=[("crc", 2)],
    ),
    "zeroed": Case(_zeroed(len(ROOT)), found=[("nul", 1), ("header", 2)]),
    "zeroed with its newline": Case(_zeroed(len(ROOT) + 1), found=[("header", 1), ("nul", 1)]),
    "zeroed with a part of the next entry": Case(_zeroed(len(ROOT) + 60), "a b c d"),
    "zeroed up to a later line": Case(
        _zeroed(len(_file(ROOT, A))), "a b c d", [("header", 1), ("nul", 1)]
    ),
    "zeroed in a line of its own": Case(
        _file(bytes(4096), *BELOW), found=[("nul", 1), ("header", 2)]
    ),
    "its first byte flipped": Case(_file(b"\xfb" + ROOT[1:], *BELOW)),
    "its type damaged": Case(
        _file(_resealed(ROOT, b'"session"', b'"sessiom"'), *BELOW), kept=FACTS_KEPT
    ),
    "the key of its uuid damaged": Case(
        _file(_resealed(ROOT, b'"uuid"', b'"uuie"'), *BELOW), kept=FACTS_KEPT
    ),
    "its format damaged": Case(
        _file(_resealed(ROOT, b"sessiontree/2", b"sessionuree/2"), *BELOW), kept=FACTS_KEPT
    ),
    "its format damaged to a newer one": Case(
        _file(_resealed(ROOT, b"sessiontree/2", b"sessiontree/3"), *BELOW), kept=FACTS_KEPT
    ),
    "its name no text": Case(
        _file(_resealed(ROOT, b"given", b"g\xff\n\x00n"), *BELOW),
        found=[("header", 1), ("json", 2), ("nul", 2)],
        remaining=[("json", 2)],
    ),
}


@for_each("case", CASES.values(), ids=CASES)
def test_what_is_behind_a_damaged_header_is_read_and_the_damage_named(
    case: Case, path: Path, tmp_path: Path
) -> None:
    path.write_bytes(case.content)
    starts = [0, *(place + 1 for place, byte in enumerate(case.content) if byte == 10)]
    with Session.open(path, readonly=True) as session:
        assert " ".join(uuids(session)) == case.readable
        assert " ".join(entry.uuid for entry in session.path()) == case.readable
        assert [kinds_in(session.verify()), kinds_in(session.damage)] == [case.found] * 2
        assert all(found.offset == starts[found.line - 1] for found in session.verify())
        for key in case.kept.split():
            assert session.header[key] == FACTS[key]
        assert session.file == str(path)
    listed = facts_of(str(path))
    assert (listed.id, listed.cwd) == (("s", "/p") if case.kept else ("", None))
    assert path.read_bytes() == case.content
    assert list(tmp_path.iterdir()) == [path]


@for_each("case", CASES.values(), ids=CASES)
def test_a_damaged_header_is_repaired_once_and_the_session_goes_on(case: Case, path: Path) -> None:
    path.write_bytes(case.content)
    with Session.open(path, readonly=True) as session:
        header, planned = session.header, session.repair(dry_run=True)
        assert kinds_in(planned.remaining) == case.found
    with pytest.raises(MissingHeaderError, match=r"repair the file first.*readonly=True"):
        Session.open(path)
    assert path.read_bytes() == case.content
    done = repair_file(path)
    assert done.mended == planned.mended
    assert kinds_in(done.remaining) == case.remaining
    assert done.evidence is not None
    assert Path(done.evidence).read_bytes() == case.content
    repaired = path.read_bytes()
    assert repaired.startswith(header.line + b"\n")
    assert [line for line in repaired.split(b"\n") if line in BELOW] == [
        line for line in BELOW if line in case.content
    ]
    assert (repair_file(path).mended, path.read_bytes()) == ([], repaired)
    with Session.open(path) as session:
        assert kinds_in(session.verify()) == case.remaining
        entry = session.append_message(user("afterwards"))
        assert (entry.parent_uuid, " ".join(uuids(session))) == (
            "d",
            f"{case.readable} {entry.uuid}",
        )


def test_the_header_of_another_file_behind_is_not_taken_for_the_lost_one(path: Path) -> None:
    other = encode({**OPENING, "uuid": "other", "parentUuid": None, **FACTS})
    path.write_bytes(_file(b"garbage", *BELOW, other, _line("x", "other")))
    for _ in range(2):
        with Session.open(path, readonly=True) as session:
            assert " ".join(uuids(session)) == f"{ALL} x"
            assert [entry.uuid for entry in session.path("d")] == ALL.split()
            assert session.id == ""
        repair_file(path)


def test_a_header_behind_its_entries_stays_their_root(path: Path) -> None:
    path.write_bytes(_file(b"garbage", A, ROOT, B, C, D))
    for found in (["header", "second header"], ["second header"]):
        with Session.open(path, readonly=True) as session:
            assert [entry.uuid for entry in session.path()] == ALL.split()
            assert [each.kind for each in session.verify()] == found
        repair_file(path)


def test_a_lost_header_of_a_file_with_carriage_returns_is_repaired_with_them(path: Path) -> None:
    path.write_bytes(_file(b"garbage", *BELOW).replace(b"\n", b"\r\n"))
    assert repair_file(path).remaining == []
    assert path.read_bytes().endswith(_file(*BELOW))


def _check_nothing_else_is_lost(damaged: bytes) -> None:
    disk = in_memory(damaged + b"\n" + _file(*BELOW))
    with Session.open(FILE, readonly=True, fs=disk) as session:
        read = {entry.uuid: entry for entry in session.entries()}
        assert [read[uuid].line for uuid in "abcd"] == list(BELOW)
        assert session.leaf.uuid == "d"
        assert len(session.context().messages) == 4
    repair_file(FILE, fs=disk)
    with Session.open(FILE, fs=disk) as session:
        entry = session.append_message(user("on"))
        assert entry.parent_uuid == "d"
        assert " ".join(uuids(session)).endswith(f"a b c d {entry.uuid}")
    assert repair_file(FILE, fs=disk).mended == []


def test_no_flipped_bit_in_a_header_costs_an_entry() -> None:
    for place in range(len(ROOT)):
        bit = 1 << (place % 8)
        _check_nothing_else_is_lost(ROOT[:place] + bytes([ROOT[place] ^ bit]) + ROOT[place + 1 :])


def _damaged() -> st.SearchStrategy[bytes]:
    """A first line of any bytes, or a header of which some were lost or overwritten."""
    places = st.integers(0, len(ROOT))

    def hit(start: int, end: int, instead: bytes) -> bytes:
        return ROOT[: min(start, end)] + instead + ROOT[max(start, end) :]

    instead = st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(bytes))
    return st.one_of(st.binary(max_size=80), st.builds(hit, places, places, instead))


def _names_another_format(line: bytes) -> bool:
    """Whether a line is a header that says so and shows no damage, or starts a Zstandard frame."""
    if line.startswith(b"\x28\xb5\x2f\xfd"):
        return True
    try:
        keys = json.loads(line)
    except ValueError:
        return False
    is_header = isinstance(keys, dict) and keys.get("type") == "session" and "crc" not in keys
    return is_header and (keys.get("format", OURS) != OURS or keys.get("version", 2) not in (1, 2))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150))
@given(_damaged().filter(lambda line: not _names_another_format(line)))
@example(b'{"type":"session","version":2}')
@example(b'{"type":"session","id":"s"}')
@example(b'{"type":"session","":2,"format":"\x80"}')
@example(b'{"type":"session","format":"sessiontree/\xff","uuid":"root"}')
@example(b'\0\0{"type":"session","format":"another","uuid":"root"}')
@example(b"\x28\xb5\x2f\xfd")
def test_no_damage_of_a_first_line_costs_an_entry_behind_it(damaged: bytes) -> None:
    """Some of what is left looks like a header of pi, or of version 1, which was migrated."""
    _check_nothing_else_is_lost(damaged)


NO_EVIDENCE = {
    "a wrong checksum": _resealed(A, b"says", b"sayz"),
    "no checksum": A[:-CRC_LENGTH] + b"}",
    "no parent": _line("a", None),
    "no time": _line("a", "root", type="message", message=user("hi")),
    "a quotation of one": b'{"said":%b}' % json.dumps(A.decode()).encode(),
    "one behind a prompt": b"$ cat: " + A,
    "zeros": bytes(300),
}


NEWER = {**OPENING, "uuid": "root", "parentUuid": None, **FACTS, "format": "sessiontree/3"}
REFUSED: dict[str, tuple[type[SessionTreeError], bytes]] = {
    **{
        what: (NotASessionError, _file(b"garbage", line, line))
        for what, line in NO_EVIDENCE.items()
    },
    "an entry further on than is looked": (NotASessionError, _file(b"x" * LOOK, *BELOW)),
    "nothing": (NotASessionError, b""),
    "blank lines": (NotASessionError, b"\n \n"),
    "zeros alone": (NotASessionError, bytes(5000)),
    "a line of zeros": (NotASessionError, bytes(100) + b"\n"),
    "a newer format": (NewerFormatError, _file(encode(NEWER), *BELOW)),
    "a newer format, unsealed": (NewerFormatError, _file(json.dumps(NEWER).encode(), *BELOW)),
    **{
        format: (ForeignFormatError, _file(encode({**NEWER, "format": format}), *BELOW))
        for format in ("diary/1", "sessionuree/2")
    },
}


@for_each("what", list(REFUSED))
def test_what_is_not_a_session_with_a_damaged_header_is_refused_and_stays_as_it_is(
    path: Path, what: str
) -> None:
    """Reading, repair and listing refuse it."""
    error, content = REFUSED[what]
    path.write_bytes(content)
    uses: list[Callable[[], object]] = [
        lambda: Session.open(path),
        lambda: Session.open(path, readonly=True),
        lambda: repair_file(path),
        lambda: facts_of(str(path)),
    ]
    for use in uses:
        with pytest.raises(error):
            use()
    assert path.read_bytes() == content
    assert [each for each in path.parent.iterdir() if not each.name.endswith(".lock")] == [path]


def test_an_archive_of_what_was_taken_out_has_lost_no_header() -> None:
    assert stand_in(_file(*BELOW), "chat.jsonl.archive-2026-01-02", is_whole=True) is None
    assert stand_in(_file(*BELOW), "chat.jsonl", is_whole=True) is not None


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(300))
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(list(NO_EVIDENCE.values())))))
def test_text_of_any_kind_is_no_session(lines: list[bytes]) -> None:
    assert stand_in(b"\n".join(lines), "chat.jsonl", is_whole=True) is None


@pytest.mark.slow
def test_a_list_reads_no_more_than_the_ends_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "2026-01-02T12-00-00-000Z_abc-1.jsonl"
    filling = b"".join(_line(str(n), "a", type="x", timestamp=NOON) + b"\n" for n in range(36_000))
    named = _line("n", "a", type="session_info", name="renamed", timestamp=NOON)
    path.write_bytes(_file(b"garbage", A) + filling + _file(named, B))
    assert path.stat().st_size > 3 * LOOK
    disk = Counting()
    listed = facts_of(str(path), disk)
    assert (listed.id, listed.created, listed.name) == ("abc-1", NOON, "renamed")
    assert listed.first_message == "what a says"
    assert disk.bytes_read < 2 * LOOK
    with Session.open(path, readonly=True) as session:
        assert (session.id, session.name, session.header.uuid) == ("abc-1", "renamed", "root")


def test_a_reader_sees_what_is_added_and_goes_on_after_the_repair(path: Path) -> None:
    path.write_bytes(_file(b"garbage", A, B))
    with Session.open(path, readonly=True) as session, session.lane("main") as lane:
        assert lane.leaf.uuid == "b"
        with path.open("ab") as appending:
            appending.write(_file(C))
        session.refresh()
        assert " ".join(uuids(session)) == "root a b c"
        repair_file(path)
        with Session.open(path) as writer:
            entry = writer.append_message(user("on"))
        session.refresh()
        assert " ".join(uuids(session)) == f"root a b c {entry.uuid}"
        assert session.damage == []
        assert " ".join(uuids(lane)) == "root a b"


@pytest.mark.slow
def test_what_is_added_is_followed_through_the_repair(path: Path) -> None:
    path.write_bytes(_file(b"garbage", A, B))
    with Session.open(path, readonly=True) as session:
        following = session.follow()  # which ends with the session
        with path.open("ab") as appending:
            appending.write(_file(C))
        assert next(following).uuid == "c"
        repair_file(path)
        with Session.open(path) as writer:
            entry = writer.append_message(user("on"))
        assert next(following).uuid == entry.uuid


def test_the_commands_read_and_find_and_mend_it(path: Path, tmp_path: Path) -> None:
    path.write_bytes(_file(b"garbage", *BELOW))

    def run(*command: str, exit: int = 0) -> str:
        done = CliRunner().invoke(main, list(command))
        assert done.exit_code == exit, done.output
        return done.stdout if exit == 0 else done.output

    for command in ("show", "path", "context", "tree", "branches", "stats"):
        run(command, str(path))
    assert "what d says" in run("context", str(path), "--json")
    assert "what a says" in run("ls", str(tmp_path))
    for current in ([], ["--current"]):
        hits = run("search", "says", str(path), "--json", *current)
        assert [json.loads(hits)[n]["ref"] for n in range(4)] == ["a", "b", "c", "d"]
    refused = run("append", str(path), "--text", "no", exit=1)
    assert f"sessiontree repair {path}" in refused
    assert "garbage" in path.read_text()
    run("verify", str(path), exit=1)
    mended = json.loads(run("repair", str(path), "--json"))
    assert [each["line"] for each in mended["mended"]] == [1]
    assert Path(mended["original"]).read_bytes() == _file(b"garbage", *BELOW)
    run("verify", str(path))
    assert json.loads(run("repair", str(path), "--json"))["mended"] == []
    run("append", str(path), "--text", "yes")


def test_a_refresh_refuses_another_file_without_a_header(path: Path) -> None:
    garbled = ROOT[:-30]
    path.write_bytes(_file(garbled, *BELOW))
    with Session.open(path, readonly=True) as session:
        path.with_name("other").write_bytes(_file(garbled, A, B))
        path.with_name("other").replace(path)
        with pytest.raises(FileReplacedError):
            session.refresh()
        assert session.leaf.uuid == "d"
