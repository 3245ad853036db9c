r"""A search pattern, matched in text and in the raw bytes of lines.

JSON can spell a character in several ways: as itself, as `\u` and four hex digits of either case,
some as a short escape such as `\/` or `\n`. So a matching text is in its line either as most
programs write it, or with at least one character spelled otherwise. Both are searched for in the
raw bytes, and only lines with one of them are decoded.

A letter with an accent is one character, or a letter and a mark, as in the names of files on a Mac.
Text is searched for in both spellings (NFC and NFD of Unicode), a regular expression as it is.

Invariant: a line of which some string matches is always among the candidates, however it is
spelled.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.errors import UsageError

__all__ = ["AllOf", "Pattern", "Prefilter", "Span", "finder", "lines_with", "query"]

Span = tuple[int, int]

_TO_LOWER: Final = bytes(byte + 32 if ord("A") <= byte <= ord("Z") else byte for byte in range(256))
_SHORT: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\"}
_REPLACEMENT: Final = "\ufffd"  # decoded for bytes that are not UTF-8; cannot be searched for
# Characters beyond ASCII that match an ASCII letter where case is ignored.
_ALIKE: Final = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}

_ESCAPED_LATIN: Final = b"\\u00"  # begins the escapes of ASCII and Latin-1: one pass finds any
_FEW: Final = 4  # characters beyond ASCII that are searched for: each may cost a search


class Prefilter(NamedTuple):
    """What each line that may match has."""

    needles: tuple[bytes, ...]  # byte strings, of which it has at least one
    # whether that is so once its ASCII letters are lower case, as in the needles
    folds: bool = False


class Pattern:
    """A text, its accents spelled either way, or a regular expression of Python's `re`.

    Raises:
        UsageError: the pattern is empty, or not a regular expression.
    """

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        if not text:
            raise UsageError("the pattern is empty and would match everything; give some text")
        spellings = (text,) if regex else _spellings(text)
        self._literal = None if regex or ignore_case or len(spellings) > 1 else text
        try:
            source = text if regex else "|".join(map(re.escape, spellings))
            self._search = re.compile(source, re.IGNORECASE if ignore_case else 0).search
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"'{text:.200}' is not a regular expression: {error}") from error
        # what each line that may match has; None where nothing is certain
        self.sought: Prefilter | None = None
        needles_of = _needles_ignoring_case if ignore_case else _needles
        needles: dict[bytes, None] = {}
        for spelling in (_required_by(text),) if regex else spellings:
            found = needles_of(spelling)
            if found is None:
                return
            needles.update(dict.fromkeys(found))
        self.sought = Prefilter(tuple(needles), ignore_case)
        self._needles = _Needles(tuple(needles))

    def search(self, text: str) -> Span | None:
        """The start and the end of the first match, or None."""
        if self._literal is not None:
            at = text.find(self._literal)
            return None if at < 0 else (at, at + len(self._literal))
        found = self._search(text)
        return found.span() if found else None

    def match_in(self, texts: Iterable[str]) -> tuple[str, Span] | None:
        """The first of some texts that matches, and where; None if none does."""
        for text in texts:
            span = self.search(text)
            if span is not None:
                return text, span
        return None

    @property
    def narrows(self) -> int:
        """The bytes of what each matching line has; 0 where nothing is certain."""
        return 0 if self.sought is None else self._needles.width

    def candidates(self, block: bytearray | bytes, end: int) -> Iterator[Span]:
        """The lines that may match, in order, each from its first byte to before its LF.

        The block has whole lines up to `end`; a bytearray may be changed to lower case.
        """
        if self.sought is None:
            return _lines(block, end)
        searched = memoryview(block)[:end]
        if self.sought.folds:
            searched = memoryview(stringzilla.translate(searched, _TO_LOWER))
        return iter(sorted(self._needles.lines(searched, block, end).items()))


class AllOf:
    """Several patterns, each of which some text of an entry matches. See `Pattern`."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns
        narrowest = max(patterns, key=lambda pattern: pattern.narrows)
        self.candidates = narrowest.candidates
        self.sought = narrowest.sought

    def match_in(self, texts: Iterable[str]) -> tuple[str, Span] | None:
        """The text that the first pattern matches, and where; None if any pattern has none."""
        given = list(texts)
        found = [pattern.match_in(given) for pattern in self._patterns]
        return None if None in found else found[0]


_TERM: Final = re.compile(r'"([^"]+)"?|([^\s"]+)')


def query(text: str, *, regex: bool = False, ignore_case: bool | None = None) -> Pattern | AllOf:
    """Return the pattern of a search: all words and quoted phrases, or a regular expression.

    Args:
        text: the words. A text of quotes and spaces alone is a phrase.
        regex: True if the text is a regular expression of Python's `re`.
        ignore_case: None: case counts if the text has a capital, or is a regular expression.

    Raises:
        UsageError: the text is empty, or is not a valid regular expression.
    """
    if regex:
        return Pattern(text, regex=True, ignore_case=bool(ignore_case))
    folds = text == text.lower() if ignore_case is None else ignore_case
    terms = [quoted or word for quoted, word in _TERM.findall(text)] or [text]
    patterns = [Pattern(term, ignore_case=folds) for term in dict.fromkeys(terms)]
    return patterns[0] if len(patterns) == 1 else AllOf(patterns)


def _spellings(text: str) -> tuple[str, ...]:
    """A text as typed and, where that differs, with its accents in either spelling."""
    if text.isascii():
        return (text,)
    composed, taken_apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys((text, composed, taken_apart)))


def lines_with(needle: bytes, block: bytearray | bytes, end: int) -> Iterator[Span]:
    """The lines with a needle, as `Pattern.candidates` gives them."""
    return iter(_alone(needle).lines(memoryview(block)[:end], block, end).items())


def finder(needles: tuple[bytes, ...]) -> Callable[[bytearray | bytes, int], Iterator[Span]]:
    """A function that gives the lines with any of some needles, as `Pattern.candidates` does."""
    found = _Needles(needles)
    return lambda block, end: iter(sorted(found.lines(memoryview(block)[:end], block, end).items()))


class _Needles:
    """Byte strings to search for, each alone or by a prefix that several share."""

    def __init__(self, needles: tuple[bytes, ...]) -> None:
        together = tuple(one for one in needles if one.startswith(_ESCAPED_LATIN))
        self.width = len(needles[0])
        self._together = together if len(together) > 1 else ()
        self._apart = tuple(one for one in needles if one not in self._together)
        self._nexts = frozenset(one[len(_ESCAPED_LATIN)] for one in self._together)
        self._most = 24 * (len(together) - 1)  # which cost about as much as a pass

    def lines(self, searched: memoryview, block: bytearray | bytes, end: int) -> dict[int, int]:
        found: dict[int, int] = {}
        is_done = not self._together or self._add_lines_with_any(searched, block, end, found)
        for needle in self._apart if is_done else (*self._apart, *self._together):
            at = stringzilla.find(searched, needle)
            while at >= 0:
                at = stringzilla.find(searched, needle, _add_line(block, at, end, found))
        return found

    def _add_lines_with_any(
        self, searched: memoryview, block: bytearray | bytes, end: int, found: dict[int, int]
    ) -> bool:
        """Add the lines found by the shared prefix.

        False where other escapes with it are so many that single searches are faster.
        """
        find, size, nexts = stringzilla.find, len(_ESCAPED_LATIN), self._nexts
        last = end - size
        misses = 0
        at = find(searched, _ESCAPED_LATIN)
        while at >= 0:
            is_likely = at < last and searched[at + size] in nexts
            if is_likely and any(searched[at : at + len(one)] == one for one in self._together):
                at = _add_line(block, at, end, found)
            elif misses == self._most:
                return False
            else:
                misses += 1
                at += size
            at = find(searched, _ESCAPED_LATIN, at)
        return True


@lru_cache(maxsize=16)
def _alone(needle: bytes) -> _Needles:
    return _Needles((needle,))


def _add_line(block: bytearray | bytes, at: int, end: int, found: dict[int, int]) -> int:
    """Add the line around an offset; returns where it ends."""
    start = block.rfind(b"\n", 0, at) + 1
    stop = block.find(b"\n", at, end)
    found[start] = stop = end if stop < 0 else stop
    return stop


def _lines(block: bytearray | bytes, end: int) -> Iterator[Span]:
    start = 0
    while start < end:
        stop = block.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


def _needles(text: str) -> tuple[bytes, ...] | None:
    """The byte strings of which a line with `text` has at least one; None where none is certain."""
    if _REPLACEMENT in text:
        return None
    piece = _piece(text)
    usual = "".join(_usual(c) for c in piece).encode()
    if len(usual) < 2:  # a shorter needle is in nearly every line
        return None
    unusual = {spelling.encode() for c in piece for spelling in _unusual(c)}
    return usual, *sorted(unusual)


def _piece(text: str) -> str:
    """The part of a text to search for: any part will do, one with few spellings is fast.

    It is of one line: a format may join lines of several strings.
    """
    plain = _longest_ascii(text)
    line = max(text.split("\n"), key=len)
    return plain if len(plain) >= _FEW or len(plain) == len(line) else line[:_FEW]


def _longest_ascii(text: str) -> str:
    return max(re.findall(r"[\x00-\x09\x0b-\x7f]+", text), key=len, default="")


def _usual(character: str) -> str:
    if character in _SHORT:
        return "\\" + _SHORT[character]
    if character < " " or "\ud800" <= character <= "\udfff":
        return f"\\u{ord(character):04x}"
    return character


def _unusual(character: str) -> Iterator[str]:
    """The beginning of any other spelling of the character, in every case of its hex digits."""
    if character == "/":
        yield "\\/"
    if " " <= character < "\x7f":
        yield f"\\u00{ord(character) >> 4:x}"  # shared by sixteen characters
    elif character.isascii() or "\ud800" <= character <= "\udfff":
        yield from _in_either_case(f"{ord(character):04x}")
    else:
        unit = ord(character)
        if unit > 0xFFFF:
            unit = 0xD800 + (unit - 0x10000 >> 10)
        digits = f"{unit:04x}"
        yield from _in_either_case(digits[:2] if unit > 0xFF else digits[:3])


def _in_either_case(digits: str) -> Iterator[str]:
    for spelling in itertools.product(*({digit, digit.upper()} for digit in digits)):
        yield "\\u" + "".join(spelling)


def _needles_ignoring_case(text: str) -> tuple[bytes, ...] | None:
    """The same for a block in lower case; letters beyond ASCII have too many spellings."""
    piece = _longest_ascii(text).lower()
    found = _needles(piece)
    if found is None:
        return None
    alike = {c for letter in piece for c in _ALIKE.get(letter, "")}
    others = {c.encode() for c in alike} | {f"\\u{ord(c):04x}".encode() for c in alike}
    capitals = {s.encode() for c in piece.upper() for s in _unusual(c)}
    return found[0], *sorted({n.lower() for n in (*found[1:], *others, *capitals)})


def _required_by(expression: str) -> str:
    """The longest plain text that each match of a regular expression has.

    Groups, sets, alternatives and escapes are not analysed.
    """
    if re.search(r"[|()\[\]{}\\]", expression):
        return ""
    return max(re.split(r".[*?+]+|[.^$]", expression, flags=re.DOTALL), key=len)
