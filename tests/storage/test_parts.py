"""What is kept beside a log is compared byte for byte, however it is cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.errors import SessionExistsError
from sessiontree.storage import sidecars
from sessiontree.storage.fs import DISK
from sessiontree.storage.memory import MemoryFiles
from sessiontree.storage.sidecars import FileParts, Parts, begin_alike, keep

BLOCKS = st.lists(st.sampled_from([b"", b"a", b"ab", b"aaaa", b"b"]), max_size=6)


@given(BLOCKS, BLOCKS, st.integers(0, 12))
def test_two_contents_begin_alike_if_their_first_bytes_are_the_same(
    one: list[bytes], other: list[bytes], size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecars, "_BLOCK", 3)
        first, second = b"".join(one)[:size], b"".join(other)[:size]
        assert begin_alike(one, other, size) == (first == second)


@pytest.fixture(params=["file", "memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Parts:
    if request.param == "memory":
        return FileParts(MemoryFiles(), "a.jsonl")
    return FileParts(DISK, str(tmp_path / "a.jsonl"))


def test_what_is_kept_is_kept_once(kept: Parts) -> None:
    def content() -> Iterator[bytes]:
        yield from (b"one", b"two")

    assert keep(kept, ".old", "a.jsonl", 6, content)
    assert not keep(kept, ".old", "a.jsonl", 6, content)
    assert b"".join(kept.read(".old")) == b"onetwo"


@pytest.mark.parametrize("other", [b"onetwO", b"onetw", b"onetwo3"])
def test_another_content_is_never_written_over(kept: Parts, other: bytes) -> None:
    kept.write(".old", iter([other]))
    with pytest.raises(SessionExistsError, match=r"is not a copy of a\.jsonl"):
        keep(kept, ".old", "a.jsonl", 6, lambda: iter([b"onetwo"]))
    assert b"".join(kept.read(".old")) == other
