"""What one line, one entry, one context costs, in isolation, with pytest-benchmark.

    pytest -n 0 benchmarks/micro --benchmark-columns=min,median,ops

The sessions are those of `benchmarks.corpus`, 2 MB; compare two states of the code
with `--benchmark-save=NAME` and `--benchmark-compare`.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import corpus
from sessiontree import Session
from sessiontree.core.codec import decode, encode
from sessiontree.core.damage import ignore
from sessiontree.core.index import TreeIndex

MESSAGES = 1000
SMALL = {"role": "user", "content": "And what about the next one?"}


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return list(corpus.branched(count=MESSAGES, depth=360))


@pytest.fixture
def file(lines: list[bytes], tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_encode_a_message_of_2_kb(benchmark: BenchmarkFixture, lines: list[bytes]) -> None:
    values = [orjson.loads(line) for line in lines[1:11]]
    for value in values:
        del value["crc"]
    benchmark(lambda: [encode(value) for value in values])


def test_decode_ten_lines(benchmark: BenchmarkFixture, lines: list[bytes]) -> None:
    benchmark(lambda: [decode(line, 0, ignore) for line in lines[1:11]])


def test_index_a_thousand_lines(benchmark: BenchmarkFixture, lines: list[bytes]) -> None:
    block = b"\n".join(lines) + b"\n"

    def index() -> int:
        tree = TreeIndex()
        tree.extend(block, 0, ignore)
        return len(tree)

    assert benchmark(index) == len(lines)


def test_resume_360_deep(benchmark: BenchmarkFixture, file: Path) -> None:
    def resume() -> list[Any]:
        with Session.open(file, readonly=True) as session:
            return session.context().messages

    assert len(benchmark(resume)) >= 360


def test_the_same_context_again(benchmark: BenchmarkFixture, file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        assert benchmark(lambda: len(session.context().messages)) >= 360


def test_context_after_an_append(benchmark: BenchmarkFixture, file: Path) -> None:
    with Session.open(file, durability="os", exclusive=True) as session:

        def go_on() -> int:
            session.append_message(SMALL)
            return len(session.context().messages)

        assert benchmark(go_on) >= 360


@pytest.mark.parametrize("exclusive", [False, True], ids=["shared", "exclusive"])
def test_append_a_line(benchmark: BenchmarkFixture, file: Path, exclusive: bool) -> None:
    with Session.open(file, durability="os", exclusive=exclusive) as session:
        session.append_message(SMALL)
        benchmark(session.append_message, SMALL)


def test_append_a_hundred_in_a_batch(benchmark: BenchmarkFixture, file: Path) -> None:
    with Session.open(file, durability="os", exclusive=True) as session:

        def batch() -> None:
            with session.batch():
                for _ in range(100):
                    session.append_message(SMALL)

        benchmark(batch)


def test_branch_back_and_build_the_context(benchmark: BenchmarkFixture, file: Path) -> None:
    with Session.open(file, durability="os", exclusive=True) as session:
        middle = session.path()[180]

        def back() -> int:
            session.branch(middle)
            return len(session.context().messages)

        assert benchmark(back) >= 150


def test_fork_at_the_middle(benchmark: BenchmarkFixture, file: Path, tmp_path: Path) -> None:
    numbers = count()
    with Session.open(file, readonly=True) as session:
        middle = session.path()[180]
        benchmark(lambda: session.fork(tmp_path / f"fork-{next(numbers)}.jsonl", at=middle))


def test_ask_for_the_leaf_by_a_prefix(benchmark: BenchmarkFixture, file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        prefix = session.leaf.uuid[:8]
        assert benchmark(session.entry, prefix) == session.leaf
