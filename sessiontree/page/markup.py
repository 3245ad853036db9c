"""Markup: the texts of a session as HTML.

Invariants: what a session holds is text in the HTML, never markup; nothing is loaded from
elsewhere, for an image that a text names is a link; no link leads anywhere but to the web or to
mail; control characters and bidirectional marks are left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from sessiontree.page import syntax
from sessiontree.views.markdown import plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import OptionsDict

_LONGEST_PROSE: Final = 100_000
"""Characters parsed as Markdown; a longer text is shown as it is."""

_LONGEST_CODE: Final = 8_000
"""Characters of a block of code that is coloured: each colour is an element of the page."""

MAX_COLOURED: Final = 1_000_000
"""Characters of code in a page that are coloured."""

_IS_COLOURED: Final = "is_coloured"

_CACHED: Final = 8_000_000
"""Characters of texts whose HTML is kept, as programs repeat texts."""

_SCHEMES: Final = ("http://", "https://", "mailto:")
_MARKS: Final = re.compile(r"[\\`*_\[\]<>#~|&!=+-]|^ {4}|^\d+[.)]|\t", re.MULTILINE)
"""Without one of these, Markdown is a text of paragraphs."""

_SEQUENCE: Final = re.compile(
    r"\x1b\[([0-9;:]*)m|\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*\x07?"
)
_COLOURS: Final = {
    **{30 + n: f"f{n}" for n in range(8)},
    **{90 + n: f"f{n}" for n in range(8)},
    **{40 + n: f"g{n}" for n in range(8)},
}
_LF: Final = "\n"
_DIFF_CLASSES: Final = {"+": "add", "-": "del", "@": "place", " ": "same"}


def marked(text: str) -> Markup:
    """A text that is markup as `Markup`, in a quarter of the time."""
    return str.__new__(Markup, text)


def joined(parts: Iterable[Markup]) -> Markup:
    """Markup one after the other."""
    return marked("".join(parts))


class Colours:
    """How many characters of code may still be coloured.

    All texts of a page share `MAX_COLOURED`, or a part of them: the colours of code take more
    time and memory than the code.
    """

    def __init__(self, left: int = MAX_COLOURED) -> None:
        self._left = left

    def take(self, characters: int) -> bool:
        """Take as many characters; False, and none are taken, if fewer are left."""
        if characters > self._left:
            return False
        self._left -= characters
        return True


def prose(text: str, colours: Colours) -> Markup:
    """Markdown as HTML; its own HTML is text."""
    text = plain(text).strip("\n")
    if len(text) > _LONGEST_PROSE:
        return pre(text)
    if (made := _known.get(text)) is not None:
        return made
    made, code = _prose(text, colours)
    if not code:  # or else the budget decides about its HTML
        _known[text] = made
        _known.size += len(text) + len(made)
    if _known.size > _CACHED:
        _known.clear()
        _known.size = 0
    return made


class _KnownHtml(dict[str, Markup]):
    size = 0  # characters


_known: Final = _KnownHtml()


def _prose(text: str, colours: Colours) -> tuple[Markup, int]:
    """Return the HTML of a text, and how many characters of code in it can have colours."""
    if not _MARKS.search(text):
        paragraphs = (escape(part.strip("\n")) for part in re.split(r"\n\n+", text))
        broken = [str(part).replace("\n", "<br />\n") for part in paragraphs]
        return marked("".join([f"<p>{part}</p>" for part in broken])), 0
    parser = _parser()
    try:
        tokens = parser.parse(text)
        code = sum(len(one.content) for one in tokens if _language_of(one) in syntax.NAMES)
        env = {_IS_COLOURED: colours.take(code)}
        return Markup(parser.renderer.render(tokens, parser.options, env)), code
    except RecursionError:
        return pre(text), 0


def typed(text: str) -> Markup:
    """A text that a person typed, with its line breaks, and without markup."""
    return marked(f'<div class="typed">{escape(plain(text).strip(_LF))}</div>')


def pre(text: str) -> Markup:
    """A text as it is, with the colours of a terminal."""
    return marked(f"<pre>{coloured(text)}</pre>")


def code(text: str, language: str = "") -> Markup:
    """A block of code, with the colours of its language."""
    shown = syntax.coloured(plain(text).strip("\n"), language)
    return marked(f"<pre><code>{shown}</code></pre>")


def coloured(text: str) -> Markup:
    """A text with the colours that a program gave it for a terminal."""
    if "\x1b[" not in text:
        return escape(plain(text))
    parts: list[Markup] = []
    classes: tuple[str, ...] = ()
    at = 0
    for found in _SEQUENCE.finditer(text):
        parts.append(_spanned(text[at : found.start()], classes))
        at = found.end()
        if found[1] is not None:
            classes = _classes(classes, found[1])
    parts.append(_spanned(text[at:], classes))
    return joined(parts)


def _spanned(text: str, classes: tuple[str, ...]) -> Markup:
    shown = escape(plain(text))
    if not (classes and shown):
        return shown
    return marked(f'<span class="{" ".join(classes)}">{shown}</span>')


def _classes(before: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """The classes of a text after a change of its colours; 256 colours are not shown."""
    found = list(before)
    numbers = [int(part[:6]) if part.isdigit() else 0 for part in re.split("[;:]", codes)]
    if 38 in numbers or 48 in numbers:
        return before
    for number in numbers:
        if number == 0:
            found = []
        elif number == 1:
            found.append("bold")
        elif number in _COLOURS:
            kind = _COLOURS[number][0]
            found = [one for one in found if not one.startswith(kind)]
            found.append(_COLOURS[number])
        elif number in (39, 49):
            kind = "f" if number == 39 else "g"
            found = [one for one in found if not one.startswith(kind)]
        elif number == 22:
            found = [one for one in found if one != "bold"]
    return tuple(dict.fromkeys(found))


def diff(lines: Iterable[str]) -> Markup:
    """The lines of a diff, each with its mark."""
    text = "".join([f"{line}\n" for line in lines])
    escaped = str(escape(plain(text))).split(_LF)[:-1]  # at once: there may be a million lines
    parts = [
        f'<span class="{kind}">{_LF.join(run)}\n</span>'
        for kind, run in groupby(escaped, lambda line: _DIFF_CLASSES.get(line[:1], "same"))
    ]
    return marked(f'<pre class="diff">{"".join(parts)}</pre>')


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_safe_link  # type: ignore[method-assign]
    rules = {
        "fence": _fence,
        "code_block": _fence,
        "image": _image,
        "link_open": _link,
        "th_open": _cell,
        "td_open": _cell,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    parser.parse("a")  # compiles its rules before threads share it; it would show them half of them
    return parser


def _cell(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    """A cell without its alignment: the page allows no styles in elements."""
    return f"<{tokens[at].tag}>"


def _is_safe_link(url: str) -> bool:
    return url.strip().lower().startswith(_SCHEMES)


def _fence(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    return code(tokens[at].content, _language_of(tokens[at]) if env[_IS_COLOURED] else "")


def _language_of(token: Token) -> str:
    """The language that a block of code names; empty if it has no colours."""
    is_short = token.type == "fence" and len(token.content) <= _LONGEST_CODE
    return token.info.strip().split(" ")[0].lower() if is_short else ""


def _link(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    return Markup('<a rel="noopener noreferrer nofollow" target="_blank" href="%s" title="%s">') % (
        (tokens[at].attrGet("href") or ""),
        (tokens[at].attrGet("href") or ""),
    )


def _image(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: Any
) -> str:
    return remote_image(str(tokens[at].attrGet("src") or ""), tokens[at].content)


def remote_image(url: str, words: str = "") -> Markup:
    """An image elsewhere as a link, because who loads it tells its server so."""
    if not _is_safe_link(url):
        return Markup('<span class="note">[image %s]</span>') % plain(words)
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    link = Markup('<a class="remote" rel="noopener noreferrer nofollow" target="_blank" href="%s">')
    return link % url + Markup("[image%s at %s]</a>") % (
        f" {plain(words)}" if words else "",
        plain(host),
    )


def shortened(text: str, most: int) -> Iterator[str]:
    """A text as it is; of a longer one the start, how much is left out, and the end."""
    if len(text) <= most:
        yield text
        return
    start, end = most * 3 // 4, most // 4
    yield text[:start]
    yield f"{len(text) - start - end:,} characters are left out of this page"
    yield text[-end:]
