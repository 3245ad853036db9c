"""Redacting: the entries of a session as they go into a copy, with their secrets masked.

Invariants: an entry without a secret stays byte for byte; any other is written anew,
sealed by a checksum of its own, what is large in it in blobs of the copy's own; the
copy takes no blob along that was not looked through.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.context.resolved import base_type, is_shown
from sessiontree.core.blob import MARK, blob_of, blobs_needed
from sessiontree.core.codec import encode, seal
from sessiontree.core.contents import Contents
from sessiontree.core.embedded import left_out
from sessiontree.core.entry import Entry, decode_object
from sessiontree.core.handle import Handle
from sessiontree.core.spill import spill
from sessiontree.engine.reader import Reader
from sessiontree.errors import ContentLostWarning, EntryError, HandleError, SessionTreeError
from sessiontree.handles.resolve import messages
from sessiontree.operations.inlining import inlined
from sessiontree.redact.homes import homes_in
from sessiontree.redact.redaction import Redaction
from sessiontree.storage.blobs import Blobs

SPILL_OVER: Final = 32 * 1024
"""Bytes of a string that stay in the line of an entry that is written anew."""


_OF_THE_LINE: Final = ("spilled", "crc")
_OF_A_HANDLE: Final = ("handle", "kind", "role")


def homes_told(session: Reader) -> list[str]:
    """The home directories that a session tells in its header."""
    cwd = session.header.get("cwd")
    return homes_in(cwd) if isinstance(cwd, str) else []


class RedactedCopy:
    """The lines of a copy whose secrets are masked.

    Args:
        session: what is copied.
        file: the copy's path; its blobs go beside it.
        redaction: masks them.
        inline: whether everything goes into the file itself.
    """

    def __init__(self, session: Reader, file: str, redaction: Redaction, *, inline: bool) -> None:
        redaction.know_homes(homes_told(session))
        self._session = session
        self._redaction = redaction
        self._inline = inline
        self._blobs = Blobs(session._disk, file)

    def line(self, entry: Entry) -> bytes:
        """The line of an entry in the copy; the blobs it needs are there when this returns."""
        line = entry.line
        if self._inline:
            line = inlined(self._session, entry)
            fields: Mapping[str, Any] = decode_object(line)
            stands_in = False
        else:
            fields, stands_in = self._whole(entry)
        masked = self._redaction.value(fields, entry.uuid)
        if masked is fields and not stands_in and not _hides_keys(line):
            self._take_along(entry)
            return line
        return self._encoded(_with_sound_handle(masked, fields, self._redaction))

    def own_line(self, fields: Mapping[str, Any]) -> bytes:
        """The line of an entry that only the copy has, or that it has in its own way."""
        return self._encoded(self._redaction.value(fields, str(fields["uuid"])))

    def _whole(self, entry: Entry) -> tuple[Mapping[str, Any], bool]:
        """The keys of an entry with its blobs put back, and whether some stand in for others."""
        missing: list[str] = []
        whole = Contents(None, False, missing).whole(entry)
        for cause in missing:
            warnings.warn(cause, ContentLostWarning, stacklevel=7)
        fields = {key: whole[key] for key in whole if key not in _OF_THE_LINE}
        if entry.type == "handle" and blob_of(_text(fields.get("handle"))) is not None:
            return self._looked_through(entry, fields), True
        return fields, bool(missing)

    def _looked_through(self, entry: Entry, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a message that says what a handle's blob does, as far as it is text."""
        handle = Handle.parse(fields["handle"])
        media_type = base_type(handle.meta[2] if len(handle.meta) > 2 else None)
        size = int(handle.meta[1])
        if is_shown(media_type, size):
            found = messages(self._session, [entry])[0]
            said = found if isinstance(found, SessionTreeError) else found.message
        else:
            self._redaction.left_out.append((entry.uuid, media_type, size))
            said = {"role": "user", "content": left_out(media_type, size)}
        if isinstance(said, SessionTreeError):
            warnings.warn(str(said), ContentLostWarning, stacklevel=8)
            said = {"role": "user", "content": f"[left out: {said}]"}
        kept = {key: value for key, value in fields.items() if key not in _OF_A_HANDLE}
        return {**kept, "type": "message", "message": said}

    def _take_along(self, entry: Entry) -> None:
        if self._inline or MARK not in entry.line:
            return
        for lost in self._blobs.link_from(self._session.blobs, blobs_needed(entry.as_stored)):
            warnings.warn(str(lost), ContentLostWarning, stacklevel=7)

    def _encoded(self, fields: Mapping[str, Any]) -> bytes:
        fields = {key: value for key, value in fields.items() if key not in _OF_THE_LINE}
        spilled = spill(fields, None if self._inline else SPILL_OVER, self._store)
        try:
            return encode(spilled)
        except EntryError:  # a lone surrogate, or a nesting that only other programs write
            return seal(json.dumps(spilled, separators=(",", ":")).encode())

    def _store(self, content: bytes, media_type: str) -> str:
        return str(Handle.blob(*self._blobs.put(content), media_type))


def _with_sound_handle(
    masked: Mapping[str, Any], fields: Mapping[str, Any], redaction: Redaction
) -> Mapping[str, Any]:
    """The same, with a handle whose parts were masked, not the text that they make up."""
    handle = fields.get("handle")
    if fields.get("type") != "handle" or masked.get("handle") == handle:
        return masked
    try:
        parsed = Handle.parse(_text(handle))
        meta = tuple(redaction.text(part) for part in parsed.meta)
        sound = str(Handle(parsed.plugin, parsed.version, parsed.method, meta))
    except HandleError:
        return masked
    return {**masked, "handle": sound}


def _hides_keys(line: bytes) -> bool:
    """Whether a line says more than its keys do: a key twice, or what is no JSON."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key stands there twice")

    try:
        json.loads(line, object_pairs_hook=check)
    except (ValueError, RecursionError):
        return True
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
