"""Programs that write to one session in a bucket are killed, at any moment.

What must hold afterwards: each entry whose append returned is there once, no entry is there twice,
and the session is sound.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.storage.places import place_of
from tests.places import servers
from tests.places.gate import gate
from tests.support.files import Record
from tests.support.soak import in_soak

WRITER: Final = """
import contextlib, itertools, random, sys
from sessiontree import OvertakenError, Session
from sessiontree.storage.log import Moved
from sessiontree.storage.objects import generation
from sessiontree.storage.places import place_of

url, name, count, rewrites = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "yes"
generation._MANY = 8
rng = random.Random(name)

def acknowledge(uuid):
    sys.stdout.write(uuid + "\\n")
    sys.stdout.flush()

with Session.open(url) as session:
    numbers = range(count) if count else itertools.count()
    for number in numbers:
        text = f"{name}-{number} " + "x" * rng.choice([10, 300])
        kind = rng.random()
        if rewrites and kind < 0.1:
            place, key = place_of(url)
            log = place.log(key)
            with contextlib.suppress(Moved), log.hold():
                if log.was_replaced():
                    log.reopen()
                log.rewrite(iter([log.read(0, log.size())]))
            log.close()
        elif rewrites and kind < 0.3:
            with contextlib.suppress(OvertakenError), session.locked():
                for n in range(2):
                    said = {"role": "user", "content": text + str(n)}
                    acknowledge(session.append_message(said).uuid)
        elif rewrites and kind < 0.4:
            session.label(session.leaf.uuid, f"l{name}-{number}")
        else:
            acknowledge(session.append_message({"role": "user", "content": text}).uuid)
"""


def writer(url: str, name: str, count: int, *, rewrites: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, name, str(count), "yes" if rewrites else "no"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(url: str, acknowledged: list[str]) -> int:
    """Check that a session has what was acknowledged, and nothing twice; return its entries."""
    with Session.open(url, readonly=True) as session:
        found = Counter(entry.uuid for entry in session.entries())
        assert session.verify() == []
    assert not [uuid for uuid, number in found.items() if number > 1], "an entry is there twice"
    assert not [uuid for uuid in acknowledged if uuid not in found], "an entry is lost"
    return len(found)


@contextlib.contextmanager
def bucket(kind: str, folder: Path) -> Iterator[str]:
    """The address of a new bucket of a server."""
    if kind == "moto" and not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    if kind == "seaweed" and not servers.program("weed"):
        pytest.skip(servers.NO_WEED)
    with servers.moto() if kind == "moto" else servers.seaweed(folder) as endpoint:
        name = f"kills-{secrets.token_hex(4)}"  # a process opens a place once
        servers.make_bucket(endpoint, name)
        with servers.credentials(endpoint):
            yield f"s3://{name}"


def _kill(url: str, kills: int) -> tuple[list[str], int]:
    """Kill writers, two of which run at a time; return what they acknowledged."""
    Session.create(url, cwd="/p").close()
    rng = random.Random(7)
    running = [writer(url, f"w{number}", 0, rewrites=True) for number in range(2)]
    acknowledged: list[str] = []
    failed = 0
    for number in range(kills):
        process = running.pop(0)
        assert process.stdout is not None
        acknowledged.append(process.stdout.readline().strip())  # however slow the machine is
        time.sleep(rng.random() / 2)
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        acknowledged += out.splitlines()
        if process.returncode != -signal.SIGKILL:
            failed += 1
            assert "SessionBusyError" in err, err
        running.append(writer(url, f"k{number}", 0, rewrites=True))
    for process in running:
        process.kill()
        acknowledged += process.communicate()[0].splitlines()
    return [uuid for uuid in acknowledged if len(uuid) == 36], failed


of_each_server = in_soak("kinds, small", (["moto"], True), (["moto", "seaweed"], False))


@pytest.mark.slow
@of_each_server
def test_writers_that_are_killed_lose_nothing(
    kinds: list[str], small: bool, tmp_path: Path, record_property: Record
) -> None:
    kills = 3 if small else 200
    for kind in kinds:
        with bucket(kind, tmp_path) as url:
            acknowledged, failed = _kill(f"{url}/p/s.jsonl", kills)
            entries = check(f"{url}/p/s.jsonl", acknowledged)
        record_property("kills", kills)
        record_property("acknowledged", len(acknowledged))
        record_property("entries", entries)
        record_property("writers that were refused", failed)
        assert len(acknowledged) >= kills - failed


def _crowd(url: str, writers: int, each: int) -> int:
    Session.create(url, cwd="/p").close()
    processes = [writer(url, f"w{number}", each, rewrites=False) for number in range(writers)]
    acknowledged: list[str] = []
    for process in processes:
        out, err = process.communicate()
        assert process.returncode == 0, err
        acknowledged += out.splitlines()
    assert len(acknowledged) == writers * each
    return check(url, acknowledged)


@pytest.mark.slow
@of_each_server
def test_processes_that_write_to_one_session_lose_nothing(
    kinds: list[str], small: bool, tmp_path: Path, record_property: Record
) -> None:
    writers, each = (3, 20) if small else (8, 500)
    for kind in kinds:
        with bucket(kind, tmp_path) as url:
            started = time.monotonic()
            assert _crowd(f"{url}/p/s.jsonl", writers, each) == writers * each + 1
            record_property("seconds", round(time.monotonic() - started))
            place, name = place_of(f"{url}/p/s.jsonl")
            found = place.find(name)
            assert found is not None
            assert found.size > writers * each * 200


@pytest.mark.slow
def test_nothing_is_written_to_a_server_that_overwrites(tmp_path: Path) -> None:
    if not servers.program("rclone"):
        pytest.skip(servers.NO_RCLONE)
    with servers.rclone(tmp_path) as endpoint, servers.credentials(endpoint):
        from sessiontree.errors import StorageError

        with pytest.raises(StorageError, match="overwrites an object that was to be created"):
            Session.create("s3://bucket/p/s.jsonl", cwd="/p")
    left = [name for _, _, names in os.walk(tmp_path / "rclone") for name in names]
    assert left == []


PATIENT_WRITER: Final = """
import itertools, sys, time
from sessiontree import Session
from sessiontree.errors import SessionTreeError

url, name = sys.argv[1:3]
numbers = itertools.count()
while True:
    try:
        with Session.open(url) as session:
            while True:
                content = f"{name}-{next(numbers)}"
                entry = session.append_message({"role": "user", "content": content})
                sys.stdout.write(f"{entry.uuid} {content}\\n")
                sys.stdout.flush()
    except SessionTreeError as error:
        sys.stderr.write(f"{type(error).__name__}\\n")
        time.sleep(0.1)
"""
"""Opens the session again after each error, and never writes an entry a second time."""


class _Writers:
    """Programs that write to one session through errors, and what each of them acknowledged."""

    def __init__(self, url: str, folder: Path, count: int) -> None:
        self._url = url
        self._told = [folder / f"w{number}" for number in range(count)]
        self._running = []
        for file in self._told:
            command = [sys.executable, "-c", PATIENT_WRITER, url, file.name]
            with file.open("wb") as out, file.with_suffix(".errors").open("wb") as failed:
                self._running.append(subprocess.Popen(command, stdout=out, stderr=failed))

    def await_more(self, size: int) -> None:
        """Wait until they acknowledged so many bytes more."""
        before = self._size()
        until = time.monotonic() + servers.PATIENCE
        while self._size() < before + size:
            assert time.monotonic() < until, "no writer goes on"
            assert all(writer.poll() is None for writer in self._running)
            time.sleep(0.01)

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._told)

    def kill(self) -> None:
        for writer in self._running:
            writer.kill()
            writer.wait()

    def check(self, record_property: Record) -> None:
        """Check that the session has what they were told, and nothing twice."""
        lines = [line.split() for file in self._told for line in file.read_text().splitlines()]
        errors = [file.with_suffix(".errors").read_text().split() for file in self._told]
        record_property("acknowledged", len(lines))
        record_property("errors", str(Counter(name for each in errors for name in each)))
        record_property("entries", check(self._url, [line[0] for line in lines]))
        with Session.open(self._url, readonly=True) as session:
            said = Counter(
                str(entry["message"]["content"])
                for entry in session.entries()
                if entry.type == "message"
            )
        assert max(said.values()) == 1
        assert {line[1] for line in lines} <= set(said)


@pytest.mark.soak
def test_a_server_that_is_killed_a_hundred_times_loses_nothing(
    tmp_path: Path, record_property: Record
) -> None:
    if not servers.program("weed"):
        pytest.skip(servers.NO_WEED)
    rng = random.Random(7)
    with servers.seaweed_server(tmp_path) as server, contextlib.ExitStack() as stack:
        name = f"kills-{secrets.token_hex(4)}"
        servers.make_bucket(server.endpoint, name)
        stack.enter_context(servers.credentials(server.endpoint))
        url = f"s3://{name}/p/s.jsonl?timeout=5"
        Session.create(url, cwd="/p").close()
        writers = _Writers(url, tmp_path, 3)
        stack.callback(writers.kill)
        for _ in range(100):
            writers.await_more(500)
            time.sleep(rng.random() / 5)
            server.kill()
            server.start()
        writers.await_more(500)  # it answers before it finds its files
        writers.kill()
        record_property("kills", 100)
        writers.check(record_property)


@pytest.mark.slow
def test_a_server_that_is_busy_and_loses_connections_loses_no_entry(
    tmp_path: Path, record_property: Record
) -> None:
    if not servers.has_moto():
        pytest.skip(servers.NO_MOTO)
    rng = random.Random(7)

    def how(method: str, path: str) -> str:
        return rng.choices(["", "503", "drop", "lose"], [80, 8, 6, 6])[0]

    with servers.moto() as upstream, gate(upstream) as between, contextlib.ExitStack() as stack:
        name = f"busy-{secrets.token_hex(4)}"
        servers.make_bucket(upstream, name)
        stack.enter_context(servers.credentials(between.endpoint))
        url = f"s3://{name}/p/s.jsonl?timeout=5"
        Session.create(url, cwd="/p").close()
        between.how = how
        writers = _Writers(url, tmp_path, 3)
        stack.callback(writers.kill)
        writers.await_more(2000)
        writers.kill()
        between.how = lambda method, path: ""
        writers.check(record_property)
