"""Adoption: lines that an older, linear program appended to a session that is a tree.

Such a program knows no uuids: it means its line to follow the one before it, and
counts entries by their lines, the header as 0. Adoption says in the current
format just that, and says it as the migration of a whole file would: an index of
an entry off the path means the first after it that is on the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessiontree.core.codec import decode, encode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, Entry, decode_leniently
from sessiontree.core.migrate import uuid_of_line, values_of
from sessiontree.errors import EntryError

_NOWHERE = -1


class Adoption:
    """Takes the lines of a file in order, and gives those without uuids one."""

    def __init__(self) -> None:
        self._session_id = ""
        self._uuids: list[str] = []
        self._parents: list[int] = []
        self._places: dict[str, int] = {}
        self._leaf = _NOWHERE

    def take(self, line: bytes, note: Callable[[str], None]) -> bytes:
        """The line as it should be; `note` is told where it is not as it was."""
        entry = decode(line, 0, ignore)
        if entry is not None:
            self._know(entry)
            return line
        parsed = decode_leniently(line)
        if not isinstance(parsed, dict):
            return line
        adopted = self._adopted(line, parsed)
        if adopted is None:
            self._add("", self._leaf)  # the older program counts it all the same
            return line
        note(f"adopted an entry without a uuid as {self._uuids[-1]}, below the one before it")
        return adopted

    def _know(self, entry: Entry) -> None:
        if not self._uuids:
            self._session_id = str(entry.get("id", ""))
        self._add(entry.uuid, self._places.get(entry.parent_uuid or "", _NOWHERE))
        if entry.lane is None:
            self._leaf = len(self._uuids) - 1

    def _add(self, uuid: str, parent: int) -> None:
        if uuid:
            self._places[uuid] = len(self._uuids)
        self._uuids.append(uuid)
        self._parents.append(parent)

    def _adopted(self, line: bytes, parsed: dict[str, Any]) -> bytes | None:
        """The line with a uuid and a parent; None where it cannot take part in the tree."""
        kind = parsed.get("type")
        is_older = "uuid" not in parsed and "parentUuid" not in parsed
        if not is_older or not isinstance(kind, str) or kind == HEADER or self._leaf < 0:
            return None
        place = len(self._uuids)
        uuid = uuid_of_line(self._session_id, place, line)
        parent = self._leaf
        back_to = self._place(parsed.get("backToIndex"), place) if kind == "stack_pop" else None
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
        except EntryError:  # a key that no line of ours may have
            return None
        self._add(uuid, parent)
        self._leaf = place
        return adopted

    def _convert_first_kept(
        self, fields: dict[str, Any], parsed: dict[str, Any], uuid: str
    ) -> None:
        index = self._place(parsed.get("firstKeptEntryIndex"), len(self._uuids) + 1)
        if index is None:
            fields.setdefault("firstKeptEntryUuid", uuid)
            return
        del fields["firstKeptEntryIndex"]
        fields["firstKeptEntryUuid"] = uuid
        above = self._leaf
        while above >= index:
            fields["firstKeptEntryUuid"] = self._uuids[above]
            above = self._parents[above]

    @staticmethod
    def _place(index: Any, below: int) -> int | None:
        """An index that the older program wrote, if it can be one."""
        is_sound = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < below
        return index if is_sound else None
