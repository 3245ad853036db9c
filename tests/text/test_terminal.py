from __future__ import annotations

import pytest

from sessiontree.text.terminal import as_shown

SHOWN = {
    "10%\r20%\r100%\ndone": "100%\ndone",
    "a\x1b[31mred\x1b[0m\r\nb": "ared\nb",
    "one\n\x1b[1A\x1b[2KONE\n": "ONE\n",
    "abc\b\bX": "aXc",
    "old\n\x1b[2Jnew": "old\nnew",
    "xxxxx\ry": "yxxxx",
    "N\bNA\bA": "NA",
    "\x1b[3Ca": "   a",
    "abc\x1b[1K": "",
    "\x1b]0;title\x07text\r": "text",
    "a\x00\u202eb\r\n": "ab\n",
    "世界\r世": "世界",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_a_text_is_what_a_terminal_shows(text: str, shown: str) -> None:
    assert as_shown(text) == shown


@pytest.mark.parametrize("text", ["\x1b[999999999C", "\x1b[999999999B", "\x1b[9A", "\x1b", "\x9b1"])
def test_a_sequence_cannot_make_a_text_large(text: str) -> None:
    assert len(as_shown(text * 1_000)) < 60_000
