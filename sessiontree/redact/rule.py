r"""A rule: one kind of secret, and where it is in a text.

A rule is a regular expression over the text itself, not its JSON spelling. It masks the group whose
name starts with `secret`, else the whole match. Rules allow for text within text: a line break
spelled `\n`, quotes with backslashes before them, `%40` for `@`.

Invariants: each rule costs time in proportion to the text, whatever it holds. An unbounded
repetition is a single set of characters, possessive or with nothing after it that could fail; where
a search might start within such a run, it is tied to the start of the run, or the run is bounded. A
rule with a finder is tried only where that found something, and a long match is not searched again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

_LONG: Final = 512  # characters of a match that is not searched again
QUOTE: Final = r"""\\{0,8}["'`]"""  # a quote; in text within text it has backslashes before it

START: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
)
"""Where a word may start; also behind a line break or another character that is spelled out."""


class Rule(NamedTuple):
    """One kind of secret."""

    name: str  # of the kind; it is in the mask
    what: str  # the kind in words
    pattern: re.Pattern[str]  # finds it
    hints: tuple[str, ...] = ()  # a text without any of these, in lower case, has no such secret
    accepts: Callable[[re.Match[str]], bool] | None = None  # decides on a match; None accepts all
    stand_in: str | None = None  # the replacement; None for a numbered mask
    # Finds, in lower-case text, where to try the pattern; None tries it everywhere, which is as
    # fast where it starts with fixed characters.
    finder: re.Pattern[str] | None = None
    reach: int = 0  # how many characters before that the match may start
    within: re.Pattern[str] | None = None  # matches each character allowed there; None for any
    is_format: bool = False  # whether the secret is known by its own look, not by its context
    source: str = ""  # where the format is published
    search: Callable[[str], Iterable[tuple[int, int]]] | None = None  # runs instead of the pattern

    def spans(self, text: str, lowered: str) -> Iterable[tuple[int, int]]:
        """The spans of secrets in a text that has one of the hints, if the rule has any.

        The text is given with its form from `lowered`.
        """
        if self.search is not None:
            yield from self.search(text)
            return
        groups = secret_groups(self.pattern)
        matches = self.pattern.finditer(text) if self.finder is None else self._tried(text, lowered)
        for match in matches:
            start, end = secret_span(match, groups)
            if start < end and (self.accepts is None or self.accepts(match)):
                yield start, end

    def _tried(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        assert self.finder is not None
        at = 0
        for hit in self.finder.finditer(lowered):
            for start in range(self._first(text, at, hit.start()), hit.start() + 1):
                match = self.pattern.match(text, start)
                if match is not None:
                    yield match
                    is_long = match.end() - start > _LONG  # and is not gone over again
                    if is_long or self.accepts is None or self.accepts(match):
                        at = match.end()
                    break

    def _first(self, text: str, at: int, end: int) -> int:
        """The first place where a match across `end` may start, from `at` on."""
        lowest = max(at, end - self.reach)
        if self.within is None:
            return lowest
        start = end
        while start > lowest and self.within.match(text, start - 1):
            start -= 1
        return start


def secret_groups(pattern: re.Pattern[str]) -> list[str]:
    """The groups of a pattern that are the secret."""
    return [name for name in pattern.groupindex if name.startswith("secret")]


def secret_span(match: re.Match[str], groups: list[str]) -> tuple[int, int]:
    """The span of the secret in a match: its first group that took part, else all of it."""
    return next((match.span(name) for name in groups if match[name] is not None), match.span())


def lowered(text: str) -> str:
    """Text in lower case, each character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if c.isascii() else c for c in text)


_SAMPLE: Final = 200  # characters of a value that are looked at


def is_varied(value: str, least: int = 1) -> bool:
    """Whether a value is no filler (xxxx-xxxx, 0000), and has at least so many characters."""
    found = {c for c in value[-32:].lower() if c.isalnum()}
    return len(found) >= least and not found <= {"x", "0"}


def looks_random(value: str, *, least: float = 0.25) -> bool:
    """Whether letters and digits alternate as in a generated value, and not as in words.

    Of the neighbours in a random value, two fifths to two thirds differ in class (lower case,
    upper case, digit); in names, a tenth to a quarter. Without a digit it must be clearer.
    """
    classes = [_class(c) for c in value[:_SAMPLE] if c.isalnum()]
    if len(classes) < 2:
        return False
    if "0" not in classes:
        least = max(least, 0.38)
        if len(classes) < 12:
            return False
    changes = sum(one != other for one, other in pairwise(classes))
    return changes / (len(classes) - 1) >= least


def _class(char: str) -> str:
    if char.isdigit():
        return "0"
    return "A" if char.isupper() else "a"


_LONG_WORD: Final = re.compile(r"[^\s\"'`<>(),\[\]]{16,}+")


class Rules:
    """Rules that are tried together, each only on a text with one of its hints."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._always = [i for i, rule in enumerate(self._rules) if not rule.hints]
        hints = [(h, i) for i, rule in enumerate(self._rules) for h in rule.hints]
        self._of_words = [(h, i) for h, i in hints if self._rules[i].is_format]
        self._others = [(h, i) for h, i in hints if not self._rules[i].is_format]

    def spans(self, text: str) -> Iterator[tuple[int, int, Rule]]:
        """The spans of secrets in a text, each with its rule, in the order of the rules."""
        low = lowered(text)
        words = "\n".join(_LONG_WORD.findall(low))  # a format is part of a long word
        tried = {i for hint, i in self._of_words if hint in words} if words else set()
        tried.update(i for hint, i in self._others if hint in low)
        for i in sorted(tried.union(self._always)):
            rule = self._rules[i]
            if rule.is_format and rule.finder is not None and not rule.finder.search(words):
                continue
            for start, end in rule.spans(text, low):
                yield start, end, rule
