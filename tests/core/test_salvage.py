from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import encode
from sessiontree.core.entry import decode_leniently
from sessiontree.core.salvage import LineParts, take_apart
from tests.support.lines import values
from tests.support.soak import amount

ENTRY = encode({"type": "message", "uuid": "a", "message": {"role": "user", "content": "é"}})
FOREIGN = b'{ "uuid": "b", "type": "message", "text": "x" }'


def test_a_line_comes_apart_into_entries_fragments_and_the_rest() -> None:
    cases: list[tuple[bytes, LineParts]] = [
        (ENTRY[:9], LineParts([], 0, 9)),
        (ENTRY[:-1], LineParts([], 0, len(ENTRY) - 1)),
        (ENTRY[:-2] + b"#}", LineParts([ENTRY[:-2] + b"#}"], 0, 0)),
        (FOREIGN[:-1], LineParts([], 0, len(FOREIGN) - 1)),
        (ENTRY + FOREIGN, LineParts([ENTRY, FOREIGN], 2, 0)),
        (ENTRY + b" \0\xef\xbb\xbf " + FOREIGN, LineParts([ENTRY, FOREIGN], 2, 0)),
        (ENTRY + b'{"a":"x}', LineParts([ENTRY], 1, 8)),
        (ENTRY + ENTRY[:40], LineParts([ENTRY], 1, 40)),
        (ENTRY[:40] + FOREIGN, LineParts([FOREIGN], 1, 40)),
        (ENTRY[:40] + FOREIGN + ENTRY[:50] + ENTRY, LineParts([FOREIGN, ENTRY], 2, 90)),
        (ENTRY[:40] + ENTRY[:50] + ENTRY, LineParts([ENTRY[:40] + ENTRY[:50] + ENTRY], 0, 0)),
        (b"x" + ENTRY, LineParts([b"x", ENTRY], 1, 0)),
        (b'{"a":1}{"no":"type"}', LineParts([b'{"a":1}', b'{"no":"type"}'], 2, 0)),
        (b"\x80\xff", LineParts([b"\x80\xff"], 0, 0)),
        (ENTRY[:30] + b"\xc3" + FOREIGN, LineParts([FOREIGN], 1, 31)),
        (b'{"type":"m","uuid":"\xc3\xa9\xc3', LineParts([], 0, 23)),
        (b'{"a":NaN}', LineParts([b'{"a":NaN}'], 1, 0)),
        *((deep * 3000, LineParts([deep * 3000], 0, 0)) for deep in (b"[", b'{"a":')),
        (b'{"a":' + FOREIGN, LineParts([b'{"a":' + FOREIGN], 0, 0)),
        *(
            (torn + FOREIGN, LineParts([FOREIGN], 1, len(torn)))
            for torn in (b'{"a":"', b'{"a":"\\', b'{"a":"\\u12', b'{"a":tru', b'{"a":-', b'{"a":1.')
        ),
        (
            b'{"a":{"type":"x","uuid":"y"}} x',
            LineParts([b'{"a":{"type":"x","uuid":"y"}}', b"x"], 1, 0),
        ),
    ]
    for line, parts in cases:
        assert take_apart(line) == parts


def test_an_entry_quoted_by_a_fragment_does_not_come_to_life() -> None:
    """A tool result held a stored entry, checksum and all, and was torn right behind it."""
    line = b'{"type":"custom","uuid":"c","data":[1,' + ENTRY
    assert take_apart(line) == LineParts([line], 0, 0)


def test_an_entry_with_a_wrong_checksum_is_not_found_behind_a_fragment() -> None:
    """Its start cannot be trusted, so the line stays for somebody to look at."""
    line = ENTRY[:40] + ENTRY.replace(b"user", b"uses")
    assert take_apart(line) == LineParts([line], 0, 0)


def test_an_object_larger_than_the_first_look_is_found_whole() -> None:
    large = encode({"type": "message", "uuid": "l", "text": "é" * 100_000})
    assert take_apart(large + ENTRY) == LineParts([large, ENTRY], 2, 0)
    assert take_apart(large[:90_000] + ENTRY) == LineParts([ENTRY], 1, 90_000)


@pytest.mark.slow
@given(values)
@settings(deadline=None, max_examples=amount(60))
def test_each_beginning_of_an_entry_is_a_fragment(value: object) -> None:
    line = json.dumps({"type": "custom", "uuid": "a", "data": value}).encode()
    for end in range(1, len(line)):
        assert take_apart(line[:end]) == LineParts([], 0, end)


pieces = st.sampled_from(
    [ENTRY, FOREIGN, b'{"a":1}', b"[", b"]", b'"', b"\\", b"x", b"\0", b"\x01", b"\r", b"\v", b" "]
) | st.builds(
    lambda line, cut: line[:cut], st.sampled_from([ENTRY, FOREIGN]), st.integers(1, len(ENTRY))
)


@pytest.mark.slow
@example(
    b'[{ "uuid": "b", "type": "message" }\x0b'
    b'{"type":"message","uuid":"a","message":{"role":"user","content":"x"}}'
)
@given(st.lists(pieces, min_size=1, max_size=8).map(b"".join))
@settings(deadline=None, max_examples=amount(400))
def test_pieces_stand_in_the_line_in_order_and_stay_as_they_are(line: bytes) -> None:
    parts = take_apart(line)
    at = 0
    for piece in parts.pieces:
        at = line.index(piece, at) + len(piece)
        if decode_leniently(piece) is None:
            assert take_apart(piece).pieces == [piece]
    assert sum(map(len, parts.pieces)) + parts.torn <= len(line)


@given(st.lists(st.sampled_from([ENTRY, FOREIGN, b'{"a":1}', b"\0", b" "]), max_size=8))
@settings(deadline=None)
def test_whole_objects_are_never_lost(fused: list[bytes]) -> None:
    wanted = [piece for piece in fused if piece.startswith(b"{")]
    for torn in (b"", ENTRY[:30]):
        assert take_apart(b"".join(fused) + torn) == LineParts(wanted, len(wanted), len(torn))
