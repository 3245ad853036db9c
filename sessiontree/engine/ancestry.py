"""Ancestry: what stands above an entry, read one by one as somebody goes up.

Invariants: the answers are those of `Reader.path`; of the entries that were passed
none is kept that is not given, at most where each lies, so that a path of a million
entries is gone up in the memory of a few; and no more is read than the answer takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from sessiontree.core.entry import Entry
from sessiontree.engine.stretch import PathSlice

if TYPE_CHECKING:
    from sessiontree.engine.reader import Reader


def upwards(session: Reader, entry: Entry | None = None) -> Iterator[Entry]:
    """An entry, by default the leaf, and its ancestors. For one thread at a time."""
    view = session._ready()
    path = session._path
    if path is not None and (entry is None or entry == session._leaf):
        known = path.entries.copy()
        yield from reversed(known)
        if not path.whole:
            yield from view.walk().up(known[0])
        return
    first = session._leaf if entry is None else entry
    yield first
    yield from view.walk().up(first)


def nearest(
    session: Reader, is_wanted: Callable[[Entry], bool], entry: Entry | None = None
) -> Entry | None:
    """The nearest entry that is wanted, at or above one, by default the leaf."""
    with session._log.lock.alone():
        return next(filter(is_wanted, upwards(session, entry)), None)


def is_above(session: Reader, above: Entry, entry: Entry | None = None) -> bool:
    """Whether an entry is another, by default the leaf, or an ancestor of it."""
    return nearest(session, above.__eq__, entry) is not None


def downwards(session: Reader, entry: Entry | None = None) -> Iterator[Entry]:
    """The path from the header to an entry, by default the leaf; see `Reader.path`.

    Raises:
        FileReplacedError: what was read on the way up is not there any more.
    """
    yield from below(session, None, entry)


def common(session: Reader, one: Entry, other: Entry) -> Entry | None:
    """The lowest entry that two are, or descend from; None where there is none."""
    with session._log.lock.alone():
        ways = upwards(session, one), upwards(session, other)
        at = [next(ways[0]), next(ways[1])]
        while at[0] != at[1]:
            lower = 0 if at[0].offset > at[1].offset else 1
            above = next(ways[lower], None)
            if above is None or above.offset >= at[lower].offset:
                return _common_anyhow(session, one, other)
            at[lower] = above
        return at[1]


def _common_anyhow(session: Reader, one: Entry, other: Entry) -> Entry | None:
    """The same where a parent stands after its child, or is missing."""
    above_one = {entry.offset for entry in upwards(session, one)}
    return nearest(session, lambda entry: entry.offset in above_one, other)


def below(session: Reader, above: Entry | None, entry: Entry | None = None) -> PathSlice:
    """The path from below an ancestor to an entry, by default the leaf.

    An ancestor of None, or one that is not above it, is above all.
    """
    with session._log.lock.alone():
        passed = takewhile(lambda one: one != above, upwards(session, entry))
        offsets = array("q", (one.offset for one in passed))
        view = session._view
    offsets.reverse()
    return PathSlice(session, view, offsets)
