"""Steps: a limit on work that the content of sessions multiplies.

A few thousand small edits may each change a file of megabytes, and a small patch may be looked for
in all of it. So a command has one `Steps`, and all that it does with contents of files takes from
it. A step is about a nanosecond of a usual processor.

Invariants: steps are taken before the work is done; they follow from the content alone, never from
a clock, so the same sessions meet the limit at the same point everywhere.
"""

from __future__ import annotations

from typing import Final, Self

from sessiontree.errors import TooMuchError

LINE: Final = 60
"""The steps to make a line of a text, to compare it, or to copy it."""

CHANGED_LINE: Final = 1_500
"""The steps to find out where a line that changed is from."""

_LEAST: Final = 2_000_000_000
_FOR_EACH_CHARACTER: Final = 400
_OF_A_SEARCH: Final = 5_000
_OF_A_HIT: Final = 6

_LONG: Final = 30_000
"""The characters of a text from which on CPython searches it in steps that follow its length.

In a shorter one it may compare all of a text that it looks for at each place.
"""

_FEW_COMPARED: Final = 200_000
"""The characters that a search in a shorter text may compare."""


class Steps:
    """The steps that are left.

    Args:
        most: how many there are.
        error: what the error says when there are no more.
    """

    def __init__(self, most: int, error: str) -> None:
        self._left = most
        self._error = error

    @classmethod
    def of_command(cls, size: int, error: str) -> Self:
        """The steps of a command that reads sessions of so many bytes."""
        return cls(max(_LEAST, size * _FOR_EACH_CHARACTER), error)

    @classmethod
    def of_edit(cls, size: int) -> Self:
        """The steps to show one edit, whose texts have so many characters."""
        return cls((size + 1_000) * _FOR_EACH_CHARACTER, "the edit is too large to show all of it")

    def take(self, count: int) -> None:
        """Take steps, before the work that needs them.

        Raises:
            TooMuchError: there are not so many left.
        """
        self._left -= count
        if self._left < 0:
            raise TooMuchError(self._error)

    def take_search(self, text: str, last: str, start: int = 0) -> None:
        """Take the steps to look from a place on for a text that ends with a character.

        A search looks closer wherever that character stands.
        """
        hits = text.count(last, start)
        self.take(_OF_A_SEARCH + max(len(text) - start, 0) + _OF_A_HIT * hits)


def find(text: str, wanted: str, start: int, steps: Steps) -> int:
    """Where a text is in another one, from a place on; -1 for nowhere, and for an empty text.

    Raises:
        TooMuchError: there are not enough steps left to look for it.
    """
    if not wanted:
        return -1
    steps.take_search(text, wanted[-1], start)
    if len(text) >= _LONG or len(wanted) * (len(text) - start) < _FEW_COMPARED:
        return text.find(wanted, start)
    at = text.ljust(_LONG, "\0").find(wanted, start)
    return at if at + len(wanted) <= len(text) else -1
