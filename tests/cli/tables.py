"""Lists of sessions as tables of many widths: columns are cut, shortened or left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from unittest.mock import patch

from sessiontree.cli.lists import table
from sessiontree.cli.screen import Screen
from sessiontree.library.listing import SessionInfo
from sessiontree.library.lookup import short_ids

NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
WIDTHS: Final = (20, 36, 52, 56, 57, 64, 76, 80, 99, 118, 139, 140, 169, 170, 240)
HOME: Final = "/home/user"
LONG: Final = (
    "a title that goes on and on, so that no screen has the columns to show all of it " * 3
)


def _session(number: int, **facts: Any) -> SessionInfo:
    plain: dict[str, Any] = {
        "file": f"{number}.jsonl",
        "id": f"{number}a0b1c2d-0000-4000-8000-00000000000{number}",
        "cwd": None,
        "name": f"Session {number}",
        "first_message": None,
        "created": None,
        "modified": "2026-11-23T11:00:00.000Z",
        "bytes": 10 ** (number % 8),
        "lane": "main",
        "writer": None,
    }
    return SessionInfo(**{**plain, **facts})


PLAIN: Final = [
    _session(1, cwd=HOME),
    _session(2, cwd=f"{HOME}/a/folder-with-a-long-name/and-another-one-below", name=LONG),
    _session(3, cwd="/", modified="2026-11-23T11:59:30.000Z"),
    _session(4, cwd="/home/userland/", modified="2025-01-02T03:04:05.000Z"),
    _session(5, cwd="/srv/計画/文書の一覧", name="ファイルの一覧を並べて、古いものを消して"),
    _session(
        6, name=None, id="an-id-that-is-longer-than-a-column", modified="2026-12-24T00:00:00.000Z"
    ),
]
"""Sessions of which no column but the plain ones has something to show."""

FULL: Final = [
    _session(
        1, cwd=f"{HOME}/app", turns=0, made_by="claude-code", model="claude-opus-4-6-20260115"
    ),
    _session(
        2, turns=12_345, made_by="codex", model="openai/gpt-5.1-codex-max-2026-01-02", cost=0.001
    ),
    _session(3, made_by="an-agent-with-a-long-name", imported_from="x.jsonl", cost=12.5, name=LONG),
    _session(4, lane="review", writer="a program\nof 2 lines", branches=1_234, copy_of="00"),
    _session(5, first_message="Build↵a CLI", name=None, cwd=f"{HOME}/app", branches=0, turns=1),
]


def tables() -> str:
    """All tables, each under the width of its screen."""
    with patch.dict(os.environ, {"HOME": HOME}):
        return "\n".join(_tables())


def _tables() -> Iterator[str]:
    for colour in (False, True):
        for width in WIDTHS if not colour else (80, 170):
            yield f"--- {width}{' in colour' if colour else ''}"
            screen = Screen(width, colour, NOW)
            for found in (PLAIN, FULL):
                ids = short_ids(one.id for one in found)
                yield from (line.replace("\x1b", "␛") for line in table(found, ids, screen))
    yield ""
