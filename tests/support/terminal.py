"""The command line as a person uses it: typed words in, two streams and a status out."""

from __future__ import annotations

import json
import os
import stat
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from sessiontree.cli import main
from sessiontree.core.display import JOINERS


@contextmanager
def utc() -> Iterator[None]:
    """Times of UTC, and lines as wide as without a terminal, wherever the tests run."""
    try:
        with patch.dict(os.environ, TZ="UTC"):
            os.environ.pop("COLUMNS", None)
            time.tzset()
            yield
    finally:
        time.tzset()


def run(*words: str | Path, input: str | bytes | None = None) -> Result:
    """What a command does, in this process; it leaves no file open."""
    before = descriptors()
    result = CliRunner().invoke(main, [str(word) for word in words], input=input)
    left = [fd for fd, what in descriptors().items() if before.get(fd) != what]
    assert not left, f"{words} left files open: {[os.readlink(fd) for fd in left]}"
    return result


def descriptors() -> dict[Path, tuple[int, int]]:
    """What this process has open, by its descriptors; none where the system does not tell.

    A file is told by its device and inode, for its name changes if a command replaces the file. A
    connection to a server, which the next command uses again, is none, nor what waits for it.
    """
    found = {}
    for fd in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):  # that of the folder itself
            opened = os.fstat(int(fd.name))
            if stat.S_IFMT(opened.st_mode) not in (0, stat.S_IFSOCK):
                found[fd] = opened.st_dev, opened.st_ino
    return found


def done(*words: str | Path, input: str | bytes | None = None) -> str:
    """The standard output of a command that must succeed."""
    result = run(*words, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout


def printed_json(*words: str | Path, input: str | bytes | None = None) -> Any:
    """The value that a command prints with `--json`."""
    return json.loads(done(*words, "--json", input=input))


def completed(*words: str) -> list[str]:
    """What TAB offers for the last word, but for files and folders."""
    shell = ShellComplete(main, {}, "sessiontree", "_SESSIONTREE_COMPLETE")
    *before, incomplete = words
    found = shell.get_completions(before, incomplete)
    return [item.value for item in found if item.type == "plain"]


def said(file: Path, role: str, text: str) -> str:
    """Append a message; its uuid."""
    return done("append", file, "--role", role, "--text", text).strip()


def refused(*words: str | Path, status: int = 1, input: str | bytes | None = None) -> str:
    """The standard error of a command that must fail with a status and print no data."""
    result = run(*words, input=input)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    return result.stderr


def last(file: Path) -> dict[str, Any]:
    """The last entry of a file."""
    entry: dict[str, Any] = json.loads(lines(file)[-1])
    return entry


def texts(file: Path) -> list[Any]:
    """The content of each message of a session's context."""
    return [message["content"] for message in printed_json("context", file)["messages"]]


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the writer's lock, which holds nothing."""
    files = (file for file in folder.iterdir() if file.is_file() and file.suffix != ".lock")
    return {file.name: file.read_bytes() for file in files}


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def driving(text: str) -> set[str]:
    """The characters of a text that drive a terminal."""
    found = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return found - {"\n", *JOINERS}
