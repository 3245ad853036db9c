"""Texts of a session are HTML that says what they say, and no more."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from sessiontree.page import markup
from sessiontree.page.markup import Colours
from tests.support.table import for_each

RED, GREEN = "\x1b[31m", "\x1b[32m"


@for_each(
    ("text", "shown"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        (f"{RED}a\x1b[0mb", '<span class="f1">a</span>b'),
        (f"{RED}a\x1b[mb", '<span class="f1">a</span>b'),
        (f"{RED}a{GREEN}b", '<span class="f1">a</span><span class="f2">b</span>'),
        ("\x1b[31;41ma\x1b[39mb", '<span class="f1 g1">a</span><span class="g1">b</span>'),
        ("\x1b[31;41ma\x1b[49mb", '<span class="f1 g1">a</span><span class="f1">b</span>'),
        ("\x1b[31;41ma\x1b[92mb", '<span class="f1 g1">a</span><span class="g1 f2">b</span>'),
        ("\x1b[1;1ma\x1b[47mb", '<span class="bold">a</span><span class="bold g7">b</span>'),
        ("\x1b[1;31ma\x1b[22mb", '<span class="bold f1">a</span><span class="f1">b</span>'),
        ("\x1b[1m\x1b[1ma\x1b[47mb", '<span class="bold">a</span><span class="bold g7">b</span>'),
        ("\x1b[1;32ma\x1b[31mb", '<span class="bold f2">a</span><span class="bold f1">b</span>'),
        ("\x1b[1:31ma\x1b[3;99mb", '<span class="bold f1">a</span><span class="bold f1">b</span>'),
        (f"{RED}a\x1b[38;5;32mb", '<span class="f1">a</span><span class="f1">b</span>'),
        (f"{RED}a\x1b[48;5;1mb", '<span class="f1">a</span><span class="f1">b</span>'),
        (f"{RED}a\x1b[2K\x1b[?25hb", '<span class="f1">a</span><span class="f1">b</span>'),
        (f"{RED}a\x1b]8;;x\x07b", '<span class="f1">a</span><span class="f1">b</span>'),
        ("\x1b]8;;x\x07a", "a"),
        (f"\x1b[{'9' * 7000}ma", "a"),
    ],
)
def test_the_colours_of_a_terminal_are_classes(text: str, shown: str) -> None:
    assert markup.coloured(text) == shown


@for_each(
    ("text", "shown"),
    [
        ("a\nb\n\n\nc", "<p>a<br />\nb</p><p>c</p>"),
        ("\n\na\n", "<p>a</p>"),
        ("*a*\nb", "<p><em>a</em><br />\nb</p>\n"),
        ("~~a~~ `b`", "<p><s>a</s> <code>b</code></p>\n"),
        ("1. a", "<ol>\n<li>a</li>\n</ol>\n"),
        ("    a", "<pre><code>a</code></pre>"),
        ("\ta", "<pre><code>a</code></pre>"),
        ("<i>a</i>", "<p>&lt;i&gt;a&lt;/i&gt;</p>\n"),
        ("```\na\n```", "<pre><code>a</code></pre>"),
        ("```nolanguage\n<a\n```", "<pre><code>&lt;a</code></pre>"),
        ("``` PY x\n1\n```", '<pre><code><span class="m">1</span></code></pre>'),
        (
            "|a|\n|:-:|\n|b|",
            "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n"
            "<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table>\n",
        ),
        (
            "[a](https://a.test/?b&c)",
            '<p><a rel="noopener noreferrer nofollow" target="_blank" '
            'href="https://a.test/?b&amp;c" title="https://a.test/?b&amp;c">a</a></p>\n',
        ),
        ("[a](ftp://a.test)", "<p>[a](ftp://a.test)</p>\n"),
        ("*" + "x" * 99_999, "<p>*" + "x" * 99_999 + "</p>\n"),
        ("*" + "x" * 100_000, "<pre>*" + "x" * 100_000 + "</pre>"),
    ],
)
def test_markdown_is_html_without_styles(text: str, shown: str) -> None:
    assert markup.prose(text, Colours()) == shown
    assert markup.prose(text, Colours()) == shown  # as it is kept


@for_each(("length", "is_coloured"), [(7998, True), (7999, False)])
def test_a_block_of_code_has_colours_up_to_a_length(length: int, is_coloured: bool) -> None:
    text = "```py\n#" + "x" * length + "\n```"
    assert ("<span" in markup.prose(text, Colours())) == is_coloured


def test_code_has_colours_while_the_budget_of_the_page_lasts() -> None:
    colours = Colours(15)
    five, ten = ("```py\n" + line + "\n```" for line in ("1234", "123456789"))
    shown = [markup.prose(text, colours) for text in (ten, five, five, "```\n1\n```", five)]
    assert ["<span" in html for html in shown] == [True, True, False, False, False]
    assert shown[2] == "<pre><code>1234</code></pre>"


def test_the_html_of_texts_is_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def prose(text: str, colours: Colours) -> tuple[Markup, int]:
        made.append(text)
        return Markup("<p></p>"), 0

    monkeypatch.setattr(markup, "_prose", prose)
    monkeypatch.setattr(markup, "_CACHED", 2 * (10 + len("<p></p>")))
    markup._known.clear()
    markup._known.size = 0
    for text in ("a" * 10, "b" * 10, "a" * 10, "b" * 10, "c" * 10, "a" * 10, "c" * 10):
        markup.prose(text, Colours())
    markup._known.clear()
    markup._known.size = 0
    assert [text[0] for text in made] == ["a", "b", "c", "a", "c"]


@for_each(
    ("lines", "shown"),
    [
        ([], ""),
        (
            ["@@ -1 +1 @@", "-a", "-<b", "+c", " d", "", "odd"],
            '<span class="place">@@ -1 +1 @@\n</span><span class="del">-a\n-&lt;b\n</span>'
            '<span class="add">+c\n</span><span class="same"> d\n\nodd\n</span>',
        ),
    ],
)
def test_a_diff_has_a_class_for_each_run(lines: list[str], shown: str) -> None:
    assert markup.diff(lines) == f'<pre class="diff">{shown}</pre>'


@for_each(
    ("length", "parts"),
    [
        (8, ["abcdefgh"]),
        (9, ["abcdef", "1 characters are left out of this page", "hi"]),
        (1008, ["abcdef", "1,000 characters are left out of this page", "xx"]),
    ],
)
def test_a_long_text_has_its_start_and_its_end(length: int, parts: list[str]) -> None:
    text = "abcdefghi"[:length] + "x" * (length - 9)
    assert list(markup.shortened(text, 8)) == parts
