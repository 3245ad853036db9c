"""Code has the colours of its language, in a time that its text does not decide."""

from __future__ import annotations

import html
import re
import string
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.page import syntax
from tests.support.table import for_each

_FOUND = {one.pattern(): names.split()[0] for names, one in syntax._SYNTAXES.items()}
EXPRESSIONS, LANGUAGES = list(_FOUND), list(_FOUND.values())
"""All expressions, and a language for each."""

PIECES = [
    *string.punctuation,
    *(word + mark for word, mark in product(("a", " ", "\\", "="), string.punctuation)),
    *("a", "0", " ", "\t", "\n", "\r", "é", "a\n", " \n", "a ", "0.", "1;", "if ", "def a"),
    *("<!--", "</", "<a ", "/*", "--[[", '"""', "'''", "{-", "(*", "#=", "<#", '"a": ', "a: "),
]
TEXTS = st.text(alphabet="ab1 \n\\\"'`<>!=-/*#:;{}[]()é", max_size=60)
OPENINGS = ["", '"', "'", "`", "/*", "<!--", '"""', "--[["]


@for_each(
    ("language", "code", "shown"),
    [
        ("py", "def f(): # x", '[k:def] [n:f](): [c:# x]'),
        ("python", "'''a\nb''' is None", "[s:'''a\nb'''] [k:is] [m:None]"),
        ("py", r"'a\'b' 'c", r"[s:'a\'b'] [s:'c]"),
        ("py", "'a\n1", "[s:'a]\n[m:1]"),
        ("js", "const a = `x\n${1}` // y", "[k:const] a = [s:`x\n${1}`] [c:// y]"),
        ("ts", "interface A { b: string }", "[k:interface] [n:A] { b: [k:string] }"),
        ("c#", "class A { /* if */ }", "[k:class] [n:A] { [c:/* if */] }"),
        ("rust", "fn f<'a>() { 'x' }", "[k:fn] [n:f]<'a>() { [s:'x'] }"),
        ("rust", r"let c = '\u{1f600}';", r"[k:let] c = [s:'\u{1f600}'];"),
        ("json", '{"a": "b", "c": [true]}', "{[n:\"a\"]: [s:\"b\"], [n:\"c\"]: [[m:true]]}"),
        ("yaml", "a-b: c # d", "[n:a-b]: c [c:# d]"),
        ("toml", 'a = "b"', '[n:a] = [s:"b"]'),
        ("sh", "if [ $# -gt 1 ] # x", "[k:if] [ $# -gt [m:1] ] [c:# x]"),
        ("sql", "SELECT a FROM b -- c", "[k:SELECT] a [k:FROM] b [c:-- c]"),
        ("html", "<a href=\"b\">don't</a>", "[n:<a] href=[s:\"b\"]>don't[n:</a]>"),
        ("lua", "--[[ if\n]] if", "[c:--[[ if\n]]] [k:if]"),
        ("css", "color: #fff /* x */", "[n:color]: #fff [c:/* x */]"),
        ("nolanguage", "if 1", "if 1"),
        ("", "if 1", "if 1"),
    ],
)  # fmt: skip
def test_the_code_of_a_language_is_coloured(language: str, code: str, shown: str) -> None:
    elements = re.sub(
        r'<span class="(\w)">(.*?)</span>', r"[\1:\2]", found(code, language), flags=re.S
    )
    assert html.unescape(elements) == shown


def found(code: str, language: str) -> str:
    return str(syntax.coloured(code, language))


@given(st.sampled_from(sorted(syntax.NAMES)), TEXTS)
def test_colours_change_no_character(language: str, code: str) -> None:
    text = re.sub(r'<span class="[ksncm]">|</span>', "", found(code, language))
    assert html.unescape(text) == code


def test_a_name_is_of_one_language() -> None:
    names = [name for names in syntax._SYNTAXES for name in names.split()]
    assert len(names) == len(set(names)) == len(syntax.NAMES)


@given(TEXTS, st.data())
def test_whether_code_has_a_colour_at_an_offset_is_decided_within_a_dozen_characters(
    text: str, data: st.DataObject
) -> None:
    """So no expression reads far and then fails, and would read the same again one further on."""
    expression = re.compile(data.draw(st.sampled_from(EXPRESSIONS)))
    for at in range(len(text)):
        near, far = expression.match(text, at, at + 12), expression.match(text, at)
        assert bool(near) == bool(far)


@pytest.mark.soak
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_time_is_proportional_to_the_text(language: str) -> None:
    for opening, piece in product(OPENINGS, PIECES):
        short, long = (opening + (piece * size)[:size] for size in (1_000, 16_000))
        assert any(
            seconds(language, long) < 60 * max(seconds(language, short), 0.0001) for _ in range(5)
        ), (opening, piece)


def seconds(language: str, text: str) -> float:
    """Return the processor's time for a text."""
    start = time.thread_time()
    syntax.coloured(text, language)
    return time.thread_time() - start
