from __future__ import annotations

import contextlib
import io

import pytest

from sessiontree.cli import terminal as progress
from sessiontree.cli.terminal import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on_a_terminal(title: str) -> str:
    """What a terminal gets of a command that is half done."""
    with contextlib.redirect_stderr(Terminal()) as terminal, ProgressBar("Reading") as shown:
        shown(1, 2, title)
    return terminal.getvalue()


def test_a_title_is_shown_as_it_is_and_does_not_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    text = shown_on_a_terminal("[/a] [red]b\x1b[2J.jsonl")
    assert "[/a] [red]b" in text
    assert "\x1b[2J" not in text


def test_a_short_command_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 60.0)
    assert shown_on_a_terminal("chat.jsonl") == ""
