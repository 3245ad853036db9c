"""The server as a process, asked over real HTTP."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sessiontree import Session
from tests.support.children import started
from tests.support.conversation import assistant, user

PATIENCE: Final = 120


class Server:
    """A running server.

    Attributes:
        process: its process.
        address: what it printed.
        port: its port.
        token: what lets a request in, as the first part of its path.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = process.stdout.readline().decode().strip()
        found = urlsplit(self.address)
        assert found.port is not None, process.stderr and process.stderr.read()
        self.port = found.port
        self.token = found.path.split("/")[1]

    def url(self, path: str) -> str:
        """The URL of a page, with the token."""
        return f"http://127.0.0.1:{self.port}/{self.token}{path}"

    def ask(
        self, path: str, method: str = "GET", token: str | None = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer to a request below a token, by default the right one, and its body."""
        prefix = f"/{self.token if token is None else token}"
        return self.send(prefix + path, method, **headers)

    def send(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer to a request for exactly this path, and its body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, headers=sent)
            with connection.getresponse() as answer:
                return answer, answer.read()

    def json(self, path: str) -> Any:
        """What an address answers, as a value."""
        answer, body = self.ask(path)
        assert answer.status == 200, body
        packed = answer.getheader("content-encoding") == "deflate"
        return json.loads(zlib.decompress(body) if packed else body)

    @property
    def ids(self) -> list[str]:
        """The ids of the sessions of the list."""
        return [one["id"] for one in self.json("/sessions")["sessions"]]

    @contextmanager
    def events(self, id: str, number: int = 0) -> Iterator[Iterator[tuple[str, str]]]:
        """The events of a session after a state: the kind and the data of each."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/{self.token}/s/{id}/events?from={number}")
        with closing(connection), connection.getresponse() as answer:
            assert answer.status == 200
            yield _events(answer)


def _events(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    kind = ""
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(":")
        if name == "event":
            kind = value.strip()
        elif name == "data":
            yield kind, value.strip()


@contextmanager
def serving(*words: str | Path) -> Iterator[Server]:
    """A server of some places, until the end of the block."""
    process = started("view", "--no-browser", *words)
    try:
        yield Server(process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.communicate()


def talk(file: Path, turns: int = 2, name: str = "Talk") -> Session:
    """A session with some turns, open to write."""
    session = Session.create(file, cwd="/project", name=name, durability="os")
    with session.batch():
        for n in range(turns):
            session.append_message(user(f"prompt {n}"))
            session.append_message(assistant(f"answer {n}"))
    return session
