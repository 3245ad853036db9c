"""The corruption table: what each kind of damage costs, what is said of it, what repair does.

A session of five entries, `root` to `d`, each below the one before, is damaged in
every way that has been seen or feared. For each, the table names who can still be
read, what `verify` finds and where, who can be read after `repair`, and what
remains. In every case reading changes nothing, the evidence is the file as it was,
a second repair changes nothing, and the session takes the next entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sessiontree import Session
from sessiontree.core.codec import CRC_LENGTH, encode
from sessiontree.core.damage import Damage
from sessiontree.core.migrate import uuid_of_line
from sessiontree.errors import NotASessionError
from sessiontree.storage.memory import MemoryFiles
from tests.support.conversation import user
from tests.support.files import FILE, Found, Record, content_of, in_memory, kinds_in, uuids
from tests.support.files import file_of as _file
from tests.support.soak import in_soak
from tests.support.table import for_each


def _line(uuid: str, parent: str | None, **fields: Any) -> bytes:
    message = user(f"what {uuid} says, at some length")
    fields = fields or {"type": "message", "message": message}
    return encode({"uuid": uuid, "parentUuid": parent, **fields})


def _unsealed(uuid: str, parent: str, text: str) -> bytes:
    """An entry as another program writes it."""
    keys = {"uuid": uuid, "type": "message", "parentUuid": parent}
    return json.dumps(keys | {"message": user(text)}).encode()


OPENING = {"type": "session", "version": 2, "format": "sessiontree/2"}
ROOT = encode({**OPENING, "uuid": "root", "parentUuid": None, "id": "s", "cwd": "/p"})
A, B, C, D = (_line(uuid, parent) for parent, uuid in zip(["root", *"abc"], "abcd", strict=True))
OTHER = ROOT.replace(b'"root"', b'"other"')[: -CRC_LENGTH - 1] + b'"}'
LINES = (ROOT, A, B, C, D)
ALL = "root a b c d"

OLDER = b'{"type":"message","message":{"role":"user","content":"from an older program"}}'
OLDER_UUID = uuid_of_line("s", 5, OLDER)


def _flipped(line: bytes, at: bytes, bit: int = 1) -> bytes:
    """The line with one bit of its first `at` flipped."""
    place = line.index(at)
    return line[:place] + bytes([line[place] ^ bit]) + line[place + 1 :]


def _zeroed(line: bytes, start: int, length: int) -> bytes:
    return line[:start] + bytes(length) + line[start + length :]


class Case(NamedTuple):
    """One row of the table.

    Attributes:
        content: the damaged file.
        readable: the uuids that can be read, in file order.
        found: what `verify` finds.
        mended: the uuids that can be read after `repair`; None where it changes nothing.
        remaining: what it finds then.
    """

    content: bytes
    readable: str
    found: Found
    mended: str | None = None
    remaining: Found = []  # noqa: RUF012


def _stays(content: bytes, readable: str, found: Found) -> Case:
    """Damage that nothing can mend without guessing."""
    return Case(content, readable, found, None, found)


B_LOST: Found = [("json", 3), ("missing parent", 4)]
C_LOST: Found = [("json", 4), ("missing parent", 5)]
CASES = {
    "nothing": _stays(_file(*LINES), ALL, []),
    "a flipped bit in the text": _stays(
        _file(ROOT, A, B, _flipped(C, b"says"), D), ALL, [("crc", 4)]
    ),
    "a flipped bit in the checksum": _stays(
        _file(ROOT, A, B, C[:-10] + b"00000000" + C[-2:], D), ALL, [("crc", 4)]
    ),
    "a flipped bit in a quotation mark": _stays(
        _file(ROOT, A, B, _flipped(C, b'"what'), D), "root a b d", C_LOST
    ),
    "a flipped bit in the last quotation mark": _stays(
        _file(ROOT, A, B, C, D[:-2] + b"#}"), "root a b c", [("json", 5)]
    ),
    "a flipped bit in a newline": Case(_file(ROOT, A, B + b"\x0b" + C, D), "root a d", B_LOST, ALL),
    "a newline flipped into something that is no space": Case(
        _file(ROOT, A, B + b"J" + C, D), "root a d", B_LOST, ALL, [("json", 4)]
    ),
    "a flipped bit that makes a newline": Case(
        _file(ROOT, A, B, C.replace(b"some length", b"some\nlength"), D),
        "root a b d",
        [("json", 4), ("json", 5), ("missing parent", 6)],
        "root a b d",
        C_LOST,
    ),
    "a tail of zeros": Case(_file(*LINES) + bytes(4096), ALL, [("nul", 6)], ALL),
    "a tail of zeros in a torn line": Case(
        _file(ROOT, A, B, C) + D[:40] + bytes(100),
        "root a b c",
        [("nul", 5), ("torn", 5)],
        "root a b c",
    ),
    "zeros and then entries": Case(
        _file(ROOT, A, B) + bytes(512) + _file(C, D), ALL, [("nul", 4)], ALL
    ),
    "zeros inside a line": _stays(_file(ROOT, A, B, _zeroed(C, 30, 8), D), "root a b d", C_LOST),
    "zeros over the end of one line and the start of the next": _stays(
        _zeroed(_file(*LINES), len(_file(ROOT, A, B)) - 20, 40), "root a d", B_LOST
    ),
    "zeros between fused lines": Case(
        _file(ROOT, A, B + bytes(512) + C, D), "root a d", B_LOST, ALL
    ),
    "a duplicated line": _stays(_file(ROOT, A, B, C, C, D), "root a b c c d", [("duplicate", 5)]),
    "a deleted line": _stays(_file(ROOT, A, C, D), "root a c d", [("missing parent", 3)]),
    "swapped lines": _stays(_file(ROOT, A, C, B, D), "root a c b d", [("late parent", 3)]),
    "fused lines": Case(_file(ROOT, A, B + C, D), "root a d", B_LOST, ALL),
    "all lines fused": Case(_file(ROOT, A + B + C + D), "root", [("json", 2)], ALL),
    "a header and the first entry fused": Case(
        _file(ROOT + A, B, C, D), "root b c d", [("json", 1), ("missing parent", 2)], ALL
    ),
    "a header and a torn line fused": Case(
        _file(ROOT + A[:50], B, C, D),
        "root b c d",
        [("json", 1), ("missing parent", 2)],
        "root b c d",
        [("missing parent", 2)],
    ),
    "a header and an entry fused by zeros": Case(
        b"\xef\xbb\xbf" + _file(ROOT + bytes(64) + A, B, C, D),
        "root b c d",
        [("bom", 1), ("json", 1), ("missing parent", 2)],
        ALL,
    ),
    "a torn line and another writer's entry behind it": Case(
        _file(ROOT, A, B, C[:50] + _unsealed("d", "b", "hi")),
        "root a b",
        [("json", 4)],
        "root a b d",
    ),
    "a torn line and an entry of ours behind it": Case(
        _file(ROOT, A, B[:-30] + C, D), "root a d", B_LOST, "root a c d", [("missing parent", 3)]
    ),
    "a line torn inside a character and an entry behind it": Case(
        _file(ROOT, A, B) + _unsealed("c", "b", "é").replace(b"\\u00e9", b"\xc3")[:-3] + D + b"\n",
        "root a b",
        [("json", 4)],
        "root a b d",
        [("missing parent", 4)],
    ),
    "a torn line, zeros, and an entry behind it": Case(
        _file(ROOT, A, B, C[:70] + bytes(300) + _unsealed("d", "b", "hi")),
        "root a b",
        [("json", 4)],
        "root a b d",
    ),
    "a torn line and what may be a value of it": _stays(
        _file(ROOT, A, b'{"type":"message","uuid":"b","message":' + _unsealed("c", "a", "hi"), D),
        "root a d",
        B_LOST,
    ),
    "a torn line that quotes an entry": _stays(
        _file(ROOT, A, b'{"type":"custom","uuid":"b","data":' + B), "root a", [("json", 3)]
    ),
    "an entry and a torn line behind it": Case(
        _file(ROOT, A, B, C) + D + D[:50], "root a b c", [("torn", 5)], ALL
    ),
    "a torn line": Case(_file(ROOT, A, B, C) + D[:-1], "root a b c", [("torn", 5)], "root a b c"),
    "a torn line that was gone past": Case(
        _file(ROOT, A, B[:60], C, D), "root a c d", B_LOST, "root a c d", [("missing parent", 3)]
    ),
    "a missing last newline": Case(_file(*LINES)[:-1], ALL, [("open end", 5)], ALL),
    "carriage returns": Case(
        b"".join(line + b"\r\n" for line in LINES), ALL, [("crlf", n) for n in range(1, 6)], ALL
    ),
    "a byte order mark": Case(b"\xef\xbb\xbf" + _file(*LINES), ALL, [("bom", 1)], ALL),
    "a byte order mark in the middle": Case(
        _file(ROOT, A, B) + b"\xef\xbb\xbf" + _file(C, D), ALL, [("bom", 4)], ALL
    ),
    "blank lines": Case(
        _file(ROOT, A, b"", b"  ", B, C, D), ALL, [("blank", 3), ("blank", 4)], ALL
    ),
    "invalid UTF-8": _stays(
        _file(ROOT, A, B, _unsealed("c", "b", "x@y").replace(b"@", b"\xff"), D), ALL, [("utf-8", 4)]
    ),
    "invalid UTF-8 under a checksum": _stays(
        _file(ROOT, A, B, C.replace(b" at ", b"\xc3\x28\xa0\xa1"), D),
        ALL,
        [("crc", 4), ("utf-8", 4)],
    ),
    "lone surrogates, as Node writes them": _stays(
        _file(ROOT, A, B, _unsealed("c", "b", "cut \ud83d off"), D), ALL, []
    ),
    "a circle of parents": _stays(_file(ROOT, A, _line("b", "c"), C, D), ALL, [("cycle", 3)]),
    "an entry that is its own parent": _stays(
        _file(ROOT, A, _line("b", "b"), C, D), ALL, [("cycle", 3)]
    ),
    "one uuid for two entries": _stays(
        _file(ROOT, A, B, _line("b", "a", type="branch"), C, D),
        "root a b b c d",
        [("duplicate", 4)],
    ),
    "an entry without a parent": _stays(
        _file(ROOT, A, _line("b", None), C, D), ALL, [("missing parent", 3)]
    ),
    "two files joined": _stays(_file(*LINES, OTHER), ALL, [("second header", 6)]),
    "an entry of an older program": Case(
        _file(*LINES, OLDER), ALL, [("no uuid", 6)], f"{ALL} {OLDER_UUID}"
    ),
    "JSON that is no object": _stays(
        _file(ROOT, A, b"[1, 2]", b"null", B, C, D), ALL, [("object", 3), ("object", 4)]
    ),
    "garbage": _stays(_file(ROOT, A, b"\x80\xff\x00\x01", B, C, D), ALL, [("json", 3)]),
    "NaN": _stays(_file(ROOT, A, B.replace(b'"what', b'NaN,"'), C, D), "root a c d", B_LOST),
    "a reference to nothing": _stays(
        _file(*LINES, _line("l", "d", type="label", targetUuid="gone", label="x")),
        f"{ALL} l",
        [("reference", 6)],
    ),
}


def _check_places(damage: list[Damage], content: bytes) -> None:
    """Each finding names the first byte of the line that it numbers."""
    starts = [0, *(place + 1 for place, byte in enumerate(content) if byte == 10)]
    assert [found.offset for found in damage] == [starts[found.line - 1] for found in damage]


@for_each("case", CASES.values(), ids=CASES)
def test_damage_is_named_and_costs_what_the_table_says(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(case.content)
    with Session.open(path, readonly=True) as session:
        assert " ".join(uuids(session)) == case.readable
        list(session.tree())
        met = session.damage
        found = session.verify()
        assert kinds_in(found) == case.found
        assert session.context().leaf.uuid == case.readable.split()[-1]
    _check_places(found, case.content)
    unseen = {"open end", "reference"}  # of which only `verify` speaks
    assert kinds_in(met) == [(kind, line) for kind, line in case.found if kind not in unseen]
    assert all(str(path) in str(finding) and "\n" not in str(finding) for finding in found)
    assert path.read_bytes() == case.content
    assert list(tmp_path.iterdir()) == [path]


@for_each("case", CASES.values(), ids=CASES)
def test_repair_does_what_the_table_says_and_nothing_twice(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(case.content)
    with Session.open(path, durability="os") as session:
        planned = session.repair(dry_run=True)
        assert list(tmp_path.iterdir()) == [path]
        done = session.repair()
        assert done.mended == planned.mended
        assert kinds_in(done.remaining) == case.remaining
        assert kinds_in(session.verify()) == case.remaining
        if case.mended is None:
            assert done.evidence is None
            assert done.mended == []
            assert path.read_bytes() == case.content
        else:
            assert done.evidence is not None
            assert Path(done.evidence).read_bytes() == case.content
            assert Path(done.evidence).parent == path.parent
            assert not done.evidence.endswith(".jsonl")
            assert " ".join(uuids(session)) == case.mended
        repaired = path.read_bytes()
        again = session.repair()
        assert (again.mended, again.evidence) == ([], None)
        assert again.remaining == done.remaining
        assert path.read_bytes() == repaired
        entry = session.append_message(user("afterwards"))
    with Session.open(path, readonly=True) as session:
        assert session.leaf == entry
        assert " ".join(uuids(session)) == f"{case.mended or case.readable} {entry.uuid}"


@for_each("case", CASES.values(), ids=CASES)
def test_repair_carries_every_sound_line_over_byte_for_byte(case: Case) -> None:
    before = case.content.split(b"\n")
    disk, session = _opened(case.content)
    with session:
        lines = [entry.line for entry in session.entries()]
        sound = [line for line in lines if line in LINES and line in before]
        session.repair()
    after = content_of(disk).split(b"\n")
    assert [line for line in before if line in sound] == [line for line in after if line in sound]


def _opened(content: bytes, *, readonly: bool = False) -> tuple[MemoryFiles, Session]:
    disk = in_memory(content)
    return disk, Session.open(FILE, fs=disk, readonly=readonly)


@for_each("end", [b"\n", b""])
def test_a_file_whose_header_is_fused_with_all_the_rest_opens_and_is_mended(
    end: bytes, tmp_path: Path
) -> None:
    """It was no session any more, and what cannot be opened cannot be repaired."""
    path = tmp_path / "chat.jsonl"
    content = b"".join(LINES) + end
    path.write_bytes(content)
    with Session.open(path, readonly=True) as session:
        assert (session.id, session.leaf.uuid) == ("s", "root")
        assert [found.line for found in session.damage] == [1]
        assert " ".join(uuids(session)) == "root"
        assert len(list(session.render())) == 1
        assert session.context().messages == []
        assert path.read_bytes() == content
    with Session.open(path, durability="os") as session:
        entry = session.append_message(user("before the repair"))
        assert entry.parent_uuid == "root"
        assert path.read_bytes().startswith(content)
        assert session.repair().remaining == []
        assert " ".join(uuids(session)) == f"{ALL} {entry.uuid}"
        assert session.leaf == entry


def test_a_fused_header_of_version_1_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    content = b'{"type":"session","id":"old"}' + OLDER + b"\n" + OLDER + b"\n"
    path.write_bytes(content)
    for readonly in (True, False):
        with pytest.raises(NotASessionError, match=r"version 1.*on a line of its own"):
            Session.open(path, readonly=readonly)
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".jsonl"] == ["old.jsonl"]
    assert path.read_bytes() == content


def _flips(line: bytes) -> Iterator[tuple[int, bytes]]:
    for place in range(len(line)):
        for bit in range(8):
            yield place, line[:place] + bytes([line[place] ^ 1 << bit]) + line[place + 1 :]


def test_no_flipped_bit_of_a_sealed_line_gives_other_content_in_silence(
    record_property: Record,
) -> None:
    """A flip in the seal itself may leave the line unverifiable, with all its content."""
    seal = len(C) - CRC_LENGTH
    whole = json.loads(C)
    flips = 0
    for place, flipped in _flips(C):
        flips += 1
        _, session = _opened(_file(ROOT, A, B, flipped, D), readonly=True)
        with session:
            kinds = {found.kind for found in session.verify() if found.line in (4, 5)}
            if kinds & {"crc", "json", "nul", "no uuid", "object", "blank"}:
                continue
            assert place >= seal, f"bit flip at {place} is not reported: {flipped!r}"
            read = session.entry("c")
            kept = {key: read[key] for key in read if key in whole and key != "crc"}
            assert kept == {key: whole[key] for key in whole if key != "crc"}
    assert flips == len(C) * 8
    record_property("flipped bits", flips)


@pytest.mark.slow
def test_repair_of_a_flipped_bit_drops_no_other_entry() -> None:
    for _, flipped in _flips(C[:120]):
        line = flipped + C[120:]
        disk, session = _opened(_file(ROOT, A, B, line, D))
        with session:
            before = [entry.line for entry in session.entries()]
            session.repair()
            after = [entry.line for entry in session.entries()]
            assert [entry for entry in after if entry in before] == before
            again = session.repair()
            assert again.mended == []
        lines = content_of(disk).split(b"\n")
        assert b"\n" in flipped or b"".join(lines[3:-2]).strip(b"\0\r") == line.strip(b"\0\r")


def test_every_tear_with_an_entry_behind_it_gives_the_entry_back(record_property: Record) -> None:
    """But where a value may stand: there the line stays, and is named."""
    tears = kept = 0
    line = _line("b", "a", type="message", message=user('é \\ "q" [{1,'), n=[-1.5, True])
    for behind in (C, _unsealed("c", "b", "hi"), b'{ "uuid":"c", "type":"message" }'):
        for end in range(1, len(line)):
            tears += 1
            torn = line[:end]
            disk, session = _opened(_file(ROOT, A, torn + behind))
            with session:
                session.repair()
                lines = content_of(disk).splitlines()
            if _takes_a_value(torn):
                kept += 1
                assert lines[2:] == [torn + behind]
            else:
                assert lines[2:] == [behind]
    record_property("tears", tears)
    assert 0 < kept < tears / 10


def _takes_a_value(torn: bytes) -> bool:
    """Whether the beginning of an object could go on with an object as a value."""
    closers = '"', "}", "]}", "}}", "]}}"
    text = torn.decode("utf-8", "replace")
    return any(_is_json(text + "{}" + closer) for closer in closers[1:])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@in_soak("size", 5_000_000, 50_000_000)
def test_a_large_line_is_read_torn_and_mended_like_any_other(tmp_path: Path, size: int) -> None:
    content = [{"type": "text", "text": "x" * 500} for _ in range(size // 520)]
    long = _line("b", "a", type="message", message=user(content))
    assert len(long) > size
    path = tmp_path / "chat.jsonl"
    path.write_bytes(_file(ROOT, A, long + C, D) + long[:1000])
    with Session.open(path, durability="os") as session:
        assert kinds_in(session.verify()) == [("json", 3), ("missing parent", 4), ("torn", 5)]
        session.repair()
        assert session.verify() == []
        assert " ".join(uuids(session)) == ALL
        assert session.entry("b").line == long
