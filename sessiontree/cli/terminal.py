"""What reaches the terminal: text made safe.

Invariants: no control character of a session is printed; what is told on standard
error is one line each. What needs no session, such as `--help`, needs no more than
this: nothing here imports a decoder.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from sessiontree.core.display import one_line, printable

if TYPE_CHECKING:
    from sessiontree.core.damage import Damage


MOST_TOLD: Final = 10
_LONGEST_LINE: Final = 2000
_SHORT: Final = 8


def out(text: str = "") -> None:
    """Print text, line breaks kept."""
    write(printable(text) + "\n")


def out_marked(before: str, marked: str, after: str) -> None:
    """Print a line with a part of it marked: by its look on a terminal, else by « and »."""
    opening, closing = ("\x1b[1;31m", "\x1b[0m") if _has_colours() else ("«", "»")
    parts = (printable(before), opening, printable(marked), closing, printable(after))
    write("".join(parts) + "\n")


def _has_colours() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def tell(text: str) -> None:
    """Say something that is no data: one line on standard error."""
    click.echo(told(text), err=True)


def told(text: str) -> str:
    """Text on one line, as long as it is."""
    return one_line(text, _LONGEST_LINE)


def tell_each(title: str, findings: Sequence[Damage | str]) -> None:
    """Tell findings, a line each, the first of them where there are many."""
    for found in findings[:MOST_TOLD]:
        tell(f"{title}: {found}")
    if len(findings) > MOST_TOLD:
        tell(f"{title}: and {len(findings) - MOST_TOLD:,} more")


def finish() -> None:
    """Bring out what was printed; raises where it cannot be."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _of_output(error) from error


def _of_output(error: OSError) -> OSError:
    """An error that says it was the output that could not be written; its type is kept."""
    return OSError(error.errno, error.strerror, "standard output")


def is_somewhere() -> bool:
    """Whether the current directory is there still."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def drop_output() -> None:
    """Forget what could not be printed, so that the interpreter does not try again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(text: str) -> None:
    """Bring text out as it is; a character that the terminal cannot show as `?`."""
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    except OSError as error:
        raise _of_output(error) from error


def short(uuid: str) -> str:
    """A uuid as people see it: its first characters."""
    return one_line(uuid, 100)[:_SHORT]


def from_here(file: str) -> str:
    """The path of a file, from the current directory where it lies below that."""
    below = os.path.relpath(file)
    return file if below.startswith(os.pardir) else below
