"""Lines of the screen: cut to the width, put side by side, and broken, with wide characters too."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from sessiontree.library.listing import SessionInfo
from sessiontree.text.columns import CODES, Span, beside, fitted, line_text, wrapped
from sessiontree.tui.drawing import row, row_line, rows_of, session_line
from tests.cli.test_long_outlines import asked_and_replied, turns
from tests.support.conversation import message, opened
from tests.support.soak import amount
from tests.support.table import for_each

TEXTS = st.text(st.sampled_from("ab, \n\t計画é\u0301\x1b\u200b👍"), max_size=40)


@settings(max_examples=amount(30))
@given(st.lists(st.builds(Span, TEXTS, st.sampled_from(["", "dim"]))), st.integers(-1, 30))
def test_a_fitted_line_is_never_wider_and_its_pieces_keep_their_roles(
    line: list[Span], width: int
) -> None:
    found = fitted(line, width)
    assert cell_len(line_text(found)) <= max(0, width)
    assert all(piece.text and piece.text.isprintable() for piece in found)
    roles = iter(piece.role for piece in line)
    assert all(piece.role in roles for piece in found)


@for_each(
    ("width", "shown"),
    [
        (0, []),
        (1, ["…"]),
        (3, ["on…"]),
        (4, ["one↵"]),
        (5, ["one↵", "…"]),
        (7, ["one↵", "計…"]),
        (8, ["one↵", "計画"]),
        (9, ["one↵", "計画", "x"]),
        (20, ["one↵", "計画", "x"]),
    ],
)
def test_pieces_are_shown_as_far_as_there_is_room(width: int, shown: list[str]) -> None:
    line = [Span("one\n"), Span(""), Span("計画"), Span("x")]
    assert [piece.text for piece in fitted(line, width)] == shown


@for_each(
    ("left", "right", "width", "shown"),
    [
        ("left", "right", 20, "left           right"),
        ("left", "right", 11, "left  right"),
        ("left", "right", 10, "le…  right"),
        ("left", "right", 7, "  right"),
        ("left", "right", 5, "right"),
        ("left", "right", 4, "rig…"),
        ("left", "", 6, "left  "),
        ("left", "", 3, "le…"),
        ("計画", "画", 8, "計画  画"),
        ("", "right", 7, "  right"),
    ],
)
def test_the_right_part_ends_at_the_width_and_the_left_one_gets_the_rest(
    left: str, right: str, width: int, shown: str
) -> None:
    assert line_text(beside([Span(left)], [Span(right)], width)) == shown


@for_each(
    ("text", "width", "lines"),
    [
        ("", 8, [""]),
        ("a\n\nb", 8, ["a", "", "b"]),
        ("\tx", 8, ["    x"]),
        ("12345678", 8, ["12345678"]),
        ("123456789", 8, ["12345678", "9"]),
        ("1234567 9", 8, ["1234567", "9"]),
        ("12345678 0", 8, ["12345678", "0"]),
        ("1234 67890", 8, ["1234", "67890"]),
        ("123 567890", 8, ["123 5678", "90"]),
        ("12 45 78 0", 8, ["12 45 78", "0"]),
        ("123456789", 3, ["12345678", "9"]),
        ("計画計画計画", 8, ["計画計画", "計画"]),
        ("計画計x計画", 8, ["計画計x", "計画"]),
        ("a計画 計画計", 9, ["a計画", "計画計"]),
        ("x" * 20, 10, ["x" * 10, "x" * 10]),
    ],
)
def test_a_long_line_is_broken_at_a_space_in_its_second_half(
    text: str, width: int, lines: list[str]
) -> None:
    assert wrapped(text, width) == lines


@settings(max_examples=amount(30))
@given(TEXTS, st.integers(0, 20))
def test_broken_lines_fit_and_lose_only_spaces(text: str, width: int) -> None:
    found = wrapped(text, width)
    assert all(cell_len(line) <= max(8, width) for line in found)
    whole = text.expandtabs(4).replace("\n", "").replace(" ", "")
    assert "".join(found).replace(" ", "") == whole


@for_each("colourless", ["", "1"])
def test_without_colour_only_the_bar_keeps_its_code(
    colourless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", colourless)
    line = [Span("a"), Span("b", "label"), Span("c", "bar")]
    label = "b" if colourless else f"\x1b[{CODES['label']}mb\x1b[0m"
    assert row(7, line) == f"\x1b[7;1H\x1b[2Ka{label}\x1b[{CODES['bar']}mc\x1b[0m"


def test_a_session_in_a_list_is_a_line_of_its_facts() -> None:
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    one = SessionInfo(
        *("/s/a.jsonl", "aaaa1111", "/home/me/app", "A name", "do it", None),
        *("2026-01-02T10:00:00.000Z", 34_567, "main", None),
        made_by="claude-code",
        turns=1234,
        cost=1.5,
    )
    wide = line_text(session_line(one, 110, now))
    assert wide.split() == [
        *("2h", "claude", "A", "name", "app", "1,234", "t", "$1.50", "35", "KB"),
    ]
    assert len(wide) == 110
    narrow = line_text(session_line(one, 99, now))
    assert narrow.split() == ["2h", "claude", "A", "name", "$1.50", "35", "KB"]
    plain = replace(one, turns=None, cost=None, made_by=None)
    assert line_text(session_line(plain, 110, now)).split() == [
        *("2h", "sessiontree", "A", "name", "app", "35", "KB"),
    ]


def test_the_outline_names_lanes_and_shows_what_the_user_replied(tmp_path: Path) -> None:
    asked = asked_and_replied("r", "a2")
    tried = {**message("t", "a1", "try another way"), "lane": "reviewer"}
    with opened(tmp_path / "session.jsonl", *turns(2), *asked, tried) as session:
        outline = session.outline()
    rows = [line_text(row_line(outline, row, 80)) for row in rows_of(outline, (), ())]
    assert [row for row in rows if "lane reviewer: try another way" in row]
    assert [row for row in rows if row.startswith("      ? Which of") and "the small one" in row]
    assert max(map(cell_len, rows)) <= 80


def test_the_first_screen_is_drawn_without_the_slow_package() -> None:
    code = "import sys, sessiontree.tui.drawing; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
