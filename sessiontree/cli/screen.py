"""The screen that a command draws on: its width, its colours, and the pager.

Invariants: a line is never wider than the screen, whatever characters it has; without a terminal
there is no colour and no pager, except that `FORCE_COLOR` asks for colour.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import click

from sessiontree.cli.terminal import is_terminal, write
from sessiontree.text.columns import CODES, Line, cut_start

PLAIN_WIDTH: Final = 100
"""Columns where the output is not a terminal and `COLUMNS` is not set."""

NARROWEST: Final = 40
WIDEST: Final = 400


class Screen(NamedTuple):
    """What a command draws on."""

    width: int
    colour: bool
    now: datetime
    height: int | None = None  # rows before the prompt; None without a terminal

    def styled(self, text: str, role: str) -> str:
        """A text in the colour of its role."""
        if not (self.colour and role and text):
            return text
        return f"\x1b[{CODES[role]}m{text}\x1b[0m"

    def drawn(self, lines: Iterable[Line]) -> Iterator[str]:
        """Lines in the colours of their roles, without spaces at their ends."""
        for line in lines:
            yield "".join(self.styled(span.text, span.role) for span in line).rstrip()


def now() -> datetime:
    return datetime.now(UTC)


def screen() -> Screen:
    """The screen of standard output."""
    given = os.environ.get("COLUMNS", "")
    fallback = shutil.get_terminal_size().columns if is_terminal() else PLAIN_WIDTH
    width = int(given) if given.isdecimal() and len(given) < 6 and int(given) else fallback
    height = shutil.get_terminal_size().lines - 1 if is_terminal() else None
    return Screen(max(NARROWEST, min(width, WIDEST)), _has_colour(), now(), height)


def _has_colour() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal() and os.environ.get("TERM") != "dumb"


def path_in(path: str, folder: str | None, width: int) -> str:
    """A path in at most so many columns, relative to a folder that it is in; its end stays."""
    inside = PurePath(path).is_relative_to(folder) if folder else False
    return cut_start(str(PurePath(path).relative_to(folder or "")) if inside else path, width)


no_pager = click.option(
    "--no-pager", is_flag=True, help="Do not open a pager on a terminal for long output."
)


def show(lines: Iterable[str], *, paged: bool) -> None:
    """Print lines; on a terminal, more lines than it has go to the pager if `paged`."""
    given = iter(lines)
    command = _pager() if paged and is_terminal() else []
    if not command:
        _print(given, write)
        return
    start = list(islice(given, max(2, shutil.get_terminal_size().lines - 1)))
    following = next(given, None)
    if following is None:
        _print(start, write)
        return
    _page(command, chain(start, [following], given))


def _print(lines: Iterable[str], write_text: Callable[[str], Any]) -> None:
    for line in lines:
        write_text(line + "\n")


def _pager() -> list[str]:
    """The command of the user's pager, as git finds it; empty for none."""
    given = os.environ.get("SESSIONTREE_PAGER", os.environ.get("PAGER"))
    if os.environ.get("TERM") == "dumb" or given in ("", "cat"):
        return []
    try:
        words = shlex.split(given or "less")
    except ValueError:
        return []
    return words if words and shutil.which(words[0]) else []


def _page(command: list[str], lines: Iterator[str]) -> None:
    sys.stdout.flush()
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    except OSError:
        _print(lines, write)
        return
    pipe = pager.stdin
    assert pipe is not None
    try:
        _print(lines, lambda text: pipe.write(text.encode("utf-8", "replace")))
    except BrokenPipeError:  # the user left the pager
        pass
    finally:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        _wait(pager)


def _wait(pager: subprocess.Popen[bytes]) -> None:
    """Wait until the user leaves the pager; Ctrl-C is the pager's."""
    while True:
        try:
            pager.wait()
            return
        except KeyboardInterrupt:
            continue
