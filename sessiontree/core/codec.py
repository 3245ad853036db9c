"""The bytes of a line: encoding and decoding entries, and runs of short lines.

A session is UTF-8 text, one JSON object a line, each ended by LF. A line is written with its keys
in this order:

    type, [version, format,] uuid, parentUuid, [lane,] timestamp,
    the fields of its type, [metadata,] [spilled,] crc

Its last 18 bytes are `,"crc":"xxxxxxxx"}`: the CRC-32 of zlib, in lower-case hexadecimal, of all
bytes before that comma. A line that ends otherwise is unverifiable, not wrong. When read, keys may
have any order and spacing.

A file of a few megabytes may have millions of lines without an entry, such as blank lines. A
finding for each would take more time and memory than the rest of the file, so short lines in a row
that are alike are a run, which is reported once, with the number of its lines.

Invariants:

- `decode(encode(x))` gives x back.
- A line is an entry exactly when it is a JSON object with a non-empty string `uuid` and a string
  `type`, whichever decoder reads it.
- A sound line is decoded once.
- A line in a run is shorter than any entry. Lines that are not in a run are given one by one.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import accumulate, repeat, takewhile
from operator import itemgetter
from typing import Any, Final, Protocol, overload
from zlib import crc32

import msgspec
import orjson
from msgspec import UNSET
from msgspec.structs import force_setattr

from sessiontree.core.damage import Report
from sessiontree.core.entry import (
    BOM,
    HEADER,
    MAIN,
    Block,
    Entry,
    bare_line,
    decode_leniently,
    stored,
    with_fetch,
)
from sessiontree.core.jsonbytes import dumps, is_beyond_double
from sessiontree.core.message import MAX_BLOCKS, count_of_blocks
from sessiontree.core.spill import Fetch
from sessiontree.errors import EntryError, TooMuchError

FORMAT: Final = "sessiontree/2"
VERSION: Final = 2

CRC_LENGTH: Final = 18
_UUID_AT: Final = len('{"type":"","uuid":')  # a line's uuid is here, plus the length of the type
CRC_KEY: Final = b',"crc":"'
_HEX: Final = frozenset(b"0123456789abcdef")
_SEALED_PART: Final = itemgetter(slice(0, -CRC_LENGTH - 1))  # of a line with its LF
_SEAL: Final = itemgetter(slice(-len('00000000"}\n'), None))  # of a line with its LF

_SURROGATE: Final = re.compile(rb"\\u([dD])([89a-fA-F][0-9a-fA-F]{2})")
_STAND_IN: Final = re.compile(rb"\\u([eE])([89a-fA-F][0-9a-fA-F]{2})")
_PRIVATE: Final = re.compile("[\ue800-\uefff]")

_LEADING: Final = ("type", "version", "format", "uuid", "parentUuid", "lane", "timestamp")


class LineHead(msgspec.Struct, gc=False):
    """The structural keys of a line. All others are skipped without decoding."""

    type: str
    uuid: str
    parent_uuid: str | None = msgspec.field(default=None, name="parentUuid")
    lane: str | None = None


_decode_entry: Final = msgspec.json.Decoder(Entry).decode
_decode_head: Final = msgspec.json.Decoder(LineHead).decode
_decode_values: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def seal(body: bytes) -> bytes:
    """A JSON object's bytes with the `crc` key added as the last."""
    open_body = body[:-1]
    return open_body + b',"crc":"%08x"}' % crc32(open_body)


def encode(fields: Mapping[str, Any]) -> bytes:
    """The line of an entry, sealed, without LF, its keys in the order of the format.

    Values may be `orjson.Fragment` for JSON bytes. A value that JSON cannot carry is an EntryError.
    """
    ordered = {key: fields[key] for key in _LEADING if key in fields}
    ordered |= fields
    ordered.pop("crc", None)
    _put_last(ordered)
    return seal(dumps(ordered))


def encode_new(
    type: str, uuid: str, parent: str, lane: str | None, timestamp: str, fields: Mapping[str, Any]
) -> bytes:
    """The line of a new entry: its structural keys, then `fields`; see `encode`."""
    keys: dict[str, Any] = {"type": type, "uuid": uuid, "parentUuid": parent}
    if lane is not None:
        keys["lane"] = lane
    keys["timestamp"] = timestamp
    keys |= fields
    if len(fields) > 1:
        _put_last(keys)
    line = seal(dumps(keys))
    if len(line) > BYTES_OF_MANY_BLOCKS and (count := blocks_beyond(fields.get("message"))):
        raise EntryError(
            f"the message has {count:,} content blocks and calls; a message may have "
            f"{MAX_BLOCKS:,}: append it as several"
        )
    return line


def _put_last(keys: dict[str, Any]) -> None:
    for key in ("metadata", "spilled"):
        if key in keys:
            keys[key] = keys.pop(key)


def lines_in(block: bytes) -> list[bytes]:
    """The lines of a block of whole lines, without their LF.

    On lines of 2 KB this is many times as fast as `bytes.split`, which tests every byte.
    """
    return [line[:-1] for line in BytesIO(block)]


def ended_lines(block: bytes) -> list[bytes]:
    """The same lines with their LF, at half the cost."""
    return BytesIO(block).readlines()


def raw_values(line: bytes) -> dict[str, orjson.Fragment]:
    """The keys of a line, each value as the bytes it was written with."""
    return {key: orjson.Fragment(raw) for key, raw in raw_json(line).items()}


def raw_json(line: bytes) -> dict[str, bytes]:
    """The keys of a line, each value as its raw bytes."""
    try:
        values = _decode_values(line)
    except msgspec.MsgspecError:
        return _raw_json_with_surrogates(line)
    return {key: bytes(raw) for key, raw in values.items()}


def _raw_json_with_surrogates(line: bytes) -> dict[str, bytes]:
    """The same for a line with lone surrogates: private characters replace them while decoding."""
    values = _decode_values(_SURROGATE.sub(lambda found: _respelled(found, 1), line))
    if _STAND_IN.search(line) or any(_PRIVATE.search(key) for key in values):
        raise msgspec.DecodeError("lone surrogates cannot be told from private characters")
    return {
        key: _STAND_IN.sub(lambda found: _respelled(found, -1), bytes(raw))
        for key, raw in values.items()
    }


def _respelled(escape: re.Match[bytes], step: int) -> bytes:
    r"""An escape with its first digit changed by a step: `\ud83d` becomes `\ue83d`, and back."""
    return b"\\u%c%b" % (ord(escape[1]) + step, escape[2])


def head(line: bytes, offset: int, report: Report) -> LineHead | Entry | None:
    """The structural keys of a line, or None where it is not an entry (reported)."""
    try:
        found = _decode_head(line)
    except _REFUSED:
        return _decode_hard(line, offset, report)
    if found.lane is not None and found.lane == MAIN:
        found.lane = None
    return found if found.uuid else _decode_hard(line, offset, report)


def heads_of(lines: list[bytes]) -> list[LineHead]:
    """The structural keys of lines as written; empty where one line is not sound.

    `head` decodes such a line, and also turns the lane name `main` into None.
    """
    try:
        return list(map(_decode_head, lines))
    except _REFUSED:
        return []


class Decode(Protocol):
    """Gives the entry of a line, or None where the line holds none."""

    def __call__(self, line: bytes, offset: int, uuid: str | None = None, /) -> Entry | None:
        """Decode a line, given without its LF, and the offset of its first byte.

        With a uuid, the result is None where the line has another, or spells its uuid with escapes.
        """


BYTES_OF_MANY_BLOCKS: Final = 2 * MAX_BLOCKS
"""Bytes of a line that may have more blocks than `MAX_BLOCKS`."""


def blocks_beyond(message: Any) -> int:
    """How many content blocks and calls a message has, if that is more than is read; else 0.

    Such a message would take a hundred times the memory of its line.
    """
    count = count_of_blocks(message) if isinstance(message, dict) else 0
    return count if count > MAX_BLOCKS else 0


def decoder(report: Report, fetch: Fetch | None = None, header_at: int | None = None) -> Decode:
    """Make a function that decodes lines.

    Args:
        report: takes damage.
        fetch: reads blobs when spilled strings are asked for.
        header_at: the offset of the header; a header at another offset is not an entry. None: any
            header is an entry.
    """

    def decode(line: bytes, offset: int, uuid: str | None = None, /) -> Entry | None:
        try:
            entry = _decode_entry(line)
        except _REFUSED:
            return hard(line, offset, uuid)
        if uuid is not None:
            if entry.uuid != uuid:
                return None
            spelled = f'"{uuid}"'.encode()
            if not line.startswith(spelled, _UUID_AT + len(entry.type)) and spelled not in line:
                return None
        if not entry.uuid:
            return hard(line, offset, uuid)
        if entry.type == HEADER and offset != header_at is not None:
            report_header(entry, offset, report)
            return None
        if line[-10:] != b'%08x"}' % crc32(line[:-CRC_LENGTH]):
            _check_unsealed(line, offset, report)
        force_setattr(entry, "_line", line)  # `stored`, inlined: every line of a path gets here
        force_setattr(entry, "_at", offset)
        if entry.lane is not None and entry.lane == MAIN:
            force_setattr(entry, "lane", None)
        if entry.message_value is UNSET or entry.spilled_value is not UNSET:
            with_fetch(entry, fetch)
        elif len(line) > BYTES_OF_MANY_BLOCKS and (count := blocks_beyond(entry.message_value)):
            raise TooMuchError(
                f"the message of entry {entry.uuid}, at byte {offset:,} of the file, has {count:,} "
                f"content blocks and calls; at most {MAX_BLOCKS:,} are read. Remove the line from "
                "a copy, and open the copy"
            )
        return entry

    def hard(line: bytes, offset: int, uuid: str | None) -> Entry | None:
        if uuid is not None and quoted(uuid) not in line:
            return None
        entry = _decode_hard(line, offset, report, fetch)
        if entry is None or uuid not in (None, entry.uuid):
            return None
        if entry.type == HEADER and offset != header_at is not None:
            report_header(entry, offset, report)
            return None
        return entry

    return decode


def report_header(found: LineHead | Entry, offset: int, report: Report) -> None:
    """Report a second header, which is not an entry of the tree."""
    report("second header", offset, f"a second header, {found.uuid}")


class Chain(Sequence[Entry]):
    """Entries of lines that follow each other in the file, each the parent of the next.

    A context needs the messages of a long path, and seldom the entries. So an entry learns its
    place when the entries are first asked for, and `let_go` keeps only the lines and the messages:
    half of the memory. The entries are then decoded again, once, from the same bytes.
    """

    __slots__ = ("_block", "_entries", "_fetch", "_messages", "read", "top")

    def __init__(self, block: Block, read: list[Entry], fetch: Fetch | None) -> None:
        self._block = block
        self._fetch = fetch
        self._entries: list[Entry] = []
        self._messages: list[Any] = []
        self.top = stored(read[0], block, block.offset)  # the first entry
        # the entries as decoded, which do not know their place yet; empty after `let_go`
        self.read = read

    def let_go(self, messages: list[Any]) -> None:
        """Keep the lines and the messages, of which each entry has one, in place of the entries."""
        self._messages = messages
        self.read = self._entries

    @property
    def entries(self) -> list[Entry]:
        """The entries, made the first time. Do not change the list."""
        if not self._entries:
            self._entries = self.read = self._made()
            self._messages = []
        return self._entries

    def has(self, mark: bytes) -> bool:
        """True if some bytes are in the lines."""
        return self._block.lines.find(mark) >= 0

    def uuids(self) -> list[str]:
        """The uuids of the entries, which are not made for that."""
        heads = self.read or map(_decode_head, ended_lines(self._block.lines))
        return [head.uuid for head in heads]

    def _made(self) -> list[Entry]:
        lines = ended_lines(self._block.lines)
        entries, messages = self.read, self._messages
        if not entries:
            entries = list(map(_decode_entry, lines))
            any(map(force_setattr, entries, repeat("message_value"), messages))
            _put_right(entries, self._fetch)
            entries[0] = self.top
        offsets = accumulate(map(len, lines), initial=self._block.offset)
        any(map(force_setattr, entries, repeat("_line"), repeat(self._block)))
        any(map(force_setattr, entries, repeat("_at"), offsets))
        return entries

    def __len__(self) -> int:
        return len(self.read) or len(self._messages)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        return self.top if at == 0 else self.entries[at]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __reversed__(self) -> Iterator[Entry]:
        return reversed(self.entries)


class DecodeChain(Protocol):
    """Gives the entries at the end of a block, each the parent of the next."""

    def __call__(self, block: bytes, offset: int, uuid: str, /) -> Chain | None:
        """Decode the end of a block of whole lines, given with the offset of its first byte.

        The last entry has the uuid; entries are in file order. The result is None where the last
        line has another uuid, and where a line is not as this version writes it: `Decode` then
        decodes the lines one by one, and reports the damage.
        """


def chain_decoder(fetch: Fetch | None = None, header_at: int = 0) -> DecodeChain:
    """A function that decodes many lines in a few calls, each for all lines; see `decoder`."""

    def decode_chain(block: bytes, offset: int, uuid: str, /) -> Chain | None:
        lines = ended_lines(block)
        if not lines or quoted(uuid) not in lines[-1]:
            return None
        try:
            entries = list(map(_decode_entry, lines))
        except _REFUSED:
            return None
        if not _are_sealed(lines):
            return None
        uuids = [entry.uuid for entry in entries]
        above = len(uuids) - _length_of_chain(entries, uuids, uuid)
        if above == len(uuids):
            return None
        if above:
            skipped = sum(map(len, lines[:above]))
            block, offset = block[skipped:], offset + skipped
            del lines[:above], entries[:above], uuids[:above]
        if b"\\" in block and not _are_spelled_plainly(lines, entries, uuids):
            return None
        if HEADER in {entry.type for entry in entries[1:]}:
            return None
        if entries[0].type == HEADER and offset != header_at:
            return None
        _put_right(entries, fetch)
        return Chain(Block(block, offset), entries, fetch)

    return decode_chain


def _put_right(entries: list[Entry], fetch: Fetch | None) -> None:
    """Do for the fresh entries of a chain what `decoder` does for one, where it is needed."""
    uuids = [entry.uuid for entry in entries]
    any(map(force_setattr, entries[1:], repeat("parent_uuid"), uuids))  # equal: one is enough
    for entry in [
        entry
        for entry in entries
        if entry.message_value is UNSET
        or entry.spilled_value is not UNSET
        or entry.lane is not None
    ]:
        if entry.lane == MAIN:
            force_setattr(entry, "lane", None)
        with_fetch(entry, fetch)


def _length_of_chain(entries: list[Entry], uuids: list[str], uuid: str) -> int:
    """How many entries at the end are each the parent of the next, the last with this uuid."""
    wanted = [entry.parent_uuid for entry in entries[1:]]
    wanted.append(uuid)
    if uuids == wanted and all(uuids):
        return len(uuids)
    pairs = zip(reversed(uuids), reversed(wanted), strict=True)
    return sum(takewhile(bool, (found == named != "" for found, named in pairs)))


def _are_sealed(lines: list[bytes]) -> bool:
    sums = array("I", map(crc32, map(_SEALED_PART, lines)))
    if sys.byteorder == "little":
        sums.byteswap()
    seals = sums.tobytes().hex("\n", sums.itemsize).replace("\n", '"}\n') + '"}\n'
    return b"".join(map(_SEAL, lines)) == seals.encode()


def _are_spelled_plainly(lines: list[bytes], entries: list[Entry], uuids: list[str]) -> bool:
    length = len(uuids[0]) if uuids else 0
    if set(map(len, uuids)) == {length}:  # then the parts of two equal texts are equal too
        at = lines[0].find(quoted(uuids[0]))
        spelled = [line[at : at + length + 2] for line in lines]
        wanted = '"' + '""'.join(uuids) + '"'
        if wanted.isascii() and b"".join(spelled) == wanted.encode():
            return True
    return all(map(_is_spelled_plainly, entries, lines))


def _is_spelled_plainly(entry: Entry, line: bytes) -> bool:
    """True if a line has the uuid of its entry without escapes."""
    spelled = quoted(entry.uuid)
    return line.startswith(spelled, _UUID_AT + len(entry.type)) or spelled in line


def head_decoder(report: Report, header_at: int) -> Decode:
    """A function that decodes no more than the structural keys of a line; see `decoder`.

    It checks no checksum.
    """

    def decode(line: bytes, offset: int, uuid: str | None = None, /) -> Entry | None:
        found = head(line, offset, report)
        if found is None or (uuid is not None and found.uuid != uuid):
            return None
        if found.type == HEADER and offset != header_at:
            report_header(found, offset, report)
            return None
        if uuid is not None:
            spelled = f'"{uuid}"'.encode("utf-8", "surrogatepass")
            if not line.startswith(spelled, _UUID_AT + len(found.type)) and spelled not in line:
                return None
        entry = Entry(found.type, found.uuid, found.parent_uuid, found.lane)
        return stored(entry, line, offset)

    return decode


def quoted(uuid: str) -> bytes:
    """A uuid as its line spells it without escapes."""
    return b'"%b"' % uuid.encode("utf-8", "surrogatepass")


def decode(line: bytes, offset: int, report: Report) -> Entry | None:
    """The entry of one line; see `decoder`."""
    return decoder(report)(line, offset)


def check_seal(line: bytes, offset: int, report: Report) -> None:
    """Report a wrong checksum, or what is wrong with a line that has none."""
    if line[-10:] != b'%08x"}' % crc32(line[:-CRC_LENGTH]):
        _check_unsealed(line, offset, report)


def is_sealed(line: bytes) -> bool:
    """True if the line ends in a checksum, right or wrong."""
    return line[-18:-10] == CRC_KEY and line[-2:] == b'"}' and _HEX.issuperset(line[-10:-2])


def is_utf_8(line: bytes) -> bool:
    """True if the bytes are text in UTF-8."""
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


def _check_unsealed(line: bytes, offset: int, report: Report) -> None:
    if line.endswith(b"\r"):
        report("crlf", offset, "the line ends in CR LF")
        line = line[:-1]
    if is_sealed(line):
        right = b"%08x" % crc32(line[:-CRC_LENGTH])
        if line[-10:-2] != right:
            cause = f"wrong crc: the line says {line[-10:-2].decode()}, its bytes {right.decode()}"
            report("crc", offset, cause)
    elif _has_number_beyond_double(line):  # a checksum is of a writer that refuses such a number
        report("number", offset, "a number beyond the range of a double, 1.8e308")
    check_text(line, offset, report)


_SPELLING: Final = bytes.maketrans(b"123456789+E", b"000000000" + b"0e")
_LONG: Final = b"0" * 200  # an exponent of two digits makes no shorter number so large


def _has_number_beyond_double(line: bytes) -> bool:
    """True if a line of JSON has a number beyond a double; nearly always found undecoded."""
    digits = line.translate(_SPELLING)
    if b"0e000" not in digits and _LONG not in digits:
        return False
    try:
        orjson.loads(line)  # which refuses such a number
    except orjson.JSONDecodeError:
        return is_beyond_double(decode_leniently(line))
    return False


def check_text(line: bytes, offset: int, report: Report) -> None:
    """Report bytes that are not UTF-8."""
    try:
        line.isascii() or line.decode()
    except UnicodeDecodeError as error:
        report("utf-8", offset, f"invalid UTF-8 {error.start} bytes into the line")


def _decode_hard(
    line: bytes, offset: int, report: Report, fetch: Fetch | None = None
) -> Entry | None:
    bare = bare_line(line)
    if len(bare) != len(line):
        marks = line[: line.find(bare)].count(BOM) if bare else line.count(BOM)
        if zeros := len(line) - len(bare) - marks * len(BOM):
            report("nul", offset, f"{zeros} NUL bytes in the line")
        if marks:
            report("bom", offset, "a byte order mark in front of the line")
        elif not bare:
            return None
    if not bare.strip():
        report("blank", offset, "a blank line")
        return None
    value = decode_leniently(bare)
    if value is None and bare.strip() != b"null":
        breaks_off = bare.startswith(b'{"type":') and not bare.rstrip(b"\r").endswith(b"}")
        more = ": it ends in the middle of an entry" if breaks_off else ""
        report("json", offset, f"the line is not JSON{more}")
        return None
    entry = _from_object(value, offset, report)
    if entry is None:
        return None
    _check_unsealed(bare, offset, report)
    body = None if entry.spilled_value is not UNSET else value
    return with_fetch(stored(entry, line, offset, body), fetch)


def _from_object(value: Any, offset: int, report: Report) -> Entry | None:
    if not isinstance(value, dict):
        report("object", offset, f"the line is JSON, but a {_json_name(value)}, not an object")
        return None
    uuid, kind = value.get("uuid"), value.get("type")
    if not isinstance(uuid, str) or not uuid:
        report("no uuid", offset, "an entry without a uuid")
        return None
    if not isinstance(kind, str):
        report("object", offset, f"entry {uuid} has no type")
        return None
    parent, lane, timestamp = (value.get(key) for key in ("parentUuid", "lane", "timestamp"))
    if not isinstance(parent, str | None):
        report("missing parent", offset, f"the parentUuid of {uuid} is not a string")
        parent = None
    return Entry(
        type=kind,
        uuid=uuid,
        parent_uuid=parent,
        lane=lane if isinstance(lane, str) and lane != MAIN else None,
        timestamp=timestamp if isinstance(timestamp, str) else None,
        message_value=value.get("message", UNSET),
        spilled_value=value.get("spilled", UNSET),
    )


def _json_name(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "list"}
    return names.get(type(value), "null")


SHORTEST_ENTRY: Final = len('{"type":"","uuid":"x"}')

_RUN: Final = re.compile(
    rb"(?:(?<=\n)|\A)([^\n]{0,%d}\n)\1{7,}+" % (SHORTEST_ENTRY - 1)  # at least eight lines alike
)
Lines = list[bytes]
"""Consecutive lines, each with its LF."""


def parts(block: bytes, lines: Lines | None = None) -> Iterator[tuple[Lines, int]]:
    """Whole lines as parts: lines and 1, or the one line of a run and how often it stands there."""
    lines = ended_lines(block) if lines is None else lines
    # A block whose lines are longer than this on average has too few short lines to look for runs
    if len(lines) * 40 <= len(block):
        yield lines, 1
        return
    done = 0
    for run in _RUN.finditer(block):
        if done < run.start():
            yield ended_lines(block[done : run.start()]), 1
        yield [run[1]], (run.end() - run.start()) // len(run[1])
        done = run.end()
    if done < len(block):
        yield ended_lines(block[done:]), 1


def report_run(line: bytes, count: int, offset: int, report: Report) -> None:
    """Report what is wrong with `count` lines alike, given without LF, the first at `offset`."""

    def report_all(kind: str, offset: int, cause: str) -> None:
        report(kind, offset, f"{cause}, and {count - 1:,} more lines like it follow")

    head(line, offset, report_all)
