"""Marks: what compactions repeat of uuids and ids, by which most are known to be absent.

A mark is three bytes of a checksum, so four characters of base64. A part of a log has a mark of the
uuid of each entry, and one of each id of a message or a tool call that its lines hold. A string
whose mark is not there is not in that part; one whose mark is there may be.

Ids are found where they are the value of a key in `ID_KEYS`, at any depth, as sessiontree spells
them: printable ASCII without escapes.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.codec import crc32

MARKS: Final = "uuids"
"""The key of a compaction's `state`."""

MARK_SIZE: Final = 3
MOST_MARKS: Final = 8000  # in one string that no session spills by default
_CHARACTERS: Final = 4

ID_KEYS: Final = ("id", "messageId", "tool_use_id")
_KEYS: Final = tuple(f'"{key}"'.encode() for key in ID_KEYS)
_VALUE: Final = re.compile(rb'[ \t\r]*:[ \t\r]*"([ !#-\[\]-~]+)"')


def mark_of(text: str | bytes) -> bytes:
    given = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return crc32(given).to_bytes(4, "big")[1:]


class MarksKey(msgspec.Struct):
    """The value of the key `MARKS`."""

    start: int = msgspec.field(name="from")
    before: int | None
    marks: str
    ids: str | None = None


class Marks(NamedTuple):
    """The marks of a part of a log, in base64.

    Attributes:
        start, end: the part. Those that compactions repeat follow each other without a gap.
        uuids: the mark of each entry, in file order.
        ids: the mark of each id; None where it is not known which ids there are.
    """

    start: int
    end: int
    uuids: str
    ids: str | None

    def may_have_uuid(self, uuid: str) -> bool:
        return _has(self.uuids, uuid)

    def may_have_id(self, id: str) -> bool:
        return self.ids is None or _has(self.ids, id)

    def with_earlier(self, earlier: Marks) -> Marks | None:
        """Return both parts as one, unless the earlier one has more or they are too many."""
        if not 0 < len(earlier.uuids) <= len(self.uuids):
            return None
        uuids, ids = earlier.uuids + self.uuids, None
        if self.ids is not None:
            if earlier.ids is None:
                return None
            ids = earlier.ids + self.ids
        if max(len(uuids), len(ids or "")) > MOST_MARKS * _CHARACTERS:
            return None
        return Marks(earlier.start, self.end, uuids, ids)

    def as_json(self, before: int | None) -> dict[str, Any]:
        """Return the value of the key `MARKS`; `before` is the place of the compaction before."""
        given = {"from": self.start, "before": before, "marks": self.uuids}
        return given if self.ids is None else {**given, "ids": self.ids}


class Tail(NamedTuple):
    """The part of a log of which no compaction tells: its place, and the marks of its uuids."""

    start: int
    end: int
    uuids: bytearray

    def marks(self) -> Marks:
        return Marks(self.start, self.end, _text(self.uuids), None)


def marks_to_repeat(tail: Tail, blocks: Iterable[bytes]) -> Marks | None:
    """Return the marks of the last lines, given as blocks; None where they are too many."""
    if len(tail.uuids) > MOST_MARKS * MARK_SIZE:
        return None
    ids = {id for block in blocks for id in ids_in(block)}
    text = _text(b"".join(map(mark_of, sorted(ids)))) if len(ids) <= MOST_MARKS else None
    return tail.marks()._replace(ids=text)


def marks_in(key: MarksKey, end: int, place: int) -> Marks | None:
    """Return what the compaction at a place repeats of the lines up to `end`, if it can be so."""
    if not 0 <= key.start <= end or not (key.before is None or 0 <= key.before < place):
        return None
    if len(key.marks) % _CHARACTERS or len(key.ids or "") % _CHARACTERS:
        return None
    return Marks(key.start, end, key.marks, key.ids)


def ids_in(block: bytes) -> Iterator[bytes]:
    """Yield the ids that whole lines hold."""
    for key in _KEYS:
        at = stringzilla.find(block, key)
        while at >= 0:
            found = _VALUE.match(block, at + len(key))
            if found is not None:
                yield found[1]
            at = stringzilla.find(block, key, at + len(key))


def _text(marks: bytes | bytearray) -> str:
    return b2a_base64(marks, newline=False).decode()


def _has(text: str, wanted: str) -> bool:
    mark = _text(mark_of(wanted))
    at: int = stringzilla.find(text, mark)
    while at >= 0 and at % _CHARACTERS:
        at = stringzilla.find(text, mark, at + 1)
    return at >= 0
