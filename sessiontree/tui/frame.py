"""The terminal and the browser with windows, without an import of this package.

The first frame is a title on an empty screen.

Invariant: the terminal is as it was when the block ends, whatever happened in it.
"""

from __future__ import annotations

import sys
import termios
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final

_OTHER_SCREEN: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_OWN_SCREEN: Final = "\x1b[?25h\x1b[?1049l"


@contextmanager
def first_frame() -> Iterator[None]:
    """Show an empty screen, and keep what is typed for the browser without an echo."""
    before = termios.tcgetattr(sys.stdin.fileno())
    quiet = termios.tcgetattr(sys.stdin.fileno())
    quiet[0] &= ~termios.IXON  # which takes Ctrl-Q and Ctrl-S
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    try:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)
        write(_OTHER_SCREEN + "\x1b[7msessiontree · reading …\x1b[0m")
        yield
    finally:
        with suppress(OSError):
            write(_OWN_SCREEN)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


def can_run() -> bool:
    """Whether the browser can run here: on a terminal, with its package installed."""
    streams = (sys.stdin, sys.stdout)
    on_terminal = all(stream is not None and stream.isatty() for stream in streams)
    return on_terminal and find_spec("textual") is not None


def write(text: str) -> None:
    """Write text to the terminal at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def opened_in_browser(address: str) -> bool:
    """Open an address in a browser with windows; False without one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:  # it would take over the terminal
        return False
    return browser.open(address)
