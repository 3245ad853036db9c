"""Where the history of a rollout is: the segments of its thread, and those it was forked from.

The first line of a segment may name its history: `history_base`, with the id of another segment
(as `thread_id`), and the ordinal and the byte where the history ends there. That segment may name
a history itself. None of it is copied.

A plan has the segments that one session is made of, each after the one that it continues, and the
opened one last. Of the own thread it has all older segments, whole, because what a revert left
is a branch; of another thread the lines up to the last end that is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from sessiontree.errors import SessionTreeError
from sessiontree.formats import base


class End(NamedTuple):
    """Where an inherited history ends: at the ordinal; in lines without ordinals at the byte."""

    segment: str
    ordinal: int
    offset: int

    def is_at(self, ordinal: Any, offset: int) -> bool:
        """Whether a line with this ordinal, at this offset, is behind the end."""
        return ordinal >= self.ordinal if isinstance(ordinal, int) else offset >= self.offset


class Segment(msgspec.Struct, eq=False):
    """One file.

    Attributes:
        id: its id.
        number: its `Place.source`.
        source: the file.
        first: its first line; None if it has none.
        meta: what that line says of the session.
        is_own: whether it is of the opened thread.
        continues: where its history ends in another segment, or None.
        ends: where the histories of other segments end in it, in order.
    """

    id: str
    number: int
    source: base.Source
    first: base.SourceLine | None
    meta: base.Values
    is_own: bool
    continues: End | None
    ends: list[End]

    @property
    def place(self) -> base.Place:
        """The place of the first line."""
        return base.START if self.first is None else self.first.place


def planned(source: base.Source, report: base.Report) -> list[Segment]:
    """The segments of the session of a file; `report` is told which of them is missing."""
    return _Plan(source, report).segments


class _Plan:
    def __init__(self, source: base.Source, report: base.Report) -> None:
        self.segments: list[Segment] = []
        self._source = source
        self._report = report
        self._known: dict[str, Segment | None] = {}
        self._chain: set[str] = set()
        self._opened = opened = _segment("", 0, source)
        thread = opened.meta.text("id") or ""
        ids = source.segments()
        opened.id = ids[-1] if ids else thread
        opened.is_own = True
        self._known[opened.id] = opened
        for id in ids[:-1]:
            older = self._found(id, opened)
            if older is not None and older.meta.text("id") == thread:
                older.is_own = True
                self._add(older)
        self._add(opened)

    def _add(self, segment: Segment) -> None:
        """Add a segment behind those that it continues."""
        chain = [segment]
        self._chain = {segment.id, self._opened.id}
        while (below := chain[-1]).continues is not None and below not in self.segments:
            above = self._above(below, below.continues)
            if above is None:
                below.continues = None
                break
            above.ends.append(below.continues)
            chain.append(above)
            self._chain.add(above.id)
        self.segments += [each for each in reversed(chain) if each not in self.segments]

    def _above(self, segment: Segment, end: End) -> Segment | None:
        """The segment that another one continues; None, and a report, if it cannot be read."""
        if end.segment in self._chain:
            cause = f"the history leads back to segment {end.segment}, which continues this one"
            self._report("history", segment.place, cause)
            return None
        return self._found(end.segment, segment)

    def _found(self, id: str, by: Segment) -> Segment | None:
        """The segment with an id; None, and one report, if it cannot be read.

        `by` is the segment that needs it.
        """
        if id not in self._known:
            self._known[id] = self._opened_segment(id, by)
        return self._known[id]

    def _opened_segment(self, id: str, by: Segment) -> Segment | None:
        try:
            found = self._source.segment(id)
        except SessionTreeError as error:
            self._report("history", by.place, f"the history in segment {id} is not read: {error}")
            return None
        if found is not None:
            return _segment(id, *found)
        cause = (
            f"the history is in segment {id}, a file 'rollout-*{id}.jsonl' or '….jsonl.zst', "
            "which is not beside this file, nor in sessions or archived_sessions of Codex"
        )
        self._report("history", by.place, cause)
        return None


def _segment(id: str, number: int, source: base.Source) -> Segment:
    first = next(base.numbered(source, number), None)
    line = None if first is None else base.values(first.text)
    meta = base.Values({})
    if line is not None and line.text("type") == "session_meta":
        meta = line.inside("payload")
    return Segment(id, number, source, first, meta, False, _base_of(meta.value("history_base")), [])


def _base_of(named: Any) -> End | None:
    if not isinstance(named, dict) or not isinstance(named.get("thread_id"), str):
        return None
    return End(
        named["thread_id"],
        _count(named, "end_ordinal_exclusive"),
        _count(named, "end_byte_offset"),
    )


def _count(named: Mapping[str, Any], key: str) -> int:
    value = named.get(key)
    return value if isinstance(value, int) else 0
