"""A pattern finds in raw bytes whatever it matches in decoded text, however it is spelled."""

from __future__ import annotations

import json
import re
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.entry import decode_leniently
from sessiontree.errors import UsageError
from sessiontree.text.pattern import Pattern, lines_with, query
from tests.support.soak import in_soak
from tests.support.table import for_each

TELLING = "aAzZkKsSiI09 /\\\"'\n\t\b\f\r\x00\x1b\x7fußẞéÉıİſK日本😀\ud83d\ude00\ufffd\u2028"
"""Letters whose spelling or case is out of the ordinary, and a few that are not."""

characters = st.sampled_from(TELLING) | st.characters()
fragments = st.text(characters, max_size=12)
patterns = st.text(characters, min_size=1, max_size=5)


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """A JSON string that stands for the text, each character spelled in any way allowed."""
    return '"' + "".join(_spelling(draw, c) for c in text) + '"'


def _spelling(draw: st.DrawFn, character: str) -> str:
    ways = [_escaped(draw, character)]
    if character in _SHORT:
        ways.append("\\" + _SHORT[character])
    if character >= " " and character not in '"\\' and not "\ud800" <= character <= "\udfff":
        ways += [character] * 3
    return draw(st.sampled_from(ways))


def _escaped(draw: st.DrawFn, character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(
        "\\u" + "".join(draw(st.sampled_from([d, d.upper()])) for d in units[i : i + 2].hex())
        for i in range(0, len(units), 2)
    )


_SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\", "/": "/"}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, bytes]:
    """A pattern, and lines of which some hold it, all spelled anyhow."""
    pattern = draw(patterns)
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        parts = st.lists(fragments | st.just(pattern) | st.just(pattern.swapcase()), max_size=3)
        lines.append('{"t": ' + draw(spelled("".join(draw(parts)))) + "}")
    end = draw(st.sampled_from(["", "\n"]))
    return pattern, ("\n".join(lines) + end).encode()


def decoded_all(pattern: Pattern, block: bytes) -> list[bytes]:
    """The lines that match when every one of them is decoded."""
    return [line for line in block.split(b"\n") if line and matches(pattern, line)]


def matches(pattern: Pattern, line: bytes) -> bool:
    value: Any = decode_leniently(line)
    return value is not None and pattern.search(value["t"]) is not None


def found_raw(pattern: Pattern, block: bytes) -> list[bytes]:
    """The same, when only the candidates are decoded."""
    spans = pattern.candidates(bytearray(block), len(block))
    return [block[a:b] for a, b in spans if b > a and matches(pattern, block[a:b])]


@pytest.mark.slow
@settings(deadline=None)
@given(blocks(), st.booleans(), st.booleans())
def test_no_spelling_hides_a_match(
    made: tuple[str, bytes], ignore_case: bool, any_accent: bool
) -> None:
    text, block = made
    pattern = Pattern(text, ignore_case=ignore_case, any_accent=any_accent)
    assert found_raw(pattern, block) == decoded_all(pattern, block)


expressions = st.lists(
    st.sampled_from(
        ["ab", "k", "S", "é", ".", ".*", "+", "?", "^", "$", "\\w", "[xy]", "|", "a{2}"]
    ),
    min_size=1,
    max_size=5,
).map("".join)


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@settings(deadline=None)
@given(
    expressions.filter(_is_regex), st.lists(st.text("abBkKsSéÉxy\nK", max_size=6)), st.booleans()
)
def test_no_regular_expression_misses_a_line(
    expression: str, texts: list[str], ignore_case: bool
) -> None:
    pattern = Pattern(expression, regex=True, ignore_case=ignore_case)
    block = "".join(json.dumps({"t": text}) + "\n" for text in texts).encode()
    assert found_raw(pattern, block) == decoded_all(pattern, block)


def test_what_json_dumps_writes_is_found() -> None:
    for ensure_ascii in (True, False):
        for text in ("needle", "naïve", "Привет", "日本語のテキスト", "a/b", 'say "x"\n', "😀"):
            line = json.dumps({"t": f"before {text} after"}, ensure_ascii=ensure_ascii).encode()
            for pattern in (Pattern(text), Pattern(text.upper(), ignore_case=True)):
                assert found_raw(pattern, line + b"\n") == [line], ensure_ascii


def test_lone_surrogates_as_node_writes_them_are_found() -> None:
    line = rb'{"t": "cut \uD83D off"}'
    assert found_raw(Pattern("\ud83d"), line) == [line]
    assert found_raw(Pattern("\ud83d"), rb'{"t": "whole \uD83D\uDE00"}') == []


def test_bytes_that_are_no_utf_8_are_found_as_what_stands_for_them() -> None:
    line = b'{"t": "bad \xff\xfe byte"}'
    assert found_raw(Pattern("\ufffd"), line) == [line]
    assert found_raw(Pattern("byte"), line) == [line]


@pytest.mark.slow
def test_every_character_that_matches_an_ascii_letter_is_known() -> None:
    everything = "".join(map(chr, range(0x80, 0x110000)))
    others = "".join(re.findall(r"[\0-\x7f]", everything, re.IGNORECASE))
    assert others
    for letter in map(chr, range(0x80)):
        for other in re.findall(re.escape(letter), others, re.IGNORECASE):
            line = json.dumps({"t": f"xx{other}yy"}, ensure_ascii=False).encode()
            escaped = json.dumps({"t": f"xx{other}yy"}).encode()
            pattern = Pattern(f"X{letter}Y", ignore_case=True)
            assert found_raw(pattern, line) == [line]
            assert found_raw(pattern, escaped) == [escaped]


def test_only_lines_that_may_match_are_candidates() -> None:
    block = b'{"t": "one"}\n{"t": "needle"}\n{"t": "two \\u001b[0m"}\n{"t": "ne\\u0065dle"}\n'
    for pattern in (Pattern("needle"), Pattern("NEEDLE", ignore_case=True)):
        spans = pattern.candidates(bytearray(block), len(block))
        assert [block[a:b] for a, b in spans] == [b'{"t": "needle"}', b'{"t": "ne\\u0065dle"}']
    ((start, end),) = lines_with(b"two", block, len(block))
    assert block[start:end] == b'{"t": "two \\u001b[0m"}'


@for_each("text, regex", [("", False), ("", True), ("(", True), ("a{9999999999}", True)])
def test_what_is_no_pattern_is_refused(text: str, regex: bool) -> None:
    with pytest.raises(UsageError):
        Pattern(text, regex=regex)


def test_a_match_is_told_by_where_it_begins_and_ends() -> None:
    assert Pattern("lo").search("hello") == (3, 5)
    assert Pattern("L+", regex=True, ignore_case=True).search("hello") == (2, 4)
    assert Pattern("x").search("hello") is None


ACCENTED = st.text(st.sampled_from("ae \u00e9\u00fc\u0144\u00c5\uac01"), min_size=1, max_size=6)


@pytest.mark.slow
@settings(deadline=None)
@given(ACCENTED, st.data(), st.booleans())
def test_accents_match_however_they_are_spelled(
    text: str, data: st.DataObject, ignore_case: bool
) -> None:
    spellings = st.sampled_from([normalize("NFC", text), normalize("NFD", text)])
    typed, stored = data.draw(spellings), data.draw(spellings)
    pattern = Pattern(typed, ignore_case=ignore_case)
    line = b'{"t": ' + data.draw(spelled(f"before {stored} after")).encode() + b"}"
    assert found_raw(pattern, line + b"\n") == [line]


def test_the_first_of_both_spellings_is_marked() -> None:
    assert Pattern("cafe\u0301").search("a caf\u00e9, a cafe\u0301") == (2, 6)
    assert Pattern("caf\u00e9").search("a cafe\u0301, a caf\u00e9") == (2, 7)
    assert Pattern("caf\u00e9", regex=True).search("a cafe\u0301") is None


WORDS = [
    ("zurich", "in Zürich.", (3, 9)),
    ("zurich", "in Zu\u0308rich.", (3, 10)),
    ("Zürich", "in Zurich.", (3, 9)),
    ("zurich", "in ｚｕｒｉｃｈ.", (3, 9)),
    ("naive cafe", "a naïve café", (2, 12)),
    ("cafe", "a cafe\u0301.", (2, 7)),
    ("istanbul", "İstanbul", (0, 8)),
    ("angstrom", "\u212bngström", (0, 8)),
    ('say "a"', "say ＂a＂", (0, 7)),
    ("αθηνα", "Αθήνα", (0, 5)),
    ("ガラス", "ｶﾞﾗｽ", (0, 4)),
    ("\u0958", "\u0958", (0, 1)),
    ("\u0301", "e\u0301", (1, 2)),
    ("が", "か", None),
    ("zurich", "zunich", None),
]
"""Typed, stored, and where they match."""


@for_each(("typed", "stored", "span"), WORDS)
def test_accents_and_width_do_not_matter(
    typed: str, stored: str, span: tuple[int, int] | None
) -> None:
    pattern = Pattern(typed, ignore_case=True, any_accent=True)
    assert pattern.search(stored) == span
    for ensure_ascii in (True, False):
        line = json.dumps({"t": stored}, ensure_ascii=ensure_ascii).encode()
        block = b'{"t": "\xe9 \xc3"}\n{"t": "no"}\n' * ensure_ascii + line + b'\n{"t": "z"}'
        assert found_raw(pattern, block) == [line] * (span is not None)


@for_each(
    ("ignore_case", "finds"),
    [(None, ["Zürich", "Zurich", "zürich"]), (True, ["Zürich", "Zurich", "zürich"]), (False, [])],
)
def test_accents_matter_where_case_is_asked_for(ignore_case: bool | None, finds: list[str]) -> None:
    pattern = query("zurich", ignore_case=ignore_case)
    found = [word for word in ("Zürich", "Zurich", "zürich") if pattern.match_in([word])]
    assert found == finds
    assert query("zurich", regex=True).match_in(["zürich"]) is None
    assert query("Zurich").match_in(["Zürich"]) is not None
    assert query("Zurich").match_in(["zürich"]) is None


def has_ascii_form(letter: str) -> bool:
    forms = (normalize("NFKD", letter), letter.casefold(), letter.lower(), letter.upper())
    return any(one.isascii() for form in forms for one in form)


@pytest.mark.slow
@in_soak("is_whole", False, True)
def test_no_other_form_of_a_letter_is_missed(is_whole: bool) -> None:
    everything = [c for c in map(chr, range(0x80, 0x30000)) if not 0xD800 <= ord(c) < 0xE000]
    if not is_whole:
        everything = [c for c in everything if has_ascii_form(c)]
    for letter in map(chr, range(0x20, 0x7F)):
        for ignore_case in (True, False):
            pattern = Pattern(f"x{letter}y", ignore_case=ignore_case, any_accent=True)
            others = [c for c in everything if pattern.search(f"x{c}y")]
            for ensure_ascii in (True, False):
                lines = [json.dumps({"t": f"x{c}y"}, ensure_ascii=ensure_ascii) for c in others]
                block = "".join(f"{line}\n" for line in lines).encode()
                assert len(found_raw(pattern, block)) == len(others), letter
