"""Nothing acknowledged is lost or stored twice when servers and writers are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.core.entry import Entry
from tests.places.server import Server, check_installed, new_server, server
from tests.support.children import PATIENCE, read_line, read_rest, running, tell
from tests.support.files import Record
from tests.support.soak import in_soak

WRITER: Final = """
import sys
from sessiontree import Session
file, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Session.open(file) as session:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        session.append_message({"role": "user", "content": f"{writer}-{number}"})
        print(number, flush=True)
"""


@pytest.fixture
def killed() -> Iterator[Server]:
    """A server for one test, which may kill it."""
    check_installed()
    made = new_server()
    yield made
    made.stop()


def _new_session(on: Server) -> str:
    file = f"{on.address(on.database())}/p/s.jsonl"
    Session.create(file, cwd="/p").close()
    return file


def _said(entries: Iterator[Entry]) -> Counter[str]:
    return Counter(e.get("message")["content"] for e in entries if e.type == "message")


def _check(file: str, acknowledged: set[str], in_flight: int) -> None:
    """Check that all that was acknowledged is there, and all that is there is there once."""
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        said = _said(session.entries())
    assert not acknowledged - set(said), "acknowledged, and lost"
    assert max(said.values(), default=1) == 1, "stored twice"
    assert len(set(said) - acknowledged) <= in_flight, "stored, and never written"


def _write_at_once(file: str, writers: int, each: int) -> None:
    with ExitStack() as stack:
        children = [
            stack.enter_context(running(WRITER, file, writer, each)) for writer in range(writers)
        ]
        for child in children:
            assert read_line(child) == "ready"
        for child in children:
            tell(child)
        ended = [read_rest(child) for child in children]
    assert [len(lines) for lines in ended] == [each] * writers
    said = {f"{writer}-{number}" for writer in range(writers) for number in range(each)}
    _check(file, said, 0)


@pytest.mark.slow
@in_soak("writers, each", (4, 25), (8, 500))
def test_processes_on_one_session_lose_nothing_and_store_nothing_twice(
    writers: int, each: int, record_property: Record
) -> None:
    _write_at_once(_new_session(server()), writers, each)
    if writers == 8:
        record_property("acknowledged appends by 8 processes", writers * each)


def _kill_writers(file: str, kills: int) -> None:
    acknowledged = set()
    for kill in range(kills):
        with running(WRITER, file, kill, 100_000) as child:
            assert read_line(child) == "ready"
            tell(child)
            for _ in range(random.randrange(1, 12)):
                acknowledged.add(f"{kill}-{read_line(child)}")
            time.sleep(random.random() * 0.003)
            child.kill()
            acknowledged |= {f"{kill}-{number}" for number in read_rest(child)}
    _check(file, acknowledged, kills)


@pytest.mark.slow
@in_soak("kills", 3, 200)
def test_what_a_killed_writer_was_told_is_kept_is_there_once(
    kills: int, record_property: Record
) -> None:
    _kill_writers(_new_session(server()), kills)
    record_property("kills", kills)


def _kill_servers(on: Server, kills: int) -> None:
    """Kill the server while four threads write; each goes on when it is there again."""
    file = _new_session(on)
    acknowledged: set[str] = set()
    is_over = threading.Event()
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            with Session.open(file) as session:
                number = 0
                while not is_over.is_set():
                    text = f"{writer}-{number}"
                    session.append_message({"role": "user", "content": text})
                    acknowledged.add(text)
                    number += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            seen = len(acknowledged)
            deadline = time.monotonic() + PATIENCE
            while len(acknowledged) < seen + 8 and not failures:
                assert time.monotonic() < deadline, "writers go on after the server is back"
                time.sleep(0.002)
            time.sleep(random.random() * 0.02)
            on.kill()
            on.start()
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not failures
    _check(file, acknowledged, 0)


@pytest.mark.slow
@in_soak("kills", 2, 100)
def test_writers_go_on_when_a_killed_server_is_back(
    kills: int, killed: Server, record_property: Record
) -> None:
    _kill_servers(killed, kills)
    record_property("kills", kills)


def _backends(on: Server) -> list[int]:
    rows = on.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sessiontree %'"
    )
    return [row[0] for row in rows]


@pytest.mark.slow
def test_a_killed_process_of_the_server_loses_nothing(
    killed: Server, record_property: Record
) -> None:
    """The server then ends all connections, and recovers by itself."""
    file = _new_session(killed)
    with running(WRITER, file, 0, 60) as child:
        assert read_line(child) == "ready"
        pids = _backends(killed)
        tell(child)
        for _ in range(10):
            read_line(child)
        os.kill(pids[0], signal.SIGKILL)
        rest = read_rest(child)
    assert len(rest) == 50
    _check(file, {f"0-{number}" for number in range(60)}, 0)
    record_property("kills", 1)


@pytest.mark.slow
def test_a_command_reads_a_session_at_an_address() -> None:
    file = _new_session(server())
    with Session.open(file) as session:
        session.append_message({"role": "user", "content": "from a database"})
    command = [sys.executable, "-m", "sessiontree", "context", file]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "from a database" in shown.stdout
