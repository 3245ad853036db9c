r"""Views: a text as somebody reads it, where its spelling hides a secret.

- `plain`: without characters that a terminal does not show, with escapes (`\u0073`, `\x73`, `%2D`,
  `&#45;`) and full-width letters as the characters that they stand for.
- `joined`: words without the markup in them (`<b>`, `**`), and without line breaks and what indents
  the next line. Only formats are looked for there: context does not survive it.

A view knows for each of its spans where that is in the text. None is made for a text that needs
none.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

UNSEEN: Final = (
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b."
    r"|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f"
    r"\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff"
    r"\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters that a terminal does not show: colours, and characters without a shape."""

_ESCAPE: Final = (
    r"\\{1,4}u(?:00[2-7c-fC-F][0-9a-fA-F]|0[14][0-9a-fA-F]{2}|30[0-9a-fA-F]{2}|[4-9][0-9a-fA-F]{3}"
    r"|[aA][c-fC-F][0-9a-fA-F]{2}|[b-cB-C][0-9a-fA-F]{3}|[fF]{2}[0-5][0-9a-fA-F]|200[b-fB-F]|2060|(?:fe|FE)(?:ff|FF)|00[aA][dD]"
    r"|\{0{0,4}[2-7][0-9a-fA-F]\})|\\{1,4}x[2-7][0-9a-fA-F]"
    r"|%[2-7][0-9a-fA-F]|&#(?:x0{0,4}(?:[2-7][0-9a-fA-F]|200[b-fB-F])|0{0,4}(?:[0-9]{2,3}"
    r"|820[3-7]));"
    r"|&(?:amp|lt|gt|quot|apos|colon|equals|commat|lowbar|period|sol|hyphen|shy|ZeroWidthSpace);"
)
_WIDE: Final = r"[\uff01-\uff5e\U0001d400-\U0001d7ff\u2460-\u24ff\ufe58-\ufe6b\u2010-\u2012]"
_HIDDEN: Final = re.compile(f"(?P<unseen>{UNSEEN})|(?P<escape>{_ESCAPE})|(?P<wide>{_WIDE})")
_SIGN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u202e\u2060-\u206f\u2460-\u24ff\ud800-\udfff\ufe00-\ufe0f\ufe58-\ufe6b\ufeff"
    r"\uff01-\uff5e\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U0001d400-\U0001d7ff\U000e0001\U000e0020-\U000e007f%&\\\u2010-\u2012]"
)
"""Each character that a hidden piece can begin with: to search one set is faster."""

_ASCII_SIGN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f%&\\]")

_BREAK: Final = (
    r"(?:</?[A-Za-z][^<>]{0,100}>|<!--[^<>]{0,100}-->|\*{2}|`{1,2}"
    r"|[\"'][ \t]{0,4}[+.][ \t]{0,4}[\"']"
    r"|(?:\\|[\"'][ \t]?[+.\\]?)?(?:\r?\n|\\r?\\n)[ \t>|#*+]{0,64}[\"']?)"
)
_MARKUP: Final = re.compile(_BREAK)
_BREAK_SIGN: Final = re.compile(r"<|\*\*|`|\n|\\n|\\r\\n|\"[ \t]{0,4}[+.]|'[ \t]{0,4}[+.]")
"""One of these is in each break: a text without any is passed over faster."""

_BROKEN: Final = re.compile(
    rf"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.-]{{3,}}+(?:{_BREAK}[A-Za-z0-9_+/=.-]{{2,}}+){{1,64}}+"
)
_BASE64: Final = re.compile("[A-Za-z0-9+]{8,}/$")
_DIGIT: Final = re.compile(r"\d")
_SHORTEST: Final = 20  # characters of a key that is worth putting together

Span = tuple[int, int]


class View:
    """A text with some pieces replaced."""

    def __init__(self, text: str, pieces: list[tuple[int, int, str]]) -> None:
        parts: list[str] = []
        self._starts: list[int] = []  # of runs in the view
        self._sources: list[Span] = []  # the text of each run
        at = length = 0
        for start, end, new in [*pieces, (len(text), len(text), "")]:
            for part, span in ((text[at:start], (at, start)), (new, (start, end))):
                if part:
                    self._starts.append(length)
                    self._sources.append(span)
                    parts.append(part)
                    length += len(part)
            at = end
        self.text = "".join(parts)

    def source(self, start: int, end: int) -> Span:
        """The span of the text that a span of the view, not empty, was made of."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> Span:
        run = bisect_right(self._starts, at) - 1
        source, end = self._sources[run]
        follows = self._starts[run + 1] if run + 1 < len(self._starts) else len(self.text)
        if end - source != follows - self._starts[run]:  # a piece that was replaced
            return source, end
        place = source + at - self._starts[run]
        return place, place + 1


def plain(text: str) -> View | None:
    """The view without what hides characters, or None where nothing does."""
    pieces: list[tuple[int, int, str]] = []
    at = 0
    signs = _ASCII_SIGN if text.isascii() else _SIGN
    while (sign := signs.search(text, at)) is not None:
        match = _HIDDEN.match(text, sign.start())
        at = sign.end() if match is None else match.end()
        if match is not None:
            pieces.append((*match.span(), _shown(match)))
    return View(text, pieces) if pieces else None


def seen(text: str) -> str:
    """A text without what hides characters."""
    view = plain(text)
    return text if view is None else view.text


def joined(text: str) -> Iterator[tuple[int, View]]:
    """Each word with markup or a line break within, put together, and where it starts."""
    if len(text) <= _SHORTEST or _BREAK_SIGN.search(text) is None:
        return
    for match in _BROKEN.finditer(text):
        word = match[0]
        if len(word) <= _SHORTEST or _DIGIT.search(word) is None:
            continue
        if _BASE64.search(text[max(match.start() - 24, 0) : match.start()]) is not None:
            continue  # a line of base64 is no word
        view = View(word, [(*piece.span(), "") for piece in _MARKUP.finditer(word)])
        if len(view.text) >= _SHORTEST and any(map(str.isdigit, view.text)):
            yield match.start(), view


def _shown(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    return _SHOWN[kind](match[0])


@lru_cache(maxsize=4096)  # a text that is full of escapes has few different ones
def _escaped(spelled: str) -> str:
    if spelled.startswith("&"):
        char = html.unescape(spelled)
    else:
        char = chr(int(re.sub(r"^(?:\\+[ux]|%)\{?|\}$", "", spelled), 16))
    return (
        unicodedata.normalize("NFKC", char)
        if char.isascii() or char.isalpha() or char == "："
        else ""
    )


_SHOWN: Final[dict[str, Callable[[str], str]]] = {
    "unseen": lambda _: "",
    "escape": _escaped,
    "wide": lambda char: unicodedata.normalize("NFKC", char),
}
