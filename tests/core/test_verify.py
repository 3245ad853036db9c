from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import encode, seal
from sessiontree.core.verify import Verification
from tests.support.lines import Findings
from tests.support.soak import amount


def line(type: str, uuid: str, parent: str | None, **fields: Any) -> bytes:
    return encode({"type": type, "uuid": uuid, "parentUuid": parent, **fields})


def found_in(lines: Iterable[bytes]) -> Findings:
    findings, offset = Findings(), 0
    verification = Verification(findings)
    for each in lines:
        verification.take(each, offset)
        offset += len(each) + 1
    verification.finish()
    return findings


HEADER = line("session", "h", None, version=2, id="s")
A = line("message", "a", "h", message={})
B = line("message", "b", "a", message={})
SIDE = line("message", "side", "a", message={})
TREE = [HEADER, A, B, SIDE]


def compaction(first_kept: Any, parent: str = "b") -> bytes:
    return line("compaction", "x", parent, summary="s", firstKeptEntryUuid=first_kept)


def merge(merged: Any, base: Any) -> bytes:
    return line("merge", "x", "b", mergedUuid=merged, baseUuid=base)


def test_sound_references_and_lines_are_passed_over() -> None:
    cases: list[list[bytes]] = [
        *([compaction("a")], [compaction("x")], [compaction("h")], [merge("side", "a")]),
        [line("label", "x", "b", targetUuid="side", label="n")],
        [line("context_edit", "x", "b", targetUuid="side", replacement=None)],
        *([line(f"{s}_summary", "x", "a", summary="s", fromUuid="b")] for s in ("branch", "stack")),
        [line("of the future", "x", "b", targetUuid="gone")],
        [line("stack_summary", "x", "a", summary="s", fromUuid="b", spilled=[-1])],
        [line("label", "x", "b", targetUuid="late"), line("message", "late", "x", message={})],
        [b'{"type":"message","uuid":"f","parentUuid":"b"}'],  # never sealed, and so not wrong
    ]
    for added in cases:
        assert found_in([*TREE, *added]).told == []


def test_a_reference_that_leads_nowhere_is_named() -> None:
    cases: list[tuple[bytes, str]] = [
        (compaction("gone"), "x: its firstKeptEntryUuid gone is not in the file"),
        (compaction("side"), "x: its firstKeptEntryUuid side is not on its path"),
        (compaction(7), "x: the compaction has no firstKeptEntryUuid"),
        (merge("side", "b2"), "x: its baseUuid b2 is not in the file"),
        (merge("a", "side"), "x: its baseUuid side is not on its path"),
        (
            merge("gone", "lost"),
            "x: its mergedUuid gone is not in the file; its baseUuid lost is not in the file",
        ),
        (merge(None, None), "x: the merge has no mergedUuid; the merge has no baseUuid"),
        (line("label", "x", "b", targetUuid="gone"), "x: its targetUuid gone is not in the file"),
        (line("context_edit", "x", "b"), "x: the context_edit has no targetUuid"),
        (line("branch_summary", "x", "b", fromUuid="q"), "x: its fromUuid q is not in the file"),
    ]
    for entry, cause in cases:
        offset = sum(len(each) + 1 for each in TREE)
        assert found_in([*TREE, entry]).told == [("reference", offset, cause)]


def test_a_summary_need_not_name_the_leaf_that_was_left() -> None:
    for kind in ("branch_summary", "stack_summary"):
        for fields in ({}, {"fromUuid": None}):
            assert found_in([*TREE, line(kind, "x", "b", summary="S", **fields)]).told == []
        odd = found_in([*TREE, line(kind, "x", "b", summary="S", fromUuid=7)]).told
        assert [cause for _, _, cause in odd] == [f"x: the fromUuid of the {kind} is not a uuid"]


HEX = "0" * 64


def test_a_handle_that_is_not_valid_is_named() -> None:
    cases: list[tuple[Any, str]] = [
        (None, "must be text or an object, not None"),
        (7, "must be text or an object, not 7"),
        ("notes.md", "'notes.md' is not a handle"),
        ("acme@1::note:a", "is not a version"),
        ("acme@1.0.0::note:%zz", "not percent-encoded"),
        ({"plugin": "acme"}, "version of a handle must be"),
        ({"source": "acme", "source_version": "1.0.0"}, "identifier of a handle must be"),
        ("blob@1.0.0::sha256:abc:1:text/plain", "is not a SHA-256"),
        (f"blob@1.0.0::sha256:{HEX}:1:no type", "is not a media type"),
        (f"blob@1.0.0::sha256:{HEX}:-1:text/plain", "must be a whole number"),
        (f"blob@1.0.0::sha256:{HEX}", "has 1 part of meta, and needs 3"),
        ("file@1.0.0::path:../secret", "is not a path below a root"),
        ("session@2.0.0::block:abc:u1:first", "must be a whole number"),
        ("session@2.0.0::entry:abc", "has 1 part of meta, and needs 2"),
    ]
    for handle, cause in cases:
        fields = {} if handle is None else {"handle": handle}
        entry = line("handle", "x", "b", kind="binary", **fields)
        ((kind, offset, told),) = found_in([*TREE, entry]).told
        assert (kind, offset) == ("handle", sum(len(each) + 1 for each in TREE)), handle
        assert told.startswith("x: "), handle
        assert cause in told


def test_a_valid_handle_is_no_damage_whatever_it_points_to() -> None:
    cases: list[Any] = [
        *("acme@1.0.0::chat:msg-123:user:bob", "blob@2.0.0::sha256:other", "blob@1.0.0::new:x"),
        *(f"blob@1.4.0::sha256:{HEX}:1:text/plain", "file@1.0.0::path:a/b.md"),
        {"plugin": "session", "version": "2.0.0", "method": "block", "meta": ["abc", "u1", "0"]},
        {"source": "file", "source_version": "1.0.0", "identifier": "notes.md"},
    ]
    for handle in cases:
        assert found_in([*TREE, line("handle", "x", "b", kind="message", handle=handle)]).told == []


def test_an_oddity_is_one_finding_and_makes_no_second_one() -> None:
    cases: list[tuple[list[bytes], str]] = [
        ([*TREE, compaction("a"), A], "duplicate"),  # joined from two copies
        ([HEADER, B, compaction("a"), A], "late parent"),
        ([HEADER, A, B.replace(b":", b"", 1)], "json"),
        ([HEADER, seal(b'{"type":"custom","uuid":"x","parentUuid":"h","data":"\xe9"}')], "utf-8"),
    ]
    for lines, kind in cases:
        assert found_in(lines).kinds == [kind]


def test_a_copy_may_name_what_it_left_behind() -> None:
    header = line("session", "h", None, version=2, id="s", parentSession={"id": "o", "uuid": "q"})
    label = line("label", "l", "gone", targetUuid="a", label="n")
    merged = line("message", "m", "base", message={})
    entry = line("merge", "x", "a", mergedUuid="m", baseUuid="base")
    assert found_in([header, A, label, merged, entry]).told == []
    orphan = line("message", "o", "gone", message={})
    assert found_in([header, A, orphan]).kinds == ["missing parent"]
    assert found_in([HEADER, A, label]).kinds == ["missing parent"]


def test_what_stands_around_a_sealed_line_does_not_make_its_checksum_wrong() -> None:
    for around in (b"\0\0%b", b"\xef\xbb\xbf%b", b"%b\r", b"%b\0"):
        assert "crc" not in found_in([HEADER, A, around % B]).kinds


ids = st.sampled_from("abcdefgh")
anything = st.one_of(
    st.builds(line, st.just("message"), ids, ids | st.none()),
    st.builds(lambda u, p, f: line("compaction", u, p, firstKeptEntryUuid=f), ids, ids, ids),
    st.builds(lambda u, p, f: line("label", u, p, targetUuid=f), ids, ids, ids),
    st.builds(lambda u, p, m, b: line("merge", u, p, mergedUuid=m, baseUuid=b), ids, ids, ids, ids),
    st.sampled_from([b"", b"no JSON", b"[]", b"\0\0", b'{"type":"x"}', A + b"\r", A[:-9]]),
)


@pytest.mark.slow
@given(st.lists(st.lists(anything, min_size=1, max_size=4), max_size=5))
@settings(deadline=None, max_examples=amount(150))
def test_findings_do_not_depend_on_how_a_file_is_cut_into_blocks(blocks: list[list[bytes]]) -> None:
    findings, offset = Findings(), 0
    verification = Verification(findings)
    for lines in ([HEADER], *blocks):
        block = b"".join(each + b"\n" for each in lines)
        verification.take_block(block, offset)
        offset += len(block)
    verification.finish()
    one_by_one = found_in([HEADER, *(each for lines in blocks for each in lines)])
    assert sorted(findings.told) == sorted(one_by_one.told)


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=10), st.integers(0, 9), st.integers(0, 9))
@settings(deadline=None, max_examples=amount(200))
def test_a_first_kept_entry_is_reported_if_not_above(above: list[int], at: int, kept: int) -> None:
    """Each entry hangs below an earlier one; the walk up is done plainly beside it."""
    parents = [place % (row + 1) for row, place in enumerate(above)]
    lines = [line("session", "0", None)]
    lines += [line("m", str(row + 1), str(parent)) for row, parent in enumerate(parents)]
    at, kept = at % len(lines), kept % len(lines)
    lines.append(line("compaction", "x", str(at), firstKeptEntryUuid=str(kept)))
    path = {at}
    while at:
        at = parents[at - 1]
        path.add(at)
    assert (found_in(lines).kinds == []) == (kept in path)
