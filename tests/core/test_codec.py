from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import (
    SHORTEST_ENTRY,
    check_seal,
    decode,
    encode,
    head,
    is_sealed,
    lines_in,
    parts,
    raw_values,
    seal,
)
from sessiontree.core.damage import MAX_FINDINGS, ignore
from sessiontree.core.damage import Findings as Kept
from sessiontree.core.entry import BOM, Entry
from sessiontree.core.index import TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import EntryError
from tests.support.lines import Findings, read, values
from tests.support.soak import amount
from tests.support.table import for_each

SOUND = encode({"type": "message", "uuid": "u", "parentUuid": "p", "lane": "l", "message": {}})

keys = st.text(st.characters(codec="utf-8"), max_size=5).filter(
    lambda key: key not in ("type", "uuid", "parentUuid", "lane", "timestamp", "crc")
)


def taken(line: bytes, kinds: Sequence[str] = (), at: int = 0) -> Entry:
    """The entry of a line, of which this damage is reported and no other."""
    findings = Findings()
    entry = decode(line, at, findings)
    assert entry is not None
    assert findings.kinds == [*kinds]
    return entry


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(150))
@given(st.dictionaries(keys, values, max_size=5))
@example({"(line)": "x", "(body)": {"uuid": "z"}, "(offset)": 7, "message": None})
@example({"n": 2**63, "m": -(2**200), "f": 5e-324, "z": -0.0, "max": 1.7976931348623157e308})
def test_what_is_encoded_is_decoded_again(fields: dict[str, Any]) -> None:
    whole = {"type": "t", "uuid": "u", "parentUuid": None, **fields}
    entry = taken(encode(whole))
    body = {key: value for key, value in entry.body.items() if key != "crc"}
    assert body == whole
    assert repr(sorted(body.items())) == repr(sorted(whole.items()))  # 1 is not 1.0, -0.0 not 0.0


def test_keys_are_written_in_the_order_of_the_format() -> None:
    keys = ["spilled", "metadata", "z", "crc", "timestamp", "lane", "parentUuid", "uuid"]
    keys += ["format", "version", "type", "a"]
    line = encode(dict.fromkeys(keys, "v"))
    assert list(json.loads(line)) == [
        *("type", "version", "format", "uuid", "parentUuid", "lane", "timestamp"),
        *("z", "a"),
        *("metadata", "spilled", "crc"),
    ]


def test_the_last_18_bytes_are_the_checksum_of_all_before_them() -> None:
    line = encode({"type": "t", "uuid": "ü"})
    assert line[-18:] == b',"crc":"%08x"}' % zlib.crc32(line[:-18])
    assert is_sealed(line)


@pytest.mark.slow
def test_two_megabytes_of_nesting_are_refused_and_nothing_else_happens() -> None:
    deep = nested(1_000_000)
    try:
        for value in (deep, [2**70, deep]):
            with pytest.raises(EntryError):
                dumps(value)
    finally:  # so that freeing it does not recurse either
        while deep:
            deep = deep.pop()


def test_bytes_that_are_json_already_are_written_as_they_are() -> None:
    spelled = orjson.Fragment(b'{"n":1.50e1}')
    assert dumps({"a": spelled}) == b'{"a":{"n":1.50e1}}'
    assert dumps({"a": spelled, "b": (2**70,)}) == b'{"a":{"n":1.50e1},"b":[%d]}' % 2**70


def test_the_values_of_a_line_come_as_their_very_bytes() -> None:
    line = b'{ "a" : 1.50e1 , "b":"\\u0041","c":{"d" :[ ]}}'
    assert dumps(raw_values(line)) == b'{"a":1.50e1,"b":"\\u0041","c":{"d" :[ ]}}'


def test_foreign_spacing_and_key_order_make_no_difference() -> None:
    line = b' { "message" : {"role":"user"} ,\t"parentUuid":"p", "uuid" : "u","type":"message" } '
    entry = taken(line)
    assert (entry.type, entry.uuid, entry.parent_uuid) == ("message", "u", "p")
    assert entry["message"] == {"role": "user"}
    assert entry.line == line


def test_no_key_of_a_file_reaches_the_inside_of_an_entry() -> None:
    for key in ("(line)", "(body)", "(offset)"):
        for value in ("null", "5", '"x"', "{}", '{"uuid":"z"}', "[1]", "true"):
            line = f'{{"{key}":{value},"type":"t","uuid":"u","x":1,"{key}":{value}}}'.encode()
            entry = taken(line, at=40)
            assert (entry.line, entry.offset) == (line, 40), key
            assert (entry["x"], entry[key], entry["uuid"]) == (1, json.loads(value), "u")


def test_a_flawed_line_is_used_and_its_flaw_reported() -> None:
    cases: list[tuple[bytes, list[str]]] = [
        (SOUND + b"\r", ["crlf"]),
        (b"\xef\xbb\xbf" + SOUND, ["bom"]),
        (b"\0\0" + SOUND + b"\0", ["nul"]),
        (b"\0\xef\xbb\xbf" + SOUND, ["nul", "bom"]),
        (SOUND.replace(b"message", b"mess\xffge", 1), ["crc", "utf-8"]),
        (SOUND.replace(b'"l"', b'"k"'), ["crc"]),
        (SOUND.replace(b'"l"', b'"k"') + b"\r", ["crlf", "crc"]),
    ]
    for line, kinds in cases:
        entry = taken(line, kinds)
        assert (entry.uuid, entry.parent_uuid) == ("u", "p"), line
        assert entry.line == line
        assert entry.body["message"] == {}, line


def test_a_checksum_of_another_shape_is_unverifiable_not_wrong() -> None:
    cases: list[bytes] = [
        SOUND[:-10] + SOUND[-10:].upper().replace(b'"}', b'"}'),
        SOUND[:-18] + b"}",
        SOUND[:-10] + b'zzzzzzzz"}',
        SOUND[:-18] + b',"crc": "00000000"}',
        SOUND[:-18] + b',"crc":null}',
    ]
    for line in cases:
        if line == SOUND:
            pytest.fail("the checksum has no letters; choose another line")
        taken(line)


def test_a_wrong_checksum_names_both_sums() -> None:
    findings = Findings()
    line = SOUND.replace(b'"l"', b'"k"')
    assert decode(line, 99, findings) is not None
    [(kind, offset, cause)] = findings.told
    assert (kind, offset) == ("crc", 99)
    assert SOUND[-10:-2].decode() in cause


def test_check_seal_finds_what_decode_finds() -> None:
    for line in (SOUND, SOUND + b"\r", SOUND.replace(b'"l"', b'"k"')):
        findings = Findings()
        check_seal(line, 0, findings)
        assert findings.kinds == read(line)[1]


def test_a_line_that_is_no_entry_is_reported_not_skipped() -> None:
    cases: list[tuple[bytes, list[str]]] = [
        *((line, ["blank"]) for line in (b"", b" \t\r")),
        (b"\xef\xbb\xbf", ["bom", "blank"]),
        (b"\0\0\0", ["nul"]),
        *((line, ["json"]) for line in (SOUND[:-1], SOUND + SOUND)),
        (b'{"type":"t","uuid":"u","x":NaN}', ["json"]),
        (b'{"type":"t","uuid":"u","message":[Infinity]}', ["json"]),
        *((line, ["object"]) for line in (b"[1]", b'"text"', b"null", b"12", b"true")),
        *((b'{"uuid":"u"%b}' % type, ["object"]) for type in (b"", b',"type":null')),
        *((b'{"type":"t","uuid":%b}' % uuid, ["no uuid"]) for uuid in (b'""', b"7", b"null")),
        (b"{}", ["no uuid"]),
    ]
    for line, kinds in cases:
        assert read(line) == (None, kinds)
        findings = Findings()
        assert head(line, 0, findings) is None
        assert findings.kinds == kinds


def test_structural_keys_of_a_wrong_kind_cost_the_key_not_the_entry() -> None:
    line = b'{"type":"t","uuid":"u","parentUuid":5,"lane":[],"timestamp":1}'
    entry = taken(line, ["missing parent"])
    assert (entry.parent_uuid, entry.lane, entry.timestamp) == (None, None, None)
    assert entry["timestamp"] == 1


def test_a_lone_surrogate_as_node_writes_it_is_read() -> None:
    entry = taken(b'{"type":"message","uuid":"u","message":{"content":"\\ud83d!"},"n":1}')
    assert (entry["message"], entry["n"]) == ({"content": "\ud83d!"}, 1)


def test_a_line_that_is_mended_is_on_its_lane() -> None:
    for lane, taken_as in ((b'"side"', "side"), (b'"main"', None), (b"7", None)):
        line = b'{"type":"message","uuid":"u","lane":%b,"message":{"content":"\\ud83d!"}}' % lane
        found = head(line, 0, ignore)
        assert found is not None, lane
        assert found.lane == taken(line).lane == taken_as


def test_big_integers_keep_every_digit() -> None:
    for key in ("x", "message"):
        for front, kind in ((b"", ""), (b"\0", "nul"), (b"\xef\xbb\xbf", "bom")):
            number = 123456789012345678901234567890
            line = f'{{"type":"t","uuid":"u","{key}":{number}}}'.encode()
            assert taken(front + line, kind.split())[key] == number


def test_a_number_too_large_to_hold_costs_no_entry() -> None:
    for number in ("1e999", "-1e999", "9" * 5000):
        for key in ("x", "message"):
            line = f'{{"type":"t","uuid":"u","{key}":[{number}],"y":2}}'.encode()
            entry = taken(line, ["number"])
            assert abs(entry[key][0]) == float("inf"), number
            assert entry["y"] == 2, number
            assert head(line, 0, ignore) is not None, number
            assert read(line)[1] == ["number"], number


def test_only_a_number_beyond_a_double_is_reported() -> None:
    large = ("1e400", "-1E+0400", "9" * 309, "9" * 230 + "e90", "0.1e310")
    for number in (*large, "1.7e308", "9" * 308, "1e-400", "0e0", '"1e400"', '"%s"' % ("9" * 400)):
        line = f'{{"type":"t","uuid":"0e000","n":[{number}]}}'.encode()
        assert read(line)[1] == ["number"] * (number in large), number
        assert read(seal(line))[1] == [], number


def test_marks_around_a_line_are_stripped_in_any_order() -> None:
    line = b'{"type":"t","uuid":"u"}'
    for front, kinds in (
        (b"\0", ["nul"]),
        (BOM, ["bom"]),
        (BOM + BOM, ["bom"]),
        (b"\0" + BOM + b"\0" + BOM, ["nul", "bom"]),
    ):
        entry, found = read(front + line)
        assert entry is not None, front
        assert found == kinds, front
        assert read(front + line + b"\0")[1] == ["nul", *[k for k in kinds if k == "bom"]]


@for_each("levels", [300, 900, 1000])
@for_each("key", ["x", "message"])
def test_deep_nesting_is_read_however_deep_the_caller_stands(levels: int, key: str) -> None:
    line = b'{"type":"t","uuid":"u","%b":%b}' % (key.encode(), b"[" * levels + b"]" * levels)

    def below(frames: int) -> bool:
        if frames:
            return below(frames - 1)
        entry = decode(line, 0, ignore)
        return entry is not None and entry.get(key) is not None and bool(head(line, 0, ignore))

    assert below(0)
    assert below(300)


def test_nesting_beyond_all_decoders_is_reported() -> None:
    for levels in (5_000, 1_000_000):
        for key in (b"x", b"message"):
            line = b'{"type":"t","uuid":"u","%b":%b}' % (key, b"[" * levels + b"]" * levels)
            assert read(line) == (None, ["json"]), levels
            assert head(line, 0, ignore) is None, levels


def test_of_a_key_that_stands_twice_the_last_counts_for_every_reader() -> None:
    line = b'{"type":"t","uuid":"a","uuid":"b","message":1,"message":{"n":2}}'
    entry, found = taken(line), head(line, 0, ignore)
    assert found is not None
    assert found.uuid == entry.uuid == entry["uuid"] == "b"
    assert entry["message"] == entry.body["message"] == {"n": 2}


FRAGMENTS = [
    *(b'"uuid":"b"', b'"uuid":""', b'"uuid":5', b'"\\u0075uid":"c"', b'"type":7', b'"type":"x"'),
    *(b'"lane":1', b'"lane":"k"', b'"parentUuid":[]', b'"parentUuid":"q"', b'"timestamp":3'),
    *(b'"(line)":1', b'"(body)":null', b'"x":"\\ud800"', b'"x":"\xff"', b'"x":1e999', b'"x":01'),
    *(b'"message":"\\udc00"', b'"message":[[[]]]', b'"message":"\x01"', b'"x":"\\q"'),
    b'"\\ud800":1',
]
EDGES = [b"", b"\0", b"\r", b" ", b"\xef\xbb\xbf", b"{", b"}", b",", b'"', b"\\", b"\xff"]


@st.composite
def mutated_lines(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(st.sampled_from(FRAGMENTS), max_size=4))
    base = [b'"type":"t"', b'"uuid":"a"', b'"parentUuid":"p"']
    body = b",".join(draw(st.permutations([*base, *parts])))
    line = draw(st.sampled_from(EDGES)) + b"{" + body + b"}" + draw(st.sampled_from(EDGES))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from(EDGES)) + line[at + draw(st.integers(0, 2)) :]
    return line


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(500))
@given(mutated_lines() | st.binary(max_size=20))
def test_the_index_and_the_decoder_agree_on_what_is_an_entry(line: bytes) -> None:
    entry, kinds = read(line)
    findings = Findings()
    found = head(line, 0, findings)
    assert (found is None) == (entry is None)
    if found is None:
        assert findings.kinds == kinds != []
    else:
        assert entry is not None
        assert (found.type, found.uuid) == (entry.type, entry.uuid)
        assert (found.parent_uuid, found.lane) == (entry.parent_uuid, entry.lane)
        assert entry.body["uuid"] == entry.uuid


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"\r"))))
def test_a_block_comes_apart_into_the_lines_it_was_made_of(lines: list[bytes]) -> None:
    assert lines_in(b"".join(line + b"\n" for line in lines)) == lines


ENTRY = b'{"type":"message","uuid":"a","parentUuid":null}\n'


@given(st.lists(st.tuples(st.sampled_from([b"\n", b"\0\n", b"x\n", b"xx\n"]), st.integers(1, 30))))
def test_the_parts_are_the_block(runs: list[tuple[bytes, int]]) -> None:
    block = b"".join(line * count for line, count in runs)
    assert b"".join(b"".join(lines) * count for lines, count in parts(block)) == block


def test_a_run_is_reported_once_with_its_lines_and_the_next_entry_is_found() -> None:
    for line, count in ((b"\n", 8), (b"x" * (SHORTEST_ENTRY - 1) + b"\n", 9)):
        tree, findings = TreeIndex(), Findings()
        tree.extend(ENTRY + line * count + ENTRY.replace(b'"a"', b'"b"'), 0, findings)
        assert (tree.uuids, tree.offsets[1]) == (["a", "b"], len(ENTRY) + count * len(line))
        ((_, offset, cause), *_) = findings.told
        assert offset == len(ENTRY), line
        assert cause.endswith(f", and {count - 1} more lines like it follow")


def test_few_lines_long_lines_and_lines_that_differ_are_no_run() -> None:
    for block in (b"\n" * 7, b"x" * SHORTEST_ENTRY + b"\n", b"a\nb\n" * 9):
        assert all(count == 1 for _, count in parts(block))


def test_of_very_many_findings_the_rest_are_one_with_their_number() -> None:
    findings, most = Kept(), MAX_FINDINGS + 5
    for offset in (*range(most), *range(most)):  # read twice
        findings.note("blank", offset, "a blank line")
    found = findings.found()
    assert len(found) == MAX_FINDINGS + 1
    assert found[MAX_FINDINGS, "blank"] == "a blank line, and 4 more findings of this kind"


def test_the_first_in_the_file_stands_for_the_others_in_any_order() -> None:
    for more in ((7, 8, 9), (9, 8, 7), (8, 9, 7), (9, 7, 8), (8, 7, 9, 8)):
        findings = Kept()
        for offset in (*range(-MAX_FINDINGS, 0), *more):
            findings.note("crc", offset, f"cause of {offset}")
        found = findings.found()
        assert len(found) == MAX_FINDINGS + 1, more
        assert found[7, "crc"] == "cause of 7, and 2 more findings of this kind", more
