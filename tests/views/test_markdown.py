"""Whatever a text says, it stays where it was put; judged by another reader of Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sessiontree.redact.redaction import seen
from sessiontree.views import markdown
from tests.support.soak import amount
from tests.support.terminal import driving

PIECES = st.sampled_from(
    [
        *("# One", "## Two\n", "Title\n===", "Title\n---", "```", "```py\n", "~~~~", "    code"),
        *("<!--", "-->", "<details>", "</details>", "<script>", "<b>", "</div>"),
        *("<?x", "<![CDATA["),
        *("- item", "1. item", "   ", "\t", "> ", ">", "`", "``", "`<b>`", "\\"),
        *("\\<b>", "[a]: /x"),
        *("---", "***", "| a |\n|---|", "text", " ", "\n", "\n\n", "<https://a.org>", "&lt;", "$"),
        *("\x1b[31m", "\x00", "\u2028", "\r\n", "\u202e", "#", "####### x", "![", "](", "Vec<u8>"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)

AFTER = "## The next heading"


def parsed(text: str) -> list[tuple[str, int, str]]:
    """The headings on top of a document: the tag, the level of nesting, what they say."""
    tokens = MarkdownIt("commonmark").parse(text)
    assert not [t for t in tokens if t.type == "html_block"]
    assert not [c for t in tokens for c in t.children or () if c.type in ("html_inline", "image")]
    return [
        (token.tag, token.level, tokens[i + 1].content)
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and int(token.tag[1]) <= 2
    ]


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(120))
@given(TEXTS)
@example("```\nunclosed")
@example("1. foo\n   ```\ncode\n   ```")
@example("<!-- never closed")
@example("text\n---\nmore")
@example("- # in a list")
@example("\t# behind a tab")
@example("\\\\![a](http://x/i.png)")
@example("![a\nb](http://x/i.png)")
@example("[![a](http://x/i.png)](http://x)")
def test_no_text_opens_a_heading_or_swallows_what_follows(text: str) -> None:
    for made in (
        markdown.prose(text),
        markdown.typed(text),
        markdown.quote(markdown.typed(text)),
        markdown.block(text),
    ):
        assert parsed(f"{made}\n\n{AFTER}\n") == [("h2", 0, "The next heading")]


@settings(deadline=None)
@given(TEXTS)
def test_a_line_is_one_line_and_means_itself(text: str) -> None:
    for shown in (markdown.inline(text), markdown.code(text)):
        assert "\n" not in shown
        tokens = MarkdownIt("commonmark").parse(f"x {shown} x")
        assert [t.type for t in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        said = "".join(child.content for child in tokens[1].children or ())
        assert said.split() == ["x", *markdown.plain(text).split(), "x"]


@settings(deadline=None)
@given(TEXTS)
def test_a_block_holds_its_text_whole(text: str) -> None:
    (token,) = MarkdownIt("commonmark").parse(markdown.block(text, "sh"))
    assert (token.type, token.info) == ("fence", "sh")
    assert token.content.rstrip("\n") == markdown.plain(text).rstrip("\n")


@settings(deadline=None)
@given(TEXTS)
def test_nothing_drives_a_terminal(text: str) -> None:
    for made in (markdown.prose(text), markdown.code(text), markdown.inline(text)):
        assert driving(made) <= {"\t"}


def test_ordinary_markdown_stays_readable() -> None:
    cases: list[tuple[str, str]] = [
        ("# Plan\n\n1. `a`\n2. **b**", "### Plan\n\n1. `a`\n2. **b**"),
        ("```python\n# no heading\n```", "```python\n# no heading\n```"),
        ("Use `<b>` or Vec<u8>", "Use `<b>` or Vec\\<u8>"),
        ("see <https://a.org>", "see <https://a.org>"),
        ("cut short:\n```sh\nls", "cut short:\n```sh\nls\n```"),
        ("\x1b[1mbold\x1b[0m", "bold"),
        ("see ![the plan](http://x/i.png)", "see [the plan](http://x/i.png)"),
        ("![](http://x/i.png)", "[image](http://x/i.png)"),
        ("![][r] ![r]\n\n[r]: http://x/i.png", "[image][r] [r]\n\n[r]: http://x/i.png"),
        ("`![a](u)`, \\![a](u)", "`![a](u)`, \\![a](u)"),
    ]
    for text, shown in cases:
        assert markdown.prose(text) == shown


def test_images_stay_when_asked_and_tags_do_not() -> None:
    cases: list[tuple[str, str]] = [
        ("see ![the plan](http://x/i.png)", "see ![the plan](http://x/i.png)"),
        (
            "# A\n\n![][r] <b>\n\n[r]: http://x/i.png",
            "### A\n\n![][r] \\<b>\n\n[r]: http://x/i.png",
        ),
        ("![a](u) <!--", "![a](u) \\<!--"),
        ("cut short:\n```\n![a](u)", "cut short:\n```\n![a](u)\n```"),
    ]
    for text, shown in cases:
        assert markdown.prose(text, images=True) == shown


def test_typed_line_breaks_are_kept_but_not_within_code() -> None:
    assert markdown.typed("a\nb\n\n```\nc\nd\n```") == "a  \nb\n\n```\nc\nd\n```"


def test_a_redaction_looks_through_all_that_a_transcript_leaves_out() -> None:
    for number in (*range(0x20000), *range(0xE0000, 0xE0100)):
        c = chr(number)
        if not c.isprintable() and c not in "\r\n\t" and not markdown.plain(c):
            assert not seen(c), hex(number)


_PIECES = (
    *("a", "b c", " ", "    ", "\t", "\n", "\n\n", "* ", "+ ", "1. ", "[a]:", " /u", '"t', "|"),
    *("|a|b|\n|:-:|-|", "_", "**", "![", "](", ")", "\\", "&amp;", "--- ", "- ", "* * *", "___"),
)


@settings(deadline=None, max_examples=amount(300))
@given(st.lists(st.sampled_from(_PIECES), max_size=9).map("".join))
def test_a_text_without_marks_is_what_parsing_makes_of_it(text: str) -> None:
    fast = markdown.prose(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown, "_MARKS", re.compile(""))
        assert markdown.prose(text) == fast
