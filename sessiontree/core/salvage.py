"""Salvage: what can be read of a damaged line, and of a file whose header is lost.

`take_apart` splits a line that is not JSON into whole objects, torn fragments, and the rest. A
writer that was cut off leaves the beginning of an object, and another that writes next without a
newline puts its entry right behind it. A torn fragment is the beginning of an object that breaks
off, at the end of the line or where a whole entry follows. Where that entry could as well be a
value inside the fragment, both stay together. A line that is damaged in another way (a flipped bit,
zeros in the middle) has no fragments, because its content may still be recognized.

Invariants: a piece holds bytes of the line, unchanged and in their order; whole objects are never
lost; a piece taken apart again gives itself.

`spans_of_objects` finds the whole objects in a line of another agent, whose entries have no
checksum: those at the top, and behind a torn fragment those that are certainly lines of the agent.
`End` finds the line in which an object ends that began on an earlier one.

`stand_in` makes a replacement for a lost header, so that the rest of the file can be read. A header
is lost where the first line is not a header and a later line is certainly an entry of this format:
it has a uuid, a parent and a timestamp, and its checksum is right. The replacement is made from the
file alone, so it is always the same: the root's uuid is the one that the first entries name as
parent and no entry has; what is still JSON in the damaged line is kept; the file's name may give
the id and the time.

Invariants: a header that names another format, is UTF-8 without NUL, and whose checksum is right or
absent, is never taken for damaged (one of pi or of version 1, which only lacks keys, is, because no
such entries follow it there); no sound entry is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import accumulate, count
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import orjson
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.codec import (
    CRC_KEY,
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
from sessiontree.core.entry import HEADER, Entry, bare_line, decode_object
from sessiontree.core.header import check_header, is_version_1
from sessiontree.core.migrate import uuid_of_line
from sessiontree.errors import ForeignFormatError, NewerFormatError, SessionTreeError

LOOK: Final = 1024 * 1024  # how many bytes at a file's start are searched for an entry

_CRC_TEXT: Final = CRC_KEY.decode()
_GAP: Final = re.compile("[ \t\r\v\f\0\ufeff]*")
_END: Final = "\x01"  # added to a text; never JSON, so that a text that breaks off fails there
# The rest of a text that breaks off, from where a decoder fails.
_UNFINISHED: Final = re.compile(
    r"(?:-|\.|[eE][+-]?|t(?:ru?)?|f(?:als?|a)?|n(?:ul?)?|\\|\\?u[0-9a-fA-F]{0,3})?"
)
# From where a fragment stops being JSON to an entry just behind it.
_BEHIND: Final = re.compile("[^{\0]{0,7}\0*{")

_OPENING: Final = b'{"type":"session"'
_NOTHING: Final = b"\0\r\t \xef\xbb\xbf"
_ARCHIVE: Final = re.compile(r"\.archive-\d{4}-\d\d-\d\d\Z")  # an archive of garbage, no header
# The name of a store's file, with the id unchanged in it.
_OWN_NAME: Final = re.compile(
    r"(?:\A|/)(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z_(?P<id>[0-9A-Za-z.-]{1,64})\.jsonl\Z"
)


class LineParts(NamedTuple):
    """A line taken apart."""

    pieces: list[bytes]  # the parts to keep, each on a line of its own
    entries: int  # how many of the pieces are whole objects
    torn: int  # the number of bytes in torn fragments, which are left out


def take_apart(line: bytes) -> LineParts:
    """The parts of a line that is not JSON."""
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
    return LineParts(pieces, entries, torn)


IsLine = Callable[[Mapping[str, Any]], bool]
"""True if an object, by its keys, is a line of an agent."""

_AS_SPACES: Final = bytes.maketrans(bytes(range(32)), b" " * 32)
_BETWEEN: Final = re.compile(rb"(?:[\s\0,\[\]]|\xef\xbb\xbf)*+")


def without_separators(text: bytes, start: int = 0) -> int:
    """Where the content of a text begins: past space, commas, brackets and byte order marks."""
    between = _BETWEEN.match(text, start)
    return between.end() if between else start


def spans_of_objects(line: bytes, is_line: IsLine) -> list[tuple[int, int]]:
    """Where the whole objects of a line begin and end.

    An object counts if nothing but separators is before it, or if it is a line by its keys. Control
    characters within strings are allowed. The time is linear in the line's length: what many
    beginnings of objects in a fragment may cost is bounded.
    """
    broken = _Broken(line.translate(_AS_SPACES).decode("latin-1") + _END)
    spans: list[tuple[int, int]] = []
    left = _TRIES * len(line) + _LEAST
    at = done = 0
    is_list = line[done : without_separators(line)].count(b"[") > 0
    while left > 0 and (start := line.find(b"{", at)) >= 0:
        found, end = broken.object_at(start)
        left -= max(end - start, _COST if found is None else 0)
        if found is None:
            at = start + 1
            continue
        at = end
        is_at_top = not is_list and without_separators(line, done) == start
        if is_at_top or is_line(found):
            spans.append((start, end))
            done = end
    return spans


_TRIES: Final = 32
_LEAST: Final = 1 << 22
_COST: Final = 4096  # of a try in vain, at least, in bytes
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'(?:[^"\\]|\\.)*+"', re.DOTALL)


class End:
    """Finds the end of an object that takes several lines; `scan` takes them one by one."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_string = False

    def scan(self, line: bytes, start: int = 0) -> int | None:
        """Where the object ends in its next line; None if it goes on."""
        at = start
        while True:
            if self._is_in_string:
                string = _IN_STRING.match(line, at)
                if string is None:
                    return None
                self._is_in_string, at = False, string.end()
            found = _STRUCTURE.search(line, at)
            if found is None:
                return None
            at = found.end()
            mark = found[0]
            if mark == b'"':
                self._is_in_string = True
            elif mark in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return at


class _Broken:
    """Reads the objects in a text that is not JSON as a whole and ends with `_END`."""

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
        """The object at a place and its end; or None and where the text stops being JSON."""
        size = 4096
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
        """The end of text that is not an object, and whether it is torn.

        It starts at `at`, and stops being JSON at `wrong`.
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
        """True if a text that breaks off ends in an entry, or is one without its last bytes."""
        text, end = self._text, self._end
        if text.startswith(_CRC_TEXT, end - CRC_LENGTH):
            return True
        return text[end - 1] == "}" and _is_entry(self._last)

    def _is_entry_at(self, start: int) -> bool:
        """True if a whole entry starts here, and nothing or another object follows it."""
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
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


class SubstituteHeader(NamedTuple):
    """What to read in place of the start of a file."""

    header: bytes  # the header's line, without LF
    # The lines to read before `rest`: the header, unless it is in `rest`, and entries that shared
    # its line.
    lines: list[bytes]
    number: int  # the number of the damaged line, or of the line that a header is missing before
    offset: int  # its offset
    rest: int  # the offset from which on the file is read as it is
    cause: str  # what is wrong, in words
    repair: str  # what a repair does about it, in words


def may_lack_header(start: bytes) -> bool:
    """True if the header of a file that starts so may be lost; cheaper than `stand_in`."""
    line, ended, _ = start.partition(b"\n")
    return not ended or not line.strip(_NOTHING) or _may_be_damaged(line)


def stand_in(window: bytes, file: str, *, is_whole: bool) -> SubstituteHeader | None:
    """The replacement for the lost header of a file; None where the file is not a session.

    The window is the first `LOOK` bytes of the file. The name in the path may give an id.
    """
    if stringzilla.find(window, CRC_KEY) < 0 or _ARCHIVE.search(file):
        return None
    lines = window.split(b"\n")
    starts = accumulate((len(line) + 1 for line in lines), initial=0)
    rows = list(map(_Row, count(1), starts, lines if is_whole else lines[:-1]))
    while rows and not rows[0].line.strip(_NOTHING):
        del rows[0]
    if not rows or not _may_be_damaged(rows[0].line):
        return None
    entry = decode(rows[0].line, 0, ignore)
    if entry is not None and entry.parent_uuid is not None:
        return _before(rows, file)
    return _behind(rows) or _in_place_of(rows, file, len(window))


class _Row(NamedTuple):
    number: int
    offset: int
    line: bytes


def _may_be_damaged(line: bytes) -> bool:
    """True if a first line may be a damaged header, or what replaced it."""
    try:
        keys = check_header(line, "", "")
    except (ForeignFormatError, NewerFormatError):
        if is_sealed(line.removesuffix(b"\r")):
            return not _is_sound(line)
        if b"\0" in line or not is_utf_8(line):
            return True
        left = decode_object(line.strip(_NOTHING))  # as pi writes it, without entries like these
        return left.get("type") == HEADER and "uuid" not in left and "format" not in left
    except SessionTreeError:
        return True
    return is_version_1(keys) or decode(line, 0, ignore) is None


def _before(rows: list[_Row], file: str) -> SubstituteHeader | None:
    lines = [row.line for row in rows]
    if not any(map(_is_own, lines)):
        return None
    lost = _what_is_lost(b"", file)
    header = _written(b"", lines, file)
    number, offset, _ = rows[0]
    cause = f"the header before this line is lost: {lost}"
    repair = f"put a header before the first entry; {lost}"
    return SubstituteHeader(header, [header], number, offset, offset, cause, repair)


def _behind(rows: list[_Row]) -> SubstituteHeader | None:
    number, offset, _ = rows[0]
    for row in rows[1:]:
        if _is_header(row.line):
            cause = f"this is not an entry, and it is before the header, line {row.number}"
            repair = f"removed {row.offset - offset} bytes before the header"
            return SubstituteHeader(row.line, [], number, offset, row.offset, cause, repair)
        if decode(row.line, 0, ignore) is not None:
            break
    return None


def _in_place_of(rows: list[_Row], file: str, end: int) -> SubstituteHeader | None:
    number, offset, damaged = rows[0]
    pieces = [piece for piece in take_apart(damaged).pieces if _is_own(piece)]
    later = [row.line for row in rows[1:]]
    if not any(map(_is_own, later)) and not (pieces and damaged.startswith(_OPENING)):
        return None  # the first line of a text may quote an entry
    lines = [*pieces, *later]
    header = next((piece for piece in pieces if _is_header(piece)), None)
    cause, lost = "the header shares its line with damage", "it is kept"
    if header is None:
        header, lost = _written(damaged, lines, file), _what_is_lost(damaged, file)
        cause = f"the header is damaged: {lost}"
    before = [header, *(piece for piece in pieces if piece != header)]
    rest = min(offset + len(damaged) + 1, end)
    repair = f"replaced the damaged line with a header; {lost}"
    return SubstituteHeader(header, before, number, offset, rest, cause, repair)


def _is_sound(line: bytes) -> bool:
    line = bare_line(line.removesuffix(b"\r"))
    return is_sealed(line) and line[-10:] == b'%08x"}' % crc32(line[:-CRC_LENGTH])


def _is_own(line: bytes) -> bool:
    """True if a line is certainly an entry or a header of this format."""
    if not _is_sound(line):
        return False
    entry = decode(line, 0, ignore)
    if entry is None or entry.timestamp is None:
        return False
    return bool(entry.parent_uuid) if entry.type != HEADER else _is_header(line)


def _is_header(line: bytes) -> bool:
    if not _is_sound(line):
        return False
    try:
        check_header(line, "", "")
    except SessionTreeError:
        return False
    return decode(line, 0, ignore) is not None


def _written(damaged: bytes, lines: list[bytes], file: str) -> bytes:
    kept = _kept(damaged)
    found = [entry for line in lines if (entry := decode(line, 0, ignore)) is not None]
    entries = [entry for entry in found if entry.type != HEADER] or found
    first = next(entry.timestamp for entry in entries if entry.timestamp is not None)
    id, created = _id_and_time_of(file) or ("", first)
    own = decode_object(damaged.strip(_NOTHING)).get("uuid") if kept else None
    fields: dict[str, Any] = {"timestamp": created, "id": id, **kept}
    fields |= {"type": HEADER, "version": VERSION, "format": FORMAT}
    fields |= {"uuid": _root(own, entries), "parentUuid": None}
    return encode(fields)


def _root(own: Any, entries: list[Entry]) -> str:
    named = [entry.parent_uuid for entry in entries if entry.parent_uuid]
    if own in named:
        return str(own)
    there = {entry.uuid for entry in entries}
    return next((u for u in named if u not in there), None) or uuid_of_line("", 0, entries[0].line)


def _kept(line: bytes) -> dict[str, Any]:
    """The keys of a damaged header; empty where it is not JSON, or never was a header."""
    line = line.strip(_NOTHING)
    try:
        keys = orjson.loads(line)
        if not isinstance(keys, dict):
            return {}
        is_header = keys.get("type") == HEADER or keys.get("format") == FORMAT
        return dict(raw_values(line)) if is_header else {}
    except (orjson.JSONDecodeError, msgspec.MsgspecError, RecursionError):
        return {}


def _what_is_lost(damaged: bytes, file: str) -> str:
    if _kept(damaged):
        return "its readable part is kept"
    if _id_and_time_of(file) is not None:
        return "its cwd, name and metadata are lost, its id is in the file's name"
    return "its id, cwd, name and metadata are lost"


def _id_and_time_of(file: str) -> tuple[str, str] | None:
    found = _OWN_NAME.search(file)
    return found and (found["id"], "{}T{}:{}:{}.{}Z".format(*found.groups()[:5]))
