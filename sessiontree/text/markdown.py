"""Markdown: texts made safe to put into a document.

Invariants: a text stays within its place: it opens no heading of the document's own, and no code
block, list or HTML element that goes on after it; nothing in it controls a terminal. Unless asked,
nothing in it is loaded from elsewhere by a viewer: an image becomes a link. A viewer that loads an
image tells its server who reads the text, and when.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sessiontree.context.resolved import fenced
from sessiontree.core.display import printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

DEEPER: Final = 2  # levels by which the headings of a text are lowered
_LARGEST: Final = 200_000  # characters parsed as Markdown; a longer text becomes a block of code
_TERMINAL: Final = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\r(?=\n)"
)
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&!$@])")
_TAG: Final = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>)")
_IMAGE: Final = re.compile(r"(?<!\\)((?:\\\\)*)!\[(\](?=[(\[]))?")
_TICKS: Final = re.compile(r"`+")
_MARKS: Final = re.compile(r"[<>`~#=]|!\[|^[ \t]*-", re.MULTILINE)
"""Without one of these, a text has no heading, HTML or image, and no code that could stay open."""

_END: Final = "the-end-of-the-text"


def plain(text: str) -> str:
    """Text without control sequences, such as colours; line breaks stay."""
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as most is; this check is a hundred times as fast
    return printable(_TERMINAL.sub("", text))


def inline(text: str) -> str:
    """Text on one line, without any markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))


def code(text: str) -> str:
    """Text on one line as code."""
    shown = " ".join(plain(text).split())
    if "`" not in shown:
        return f"`{shown}`" if shown else ""
    ticks = "`" * (max(map(len, _TICKS.findall(shown))) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(text: str, language: str = "") -> str:
    """Text as a block of code, in a fence that the text cannot end."""
    fence, rest = fenced(plain(text)).split("\n", 1)
    return f"{fence}{language}\n{rest}"


def quote(text: str) -> str:
    """A quotation of Markdown. Tabs become spaces, because they have other stops in it."""
    lines = (line.expandtabs(4) for line in text.split("\n"))
    return "\n".join(f"> {line}" if line.strip() else ">" for line in lines)


def prose(text: str, *, images: bool = False) -> str:
    """Markdown of another author, contained: its headings lower, its HTML text, its images links.

    With `images`, its images stay. Text that cannot be contained becomes a block of code.
    """
    text = plain(text).strip("\n")
    if len(text) > _LARGEST:
        return block(text)
    if not _MARKS.search(text):
        return text
    within = _without_tags if images else _linked
    outside = frozenset(["html_inline"] if images else ["html_inline", "image"])
    shown = _with_lower_headings(_changed_outside_code(text, within))
    if _is_contained(shown, outside):
        return shown
    fences = [token.markup for token in _tokens(shown) if token.type == "fence"]
    closed = f"{shown}\n{fences[-1]}" if fences else shown  # as one that was cut short is not
    return closed if fences and _is_contained(closed, outside) else block(text)


def typed(text: str, *, images: bool = False) -> str:
    """The same for text that a person typed: each line break stays."""
    shown = prose(text, images=images)
    lines = shown.split("\n")
    if shown.startswith("```") or len(lines) == 1:
        return shown
    whole = _whole_lines(_tokens(shown))
    return "\n".join(
        f"{line}  " if line.strip() and following.strip() and i not in whole else line
        for i, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True))
    )


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # slow to load, and few commands write Markdown

    parser = MarkdownIt("commonmark").enable("table")
    parser.parse("a")  # compiles its rules before threads share it; it would show them half of them
    return parser


def _tokens(text: str) -> list[Token]:
    return _parser().parse(text)


def _whole_lines(tokens: list[Token]) -> set[int]:
    return {
        line
        for token in tokens
        if token.type in ("fence", "code_block") and token.map is not None
        for line in range(*token.map)
    }


def _changed_outside_code(text: str, change: Callable[[str], str]) -> str:
    """The same with the tags and images outside of code changed by a function."""
    if not (_TAG.search(text) or _IMAGE.search(text)):
        return text
    whole = _whole_lines(_tokens(_TAG.sub("(", text)))
    shown: list[str] = []
    paragraph: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if number in whole or not line.strip():
            shown += [*_outside_code(paragraph, change), line]
            paragraph = []
        else:
            paragraph.append(line)
    return "\n".join(shown + _outside_code(paragraph, change))


def _without_tags(text: str) -> str:
    """Text without code, its tags escaped."""
    return _TAG.sub(r"\\<", text)


def _linked(text: str) -> str:
    """The same with its images as links; one without a name gets one."""
    shown = _without_tags(text)
    return _IMAGE.sub(lambda found: f"{found[1]}[image]" if found[2] else f"{found[1]}[", shown)


def _outside_code(paragraph: list[str], change: Callable[[str], str]) -> list[str]:
    text = "\n".join(paragraph)
    runs = [match.span() for match in _TICKS.finditer(text)]
    parts: list[str] = []
    at = number = 0
    while number < len(runs):
        start, end = runs[number]
        others = range(number + 1, len(runs))
        closing = next((i for i in others if runs[i][1] - runs[i][0] == end - start), None)
        if closing is not None:
            parts += [change(text[at:start]), text[start : runs[closing][1]]]
            at = runs[closing][1]
            number = closing
        number += 1
    parts.append(change(text[at:]))
    return "".join(parts).split("\n") if paragraph else []


def _with_lower_headings(text: str) -> str:
    lines = text.split("\n")
    for token in _tokens(text):
        if token.type == "heading_open" and token.map is not None:
            start, end = token.map
            if token.markup.startswith("#"):
                deeper = "#" * min(len(token.markup) + DEEPER, 6)
                lines[start] = lines[start].replace(token.markup, deeper, 1)
            else:
                mark = token.markup[0]
                lines[end - 1] = lines[end - 1].replace(mark, f"\\{mark}", 1)
    return "\n".join(lines)


def _is_contained(text: str, refused: frozenset[str]) -> bool:
    """Whether text after this is outside of it, its headings are low, and no part is refused."""
    tokens = _tokens(f"{text}\n\n{_END}\n")
    ends = [token.type for token in tokens[-3:]] == ["paragraph_open", "inline", "paragraph_close"]
    if not ends or tokens[-2].content != _END or tokens[-3].level != 0:
        return False
    return not any(
        token.type == "html_block"
        or (token.type == "heading_open" and int(token.tag[1:]) <= DEEPER)
        or any(child.type in refused for child in token.children or ())
        for token in tokens
    )
