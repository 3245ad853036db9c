"""Markdown: texts made fit to stand in a document between others.

Invariants: what is put in by these functions stays where it was put: a text opens no heading of the
document's own, no code block, list or HTML element that goes on behind it, whatever is in it;
nothing in it drives a terminal.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from sessiontree.context.resolved import fenced
from sessiontree.core.display import printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

DEEPER: Final = 2
"""How many levels headings of a text stand below where they would by themselves."""

_LARGEST: Final = 200_000
"""Characters of a text that is taken as Markdown; a longer one is shown as it is."""

_TERMINAL: Final = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\r(?=\n)"
)
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&!$@])")
_TAG: Final = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>)")
_TICKS: Final = re.compile(r"`+")
_END: Final = "the-end-of-the-text"


def plain(text: str) -> str:
    """Text without what drives a terminal: colours and the like, line breaks kept."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # as most is; told a hundred times as fast as by looking at each character
    return printable(_TERMINAL.sub("", text))


def inline(text: str) -> str:
    """Text on one line that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))


def code(text: str) -> str:
    """Text on one line as code."""
    shown = " ".join(plain(text).split())
    ticks = "`" * (max((len(run) for run in _TICKS.findall(shown)), default=0) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}" if shown else ""


def block(text: str, language: str = "") -> str:
    """Text as a block of code, in a fence that nothing inside it ends."""
    fence, rest = fenced(plain(text)).split("\n", 1)
    return f"{fence}{language}\n{rest}"


def quote(text: str) -> str:
    """A quotation of Markdown; tabs become spaces, for they would end elsewhere in it."""
    lines = (line.expandtabs(4) for line in text.split("\n"))
    return "\n".join(f"> {line}" if line.strip() else ">" for line in lines)


def prose(text: str) -> str:
    """Markdown that somebody wrote, contained: its headings lower, its HTML shown as text.

    What cannot be contained so is shown as it is, as a block of code.
    """
    text = plain(text).strip("\n")
    if len(text) > _LARGEST:
        return block(text)
    shown = _with_lower_headings(_without_html(text))
    if _is_contained(shown):
        return shown
    fences = [token.markup for token in _tokens(shown) if token.type == "fence"]
    closed = f"{shown}\n{fences[-1]}" if fences else shown  # as one that was cut short is not
    return closed if fences and _is_contained(closed) else block(text)


def typed(text: str) -> str:
    """The same for what somebody typed: each line break is one."""
    shown = prose(text)
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
    from markdown_it import MarkdownIt  # few commands write Markdown

    return MarkdownIt("commonmark").enable("table")


def _tokens(text: str) -> list[Token]:
    return _parser().parse(text)


def _whole_lines(tokens: list[Token]) -> set[int]:
    """The lines whose text means only itself: code."""
    return {
        line
        for token in tokens
        if token.type in ("fence", "code_block") and token.map is not None
        for line in range(*token.map)
    }


def _without_html(text: str) -> str:
    """The same with every tag outside of code spelled so that it is shown."""
    if not _TAG.search(text):
        return text
    whole = _whole_lines(_tokens(_TAG.sub("(", text)))
    shown: list[str] = []
    paragraph: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if number in whole or not line.strip():
            shown += [*_without_tags(paragraph), line]
            paragraph = []
        else:
            paragraph.append(line)
    return "\n".join(shown + _without_tags(paragraph))


def _without_tags(paragraph: list[str]) -> list[str]:
    text = "\n".join(paragraph)
    runs = [match.span() for match in _TICKS.finditer(text)]
    parts: list[str] = []
    at = number = 0
    while number < len(runs):
        start, end = runs[number]
        closing = next(
            (i for i in range(number + 1, len(runs)) if _length(runs[i]) == end - start), None
        )
        if closing is not None:
            parts += [_escaped(text[at:start]), text[start : runs[closing][1]]]
            at = runs[closing][1]
            number = closing
        number += 1
    parts.append(_escaped(text[at:]))
    return "".join(parts).split("\n") if paragraph else []


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _escaped(text: str) -> str:
    return _TAG.sub(r"\\<", text)


def _with_lower_headings(text: str) -> str:
    lines = text.split("\n")
    for token in _tokens(text):
        if token.type == "heading_open" and token.map is not None:
            start, end = token.map
            if token.markup.startswith("#"):
                deeper = "#" * min(len(token.markup) + DEEPER, 6)
                lines[start] = lines[start].replace(token.markup, deeper, 1)
            else:
                at = end - 1
                mark = token.markup[0]
                lines[at] = lines[at].replace(mark, f"\\{mark}", 1)
    return "\n".join(lines)


def _is_contained(text: str) -> bool:
    """Whether what stands behind a text is outside of it, and no heading in it too high."""
    tokens = _tokens(f"{text}\n\n{_END}\n")
    ends = [token.type for token in tokens[-3:]] == ["paragraph_open", "inline", "paragraph_close"]
    if not ends or tokens[-2].content != _END or tokens[-3].level != 0:
        return False
    return not any(
        token.type == "html_block"
        or (token.type == "heading_open" and int(token.tag[1:]) <= DEEPER)
        or any(child.type == "html_inline" for child in token.children or ())
        for token in tokens
    )
