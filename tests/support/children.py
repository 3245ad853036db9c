"""Processes and threads of their own for the tests, and what is left of their work afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sessiontree import Damage, Session
from sessiontree.cli import main

PATIENCE = 120
"""Seconds after which a test gives up waiting; none takes a tenth of it."""


@contextmanager
def running(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program, its streams piped; it is killed at the end if it has not ended."""
    program = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    child = subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


def read_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")


def read_rest(child: subprocess.Popen[str]) -> list[str]:
    """The whole lines that a child still printed before it ended; a half one is left out."""
    assert child.stdout is not None
    lines = child.stdout.readlines()  # and not `communicate`, which misses what was buffered
    child.wait(PATIENCE)
    return [line[:-1] for line in lines if line.endswith("\n")]


def tell(child: subprocess.Popen[str], word: str = "go") -> None:
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


def forked(work: Callable[[], object]) -> int:
    """Do something in a forked child; its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def started(
    *words: str | Path, cwd: str | Path = ".", **environment: str
) -> subprocess.Popen[bytes]:
    """Start a command of sessiontree, its streams piped, in a fork of this process.

    The fork has imported what the command needs, which can cost a second. It must not reach object
    storage if this process did: the threads of its client are not in the fork.
    """
    open_before = _descriptors()

    def work() -> None:
        status = 1
        try:
            for pipe in _descriptors() - open_before - {0, 1, 2}:
                with suppress(OSError):
                    os.close(pipe)  # the end of one of them tells Popen that the program runs
            for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
                setattr(sys, name, os.fdopen(number, mode, 1))
            warnings.resetwarnings()
            signal.set_wakeup_fd(-1)
            os.environ.update(environment)
            main(list(map(str, words)), prog_name="sessiontree")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(status)

    pipe = subprocess.PIPE
    return subprocess.Popen(
        ["sessiontree"], cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=work
    )


def _descriptors() -> set[int]:
    return set(map(int, os.listdir("/dev/fd")))


def commanded(
    *words: str | Path, cwd: str | Path = ".", asked: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """What a command of sessiontree prints, which is `started` and runs to its end."""
    with started(*words, cwd=cwd, **environment) as process:
        try:
            told, complained = process.communicate(asked.encode(), PATIENCE)
        finally:
            process.kill()
    return subprocess.CompletedProcess(
        words, process.returncode, told.decode(), complained.decode()
    )


def together(*works: Callable[[], object]) -> None:
    """Do each in a forked child, all at once; none may fail."""
    children = [forked(work) for work in works]
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ended == [0] * len(works)


def in_threads(*acts: Callable[[], None]) -> list[BaseException]:
    """Run each in a thread of its own, switching between them as often as can be."""
    failures: list[BaseException] = []

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        sys.setswitchinterval(interval)
    return failures


def uuids_in(path: Path) -> tuple[list[str], list[Damage]]:
    """The uuids of a session's entries in file order, and all damage."""
    with Session.open(path, readonly=True) as session:
        return [entry.uuid for entry in session.entries()], session.verify()
