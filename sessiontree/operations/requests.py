"""Requests as they were sent, from the records of Claude Code in its transcript or in an import.

The cost is one look at each `custom` entry, the records of the chain of bases, and the messages of
the request; if a message is not recorded apart, one look at each message too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from sessiontree.agents.claude_code import requests as recorded
from sessiontree.context.providers.values import Request
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry, decode_leniently
from sessiontree.core.limits import REQUEST_BYTES, Budget
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import FileError, TooMuchError, UsageError

_RECORD: Final = "claude-code:api-request"
_BLOB: Final = f"{_RECORD}-blob"
_SHAPE: Final = f"{_RECORD}-shape"
_KEYS: Final = {_RECORD: "id", _BLOB: "hash", _SHAPE: "shapeHash"}
_NEEDLE: Final = f'"{_RECORD}'.encode()

_SHORTEST_PREFIX: Final = 4


def sent_request(
    cursor: Cursor,
    original_line: Callable[[Entry], bytes],
    entry_of: Callable[[], Entry | None],
    ref: object,
) -> Request:
    """See `Session.sent_request`; `entry_of` gives the entry that `ref` means."""
    records = _Records(cursor)
    id = records.find(ref) if isinstance(ref, str) else None
    if id is None:
        id = _named_by(entry_of(), original_line, records)
    try:
        return records.request(id)
    except RecursionError:
        raise TooMuchError(
            f"request {one_line(id, 60)!r} is nested too deeply to be read"
        ) from None


def _named_by(
    entry: Entry | None, original_line: Callable[[Entry], bytes], records: _Records
) -> str:
    if entry is None:
        raise UsageError(
            "there is no answer above the leaf; name an answer, or a request by its id"
        )
    id = records.id_of(entry)
    if id is not None:
        return id
    if not is_answer(entry):
        raise UsageError(
            f"entry {entry.uuid} is not an answer of the model, and no record of a request; name "
            "an answer"
        )
    line = decode_leniently(original_line(entry))
    found = line.get("requestRef") or (line.get("original") or {}).get("requestRef")
    if isinstance(found, str) and not records.has(found):
        raise records.lost(
            f"request {one_line(found, 60)!r}, which answer {entry.uuid} names",
            "Claude Code did not record it, or this is a copy; look in the session that was copied",
        )
    if not isinstance(found, str):
        raise UsageError(
            f"answer {entry.uuid} names no record of its request; the context at its parent "
            f"{entry.parent_uuid} is what sessiontree would send for it"
        )
    return found


def is_answer(entry: Entry) -> bool:
    message = entry.as_stored.get("message")
    return isinstance(message, dict) and message.get("role") == "assistant"


class _Records:
    def __init__(self, cursor: Cursor) -> None:
        self._reader = cursor.reader
        self._file = self._reader.log.name
        self._rows: dict[str, dict[str, int]] = {kind: {} for kind in _KEYS}
        for row in self._reader.index().rows_of_type("custom"):
            entry = self._reader.entry_at(row)
            if _NEEDLE not in entry.line:
                continue
            kind, data = entry.as_stored.get("customType"), entry.as_stored.get("data")
            key = data.get(_KEYS.get(str(kind))) if isinstance(data, dict) else None
            if isinstance(key, str):
                self._rows[str(kind)][key] = row
        if not self._rows[_RECORD]:
            raise UsageError(
                f"{self._file} has no records of requests: only Claude Code has them, since "
                "2.1.330; the context is what sessiontree would send"
            )

    def find(self, ref: str) -> str | None:
        ids = self._rows[_RECORD]
        if ref in ids:
            return ref
        if len(ref) < _SHORTEST_PREFIX:
            return None
        found = [id for id in ids if id.startswith(ref)]
        return found[0] if len(found) == 1 else None

    def has(self, id: str) -> bool:
        return id in self._rows[_RECORD]

    def id_of(self, entry: Entry) -> str | None:
        if entry.as_stored.get("customType") != _RECORD:
            return None
        data = entry.as_stored.get("data")
        return data.get("id") if isinstance(data, dict) else None

    def request(self, id: str) -> Request:
        record = self._record(id, "it is not there")
        warnings: list[str] = []
        shape = self._shape(record, warnings)
        messages = self._messages(self._hashes(id), warnings)
        params = record.get("params")
        body = {**(params if isinstance(params, dict) else {}), **shape, "messages": messages}
        marks = record.get("cacheControl")
        body, lost = recorded.with_marks(body, marks if isinstance(marks, list) else ())
        if lost:
            warnings.append(f"{lost} marks of the cache have no place in the request")
        wanted = record.get("requestDigest")
        if "cut" in record or record.get("withheld"):
            warnings.append("Claude Code left parts of this request out of its record")
        elif not warnings and wanted and recorded.digest_of_request(body) != wanted:
            warnings.append("the request does not have the hash of its record: a part was changed")
        return Request(body, warnings)

    def _record(self, id: str, why: str) -> dict[str, Any]:
        row = self._rows[_RECORD].get(id)
        if row is None:
            raise self.lost(f"request {one_line(id, 60)!r}", why)
        found: dict[str, Any] = self._reader.entry_at(row)["data"]
        return found

    def lost(self, what: str, why: str) -> FileError:
        return FileError(f"{self._file} has no record of {what}: {why}", self._file)

    def _shape(self, record: dict[str, Any], warnings: list[str]) -> dict[str, Any]:
        hash = record.get("shapeHash")
        row = self._rows[_SHAPE].get(hash) if isinstance(hash, str) else None
        shape = None if row is None else self._reader.entry_at(row)["data"].get("shape")
        if not isinstance(shape, dict):
            what = f"the system prompt and tools {one_line(str(hash), 60)!r}"
            raise self.lost(what, f"the request {record['id']!r} names them")
        if recorded.digest(shape) != hash:
            warnings.append(f"the system prompt and tools were changed: their hash is not {hash}")
        return shape

    def _hashes(self, id: str) -> list[str]:
        """The hashes of the messages of a request, through the chain of its bases."""
        ends: list[list[str]] = []
        seen: set[str] = set()
        wanted, below = -1, id
        while wanted:
            if id in seen:
                raise FileError(
                    f"{self._file}: the records of requests form a loop at {id!r}; the messages "
                    f"of request {below!r} are not known",
                    self._file,
                )
            seen.add(id)
            record = self._record(id, f"request {below!r} goes on from it")
            keep, tail, base = record.get("keep"), record.get("tail"), record.get("base")
            if not isinstance(keep, int) or keep < 0 or not isinstance(tail, list):
                raise self.lost(f"the messages of request {id!r}", "'keep' or 'tail' is missing")
            count = len(tail) if wanted < 0 else max(wanted - keep, 0)
            if count > len(tail):
                why = f"request {below!r} keeps {wanted} of {keep + len(tail)} messages"
                raise self.lost(f"all messages of request {id!r}", why)
            ends.append(tail[:count])
            wanted = keep if wanted < 0 else min(wanted, keep)
            if wanted and not isinstance(base, str):
                raise self.lost(f"the base of request {id!r}", f"it keeps {keep} messages of it")
            below, id = id, str(base)
        return [str(hash) for tail in reversed(ends) for hash in tail]

    def _messages(self, hashes: list[str], warnings: list[str]) -> list[Any]:
        rows = self._rows[_BLOB]
        found: dict[str, Any] = {}
        others = {hash for hash in hashes if hash not in rows}
        if others:
            found.update(recorded.messages_of_runs(self._said(), others))
        sizes: dict[str, int] = {}
        size = Budget(REQUEST_BYTES, file=self._file)
        for hash in hashes:
            if hash in rows and hash not in found:
                found[hash] = self._reader.entry_at(rows[hash])["data"].get("message")
            message = found.get(hash)
            if not isinstance(message, dict):
                raise self.lost(f"message {one_line(hash, 64)}", "the request has it")
            if hash not in sizes:
                text = recorded.message_bytes(message)
                sizes[hash] = len(text)
                if hashlib.sha256(text).hexdigest() != hash:
                    warnings.append(f"a message was changed: its hash is not {hash}")
            size.take(sizes[hash])
        return [found[hash] for hash in hashes]

    def _said(self) -> Iterator[dict[str, Any]]:
        """The messages of the transcript in its order, also those not in a context."""
        for row in self._reader.index().rows_of_type("message", "custom"):
            entry = self._reader.entry_at(row)
            line = entry.body if entry.type == "message" else entry.get("data")
            if isinstance(line, dict) and line.get("type") in ("message", "user", "assistant"):
                message = line.get("message")
                yield message if isinstance(message, dict) else {}
