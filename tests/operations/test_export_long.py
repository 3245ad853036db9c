"""A copy holds few bytes for each entry beside the index."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.codec import FORMAT, VERSION, encode
from tests.support.table import for_each

ENTRIES = 30_000
BOUND = 2_500_000
"""Bytes beside the index, those of blocks that are read and written among them."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of many small messages, one below the other."""
    file = tmp_path_factory.mktemp("long") / "session.jsonl"
    start = {"type": "session", "uuid": "e0", "parentUuid": None, "id": "long", "cwd": "/"}
    with file.open("wb") as out:
        out.write(encode({**start, "version": VERSION, "format": FORMAT}) + b"\n")
        for number in range(1, ENTRIES):
            message = {"role": "assistant" if number % 2 else "user", "content": "hi"}
            place = {"uuid": f"e{number}", "parentUuid": f"e{number - 1}"}
            out.write(encode({"type": "message", **place, "message": message}) + b"\n")
    return file


COPIES: dict[str, Callable[[Session, str], object]] = {
    "fork": lambda session, new: session.fork(new),
    "export": lambda session, new: session.export_branch("e2", new),
    "export with the path": lambda session, new: session.export_branch(
        "e20000", new, with_path=True
    ),
}


@pytest.mark.slow
@for_each("copy", COPIES.values(), ids=COPIES.keys())
def test_a_copy_holds_few_bytes_for_each_entry(
    file: Path, tmp_path: Path, copy: Callable[[Session, str], object]
) -> None:
    with Session.open(file, readonly=True) as session:
        list(session.children("e1"))  # makes the index
        tracemalloc.start()
        try:
            copy(session, str(tmp_path / "copy.jsonl"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < BOUND
