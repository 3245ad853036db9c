"""What is carried over: an entry of ours, with what reading in place leaves out.

The line that an entry was made of says more than the entry does: a request's id, a
tool's result as the program saw it, the branch of a repository. What the entry does
not hold, by the same key or by the one it has here, stands in its key `original`, as
the very bytes it was written with, once for each line. A result that Claude Code put
into a file of its own stands in `toolResults`, by that file's name.

Invariants: an entry says in a context what it says where the original is read in
place; the same line gives the same bytes, whatever stands after it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from sessiontree.core.codec import head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.origin import KEY as ORIGIN
from sessiontree.core.origin import origin_of
from sessiontree.core.spill import spill
from sessiontree.errors import EntryError
from sessiontree.formats.base import Place, Values, encoded, values
from sessiontree.importing.source import Source

ORIGINAL: Final = "original"
TOOL_RESULTS: Final = "toolResults"

_NAMED_HERE: Final[Mapping[str, str]] = {
    "id": "uuid",
    "parentId": "parentUuid",
    "payload": "message",
    "firstKeptEntryId": "firstKeptEntryUuid",
    "fromId": "fromUuid",
    "targetId": "targetUuid",
}
"""Keys of agents that have another name here."""

_TOLD_BY_HEADER: Final = {
    "pi": frozenset({"type", "version"}),
    "gemini": frozenset({"messages", "sessionId", "projectHash", "kind", "startTime", "summary"}),
}
"""Keys of a first line that stand in the header under other names, or are entries."""

_INSTRUCTIONS: Final = ("base_instructions", "instructions")
"""Keys of Codex's first payload that are in the header as its system prompt."""

SPILL_OVER: Final = 32 * 1024

Store = Callable[[bytes, str], str]
"""Takes a string's UTF-8 and a media type, gives the text form of its blob's handle."""


class Carried(msgspec.Struct, gc=False):
    """An entry on its way.

    Attributes:
        place: where the line stands that it was made of.
        type, uuid, parent, lane: as they will be written.
        fields: the JSON of each of its keys.
        origin: the uuid of the entry that its line was made of when a session of ours was
            converted; None where it was made by its program, or was changed since.
        is_made: whether it was made beside those of the lines, such as where a lane starts.
    """

    place: Place
    type: str
    uuid: str
    parent: str
    lane: str | None
    fields: dict[str, bytes]
    origin: str | None = None
    is_made: bool = False

    def line(self, store: Store) -> bytes:
        """Its line, without LF; large strings go to `store`."""
        fields: dict[str, Any] = {key: orjson.Fragment(raw) for key, raw in self.fields.items()}
        fields |= {"uuid": self.uuid, "parentUuid": self.parent}
        if self.lane is not None:
            fields["lane"] = self.lane
        line = encoded(fields)
        if len(line) <= SPILL_OVER:
            return line
        return encoded({**fields, **_spilled(self.fields, store)})


def _spilled(fields: Mapping[str, bytes], store: Store) -> dict[str, Any]:
    """The values of which large strings were taken out, and where those are."""
    changed: dict[str, Any] = {}
    places: list[Any] = []
    for key, raw in fields.items():
        if len(raw) <= SPILL_OVER:
            continue
        found = {key: decode_leniently(raw)}
        spilled = spill(found, SPILL_OVER, store)
        if spilled is found:
            continue
        try:
            changed[key] = orjson.Fragment(dumps(spilled[key]))
        except EntryError:  # what JSON of ours cannot carry anew: it stays in the line
            continue
        places += spilled["spilled"]
    if places:
        changed["spilled"] = places
    return changed


def carried(source: Source) -> Iterator[Carried]:
    """The entries of a source, the header first, in the order in which it tells them."""
    header: Carried | None = None
    last: Place | None = None
    is_first = True
    for place, line in source.translated():
        entry = _entry(place, line)
        if entry is None:
            source.note("unreadable", place, "the line is no entry and could not be carried over")
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
            entry.is_made = _has_no_line(entry, source)
            if place != last and not entry.is_made:
                _add_original(entry, source)
                last = place
            yield entry
    if header is not None and is_first:
        yield header


def _has_no_line(entry: Carried, source: Source) -> bool:
    """Whether an entry was made beside those of the lines: where a lane starts, and ends."""
    if source.agent != "claude-code":
        return False
    return entry.type == "branch" or entry.fields.get("customType") == b'"claude-code:subagent"'


def _entry(place: Place, line: bytes) -> Carried | None:
    found = head(line, 0, ignore)
    if found is None:
        return None
    told = values(line)
    fields = {key: told.raw(key) for key in told or () if key != "crc"} if told else {}
    return Carried(place, found.type, found.uuid, found.parent_uuid or "", found.lane, fields)


def _add_original_of_header(header: Carried, source: Source) -> None:
    """Give a header what its line says beside, as if that line were its own."""
    told = values(source.line_at(header.place))
    if told is None:
        return
    known = _TOLD_BY_HEADER.get(source.agent or "", frozenset())
    left = {key: value for key, value in _left_out(told, header).items() if key not in known}
    left.pop(ORIGIN, None)
    payload = told.value("payload") if source.agent == "codex" else None
    if isinstance(payload, dict):
        said = {key: value for key, value in payload.items() if key not in _INSTRUCTIONS}
        left["payload"] = msgspec.json.encode(said)
    metadata = decode_leniently(header.fields.get("metadata", b""))
    if source.agent == "pi" and isinstance(metadata, dict):
        left = {key: value for key, value in left.items() if key not in metadata}
    _put_original(header, left)


def _add_original(entry: Carried, source: Source) -> None:
    told = values(source.line_at(entry.place))
    if told is None:
        return
    if ORIGIN in told:
        entry.origin = origin_of({key: told.value(key) for key in told})
    is_whole = entry.type == "custom" and entry.fields.get("data") == told.as_json()
    if not is_whole:
        left = _left_out(told, entry)
        left.pop(ORIGIN, None)
        if source.agent == "claude-code":
            left.pop("sessionId", None)
        _put_original(entry, left)
    metadata = entry.fields.get("metadata")
    if metadata is not None and entry.type == "message" and source.agent == "claude-code":
        _add_results(entry, decode_leniently(metadata), source)


def _put_original(entry: Carried, left: Mapping[str, bytes]) -> None:
    if left:
        entry.fields[ORIGINAL] = Values(left).as_json()


def keep_original(entry: Carried, key: str) -> None:
    """Keep what an entry has at a key, before it is mended."""
    if key in entry.fields:
        before = values(entry.fields.get(ORIGINAL, b"{}")) or Values({})
        left = {name: before.raw(name) for name in before}
        _put_original(entry, {**left, key: entry.fields[key]})


def _left_out(told: Values, entry: Carried) -> dict[str, bytes]:
    """The keys of a line that an entry does not hold."""
    left: dict[str, bytes] = {}
    for key in told:
        here = key if key in entry.fields else _NAMED_HERE.get(key, key)
        if entry.fields.get(here) != told.raw(key):
            left[key] = told.raw(key)
    return left


def _add_results(entry: Carried, metadata: Any, source: Source) -> None:
    """Give an entry the results that were kept beside the source, whole."""
    named = metadata.get(TOOL_RESULTS) if isinstance(metadata, dict) else None
    found: dict[str, str] = {}
    for path in named if isinstance(named, list) else ():
        name = str(path).rpartition("/")[2]
        content = source.result_kept_beside(name)
        if content is None:
            cause = f"the result that was put into {path} is not there, or cannot be read"
            source.note("reference", entry.place, cause)
        else:
            found[str(path)] = _text(content)
    if found:
        entry.fields[TOOL_RESULTS] = dumps(found)


def _text(content: bytes) -> str:
    """Content as a string: itself where it is text, else its base64 as a data URL (RFC 2397)."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "data:application/octet-stream;base64," + base64.b64encode(content).decode()
