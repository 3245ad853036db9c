"""Which of many short strings are in a text, found faster than one by one.

A short text is searched once for all of them, by an expression that is a tree of their ends, each
from its rarest character on, so that the search passes over most places; a long one is searched for
each, which takes less time a character.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

SHORT: Final = 300  # characters, up to which one search for all hints costs less
_RARE_FIRST: Final = "zqjxkvwyb$%{}=~+@:fgp'\"0123456789/_-.muhcdlsrnoia te"
_RANK: Final = {char: rank for rank, char in enumerate(_RARE_FIRST)}
"""The characters of texts, the rarest first; others are rarer still."""


class Hints:
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
def hints_of(hints: frozenset[str]) -> Hints:
    """The search for some hints, which takes a hundredth of a second to make."""
    return Hints(hints)


def spelled(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


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
    return _expression(tree, longest=longest)


def _expression(tree: dict[str, Any], *, longest: bool) -> str:
    ends = "" in tree
    parts = [
        re.escape(char) + _expression(below, longest=longest)
        for char, below in tree.items()
        if char
    ]
    if not parts or (ends and not longest):
        return ""
    if len(parts) == 1 and not ends:
        return parts[0]
    return f"(?:{'|'.join(parts)}{'|' if ends else ''})"
