"""Reading lines backwards and forwards, against splitting the whole content."""

from __future__ import annotations

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.storage.lines import Backwards, Read, lines_at, rest_of_line, whole_lines
from tests.support.lines import blocks_of
from tests.support.table import for_each

CONTENT = st.lists(st.sampled_from([b"\n", b"a", b"b", b"ab", b"\r\n", b"abc" * 9])).map(b"".join)
Blocks = tuple[int, int]
BLOCKS = st.tuples(st.integers(1, 9), st.integers(1, 30)).map(lambda pair: (pair[0], sum(pair)))


def reader(content: bytes) -> Read:
    """A positioned read that is never asked for what cannot be."""

    def read(offset: int, size: int) -> bytes:
        assert size >= 0
        assert offset >= 0
        return content[offset : offset + size]

    return read


def split(content: bytes) -> list[tuple[int, bytes]]:
    """All lines and their offsets."""
    found = []
    offset = 0
    for line in content.split(b"\n"):
        found.append((offset, line))
        offset += len(line) + 1
    return found


@settings(deadline=None)
@given(CONTENT, BLOCKS)
def test_lines_backwards_are_the_lines_forwards_reversed(content: bytes, blocks: Blocks) -> None:
    with blocks_of(*blocks):
        backwards = Backwards(reader(content))
        found = []
        end = len(content)
        while end >= 0:
            offset, line = backwards.line_before(end)
            found.append((offset, line))
            end = offset - 1
    assert found[::-1] == split(content)


@settings(deadline=None)
@given(CONTENT, BLOCKS, st.data())
def test_any_line_is_found_by_its_end(content: bytes, blocks: Blocks, data: st.DataObject) -> None:
    expected = split(content)
    with blocks_of(*blocks):
        backwards = Backwards(reader(content))
        for offset, line in data.draw(st.permutations(expected)):
            assert backwards.line_before(offset + len(line)) == (offset, line)


@settings(deadline=None)
@given(CONTENT, st.sampled_from([b"a", b"ab", b"ba", b"aa", b"abcabcabc", b"x"]), BLOCKS, st.data())
def test_find_gives_every_line_with_the_needle_nearest_first(
    content: bytes, needle: bytes, blocks: Blocks, data: st.DataObject
) -> None:
    with blocks_of(*blocks):
        backwards = Backwards(reader(content))
        for end, line in data.draw(st.permutations(split(content)))[:3]:
            end += len(line)  # searches may start wherever the window happens to be
            expected = [(at, line) for at, line in split(content[:end]) if needle in line]
            assert list(backwards.find(needle, end)) == expected[::-1]


@settings(deadline=None)
@given(CONTENT, st.integers(0, 60), BLOCKS)
def test_the_rest_of_a_line_ends_at_its_newline(content: bytes, at: int, blocks: Blocks) -> None:
    with blocks_of(*blocks):
        assert rest_of_line(reader(content), at) == content[at:].split(b"\n")[0]


def test_the_rest_of_a_line_without_end_stops_some_past_the_limit() -> None:
    rest = rest_of_line(reader(b"x" * 50_000_000), 0, 100_000)
    assert 100_000 <= len(rest) < 3_000_000


@settings(deadline=None)
@given(CONTENT, BLOCKS)
@example(b"abc\n" * 20, (1, 2))
def test_whole_lines_are_all_that_a_newline_ends(content: bytes, blocks: Blocks) -> None:
    complete = content.rfind(b"\n") + 1
    with blocks_of(*blocks):
        found = list(whole_lines(reader(content), 0, len(content)))
    assert b"".join(block for _, block in found) == content[:complete]
    at = 0
    for offset, block in found:
        assert offset == at
        assert block.endswith(b"\n")
        at += len(block)


@settings(deadline=None)
@given(CONTENT, BLOCKS, st.integers(0, 60), st.integers(0, 60))
def test_whole_lines_stay_between_start_and_end(
    content: bytes, blocks: Blocks, start: int, length: int
) -> None:
    end = start + length
    with blocks_of(*blocks):
        found = b"".join(block for _, block in whole_lines(reader(content), start, end))
    inside = content[start:end]
    assert found == inside[: inside.rfind(b"\n") + 1]


def test_a_search_counts_the_bytes_it_looked_through_not_those_it_held() -> None:
    content = b"\n".join([b"x" * 9] * 2000 + [b"needle"] + [b"x" * 9] * 100)
    backwards = Backwards(reader(content))
    backwards.line_before(len(content))
    assert next(backwards.find(b"needle", len(content)))[1] == b"needle"
    assert backwards.searched < 1100


def test_lines_in_a_row_are_read_together() -> None:
    content = b"x" * 99 + b"\n"
    sizes: list[int] = []

    def read(offset: int, size: int) -> bytes:
        sizes.append(size)
        return (content * 10_000)[offset : offset + size]

    assert list(lines_at(read, range(0, 1_000_000, 100))) == [content[:-1]] * 10_000
    assert len(sizes) < 100
    assert sum(sizes) < 3_000_000


@settings(deadline=None)
@given(CONTENT, BLOCKS, st.randoms(use_true_random=False))
def test_chosen_lines_are_those_of_a_split(content: bytes, blocks: Blocks, random: Random) -> None:
    chosen = [found for found in split(content) if random.random() < 0.5]
    with blocks_of(*blocks):
        got = list(lines_at(reader(content), [offset for offset, _ in chosen]))
    assert got == [line for _, line in chosen]


@for_each(
    "start, end, size, found",
    [
        (0, 8, 99, (0, b"one\ntwo\n")),
        (0, 8, 8, (0, b"one\ntwo\n")),
        (0, 8, 7, (4, b"two\n")),
        (0, 8, 4, (8, b"")),
        (2, 8, 99, (4, b"two\n")),
        (2, 14, 99, (4, b"two\nthree\n")),
        (2, 2, 99, (2, b"")),
        (2, 15, 99, (15, b"")),
    ],
)
def test_whole_lines_of_a_window_are_those_that_begin_in_it(
    start: int, end: int, size: int, found: tuple[int, bytes]
) -> None:
    content = b"one\ntwo\nthree\n"
    lines = Backwards(lambda offset, size: b"", content[start:], start)
    assert lines.lines_before(end, size) == found


@for_each(
    "start, end, found",
    [(0, 15, 3), (0, 11, 3), (0, 3, 3), (4, 15, 7), (8, 15, 11), (16, 15, 15), (0, 99, 99)],
)
def test_lines_alike_are_passed_at_once_within_the_window(start: int, end: int, found: int) -> None:
    content = b"one\ntwo\ntwo\ntwo\n"
    lines = Backwards(lambda offset, size: b"", content[start:], start)
    assert lines.before_alike(b"two", end) == found
