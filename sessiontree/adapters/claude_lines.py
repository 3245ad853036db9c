"""The lines of Claude Code as entries of a session, one by one as they come, and back.

The reader of `agents.claude_code` sees a transcript as a whole. Here a line is placed by what is
above it alone. A message becomes a message with its uuid, below its parent; the summary of a
compaction becomes a `compaction`; every other line becomes a `custom` entry that holds it. What a
message has no place for is in the entry's key `original`, as an import has it, and `lacks` names
the keys of the entry that the line does not have.

The calls of a response and their results stand one below the other, as Claude Code sends them: a
line goes to the end of the conversation, unless a message of another response is between its
parent and the end. A line without a uuid is below the entry before it. Its uuid is made from what
it says, and from how many lines said the same before, so that each can be found again. A forked
agent whose lines come before those that it goes on from has a lane without that history.

Invariants: `restored` gives each line back, equal as JSON; the message that came last is at or
above the leaf; an entry's parent comes before it.

Source: transcripts of Claude Code 2.1.330, as claude-agent-sdk 0.2.187 gives them to a store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.agents.base import START, Values, values
from sessiontree.agents.claude_code.lines import message_of, metadata_of, new_costs, session_cost
from sessiontree.agents.claude_code.threads import ThreadNode, node_of
from sessiontree.core.codec import check_seal
from sessiontree.core.entry import Entry, decode_leniently, decode_object
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import text_of
from sessiontree.core.migrate import uuid_of_line
from sessiontree.engine.reader import TreeReader
from sessiontree.engine.writer import now
from sessiontree.errors import EntryError
from sessiontree.importing.source import ORIGINAL, SourceEntry

LACKS: Final = "lacks"
"""The key of an entry with the names of its keys that its line does not have."""

STARTS: Final = "claude-code:subagent"
"""The `customType` of the entry that starts the lane of a subagent."""

_KIND: Final = "claude-code:"
_PLAIN: Final = re.compile(r"[0-9A-Za-z_.\-]{1,100}")
_NOTHING: Final = object()

Left = tuple[int, Mapping[str, Any]]
"""A line that a crash left, and its row."""


class SdkLine(NamedTuple):
    """A line as the SDK gives it."""

    value: Mapping[str, Any]
    json: bytes
    uuid: str | None  # its own uuid; None without one

    @classmethod
    def of(cls, value: object) -> SdkLine:
        """Take a line.

        Raises:
            EntryError: it is not an object, or has a value that JSON cannot carry.
        """
        if not isinstance(value, dict):
            raise EntryError(f"an entry is an object, not {type(value).__name__}")
        own = value.get("uuid")
        return cls(value, _json(value), own if isinstance(own, str) and own else None)


class StoredLine(NamedTuple):
    """An entry of the session."""

    uuid: str
    parent: str  # the uuid of the entry above it
    node: ThreadNode | None = None  # the place of its line in the conversation, if it has one
    says: bool = False  # whether it is a message of the conversation
    json: bytes = b""  # its line; empty without one


class Key:
    """What a session has of one key: of the transcript, or of a subagent's.

    The lines follow the entry `start`; `first` is the row behind it. The transcript has no lane.
    """

    def __init__(
        self, reader: TreeReader, tree: TreeIndex, lane: str | None, start: str, first: int
    ) -> None:
        self.lane = lane
        self.start = start
        self._reader = reader
        self._tree = tree
        self._first = first

    def rows(self) -> list[int]:
        """The rows of the lane behind the start, in file order."""
        rows = [row for row in self._tree.rows_on(self.lane) if row >= self._first]
        rows.reverse()
        return rows

    def left(self, fact: str, session_id: str) -> list[Left]:
        """The lines behind the last entry that gives a fact, which a crash left of a write."""
        rows: list[int] = []
        for row in self._tree.rows_on(self.lane):
            if row < self._first or (
                self._tree.type_of(row) == "session_info"
                and fact in (self._entry(row).get("metadata") or {})
            ):
                break
            rows.append(row)
        rows.reverse()
        lines = zip(rows, self.lines(rows, session_id), strict=True)
        return [(row, line) for row, line in lines if line is not None]

    def lines(self, rows: Sequence[int], session_id: str) -> Iterator[dict[str, Any] | None]:
        """The lines of ascending rows; None for an entry without one."""
        view = self._reader.view
        offsets = [self._tree.offsets[row] for row in rows]
        for offset, line in zip(offsets, view.lines_at(offsets), strict=True):
            check_seal(line, offset, view.report)
            body: Mapping[str, Any] = decode_object(line)
            if "spilled" in body:
                body = self._reader.read_at(offset).body
            yield restored(body, session_id)

    def tail(self) -> str:
        """The uuid of the last entry of the lane."""
        row = self._tree.last_on(self.lane)
        return self.start if row == NO_ROW else self._tree.uuids[row]

    def above(self, header: str) -> str:
        """The uuid of the entry above the start; `header` for the transcript."""
        row = self._tree.row(self.start)
        above = NO_ROW if row == NO_ROW else self._tree.parents[row]
        return header if above == NO_ROW else self._tree.uuids[above]

    def at(self, uuid: str) -> StoredLine | None:
        """The entry with a uuid; None without one."""
        row = self._tree.row(uuid)
        if row == NO_ROW:
            return None
        entry = self._entry(row)
        line = restored(entry.as_stored, "")
        json = b"" if line is None else _json(line)
        says = entry.type in ("message", "compaction")
        return StoredLine(uuid, entry.parent_uuid or "", node_of(json, row), says, json)

    def stored(self, own: str) -> tuple[str, int]:
        """The uuid for a line with a uuid of its own, and its row; NO_ROW if it is not stored.

        A uuid that another key has, or that is no plain word, is replaced by one made from it.
        """
        row = self._tree.row(own) if _PLAIN.fullmatch(own) else NO_ROW
        if row == NO_ROW and _PLAIN.fullmatch(own):
            return own, NO_ROW
        if row >= self._first and self._tree.lane_of(row) == self.lane:
            return own, row
        made = uuid_of_line(self.start, 0, _json(own))
        return made, self._tree.row(made)

    def alike(self, said: bytes, number: int) -> str:
        """The uuid for the line without a uuid that says this for the `number`th time, from 0."""
        return uuid_of_line(self.start, number, said)

    def uuid(self, row: int) -> str:
        """The uuid of the entry of a row."""
        return self._tree.uuids[row]

    def offset(self, row: int) -> int:
        """Where the line of a row is in the file."""
        return self._tree.offsets[row]

    def count(self, said: bytes, before: int | None = None) -> int:
        """How many lines without a uuid say this, or how many of them stand before an offset."""

        def is_there(number: int) -> bool:
            row = self._tree.row(self.alike(said, number))
            return row != NO_ROW and (before is None or self._tree.offsets[row] < before)

        low, high = 0, 1  # how many there are at least; how many there may be
        while is_there(high - 1):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_there(middle - 1) else (low, middle)
        return low

    def _entry(self, row: int) -> Entry:
        return self._reader.read_at(self._tree.offsets[row])


class Placing:
    """Places new lines of a key behind those that its session has.

    `top` is the entry above lines without a parent; `costs`, by model, are brought up to date.
    """

    def __init__(self, key: Key, session_id: str, top: str, costs: dict[str, float]) -> None:
        self.tail = key.tail()
        self._key = key
        self._session_id = session_id
        self._top = top
        self._costs = costs
        self._new: dict[str, StoredLine] = {}
        self._given: dict[str, str] = {}  # the uuids of new entries by the lines' own
        self._messages: dict[str, str | None] = {}  # the nearest message at or above an entry
        self._end = next((one for one in self._up(self.tail) if one.node is not None), None)
        self._message = self._message_above(self.tail)
        last = self._at(self._message) if self._message is not None else None
        self._is_aside = last is not None and last.node is not None and not last.node.is_main

    def entries(
        self, left: Sequence[Left], new: Iterable[tuple[SdkLine, str]]
    ) -> Iterator[SourceEntry]:
        """The entries of new lines, each with its uuid, and what is missing for those left."""
        for row, line in left:
            yield from self._new_costs(line, self._key.uuid(row))
        for given, uuid in new:
            yield from self._add(given, uuid)
        yield from self._end_of_conversation()

    def _add(self, given: SdkLine, uuid: str) -> Iterator[SourceEntry]:
        node = node_of(given.json, 0)
        if node is None:
            yield self._put(self._custom(given, uuid, self.tail))
            yield from self._new_costs(given.value, uuid)
            return
        parent = self._parent_of(node)
        entry = self._entry_of(given, node, uuid, parent)
        says = entry.type != "custom"
        self._given[node.uuid] = uuid
        self._end = self._new[uuid] = StoredLine(uuid, parent, node, says, given.json)
        above = self._message_above(parent)
        self._messages[uuid] = uuid if says else above
        if says and (self._is_own(node) or above == self._message):
            self._message = uuid
        yield self._put(entry)

    def _new_costs(self, line: Mapping[str, Any], uuid: str) -> Iterator[SourceEntry]:
        if line.get("type") != "cost-state" or self._key.lane is not None:
            return
        for model, cost in new_costs(line.get("modelUsage"), self._costs):
            own = uuid_of_line(uuid, 0, _json(model))
            if cost and self._at(own) is None:
                fields = {key: _json(value) for key, value in session_cost(model, cost).items()}
                yield self._put(made("usage", own, self.tail, None, fields))

    def _end_of_conversation(self) -> Iterator[SourceEntry]:
        """A branch to the message that came last, if the leaf is not below it."""
        message = self._message
        if message is not None and self._message_above(self.tail) != message:
            uuid = uuid_of_line(self.tail, 0, b"branch")
            yield self._put(made("branch", uuid, message, self._key.lane, {}))

    def _put(self, entry: SourceEntry) -> SourceEntry:
        self.tail = entry.uuid
        self._new.setdefault(entry.uuid, StoredLine(entry.uuid, entry.parent))
        return entry

    def _at(self, uuid: str) -> StoredLine | None:
        return self._new.get(uuid) or self._key.at(uuid)

    def _known(self, own: str) -> str | None:
        if own in self._given:
            return self._given[own]
        uuid, row = self._key.stored(own)
        return None if row == NO_ROW else uuid

    def _up(self, uuid: str) -> Iterator[StoredLine]:
        """The entries from one upwards, as far as any is looked for."""
        for _ in range(1000):  # entries upwards in which a message is looked for
            if (one := self._at(uuid)) is None:
                return
            yield one
            uuid = one.parent

    def _message_above(self, uuid: str) -> str | None:
        passed: list[str] = []
        found = None
        for one in self._up(uuid):
            if one.uuid in self._messages:
                found = self._messages[one.uuid]
                break
            passed.append(one.uuid)
            if one.says:
                found = one.uuid
                break
        self._messages.update(dict.fromkeys(passed, found))
        return found

    def _is_own(self, node: ThreadNode) -> bool:
        return self._key.lane is not None or self._is_aside or node.is_main

    def _parent_of(self, node: ThreadNode) -> str:
        named = node.parent or (node.logical_parent if node.boundary else None)
        parent = None if named is None else self._known(named)
        if parent is None:
            is_mark = node.boundary and named is not None
            return (self._message if is_mark else None) or self._top
        end = self._end
        if end is None or end.uuid == parent or node.boundary:
            return parent
        return end.uuid if self._is_near(parent, end.uuid) else parent

    def _is_near(self, parent: str, end: str) -> bool:
        """True if no message of another response is between an entry and the end below it."""
        above = (one.node for one in self._up(parent) if one.node is not None)
        own = next((node.response for node in above if node.response is not None), None)
        for one in self._up(end):
            if one.uuid == parent:
                return True
            if one.says and not _is_of(one.node, own):
                return False
        return False

    def _entry_of(self, given: SdkLine, node: ThreadNode, uuid: str, parent: str) -> SourceEntry:
        if not self._says(node):
            return self._custom(given, uuid, parent)
        line = values(given.json) or Values({})
        if node.summary and (kept := self._compaction(line, node, uuid, parent)) is not None:
            kind, fields = "compaction", kept
        else:
            kind, fields = "message", {"message": dumps(message_of(node, line))}
            if metadata := metadata_of(node, line):
                fields["metadata"] = dumps(metadata)
        entry = made(kind, uuid, parent, self._key.lane, fields, node.timestamp)
        return self._with_original(entry, given, node)

    def _says(self, node: ThreadNode) -> bool:
        if not node.is_message:
            return False
        if self._message is None:  # a transcript of a subagent, or of a member of a team
            self._is_aside = node.sidechain or node.team
        return self._key.lane is not None or self._is_aside or not (node.sidechain or node.team)

    def _compaction(
        self, line: Values, node: ThreadNode, uuid: str, parent: str
    ) -> dict[str, bytes] | None:
        """The fields of a compaction; None if the line is an ordinary message."""
        summary = text_of({"content": line.inside("message").value("content")})
        mark = self._mark_above(parent)
        if not summary or (mark is None and node.parent is not None):
            return None
        about = Values({}) if mark is None else mark.inside("compactMetadata")
        first = self._first_kept(about, parent)
        fields = {"summary": _json(summary), "firstKeptEntryUuid": dumps(first or uuid)}
        if isinstance(tokens := about.value("preTokens"), int):
            fields["tokensBefore"] = dumps(tokens)
        return fields

    def _mark_above(self, uuid: str) -> Values | None:
        """The line of the mark of a compaction at or above an entry; None below a message."""
        for one in self._up(uuid):
            if one.says:
                return None
            if one.node is not None and one.node.boundary:
                return values(one.json)
        return None

    def _first_kept(self, about: Values, parent: str) -> str | None:
        """The first message that a compaction keeps, if it is above."""
        kept = about.inside("preservedMessages").value("uuids")
        named = kept[0] if isinstance(kept, list) and kept else None
        named = named or about.inside("preservedSegment").text("headUuid")
        first = self._known(named) if isinstance(named, str) and named else None
        return first if any(one.uuid == first for one in self._up(parent)) else None

    def _custom(self, given: SdkLine, uuid: str, parent: str) -> SourceEntry:
        kind, at = given.value.get("type"), given.value.get("timestamp")
        named = kind if isinstance(kind, str) and kind and _KIND + kind != STARTS else "line"
        fields = {"customType": _json(_KIND + named), "data": given.json}
        lane = self._key.lane
        return made("custom", uuid, parent, lane, fields, at if isinstance(at, str) else None)

    def _with_original(self, entry: SourceEntry, given: SdkLine, node: ThreadNode) -> SourceEntry:
        """An entry with the keys of its line that it does not hold, and those it has more."""
        held = {"uuid": entry.uuid, "parentUuid": entry.parent, "sessionId": self._session_id}
        if node.timestamp:
            held["timestamp"] = node.timestamp
        line = given.value
        is_held = entry.type == "message" and node.says == "message"
        original = {
            key: value
            for key, value in line.items()
            if held.get(key, _NOTHING) != value and not (is_held and key == "message")
        }
        entry.fields[ORIGINAL] = _json(original)
        has = (*held, "timestamp", *(["message"] if entry.type == "message" else []))
        if lacks := [key for key in dict.fromkeys(has) if key not in line]:
            entry.fields[LACKS] = dumps(lacks)
        return entry


def _is_of(node: ThreadNode | None, response: str | None) -> bool:
    if node is None:
        return False
    return node.has_result or (node.response is not None and node.response == response)


def made(
    kind: str,
    uuid: str,
    parent: str,
    lane: str | None,
    fields: dict[str, bytes],
    timestamp: str | None = None,
) -> SourceEntry:
    """An entry of a type, with its time or the present one."""
    fields = {"type": dumps(kind), "timestamp": _json(timestamp or now()), **fields}
    return SourceEntry(START, kind, uuid, parent, lane, fields)


def restored(body: Mapping[str, Any], session_id: str) -> dict[str, Any] | None:
    """The line that an entry was made of; None for an entry without one."""
    if body.get("type") == "custom":
        kind, data = body.get("customType"), body.get("data")
        is_line = isinstance(kind, str) and kind.startswith(_KIND) and kind != STARTS
        return data if is_line and isinstance(data, dict) else None
    original = body.get(ORIGINAL)
    if not isinstance(original, dict) or "type" not in original:
        return None
    held = {key: body[key] for key in ("uuid", "parentUuid", "timestamp", "message") if key in body}
    held["sessionId"] = session_id
    for key in body.get(LACKS, ()):
        held.pop(key, None)
    return {**held, **original}


def canonical(value: Any) -> bytes:
    """A value as JSON, in the same bytes whatever the order of its keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, or a number of more than 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _json(value: Any) -> bytes:
    """A value as JSON, lone surrogates as escapes."""
    try:
        return dumps(value)
    except EntryError:
        try:
            spelled = json.dumps(value, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            spelled = b""
        if not spelled or decode_leniently(spelled) != value:
            raise
        return spelled
