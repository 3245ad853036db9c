"""A PostgreSQL server for tests: Debian's, in a temporary folder, as an ordinary user."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

_PROGRAMS: Final = Path("/usr/lib/postgresql")
_USER: Final = "postgres"
_PATIENCE: Final = 60
_NUMBERS: Final = itertools.count()

_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",  # the tests kill processes, and cut no power
    "shared_buffers": "32MB",
    "max_connections": "100",
}


def programs() -> Path | None:
    """The folder of the newest server that is installed."""
    found = sorted(_PROGRAMS.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


class Server:
    """A running server; `settings` are those of its configuration.

    Given another server, it is a standby of that one.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str] = _SETTINGS,
        primary: Server | None = None,
    ) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self.data = folder / "data"
        self._log = folder / "log"
        self._settings = settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        if os.getuid() == 0:
            os.chown(folder, pwd.getpwnam(_USER).pw_uid, -1)
        flags = f"-A trust -N -U {_USER} --locale=C.UTF-8 -E UTF8"
        make = ["initdb", *flags.split()]
        if primary is not None:
            make = ["pg_basebackup", "-N", "-R", "-c", "fast", "-d", primary.address("postgres")]
        command = self._command(*make, "-D", str(self.data))
        subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=_PATIENCE)
        self.folder = folder
        self.start()

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        if shutil.which("setpriv") is None:
            return command
        who = [f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        dies = ["--pdeathsig", "QUIT"]  # with these tests, also where they are killed
        return ["setpriv", *(who if os.getuid() == 0 else []), *dies, *command]

    def start(self) -> None:
        """Start it, once the processes of an earlier run are gone."""
        given = {**self._settings, "port": str(self.port)}
        given["unix_socket_directories"] = str(self.folder)
        options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        command = self._command("postgres", "-D", str(self.data), *options)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            with open(self._log, "ab") as log:
                self._running = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
            while self._running.poll() is None and time.monotonic() < deadline:
                try:
                    psycopg.connect(self.address("postgres")).close()
                except psycopg.OperationalError:
                    time.sleep(0.01)
                else:
                    return
        raise AssertionError(f"the server does not start: {self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop it at once."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Kill its first process; the others end when they notice."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._running.poll() is None:
            self._running.send_signal(how)
            self._running.wait(_PATIENCE)

    def address(self, database: str, port: int = 0) -> str:
        """The address of a place in a database."""
        return f"postgresql://{_USER}@127.0.0.1:{port or self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """The rows of a statement."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """Make an empty database."""
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name}")
        return name


@cache
def server() -> Server:
    """The server of this test run; where none is installed, the test is skipped."""
    check_installed()
    return new_server()


def check_installed() -> None:
    """Skip the test where no server is installed."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    if os.getuid() == 0 and (shutil.which("setpriv") is None or not _has_user()):
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")


def _has_user() -> bool:
    try:
        return bool(pwd.getpwnam(_USER))
    except KeyError:
        return False


def new_server(settings: dict[str, str] | None = None, primary: Server | None = None) -> Server:
    """Start another server, which ends with this process; `settings` are further ones."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    made = Server(folder, {**_SETTINGS, **(settings or {})}, primary)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(_stop, made)
    return made


def _stop(running: Server) -> None:
    try:
        running.stop()
    except (OSError, subprocess.SubprocessError):
        return
