"""Names are found without the index; both must mean the same entries."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessiontree import InvalidNameError, RefError, Session
from sessiontree.core.codec import encode
from sessiontree.engine import marks, naming
from sessiontree.engine import names as refs
from sessiontree.engine import reader as tree_reader
from sessiontree.engine.reader import TreeReader
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from tests.engine.test_walk import BLOCKS, DAMAGED, HEADER, LONG, Blocks, spelled
from tests.support.conversation import talk, user
from tests.support.files import FILE, Counting, in_memory
from tests.support.lines import blocks_of

OTHER = LONG.replace("3f", "4f")
UUIDS = ["root", "aa", "b~1", LONG, OTHER, OTHER.replace("4f", "5f"), "Zoë"]
NAMES = ["aa", "x", "a/b", "spür", "main", "uuid", "x~1", LONG, "scratch/t"]


@st.composite
def named_lines(draw: st.DrawFn) -> bytes:
    """A line that may name something, spelled in any way that JSON allows."""
    escaped = st.sampled_from([0, 0, 0, 0, 1, 2, 0b1010])
    kind = draw(st.sampled_from(["message", "label", "label", "branch", "session_info"]))
    lane = draw(st.sampled_from([None, None, None, "x", "a/b", "main", "spür", "scratch/t"]))
    name = draw(st.sampled_from([*NAMES, *NAMES, None]))
    fields: dict[str, Any] = {"type": kind, "uuid": draw(st.sampled_from(UUIDS))}
    fields["parentUuid"] = draw(st.sampled_from([*UUIDS, "gone"]))
    fields |= {} if lane is None else {"lane": lane}
    if kind == "label":
        fields |= {"targetUuid": draw(st.sampled_from([*UUIDS, "gone"])), "label": name}
    else:
        fields |= {"name": name, "metadata": draw(st.sampled_from([{}, {"a": 1}, {"b": name}, 5]))}
    pairs = (
        f"{spelled(key, draw(escaped))}: "
        + (spelled(value, draw(escaped)) if isinstance(value, str) else json.dumps(value))
        for key, value in fields.items()
    )
    return f"{{{', '.join(pairs)}}}".encode()


def compacted(content: bytes, change: int = 0) -> bytes:
    """A session with a compaction that repeats its names, of which `change` spoils one fact."""
    given = reader(content).naming().state()
    state = given["names"]
    if change == 1:
        state["check"] = "00000000"
    elif change == 2:
        state["lines"] = [*state["lines"], state["end"] - 1]
    elif change == 3:
        state["end"] -= 1
    fields = {"type": "compaction", "uuid": LONG.replace("3f", "6f"), "parentUuid": LONG}
    open_end = b"" if content.endswith(b"\n") else b"\n"
    return content + open_end + encode({**fields, "state": given}) + b"\n"


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that opens: a header, then names, damage and compactions."""
    lines = st.lists(named_lines() | named_lines() | named_lines() | DAMAGED, max_size=8)
    content = draw(st.sampled_from([HEADER, HEADER.replace(b"null", b'null,"name":"h"')])) + b"\n"
    for _ in range(draw(st.integers(0, 2))):
        content += b"".join(line + b"\n" for line in draw(lines))
        content = compacted(content, draw(st.sampled_from([0, 0, 0, 1, 2, 3])))
    content += b"\n".join(draw(lines))
    return content + draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type"']))


def reader(content: bytes) -> TreeReader:
    return TreeReader(FileLog(in_memory(content), FILE, readonly=True))


def from_index(content: bytes) -> TreeReader:
    made = reader(content)
    made.index()
    return made


def facts(found: refs.Names) -> tuple[Any, ...]:
    return found.labels, found.branches, found.lanes, found.uuids, found.name, found.metadata


def told(given: TreeReader) -> naming.ToldNames:
    return given.naming().told(lambda _: True)


def meant(given: TreeReader, name: str) -> int | type[RefError]:
    try:
        return given.named(name).offset
    except RefError:
        return RefError


def is_free(given: TreeReader, name: str) -> bool:
    try:
        given.check_name_is_free(name, LONG)
    except InvalidNameError:
        return False
    return True


@pytest.mark.slow
@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@example(
    HEADER + b"\n" + b'{"type":"label","uuid":"aa","targetUuid":"gone","label":"x"}\n', (8, 8), 1
)
@example(
    compacted(
        HEADER
        + b'\n{"type":"label","uuid":"odd","targetUuid":"root","label":"aa"}'
        + b'\n{"type":"label","uuid":"%b","targetUuid":"root","label":null}\n' % LONG.encode()
    ),
    (8, 8),
    1,
)
@example(
    HEADER
    + b"\n"
    + b'{"type":"message","uuid":"b~1","parentUuid":"root"}\n'
    + b'{"type":"message","uuid":"b~1","parentUuid":"root"}',
    (8, 8),
    10**9,
)
@given(files(), BLOCKS, st.sampled_from([1, 10**9]))
def test_names_mean_without_the_index_what_they_mean_with_it(
    content: bytes, blocks: Blocks, near: int
) -> None:
    whole = from_index(content)
    with (
        blocks_of(*blocks),
        patch.object(naming, "_NEAR", near),
        patch.object(naming, "_FEW_ESCAPES", 1),
    ):
        assert facts(reader(content).names()) == facts(whole.names())
        for name in {*NAMES, *UUIDS, "nobody"}:
            assert meant(reader(content), name) == meant(whole, name)
            assert is_free(reader(content), name) == is_free(whole, name)
            assert reader(content).has_uuid(name) == whole.has_uuid(name)
            with patch.object(tree_reader, "_NEAR", 1):
                assert reader(content).by_uuid(name) == whole.by_uuid(name)
                asked = reader(content)
                assert asked.far_entry(name) in (None, whole.by_uuid(name))
                assert told(asked) == told(reader(content))


@pytest.mark.slow
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(files(), st.lists(named_lines() | DAMAGED, max_size=4), st.booleans(), st.booleans())
def test_names_follow_a_log_that_grows(
    first: bytes, more: list[bytes], with_lf: bool, with_index: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.jsonl"
        file.write_bytes(first)
        log = FileLog(DISK, str(file), readonly=True)
        given = TreeReader(log)
        given.names()
        if with_index:
            given.index()
        file.write_bytes(first + b"\n" * with_lf + b"\n".join(more))
        list(given.view.grow(log.size()))
        assert facts(given.names()) == facts(from_index(file.read_bytes()).names())
        log.close()


LIMITS = [
    ("_MOST_HITS", (0, 1, 2, 3)),
    ("_MOST_TARGETS", (0, 1)),
    ("_MOST_SEARCHES", (0, 1, 2)),
    ("_MOST_PLACES", (0, 1)),
    ("_MOST_EXPECTED", (0, 1)),
    ("_MOST_TOLD", (0, 1)),
    ("_MOST_ASKED", (0, 1)),
    ("_MOST_NEEDLES", (1, 2)),
    ("_MOST_LINES", (0, 1)),
]


def all_kinds_of_names() -> bytes:
    """Names of each kind, some given twice, some taken back, some that others only mention."""
    lines: list[dict[str, Any]] = [
        {"type": "message", "uuid": "aa", "parentUuid": "root", "message": {"content": "x"}},
        {"type": "message", "uuid": LONG, "parentUuid": "aa", "lane": "a/b"},
        {"type": "label", "uuid": "l1", "parentUuid": LONG, "targetUuid": "aa", "label": "x"},
        {"type": "label", "uuid": "l2", "parentUuid": "l1", "targetUuid": LONG, "label": "x"},
        {"type": "label", "uuid": "l3", "parentUuid": "l2", "targetUuid": "aa", "label": None},
        {"type": "label", "uuid": "l4", "parentUuid": "l3", "targetUuid": "aa", "label": "gone"},
        {"type": "label", "uuid": "l5", "parentUuid": "l4", "targetUuid": "aa", "label": "kept"},
        {"type": "branch", "uuid": "b1", "parentUuid": "aa", "name": "spür"},
        {"type": "message", "uuid": OTHER, "parentUuid": "b1", "message": {"content": LONG}},
        {"type": "message", "uuid": "m2", "parentUuid": OTHER, "message": {"content": "a/b"}},
        {"type": "session_info", "uuid": "i1", "parentUuid": "m2", "name": "aa"},
    ]
    return b"".join([HEADER, b"\n", *(encode(line) + b"\n" for line in lines)])


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(("limit", "values"), LIMITS)
def test_behind_each_limit_of_a_search_names_mean_the_same(
    limit: str, values: tuple[int, ...], is_compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = all_kinds_of_names()
    if is_compacted:
        content = compacted(content) + encode(
            {"type": "label", "uuid": "l6", "parentUuid": OTHER, "targetUuid": "b1", "label": "x"}
        )
    names = ["aa", "x", "gone", "kept", "spür", "a/b", "main", LONG, OTHER, OTHER[:20], "nobody"]
    whole = from_index(content)
    expected = answers(lambda: whole, names)
    for most in values:
        monkeypatch.setattr(naming, limit, most)
        monkeypatch.setattr(naming, "_NEAR", 1)  # nothing is read from the end
        monkeypatch.setattr(tree_reader, "_NEAR", 1)
        asked_in_turn = reader(content)
        assert answers(partial(_same, asked_in_turn), names) == expected
        assert answers(lambda: reader(content), names) == expected
        assert facts(reader(content).names())[:4] == facts(whole.names())[:4]


def _same(given: TreeReader) -> TreeReader:
    return given


def answers(given: Callable[[], TreeReader], names: list[str]) -> list[tuple[Any, ...]]:
    """What is said of each of the names."""
    return [
        (
            given().has_uuid(name),
            meant(given(), name),
            is_free(given(), name),
            given().by_uuid(name),
        )
        for name in names
    ]


def large(file: Path, *, compact: bool) -> Session:
    """A session of 1 MB with a label and a named branch, after which are ten messages."""
    session = Session.create(file, durability="os")
    with session.batch():
        old = [session.append_message(user("x" * 2000)) for _ in range(500)]
        session.label(old[9], "old")
        session.append("branch", name="gone")
        session.lane("reviewer").append_message(user("r"))
    if compact:
        session.compact("short", keep=2000)
    for _ in range(10):
        entry = session.append_message(user("more"))
    session.label(entry, "here")
    session.branch(entry, name="aside")
    session.append_message(user("aside"))
    session.switch(entry)
    return session


QUESTIONS: dict[str, Callable[[Session], object]] = {
    "@~3": lambda session: session.entry("@~3"),
    "a new label": lambda session: session.label("@", "fresh"),
    "a new branch": lambda session: session.branch("@", name="fresh"),
    "a label": lambda session: session.entry("here"),
    "above a label": lambda session: session.entry("here~2"),
    "a branch": lambda session: session.entry("aside"),
    "the name": lambda session: session.name,
    "the metadata": lambda session: session.metadata,
    "a fresh lane": lambda session: session.lane("fresh", at="@").append_message(user("f")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_behind_a_compaction_names_cost_what_is_passed(file: Path, question: str) -> None:
    large(file, compact=True).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        QUESTIONS[question](session)
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 400_000 < file.stat().st_size


@pytest.mark.parametrize("question", ["@~3", "a label", "a branch", "the name", "the metadata"])
def test_a_question_that_is_asked_again_costs_little(file: Path, question: str) -> None:
    large(file, compact=True).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        QUESTIONS[question](session)
        before = counting.bytes_read
        for _ in range(3):
            QUESTIONS[question](session)
    assert counting.bytes_read - before < 20_000


@pytest.mark.parametrize("question", QUESTIONS)
def test_without_a_compaction_names_cost_a_few_searches(
    file: Path, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "_NEAR", 0)
    large(file, compact=False).close()
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        QUESTIONS[question](session)
        assert not session.reader.view.has_tree
    assert counting.bytes_read < 3 * file.stat().st_size


@pytest.mark.parametrize("asked", [0, 1, 3, 4])
def test_the_name_is_told_after_any_number_of_searches(file: Path, asked: int) -> None:
    large(file, compact=False).close()
    with Session.open(file) as session, patch.object(naming, "_NEAR", 0):
        for number in range(asked):
            with pytest.raises(RefError):
                session.entry(f"nobody{number}")
        assert (session.name, session.metadata) == (None, {})
        session.rename("title")
        session.update_metadata(a=1)
        assert (session.name, session.metadata) == ("title", {"a": 1})


@pytest.mark.parametrize("name", ["old", "gone", "reviewer", "here", "aside", "main"])
@pytest.mark.parametrize("compact", [True, False])
def test_a_name_given_at_any_time_is_taken(file: Path, name: str, compact: bool) -> None:
    large(file, compact=compact).close()
    with Session.open(file) as session, pytest.raises(InvalidNameError, match="taken by"):
        session.label("@~1", name)


def test_a_copy_does_not_trust_the_places_of_its_original(file: Path, tmp_path: Path) -> None:
    with large(file, compact=True) as session:
        copy = session.fork(str(tmp_path / "copy.jsonl"))
    with Session.open(copy) as session:
        assert session.label("@", "reviewer")["label"] == "reviewer"
        with pytest.raises(InvalidNameError, match="taken by"):
            session.label("@", "old")


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_short_uuids_are_found_also_where_they_are_too_many_to_be_kept(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refs, "_MOST_UUIDS", most)
    lines = (
        f'{{"type":"message","uuid":"u{at}","parentUuid":"root","message":{{}}}}\n'
        for at in range(4)
    )
    content = HEADER + b"\n" + "".join(lines).encode()
    given = reader(content)
    assert given.names().uuids == ({"root", "u0", "u1", "u2", "u3"} if most == 10 else None)
    for name in ("u0", "u3", "u4"):
        assert meant(given, name) == meant(from_index(content), name)
        assert is_free(given, name) == is_free(from_index(content), name)


def test_many_names_are_not_repeated(file: Path) -> None:
    with Session.create(file, durability="os") as session:
        entries = [session.append_message(user("x")) for _ in range(600)]
        with session.batch():
            for number, entry in enumerate(entries):
                session.append("label", targetUuid=entry.uuid, label=f"l{number}")
        assert not {"names", "uuids"} & session.compact("short", keep=0)["state"].keys()


def test_a_compaction_below_too_many_entries_repeats_no_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MOST_MARKS", 4)
    file = tmp_path / "s.jsonl"
    with Session.create(file) as session:
        first = talk(session, "p1", "a1")[0]
        session.compact("s", first_kept="@")
        talk(session, *"pqrstu")
        session.compact("t", first_kept="@")
    with Session.open(file, readonly=True) as session:
        told = ["uuids" in entry["state"] for entry in session.find(type="compaction")]
        assert told == [True, False]
        assert session.entry(first.uuid[:12]).uuid == first.uuid


@pytest.mark.parametrize("compactions", [1, 8, 11])
def test_compactions_tell_where_a_uuid_is_and_few_of_them_are_read(
    file: Path, compactions: int
) -> None:
    with Session.create(file, durability="os", name="chat") as session:
        for _ in range(compactions):
            with session.batch():
                wanted = [session.append_message(user("x" * 2000)) for _ in range(100)][50]
            session.compact("short", keep=0)
            session.append_message(user("more"))
        first = next(entry for entry in session.find(type="message"))
    with (
        Session.open(file, readonly=True) as session,
        patch.object(tree_reader, "_NEAR", 1),
    ):
        assert session.entry(first.uuid) == first
        assert session.entry(wanted.uuid) == wanted
        assert not session.reader.has_uuid("0f0e0d0c-0b0a-4908-8706-050403020100")
        assert not session.reader.view.has_tree
        read = len(session.reader.naming()._marks_known())
    assert read <= 1 + compactions.bit_count()


def chapters(
    lengths: tuple[int, ...], spoil: Callable[[dict[str, Any]], None] | None = None
) -> bytes:
    """A session with a compaction behind each run of messages; the state of all may be spoiled."""
    content = HEADER + b"\n"
    for chapter, length in enumerate(lengths):
        first = 1 + sum(lengths[:chapter])
        for number in range(first, first + length):
            text = {"role": "user", "id": f"msg{number}", "content": "x" * number}
            line = {"type": "message", "uuid": uuid_of(number), "parentUuid": "root"}
            content += encode(line | {"message": text}) + b"\n"
        state = reader(content).naming().state()
        if spoil is not None:
            spoil(state)
        line = {"type": "compaction", "uuid": uuid_of(100 + chapter), "parentUuid": "root"}
        content += encode(line | {"state": state}) + b"\n"
    return content


def uuid_of(number: int) -> str:
    return f"3f2504e0-4f89-41d3-9a0c-{number:012}"


ALL_ASKED = [uuid_of(number) for number in [*range(12), *range(100, 106)]]


def check_all_is_found(content: bytes) -> None:
    """Each question has the answer of the index, asked alone and in turn."""
    whole, in_turn = from_index(content), reader(content)
    for uuid in ALL_ASKED:
        is_there = f'"{uuid}"'.encode() in content
        assert whole.has_uuid(uuid) == is_there
        for asked in (in_turn, in_turn, reader(content)):
            assert asked.has_uuid(uuid) == is_there
            with patch.object(tree_reader, "_NEAR", 1):
                assert asked.far_entry(uuid) in (None, whole.by_uuid(uuid))
        told = reader(content).naming().entry_told(uuid)
        assert told in (None, whole.by_uuid(uuid))
    for number in range(12):
        if f'"msg{number}"'.encode() in content:
            assert in_turn.naming().may_hold_id(f"msg{number}")
            assert reader(content).naming().may_hold_id(f"msg{number}")


def spoiled(part: str, key: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def spoil(state: dict[str, Any]) -> None:
        state[part][key] = change(state[part][key])

    return spoil


SPOILED: dict[str, Callable[[dict[str, Any]], None]] = {
    "nothing": lambda state: None,
    "no names": lambda state: state.pop("names"),
    "no uuids": lambda state: state.pop("uuids"),
    "neither": lambda state: state.clear(),
    "no ids": lambda state: state["uuids"].pop("ids"),
    "end + 1": spoiled("names", "end", lambda end: end + 1),
    "end - 1": spoiled("names", "end", lambda end: end - 1),
    "end 0": spoiled("names", "end", lambda _: 0),
    "end far": spoiled("names", "end", lambda _: 10**9),
    "end text": spoiled("names", "end", str),
    "check": spoiled("names", "check", lambda _: "00000000"),
    "lines": spoiled("names", "lines", lambda lines: [*lines, 0]),
    "lines twice": spoiled("names", "lines", lambda lines: lines + lines),
    "lines backwards": spoiled("names", "lines", lambda lines: lines[::-1]),
    "from + 1": spoiled("uuids", "from", lambda start: start + 1),
    "from the end": spoiled("uuids", "from", lambda _: 10**9),
    "from below 0": spoiled("uuids", "from", lambda _: -1),
    "before none": spoiled("uuids", "before", lambda _: None),
    "before the header": spoiled("uuids", "before", lambda _: 0),
    "before in a line": spoiled("uuids", "before", lambda before: (before or 0) + 1),
    "before below 0": spoiled("uuids", "before", lambda _: -1),
    "before behind": spoiled("uuids", "before", lambda _: 10**9),
    "marks cut": spoiled("uuids", "marks", lambda marks: marks[:-1]),
    "ids cut": spoiled("uuids", "ids", lambda ids: ids[:-1]),
    "ids null": spoiled("uuids", "ids", lambda _: None),
    "marks null": spoiled("uuids", "marks", lambda _: None),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_state_that_cannot_be_so_is_not_believed(what: str) -> None:
    check_all_is_found(chapters((3, 1, 2, 2), SPOILED[what]))


@pytest.mark.parametrize("longer", range(0, 400, 40))
def test_a_copy_with_another_header_does_not_believe_where_entries_were(longer: int) -> None:
    content = chapters((3, 1, 2, 2))
    header, lines = content.split(b"\n", 1)
    check_all_is_found(header[:-1] + b',"name":"%b"}\n' % (b"n" * longer) + lines)
    check_all_is_found(header.replace(b'"parentUuid":null', b'"name":"n"') + b"\n" + lines)


@pytest.mark.parametrize("gone", range(1, 12))
def test_a_copy_without_a_line_does_not_believe_where_entries_were(gone: int) -> None:
    lines = chapters((3, 1, 2, 2)).splitlines(keepends=True)
    check_all_is_found(b"".join([*lines[:gone], *lines[gone + 1 :]]))


def test_a_compaction_repeats_where_the_names_are_and_what_identifies_the_log() -> None:
    for count in (0, 3):
        content, places = HEADER + b"\n", [0]
        for number in range(count):
            line = {"type": "label", "uuid": uuid_of(number), "parentUuid": "root"}
            places.append(len(content))
            content += encode(line | {"targetUuid": f"{number}", "label": "x" * 40}) + b"\n"
        for asked in (reader(content), from_index(content)):
            assert asked.naming().state()["names"] == {
                "end": len(content),
                "check": f"{zlib.crc32(content[-256:]):08x}",
                "lines": places,
            }


@pytest.mark.parametrize("with_index", [False, True])
def test_what_a_compaction_repeats_is_the_same_in_a_log_that_grew(
    with_index: bool, file: Path
) -> None:
    content = chapters((2, 0, 3))
    for cut in (content.index(b"\n", 400) + 1, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:cut])
        log = FileLog(DISK, str(file), readonly=True)
        given = TreeReader(log)
        given.names()
        if with_index:
            given.index()
        file.write_bytes(content)
        list(given.view.grow(log.size()))
        assert given.naming().state() == reader(content).naming().state()
        log.close()


def test_compactions_tell_each_entry_that_is_there_and_no_other() -> None:
    again = b'{"type":"message","uuid":"%b","parentUuid":"root","message":{"role":"user"}}\n'
    twice = chapters((3, 1, 2, 2)) + again % uuid_of(2).encode()
    for content in (chapters((3, 1, 2, 2)), twice, compacted(twice)):
        whole = from_index(content)
        for uuid in ALL_ASKED:
            assert reader(content).naming().entry_told(uuid) == whole.by_uuid(uuid)
        for end in (b"{", again[:-1] % uuid_of(2).encode()):
            assert reader(content + end).naming().entry_told(uuid_of(2)) is None


@pytest.mark.parametrize("spelling", ["%b\\u0030", "\\u0033%b"])
def test_an_entry_spelled_with_escapes_is_not_told(spelling: str) -> None:
    uuid = uuid_of(10)
    escaped = spelling.replace("%b", uuid[:-1] if spelling.startswith("%") else uuid[1:])
    content = chapters((3, 1)) + (
        f'{{"type":"message","uuid":"{escaped}","parentUuid":"root","message":{{}}}}\n'.encode()
    )
    assert reader(content).naming().entry_told(uuid) is None
    assert reader(content).naming().entry_told("Zoë") is None
    assert reader(content).has_uuid(uuid)


def test_no_entry_is_told_once_the_searches_cost_more_than_the_index() -> None:
    content = chapters((3, 1, 2))
    with patch.object(marks.Marks, "may_have_uuid", lambda *_: True):
        for asked in range(5):
            given = reader(content).naming()
            for _ in range(asked):
                assert given.entry_told(uuid_of(0)) is None
            assert (given.entry_told(uuid_of(1)) is not None) == (asked <= 2)


def test_the_structure_of_all_lines_is_read_after_a_thousand_uuids_that_are_not_there() -> None:
    for content in (chapters((3, 1)), HEADER + b"\n"):
        given = reader(content)
        for number in range(1000):
            assert not given.has_uuid(uuid_of(1000 + number))
            assert not given.has_uuid(uuid_of(1000 + number))
        assert not given.view.has_tree
        assert not given.has_uuid(uuid_of(999))
        assert given.view.has_tree


@pytest.mark.parametrize("count", [1, 3, 4])
def test_three_uuids_are_searched_for_where_no_compaction_tells(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "_NEAR", 0)
    file, counting = tmp_path / "s.jsonl", Counting()
    file.write_bytes(b"\n".join(chapters((9,)).splitlines()[:10]) + b"\n")
    given = TreeReader(FileLog(counting, str(file), readonly=True))
    for number in range(count):
        assert not given.has_uuid(uuid_of(200 + number))
    assert given.view.has_tree == (count > 3)
    before = counting.bytes_read
    for number in range(count):
        assert not given.has_uuid(uuid_of(200 + number))
    assert given.view.has_tree == (count > 3)
    assert counting.bytes_read == before
    given.log.close()


@given(st.lists(st.sampled_from(["a", "b", "text", "branch"]), max_size=12))
def test_the_last_fact_is_what_the_metadata_has(steps: list[str]) -> None:
    with Session.create(metadata={"a": 0}) as session:
        for number, step in enumerate(steps):
            if step == "text":
                session.append_message(
                    {"role": "user", "content": '"a" and "b"'}, metadata={"a": 9}
                )
            elif step == "branch":
                session.branch(session.header.uuid)
            else:
                session.update_metadata(**{step: number})
            for key in "abc":
                assert session.reader.last_fact(key) == session.metadata.get(key)
