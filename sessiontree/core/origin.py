"""Origins: how a line of a converted file tells where in our session it stands.

A converted file may be gone on with by its program and imported again. So each line that is written
for another program has the key `sessiontree`: the uuid of the entry below which what follows it
belongs, and a checksum of what the line says. A program keeps the key of a line that it does not
change, as it keeps all that it does not know.

Invariants: a line whose words were changed since has no origin; where it stands, and the facts
around it (times, ids, folders, versions), may change.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.migrate import uuid_of_line

KEY: Final = "sessiontree"

_SAYS: Final = (
    *("type", "message", "summary", "content", "subtype", "customType", "data", "display"),
    *("customTitle", "name", "label", "modelId", "provider", "thinkingLevel", "replacement"),
    *("details", "systemMessage", "usage"),
)
"""The keys of a line of which the checksum is made, of all the formats converted to."""


def origin_at(uuid: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The key by which a line with these fields tells that it stands at an entry; or nothing."""
    says = _checksum(fields)
    return {} if says is None else {KEY: {"entry": uuid, "says": says}}


def origin_of(fields: Mapping[str, Any]) -> str | None:
    """The uuid of the entry that a line stands at; None where it tells none, or was changed."""
    told = fields.get(KEY)
    if not isinstance(told, dict) or not isinstance(uuid := told.get("entry"), str):
        return None
    return uuid if told.get("says") == _checksum(fields) else None


def derived_uuid(session_id: str, uuid: str, number: int) -> str:
    """The uuid of the `number`th thing made of an entry when its session is converted."""
    return uuid_of_line(session_id, number, b"made of " + uuid.encode("utf-8", "replace"))


def _checksum(fields: Mapping[str, Any]) -> str | None:
    """The CRC-32 of what a line says, in any order of its keys; None where it has no JSON."""
    said = {key: fields[key] for key in _SAYS if key in fields}
    try:
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return None
    return f"{zlib.crc32(text.encode()):08x}"
