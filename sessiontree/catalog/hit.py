"""A hit of a search: one entry that matches, and which entries are wanted."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from sessiontree.core.display import printable
from sessiontree.core.entry import Entry
from sessiontree.text.pattern import Span
from sessiontree.text.preview import role

BEFORE: Final = 40
AFTER: Final = 80
LONGEST_MATCH: Final = 200
"""Characters of a snippet before, after and in the match."""


class Wanted(msgspec.Struct, frozen=True):
    """Which entries count.

    Attributes:
        roles: only those that speak in one of these roles; empty: all.
        tool: only in calls of this tool, and in their results.
        since: only those written then or later.
        current: only those on the path that their session stands at.
        blobs: also in what was taken out of the file into blobs.
    """

    roles: frozenset[str] = frozenset()
    tool: str | None = None
    since: datetime | None = None
    current: bool = False
    blobs: bool = False


class Hit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry that matches.

    Attributes:
        file: the session's file.
        session: the session's id.
        ref: the entry's uuid.
        type, timestamp, lane: the entry's.
        role: the role it speaks in, or None.
        snippet: the text around its first match, on one line.
        match: where in the snippet the match begins and ends.
    """

    file: str
    session: str
    ref: str
    type: str
    role: str | None
    timestamp: str | None
    lane: str | None
    snippet: str
    match: Span


def hit(file: str, session: str, entry: Entry, text: str, span: Span) -> Hit:
    """The hit that an entry is, by one of its texts and where that matches."""
    start, end = span
    before = _flat(text[max(0, start - BEFORE) : start])
    match = _flat(text[start : min(end, start + LONGEST_MATCH)])
    after = _flat(text[end : end + AFTER])
    if start > BEFORE:
        before = "…" + before
    if end + AFTER < len(text):
        after += "…"
    return Hit(
        file=file,
        session=session,
        ref=entry.uuid,
        type=entry.type,
        role=role(entry),
        timestamp=entry.timestamp,
        lane=entry.lane,
        snippet=before + match + after,
        match=(len(before), len(before) + len(match)),
    )


def _flat(text: str) -> str:
    """Text on one line, without what drives a terminal."""
    return printable(text.replace("\r\n", "\n").replace("\n", "↵").replace("\t", " "))
