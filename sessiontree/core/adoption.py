"""Adoption: lines that an older, linear program appended to a session that is a tree.

Such a program knows no uuids: it means its line to follow the one before it, and
counts entries by their lines. Adoption says in the current format just that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessiontree.core.codec import decode, encode
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, decode_leniently
from sessiontree.core.migration import uuid_of_line, values_of


class Adoption:
    """Takes the lines of a file in order, and gives those without uuids one."""

    def __init__(self) -> None:
        self._session_id = ""
        self._uuids: list[str] = []
        self._leaf: str | None = None

    def take(self, line: bytes, note: Callable[[str], None]) -> bytes:
        """The line as it should be; `note` is told where it is not as it was."""
        entry = decode(line, 0, ignore)
        if entry is not None:
            if not self._uuids:
                self._session_id = str(entry.get("id", ""))
            self._uuids.append(entry.uuid)
            if entry.lane is None:
                self._leaf = entry.uuid
            return line
        parsed = decode_leniently(line)
        if not isinstance(parsed, dict) or not self._is_adoptable(parsed):
            return line
        position = len(self._uuids)
        uuid = uuid_of_line(self._session_id, position, line)
        fields = self._fields(line, parsed, uuid)
        self._uuids.append(uuid)
        self._leaf = uuid
        note(f"adopted an entry without a uuid as {uuid}, below the one before it")
        return encode(fields)

    def _is_adoptable(self, parsed: dict[str, Any]) -> bool:
        kind = parsed.get("type")
        return (
            self._leaf is not None
            and isinstance(kind, str)
            and kind != HEADER
            and "uuid" not in parsed
            and "parentUuid" not in parsed
        )

    def _fields(self, line: bytes, parsed: dict[str, Any], uuid: str) -> dict[str, Any]:
        fields = values_of(line, parsed)
        fields.pop("crc", None)
        fields |= {"uuid": uuid, "parentUuid": self._leaf}
        index = parsed.get("firstKeptEntryIndex")
        if parsed["type"] == "compaction" and index is not None:
            known = isinstance(index, int) and 0 <= index < len(self._uuids)
            fields["firstKeptEntryUuid"] = self._uuids[index] if known else uuid
            if known:
                del fields["firstKeptEntryIndex"]
        return fields
