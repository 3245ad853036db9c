"""Results come in order and are complete, whatever becomes of the processes at work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.operations.workers import ProcessPool
from sessiontree.text.pattern import Pattern
from tests.support.children import PATIENCE, read_line, running
from tests.support.conversation import user
from tests.support.table import for_each

HERE = os.getpid()

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked here")


def results(work: Callable[[int], Iterator[str]], processes: int) -> Generator[str, None, None]:
    return ProcessPool(work, str.encode, bytes.decode, processes).results(range(20))


def thrice(item: int) -> Iterator[str]:
    for number in range(3):
        yield f"{item}.{number}"


def broken_at_item_7(item: int) -> Iterator[str]:
    for number, result in enumerate(thrice(item)):
        if item == 7 and number == 2 and os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        yield result


def refused_elsewhere(item: int) -> Iterator[str]:
    if os.getpid() != HERE:
        raise MemoryError
    return thrice(item)


@pytest.mark.slow
def test_results_are_those_of_one_process() -> None:
    for processes in (1, 2, 3, 50):
        for work in (thrice, broken_at_item_7, refused_elsewhere):
            assert list(results(work, processes)) == [
                found for n in range(20) for found in thrice(n)
            ]


def test_an_error_of_the_work_is_raised_here() -> None:
    def fails(item: int) -> Iterator[str]:
        yield from thrice(item)
        if item == 3:
            raise ValueError(item)

    with closing(results(fails, 2)) as found:
        assert [next(found) for _ in range(12)][-1] == "3.2"
        with pytest.raises(ValueError, match="3"):
            next(found)


def test_the_others_share_the_work() -> None:
    def who(item: int) -> Iterator[str]:
        yield str(os.getpid())

    found = list(results(who, 3))
    assert len(set(found)) == 3
    assert str(HERE) not in found


def test_who_closes_the_results_leaves_no_process() -> None:
    def told(item: int) -> Iterator[str]:
        while True:
            yield str(os.getpid())

    with closing(results(told, 2)) as found:
        other = int(next(found))
        assert other != HERE
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


ENDLESS = """
import os, sys
from sessiontree.operations.workers import Crew
def work(item):
    yield str(os.getpid())
results = Crew(work, str.encode, bytes.decode, 2).results(range(10**9))
print(next(results), next(results), flush=True)
sys.stdin.read()
"""


@for_each("blow", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_one_they_work_for(blow: signal.Signals) -> None:
    with running(ENDLESS) as process:
        others = [int(pid) for pid in read_line(process).split()]
        process.send_signal(blow)
        process.wait(PATIENCE)
    for _ in range(1000):
        if not any(map(_is_alive, others)):
            return
        time.sleep(0.01)
    pytest.fail("a worker is still at it")


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_search_by_many_finds_what_one_finds(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{number:02}.jsonl") for number in range(12)]
    for number, file in enumerate(files):
        with Session.create(file, durability="os", cwd="/a") as session:
            for _ in range(number % 4):
                session.append_message(user("a needle é \x1b"))
    (tmp_path / "05.jsonl").write_text('{"a log": "of a needle"}\n')
    (tmp_path / "06.jsonl").unlink()
    told: list[list[str]] = [[], []]
    one, many = (
        list(search(Pattern("needle"), files, SearchFilter(), told[n].append, processes=n * 2 + 1))
        for n in range(2)
    )
    assert one == many
    assert [hit.file for hit in one] == sorted(hit.file for hit in one)
    assert told[0] == told[1]
    assert len(told[0]) == 2
