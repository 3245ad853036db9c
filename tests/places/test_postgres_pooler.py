"""Sessions in PostgreSQL behind pgbouncer, which gives each transaction another connection."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.storage.log import Log
from sessiontree.storage.place import Place
from sessiontree.storage.places import place_of
from tests.contracts import check_log
from tests.places.server import server
from tests.support.conversation import user

_USER: Final = "postgres"
_CONFIGURATION: Final = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
max_client_conn = 200
default_pool_size = 5
"""


@pytest.fixture(scope="module")
def pooler() -> Iterator[int]:
    """The port of a pooler in front of the server."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed (apt-get install pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    text = _CONFIGURATION.format(server=server().port, port=port, folder=folder)
    (folder / "configuration").write_text(text)
    (folder / "users").write_text(f'"{_USER}" ""')
    command = [program, "-q", str(folder / "configuration")]
    if os.getuid() == 0:  # which the pooler refuses to be
        os.chown(folder, pwd.getpwnam(_USER).pw_uid, -1)
        command = ["setpriv", "--reuid", _USER, "--regid", _USER, "--clear-groups", *command]
    running = subprocess.Popen(command)
    try:
        _wait_for(port, running)
        yield port
    finally:
        running.terminate()
        running.wait(30)
        shutil.rmtree(folder)


def _wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert running.poll() is None
            time.sleep(0.01)
        else:
            return


@pytest.fixture
def place(pooler: int) -> Iterator[Place]:
    database = server().database()
    made, _ = place_of(server().address(database, pooler))
    yield made
    made.close()


class _Logs:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._number = 0

    def make(self, content: bytes) -> Log:
        self._number += 1
        self._place.create(f"{self._number}.jsonl", [content])
        return self._place.log(f"{self._number}.jsonl")

    def again(self, log: Log) -> Log:
        return self._place.log(self._place.name(log.name))


@pytest.mark.slow
def test_a_log_behind_a_pooler_keeps_what_the_engine_relies_on(place: Place) -> None:
    check_log(_Logs(place))


@pytest.mark.slow
def test_many_writers_share_the_few_connections_of_a_pooler(place: Place) -> None:
    def write(number: int) -> int:
        with Session.create(place.address(f"p/{number}.jsonl"), cwd="/p") as session:
            for _ in range(5):
                session.append_message(user(str(number)))
            return len(session.context().messages)

    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(write, range(40))) == {5}
    assert len(list(place.list("p/"))) == 40
