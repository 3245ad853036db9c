"""How each viewer makes its page or starts its server, and where the session is then."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.viewers.installs import Installed
from benchmarks.viewers.sessions import ANSWER, PROMPT, SESSION

LIMIT: Final = 180.0
"""Seconds after which a program is ended and counts as failed."""

_KEPT: Final = ("PATH", "LANG", "PYTHONPATH")


class Failed(Exception):
    """A viewer that made nothing, or did not answer."""


class Ready(NamedTuple):
    """A page or a server that can be opened.

    Attributes:
        seconds: from the start of the program to the page, or to the server's first answer.
        output: the bytes that were written.
        files: the number of files that were written.
        url: the address of the session.
        process: the server; None for a page.
        memory: the most memory of the program that made the page, in MB.
    """

    seconds: float
    output: int
    files: int
    url: str
    process: int | None = None
    memory: float = 0.0


class Viewer(NamedTuple):
    """A viewer.

    Attributes:
        name: names it among the installed programs.
        words: the arguments of its program, given the session, the folder to write to and a port.
        page: the file to open in that folder; empty for a server.
        path: where a server has the session; empty where it prints the address.
        click: what is clicked to see the session.
        whole: what is there when the whole session is; empty: when the page has loaded.
        seen: the words of which one is on the screen when the session can be read.
    """

    name: str
    words: Callable[[Path, Path, int], Sequence[str]]
    page: str = ""
    path: str = ""
    click: str = ""
    whole: str = ""
    seen: tuple[str, ...] = (ANSWER, PROMPT)


OURS: Final = (
    Viewer(
        "sessiontree export",
        lambda file, out, _: ("export", str(file), "--format", "html", "-o", str(out / "p.html")),
        page="p.html",
    ),
    Viewer(
        "sessiontree view",
        lambda file, _, port: ("view", str(file), "--no-browser", "--port", str(port)),
        whole="body[data-live=yes]",
    ),
)

OTHERS: Final = (
    Viewer(
        "claude-code-log",
        lambda file, out, _: (str(file), "-o", str(out / "page.html"), "--no-cache"),
        page="page.html",
    ),
    Viewer(
        "claude-code-transcripts",
        lambda file, out, _: ("json", str(file), "-o", str(out)),
        page="page-001.html",
    ),
    Viewer(
        "claude-replay",
        lambda file, out, _: (str(file), "-o", str(out / "page.html")),
        page="page.html",
        click="#splash, .splash, #btn-play, button[aria-label*=lay]",
    ),
    Viewer(
        "pi",
        lambda file, out, _: ("--export", str(file), str(out / "page.html")),
        page="page.html",
    ),
    Viewer(
        "agentsview",
        lambda _, out, port: ("serve", "--no-browser", "--no-update-check", "--port", str(port)),
        path=f"/sessions/{SESSION}",
        seen=(ANSWER,),
    ),
    Viewer(
        "cc-session-browser",
        lambda _, out, port: ("--no-browser", "--port", str(port)),
        path=f"/s/{SESSION}",
        seen=(ANSWER,),
    ),
    Viewer(
        "claude-run",
        lambda _, out, port: ("--no-open", "--port", str(port)),
        path="/",
        click=f"text={PROMPT}",
        seen=(ANSWER,),
    ),
    Viewer(
        "clau-decode",
        lambda _, out, port: ("--no-open", "--port", str(port)),
        path=f"/#/chat/{SESSION}",
        seen=(ANSWER,),
    ),
)


def program_of(viewer: Viewer, installs: Mapping[str, Installed]) -> Installed:
    """What starts a viewer."""
    if viewer in OURS:
        return Installed(viewer.name, (sys.executable, "-m", "sessiontree"))
    return installs[viewer.name]


@contextmanager
def started(viewer: Viewer, command: Sequence[str], home: Path, file: Path) -> Iterator[Ready]:
    """Make the page of a session, or start a server and end it afterwards.

    Raises:
        Failed: the program failed, or was not done in time.
    """
    out = home / "out"
    out.mkdir(exist_ok=True)
    environment = {key: os.environ[key] for key in _KEPT if key in os.environ}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    before = _sizes(home)
    port = _free_port()
    words = [*command, *viewer.words(file, out, port)]
    began = time.perf_counter()
    if viewer.page:
        memory = _made(words, environment, home)
        took = time.perf_counter() - began
        size, files = _written(home, before)
        yield Ready(took, size, files, (out / viewer.page).as_uri(), memory=memory)
        return
    log = (home / "server.log").open("wb")
    server = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=home
    )
    try:
        address = f"http://127.0.0.1:{port}{viewer.path}"
        _wait_for(server, address if viewer.path else f"http://127.0.0.1:{port}/")
        took = time.perf_counter() - began
        if not viewer.path:
            address = _printed(home / "server.log")
        size, files = _written(home, before)
        yield Ready(took, size, files, address, server.pid)
    finally:
        server.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()
        log.close()


def _made(words: Sequence[str], environment: Mapping[str, str], home: Path) -> float:
    """Run a program to its end; the most memory that it had, in MB."""
    with (home / "made.log").open("w+b") as log:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=home
        )
        end = time.perf_counter() + LIMIT
        used: resource.struct_rusage | None = None
        while time.perf_counter() < end:
            process, status, told = os.wait4(child.pid, os.WNOHANG)
            if process:
                used, child.returncode = told, os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.005)
        if used is None:
            child.kill()
            child.wait()
            raise Failed(f"not done in {LIMIT:.0f} s")
        if child.returncode:
            log.seek(0)
            told_last = log.read().decode(errors="replace").strip().splitlines()[-1:] or [""]
            raise Failed(f"exit {child.returncode}: {told_last[0][:100]}")
    return used.ru_maxrss / 1024


def _wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    end = time.perf_counter() + LIMIT
    while time.perf_counter() < end:
        if server.poll() is not None:
            raise Failed(f"the server ended with exit {server.returncode}")
        try:
            with urllib.request.urlopen(address.split("#")[0], timeout=LIMIT):
                return
        except urllib.error.HTTPError:
            return  # it answers, and wants a token
        except OSError:
            time.sleep(0.01)
    raise Failed(f"no answer in {LIMIT:.0f} s")


def _printed(log: Path) -> str:
    """The address that a server printed."""
    for _ in range(500):
        found = [word for word in log.read_text().split() if word.startswith("http://")]
        if found:
            return found[0]
        time.sleep(0.01)
    raise Failed("no address was printed")


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _written(folder: Path, before: Mapping[Path, int]) -> tuple[int, int]:
    """The bytes and the number of files that came to a folder, without what was printed."""
    made = {
        path: size - before.get(path, 0)
        for path, size in _sizes(folder).items()
        if path.suffix != ".log" and size != before.get(path)
    }
    return sum(made.values()), len(made)
