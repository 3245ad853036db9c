"""Budgets: limits on work and memory that the content of sessions multiplies.

A small file may be made so that its merges, lanes, compactions or edits take hours. What reads them
takes from a `Budget`, whose `Limit` is below; `docs/durability.md` lists the limits for users.

Invariants: a budget is charged before the work is done; it follows from the content alone, never
from a clock, so the same sessions meet a limit at the same point everywhere.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NoReturn

from sessiontree.core.message import MAX_BLOCKS
from sessiontree.errors import TooMuchError


class Limit(NamedTuple):
    """A limit: `most`, or what the size gives if that is more."""

    most: int
    error: str  # formatted with `most`, the facts of the budget and those of the charge
    for_each_byte: int = 0  # so many for each byte
    bytes_for_each: int = 0  # one for each so many bytes


class Budget:
    """What is left of a limit, in a session or a file of `size` bytes."""

    def __init__(self, limit: Limit, size: int = 0, more: int = 0, **facts: object) -> None:
        by_size = (
            size // limit.bytes_for_each if limit.bytes_for_each else size * limit.for_each_byte
        )
        self._most = self._left = (max(limit.most, by_size) if size else limit.most) + more
        self._limit = limit
        self._facts = facts

    def take(self, count: int = 1, **where: object) -> None:
        """Charge work before it is done, or memory before it is taken.

        Raises:
            TooMuchError: there is not so much left.
        """
        self._left -= count
        if self._left < 0:
            self._refuse(where)

    def check(self, total: int, **where: object) -> None:
        """Check that so much is left, without a charge."""
        if total > self._left:
            self._refuse(where)

    def _refuse(self, where: dict[str, object]) -> NoReturn:
        facts = {"most": self._most, "limit": self._limit, **self._facts, **where}
        raise TooMuchError(self._limit.error.format(**facts))

    def widen(self, size: int) -> None:
        """Add what bytes that were not expected allow."""
        self._left += size * self._limit.for_each_byte


_FORK: Final = "; fork the path that you need, and convert the copy"

READ_AGAIN: Final = Limit(
    40_000,
    "{title} has {entries:,} entries, and its lanes, compactions and merges repeat them more than "
    "{most:,} times" + _FORK,
)
BYTES_FOR_EACH_READ: Final = 32
"""Each so many bytes of a session allow one further entry to be read again."""

LANE_FILES: Final = Limit(4_000, "{title} has more than {most:,} lanes, a file each" + _FORK)
LANE_LINES: Final = Limit(
    1_000_000,
    "the lanes of {title}, with what is above them, have over {most:,} lines" + _FORK,
    bytes_for_each=5,
)
REPEATED_BYTES: Final = Limit(
    128 << 20,
    "the lanes and compactions of {title} repeat each byte more than {limit.for_each_byte} times"
    + _FORK,
    for_each_byte=100,
)
CONVERTED_BLOCKS: Final = Limit(
    MAX_BLOCKS,
    "{title} has more than {most:,} content blocks and calls" + _FORK,
    bytes_for_each=100,
)
SHOWN_BLOCKS: Final = CONVERTED_BLOCKS._replace(
    error="{what} has more than {most:,} content blocks and calls up to entry {uuid}{next}"
)
REQUEST_BLOCKS: Final = Limit(
    100_000,
    "the context has more than {most:,} content blocks and calls up to entry {uuid}, which no "
    "model takes; compact the session, or go on from an entry above",
)
REQUEST_BYTES: Final = Limit(
    128 << 20,
    "the request has more than 128 MiB of messages, more than any model takes: {file} names the "
    "same messages many times",
)
MERGED_AGAIN: Final = Limit(
    200_000,
    "the merges up to {uuid} take in each other, and would read entries again more than {most:,} "
    "times; go on from an entry above them, or merge with a summary",
)
MERGED_INTO_COPY: Final = Limit(
    20_000_000,
    "{name} has merges that take in each other, more than {limit.most:,} entries together; copy "
    "the path to an entry above them",
)
REPEATED_PROMPTS: Final = Limit(
    30_000,
    "{name}, line {line}: the compactions up to this line repeat prompts more than {most:,} times; "
    "remove compactions from a copy, and open the copy",
)
SHORT_BYTES: Final = 100
"""A shorter line or message has no place for an id, a time and content."""

SHORT_TEXTS: Final = Limit(
    20_000,
    f"{{name}} has more than {{most:,}} {{what}} of less than {SHORT_BYTES} bytes, and no agent "
    "writes so many; remove them from a copy, and open the copy",
    bytes_for_each=250,
)
EDIT_STEPS: Final = Limit(2_000_000_000, "{error}", for_each_byte=400)
"""The steps of a command that plays edits back; a step is about a nanosecond of a processor."""

SHOWN_EDIT_STEPS: Final = Limit(0, "the edit is too large to show all of it", for_each_byte=400)
"""The steps to show one edit, by the characters of its texts."""

LINE: Final = 60
"""The steps to make a line of a text, to compare it, or to copy it."""

CHANGED_LINE: Final = 1_500
"""The steps to find out where a line that changed is from."""

_OF_A_SEARCH: Final = 5_000
_OF_A_HIT: Final = 6

_LONG: Final = 30_000
"""The characters of a text from which on CPython searches it in steps that follow its length.

In a shorter one it may compare all of a text that it looks for at each place.
"""

_FEW_COMPARED: Final = 200_000
"""The characters that a search in a shorter text may compare."""


def take_search(steps: Budget, text: str, last: str, start: int = 0) -> None:
    """Take the steps of a search from `start` on for a text whose last character is given.

    A search looks closer wherever that character stands.
    """
    hits = text.count(last, start)
    steps.take(_OF_A_SEARCH + max(len(text) - start, 0) + _OF_A_HIT * hits)


def find(text: str, wanted: str, start: int, steps: Budget) -> int:
    """Where a text is in another one, from a place on; -1 for nowhere, and for an empty text.

    Raises:
        TooMuchError: there are not enough steps left to look for it.
    """
    if not wanted:
        return -1
    take_search(steps, text, wanted[-1], start)
    if len(text) >= _LONG or len(wanted) * (len(text) - start) < _FEW_COMPARED:
        return text.find(wanted, start)
    at = text.ljust(_LONG, "\0").find(wanted, start)
    return at if at + len(wanted) <= len(text) else -1
