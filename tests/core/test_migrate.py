from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.context.fold import ContextBuilder
from sessiontree.core.codec import decode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry, decode_leniently
from sessiontree.core.index import TreeIndex
from sessiontree.core.migrate import migrate, uuid_of_line, values_of
from sessiontree.errors import EntryError
from tests.conftest import NO_CORPUS
from tests.support.lines import path, read, segments
from tests.support.soak import amount

CORPUS = FilePath(__file__).parents[2] / ".." / "shared" / "corpus" / "pi-v1"
HEADER = b'{"type":"session","id":"s","timestamp":"t","cwd":"/p"}'


def migrated(*lines: bytes) -> list[bytes]:
    return list(migrate(lines, 1))


def message(text: str) -> bytes:
    return b'{"type":"message","message":{"role":"user","content":"%b"}}' % text.encode()


def context_of(lines: list[bytes]) -> list[str]:
    """What the tree's context at the last entry says, text by text."""
    tree = TreeIndex()
    for at, line in enumerate(lines):
        tree.add(line, at, ignore)
    rows = list(tree.rows_up(len(tree) - 1))
    entries = [decode(lines[tree.offsets[row]], row, ignore) for row in reversed(rows)]
    sound = [entry for entry in entries if entry is not None]
    messages, _, _ = ContextBuilder(path(*sound), segments({})).result()
    return [text_in(found) for found in messages]


def text_in(message: Any) -> str:
    return str(message.get("summary", message["content"]))


def linear_context(lines: list[bytes]) -> list[str]:
    """The same by the linear rule: what counts after each entry that parses, cut once."""
    after: list[list[tuple[int, str]]] = []
    cuts: dict[int, int] = {}
    for line in lines:
        parsed = decode_leniently(line)
        if not isinstance(parsed, dict):
            continue
        at = len(after)
        counting = after[-1].copy() if after else []
        kind = parsed.get("type")
        if kind == "message":
            counting.append((at, parsed["message"]["content"]))
        elif kind == "stack_pop" and 0 <= parsed["backToIndex"] < at:
            counting = [*after[parsed["backToIndex"]], (at, parsed["summary"])]
        elif kind == "compaction":
            first = parsed["firstKeptEntryIndex"]
            cuts[at] = first if 0 <= first <= at else at
            counting.append((at, parsed["summary"]))
        after.append(counting)
    counting = after[-1]
    latest = max((at for at, _ in counting if at in cuts), default=None)
    if latest is None:
        return [text for _, text in counting]
    kept = [text for at, text in counting if cuts[latest] <= at < latest and at not in cuts]
    return [dict(counting)[latest], *kept, *(text for at, text in counting if at > latest)]


@st.composite
def linear_sessions(draw: st.DrawFn) -> list[bytes]:
    lines = [HEADER]
    for place in range(draw(st.integers(0, 12))):
        kinds = ["message", "message", "message", "compaction", "stack_pop", "other", "broken"]
        kind = draw(st.sampled_from(kinds))
        index = draw(st.integers(-1, place + 2))
        keys: dict[str, Any] = {"type": kind}
        if kind == "message":
            keys["message"] = {"role": "user", "content": f"m{place}"}
        elif kind == "compaction":
            keys |= {"summary": f"c{place}", "firstKeptEntryIndex": index}
        elif kind == "stack_pop":
            keys |= {"summary": f"p{place}", "backToIndex": index}
        if kind == "broken":
            broken = [b"", b"  ", b"{", b"[1]", b'{"a":NaN}', b"\0\0", b"{}", HEADER, b'{"type":1}']
            lines.append(draw(st.sampled_from(broken)))
        else:
            lines.append(json.dumps(keys).encode() + draw(st.sampled_from([b"", b"\r", b" "])))
    return lines


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(250))
@given(linear_sessions())
def test_a_linear_session_has_the_same_context_before_and_after(lines: list[bytes]) -> None:
    after = migrated(*lines)
    assert len(after) == len(lines)
    assert context_of(after) == linear_context(lines)
    assert after == migrated(*lines)


def test_the_header_says_the_current_version() -> None:
    [header] = migrated(HEADER)
    keys = json.loads(header)
    assert list(keys)[:5] == ["type", "version", "format", "uuid", "parentUuid"]
    assert (keys["version"], keys["format"], keys["parentUuid"]) == (2, "sessiontree/2", None)
    assert (keys["id"], keys["cwd"], keys["timestamp"]) == ("s", "/p", "t")


def test_the_same_file_gives_the_same_uuids_and_equal_lines_different_ones() -> None:
    first = migrated(HEADER, message("a"), message("a"))
    assert first == migrated(HEADER, message("a"), message("a"))
    assert len({json.loads(line)["uuid"] for line in first}) == 3
    other = migrated(HEADER.replace(b'"s"', b'"t"'), message("a"))
    assert json.loads(other[1])["uuid"] != json.loads(first[1])["uuid"]


def test_uuids_are_of_version_5() -> None:
    assert uuid_of_line("s", 1, b"{}")[14] == "5"
    assert uuid_of_line("\ud800", 1, b"{}") == uuid_of_line("?", 1, b"{}")


def test_values_are_carried_over_byte_for_byte() -> None:
    for around in (b"%b", b"\0%b", b"\xef\xbb\xbf%b", b"%b\r", b" %b "):
        message = b'{"n": 1.50e1,"u":"\\u0041\\ud83d","d":[ ]}'
        line = b'{"type":"message", "message" : %b,"own":1E400}' % message
        assert b'"message":%b,"own":1E400' % message in migrated(HEADER, around % line)[1]


def test_private_characters_are_not_taken_for_surrogates() -> None:
    values = b'"a":"\\ue83d","b":"\\uD83D\\uDE00","c":"\\\\ud83d"'
    assert values in migrated(HEADER, b'{"type":"custom",%b}' % values)[1]
    _, lone = migrated(HEADER, b'{"type":"custom","a":"\\uD83D \\ud83d","b":"\\ud83d\\uDE00"}')
    assert b'"a":"\\uD83D \\ud83d","b":"\\ud83d\\uDE00"' in lone
    _, both = migrated(HEADER, b'{"type":"custom","a":"\\ue83d","b":"\\ud83d"}')
    assert both == b'{"type":"custom","a":"\\ue83d","b":"\\ud83d"}'


def test_invalid_utf_8_does_not_cost_the_other_values_their_bytes() -> None:
    _, line = migrated(HEADER, b'{"type":"custom","bad\xff":1.50,"x":2.50e0}')
    assert b'"x":2.50e0' in line


def test_keys_of_the_version_itself_are_replaced() -> None:
    _, line = migrated(HEADER, b'{"type":"t","crc":"1","version":9,"parentUuid":"z","format":"f"}')
    keys = json.loads(line)
    assert keys["parentUuid"] != "z"
    assert keys["crc"] != "1"
    assert "version" not in keys


def test_a_uuid_that_is_there_already_is_kept_once() -> None:
    own = b'{"type":"t","uuid":"mine"}'
    uuids = [json.loads(line)["uuid"] for line in migrated(HEADER, own, own)]
    assert uuids[1] == "mine"
    assert uuids[2] != "mine"


def test_indices_become_uuids() -> None:
    cut = b'{"type":"compaction","summary":"s","firstKeptEntryIndex":2,"tokensBefore":5}'
    pop = b'{"type":"stack_pop","summary":"p","backToIndex":1}'
    lines = migrated(HEADER, message("a"), b"", message("b"), cut, pop)
    header, a, b, compaction, popped = (json.loads(line) for line in lines if line)
    assert compaction["firstKeptEntryUuid"] == b["uuid"]
    assert "firstKeptEntryIndex" not in compaction
    assert (popped["type"], popped["parentUuid"]) == ("stack_summary", a["uuid"])
    assert popped["fromUuid"] == compaction["uuid"]
    assert "backToIndex" not in popped
    assert header["type"] == "session"


def test_an_index_that_counts_nothing_is_kept_and_never_guessed() -> None:
    for index in ("-1", "99", "true", "null", '"1"', "1.5", "[]"):
        cut = f'{{"type":"compaction","summary":"s","firstKeptEntryIndex":{index}}}'.encode()
        pop = f'{{"type":"stack_pop","summary":"s","backToIndex":{index}}}'.encode()
        _, compaction, popped = map(json.loads, migrated(HEADER, cut, pop))
        assert compaction["firstKeptEntryUuid"] == compaction["uuid"], index
        assert compaction["firstKeptEntryIndex"] == json.loads(index)
        assert (popped["type"], popped["backToIndex"]) == ("stack_pop", json.loads(index))
        assert popped["parentUuid"] == compaction["uuid"], index


def test_a_line_that_cannot_take_part_is_kept_and_breaks_no_chain() -> None:
    cases: list[bytes] = [
        *(b"{}", b'{"type":7,"x":1}', HEADER, b'{"type":"t","uuid":"\\ud800"}'),
        *(b'{"type":"t","\\ud800":1}', b"broken", b""),
    ]
    for line in cases:
        header, a, kept, b = migrated(HEADER, message("a"), line, message("b"))
        assert kept == line
        assert json.loads(b)["parentUuid"] == json.loads(a)["uuid"], line
        assert context_of([header, a, kept, b]) == ["a", "b"], line


def test_what_is_current_is_left_as_it_is() -> None:
    assert list(migrate([HEADER, b"x"], 2)) == [HEADER, b"x"]


def test_values_that_no_decoder_can_separate_are_written_anew_or_refused() -> None:
    deep = b'{"type":"t","x":%b}' % (b"[" * 1010 + b"]" * 1010)
    parsed = decode_leniently(deep)
    assert isinstance(parsed, dict)
    with pytest.raises(EntryError):
        values_of(deep, parsed)
    assert migrated(HEADER, deep)[1] == deep


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_a_real_session_keeps_its_entries_and_messages() -> None:
    original = (CORPUS / "large-session.jsonl").read_bytes().splitlines()
    after = migrated(*original)
    entries: list[Entry] = []
    for place, line in enumerate(after):
        entry = decode(line, place, ignore)
        assert entry is not None
        entries.append(entry)
    assert len(entries) == 1019
    parents = [entry.parent_uuid for entry in entries]
    assert parents == [None, *(entry.uuid for entry in entries[:-1])]
    messages, sources, _ = ContextBuilder(path(*entries), segments({}), verbatim=True).result()
    assert len(messages) == 914
    before = {entry.uuid: line for entry, line in zip(entries, original, strict=True)}
    for message, source in zip(messages, sources, strict=True):
        line = before[source.uuid]
        assert message == json.loads(line)["message"]
        assert line[line.index(b'"message":') : -1] in source.line


def test_a_header_that_cannot_be_written_anew_becomes_current_all_the_same() -> None:
    header = rb'{"version":1,"type":"session","\ud800":1,"id":"s","cwd":"/p"}'
    first, second = migrated(b"\xef\xbb\xbf" + header, message("one"))
    assert header[1:-1] in first
    (entry, damage), (below, _) = read(first), read(second)
    assert entry is not None
    assert below is not None
    assert damage == []
    assert entry["format"] == "sessiontree/2"
    assert below.parent_uuid == entry.uuid


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 80)), max_size=80))
def test_a_first_kept_index_means_the_topmost_entry_on_the_path_from_it_on(
    steps: list[tuple[bool, int]],
) -> None:
    lines, parents, wanted = [HEADER], [-1], {}
    for row, (is_pop, index) in enumerate(steps, 1):
        key = b'stack_pop","backToIndex"' if is_pop else b'compaction","firstKeptEntryIndex"'
        lines.append(b'{"type":"%b:%d}' % (key, index % row))
        parents.append(index % row if is_pop else row - 1)
        above, kept = row - 1, row
        while not is_pop and above >= index % row:
            above, kept = parents[above], above
        wanted[row] = kept
    made = [json.loads(line) for line in migrated(*lines)]
    for row, kept in wanted.items():
        assert made[row].get("firstKeptEntryUuid", made[row]["uuid"]) == made[kept]["uuid"]
