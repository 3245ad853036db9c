"""Inlining: an entry as it would be in a file without blobs beside it.

Invariants: an entry that needs no blob and is no handle stays byte for byte; what
was spilled comes back checked, or nothing is copied; a handle becomes the message
it stands for, with all its bytes, under the same uuid and with the same preview, or
stays a handle with a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

from sessiontree.core.codec import encode
from sessiontree.core.entry import Entry
from sessiontree.engine.reader import Reader
from sessiontree.errors import BlobError, SessionTreeError, SessionTreeWarning

_OF_A_HANDLE = ("handle", "kind", "role", "spilled", "crc")


def inlined(session: Reader, entry: Entry) -> bytes:
    """The line of an entry with all its content in it.

    Raises:
        BlobError: content that cannot be had back as it was.
    """
    if entry.type == "handle":
        return _message_line(session, entry)
    if not entry.has_spilled:
        return entry.line
    return encode({key: entry[key] for key in entry if key not in ("spilled", "crc")})


def _message_line(session: Reader, entry: Entry) -> bytes:
    from sessiontree.handles.resolve import carried  # few copies have handles in them

    try:
        found = carried(session, entry)
    except BlobError:
        raise
    except SessionTreeError as error:
        message = f"entry {entry.uuid} stays a handle: {error}"
        warnings.warn(message, SessionTreeWarning, stacklevel=6)
        return entry.line
    fields: dict[str, Any] = {k: v for k, v in entry.body.items() if k not in _OF_A_HANDLE}
    own = fields.pop("metadata", None)
    came = {**(own if isinstance(own, dict) else {}), "inlinedFrom": str(entry["handle"])}
    return encode({**fields, "type": "message", "message": found, "metadata": came})
