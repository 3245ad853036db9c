"""The target: the session of ours that a source is imported into, made anew.

One that is there already grows: see `importing.update`.

Invariant: a new target has its name when it is whole, with its blobs.

Hanging: each entry below its parent, and each reference to what is there.

A foreign file may name a parent that comes later, or never, or go in circles, and may
refer to what is not in it. Where it is read in place, that is damage; what is imported
is sound. So an entry waits until its parent is there; where that never comes, or the
circle closes, it hangs below the header, and its path starts there as it does in place.
A reference to nothing becomes what it means to a context: a compaction keeps nothing,
a branch that was left is the root, a label and an edit of nothing are custom entries.

Invariants: a parent stands before its children; every reference names what is there;
each context is that of the file read in place; what was mended is reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.core.blob import Blob
from sessiontree.core.codec import FORMAT, VERSION, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import REFERENCES, decode_leniently, decode_object
from sessiontree.core.handle import Handle
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.migrate import uuid_of_line
from sessiontree.formats.base import Values, encoded
from sessiontree.importing.entries import Carried, carried, keep_original
from sessiontree.importing.source import Source
from sessiontree.storage.atomic import create_file
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import Backwards
from sessiontree.storage.log import FileLog

_ABOVE: Final = "firstKeptEntryUuid"
_LEFT: Final = "fromUuid"


class Hanging:
    """Puts the entries of one source in order. The header is taken by itself.

    Attributes:
        leaf: the uuid at which the source stands: its last entry on the main lane.
        last: the uuid of the last entry of the main lane that was given.
    """

    def __init__(self, root: str, source: Source) -> None:
        self._root = root
        self._source = source
        self._parents: dict[str, str] = {}
        self._waiting: dict[str, list[Carried]] = {}
        self._agent = None if source.format is None else source.format.name
        self._held: list[Carried] = []
        self._time: bytes | None = None
        self.leaf = self.last = root

    def hung(self, entries: Iterator[Carried]) -> Iterator[Carried]:
        """The entries, each behind its parent, and at their end the source's leaf."""
        place = None
        for entry in entries:
            place = entry.place
            if entry.lane is None:
                self.leaf = entry.uuid
            if entry.parent == self._root or entry.parent in self._parents:
                yield from self._placed(entry)
            else:
                self._waiting.setdefault(entry.parent, []).append(entry)
                self._held.append(entry)
        yield from self._rest()
        if place is not None and self.last != self.leaf:
            uuid = uuid_of_line(self.leaf, 0, b"leaf after " + self.last.encode("utf-8", "replace"))
            fields = self._timed({"type": b'"branch"'})
            yield Carried(place, "branch", uuid, self.leaf, None, fields, is_made=True)
            self.last = self.leaf = uuid

    def _timed(self, fields: dict[str, bytes]) -> dict[str, bytes]:
        """The fields of a branch, which was made when the agent last said something."""
        if self._time is not None:
            fields.setdefault("timestamp", self._time)
        return fields

    def _placed(self, entry: Carried) -> Iterator[Carried]:
        ready = [entry]
        while ready:
            entry = ready.pop()
            self._mend(entry)
            self._parents[entry.uuid] = entry.parent
            if entry.lane is None:
                self.last = entry.uuid
            if entry.type == "branch":
                self._timed(entry.fields)
            elif entry.lane is None:
                self._time = entry.fields.get("timestamp", self._time)
            yield entry
            ready.extend(reversed(self._waiting.pop(entry.uuid, ())))

    def _rest(self) -> Iterator[Carried]:
        """Those whose parent never came, or stands in a circle with them."""
        held = {entry.uuid: entry for entry in self._held if entry.uuid not in self._parents}
        for top in _tops(list(held.values())):
            yield from self._placed(self._below_header(top, held))

    def _below_header(self, entry: Carried, held: dict[str, Carried]) -> Carried:
        siblings = self._waiting.get(entry.parent, [])
        self._waiting[entry.parent] = [other for other in siblings if other is not entry]
        if entry.parent in held:
            cause = f"entry {entry.uuid} is an ancestor of its own parent {entry.parent}"
            self._source.note("cycle", entry.place, cause)
        else:
            cause = f"the parent {entry.parent} of entry {entry.uuid} is not in the file"
            self._source.note("missing parent", entry.place, cause)
        keep_original(entry, "parentUuid")
        entry.parent = self._root
        return entry

    def _mend(self, entry: Carried) -> None:
        """Let what an entry refers to be there."""
        for key in REFERENCES.get(entry.type, ()):
            named = _text(entry.fields.get(key))
            if named is not None and self._is_there(named, key, entry):
                continue
            if named is None or (key, named) != (_LEFT, "root"):  # so pi names the top
                cause = f"the {key} of {entry.type} {entry.uuid} names nothing it could: {named}"
                self._source.note("reference", entry.place, cause)
            keep_original(entry, key)
            if key == _ABOVE:
                entry.fields[key] = dumps(entry.uuid)
            elif key == _LEFT:
                entry.fields[key] = dumps(self._root)
            else:
                self._make_custom(entry)
                return

    def _is_there(self, named: str, key: str, entry: Carried) -> bool:
        if key != _ABOVE:
            return named in self._parents or named == self._root
        above = entry.parent
        if named == entry.uuid:
            return True
        while above != named and above in self._parents:
            above = self._parents[above]
        return above == named

    def _make_custom(self, entry: Carried) -> None:
        """An entry that could do nothing, as one that says nothing."""
        own = ("uuid", "parentUuid", "lane", "timestamp", "original", "metadata")
        data = {key: value for key, value in entry.fields.items() if key not in own}
        kept = {key: entry.fields[key] for key in own if key in entry.fields}
        named = f"{self._agent or 'sessiontree'}:{entry.type}"
        entry.type = "custom"
        entry.fields = {
            "type": b'"custom"',
            **kept,
            "customType": dumps(named),
            "data": Values(data).as_json(),
        }


def _tops(held: list[Carried]) -> list[Carried]:
    """Those that a circle is cut above, where the index of a file cuts it, and those without
    a parent."""
    above: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    come: set[str] = set()
    for entry in held:
        uuid, parent = entry.uuid, entry.parent
        come.add(uuid)
        if parent in come and parent != uuid:
            above[uuid] = parent
        elif parent != uuid:
            waiting.setdefault(parent, []).append(uuid)
        for child in waiting.pop(uuid, ()):
            top = uuid
            while top in above:
                top = above[top]
            if top != child:
                above[child] = uuid
    return [entry for entry in held if entry.uuid not in above]


def _text(raw: bytes | None) -> str | None:
    value = None if raw is None else decode_leniently(raw)
    return value if isinstance(value, str) else None


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
        SessionExistsError: the path is taken; what is there stays.
        StorageError: it cannot be written, or the source cannot be read any more.
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
        StorageError: the source cannot be read any more.
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
    log = FileLog(fs, path, readonly=True)
    try:
        end = log.size()
        for _, line in Backwards(log.read).find(b'"%b"' % IMPORTED_FROM.encode(), end):
            if line.startswith(b'{"type":"session'):  # the header, or a session_info
                told = record_in(decode_object(line))
                if told.get("state") != state:
                    return False
                last = told.get("last")
                return last is None or _has(log, str(last))
    finally:
        log.close()
    return False


def record_in(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry's metadata tells of the import that wrote it; empty where it does not."""
    metadata = keys.get("metadata")
    record = metadata.get(IMPORTED_FROM) if isinstance(metadata, dict) else None
    return record if isinstance(record, dict) else {}


def _has(log: FileLog, uuid: str) -> bool:
    """Whether an entry is in a file, and not the torn start of one."""
    for _, line in Backwards(log.read).find(b'"uuid":%b' % dumps(uuid), log.size()):
        found = head(line, 0, ignore)
        if found is not None and found.uuid == uuid:
            return True
    return False
