"""Rule: one kind of secret, and the search for the hints of many rules at once.

A rule is a regular expression over the text itself, not its JSON spelling. It masks the group whose
name starts with `secret`, else the whole match. Rules allow for text within text: a line break
spelled `\\n`, quotes with backslashes before them, `%40` for `@`. Expressions are made of the parts
in `rules.toml`, and compiled when a text first calls for them.

Hints are found faster together than one by one. A short text is searched once, by an expression
that is a tree of their ends, each from its rarest character on; a long text is searched for each
hint, which takes less time a character.

Invariants: each rule costs time in proportion to the text, whatever it holds. An unbounded
repetition is a single set of characters, possessive or with nothing after it that could fail; where
a search might start within such a run, it is tied to the start of the run, or the run is bounded. A
rule with a finder is tried only where that found something, and a long match is not searched again.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import ne
from typing import Any, Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

_WRITTEN: Final = tomllib.loads(
    (pkgutil.get_data("sessiontree.redact", "rules.toml") or b"").decode("utf-8")
)
_REFERENCE: Final = re.compile(r"<([A-Z_]+)(?: (\w+))?>")
ROWS: Final[list[dict[str, Any]]] = _WRITTEN["rules"]


def words(name: str) -> tuple[str, ...]:
    return tuple(_WRITTEN["words"][name].split())


def expression(written: str) -> str:
    """Return an expression with each reference replaced."""
    return _REFERENCE.sub(lambda found: _part(found[1], found[2] or ""), _one_line(written))


def _one_line(written: str) -> str:
    return "".join(map(str.lstrip, written.split("\n"))) if "\n" in written else written


def compiled(written: str) -> re.Pattern[str]:
    return re.compile(expression(written))


@cache
def _part(name: str, argument: str) -> str:
    if name == "LOGINS":
        return "|".join(_login(row, i) for i, row in enumerate(_WRITTEN["LOGINS"]))
    if name == "LOGIN_WORDS":
        return any_of(sorted(_login_words()), longest=True)
    if name in _WRITTEN["words"]:
        return "|".join(words(name))
    return expression(_WRITTEN["parts"][name].replace("<0>", argument))


def _login(row: str, number: int) -> str:
    row = re.sub(r" (?!\\t)", r"[ \\t]{1,8}", _one_line(row))
    row = re.sub("<-([^<>]+)>", r"…-(?:\1)(?:<GAP>|=|(?=<QUOTE>))<user><value>", row)
    for sign, written in (
        ("…", r"[ \t][^\r\n;|]{0,200}?(?<=[ \t])"),
        ("<user>", r"(?:[^\s:/\"'`\\=,-]{1,64}:)?"),
        ("<value>", f"<GIVEN login{number}>"),
        ("<name>", "<GIVEN archive>"),
        ("<bare>", f"(?P<secret_login{number}><VALUE>)"),
    ):
        row = row.replace(sign, written)
    return expression(row)


def _login_words() -> set[str]:
    """Return the first words of the commands of `LOGINS`, and of SQL."""
    found = {"identified", "user", "role", "login", "password"}
    for row in _WRITTEN["LOGINS"]:
        first = re.match(r"\s*(?:\(\?i?:([^()]+)\)|([\w-]+))", row)
        if first is not None:
            found.update(each.split()[0] for each in (first[1] or first[2]).split("|"))
    return found


def any_of(words: Iterable[str], *, longest: bool = False) -> str:
    """An expression for any of some words, in which no character is compared twice.

    The words must be different. Without `longest`, it may match a word that another begins with.
    """
    tree: dict[str, Any] = {}
    for word in words:
        below = tree
        for char in word:
            below = below.setdefault(char, {})
        below[""] = {}
    return _branches(tree, longest=longest)


def _branches(tree: dict[str, Any], *, longest: bool) -> str:
    ends = "" in tree
    parts = [
        re.escape(char) + _branches(below, longest=longest) for char, below in tree.items() if char
    ]
    if not parts or (ends and not longest):
        return ""
    if len(parts) == 1 and not ends:
        return parts[0]
    return f"(?:{'|'.join(parts)}{'|' if ends else ''})"


SHORT: Final = 300  # characters, up to which one search for all hints costs less
_RARE_FIRST: Final = "zqjxkvwyb$%{}=~+@:fgp'\"0123456789/_-.muhcdlsrnoia te"
_RANK: Final = {char: rank for rank, char in enumerate(_RARE_FIRST)}
"""The characters of texts, the rarest first; others are rarer still."""


class SubstringMatcher:
    """Some hints, in lower case, to look for in many texts."""

    def __init__(self, hints: frozenset[str]) -> None:
        self._spelled = [(hint, spelled(hint)) for hint in hints]
        self._chars = [hint for hint in hints if len(hint) == 1]  # would end the search everywhere
        self._by_end: defaultdict[str, list[str]] = defaultdict(list)
        for hint in sorted(hint for hint in hints if len(hint) > 1):
            self._by_end[_rare_end(hint)].append(hint)
        ends = sorted(self._by_end)
        self._any = re.compile(any_of(ends, longest=True) if ends else "(?!)")
        self._near: dict[str, list[str]] = {}

    def within(self, text: str) -> list[str]:
        """The hints that are in a text; some may come twice."""
        if len(text) > SHORT:
            find, whole = stringzilla.find, spelled(text)
            return [hint for hint, spelling in self._spelled if find(whole, spelling) >= 0]
        found = [char for char in self._chars if char in text]
        if begun := self._any.findall(text):
            for each in set(begun):
                found += [hint for hint in self._found_near(each) if hint in text]
        return found

    def _found_near(self, begun: str) -> list[str]:
        """The hints whose ends may stand where the search passed over a text, as it found one."""
        if begun not in self._near:
            rests = [begun[at:] for at in range(len(begun))]
            self._near[begun] = [
                hint
                for end, of_end in self._by_end.items()
                if any(end.startswith(rest) or rest.startswith(end) for rest in rests)
                for hint in of_end
            ]
        return self._near[begun]


def _rare_end(hint: str) -> str:
    """The end of a hint, of two characters or more, that begins with its rarest character."""
    return hint[min(range(len(hint) - 1), key=lambda at: _RANK.get(hint[at], -1)) :]


@lru_cache(maxsize=16)
def hints_of(hints: frozenset[str]) -> SubstringMatcher:
    """The search for some hints, which takes a hundredth of a second to make."""
    return SubstringMatcher(hints)


def spelled(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_MAX_KNOWN: Final = 1000
_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, eq=False)
class Rule:
    """One kind of secret."""

    name: str  # of the kind; it is in the mask
    what: str  # the kind in words
    expression: str  # finds it
    hints: tuple[str, ...] = ()  # a text without any of these, in lower case, has no such secret
    accepts: Callable[[re.Match[str]], bool] | None = None  # decides on a match; None accepts all
    stand_in: str | None = None  # the replacement; None for a numbered mask
    # An expression that finds, in lower-case text, where to try the rule; None tries it everywhere,
    # which is as fast where it starts with fixed characters.
    near: str | None = None
    reach: int = 0  # how many characters before that the match may start
    within: str | None = None  # an expression for the characters allowed there; None for any
    is_format: bool = False  # whether the secret is known by its own look, not by its context
    search: Callable[[str], Iterable[tuple[int, int]]] | None = None  # runs instead of the pattern

    # Compiled on first use: most texts call for few of the rules.
    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.expression)

    @cached_property
    def finder(self) -> re.Pattern[str] | None:
        return None if self.near is None else re.compile(self.near)

    @cached_property
    def _allowed(self) -> re.Pattern[str] | None:
        return None if self.within is None else re.compile(self.within)

    @cached_property
    def _groups(self) -> list[str]:
        return secret_groups(self.pattern)

    def spans(self, text: str, lowered: CasefoldedText) -> Iterable[tuple[int, int]]:
        """The spans of secrets in a text that has one of the hints, if the rule has any.

        The text is given with its form from `lowered`.
        """
        if self.search is not None:
            yield from self.search(text)
            return
        matches = self.pattern.finditer(text) if self.finder is None else self._tried(text, lowered)
        for match in matches:
            start, end = secret_span(match, self._groups)
            if start < end and (self.accepts is None or self.accepts(match)):
                yield start, end

    def _tried(self, text: str, lowered: CasefoldedText) -> Iterator[re.Match[str]]:
        assert self.finder is not None
        at = untried = 0  # where a match may start, and before where none starts
        rejected = -1
        for hit in lowered.hits(self.finder, in_words=self.is_format):
            first = self._first(text, at, hit)
            if first <= rejected:
                continue
            for start in range(max(first, untried), hit + 1):
                match = self.pattern.match(text, start)
                if match is not None:
                    yield match
                    rejected = start
                    is_long = match.end() - start > 512  # and is not gone over again
                    if is_long or self.accepts is None or self.accepts(match):
                        at = match.end()
                    break
            else:
                untried = hit + 1

    def _first(self, text: str, at: int, end: int) -> int:
        """The first place where a match across `end` may start, from `at` on."""
        lowest = max(at, end - self.reach)
        if self._allowed is None or lowest >= end:
            return lowest
        run = self._allowed.match(text[lowest:end][::-1])
        return end if run is None else end - run.end()


def secret_groups(pattern: re.Pattern[str]) -> list[str]:
    """The groups of a pattern that are the secret."""
    return [name for name in pattern.groupindex if name.startswith("secret")]


def secret_span(match: re.Match[str], groups: list[str]) -> tuple[int, int]:
    """The span of the secret in a match: its first group that took part, else all of it."""
    return next((match.span(name) for name in groups if match[name] is not None), match.span())


_SHORTEST: Final = 16  # characters of a long word
_OF_WORDS: Final = r"[^\s\"'`<>(),\[\]]"
_LONG_WORD: Final = re.compile(  # passes over short words, and matches at each place it is tried
    rf"(?:{_OF_WORDS}{{0,{_SHORTEST - 1}}}+(?!{_OF_WORDS})(?s:.))*+({_OF_WORDS}*+)"
)


class CasefoldedText:
    """A text in lower case, each character in its place, and its long words.

    A format is part of a long word.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._sources: list[int] = []  # of each word
        self._starts: list[int] = []  # in `words`
        self._words: str | None = None

    @property
    def words(self) -> str:
        """The long words, a line each."""
        if self._words is None:  # a `cached_property` takes a lock for each text
            self._words = self._long_words()
        return self._words

    def _long_words(self) -> str:
        words: list[str] = []
        length = 0
        for match in _LONG_WORD.finditer(self.text) if len(self.text) >= _SHORTEST else ():
            word = match[1]
            if len(word) >= _SHORTEST:
                words.append(word)
                self._sources.append(match.start(1))
                self._starts.append(length)
                length += len(word) + 1
        return "\n".join(words)

    def hits(self, finder: re.Pattern[str], *, in_words: bool) -> Iterator[int]:
        """Where a finder finds something, in the text or in its long words."""
        if not in_words:
            yield from (hit.start() for hit in finder.finditer(self.text))
            return
        for hit in finder.finditer(self.words):  # which fills the lists of places
            word = bisect_right(self._starts, hit.start()) - 1
            yield self._sources[word] + hit.start() - self._starts[word]


def lowered(text: str) -> CasefoldedText:
    """The form of a text in which the hints of rules are looked for."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(c.lower() if c.isascii() else c for c in text)
    return CasefoldedText(low)


_FILLER: Final = frozenset("x0-_./+=")
_FILLED: Final = 12  # last characters of a value that are not all filler


def is_varied(value: str, least: int = 1) -> bool:
    """True if a value is not filler (xxxx-xxxx, 0000), and has at least so many characters."""
    found = {c for c in value[-32:].lower() if c.isalnum()}
    return len(found) >= least and not _FILLER.issuperset(value[-_FILLED:].lower())


def looks_random(value: str, *, least: float = 0.25) -> bool:
    """True if letters and digits alternate as in a generated value, and not as in words.

    Of the neighbours in a random value, two fifths to two thirds differ in class (lower case,
    upper case, digit); in names, a tenth to a quarter. Without a digit it must be clearer.
    """
    sample = value[:200]
    if sample.isascii():
        classes = sample.translate(_CLASSES)
    else:
        classes = "".join(_class(c) for c in sample if c.isalnum())
    if len(classes) < 2:
        return False
    if "0" not in classes:
        least = max(least, 0.38)
        if len(classes) < 12:
            return False
    changes: int = sum(map(ne, classes, classes[1:]))
    return changes / (len(classes) - 1) >= least


def _class(char: str) -> str:
    if char.isdigit():
        return "0"
    return "A" if char.isupper() else "a"


_CLASSES: Final = {
    at: _class(char) if char.isalnum() else None for at, char in enumerate(map(chr, range(128)))
}


class Rules:
    """Rules that are tried together, each only on a text with one of its hints."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[tuple[frozenset[int], frozenset[int]], tuple[Rule, ...]] = {}

    def spans(self, text: str) -> Iterator[tuple[int, int, Rule]]:
        """The spans of secrets in a text, each with its rule, in the order of the rules."""
        low = lowered(text)
        for rule in self._tried(low):
            near = low.words if rule.is_format else low.text
            if rule.finder is not None and rule.finder.search(near) is None:
                continue
            for start, end in rule.spans(text, low):
                yield start, end, rule

    def _tried(self, low: CasefoldedText) -> tuple[Rule, ...]:
        """The rules that a text calls for; those of formats are called for by its long words."""
        words = low.words
        called = self._of_context.by(low.text), self._of_words.by(words) if words else _NONE
        tried = self._known.get(called)
        if tried is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            tried = tuple(self._rules[i] for i in sorted(called[0] | called[1]))
            self._known[called] = tried
        return tried

    @cached_property
    def _of_context(self) -> _Called:
        return _Called((i, rule) for i, rule in enumerate(self._rules) if not rule.is_format)

    @cached_property
    def _of_words(self) -> _Called:
        return _Called((i, rule) for i, rule in enumerate(self._rules) if rule.is_format)


class _Called:
    """The rules that each hint calls for; rules without hints are called for always."""

    def __init__(self, rules: Iterable[tuple[int, Rule]]) -> None:
        always: set[int] = set()
        self._places: defaultdict[str, set[int]] = defaultdict(set)
        for i, rule in rules:
            if not rule.hints:
                always.add(i)
            for hint in rule.hints:
                self._places[hint].add(i)
        self._always = frozenset(always)
        self._hints = hints_of(frozenset(self._places))
        self._known: dict[tuple[str, ...], frozenset[int]] = {}  # what the last hints call for

    def by(self, text: str) -> frozenset[int]:
        found = tuple(self._hints.within(text))
        called = self._known.get(found)
        if called is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            called = self._always.union(*[self._places[hint] for hint in found])
            self._known[found] = called
        return called
