"""Migration: from any older version to the current one, by a chain of small steps.

Version 1 is linear: no uuids, the order of the lines is the conversation, and `firstKeptEntryIndex`
and `backToIndex` count the lines that parse, the header as 0. The step to version 2 gives each
entry a uuid and a parent, and turns the indices into uuids. MIGRATION.md describes the format.

`Adoption` does the same for lines that an older, linear program appended to a session that is a
tree. That program means its line to follow the one before it. An index to an entry off the path
means the first entry after it that is on the path.

Invariants: values keep their bytes; the same file gives the same uuids wherever and whenever it is
migrated; a line that does not parse is copied unchanged and not counted, as before; a line that
cannot be part of a tree (without a type, or a second header) is copied unchanged and counted.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import orjson

from sessiontree.core.codec import FORMAT, VERSION, decode, encode, raw_values, seal
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, decode_leniently
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import EntryError

_NAMESPACE: Final = uuid.UUID("6f1c2b0e-7a53-5d7e-9c39-0d5f5f0c7b1a").bytes


def migrate(lines: Iterable[bytes], version: int) -> Iterator[bytes]:
    """The lines of a session of an older version, in the current version.

    Args:
        lines: the lines without their LF, the header first among those that parse.
        version: their version.

    Yields:
        Lines without LF, in the same order.
    """
    for step in _STEPS[version:]:
        lines = step(lines)
    yield from lines


def migrate_alone(line: bytes, position: int, session_id: str) -> bytes | None:
    """A line of version 1 by itself in the current version, without its parent.

    Args:
        line: the line.
        position: how many lines before it hold an object; 0 for the header.
        session_id: the `id` of the header.

    Returns:
        The line; None where more of it depends on others, or it is not an entry.
    """
    parsed = decode_leniently(_bare(line))
    if not isinstance(parsed, dict):
        return None
    if not position:
        return _Linear().take(line, parsed)
    own = parsed.get("uuid")
    if not _is_entry(parsed) or (isinstance(own, str) and own):
        return None
    try:
        fields = values_of(line, parsed)
        for key in ("parentUuid", "version", "format", "crc"):
            fields.pop(key, None)
        if _is_pop(parsed, position):
            fields["type"] = "stack_summary"
        return encode(fields | {"uuid": uuid_of_line(session_id, position, line)})
    except EntryError:
        return None


def _is_pop(parsed: dict[str, Any], position: int) -> bool:
    """Whether the entry at a position goes back to an earlier one, with a summary."""
    target = parsed.get("backToIndex")
    return parsed.get("type") == "stack_pop" and _index(target, position) is not None


def uuid_of_line(session_id: str, position: int, line: bytes) -> str:
    """The uuid that migration gives to the line at a position of a session (RFC 9562, 5.5)."""
    name = b"%b:%d:%b" % (session_id.encode("utf-8", "replace"), position, line)
    digest = hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))


class _Linear:
    """The state of the step from version 1: the uuid and the parent for each index."""

    def __init__(self) -> None:
        self.session_id = ""
        self.uuids: list[str] = []
        self.parents: list[int] = []
        self._taken: set[str] = set()
        self._left_out: set[int] = set()

    def take(self, line: bytes, parsed: dict[str, Any]) -> bytes:
        """The version 2 line of the next line that parsed."""
        position = len(self.uuids)
        if not position:
            self.session_id = str(parsed.get("id", ""))
        self.parents.append(self._parent(parsed, position))
        self.uuids.append(self._uuid(line, parsed, position))
        try:
            if position and not _is_entry(parsed):
                raise EntryError("not an entry")
            fields = values_of(line, parsed)
            for key in ("uuid", "parentUuid", "version", "format", "crc"):
                fields.pop(key, None)
            return encode(self._version_2(fields, parsed, position))
        except EntryError:
            if not position:
                return self._spliced_header(line)
            self.uuids[position] = self.uuids[self.parents[position]]
            self._left_out.add(position)
            return line

    def _spliced_header(self, line: bytes) -> bytes:
        """A header that cannot be encoded anew: its own text behind the missing keys."""
        lacks = {"version": VERSION, "format": FORMAT, "uuid": self.uuids[0], "parentUuid": None}
        return seal(dumps(lacks)[:-1] + b"," + _bare(line).strip().removeprefix(b"{"))

    def _uuid(self, line: bytes, parsed: dict[str, Any], position: int) -> str:
        uuid = parsed.get("uuid")
        if not isinstance(uuid, str) or not uuid or uuid in self._taken:
            uuid = uuid_of_line(self.session_id, position, line)
        self._taken.add(uuid)
        return uuid

    def _parent(self, parsed: dict[str, Any], position: int) -> int:
        if parsed.get("type") == "stack_pop":
            target = _index(parsed.get("backToIndex"), position)
            if target is not None:
                return self._entry_at(target)
        return self._entry_at(position - 1)

    def _entry_at(self, position: int) -> int:
        """The position itself, or that of the nearest entry above one that was left out."""
        return self.parents[position] if position in self._left_out else position

    def _version_2(
        self, fields: dict[str, Any], parsed: dict[str, Any], position: int
    ) -> dict[str, Any]:
        parent = self.uuids[self.parents[position]] if position else None
        fields |= {"uuid": self.uuids[position], "parentUuid": parent}
        kind = parsed.get("type")
        if kind == "session" and not position:
            fields |= {"version": VERSION, "format": FORMAT}
        elif kind == "compaction":
            self._convert_first_kept(fields, parsed, position)
        elif _is_pop(parsed, position):
            del fields["backToIndex"]
            fields |= {"type": "stack_summary", "fromUuid": self.uuids[position - 1]}
        return fields

    def _convert_first_kept(
        self, fields: dict[str, Any], parsed: dict[str, Any], position: int
    ) -> None:
        index = _index(parsed.get("firstKeptEntryIndex"), position + 1)
        if index is None:
            fields["firstKeptEntryUuid"] = self.uuids[position]
            return
        del fields["firstKeptEntryIndex"]
        # An index into a popped range means the first entry after that range.
        kept = position
        while kept and self.parents[kept] >= index:
            kept = self.parents[kept]
        fields["firstKeptEntryUuid"] = self.uuids[kept]


def _index(value: Any, below: int) -> int | None:
    """An index that an older program wrote; None where it cannot be one."""
    is_sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below
    return value if is_sound else None


def _is_entry(parsed: dict[str, Any]) -> bool:
    kind = parsed.get("type")
    return isinstance(kind, str) and kind != HEADER


def values_of(line: bytes, parsed: dict[str, Any]) -> dict[str, Any]:
    """The keys of a line, each value as the bytes it was written with.

    Raises:
        EntryError: a value that cannot be written.
    """
    bare = _bare(line)
    for text in (bare, bare.decode("utf-8", "replace").encode()):
        try:
            return dict(raw_values(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return {key: orjson.Fragment(dumps(value)) for key, value in parsed.items()}


def _bare(line: bytes) -> bytes:
    """The line without NUL bytes around it and without a byte order mark."""
    return line.strip(b"\0").removeprefix(b"\xef\xbb\xbf")


def _linear_to_tree(lines: Iterable[bytes]) -> Iterator[bytes]:
    linear = _Linear()
    for line in lines:
        parsed = decode_leniently(_bare(line))
        yield linear.take(line, parsed) if isinstance(parsed, dict) else line


_STEPS: Final[tuple[Callable[[Iterable[bytes]], Iterator[bytes]], ...]] = (iter, _linear_to_tree)
"""The step from version n to n + 1 at index n. There was no version 0."""


_NOWHERE = -1


class Adoption:
    """Takes the lines of a file in order, and gives a uuid to those without one."""

    def __init__(self) -> None:
        self._session_id = ""
        self._uuids: list[str] = []
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._leaf = _NOWHERE

    def take(self, line: bytes, note: Callable[[str], None]) -> bytes:
        """The line as it should be; `note` is called where it changed."""
        entry = decode(line, 0, ignore)
        if entry is not None:
            if not self._uuids:
                self._session_id = str(entry.get("id", ""))
            self._add(entry.uuid, self._places.get(entry.parent_uuid or "", _NOWHERE))
            if entry.lane is None:
                self._leaf = len(self._uuids) - 1
            return line
        parsed = decode_leniently(line)
        if not isinstance(parsed, dict):
            return line
        adopted = self._adopted(line, parsed)
        if adopted is None:
            self._add("", self._leaf)  # the older program counts it too
            return line
        note(f"adopted an entry without a uuid as {self._uuids[-1]}, below the one before it")
        return adopted

    def _add(self, uuid: str, parent: int) -> None:
        if uuid:
            self._places[uuid] = len(self._uuids)
        self._uuids.append(uuid)
        self._parents.append(parent)

    def _adopted(self, line: bytes, parsed: dict[str, Any]) -> bytes | None:
        kind = parsed.get("type")
        is_older = "uuid" not in parsed and "parentUuid" not in parsed
        if not is_older or not isinstance(kind, str) or kind == HEADER or self._leaf < 0:
            return None
        place = len(self._uuids)
        uuid = uuid_of_line(self._session_id, place, line)
        parent = self._leaf
        back_to = _index(parsed.get("backToIndex"), place) if kind == "stack_pop" else None
        if back_to is not None:
            parent = back_to if self._uuids[back_to] else self._parents[back_to]
        try:
            fields = values_of(line, parsed)
            fields.pop("crc", None)
            fields |= {"uuid": uuid, "parentUuid": self._uuids[parent]}
            if back_to is not None:
                del fields["backToIndex"]
                fields |= {"type": "stack_summary", "fromUuid": self._uuids[self._leaf]}
            elif kind == "compaction":
                self._convert_first_kept(fields, parsed, uuid)
            adopted = encode(fields)
        except EntryError:  # a key that an entry may not have
            return None
        self._add(uuid, parent)
        self._leaf = place
        return adopted

    def _convert_first_kept(
        self, fields: dict[str, Any], parsed: dict[str, Any], uuid: str
    ) -> None:
        index = _index(parsed.get("firstKeptEntryIndex"), len(self._uuids) + 1)
        if index is None:
            fields.setdefault("firstKeptEntryUuid", uuid)
            return
        del fields["firstKeptEntryIndex"]
        fields["firstKeptEntryUuid"] = uuid
        above = self._leaf
        while above >= index:
            fields["firstKeptEntryUuid"] = self._uuids[above]
            above = self._parents[above]
