"""The fuzzer's corpus holds up, and so do its files after a mishap or two.

`fuzz_reader.py` says how to look for more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.invariants import check, check_reading
from tests.support.soak import in_soak

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.jsonl"))
CONTENTS = [file.read_bytes() for file in CORPUS]

PIECES = [
    *(b"", b"\n", b"\r\n", b"\0", b"\0" * 600, b"\xef\xbb\xbf", b"\xff", b" ", b'"', b"\\"),
    *(b"\\u0061", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-1"),
    *(b"1e999", b"123456789012345678901234567890", b"1" * 5000, b"[" * 1100),
    *(b'"uuid":"root",', b'"parentUuid":"a1",', b'"lane":"side",', b'"crc":"00000000"'),
    b'{"type":"message","uuid":"a1","parentUuid":"a1","message":{"role":"user","content":"x"}}\n',
    b'{"type":"session","version":2,"uuid":"root2","parentUuid":null}\n',
]


def test_the_corpus_holds_up() -> None:
    for file in CORPUS:
        check(file.read_bytes())


@pytest.mark.slow
def test_every_file_of_the_corpus_cut_anywhere_can_be_read() -> None:
    for content in CONTENTS:
        for length in range(0, len(content), max(1, len(content) // 8)):
            check_reading(content[:length])


@st.composite
def mishaps(draw: st.DrawFn) -> bytes:
    """A file of the corpus, after some bytes were lost, doubled, moved or changed."""
    content = draw(st.sampled_from(CONTENTS))
    for _ in range(draw(st.integers(1, 4))):
        where = st.integers(0, len(content))
        start, end = sorted((draw(where), draw(where)))
        match draw(st.sampled_from(["put", "put", "cut", "double", "flip", "swap", "join"])):
            case "put":
                content = content[:start] + draw(st.sampled_from(PIECES)) + content[start:]
            case "cut":
                content = content[:start] + content[end:]
            case "double":
                content = content[:end] + content[start:end] + content[end:]
            case "flip" if content:
                at = min(start, len(content) - 1)
                flipped = content[at] ^ 1 << draw(st.integers(0, 7))
                content = content[:at] + bytes([flipped]) + content[at + 1 :]
            case "swap":
                lines = content.split(b"\n")
                place = st.integers(0, len(lines) - 1)
                one, other = draw(place), draw(place)
                lines[one], lines[other] = lines[other], lines[one]
                content = b"\n".join(lines)
            case "join":
                content = content[:start] + draw(st.sampled_from(CONTENTS))[start:]
    return content


@pytest.mark.slow
@in_soak("examples", 100, 30_000)
def test_no_mishap_leaves_a_file_that_breaks_the_reader(examples: int) -> None:
    every = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    every(given(mishaps())(check))()
