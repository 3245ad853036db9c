"""The entries of a source, with what reading in place leaves out.

A source line holds more than its entry: a request's id, a tool's result as the program
saw it, a git branch. The keys that the entry does not hold, under the same name or its
name here, are in the entry's key `original`, byte for byte, once for each line. A result
that Claude Code stored in a file of its own is in `toolResults`, under the file's name.

Invariants: an entry gives the same context as the source read in place; the same line
gives the same bytes, whatever follows it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from sessiontree.core.codec import BYTES_OF_MANY_BLOCKS, blocks_beyond, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import MOST_BLOCKS
from sessiontree.core.origin import KEY as ORIGIN
from sessiontree.core.origin import origin_of
from sessiontree.core.spill import spill
from sessiontree.errors import EntryError, TooMuchError
from sessiontree.formats.base import Place, Values, encoded, values
from sessiontree.formats.writing import json_of
from sessiontree.importing.source import Source

_OF_LOGS: Final = frozenset({"codex", "gemini"})
"""The agents of whose lines several entries are made, which all have the line's origin."""

ORIGINAL: Final = "original"
TOOL_RESULTS: Final = "toolResults"
SPILL_OVER: Final = 32 * 1024

_NAMES_HERE: Final[Mapping[str, str]] = {
    "id": "uuid",
    "parentId": "parentUuid",
    "payload": "message",
    "firstKeptEntryId": "firstKeptEntryUuid",
    "fromId": "fromUuid",
    "targetId": "targetUuid",
}
"""The keys of agents that have another name here."""

_IN_HEADER: Final = {
    "pi": frozenset({"type", "version"}),
    "gemini": frozenset({"messages", "sessionId", "projectHash", "kind", "startTime", "summary"}),
}
"""The keys of a first line that are in the header under other names, or are entries."""

_INSTRUCTIONS: Final = ("base_instructions", "instructions")
"""The keys of Codex's first payload that are in the header as its system prompt."""

PutBlob = Callable[[bytes, str], str]
"""Takes a string's UTF-8 and a media type; gives the text form of its blob's handle."""


class SourceEntry(msgspec.Struct, gc=False):
    """An entry of a source, before it is written."""

    place: Place  # the position of its source line
    type: str
    uuid: str
    parent: str
    lane: str | None
    fields: dict[str, bytes]  # the JSON of each of its keys
    origin: str | None = None  # the entry that its line was converted from, if unchanged
    is_made: bool = False  # whether it has no source line of its own, such as the start of a lane

    def line(self, put: PutBlob) -> bytes:
        """Its line, without LF; `put` takes the large strings."""
        fields: dict[str, Any] = {key: orjson.Fragment(raw) for key, raw in self.fields.items()}
        fields |= {"uuid": self.uuid, "parentUuid": self.parent}
        if self.lane is not None:
            fields["lane"] = self.lane
        line = encoded(fields)
        if len(line) <= SPILL_OVER:
            return line
        if len(line) > BYTES_OF_MANY_BLOCKS:
            self._check_blocks()
        return encoded({**fields, **_spilled(self.fields, put)})

    def _check_blocks(self) -> None:
        if count := blocks_beyond(decode_leniently(self.fields.get("message", b""))):
            raise TooMuchError(
                f"line {self.place.number:,} (byte {self.place.offset:,}) has a message of "
                f"{count:,} content blocks and calls; at most {MOST_BLOCKS:,} are read. Remove the "
                "line from a copy, and import the copy"
            )

    def keep_original(self, key: str) -> None:
        if key in self.fields:
            before = values(self.fields.get(ORIGINAL, b"{}")) or Values({})
            self.put_original({**before.raws(), key: self.fields[key]})

    def put_original(self, left: Mapping[str, bytes]) -> None:
        if left:
            self.fields[ORIGINAL] = Values(left).as_json()


def _spilled(fields: Mapping[str, bytes], put: PutBlob) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    places: list[Any] = []
    for key, raw in fields.items():
        if len(raw) <= SPILL_OVER:
            continue
        found = {key: decode_leniently(raw)}
        spilled = spill(found, SPILL_OVER, put)
        if spilled is found:
            continue
        try:
            changed[key] = orjson.Fragment(dumps(spilled[key]))
        except EntryError:  # it cannot be encoded again: it stays in the line
            continue
        places += spilled["spilled"]
    if places:
        changed["spilled"] = places
    return changed


def entries_of(source: Source) -> Iterator[SourceEntry]:
    """The entries of a source in its order, the header first."""
    header: SourceEntry | None = None
    last: Place | None = None
    origin: str | None = None  # of the line at `last`
    is_first = True
    for place, line in source.translated():
        entry = _entry(place, line)
        if entry is None:
            source.note("unreadable", place, "the line is not an entry and was not imported")
        elif source.agent is None:
            yield entry
        elif header is None:
            header = entry
            _add_original_of_header(header, source)
        else:
            if is_first:
                is_first = False
                if place == header.place:
                    header.fields.pop(ORIGINAL, None)  # that line is an entry of its own
                yield header
            entry.is_made = source.agent == "claude-code" and (
                entry.type == "branch"
                or entry.fields.get("customType") == b'"claude-code:subagent"'
            )
            if place != last and not entry.is_made:
                _add_original(entry, source)
                last, origin = place, entry.origin
            elif place == last and source.agent in _OF_LOGS:
                entry.origin = origin
            yield entry
    if header is not None and is_first:
        yield header


def _entry(place: Place, line: bytes) -> SourceEntry | None:
    found = head(line, 0, ignore)
    if found is None:
        return None
    keys = values(line) or Values({})
    fields = keys.raws()
    fields.pop("crc", None)
    return SourceEntry(place, found.type, found.uuid, found.parent_uuid or "", found.lane, fields)


def _add_original_of_header(header: SourceEntry, source: Source) -> None:
    line = values(source.line_at(header.place))
    if line is None:
        return
    known = _IN_HEADER.get(source.agent or "", frozenset())
    left = {key: value for key, value in _left_out(line, header).items() if key not in known}
    payload = line.value("payload") if source.agent == "codex" else None
    if isinstance(payload, dict):
        rest = {key: value for key, value in payload.items() if key not in _INSTRUCTIONS}
        left["payload"] = json_of(rest)
    metadata = decode_leniently(header.fields.get("metadata", b""))
    if source.agent == "pi" and isinstance(metadata, dict):
        left = {key: value for key, value in left.items() if key not in metadata}
    header.put_original(left)


def _add_original(entry: SourceEntry, source: Source) -> None:
    line = values(source.line_at(entry.place))
    if line is None:
        return
    if ORIGIN in line:
        entry.origin = origin_of({key: line.value(key) for key in line})
    is_whole = entry.type == "custom" and entry.fields.get("data") == line.as_json()
    if not is_whole:
        left = _left_out(line, entry)
        if source.agent == "claude-code":
            left.pop("sessionId", None)
        entry.put_original(left)
    metadata = entry.fields.get("metadata")
    if metadata is not None and entry.type == "message" and source.agent == "claude-code":
        _add_results(entry, decode_leniently(metadata), source)


def _left_out(line: Values, entry: SourceEntry) -> dict[str, bytes]:
    """The keys of a line that an entry does not hold, but its origin."""
    left: dict[str, bytes] = {}
    for key in line:
        here = key if key in entry.fields else _NAMES_HERE.get(key, key)
        if key != ORIGIN and entry.fields.get(here) != line.raw(key):
            left[key] = line.raw(key)
    return left


def _add_results(entry: SourceEntry, metadata: Any, source: Source) -> None:
    named = metadata.get(TOOL_RESULTS) if isinstance(metadata, dict) else None
    found: dict[str, str] = {}
    for path in named if isinstance(named, list) else ():
        content = source.result_kept_beside(str(path).rpartition("/")[2])
        if content is None:
            cause = f"the result file {path} is missing, cannot be read, or is over 64 MiB"
            source.note("side file", entry.place, cause)
        else:
            found[str(path)] = _text(content)
    if found:
        entry.fields[TOOL_RESULTS] = dumps(found)


def _text(content: bytes) -> str:
    """Content as text: itself if it is UTF-8, else a data URL with its base64 (RFC 2397)."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "data:application/octet-stream;base64," + base64.b64encode(content).decode()
