"""Origins: which entry of a session a line of a converted file stands for.

The other program may go on with a converted file, which is then imported again. So each converted
line has the key `sessiontree`: the uuid of the entry below which the next line belongs, and a
checksum of the line's content. Programs keep this key, as all unknown keys, in unchanged lines.

Invariants: a line whose content was changed has no origin; its place, and the facts around it
(times, ids, folders, versions), may change.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.jsonbytes import sorted_ascii
from sessiontree.core.migrate import uuid_of_line

KEY: Final = "sessiontree"

_SAYS: Final = frozenset(
    {
        *("type", "message", "summary", "content", "subtype", "customType", "data", "display"),
        *("customTitle", "name", "label", "modelId", "provider", "thinkingLevel", "replacement"),
        *("details", "systemMessage", "usage", "payload", "thoughts", "toolCalls"),
        *("$set", "$rewindTo"),
    }
)
"""The keys that the checksum covers, of all formats converted to."""

_encoded: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def origin_at(uuid: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The origin key for a line with these fields that stands for an entry; else empty."""
    says = _checksum(fields)
    return {} if says is None else {KEY: {"entry": uuid, "says": says}}


def origin_of(fields: Mapping[str, Any]) -> str | None:
    """The uuid of the entry that a line stands for; None without an origin, or after a change."""
    origin = fields.get(KEY)
    if not isinstance(origin, dict) or not isinstance(uuid := origin.get("entry"), str):
        return None
    return uuid if origin.get("says") == _checksum(fields) else None


def derived_uuid(session_id: str, uuid: str, number: int) -> str:
    """The uuid of the `number`th thing made from an entry in a conversion."""
    return uuid_of_line(session_id, number, b"made of " + uuid.encode("utf-8", "replace"))


def _checksum(fields: Mapping[str, Any]) -> str | None:
    """The CRC-32 of the content of a line, in any order of its keys; None where it is not JSON."""
    content = {key: value for key, value in fields.items() if key in _SAYS}
    text = sorted_ascii(content)
    try:
        text = _encoded(content).encode() if text is None else text
    except (ValueError, TypeError, RecursionError):
        return None
    return f"{zlib.crc32(text):08x}"
