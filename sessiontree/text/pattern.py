r"""A search pattern, matched in text and in the raw bytes of lines.

JSON can spell a character in several ways: as itself, as `\u` and four hex digits of either case,
some as a short escape such as `\/` or `\n`. So a matching text is in its line either as most
programs write it, or with at least one character spelled otherwise. Both are searched for in the
raw bytes, and only lines with one of them are decoded.

A letter with an accent is one character, or a letter and a mark, as in the names of files on a Mac.
Text is searched for in both spellings (NFC and NFD of Unicode), a regular expression as it is.

If accents and width do not matter, `zurich` matches `Zürich`, and full-width letters. Such a match
is in its line as above, or it has a character beyond ASCII. So a block of ASCII costs nothing more;
a block with accented letters is searched again without its accents (NFKD of Unicode).

Invariant: a line of which some string matches is always among the candidates, however it is
spelled.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final, NamedTuple

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.errors import UsageError

__all__ = ["AllOf", "Match", "Pattern", "Prefilter", "Span", "finder", "lines_with", "query"]

Span = tuple[int, int]

_TO_LOWER: Final = bytes(byte + 32 if ord("A") <= byte <= ord("Z") else byte for byte in range(256))
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_SHORT: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\"}
_REPLACEMENT: Final = "\ufffd"  # decoded for bytes that are not UTF-8; cannot be searched for
# Characters beyond ASCII that match an ASCII letter where case is ignored.
_ALIKE: Final = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}

_MARK: Final = re.compile("[\u0300-\u036f]")  # the accents of Latin, Greek and Cyrillic letters
_WIDE: Final = re.compile("[\u3000\uff01-\uff9f]+")  # full-width ASCII, half-width Katakana
_ACCENTED: Final = (
    *(range(0xC0, 0x250), range(0x370, 0x530), range(0x1E00, 0x2000)),
    *(range(0x3000, 0x3001), range(0xFF01, 0xFFA0)),
)
"""The characters that may be another one with accents, or in another width."""

_STARTS_OF_LATIN: Final = (
    *(b"\xc3", b"\xc4", b"\xc5", b"\xc6", b"\xc7", b"\xc8", b"\xc9", b"\xcc", b"\xcd"),
    *(b"\xe1\xb8", b"\xe1\xb9", b"\xe1\xba", b"\xe1\xbb", b"\xe1\xbf", b"\xef\xbc", b"\xef\xbd"),
)
"""The starts in UTF-8 of accents and of all other forms of ASCII but the wide space."""

_LATIN: Final = "ÀÐàðĀȀ\u0300\u1e00\u1f00\uff00"
"""One character for each start of an escape of these."""

_ESCAPE: Final = b"\\u"  # begins each escape by number: one pass finds any of them
_MOST_MISSES: Final = 100  # escapes of other characters in a block that are looked at one by one
_FEW: Final = 4  # characters beyond ASCII that are searched for: each may cost a search


class Match(NamedTuple):
    """A text that matches, and where: the first match of each word, in order."""

    text: str
    spans: tuple[Span, ...]


class Prefilter(NamedTuple):
    """What each line that may match has."""

    needles: tuple[bytes, ...]  # byte strings, of which it has at least one
    # whether that is so once its ASCII letters are lower case, as in the needles
    folds: bool = False


class Pattern:
    """A text, its accents spelled either way, or a regular expression of Python's `re`.

    With `any_accent`, accents and width do not matter in a text.

    Raises:
        UsageError: the pattern is empty, or not a regular expression.
    """

    def __init__(
        self,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        any_accent: bool = False,
    ) -> None:
        if not text:
            raise UsageError("the pattern is empty and would match everything; give some text")
        base = without_accents(text) if any_accent and not regex else ""
        spellings = (text,) if regex or text == base else _spellings(text)
        source = text if regex else "|".join(map(re.escape, spellings))
        flags = re.IGNORECASE if ignore_case else 0
        try:
            self._in_ascii = re.compile(re.escape(base) or source, flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"'{text:.200}' is not a regular expression: {error}") from error
        self._in_any: Callable[[], re.Pattern[str]] = partial(re.compile, source, flags)
        if base:
            self._in_any = partial(_with_any_accents, base, source, flags)
        self._is_regex = regex
        self._literal = None if regex or ignore_case or len(spellings) > 1 else text
        self._has_other_forms = bool(base)
        # what each line that may match has; None where nothing is certain
        self.sought: Prefilter | None = None
        needles_of = _needles_ignoring_case if ignore_case else _needles
        needles: dict[bytes, None] = {}
        for spelling in (_required_by(text),) if regex else filter(None, (base, *spellings)):
            found = needles_of(spelling)
            if found is None:
                return
            needles.update(dict.fromkeys(found))
        accented = _accented_needles(base, ignore_case=ignore_case) if base else ((), ())
        needles.update(dict.fromkeys(accented[1]))
        self.sought = Prefilter((*needles, *accented[0]), ignore_case)
        self._needles = _Needles(tuple(needles), accented[0])

    def search(self, text: str) -> Span | None:
        """The start and the end of the first match, or None."""
        if self._literal is not None and (not self._has_other_forms or text.isascii()):
            at = text.find(self._literal)
            return None if at < 0 else (at, at + len(self._literal))
        found = self._searched_in(text).search(text)
        return found.span() if found else None

    def _searched_in(self, text: str) -> re.Pattern[str]:
        return self._in_ascii if text.isascii() else self._in_any()

    def match_in(self, texts: Iterable[str]) -> Match | None:
        """The first of some texts that matches, and where; None if none does."""
        for text in texts:
            span = self.search(text)
            if span is not None:
                return Match(text, (span,))
        return None

    def marks(self, text: str) -> Iterator[Span]:
        """Yield every match of a text in another text; of a regular expression, none."""
        if not self._is_regex:
            yield from (found.span() for found in self._searched_in(text).finditer(text))

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

    def match_in(self, texts: Iterable[str]) -> Match | None:
        """The text that most patterns match, and where; None if any pattern matches none."""
        best: Match | None = None
        missing = set(range(len(self._patterns)))
        for text in texts:
            spans = [pattern.search(text) for pattern in self._patterns]
            missing -= {number for number, span in enumerate(spans) if span is not None}
            matches = tuple(sorted(span for span in spans if span is not None))
            if len(matches) > (len(best.spans) if best else 0):
                best = Match(text, matches)
            if len(matches) == len(spans):
                break
        return None if missing else best

    def marks(self, text: str) -> Iterator[Span]:
        """Yield every match of each pattern in a text."""
        return chain(*(pattern.marks(text) for pattern in self._patterns))


_TERM: Final = re.compile(r'"([^"]+)"?|([^\s"]+)')


def query(text: str, *, regex: bool = False, ignore_case: bool | None = None) -> Pattern | AllOf:
    """Return the pattern of a search: all words and quoted phrases, or a regular expression.

    Args:
        text: the words. A text of quotes and spaces alone is a phrase.
        regex: True if the text is a regular expression of Python's `re`.
        ignore_case: None: case counts if the text has a capital, or is a regular expression.
            If it is False, accents and width count as well.

    Raises:
        UsageError: the text is empty, or is not a valid regular expression.
    """
    if regex:
        return Pattern(text, regex=True, ignore_case=bool(ignore_case))
    folds = text == text.lower() if ignore_case is None else ignore_case
    terms = [quoted or word for quoted, word in _TERM.findall(text)] or [text]
    patterns = [
        Pattern(term, ignore_case=folds, any_accent=ignore_case is not False)
        for term in dict.fromkeys(terms)
    ]
    return patterns[0] if len(patterns) == 1 else AllOf(patterns)


def without_accents(text: str) -> str:
    """Return a text without its accents, in the usual width; an accent alone leaves nothing."""
    if text.isascii():
        return text
    usual = _WIDE.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), text)
    bare = _MARK.sub("", unicodedata.normalize("NFD", usual))
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=1)
def _accented() -> dict[str, str]:
    """The other forms of each character that has some, in order."""
    forms: dict[str, str] = {}
    for character in map(chr, chain(*_ACCENTED)):
        base = without_accents(character)
        if base != character:
            forms[base] = forms.get(base, "") + character
    return forms


@lru_cache(maxsize=64)
def _with_any_accents(base: str, source: str, flags: int) -> re.Pattern[str]:
    """The expression of a text with any accents, in any width, or of `source`; slow to compile."""
    return re.compile(f"{''.join(map(_with_any_accent, base))}|{source}", flags)


def _with_any_accent(character: str) -> str:
    apart = unicodedata.normalize("NFD", character)
    form = _any_form(character)
    if len(apart) > 1:
        form = f"(?:{form}|{''.join(map(_any_form, apart))})"
    return f"{form}{_MARK.pattern}*"


def _any_form(character: str) -> str:
    return f"[{re.escape(character)}{_accented().get(character, '')}]"


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
    """Byte strings to search for: escapes together, what begins accented letters together."""

    def __init__(self, needles: tuple[bytes, ...], accented: tuple[bytes, ...] = ()) -> None:
        self.width = len(needles[0])
        self._plain = needles[0].lower()
        escapes = tuple(one for one in needles if one.startswith(_ESCAPE))
        self._escapes = _one_of(escapes) if len(escapes) > 1 else None
        apart = [one for one in needles if self._escapes is None or one not in escapes]
        self._apart = tuple(one for one in apart if one.isascii())
        self._beyond_ascii = tuple(one for one in apart if not one.isascii())
        self._accented = _one_of(accented) if accented else None
        self._firsts = bytes({one[0] for one in accented})

    def lines(self, searched: memoryview, block: bytearray | bytes, end: int) -> dict[int, int]:
        found: dict[int, int] = {}
        self._add_lines(self._apart, searched, block, end, found)
        if self._escapes is not None:
            self._add_escaped(self._escapes, searched, block, end, found)
        is_asked = self._beyond_ascii or self._accented is not None
        if is_asked and stringzilla.utf8_count(searched) != end:  # a block of ASCII has as many
            self._add_lines(self._beyond_ascii, searched, block, end, found)
            if self._accented is not None:
                self._add_accented(self._accented, searched, block, end, found)
        return found

    def _add_lines(
        self,
        needles: tuple[bytes, ...],
        searched: memoryview,
        block: bytearray | bytes,
        end: int,
        found: dict[int, int],
    ) -> None:
        for needle in needles:
            at = stringzilla.find(searched, needle)
            while at >= 0:
                at = stringzilla.find(searched, needle, _add_line(block, at, end, found))

    def _add_escaped(
        self,
        escapes: re.Pattern[bytes],
        searched: memoryview,
        block: bytearray | bytes,
        end: int,
        found: dict[int, int],
    ) -> None:
        misses = 0
        at = stringzilla.find(searched, _ESCAPE)
        while at >= 0 and misses < _MOST_MISSES:
            if escapes.match(searched, at):
                at = _add_line(block, at, end, found)
            else:
                misses += 1
                at += len(_ESCAPE)
            at = stringzilla.find(searched, _ESCAPE, at)
        while at >= 0:
            match = escapes.search(searched, at)
            at = -1 if match is None else _add_line(block, match.start(), end, found)

    def _add_accented(
        self,
        accented: re.Pattern[bytes],
        searched: memoryview,
        block: bytearray | bytes,
        end: int,
        found: dict[int, int],
    ) -> None:
        """Add the lines that have the plain needle once they have no accents.

        All lines that may have an accented letter, if the plain needle is not ASCII without
        escapes, or bytes are not UTF-8.
        """
        find = stringzilla.find_first_of
        at = find(searched, self._firsts)
        while at >= 0 and not accented.match(searched, at):
            at = find(searched, self._firsts, at + 1)
        if at < 0:
            return
        is_bare = self._plain.isascii() and b"\\" not in self._plain
        bare = _bare(searched) if is_bare else None
        if bare is not None:
            self._add_lines_of(bare, block, end, found)
            return
        while at >= 0:
            at = _add_line(block, at, end, found) if accented.match(searched, at) else at + 1
            at = find(searched, self._firsts, at)

    def _add_lines_of(
        self, bare: bytes, block: bytearray | bytes, end: int, found: dict[int, int]
    ) -> None:
        """Add the lines of a block that have the plain needle in `bare`, which has as many."""
        counted = start = 0
        at = stringzilla.find(bare, self._plain)
        while at >= 0:
            for _ in range(stringzilla.count(memoryview(bare)[counted:at], b"\n")):
                start = block.index(b"\n", start, end) + 1
            counted = at
            _add_line(block, start, end, found)
            stop = bare.find(b"\n", at)
            at = -1 if stop < 0 else stringzilla.find(bare, self._plain, stop)


def _bare(block: memoryview) -> bytes | None:
    """A block without accents and in lower case; None if it is not UTF-8."""
    try:
        apart = stringzilla.utf8_norm(block, "NFKD", validate=True)
    except ValueError:
        return None
    return bytes(memoryview(apart)).translate(_TO_LOWER, _BEYOND_ASCII)


def _one_of(needles: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, needles)), re.DOTALL)


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


@lru_cache(maxsize=64)
def _accented_needles(
    text: str, *, ignore_case: bool
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The starts of all other forms of the letters that are searched for, and further needles."""
    piece = _longest_ascii(text).lower() if ignore_case else _piece(text)
    forms: str = _LATIN
    starts: tuple[bytes, ...] = _STARTS_OF_LATIN
    if not piece.isascii():
        forms = "".join({*"\u0300\u0340", *chain(*map(_forms, piece))} - {*piece})
        starts = tuple(sorted({form.encode()[:-1] for form in forms if not form.isascii()}))
    elif " " in piece:
        forms, starts = forms + "\u3000", (*starts, b"\xe3\x80")
    angstrom = "\u212b" if ignore_case and "a" in piece else ""  # å, where case is ignored
    others = {spelling.encode() for form in forms + angstrom for spelling in _unusual(form)}
    others |= {angstrom.encode()} - {b""}
    return starts, tuple(sorted({n.lower() for n in others} if ignore_case else others))


def _forms(letter: str) -> Iterator[str]:
    """The characters that a letter may begin with in another form."""
    for part in unicodedata.normalize("NFD", letter):
        yield from _accented().get(part, "")
    yield unicodedata.normalize("NFD", letter)[0]
    yield from _accented().get(letter, "")


def _required_by(expression: str) -> str:
    """The longest plain text that each match of a regular expression has.

    Groups, sets, alternatives and escapes are not analysed.
    """
    if re.search(r"[|()\[\]{}\\]", expression):
        return ""
    return max(re.split(r".[*?+]+|[.^$]", expression, flags=re.DOTALL), key=len)
