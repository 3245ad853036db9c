"""The browser in a real terminal: it starts, draws, ends, and leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Final

import pytest

from tests.cli.screens import make_home
from tests.tui.sessions import saying

_PATIENCE: Final = 60.0  # seconds, after which a test fails that waits for a screen


def in_terminal(*words: str, until: bytes, keys: bytes, **environment: str) -> tuple[int, bytes]:
    """Run a command in a terminal; press keys when something is on it: the exit code, and all."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(terminal)
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    )
    written, is_pressed, end = b"", False, time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if select.select([control], [], [], 0.1)[0]:
            written += os.read(control, 65536)
        elif process.poll() is not None:
            break
        if not is_pressed and until in written:
            os.write(control, keys)
            is_pressed = True
    assert process.wait(_PATIENCE) is not None
    assert termios.tcgetattr(terminal) == before
    os.close(terminal)
    os.close(control)
    return process.returncode, written


MODULE: Final = ("-m", "sessiontree")


@pytest.mark.slow
def test_the_browser_draws_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    saying(tmp_path / "s.jsonl", "Say hello")
    words = (*MODULE, "browse", str(tmp_path))
    code, written = in_terminal(*words, until=b"type to filter", keys=b"\x11")
    assert code == 0
    assert b"Say hello" in written
    assert written.rstrip().endswith(b"\x1b[?1049l")
    assert re.search(rb"\x1b\[[\d;]*3[1-6]", written)


@pytest.mark.slow
def test_a_file_is_opened_at_once(tmp_path: Path) -> None:
    words = (*MODULE, "browse", str(saying(tmp_path / "s.jsonl", "Say hello")))
    code, written = in_terminal(*words, until=b"Enter read", keys=b"\x11")
    assert code == 0
    assert b"Say hello" in written


def test_a_file_that_is_not_a_session_ends_the_browser_with_one_error(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("no session")
    words = (*MODULE, "browse", str(tmp_path / "s.jsonl"))
    code, written = in_terminal(*words, until=b"not a session", keys=b"")
    assert code == 1
    assert written.count(b"Error: ") == 1


@pytest.mark.slow
def test_there_is_no_colour_without_colour(tmp_path: Path) -> None:
    make_home(tmp_path)
    words = (*MODULE, "browse", str(tmp_path))
    code, written = in_terminal(*words, until=b"type to filter", keys=b"\x11", NO_COLOR="1")
    assert code == 0
    codes = set(re.findall(rb"\x1b\[([\d;]*)m", written))
    allowed = {b"", b"0", b"1", b"2", b"7", b"39", b"49"}  # the terminal's own colours are two
    assert {part for each in codes for part in each.split(b";")} <= allowed


@pytest.mark.slow
def test_a_home_without_sessions_has_an_empty_list(tmp_path: Path) -> None:
    words = (*MODULE, "browse")
    code, written = in_terminal(
        *words,
        until=b"there is no session",
        keys=b"\x1b",
        XDG_DATA_HOME=str(tmp_path),
        SESSIONTREE_STORE="",
    )
    assert code == 0
    assert b"there is no session" in written


@pytest.mark.slow
def test_the_bare_command_opens_the_browser_on_a_terminal(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "SESSIONTREE_HOME": str(tmp_path)}
    saying(tmp_path / "s.jsonl", "Say hello")
    code, written = in_terminal(*MODULE, until=b"type to filter", keys=b"\x11", **home)
    assert code == 0
    assert b"Say hello" in written


_WITHOUT: Final = (
    "import sys; sys.modules['textual'] = None; from sessiontree.__main__ import run; run()"
)


@pytest.mark.slow
def test_without_the_package_one_line_says_what_to_install() -> None:
    code, written = in_terminal("-c", _WITHOUT, "browse", until=b"Error", keys=b"")
    assert code == 1
    assert b"pip install '.[tui]'" in written.replace(b"\r\n", b" ")
    code, written = in_terminal("-c", _WITHOUT, until=b"Usage", keys=b"")
    assert b"Usage: sessiontree" in written


def test_without_a_terminal_the_browser_says_which_commands_to_use() -> None:
    done = subprocess.run(
        [sys.executable, *MODULE, "browse"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "needs a terminal; 'sessiontree ls'" in done.stderr
