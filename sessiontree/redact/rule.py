"""The rule: what one kind of secret looks like, and where in a text it stands.

Invariants: a rule with a finder is tried only where that found something, and a long
match is not gone over again, so that a text costs what it is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

QUOTE: Final = r"""\\{0,8}["'`]"""
"""A quote, in an expression; in text within text it has backslashes before it."""


class Rule(NamedTuple):
    """What one kind of secret looks like.

    Attributes:
        name: of the kind; it stands in the mask.
        what: the kind in words.
        pattern: finds it.
        hints: text without any of these, lower-cased, holds none.
        accepts: asked about each match; None takes them all.
        stand_in: what stands in its place; None for a numbered mask.
        finder: finds, in lower-cased text, where the pattern is worth a try; None tries it
            everywhere, which is as fast where it starts with fixed characters.
        reach: how many characters before that it may start.
        within: matches each character that may stand before that; None for any.
    """

    name: str
    what: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    accepts: Callable[[re.Match[str]], bool] | None = None
    stand_in: str | None = None
    finder: re.Pattern[str] | None = None
    reach: int = 0
    within: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls,
        name: str,
        what: str,
        pattern: str,
        *hints: str,
        accepts: Callable[[re.Match[str]], bool] | None = None,
        stand_in: str | None = None,
        finder: str | None = None,
        reach: int = 0,
        within: str | None = None,
    ) -> Rule:
        """A rule whose expressions are still text; the hints stand behind the pattern."""
        near = None if finder is None else re.compile(finder)
        over = None if within is None else re.compile(within)
        return cls(name, what, re.compile(pattern), hints, accepts, stand_in, near, reach, over)

    def spans(self, text: str, lowered: str) -> Iterable[tuple[int, int]]:
        """Where secrets of the kind stand in a text, given with its form by `lowered`."""
        if self.hints and not any(map(lowered.__contains__, self.hints)):
            return
        groups = [name for name in self.pattern.groupindex if name.startswith("secret")]
        matches = self.pattern.finditer(text) if self.finder is None else self._tried(text, lowered)
        for match in matches:
            start, end = next(
                (match.span(name) for name in groups if match[name] is not None), match.span()
            )
            if start < end and (self.accepts is None or self.accepts(match)):
                yield start, end

    def _tried(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        """The matches where the finder found something."""
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
        """Where a match that goes over `end` may start, from `at` on."""
        lowest = max(at, end - self.reach)
        if self.within is None:
            return lowest
        start = end
        while start > lowest and self.within.match(text, start - 1):
            start -= 1
        return start


_LONG: Final = 512


def lowered(text: str) -> str:
    """Text in lower case, each character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if c.isascii() else c for c in text)
