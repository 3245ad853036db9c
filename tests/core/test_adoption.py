from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import decode, encode, is_sealed
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry
from sessiontree.core.migrate import UuidAssigner, migrate
from tests.support.soak import amount

HEADER = b'{"type":"session","id":"s","timestamp":"t","cwd":"/p"}'


def adopted(lines: Iterable[bytes]) -> tuple[list[bytes], list[str]]:
    """The lines after adoption, and what it said."""
    adoption, notes = UuidAssigner(), list[str]()
    return [adoption.take(line, notes.append) for line in lines], notes


def read(line: bytes) -> Entry:
    entry = decode(line, 0, ignore)
    assert entry is not None
    return entry


def old(type: str, **fields: Any) -> bytes:
    """A line as the older program writes it."""
    return json.dumps({"type": type, **fields}).encode()


def said(text: str) -> bytes:
    return old("message", message={"role": "user", "content": text})


TREE = [
    encode({"type": "session", "version": 2, "uuid": "h", "parentUuid": None, "id": "s"}),
    *(
        encode({"type": "message", "uuid": uuid, "parentUuid": parent, "message": {}})
        for uuid, parent in (("a", "h"), ("b", "a"), ("side", "a"), ("c", "b"))
    ),
]


def test_an_adopted_line_hangs_below_the_one_before_and_is_sealed() -> None:
    lines, notes = adopted([*TREE, said("one"), said("two")])
    one, two = read(lines[-2]), read(lines[-1])
    assert (one.parent_uuid, two.parent_uuid) == ("c", one.uuid)
    assert one["message"] == {"role": "user", "content": "one"}
    assert is_sealed(lines[-1])
    assert [note.split()[7] for note in notes] == [f"{one.uuid},", f"{two.uuid},"]


def test_lines_with_uuids_are_carried_over_so_that_adopting_twice_changes_nothing() -> None:
    lines, _ = adopted([*TREE, said("one"), old("compaction", firstKeptEntryIndex=2)])
    assert lines[: len(TREE)] == TREE
    assert adopted(lines) == (lines, [])


def test_values_are_carried_over_as_the_bytes_they_were() -> None:
    line = b'{ "type":"message", "message":{"n":1.50,  "s":"\\u00e9"} }'
    lines, _ = adopted([*TREE, line])
    assert b'"message":{"n":1.50,  "s":"\\u00e9"}' in lines[-1]


def test_another_lane_is_not_what_the_older_program_saw_last() -> None:
    lane = encode({"type": "message", "uuid": "l", "parentUuid": "c", "lane": "x", "message": {}})
    lines, _ = adopted([*TREE, lane, said("one")])
    assert read(lines[-1]).parent_uuid == "c"


def test_the_index_of_a_compaction_becomes_the_entry_it_counts() -> None:
    for index, first_kept in ((2, "b"), (1, "a"), (0, "h"), (4, "c"), (3, "c")):
        line = old("compaction", summary="s", firstKeptEntryIndex=index, tokensBefore=1)
        entry = read(adopted([*TREE, line])[0][-1])
        assert entry["firstKeptEntryUuid"] == first_kept
        assert "firstKeptEntryIndex" not in entry, index


def test_an_index_counts_lines_that_take_no_part_in_the_tree() -> None:
    no_entries = [b'{"no":"type"}', b"no JSON", b"[]"]
    line = old("compaction", summary="s", firstKeptEntryIndex=6, tokensBefore=1)
    lines, _ = adopted([*TREE, *no_entries, said("kept"), line])
    assert lines[5:8] == no_entries
    assert read(lines[-1])["firstKeptEntryUuid"] == read(lines[-2]).uuid


def test_an_index_of_nothing_keeps_nothing_and_stays() -> None:
    for index in (-1, 6, True, "2", None, 1.5):
        line = old("compaction", summary="s", firstKeptEntryIndex=index, tokensBefore=1)
        entry = read(adopted([*TREE, line])[0][-1])
        assert entry["firstKeptEntryUuid"] == entry.uuid, index
        assert entry["firstKeptEntryIndex"] == index


def test_a_pop_of_the_older_program_goes_back_as_it_meant() -> None:
    entry = read(adopted([*TREE, old("stack_pop", backToIndex=2, summary="done")])[0][-1])
    assert (entry.type, entry.parent_uuid, entry["fromUuid"]) == ("stack_summary", "b", "c")
    assert "backToIndex" not in entry


def test_a_pop_to_a_line_outside_the_tree_goes_to_the_entry_above_it() -> None:
    line = old("stack_pop", backToIndex=5, summary="done")
    entry = read(adopted([*TREE, b'{"no":"type"}', said("one"), line])[0][-1])
    assert entry.parent_uuid == "c"


def test_what_no_older_program_meant_is_left_alone() -> None:
    cases: list[bytes] = [
        *(b"no JSON", b"[1]", b'{"message":{}}', b'{"type":7}', HEADER),
        *(b'{"type":"message","uuid":7}', b'{"type":"message","uuid":""}'),
        *(b'{"type":"message","parentUuid":"a"}', b'{"type":"message","\\ud800":1}'),
    ]
    for line in cases:
        assert adopted([*TREE, line]) == ([*TREE, line], [])


def test_a_line_before_the_header_is_left_alone() -> None:
    assert adopted([said("early"), *TREE])[0][0] == said("early")


indices = st.integers(-1, 12)
old_lines = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=5).map(said),
    indices.map(lambda i: old("compaction", summary="s", firstKeptEntryIndex=i, tokensBefore=1)),
    indices.map(lambda i: old("stack_pop", backToIndex=i, summary="s")),
    st.sampled_from([b"no JSON", b'{"no":"type"}', b"[]", b"", HEADER, old("custom")]),
)


@pytest.mark.slow
@given(st.lists(old_lines, max_size=12), st.integers(0, 12))
@settings(deadline=None, max_examples=amount(200))
def test_lines_adopted_after_a_migration_are_as_if_migrated(lines: list[bytes], cut: int) -> None:
    """Whoever migrates first and whoever writes on meanwhile: the tree is the same."""
    whole = list(migrate([HEADER, *lines], 1))
    half = [*migrate([HEADER, *lines[:cut]], 1), *lines[cut:]]
    assert adopted(half)[0] == whole
