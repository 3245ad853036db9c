"""Fragments: what a line still holds that is no JSON.

Writers that were cut off leave the beginning of an object, and whoever writes next without a
newline puts an entry right behind it. Taken apart, such a line is whole objects, torn fragments,
and what is neither.

A torn fragment is the beginning of an object that breaks off, at the end of the line or where a
whole entry was written behind it. Where that entry could as well be a value inside the fragment,
nothing tells them apart, and they stay together. What ceases to be JSON in any other way (a flipped
bit, zeros in the middle) is no fragment: somebody may know what it said.

Invariants: a piece holds bytes of the line as they stand there, in their order; whole objects are
never lost; taking a piece apart again changes nothing.

The stand-in: what stands for a header that is lost, so that the rest can be read.

A header is lost where the first line is none, and a later one is an entry of ours that cannot be
anything else: it names itself, its parent and its time, and its checksum is right. What a stand-in
says is found in the file alone, and so always the same: the uuid that the first entries name and
none has, so that nothing is hung elsewhere; what of the damaged line is still JSON; the id and the
time that the file's name tells.

Invariants: a header that names another format, is UTF-8 without NUL, and whose checksum is right or
which has none, is never taken for a damaged one (what only lacks the keys of ours, as pi's and
those of version 1 do, is, for neither has such entries behind it); no sound entry is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import orjson
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.codec import (
    CRC_LENGTH,
    FORMAT,
    VERSION,
    check_seal,
    decode,
    encode,
    is_sealed,
    is_utf_8,
    raw_values,
)
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, Entry, decode_object
from sessiontree.core.header import check_header, is_version_1
from sessiontree.core.migrate import uuid_of_line
from sessiontree.errors import ForeignFormatError, NewerFormatError, SessionTreeError


class Parts(NamedTuple):
    """A line taken apart.

    Attributes:
        pieces: what is to stay, each to stand on a line of its own.
        entries: how many of the pieces are whole objects.
        torn: the bytes of the fragments that were left out.
    """

    pieces: list[bytes]
    entries: int
    torn: int


def take_apart(line: bytes) -> Parts:
    """The parts of a line that is no JSON."""
    text = line.rstrip(b"\0\r").decode("utf-8", "surrogateescape") + _END
    broken = _Broken(text)
    pieces: list[bytes] = []
    entries = torn = 0
    at = _after_gap(text, 0)
    while at < len(text) - 1:
        found, end = broken.object_at(at)
        is_torn = False
        if found is not None:
            entries += 1
        else:
            end, is_torn = broken.fragment_at(at, end)
        piece = text[at:end].encode("utf-8", "surrogateescape")
        piece = piece if is_torn else piece.rstrip(b"\0\r")
        if is_torn:
            torn += len(piece)
        elif found is None and len(piece) < len(line):  # alone it may tell more
            alone = take_apart(piece)
            pieces += alone.pieces
            entries += alone.entries
            torn += alone.torn
        else:
            pieces.append(piece)
        at = _after_gap(text, end)
    return Parts(pieces, entries, torn)


class _Broken:
    """Reads a text that is no JSON as a whole. `_END` stands behind it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = len(text) - 1
        self._last: Any = None
        self._decode = json.JSONDecoder(
            object_hook=self._note, parse_int=str, parse_float=str
        ).raw_decode

    def _note(self, completed: dict[str, Any]) -> dict[str, Any]:
        self._last = completed
        return completed

    def object_at(self, at: int) -> tuple[dict[str, Any] | None, int]:
        """The object at a place and its end; or None, and where the text ceases to be JSON."""
        size = _FIRST_LOOK
        while True:  # an error costs all of the text that it speaks of, so it is given little
            is_rest = at + size >= self._end
            part = self._text[at:] if is_rest else self._text[at : at + size] + _END
            self._last = None
            try:
                value, length = self._decode(part)
            except json.JSONDecodeError as error:
                if is_rest or not _UNFINISHED.fullmatch(part, error.pos, size):
                    return None, at + error.pos
            except RecursionError:
                return None, at
            else:
                return (value, at + length) if isinstance(value, dict) else (None, at)
            size *= 8

    def fragment_at(self, at: int, wrong: int) -> tuple[int, bool]:
        """The end of what is no object, and whether it is torn.

        Args:
            at: where it starts.
            wrong: where it ceases to be JSON, as `object_at` has just said.
        """
        text, end = self._text, self._end
        starts_as_one = text[at] == "{"
        if _UNFINISHED.fullmatch(text, wrong, end):
            return end, starts_as_one and not self._may_hold_an_entry()
        behind = _BEHIND.match(text, wrong)
        for start in (behind.end() - 1 if behind else at, text.rfind("{", at, wrong)):
            if start > at and self._is_entry_at(start):
                return start, starts_as_one
        return end, False

    def _may_hold_an_entry(self) -> bool:
        """Whether a text that breaks off ends in an entry, or is one but for its last bytes."""
        text, end = self._text, self._end
        if text.startswith(_CRC_TEXT, end - CRC_LENGTH):
            return True
        return text[end - 1] == "}" and _is_entry(self._last)

    def _is_entry_at(self, start: int) -> bool:
        """Whether a whole entry stands here, and behind it nothing or the next."""
        found, end = self.object_at(start)
        if not _is_entry(found):
            return False
        wrong: list[str] = []
        line = self._text[start:end].encode("utf-8", "surrogateescape")
        check_seal(line, 0, lambda kind, offset, cause: wrong.append(kind))
        after = _after_gap(self._text, end)
        return "crc" not in wrong and (after == self._end or self._text[after] == "{")


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and "uuid" in value


def _after_gap(text: str, at: int) -> int:
    """The place after what may stand between two objects and carries nothing."""
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


_END: Final = "\x01"
"""Put behind a text: it is never JSON, so a text that breaks off goes wrong right there."""

_FIRST_LOOK: Final = 4096
_CRC_TEXT: Final = ',"crc":"'
_GAP: Final = re.compile("[ \t\r\v\f\0\ufeff]*")

_UNFINISHED: Final = re.compile(
    r"(?:-|\.|[eE][+-]?|t(?:ru?)?|f(?:als?|a)?|n(?:ul?)?|\\|\\?u[0-9a-fA-F]{0,3})?"
)
"""What is left of a text that breaks off, from where a decoder gives it up."""

_BEHIND: Final = re.compile("[^{\0]{0,7}\0*{")
"""From where a fragment ceases to be JSON to the entry behind it, if that lies ahead."""


LOOK: Final = 1024 * 1024
"""How many bytes of a file's start are looked at for an entry of ours."""


class HeaderStandIn(NamedTuple):
    """What is to be read in place of how a file starts.

    Attributes:
        header: the header's line, without LF.
        lines: that, unless the file goes on with it, and the entries that shared its line.
        number: the number of the damaged line, or of the one that a header is missing before.
        offset: its offset.
        rest: the offset from which on the file is as it should be.
        cause: what is wrong, in words.
        mending: what a repair does about it, in words.
    """

    header: bytes
    lines: list[bytes]
    number: int
    offset: int
    rest: int
    cause: str
    mending: str


def may_lack_header(start: bytes) -> bool:
    """Whether a file that starts so can be one whose header is lost; cheaper than `stand_in`."""
    line, ended, _ = start.partition(b"\n")
    return not ended or not line.strip(_NOTHING) or _may_be_damaged(line)


def stand_in(window: bytes, file: str, *, is_whole: bool) -> HeaderStandIn | None:
    """What stands for the lost header of a file; None where it is no session of ours.

    Args:
        window: how the file starts, `LOOK` bytes of it.
        file: its path, whose name may tell an id.
        is_whole: whether that is all of the file.
    """
    if stringzilla.find(window, _CRC_KEY) < 0 or _ARCHIVE.search(file):
        return None
    rows = list(_rows(window, is_whole=is_whole))
    while rows and not rows[0].line.strip(_NOTHING):
        del rows[0]
    if not rows or not _may_be_damaged(rows[0].line):
        return None
    entry = decode(rows[0].line, 0, ignore)
    if entry is not None and entry.parent_uuid is not None:
        return _before(rows, file)
    return _behind(rows) or _in_place_of(rows, file, len(window))


class _Row(NamedTuple):
    """A line, without its LF, and where it stands."""

    number: int
    offset: int
    line: bytes


def _rows(window: bytes, *, is_whole: bool) -> Iterator[_Row]:
    """The lines that lie whole in a window."""
    offset = 0
    lines = window.split(b"\n")
    for number, line in enumerate(lines if is_whole else lines[:-1], 1):
        yield _Row(number, offset, line)
        offset += len(line) + 1


def _may_be_damaged(line: bytes) -> bool:
    """Whether a first line can be a header of ours that was damaged, or what took its place."""
    try:
        keys = check_header(line, "", "")
    except (ForeignFormatError, NewerFormatError):
        if is_sealed(line.removesuffix(b"\r")):
            return not _is_sound(line)
        if b"\0" in line or not is_utf_8(line):
            return True
        left = decode_object(line.strip(_NOTHING))  # as pi has it, whose entries are not ours
        return left.get("type") == HEADER and "uuid" not in left and "format" not in left
    except SessionTreeError:
        return True
    return is_version_1(keys) or decode(line, 0, ignore) is None


def _before(rows: list[_Row], file: str) -> HeaderStandIn | None:
    """The stand-in of a file that starts with an entry."""
    lines = [row.line for row in rows]
    if not any(map(_is_ours, lines)):
        return None
    lost = _what_is_lost(b"", file)
    header = _written(b"", lines, file)
    return HeaderStandIn(
        header,
        [header],
        rows[0].number,
        rows[0].offset,
        rows[0].offset,
        f"the header before this line is lost: {lost}",
        f"put a header before the first entry; {lost}",
    )


def _behind(rows: list[_Row]) -> HeaderStandIn | None:
    """The stand-in of a file that has lines in front of its header: nothing need be made up."""
    damaged = rows[0]
    for row in rows[1:]:
        if _is_header(row.line):
            return HeaderStandIn(
                row.line,
                [],
                damaged.number,
                damaged.offset,
                row.offset,
                f"this is no entry, and stands in front of the header, line {row.number}",
                f"took out {row.offset - damaged.offset} bytes in front of the header",
            )
        if decode(row.line, 0, ignore) is not None:
            break
    return None


def _in_place_of(rows: list[_Row], file: str, end: int) -> HeaderStandIn | None:
    """The stand-in of a file whose first line was the header, or has it in its midst."""
    damaged = rows[0]
    pieces = [piece for piece in take_apart(damaged.line).pieces if _is_ours(piece)]
    later = [row.line for row in rows[1:]]
    if not any(map(_is_ours, later)) and not (pieces and damaged.line.startswith(_OPENING)):
        return None  # a text may quote an entry in its first line
    lines = [*pieces, *later]
    header = next((piece for piece in pieces if _is_header(piece)), None)
    lost = _what_is_lost(damaged.line, file)
    if header is None:
        header = _written(damaged.line, lines, file)
        cause = f"the header is damaged: {lost}"
    else:
        cause, lost = "the header shares its line with damage", "it is kept as it was"
    return HeaderStandIn(
        header,
        [header, *(piece for piece in pieces if piece != header)],
        damaged.number,
        damaged.offset,
        min(damaged.offset + len(damaged.line) + 1, end),
        cause,
        f"put a header in the place of the damaged line; {lost}",
    )


def _is_sound(line: bytes) -> bool:
    """Whether a line has a checksum of ours, and the right one."""
    line = line.removesuffix(b"\r")
    return is_sealed(line) and line[-10:] == b'%08x"}' % crc32(line[:-CRC_LENGTH])


def _is_ours(line: bytes) -> bool:
    """Whether a line is an entry of ours, or a header, and cannot be anything else."""
    if not _is_sound(line):
        return False
    entry = decode(line, 0, ignore)
    if entry is None or entry.timestamp is None:
        return False
    return bool(entry.parent_uuid) if entry.type != HEADER else _is_header(line)


def _is_header(line: bytes) -> bool:
    """Whether a line is a header of ours, whole and with the right checksum."""
    if not _is_sound(line):
        return False
    try:
        check_header(line, "", "")
    except SessionTreeError:
        return False
    return decode(line, 0, ignore) is not None


def _written(damaged: bytes, lines: list[bytes], file: str) -> bytes:
    """The line of a header, from what is left of it and what the entries say."""
    kept = _kept(damaged)
    entries = [entry for line in lines if (entry := decode(line, 0, ignore)) is not None]
    first = next(entry.timestamp for entry in entries if entry.timestamp is not None)
    id, created = _told_by_name(file) or ("", first)
    own = decode_object(damaged.strip(_NOTHING)).get("uuid") if kept else None
    fields: dict[str, Any] = {"timestamp": created, "id": id, **kept}
    fields |= {"type": HEADER, "version": VERSION, "format": FORMAT}
    fields |= {"uuid": _root(own, entries), "parentUuid": None}
    return encode(fields)


def _root(own: Any, entries: list[Entry]) -> str:
    """The uuid that the entries name as their root's."""
    named = [entry.parent_uuid for entry in entries if entry.parent_uuid]
    if isinstance(own, str) and own in named:
        return own
    there = {entry.uuid for entry in entries}
    missing = next((uuid for uuid in named if uuid not in there), None)
    return missing or uuid_of_line("", 0, entries[0].line)


def _kept(line: bytes) -> dict[str, Any]:
    """What a damaged header still says: nothing where it is no JSON, or never was a header."""
    line = line.strip(_NOTHING)
    try:
        value = orjson.loads(line)
        told = value if isinstance(value, dict) else {}
        is_header = told.get("type") == HEADER or told.get("format") == FORMAT
        return dict(raw_values(line)) if is_header else {}
    except (orjson.JSONDecodeError, msgspec.MsgspecError, RecursionError):
        return {}


def _what_is_lost(damaged: bytes, file: str) -> str:
    """What is lost of what a header alone said, in words."""
    if _kept(damaged):
        return "what can be read of it is kept"
    if _told_by_name(file) is not None:
        return "its cwd, name and metadata are lost, its id is in the file's name"
    return "its id, cwd, name and metadata are lost"


def _told_by_name(file: str) -> tuple[str, str] | None:
    """The id and the time that the name of a store's file tells."""
    found = _OWN_NAME.search(file)
    return found and (found["id"], "{}T{}:{}:{}.{}Z".format(*found.groups()[:5]))


_CRC_KEY: Final = b',"crc":"'
_OPENING: Final = b'{"type":"session"'
_ARCHIVE: Final = re.compile(r"\.archive-\d{4}-\d\d-\d\d\Z")
"""Ends the name of a file of entries that garbage collection took out: it has no header."""

_NOTHING: Final = b"\0\r\t \xef\xbb\xbf"
_OWN_NAME: Final = re.compile(
    r"(?:\A|/)(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z_(?P<id>[0-9A-Za-z.-]{1,64})\.jsonl\Z"
)
"""How a store names a file, where the id stands in the name as it is."""
