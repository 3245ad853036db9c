"""Threads that wait for a connection of PostgreSQL get it in the order in which they came."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import Empty
from typing import Final

import pytest

from sessiontree.storage.places import place_of
from sessiontree.storage.postgres import connections
from sessiontree.storage.postgres.connections import FairQueue
from tests.places.server import server
from tests.support.table import for_each

SECONDS: Final = 60.0


def waits(line: FairQueue[str], number: int) -> None:
    """Wait until as many threads stand in line."""
    while len(line._waiting) < number:
        time.sleep(0.001)


def test_what_is_given_back_goes_to_the_thread_that_has_waited_longest() -> None:
    line: FairQueue[str] = FairQueue(["thing"])
    served: list[int] = []
    line.take(SECONDS)

    def wait(number: int) -> None:
        thing = line.take(SECONDS)
        served.append(number)
        line.give(thing)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(10)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        waits(line, number)
    line.give("thing")
    line.take(SECONDS)  # behind them, though it asks at once
    assert served == list(range(10))
    for thread in threads:
        thread.join()


def test_a_thread_that_waited_too_long_leaves_the_line_and_takes_nothing() -> None:
    line: FairQueue[str] = FairQueue()
    with pytest.raises(Empty):
        line.take(0.001)
    line.give("thing")
    assert line.take(SECONDS) == "thing"


def test_a_wait_that_is_interrupted_loses_nothing() -> None:
    line: FairQueue[str] = FairQueue()

    def interrupt() -> None:
        waits(line, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            line.take(SECONDS)
    line.give("thing")
    assert line.take(SECONDS) == "thing"


def test_things_are_neither_lost_nor_given_twice() -> None:
    line = FairQueue(range(3))
    used: set[int] = set()

    def use(_: int) -> None:
        for turn in range(200):
            with contextlib.suppress(Empty):
                thing = line.take(0.0001 if turn % 7 == 0 else SECONDS)
                assert thing not in used
                used.add(thing)
                used.remove(thing)
                line.give(thing)

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(use, range(12)))
    assert sorted(line.free) == [0, 1, 2]


def appended_in_turns(url: str, writers: int, each: int) -> list[int]:
    """The numbers of writers in the order of their appends, by all at once."""
    place, _ = place_of(url)
    order: list[int] = []
    start = threading.Barrier(writers)

    def write(number: int) -> None:
        place.create(f"{number}.jsonl", [b"{}\n"])
        with contextlib.closing(place.log(f"{number}.jsonl")) as log:
            start.wait(SECONDS)
            for _ in range(each):
                with log.alone():
                    log.append(b"{}\n", log.size())
                order.append(number)

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(write, range(writers)))
    place.close()
    return order


def longest_wait(turns: Mapping[int, list[int]], since: int) -> int:
    """The most appends between two of a writer, from a turn on."""
    return max(
        after - before
        for of_writer in turns.values()
        for before, after in itertools.pairwise([turn for turn in of_writer if turn >= since])
    )


def of_one_connection(base: str) -> str:
    return f"{server().address(base)}?connections=1"


def of_one_that_the_server_allows(base: str) -> str:
    server().execute(
        f"CREATE ROLE one_{base} LOGIN CONNECTION LIMIT 1; GRANT CREATE ON DATABASE {base} "
        f"TO one_{base}"
    )
    return server().address(base).replace("postgres@", f"one_{base}@")


@pytest.mark.slow
@for_each("url_of", [of_one_connection, of_one_that_the_server_allows])
def test_no_writer_starves(url_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_FULL_SECONDS", SECONDS)  # nobody leaves the line to ask
    base = server().database()
    try:
        turns: dict[int, list[int]] = {}
        for turn, writer in enumerate(appended_in_turns(url_of(base), 24, 40)):
            turns.setdefault(writer, []).append(turn)
        last_start = max(of_writer[0] for of_writer in turns.values())
        first_end = min(of_writer[-1] for of_writer in turns.values())
        assert last_start < first_end  # some ask the server for a connection before their first
        assert longest_wait(turns, last_start) <= 6 * 24
    finally:
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")
        server().execute(f"DROP ROLE IF EXISTS one_{base}")
