"""The helpers that print: one line each, numbers with nouns, marks in colour and without."""

from __future__ import annotations

import io
import sys

import pytest

from sessiontree.cli import terminal
from sessiontree.cli.screen import path_in
from tests.support.table import for_each


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def both_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Both standard streams."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


@for_each(
    ("uuid", "told"), [("1234567", "1234567"), ("12345678", "12345678"), ("123456789", "12345678")]
)
def test_a_uuid_is_shown_by_its_first_eight_characters(uuid: str, told: str) -> None:
    assert terminal.short(uuid) == told


@for_each(("length", "kept"), [(1_999, 1_999), (2_000, 2_000), (2_001, 2_000)])
def test_only_a_very_long_line_is_cut(length: int, kept: int) -> None:
    line = terminal.as_line("x" * length)
    assert (len(line), line.endswith("…")) == (kept, length > kept)
    assert terminal.as_line("a\nb") == "a↵b"


@for_each("count", [0, 1, 9, 10, 11, 1_012])
def test_ten_findings_are_printed_and_the_others_counted(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = both_on_a_terminal(monkeypatch)
    terminal.tell_each("Found", [f"no. {n}" for n in range(count)])
    told = [f"Found: no. {n}" for n in range(min(count, 10))]
    more = [f"Found: and {count - 10:,} more"] if count > 10 else []
    assert shown.getvalue().splitlines() == told + more


@for_each(("colours", "told"), [("", "a \x1b[1;31mb\x1b[0m c\n"), ("1", "a «b» c\n")])
def test_a_mark_is_red_where_colours_are_wanted(
    colours: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = both_on_a_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", colours)
    terminal.out_marked("a ", "b", " c")
    assert shown.getvalue() == told


def test_a_mark_stands_between_quotes_where_output_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    terminal.out_marked("a\x1b", "b\x1b", "c\x1b")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("«") == stream.getvalue().count("»") == 1


def test_what_the_output_cannot_encode_becomes_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.out("é…x")
    assert stream.buffer.getvalue() == b"??x\n"


def test_without_output_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    terminal.out("x")
    terminal.out_bytes([b"x"])
    assert not terminal.is_terminal()


def test_messages_are_masked_until_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = both_on_a_terminal(monkeypatch)
    with terminal.masking_ends():
        terminal.tell("secret")
        terminal.mask_with(lambda text: text.replace("secret", "«mask»"))
        terminal.tell("secret")
        terminal.mask_with(None)
        terminal.tell("secret")
        terminal.mask_with(str.upper)
    terminal.tell("secret")
    assert shown.getvalue().splitlines() == ["secret", "«mask»", "secret", "secret"]


@for_each("silent", [True, False])
def test_a_bar_appears_after_a_while_and_goes_at_the_end(
    silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = both_on_a_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 1e9 if silent else 0.0)
    with terminal.ProgressBar("Reading") as progress:
        progress(1, 2)
        progress(2, 2, "More")
    assert bool(shown.getvalue()) is not silent


@for_each(
    ("path", "folder", "width", "shown"),
    [
        ("/a/b.py", None, 20, "/a/b.py"),
        ("/a/b.py", "", 20, "/a/b.py"),
        ("/a/b.py", "/a", 20, "b.py"),
        ("/a/b.py", "/c", 20, "/a/b.py"),
        ("/a/long/b.py", "/c", 7, "…g/b.py"),
        ("/a/long/b.py", "/a", 9, "long/b.py"),
        ("文/b.py", None, 6, "…/b.py"),
        ("b.py", None, 1, "…"),
        ("b.py", None, 0, ""),
    ],
)
def test_a_path_is_relative_and_keeps_its_end(
    path: str, folder: str | None, width: int, shown: str
) -> None:
    assert path_in(path, folder, width) == shown
