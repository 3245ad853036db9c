"""Migration: from any older version to the current one, by a chain of small steps.

Version 1 is linear: no uuids, the order of the lines is the conversation, and `firstKeptEntryIndex`
and `backToIndex` count the lines that parse, the header as 0. The step to version 2 gives each
entry a uuid and a parent, and turns the indices into uuids. MIGRATION.md describes the format.

`UuidAssigner` does the same for lines that an older, linear program appended to a session that is a
tree. That program means its line to follow the one before it. An index to an entry off the path
means the first entry after it that is on the path.

Invariants: values keep their bytes; the same file gives the same uuids wherever and whenever it is
migrated; a line that does not parse is copied unchanged and not counted, as before; a line that
cannot be part of a tree (without a type, or a second header) is copied unchanged and counted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, Self

import msgspec
import orjson

from sessiontree.core.codec import FORMAT, VERSION, decode, encode, raw_values, seal
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, bare_line, decode_leniently, whole_number
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import EntryError

_NOWHERE: Final = -1
_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_NAMESPACE: Final = uuid.UUID("6f1c2b0e-7a53-5d7e-9c39-0d5f5f0c7b1a").bytes


def migrate(lines: Iterable[bytes], version: int) -> Iterator[bytes]:
    """The lines of a session of an older version, in the current version.

    Both are without LF and in the same order, the header first among those that parse.
    """
    for step in _STEPS[version:]:
        lines = step(lines)
    yield from lines


def migrate_alone(line: bytes, position: int, session_id: str) -> bytes | None:
    """A line of version 1 by itself in the current version, without its parent.

    None where more of it depends on others, or it is not an entry. `position` is the number of
    lines before it that hold an object.
    """
    parsed = decode_leniently(bare_line(line))
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
        if _popped_to(parsed, position) is not None:
            fields["type"] = "stack_summary"
        return encode(fields | {"uuid": uuid_of_line(session_id, position, line)})
    except EntryError:
        return None


def _popped_to(parsed: dict[str, Any], position: int) -> int | None:
    """The index that a `stack_pop` goes back to; None if it names no earlier line."""
    is_pop = parsed.get("type") == "stack_pop"
    return _index(parsed.get("backToIndex"), position) if is_pop else None


class LineName(Protocol):
    """The hash of the name that a uuid is made of."""

    def update(self, more: bytes, /) -> None: ...

    def copy(self) -> Self: ...

    def hexdigest(self) -> str: ...


def uuid_of_line(session_id: str, position: int, line: bytes) -> str:
    """The uuid that migration gives to the line at a position of a session (RFC 9562, 5.5)."""
    return uuid_of_name(name_of_line(session_id, position, line).hexdigest())


def name_of_line(session_id: str, position: int, line: bytes) -> LineName:
    """The hash of the name that a line's uuid is made of; more may be added to the name."""
    name = b"%b%b:%d:%b" % (_NAMESPACE, session_id.encode("utf-8", "replace"), position, line)
    import hashlib  # slow to load, and most sessions need no name of a line

    return hashlib.sha1(name, usedforsecurity=False)


def uuid_of_name(digest: str) -> str:
    """The version 5 uuid of a name, given the SHA-1 of its namespace and the name in hex."""
    variant = _VARIANT[digest[16]]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


class _Numbered:
    """The entries by the index that version 1 counts with, and their parents.

    What is left out of the tree has an index too: its uuid is empty, and its parent is an entry.
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._far: list[int] = []  # an entry above, often far, so that a way up takes few steps

    def add(self, uuid: str, parent: int) -> None:
        self.uuids.append(uuid)
        self._parents.append(parent)
        far, depths = self._far, self._depths
        depths.append(0 if parent == _NOWHERE else depths[parent] + 1)
        jump = _NOWHERE if parent == _NOWHERE else far[parent]
        beyond = _NOWHERE if jump == _NOWHERE else far[jump]
        is_even = beyond != _NOWHERE and (
            depths[parent] - depths[jump] == depths[jump] - depths[beyond]
        )
        far.append(beyond if is_even else parent)

    def _first_above(self, above: int, index: int) -> int:
        """The topmost of an entry and those above it that are not before an index."""
        while True:
            if self._far[above] >= index:
                above = self._far[above]
            elif self._parents[above] >= index:
                above = self._parents[above]
            else:
                return above

    def entry_at(self, index: int) -> int:
        """The index itself, or that of the nearest entry above one that was left out."""
        return index if index == _NOWHERE or self.uuids[index] else self._parents[index]

    def parent_of(self, parsed: dict[str, Any], before: int) -> int:
        index = _popped_to(parsed, len(self.uuids))
        return before if index is None else self.entry_at(index)

    def convert(
        self, fields: dict[str, Any], parsed: dict[str, Any], uuid: str, before: int
    ) -> None:
        if _popped_to(parsed, len(self.uuids)) is not None:
            del fields["backToIndex"]
            fields |= {"type": "stack_summary", "fromUuid": self.uuids[before]}
        elif parsed.get("type") == "compaction":
            self._convert_first_kept(fields, parsed, uuid, before)
        parent = self.parent_of(parsed, before)
        fields |= {"uuid": uuid, "parentUuid": None if parent == _NOWHERE else self.uuids[parent]}

    def _convert_first_kept(
        self, fields: dict[str, Any], parsed: dict[str, Any], uuid: str, above: int
    ) -> None:
        index = _index(parsed.get("firstKeptEntryIndex"), len(self.uuids) + 1)
        if index is None:
            fields.setdefault("firstKeptEntryUuid", uuid)
            return
        del fields["firstKeptEntryIndex"]
        fields["firstKeptEntryUuid"] = uuid
        # An index into a popped range means the first entry after that range.
        if above >= index:
            fields["firstKeptEntryUuid"] = self.uuids[self._first_above(above, index)]


class _Linear:
    def __init__(self) -> None:
        self._session_id = ""
        self._entries = _Numbered()
        self._taken: set[str] = set()

    def take(self, line: bytes, parsed: dict[str, Any]) -> bytes:
        entries = self._entries
        position = len(entries.uuids)
        if not position:
            self._session_id = str(parsed.get("id", ""))
        before = entries.entry_at(position - 1)
        if position and not _is_entry(parsed):
            self._taken.update({parsed["uuid"]} if isinstance(parsed.get("uuid"), str) else ())
            entries.add("", entries.parent_of(parsed, before))
            return line
        parent = entries.parent_of(parsed, before)
        uuid = self._uuid(line, parsed, position)
        try:
            fields = values_of(line, parsed)
            for key in ("uuid", "parentUuid", "version", "format", "crc"):
                fields.pop(key, None)
            if parsed.get("type") == "compaction":
                fields["firstKeptEntryUuid"] = uuid
            entries.convert(fields, parsed, uuid, before)
            if not position and parsed.get("type") == HEADER:
                fields |= {"version": VERSION, "format": FORMAT}
            line = encode(fields)
        except EntryError:
            if position:
                uuid = ""
            else:  # its own text behind the missing keys
                lacks = {"version": VERSION, "format": FORMAT, "uuid": uuid, "parentUuid": None}
                line = seal(dumps(lacks)[:-1] + b"," + bare_line(line).strip().removeprefix(b"{"))
        entries.add(uuid, parent)
        return line

    def _uuid(self, line: bytes, parsed: dict[str, Any], position: int) -> str:
        uuid = parsed.get("uuid")
        if not isinstance(uuid, str) or not uuid or uuid in self._taken:
            uuid = uuid_of_line(self._session_id, position, line)
        self._taken.add(uuid)
        return uuid


def _index(value: Any, below: int) -> int | None:
    index = whole_number(value)
    return index if index is not None and 0 <= index < below else None


def _is_entry(parsed: dict[str, Any]) -> bool:
    kind = parsed.get("type")
    return isinstance(kind, str) and kind != HEADER


def values_of(line: bytes, parsed: dict[str, Any]) -> dict[str, Any]:
    """The keys of a line, each value as the bytes it was written with; else an EntryError."""
    bare = bare_line(line)
    for text in (bare, bare.decode("utf-8", "replace").encode()):
        try:
            return dict(raw_values(text))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return {key: orjson.Fragment(dumps(value)) for key, value in parsed.items()}


def _may_name_a_uuid(line: bytes) -> bool:
    """True if a line may have the key `uuid`, as it is or spelled otherwise."""
    return b"uuid" in line or b"\\" in line or b"\0" in line


def _linear_to_tree(lines: Iterable[bytes]) -> Iterator[bytes]:
    linear = _Linear()
    for line in lines:
        parsed = decode_leniently(bare_line(line))
        yield linear.take(line, parsed) if isinstance(parsed, dict) else line


_STEPS: Final[tuple[Callable[[Iterable[bytes]], Iterator[bytes]], ...]] = (iter, _linear_to_tree)
"""The step from version n to n + 1 at index n. There was no version 0."""


class UuidAssigner:
    """Takes the lines of a file in order, and gives a uuid to those without one."""

    def __init__(self) -> None:
        self._session_id = ""
        self._entries = _Numbered()
        self._places: dict[str, int] = {}
        self._leaf = _NOWHERE

    def take(self, line: bytes, note: Callable[[str], None]) -> bytes:
        """The line as it should be; `note` is called where it changed."""
        place = len(self._entries.uuids)
        entry = decode(line, 0, ignore) if _may_name_a_uuid(line) else None
        if entry is not None:
            if not place:
                self._session_id = str(entry.get("id", ""))
            self._entries.add(entry.uuid, self._places.get(entry.parent_uuid or "", _NOWHERE))
            self._places[entry.uuid] = place
            if entry.lane is None:
                self._leaf = place
            return line
        parsed = decode_leniently(line)
        if not isinstance(parsed, dict):
            return line
        adopted = self._adopted(line, parsed, place)
        if adopted is None:
            self._entries.add("", self._leaf)  # the older program counts it too
            return line
        uuid = self._entries.uuids[-1]
        note(f"adopted an entry without a uuid as {uuid}, below the one before it")
        return adopted

    def _adopted(self, line: bytes, parsed: dict[str, Any], place: int) -> bytes | None:
        is_older = "uuid" not in parsed and "parentUuid" not in parsed
        if not is_older or not _is_entry(parsed) or self._leaf == _NOWHERE:
            return None
        uuid = uuid_of_line(self._session_id, place, line)
        try:
            fields = values_of(line, parsed)
            fields.pop("crc", None)
            self._entries.convert(fields, parsed, uuid, self._leaf)
            adopted = encode(fields)
        except EntryError:  # a key that an entry may not have
            return None
        self._entries.add(uuid, self._entries.parent_of(parsed, self._leaf))
        self._places[uuid] = self._leaf = place
        return adopted
