"""The target: the session of ours that a source is imported into, made anew.

One that is there already grows: see `importing.update`.

Invariant: a new target has its name when it is whole, with its blobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.core.blob import Blob
from sessiontree.core.codec import FORMAT, VERSION, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import decode_leniently, decode_object
from sessiontree.core.handle import Handle
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.jsonbytes import dumps
from sessiontree.formats.base import encoded
from sessiontree.importing.entries import Carried, carried
from sessiontree.importing.hanging import Hanging
from sessiontree.importing.source import Source
from sessiontree.storage.atomic import create_file
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.journal import Journal
from sessiontree.storage.lines import Backwards

IMPORTED_FROM: Final = "importedFrom"
"""The metadata key that tells what a session was imported from."""

CONVERTED: Final = "converted"
"""The key in that of a session that was made of one of ours, as it was converted."""


class Counts(NamedTuple):
    """What an import did.

    Attributes:
        entries: the entries that the source has, the header not counted.
        new: those of them that were written.
        blobs: the large contents that were stored.
    """

    entries: int
    new: int
    blobs: int


class Opening(NamedTuple):
    """A source that was begun: its header, and its other entries, hung.

    Attributes:
        header: the keys of the header, as they will be written.
        root: the uuid of the header.
        entries: the others.
        hanging: knows where they end.
    """

    header: dict[str, Any]
    root: str
    entries: Iterator[Carried]
    hanging: Hanging


def begun(source: Source) -> Opening | None:
    """The start of a source; None where it has not even a header."""
    entries = carried(source)
    first = next(entries, None)
    if first is None:
        return None
    fields: dict[str, Any] = {key: orjson.Fragment(raw) for key, raw in first.fields.items()}
    for key in ("id", "cwd", "name", "timestamp", "metadata"):
        if key in first.fields:
            fields[key] = decode_leniently(first.fields[key])
    told = fields.get("metadata")
    metadata = dict(told) if isinstance(told, dict) else {}
    id = source.session_id(str(fields.get("id") or ""))
    if source.agent is not None and not id.rpartition(".")[2].startswith("agent-"):
        metadata[AGENT_SESSION_KEY] = id
    came_from = {"file": source.name, "state": source.state}
    metadata[IMPORTED_FROM] = {**came_from, **({CONVERTED: True} if source.is_converted() else {})}
    fields |= {"version": VERSION, "format": FORMAT, "id": id, "metadata": metadata}
    hanging = Hanging(first.uuid, source)
    return Opening(fields, first.uuid, hanging.hung(entries), hanging)


def create(fs: FileSystem, path: str, opening: Opening) -> Counts:
    """Make the target.

    Raises:
        FileTakenError: the path is taken; what is there stays.
        DiskError: it cannot be written, or the source cannot be read any more.
    """
    blobs = Stored(Blobs(fs, path))
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        yield encoded(opening.header) + b"\n"
        for entry in opening.entries:
            count += 1
            yield entry.line(blobs.put) + b"\n"

    create_file(fs, path, lines())
    return Counts(count, count, len(blobs.blobs))


def counted(opening: Opening) -> Counts:
    """What `create` would do, with nothing written.

    Raises:
        DiskError: the source cannot be read any more.
    """
    blobs = Named()
    count = 0
    for entry in opening.entries:
        count += 1
        entry.line(blobs.put)
    return Counts(count, count, len(blobs.blobs))


class Stored:
    """Keeps large strings in blobs.

    Attributes:
        blobs: those that it kept.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.blobs: set[Blob] = set()

    def put(self, content: bytes, media_type: str) -> str:
        blob = self._blobs.put(content)
        self.blobs.add(blob)
        return str(Handle.blob(*blob, media_type))

    def are_kept(self) -> bool:
        """Whether all of them are in their places still."""
        return all(self._blobs.has(blob) for blob in self.blobs)


class Named:
    """Names large strings as blobs would be named, and keeps none.

    Attributes:
        blobs: those that it named.
    """

    def __init__(self) -> None:
        self.blobs: set[Blob] = set()

    def put(self, content: bytes, media_type: str) -> str:
        blob = Blob(hashlib.sha256(content).hexdigest(), len(content))
        self.blobs.add(blob)
        return str(Handle.blob(*blob, media_type))


def named_only(content: bytes, media_type: str) -> str:
    """The text form of the handle that a blob would have."""
    return Named().put(content, media_type)


def is_at(fs: FileSystem, path: str, state: str) -> bool:
    """Whether a target has all that a source in this state says: one look at its end."""
    journal = Journal(fs, path, readonly=True)
    try:
        end = journal.size()
        for _, line in Backwards(journal.read).find(b'"%b"' % IMPORTED_FROM.encode(), end):
            if line.startswith(b'{"type":"session'):  # the header, or a session_info
                told = record_in(decode_object(line))
                if told.get("state") != state:
                    return False
                last = told.get("last")
                return last is None or _has(journal, str(last))
    finally:
        journal.close()
    return False


def record_in(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry's metadata tells of the import that wrote it; empty where it does not."""
    metadata = keys.get("metadata")
    record = metadata.get(IMPORTED_FROM) if isinstance(metadata, dict) else None
    return record if isinstance(record, dict) else {}


def _has(journal: Journal, uuid: str) -> bool:
    """Whether an entry is in a file, and not the torn start of one."""
    for _, line in Backwards(journal.read).find(b'"uuid":%b' % dumps(uuid), journal.size()):
        found = head(line, 0, ignore)
        if found is not None and found.uuid == uuid:
            return True
    return False
