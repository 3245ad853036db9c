"""Spellings that hide a key from a search, and do not hide it from a redaction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction, joined, plain
from tests.support.table import for_each

BODY = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fG3hJ6"
KEY = "ghp_" + BODY
MASK = "[redacted:github-token:1]"
WIDE = "".join(chr(ord(c) + 0xFEE0) for c in KEY)


@for_each(
    "text, masked",
    [
        (f"ghp_\u200b{BODY}", MASK),
        (f"g\xadhp_{BODY}", MASK),
        (f"\x1b[31mghp\x1b[0m_{BODY}", f"\x1b[31m{MASK}"),
        (WIDE, MASK),
        (KEY.replace("_", "\\u005f"), MASK),
        (KEY.replace("_", "\\x5f"), MASK),
        (KEY.replace("_", "%5F"), MASK),
        (KEY.replace("_", "&#95;"), MASK),
        (KEY.replace("_", "&#x5f;"), MASK),
        (KEY.replace("g", "\\u200bg"), f"\\u200b{MASK}"),
        (f"ghp_{BODY[:9]}<b>{BODY[9:]}</b>", f"{MASK}</b>"),
        (f"ghp_{BODY[:9]}**{BODY[9:]}**", f"{MASK}**"),
        (f"key ghp_{BODY[:9]}\n{BODY[9:]}\n", f"key {MASK}\n"),
        (f"> ghp_{BODY[:9]}\n> {BODY[9:]}", f"> {MASK}"),
        (f"{KEY}\nBitte weiter", f"{MASK}\nBitte weiter"),
        (f"{KEY}\nfertig\n{KEY}\nnoch was", f"{MASK}\nfertig\n{MASK}\nnoch was"),
        (f'"ghp_{BODY[:9]}" + "{BODY[9:]}"', f'"{MASK}"'),
        (f'k = "ghp_{BODY[:9]}" \\\n  "{BODY[9:]}"', f'k = "{MASK}"'),
    ],
)
def test_a_key_is_masked_in_any_of_these_spellings(text: str, masked: str) -> None:
    assert Redaction().text(text) == masked


@for_each(
    "text",
    [
        "".join(reversed(KEY)),
        " ".join(KEY),
        KEY.replace("g", "ɡ"),  # a letter of another alphabet
        "Z2hwX2FCM2RFNmdIOWpLMm1ONXBROHNUMXZXNHla",  # base64
    ],
)
def test_these_spellings_are_not_found_as_the_guide_says(text: str) -> None:
    assert Redaction().text(text) == text


@given(st.text(st.sampled_from("aé\u200b\\u0041x%4&#;<b>\n*ａ1_"), max_size=40))
def test_a_view_knows_where_each_of_its_characters_is(text: str) -> None:
    view = plain(text)
    if view is None:
        return
    last = 0
    for at in range(len(view.text)):
        start, end = view.source(at, at + 1)
        assert last <= start < end <= len(text)
        assert text[start:end] == view.text[at] or end - start > 1 or not text[start].isascii()
        last = start


@given(st.text(st.sampled_from("aB1_<b>\n* \"'+"), max_size=60))
def test_a_joined_word_has_only_characters_of_its_text(text: str) -> None:
    for at, word in joined(text):
        for i, char in enumerate(word.text):
            start, end = word.source(i, i + 1)
            assert text[at + start : at + end] == char
