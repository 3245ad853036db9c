from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given

from sessiontree.core.entry import KNOWN
from sessiontree.core.preview import one_line, preview, printable, role

from .lines import entry, message, values

DRIVING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("message", {"message": {"role": "user", "content": "a\nb"}}, "a↵b"),
        ("message", {"message": 5}, ""),
        ("compaction", {"summary": "s"}, "s"),
        ("branch_summary", {"summary": "s"}, "s"),
        ("merge", {"mergedUuid": "m"}, "m"),
        ("merge", {"mergedUuid": "m", "summary": "s"}, "s"),
        ("handle", {"handle": "blob@1.0.0::sha256:x"}, "blob@1.0.0::sha256:x"),
        ("custom_message", {"content": [{"type": "text", "text": "t"}]}, "t"),
        ("block", {"block": {"type": "text", "text": "t"}}, "t"),
        ("block", {"block": None}, ""),
        ("branch", {"name": "try"}, "try"),
        ("label", {"label": "here"}, "here"),
        ("model_change", {"provider": "p", "modelId": "m"}, "p m"),
        ("stack_push", {}, ""),
        ("of the future", {"name": 5, "note": "n"}, "n"),
    ],
)
def test_an_entry_is_shown_by_what_it_says(kind: str, fields: dict[str, Any], shown: str) -> None:
    assert preview(entry(kind, **fields)) == shown


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (message("u", "x", "user"), "user"),
        (entry("message", message={"type": "function_call"}), "assistant"),
        (entry("message", message=None), None),
        (entry("handle", role="user"), "user"),
        (entry("handle", role=5), None),
        (entry("message_end", role="assistant"), "assistant"),
        (entry("block"), "assistant"),
        (entry("custom_message"), "custom"),
        (entry("compaction"), None),
    ],
)
def test_the_role_is_that_of_what_speaks(found: Any, expected: str | None) -> None:
    assert role(found) == expected


def test_a_preview_is_one_line_of_at_most_sixty_characters() -> None:
    assert one_line("x" * 60) == "x" * 60
    assert one_line("x" * 61) == "x" * 59 + "…"
    assert one_line("\r\n a\r\nb\tc \n") == "a↵b c"
    assert one_line("abc", 2) == "a…"


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "a\x07", "\u202eabc", "\x9b2J", "a\u2028b", "\ud83d"]
)
def test_nothing_that_drives_a_terminal_is_shown(text: str) -> None:
    assert printable(text).isprintable()
    assert one_line(text).isprintable()


def test_line_breaks_and_tabs_may_be_kept() -> None:
    assert printable("a\n\tb\x00") == "a\n\tb"


@given(values)
def test_no_entry_of_a_file_makes_its_preview_fail(value: Any) -> None:
    keys = ("message", "summary", "handle", "content", "block", "name", "role", "mergedUuid")
    for kind in KNOWN:
        shown = preview(entry(kind, **dict.fromkeys(keys, value)))
        assert len(shown) <= 60
        assert DRIVING.isdisjoint(unicodedata.category(letter) for letter in shown)
