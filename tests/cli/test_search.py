"""A search on a terminal: few hits of each session, what was said first, and how to see more."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree.cli.lists import rows
from sessiontree.cli.screen import Screen
from sessiontree.library.search import SessionsOfHits, search
from sessiontree.library.search_file import SearchFilter
from sessiontree.text.pattern import query
from tests.support.sessions import chat
from tests.support.table import for_each
from tests.support.terminal import done

CALL = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "grep needle"}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "a needle of a tool"}
MESSAGES: Sequence[dict[str, Any]] = (
    {"role": "user", "content": "a needle?"},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT]},
    {"role": "assistant", "content": "the needle"},
    {"role": "user", "content": "a needle again"},
    {"role": "assistant", "content": "no other needle"},
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [
        str(chat(tmp_path / "one.jsonl", *MESSAGES)),
        str(chat(tmp_path / "two.jsonl", MESSAGES[0])),
    ]


def drawn(files: list[str], limit: int | None = None, *, has_one: bool = False) -> list[str]:
    found = search(query("needle"), files, SearchFilter(facts=True), pytest.fail)
    screen = Screen(90, False, datetime(2026, 11, 23, tzinfo=UTC))
    more = None if has_one else lambda hit: "the command"
    drawn = [row for row, _ in rows(found, SessionsOfHits({}), screen, more, limit)]
    assert all(len(row) <= 90 for row in drawn)
    return drawn


def said(rows: list[str]) -> list[str]:
    return [row[34:] for row in rows if "«" in row]


def test_a_screen_has_three_hits_a_session_and_what_was_said_first(files: list[str]) -> None:
    found = drawn(files)
    assert said(found) == ["a «needle»?", "the «needle»", "a «needle» again", "a «needle»?"]
    assert [row.split()[2:4] for row in found if "«" in row][2] == ["turn", "2"]
    assert "  … 3 more: the command" in found
    assert found[-1] == "Open a hit: sessiontree tree ID --turn N, or sessiontree show ID REF"


def test_one_session_has_all_hits_on_a_screen(files: list[str]) -> None:
    found = said(drawn(files[:1], has_one=True))
    assert found[-2:] == ["Ran grep «needle»", "a «needle» of a tool"]
    assert len(found) == 6


@for_each(("limit", "count"), [(1, 1), (3, 3), (4, 4), (5, 4)])
def test_a_limit_counts_the_hits_on_the_screen(files: list[str], limit: int, count: int) -> None:
    assert len(said(drawn(files, limit))) == count


def in_terminal(*words: str, **variables: str) -> str:
    """What a command shows on a terminal of 200 columns and 8 rows."""
    above, below = pty.openpty()
    size = {"TERM": "xterm", "COLUMNS": "200", "LINES": "8", "NO_COLOR": "1", "PAGER": "cat"}
    environment = {**os.environ, **size, **variables}
    command = [sys.executable, "-m", "sessiontree", *words]
    finished = subprocess.Popen(command, stdout=below, stderr=below, env=environment)
    os.close(below)
    shown = b""
    try:
        while block := os.read(above, 65536):
            shown += block
    except OSError:  # the other end is closed
        pass
    os.close(above)
    assert finished.wait() == 0
    return shown.decode()


def test_a_terminal_has_a_pager_and_the_command_for_more(files: list[str], tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    shown = in_terminal("search", "needle", str(tmp_path), PAGER=str(pager))
    assert shown.startswith("PAGED")
    assert f"… 3 more: sessiontree search needle {files[0]}" in shown


def test_a_pipe_and_json_have_all_hits_in_file_order(files: list[str]) -> None:
    found = json.loads(done("search", "needle", files[0], "--json"))
    assert [hit["turn"] for hit in found] == [1, 1, 1, 1, 2, 2]
    assert done("search", "needle", *files).count("«needle»") == 7
