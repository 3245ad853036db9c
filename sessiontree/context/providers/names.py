"""Names and ids that every provider accepts: letters, digits, `_` and `-`, not too long.

Ids are given out in the order of the calls, and one already given is never given
again. So two calls never share an id, also where a session uses `call_0` in every
turn, and what comes later changes nothing that came before.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_FIT: Final = re.compile(r"[a-zA-Z0-9_-]+")
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME: Final = 64
_DIGEST: Final = 12


class Ids:
    """Gives out ids of at most `limit` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._given: set[str] = set()

    def give(self, stored: str) -> str:
        """An id for the next call: the stored one where it is fit and not yet given.

        Of pi's `call_1|fc_2` that is the part before the bar.
        """
        wanted = stored.partition("|")[0]
        given = wanted
        again = 0
        while given in self._given or not is_fit(given, self._limit):
            given = _derived(wanted, f"{stored}\n{again}", self._limit)
            again += 1
        self._given.add(given)
        return given


def is_fit(text: str, limit: int) -> bool:
    """Whether a provider takes this as a name or an id."""
    return 0 < len(text) <= limit and _FIT.fullmatch(text) is not None


def fit_name(name: str) -> str:
    """A tool's name as every provider takes it; the name itself where that is one."""
    if is_fit(name, _LONGEST_NAME):
        return name
    if len(name) > _LONGEST_NAME:
        return _derived(name, name, _LONGEST_NAME)
    return _UNFIT.sub("_", name) or "unnamed_tool"


def digest(text: str) -> str:
    """Twelve hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]


def _derived(wanted: str, seed: str, limit: int) -> str:
    stem = _UNFIT.sub("_", wanted)[: limit - _DIGEST - 1]
    return f"{stem}_{digest(seed)}" if stem else f"call_{digest(seed)}"
