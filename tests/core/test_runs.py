"""Runs: short lines alike are one part, and every byte of a block is in a part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.core.codec import SHORTEST_ENTRY, parts
from sessiontree.core.damage import MOST_FINDINGS
from sessiontree.core.damage import Findings as Kept
from sessiontree.core.index import TreeIndex
from tests.support.lines import Findings

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
    findings, most = Kept(), MOST_FINDINGS + 5
    for offset in (*range(most), *range(most)):  # read twice
        findings.note("blank", offset, "a blank line")
    found = findings.found()
    assert len(found) == MOST_FINDINGS + 1
    assert found[MOST_FINDINGS, "blank"] == "a blank line, and 4 more findings of this kind"


def test_the_first_in_the_file_stands_for_the_others_in_any_order() -> None:
    for more in ((7, 8, 9), (9, 8, 7), (8, 9, 7), (9, 7, 8), (8, 7, 9, 8)):
        findings = Kept()
        for offset in (*range(-MOST_FINDINGS, 0), *more):
            findings.note("crc", offset, f"cause of {offset}")
        found = findings.found()
        assert len(found) == MOST_FINDINGS + 1, more
        assert found[7, "crc"] == "cause of 7, and 2 more findings of this kind", more
