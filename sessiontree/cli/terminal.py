"""Text for the terminal, made safe, and progress.

Invariants: no control character of a session is printed; each message on standard error
is one line. `--help` needs this module alone, so nothing here imports a decoder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from sessiontree.core.display import one_line, printable
from sessiontree.core.display import short as short

if TYPE_CHECKING:
    from sessiontree.core.damage import Damage


_MAX_FINDINGS: Final = 10
_LONGEST_LINE: Final = 2000
_TITLE_WIDTH: Final = 50

PATIENCE_SECONDS = 1.0
"""How long a command is silent before it shows its progress."""


def out(text: str = "") -> None:
    """Print text; line breaks are kept."""
    write(printable(text) + "\n")


def out_marked(before: str, marked: str, after: str) -> None:
    """Print a line with a part marked: in bold red on a terminal, else between « and »."""
    has_colours = is_terminal() and not os.environ.get("NO_COLOR")
    opening, closing = ("\x1b[1;31m", "\x1b[0m") if has_colours else ("«", "»")
    parts = (printable(before), opening, printable(marked), closing, printable(after))
    write("".join(parts) + "\n")


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default standard output, is a terminal."""
    stream = stream or sys.stdout
    return stream is not None and stream.isatty()


def tell(text: str) -> None:
    """Print one line on standard error: anything that is not data."""
    click.echo(as_line(masked(text)), err=True)


_mask: ContextVar[Callable[[str], str] | None] = ContextVar("mask", default=None)


@contextlib.contextmanager
def masking_ends() -> Iterator[None]:
    """End at the end of a command what `mask_with` began in it."""
    token = _mask.set(None)
    try:
        yield
    finally:
        _mask.reset(token)


def mask_with(mask: Callable[[str], str] | None) -> None:
    """Print each further line on standard error as `mask` gives it: warnings and errors, too."""
    _mask.set(mask)


def masked(text: str) -> str:
    mask = _mask.get()
    return text if mask is None else mask(text)


def as_line(text: str) -> str:
    """Text on one line, cut only where it is very long."""
    return one_line(text, _LONGEST_LINE)


def tell_each(title: str, findings: Sequence[Damage | str]) -> None:
    """Print findings on standard error, one a line; of many, the first and how many more."""
    for found in findings[:_MAX_FINDINGS]:
        tell(f"{title}: {found}")
    if len(findings) > _MAX_FINDINGS:
        tell(f"{title}: and {len(findings) - _MAX_FINDINGS:,} more")


def end(failed: object) -> None:
    """Flush standard output; exit with 1 if something failed."""
    finish()
    if failed:
        click.get_current_context().exit(1)


def finish() -> None:
    """Flush standard output; raises if it cannot be written to."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _of_output(error) from error


def _of_output(error: OSError) -> OSError:
    """The same error with standard output as its file; its type is kept."""
    return OSError(error.errno, error.strerror, "standard output")


def has_current_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def drop_output() -> None:
    """Discard output that cannot be written, so that the interpreter does not try again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(text: str) -> None:
    """Write text as it is; a character that the output cannot encode becomes `?`."""
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    except OSError as error:
        raise _of_output(error) from error


def out_bytes(blocks: Iterable[bytes]) -> None:
    """Write bytes as they are."""
    finish()
    if sys.stdout is not None:
        sys.stdout.buffer.writelines(blocks)
    finish()


class ProgressBar:
    """A bar on standard error; it appears after `PATIENCE_SECONDS`, and only on a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away; what is done later is not shown."""
        self._is_terminal = False
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: float, total: float | None, title: str | None = None) -> None:
        """Show that `done` of `total` is done; a total of None is unknown."""
        if not self._is_terminal or time.monotonic() - self._started < PATIENCE_SECONDS:
            return
        from rich.console import Console  # heavy, and only a long command on a terminal needs it
        from rich.markup import escape
        from rich.progress import Progress as Bar

        if self._bar is None:
            console = Console(stderr=True, soft_wrap=True)  # a long line above the bar stays one
            self._bar = Bar(console=console, transient=True, redirect_stdout=is_terminal())
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
        description = escape(one_line(title or self._title, _TITLE_WIDTH))
        self._bar.update(self._task, completed=done, total=total, description=description)
