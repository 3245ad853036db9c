"""The walk reads backwards and the index reads all; both must tell the same tree."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sessiontree import RefError, Session
from sessiontree.context.fold import Contribution
from sessiontree.core.codec import Chain, encode, seal
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW
from sessiontree.engine import walk
from sessiontree.engine.logtree import LogTree
from sessiontree.storage.log import FileLog
from tests.support.conversation import user
from tests.support.files import FILE, Counting, in_memory
from tests.support.lines import blocks_of
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

HEADER = b'{"type":"session","version":2,"format":"sessiontree/2","uuid":"root","parentUuid":null}'
LONG = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
UUIDS = ["root", "aa", "b", "a-b_c.d", LONG, "Zoë", 'qu"ote', "sl/ash", "back\\slash", "\U0001f600"]
LANES = [None, None, "agent", "aa", "message", "scratch/try", "a/b/c", "spür"]


class Found(NamedTuple):
    """An entry as the oracle sees it."""

    offset: int
    type: str
    uuid: str
    parent: str | None
    lane: str | None
    is_plain: bool  # whether the line has the uuid without escapes


def oracle_entries(content: bytes) -> list[Found]:
    """Every line decoded whole, by the standard library, without second headers."""
    found: list[Found] = []
    offset = 0
    for line in content.split(b"\n"):
        bare = line.strip(b"\0").removeprefix(b"\xef\xbb\xbf")
        try:
            value = json.loads(bare.decode("utf-8", "replace"))
        except ValueError:
            value = None
        keys = value if isinstance(value, dict) else {}
        kind, uuid = keys.get("type"), keys.get("uuid")
        is_second = kind == "session" and bool(found)
        if isinstance(kind, str) and isinstance(uuid, str) and uuid and not is_second:
            parent, lane = keys.get("parentUuid"), keys.get("lane")
            lane = None if lane == "main" else lane
            found.append(Found(offset, kind, uuid, parent, lane, f'"{uuid}"'.encode() in line))
        offset += len(line) + 1
    return found


def oracle_parents(entries: list[Found]) -> list[int | None]:
    """The nearest before, else the nearest after; never a circle, never above a header."""
    parents: list[int | None] = [None] * len(entries)
    late: list[tuple[int, int]] = []
    for row, entry in enumerate(entries):
        if entry.type == "session" or entry.parent is None:
            continue
        named = [at for at, other in enumerate(entries) if other.uuid == entry.parent]
        before = [at for at in named if at < row]
        before = before[:1] + [at for at in before[1:] if entries[at].is_plain]
        if before:
            parents[row] = before[-1]
        elif entry.parent != entry.uuid and named:
            late.append((named[0], row))
    for parent, child in sorted(late):
        if child not in oracle_up(parents, parent):
            parents[child] = parent
    return parents


def oracle_up(parents: Sequence[int | None], row: int | None) -> list[int]:
    """A row and its ancestors."""
    path = []
    while row is not None:
        path.append(row)
        row = parents[row]
    return path


def spelled(text: str, escaped: int) -> str:
    """A JSON string, with the characters at the set bits of `escaped` written as escapes."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    if plain != text:
        return json.dumps(text)
    characters = [
        f"\\u{ord(c):04{'x' if at % 2 else 'X'}}" if escaped >> at & 1 and ord(c) < 0x10000 else c
        for at, c in enumerate(text)
    ]
    if escaped & 1:
        characters = [c.replace("/", "\\/") for c in characters]
    return f'"{"".join(characters)}"'


@st.composite
def entry_lines(draw: st.DrawFn) -> bytes:
    """The line of an entry, spelled in any way that JSON allows."""
    escaped = st.sampled_from([0, 0, 0, 0, 1, 2, 0b101, 0b1010, 0b1111])
    uuid, quoted = draw(st.sampled_from(UUIDS)), draw(st.sampled_from(UUIDS))
    parent = draw(st.sampled_from([*UUIDS, *UUIDS, "gone", None]))
    lane = draw(st.sampled_from([*LANES, "main"]))
    kind = draw(st.sampled_from(["message", "message", "custom", "branch", "session"]))
    texts = [
        json.dumps(f'quotes "{quoted}" and {{"uuid":"{quoted}","lane":"agent"}}'),
        spelled(quoted, 0),
        f'{{"uuid":{spelled(uuid, 0)},"parentUuid":{spelled(quoted, 0)},"lane":"aa"}}',
        json.dumps("long " * 60),
        r'"an escaped backslash \\u0061, an emoji \ud83d\ude00"',
    ]
    spacing = draw(st.sampled_from(["", " ", "\t ", "  "]))
    pairs = [
        spelled(key, draw(escaped)) + spacing + ":" + spacing + value
        for key, value in [
            ("type", spelled(kind, draw(escaped))),
            ("uuid", spelled(uuid, draw(escaped))),
            ("parentUuid", "null" if parent is None else spelled(parent, draw(escaped))),
            *([("lane", spelled(lane, draw(escaped)))] if lane is not None else []),
            ("message", draw(st.sampled_from(texts))),
            ("other", draw(st.sampled_from(texts))),
        ]
    ]
    pairs = draw(st.permutations(pairs)) if draw(st.booleans()) else pairs
    line = "{" + spacing + ("," + spacing).join(pairs) + spacing + "}"
    front = draw(st.sampled_from([b"", b"", b"", b"", b" ", b"\0\0", b"\xef\xbb\xbf"]))
    return front + line.encode() + draw(st.sampled_from([b"", b"", b"", b"\r", b" "]))


DAMAGED = st.sampled_from(
    [
        *(b"", b"\r", b"\0\0\0", b"{}", b"[]", b'"aa"', b"null", b"{"),
        b'{"type":"message","uuid":"aa","parentUuid":"root"',
        b'{"type":"message","uuid":"","parentUuid":"root"}',
        b'{"type":"message","parentUuid":"aa","lane":"agent"}',
        b'{"type":"message","uuid":["aa"],"parentUuid":"root"}',
        b'{"uuid":"aa","parentUuid":"root","lane":"agent"}',
        b'{"type":"message","uuid":"b","parentUuid":"root","message":"\xff"}',
    ]
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file that opens: a header, then anything."""
    header = draw(st.sampled_from([HEADER, HEADER.replace(b"null", b'"aa"'), b"\n\r\n" + HEADER]))
    rest = draw(st.lists(entry_lines() | entry_lines() | entry_lines() | DAMAGED, max_size=14))
    return b"\n".join([header, *rest]) + draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type"']))


Blocks = tuple[int, int]
BLOCKS = st.sampled_from([(8, 8), (16, 64), (40, 50), (100, 400), (65536, 1048576)])


def opened(content: bytes) -> LogTree:
    return LogTree(FileLog(in_memory(content), FILE, readonly=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150), suppress_health_check=list(HealthCheck))
@given(files(), BLOCKS, st.randoms(use_true_random=False))
def test_the_walk_and_the_index_give_the_tree_that_decoding_everything_gives(
    content: bytes, blocks: Blocks, random: Any
) -> None:
    entries = oracle_entries(content)
    parents = oracle_parents(entries)
    offsets = [entry.offset for entry in entries]
    with blocks_of(*blocks):
        tree = opened(content).tree()
        assert list(tree.offsets) == offsets
        assert tree.uuids == [entry.uuid for entry in entries]
        assert [None if row == NO_ROW else row for row in tree.parents] == parents

        view = opened(content)
        rows = list(range(len(entries)))
        random.shuffle(rows)
        for row in rows:
            start = view.read(offsets[row])
            assert start is not None
            above = [entry.offset for entry in view.walk().up(start)]
            assert above == [offsets[at] for at in oracle_up(parents, row)[1:]]


KINDS = ["message", "message", "message", "branch", "custom", "label", "session"]
TEXTS = [
    *("plain", "over\nlines", 'a quote " and \x1b[31m', "é→\U0001f600", "x" * 600),
    *('"},{"uuid":"e-1"', "1],[2", '","crc":"00000000"}', "\\u0061"),
]


@st.composite
def sealed_lines(draw: st.DrawFn, number: int) -> bytes:
    """A line as this version writes it, nearly always below the one before."""
    seldom = st.integers(0, 15).map(lambda chance: chance == 0)
    uuid = f"e-{number if not draw(seldom) else draw(st.integers(0, 40))}"
    above = number - 1 if not draw(seldom) else draw(st.integers(0, 40))
    lane = draw(st.sampled_from(["main", "agent", "a/b"])) if draw(seldom) else None
    fields: dict[str, Any] = {
        "type": draw(st.sampled_from(KINDS)) if draw(seldom) else "message",
        "uuid": uuid,
        "parentUuid": f"e-{above}" if above > 0 else "root",
        **({"lane": lane} if lane else {}),
        "message": user(draw(st.sampled_from(TEXTS))),
    }
    if draw(seldom):
        fields.pop("message")
    line = encode(fields)
    if not draw(seldom):
        return line
    spelled = b'"uuid":"\\u0065-' + uuid[2:].encode()
    harm: Callable[[], bytes] = draw(
        st.sampled_from(
            [
                lambda: seal(line[:-18].replace(b'"uuid":"e-', b'"uuid":"\\u0065-') + b"}"),
                lambda: seal(line[:-18] + b',"uuid":"e-7"}'),  # twice: the last one counts
                lambda: seal(line[:-18] + b',"other":"' + spelled + b'"}'),
                lambda: seal(line[:-18] + b',"parentUuid":7}'),
                lambda: seal(line[:-18] + b',"spilled":[]}'),
                lambda: seal(line[:-18] + b',"other":"\xff"}'),
                lambda: line[: len(line) // 2],
                lambda: line[:-3] + b'0"}',
                lambda: line.replace(b'"user"', b'"uset"'),
                lambda: line[:-18] + b"}",
                lambda: line + b"\r",
                lambda: line + b"," + line,
                lambda: line + line,
                lambda: line + b"],[",
                lambda: b"\0\0" + line,
                lambda: b"",
            ]
        )
    )
    return harm()


@st.composite
def written_files(draw: st.DrawFn) -> bytes:
    lines = [draw(sealed_lines(number)) for number in range(1, draw(st.integers(1, 40)))]
    return b"\n".join([HEADER, *lines]) + draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type"']))


def facts(entry: Entry) -> tuple[Any, ...]:
    return (
        *(entry.type, entry.uuid, entry.parent_uuid, entry.lane, entry.timestamp, entry.line),
        *(entry.offset, dict(entry.as_stored), entry.get("message"), entry.has_spilled),
    )


@pytest.mark.slow
@in_soak("examples", 50, 1_000)
def test_lines_decoded_together_are_those_decoded_one_by_one(examples: int) -> None:
    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(written_files(), st.sampled_from([(4096, 8192), (300, 900)]))
    def check(content: bytes, blocks: Blocks) -> None:
        """With the same damage."""
        entries = oracle_entries(content)
        parents = oracle_parents(entries)
        with (
            blocks_of(*blocks),
            mock.patch.object(walk, "_LONG", 10_000),
            mock.patch.object(walk, "_FIRST_WAIT", 0),
            mock.patch.object(walk, "_FIRST_CHAIN", blocks[0]),
        ):
            for row, entry in enumerate(entries):
                together, singly = opened(content), opened(content)
                singly._decode_chain = lambda block, offset, uuid: None
                start = together.read(entry.offset)
                assert start is not None
                singly.read(entry.offset)
                found = [facts(above) for above in together.walk().up(start)]
                assert found == [facts(above) for above in singly.walk().up(start)]
                let_go = list(together.walk().parts_up(start))
                for part in let_go:
                    Contribution(part).let_go()
                assert found == [facts(above) for part in let_go for above in reversed(part)]
                assert [above[6] for above in found] == [
                    entries[at].offset for at in oracle_up(parents, row)[1:]
                ]
                assert together.damage == singly.damage

    check()


AMID: dict[str, Callable[[bytes], bytes]] = {
    "a wrong checksum": lambda line: line[:-10] + b'00000000"}',
    "another header": lambda line: seal(line[:-18].replace(b'"message"', b'"session"', 1) + b"}"),
    "its uuid again, with an escape": lambda line: (
        line + b"\n" + seal(line[:-18].replace(b'"e', b'"\\u0065', 1) + b"}")
    ),
    "another parent": lambda line: seal(
        line[:-18].replace(b"entry-000279", b"entry-000004") + b"}"
    ),
}


@for_each("harm", AMID.values(), ids=AMID)
def test_one_unusual_line_amid_a_chain_is_read_as_by_itself(harm: Callable[[bytes], bytes]) -> None:
    lines = [HEADER, *chain(300, 20)]  # blocks with the header, which has no checksum, are refused
    lines[281] = harm(lines[281])
    content = b"\n".join([*lines, b""])
    together, singly = opened(content), opened(content)
    singly._decode_chain = lambda block, offset, uuid: None
    paths = []
    for view in (together, singly):
        leaf = view.walk().last_on(None)
        assert leaf is not None
        paths.append([facts(above) for above in view.walk().up(leaf)])
    assert paths[0] == paths[1]
    assert together.damage == singly.damage
    rows = oracle_up(oracle_parents(entries := oracle_entries(content)), len(entries) - 1)
    assert [above[6] for above in paths[0]] == [entries[row].offset for row in rows[1:]]


def test_a_chain_is_decoded_together_with_its_lanes_and_blobs(file: Path) -> None:
    with Session.create(file, spill_over=10) as session:
        for number in range(60):
            session.append_message(user(f"a text of more than ten characters {number}"))
    lines = file.read_bytes().splitlines()
    lane = b'"parentUuid":"%b","lane":"main"' % session.header.uuid.encode()
    first = lines[1].replace(lane.removesuffix(b',"lane":"main"'), lane)
    lines[1] = seal(first[:-18] + b"}")
    file.write_bytes(b"\n".join([*lines, b""]))
    with Session.open(file, readonly=True) as reader:
        parts = list(reader.reader.view.walk().parts_up(reader.leaf))
        assert max(map(len, parts)) > 20
        assert {entry.lane for part in parts for entry in part} == {None}
        texts = [message["content"] for message in reader.context().messages]
    assert texts == [f"a text of more than ten characters {number}" for number in range(60)]


def test_entries_that_a_long_context_did_not_need_are_made_when_asked_for(file: Path) -> None:
    with Session.create(file) as session, session.batch():
        for number in range(12_000):
            session.append_message(user(f"text {number}"))
    with Session.open(file) as session, Session.open(file, readonly=True) as other:
        session.context()
        parts = [part.entries for part in session.cursor.context_path()._parts]
        session.append_message(user("one more"))
        context = session.context()
        context.to_anthropic()
        let_go = [part for part in parts if isinstance(part, Chain) and not part.read]
        assert len(let_go) > 3
        uuids = [part.uuids() for part in let_go]
        assert not any(part.read for part in let_go)
        assert uuids == [[entry.uuid for entry in part] for part in let_go]
        path = other.path()
        assert list(map(facts, session.path()[:-1])) == list(map(facts, path))
        assert context.entries == session.path()[1:]
        messages = [entry["message"] for entry in context.entries]
        assert all(map(operator.is_, messages, context.messages))
        assert other.context().messages == context.messages[:-1]


@pytest.mark.slow
@in_soak("examples", 40, 1_000)
def test_the_walk_finds_the_last_of_each_lane_and_uuid(examples: int) -> None:
    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @example(
        b'{"type":"session","uuid":"root","parentUuid":null,"version":2}\n'
        b'{"type":"message","uuid":"a-b_c.d","parentUuid":"root"}\n'
        b'{"type":"message","uuid":"\\u0061-b_c.d","parentUuid":"a-b_c.d"}\n',
        (8, 8),
    )
    @given(files(), BLOCKS)
    def check(content: bytes, blocks: Blocks) -> None:
        entries = oracle_entries(content)
        with blocks_of(*blocks):
            for lane in {*LANES, "nobody"}:
                on_lane = [entry.offset for entry in entries if entry.lane == lane]
                assert offset_of(opened(content).walk().last_on(lane)) == last(on_lane)
                assert offset_of_row(opened(content), lane) == last(on_lane)
            for uuid in [*UUIDS, "gone"]:
                named = [entry for entry in entries if entry.uuid == uuid]
                counting = [entry.offset for entry in named if entry is named[0] or entry.is_plain]
                assert offset_of(opened(content).walk().entry(uuid)) == last(counting)

    check()


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(100), suppress_health_check=list(HealthCheck))
@given(files(), BLOCKS, st.sampled_from(["main", "agent", "aa", "spür"]))
def test_a_session_opens_at_its_lanes_leaf(content: bytes, blocks: Blocks, lane: str) -> None:
    entries = oracle_entries(content)
    on_lane = [row for row, entry in enumerate(entries) if entry.lane == lane]
    on_main = [row for row, entry in enumerate(entries) if entry.lane is None]
    if lane != "main" and not on_lane:
        with blocks_of(*blocks), pytest.raises(RefError):
            Session.open(FILE, readonly=True, lane=lane, fs=in_memory(content))
        return
    leaf = (on_lane or on_main)[-1]
    expected = [entries[row].offset for row in oracle_up(oracle_parents(entries), leaf)]
    disk = in_memory(content)
    with blocks_of(*blocks), Session.open(FILE, readonly=True, lane=lane, fs=disk) as session:
        assert session.leaf.offset == entries[leaf].offset
        assert [entry.offset for entry in session.path()] == expected[::-1]
        assert [entry.offset for entry in session.entries()] == [e.offset for e in entries]


def last(offsets: list[int]) -> int | None:
    return offsets[-1] if offsets else None


def offset_of(entry: Entry | None) -> int | None:
    return None if entry is None else entry.offset


def offset_of_row(view: LogTree, lane: str | None) -> int | None:
    tree = view.tree()
    row = tree.last_on(lane)
    return None if row == NO_ROW else tree.offsets[row]


def message(uuid: str, parent: str, text: str = "", lane: str | None = None) -> bytes:
    fields: dict[str, Any] = {"type": "message", "uuid": uuid, "parentUuid": parent}
    return encode({**fields, **({"lane": lane} if lane else {}), "message": user(text)})


def chain(
    count: int, size: int, *, start: int = 0, parent: str = "root", lane: str | None = None
) -> Iterator[bytes]:
    """Messages of `size` characters, each below the one before."""
    for number in range(start, start + count):
        uuid = f"entry-{number:06d}"
        yield message(uuid, parent, "x" * size, lane)
        parent = uuid


def written(path: Path, *parts: Iterator[bytes] | list[bytes]) -> Path:
    content = b"\n".join([HEADER, *(line for part in parts for line in part), b""])
    path.write_bytes(content)
    return path


def compaction(first_kept: str, parent: str) -> bytes:
    state = {"model": None, "thinkingLevel": None, "system": None, "name": None}
    fields = {"summary": "short", "firstKeptEntryUuid": first_kept, "tokensBefore": 9}
    head = {"type": "compaction", "uuid": "compaction-1", "parentUuid": parent}
    return encode({**head, **fields, "state": state})


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 20 MB whose context is the last 30 messages."""
    return written(
        tmp_path_factory.mktemp("compacted") / "s.jsonl",
        chain(10_000, 2000),
        [compaction("entry-009980", "entry-009999")],
        chain(10, 2000, start=10_000, parent="compaction-1"),
    )


def test_resuming_a_compacted_session_reads_its_context_and_no_more(compacted: Path) -> None:
    counting = Counting()
    with Session.open(compacted, readonly=True, fs=counting) as session:
        context = session.context()
    assert len(context.messages) == 31
    assert compacted.stat().st_size > 20_000_000
    assert counting.bytes_read < 1_000_000
    assert counting.lowest_after_header > compacted.stat().st_size - 1_000_000


def test_appending_reads_no_more_of_the_file(compacted: Path, file: Path) -> None:
    file.write_bytes(compacted.read_bytes())
    counting = Counting()
    with Session.open(file, durability="os", fs=counting) as session:
        session.context()
        counting.bytes_read = 0
        session.append_message(user("more"))
        assert len(session.context().messages) == 32
    assert counting.bytes_read < 1000


Parts = list[list[bytes]]


def buried(lane: str, count: int) -> Parts:
    return [[message("deep", "root", lane=lane)], list(chain(count, 1000))]


def beside_another(lane: str, count: int) -> Parts:
    others = chain(100, 1000, start=count, parent=f"entry-{count - 1:06d}", lane=lane)
    return [list(chain(count, 1000)), list(others)]


@for_each(
    "parts, lane, leaf, reads",
    [
        (partial(beside_another, "agent", 5000), "main", "entry-004999", 0.17),
        (partial(buried, "agent", 5000), "agent", "deep", 2.5),
        (partial(buried, "user", 2000), "user", "deep", 20),  # the role of each message
    ],
)
def test_the_leaf_of_a_lane_costs_one_search_at_most(
    file: Path, parts: Callable[[], Parts], lane: str, leaf: str, reads: float
) -> None:
    """`reads` is how often the whole file may be read."""
    path = written(file, *parts())
    counting = Counting()
    with Session.open(path, readonly=True, lane=lane, fs=counting) as session:
        assert session.leaf.uuid == leaf
    assert counting.bytes_read < reads * path.stat().st_size


def test_a_scratch_lane_costs_one_search_whether_it_is_there_or_not(file: Path) -> None:
    deep = message("deep", "root", r"a slash: \/", lane="scratch/x")
    path = written(file, [deep], chain(5000, 1000))
    for lane, leaf in (("scratch/x", "deep"), ("scratch/y", "entry-004999")):
        counting = Counting()
        with Session.open(path, lane=lane, fs=counting) as session:
            assert session.leaf.uuid == leaf
            assert session.reader.view._tree is None
        assert counting.bytes_read < 2.5 * path.stat().st_size


def test_a_fresh_scratch_lane_is_not_searched_for(file: Path) -> None:
    path = written(file, chain(5000, 1000))
    counting = Counting()
    with Session.open(path, fs=counting) as session:
        with session.scratch() as trial:
            tried = trial.append_message(user("tried"))
            assert (tried.parent_uuid, tried.lane) == ("entry-004999", trial.lane_name)
            trial.keep()
        assert session.leaf.parent_uuid == tried.uuid
    assert counting.bytes_read < 500_000


def test_two_lanes_that_take_turns_are_read_from_the_end_alone(file: Path) -> None:
    turns: list[bytes] = []
    above = ["root"] * 2
    for mine, theirs in ((f"m-{number:04d}", f"a-{number:04d}") for number in range(1000)):
        turns += [message(mine, above[0], "x" * 500), message(theirs, above[1], lane="agent")]
        above = [mine, theirs]
    first_kept = compaction("m-0200", "m-0999")
    path = written(file, chain(10_000, 2000), turns, [first_kept])
    counting = Counting()
    with Session.open(path, readonly=True, fs=counting) as session:
        assert len(session.context().messages) == 801
    assert counting.lowest_after_header > path.stat().st_size - 3_000_000


def test_a_parent_far_away_costs_one_search(file: Path) -> None:
    path = written(file, [message("far", "root")], chain(5000, 1000), [message("leaf", "far")])
    counting = Counting()
    with Session.open(path, readonly=True, fs=counting) as session:
        assert [entry.uuid for entry in session.path()] == ["root", "far", "leaf"]
    assert counting.bytes_read < 3 * path.stat().st_size


def test_an_entry_longer_than_any_block_is_read_whole(file: Path) -> None:
    long = [message("one", "root", "x" * 3_000_000), message("two", "one", "y" * 70_000)]
    path = written(file, long)
    with Session.open(path, readonly=True) as session:
        assert [entry.uuid for entry in session.path()] == ["root", "one", "two"]
        assert len(session.path()[1]["message"]["content"]) == 3_000_000
        assert session.damage == []


def test_a_search_that_starts_just_behind_a_block_boundary_ends() -> None:
    # The window of the file then holds fewer bytes before the entry than its parent's uuid has.
    tail = b"\n\n" + message("leaf", LONG, "z") + b"\n"
    content = b"\n".join([HEADER, message(LONG, "root"), message("x", "root", "x" * 500)]) + tail
    for first in range(len(tail) - 4, len(tail) + 4):
        with blocks_of(first, 1024):
            view = opened(content)
            leaf = view.walk().last_on(None)
            assert leaf is not None
            assert [entry.uuid for entry in view.walk().up(leaf)] == [LONG, "root"]


def test_an_index_goes_on_behind_a_last_line_that_had_no_newline(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "one"})
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    with Session.open(file, readonly=True) as reader:
        assert len([*reader.tree()]) == 2
        with Session.open(file) as writer:
            writer.append_message({"role": "user", "content": "two"})
        reader.refresh()
        assert [row.preview for row in reader.tree() if row.type == "message"] == ["one", "two"]
        assert reader.verify() == reader.damage == []


def test_the_last_entry_of_a_lane_is_found_also_where_its_name_is_escaped() -> None:
    said = b'{"type":"message","uuid":"%b","parentUuid":"%b","lane":"%b","message":{}}'
    lines = [HEADER, said % (b"a", b"root", b"side"), said % (b"b", b"a", rb"\u0073ide")]
    memory = in_memory(b"\n".join([*lines, b""]), FILE)
    with Session.open(FILE, readonly=True, fs=memory, lane="side") as session:
        assert session.leaf.uuid == "b"
