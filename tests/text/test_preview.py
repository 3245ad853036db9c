from __future__ import annotations

import hashlib
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import KNOWN, Entry
from sessiontree.core.handle import Handle
from sessiontree.core.message import preview_of
from sessiontree.core.spill import spill
from sessiontree.text.preview import preview, role
from tests.support.conversation import user
from tests.support.lines import entry, message, values
from tests.support.table import for_each

BLOB = "blob@1.0.0::sha256:" + "0123456789abcdef" * 4
LONG = "The whole story, from the beginning. " * 1000
CALL = {"type": "toolCall", "id": "c", "name": "w", "arguments": {"t": LONG}}
PNG = "iVBORw0KGgoAAAANSUhEUg" * 60_000
DRIVING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@for_each(
    "kind, fields, shown",
    [
        ("message", {"message": user("a\nb")}, "a↵b"),
        ("message", {"message": 5}, ""),
        ("compaction", {"summary": "s"}, "s"),
        ("branch_summary", {"summary": "s"}, "s"),
        ("merge", {"mergedUuid": "m"}, "m"),
        ("merge", {"mergedUuid": "m", "summary": "s"}, "s"),
        ("handle", {"handle": "blob@1.0.0::sha256:x"}, "blob@1.0.0::sha256:x"),
        ("handle", {"handle": "notes@1.0.0::line:2", "preview": "a note"}, "a note"),
        ("handle", {"handle": f"{BLOB}:1048576:image/png"}, "[image/png 1.0 MB]"),
        ("handle", {"handle": f"{BLOB}:5:text/plain; charset=utf-8"}, "[text/plain 5 B]"),
        ("handle", {"handle": f"{BLOB}:20:a/b", "preview": "the log"}, "the log [a/b 20 B]"),
        ("message", {"preview": "p", "message": user("t")}, "p t"),
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


@for_each(
    "found, expected",
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


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "é", " ", "\n", "\r", "\r\n", "\t", "\x1b", "\u200b"])),
    st.integers(1, 12),
)
def test_a_cut_line_begins_as_the_whole_would(parts: list[str], width: int) -> None:
    text = "".join(parts)
    whole = text.strip().replace("\r\n", "↵").replace("\n", "↵").replace("\t", " ")
    shown = "".join(c for c in whole if c.isprintable())
    assert one_line(text, width) == (shown if len(shown) <= width else shown[: width - 1] + "…")


def test_a_preview_is_one_line_of_at_most_sixty_characters() -> None:
    assert one_line("x" * 60) == "x" * 60
    assert one_line("x" * 61) == "x" * 59 + "…"
    assert one_line("\r\n a\r\nb\tc \n") == "a↵b c"
    assert one_line("abc", 2) == "a…"


@for_each("text", ["\x1b[31mred", "\u202eabc", "\x9b2J", "a\u2028b", "\ud83d"])
def test_nothing_that_drives_a_terminal_is_shown(text: str) -> None:
    assert printable(text).isprintable()
    assert one_line(text).isprintable()


@for_each("text", ["می‌خواهم", "👩‍👩‍👧 family", "会議　議事録", "a\xa0b"])
def test_what_a_script_or_an_emoji_is_spelled_with_is_shown(text: str) -> None:
    assert printable(text) == text
    assert one_line(text) == text


def test_line_breaks_and_tabs_may_be_kept() -> None:
    assert printable("a\n\tb\x00") == "a\n\tb"


SOURCE = {"type": "base64", "media_type": "image/png", "data": PNG}
IMAGES = {
    "pi": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "Anthropic": {"type": "image", "source": SOURCE},
    "OpenAI Chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    "OpenAI Responses": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
}


def spilled_entry(kind: str, fields: dict[str, Any], over: int | None = 32768) -> Entry:
    """As it is read from a file whose blobs nobody has."""

    def store(content: bytes, media_type: str) -> str:
        return str(Handle.blob(hashlib.sha256(content).hexdigest(), len(content), media_type))

    return entry(kind, **spill(fields, over, store))


@for_each("image", IMAGES.values(), ids=IMAGES)
def test_an_image_is_shown_by_its_type_and_size_wherever_its_bytes_lie(image: Any) -> None:
    for content in ([image], [{"type": "tool_result", "tool_use_id": "c", "content": [image]}]):
        said: dict[str, Any] = {"message": user(content)}
        assert preview(entry("message", **said)) == "[image/png 990 KB]"
        assert preview(spilled_entry("message", said)) == "[image/png 990 KB]"


def test_an_image_elsewhere_is_an_image() -> None:
    content: list[Any] = [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image"},
        {"type": "input_image", "image_url": 5},
        {"type": "image", "data": "", "mimeType": {}},
    ]
    assert preview(entry("message", message=user(content))) == ("[image] [image] [image] [image]")


@for_each(
    "kind, fields",
    [
        ("message", {"message": user(LONG)}),
        ("message", {"message": user([{"type": "text", "text": LONG}])}),
        ("message", {"message": {"role": "assistant", "content": [CALL]}}),
        ("branch_summary", {"summary": LONG}),
        ("compaction", {"summary": "\n\n" + LONG}),
        ("custom_message", {"content": LONG}),
        ("block", {"block": {"type": "thinking", "thinking": LONG}}),
    ],
)
def test_a_spilled_text_is_shown_as_it_would_be_inline(kind: str, fields: dict[str, Any]) -> None:
    inline, spilled = entry(kind, **fields), spilled_entry(kind, fields)
    assert spilled.has_spilled
    assert preview(spilled) == preview(inline)


def test_a_text_that_is_too_short_for_a_beginning_is_named_by_its_size() -> None:
    said = {"message": user("abc")}
    assert preview(spilled_entry("message", said, over=0)) == "[text/plain 3 B]"


def test_a_line_without_beginnings_shows_the_size_of_what_was_spilled() -> None:
    found = spilled_entry("message", {"message": user(LONG)}).as_stored
    older = {"message": found["message"], "spilled": [place[:2] for place in found["spilled"]]}
    assert preview(entry("message", **older)) == "[text/plain 37 KB]"


@pytest.mark.slow
@given(values)
def test_no_spilled_of_a_file_makes_a_preview_fail(value: Any) -> None:
    keys: dict[str, Any] = {"message": user(f"{BLOB}:9:a/b"), "summary": "s"}
    for spilled in (value, [value], [[["message", "content"], f"{BLOB}:9:a/b", value]]):
        for kind in ("message", "compaction", "handle"):
            assert len(preview(entry(kind, **keys, spilled=spilled))) <= 60


@pytest.mark.slow
@given(values)
def test_no_entry_of_a_file_makes_its_preview_fail(value: Any) -> None:
    keys = ("message", "summary", "handle", "content", "block", "name", "role", "mergedUuid")
    for kind in KNOWN:
        shown = preview(entry(kind, **dict.fromkeys(keys, value)))
        assert len(shown) <= 60
        assert DRIVING.isdisjoint(unicodedata.category(letter) for letter in shown)


def test_a_reasoning_item_is_shown_by_its_summary() -> None:
    summary = [{"type": "summary_text", "text": "Look"}, {"type": "summary_text", "text": "around"}]
    assert preview_of({"type": "reasoning", "summary": summary}) == "(thinking) Look around"
    sealed: dict[str, Any] = {"type": "reasoning", "summary": [], "content": None}
    assert preview_of({**sealed, "encrypted_content": "gAAAAA"}) == "(thinking)"
