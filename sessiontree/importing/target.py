"""The target: the session that a source is imported into, made new.

`importing.update` adds to a target that exists.

A foreign file may name a parent that comes later or never, or have cycles, and may refer
to entries that it does not have. Read in place, that is damage; the imported session is
sound. So an entry waits for its parent; if the parent never comes or is below the entry,
the entry's parent is the header, and its path starts there as it does in place. A
reference to a missing entry becomes what it means in a context: a compaction keeps
nothing, a branch was left at the root, a label or an edit of nothing is a custom entry.

Invariants: a new target gets its name when it is complete, with its blobs; a parent comes
before its children; every reference names an entry of the session; each context is that
of the source read in place; each change is reported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from sessiontree.catalog.homes import agent_of_version_1
from sessiontree.core.blob import Blob
from sessiontree.core.codec import FORMAT, VERSION, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import (
    OPTIONAL_REFERENCES,
    REFERENCES,
    decode_leniently,
    decode_object,
)
from sessiontree.core.handle import Handle
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.migrate import uuid_of_line
from sessiontree.errors import NotASessionError
from sessiontree.formats.base import Place, Values, encoded
from sessiontree.importing.entries import SourceEntry, entries_of
from sessiontree.importing.readback import check_blobs, check_lines
from sessiontree.importing.shared import SharedBlobs
from sessiontree.importing.source import Source
from sessiontree.storage.atomic import create_file
from sessiontree.storage.backends import blobs_of, create_log, open_log
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.contents import spooled
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import Backwards
from sessiontree.storage.log import Log
from sessiontree.storage.move import make_folders
from sessiontree.storage.oserrors import os_errors
from sessiontree.storage.place import is_address

IMPORTED_FROM: Final = "importedFrom"
"""The metadata key of the record of an import."""

CONVERTED: Final = "converted"
"""The key of that record for a source that was converted from a session."""

_FIRST_KEPT: Final = "firstKeptEntryUuid"
_LEFT: Final = "fromUuid"
_KEPT_IN_CUSTOM: Final[tuple[str, ...]] = (
    *("uuid", "parentUuid", "lane", "timestamp", "original", "metadata"),
)


class Counts(NamedTuple):
    """What an import did."""

    entries: int  # the entries of the source without the header
    new: int  # those that were written
    blobs: int  # the large contents that were stored


class Opening(NamedTuple):
    """A source of which the header is read."""

    header: dict[str, Any]  # the keys of the header, as they will be written
    root: str  # the uuid of the header
    entries: Iterator[SourceEntry]  # the other entries, in order
    order: Order  # knows the leaf after the last entry


def opening_of(source: Source) -> Opening:
    """The start of a source; NotASessionError if no line of it can be read."""
    entries = entries_of(source)
    first = next(entries, None)
    if first is None:
        raise NotASessionError(
            f"{source.path} has no line that can be read; there is nothing to import", source.path
        )
    fields: dict[str, Any] = {key: orjson.Fragment(raw) for key, raw in first.fields.items()}
    for key in ("id", "cwd", "name", "timestamp", "metadata"):
        if key in first.fields:
            fields[key] = decode_leniently(first.fields[key])
    given = fields.get("metadata")
    metadata = dict(given) if isinstance(given, dict) else {}
    id = source.session_id(str(fields.get("id") or ""))
    agent = source.agent
    if source.format is None and (agent := agent_of_version_1(source.path, fields)) is not None:
        metadata.setdefault("agent", agent)
    if agent is not None and not id.rpartition(".")[2].startswith("agent-"):
        metadata[AGENT_SESSION_KEY] = id
    converted = {CONVERTED: True} if source.is_converted() else {}
    metadata[IMPORTED_FROM] = {"file": source.name, "state": source.state, **converted}
    fields |= {"version": VERSION, "format": FORMAT, "id": id, "metadata": metadata}
    order = Order(first.uuid, source)
    return Opening(fields, first.uuid, order.ordered(entries), order)


def create(fs: FileSystem, path: str, opening: Opening, shared: SharedBlobs | None) -> Counts:
    """Make the target, read back.

    Raises:
        SessionExistsError: the name is taken.
        StorageError: it cannot be made.
        CorruptionError: it is read back with other bytes.
    """
    own = blobs_of(fs, path)
    blobs = BlobHandles(own, shared)
    count = size = 0

    def lines() -> Iterator[bytes]:
        nonlocal count, size
        line = encoded(opening.header) + b"\n"
        size += len(line)
        yield line
        for entry in opening.entries:
            line = entry.line(blobs.put) + b"\n"
            count += 1
            size += len(line)
            yield line

    def check(made: str) -> None:
        check_lines(fs, path, 0, size, 1 + count, made)
        check_blobs(own, blobs.made)

    _make(fs, path, lines(), check)
    return Counts(count, count, len(blobs.made))


def _make(
    fs: FileSystem, file: str, lines: Iterator[bytes], check: Callable[[str], object]
) -> None:
    """Make a session that is checked before it has its name, or right after at an address."""
    if is_address(file):
        with spooled(lines) as blocks:  # the blobs are stored, and no transaction waits for them
            create_log(fs, file, blocks)
        check(file)
        return
    folder = os.path.dirname(file)
    with os_errors(folder, "make"):
        make_folders(fs, os.path.abspath(folder))
    create_file(fs, file, lines, check)


def planned(opening: Opening) -> Counts:
    """What `create` would do; nothing is written."""
    blobs = BlobHandles(None)
    count = sum(bool(entry.line(blobs.put)) for entry in opening.entries)
    return Counts(count, count, len(blobs.made))


class BlobHandles:
    """Makes the handles of large strings, and stores those, unless `blobs` is None.

    `shared` are the blobs of other sessions, which are stored once.
    """

    def __init__(self, blobs: Blobs | None, shared: SharedBlobs | None = None) -> None:
        self._blobs = blobs
        self._shared = shared
        self.made: set[Blob] = set()

    def put(self, content: bytes, media_type: str) -> str:
        if self._blobs is not None and self._shared is not None:
            blob = self._shared.put(self._blobs, content)
        elif self._blobs is not None:
            blob = self._blobs.put(content)
        else:
            blob = Blob(hashlib.sha256(content).hexdigest(), len(content))
        self.made.add(blob)
        return str(Handle.blob(*blob, media_type))

    def are_stored(self) -> bool:
        """Whether all blobs are still in their places."""
        return self._blobs is not None and all(self._blobs.has(blob) for blob in self.made)


def handle_of(content: bytes, media_type: str) -> str:
    return BlobHandles(None).put(content, media_type)


def is_up_to_date(fs: FileSystem, path: str, state: str) -> bool:
    """Whether a target has all entries of a source in this state; reads only its end."""
    with contextlib.closing(open_log(fs, path, readonly=True)) as log:
        for _, line in Backwards(log.read).find(b'"%b"' % IMPORTED_FROM.encode(), log.size()):
            if line.startswith(b'{"type":"session'):  # the header, or a session_info
                record = record_in(decode_object(line))
                if record.get("state") != state:
                    return False
                last = record.get("last")
                return last is None or _has(log, str(last))
    return False


def record_in(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The record of an import in an entry's metadata; empty if there is none."""
    metadata = keys.get("metadata")
    record = metadata.get(IMPORTED_FROM) if isinstance(metadata, dict) else None
    return record if isinstance(record, dict) else {}


def _has(log: Log, uuid: str) -> bool:
    lines = Backwards(log.read).find(b'"uuid":%b' % dumps(uuid), log.size())
    heads = (head(line, 0, ignore) for _, line in lines)
    return any(found is not None and found.uuid == uuid for found in heads)


class Order:
    """Puts the entries of one source in order, below the header `root`.

    `leaf` is the uuid of the source's leaf: its last entry on the main lane.
    """

    def __init__(self, root: str, source: Source) -> None:
        self._root = root
        self._source = source
        self._parents: dict[str, str] = {}
        self._last_below: dict[str, str] = {}  # by a first kept entry: the last one to name it
        self._waiting: dict[str, list[SourceEntry]] = {}
        self._held: list[SourceEntry] = []
        self._time: bytes | None = None
        self.leaf = self._last = root

    def ordered(self, entries: Iterator[SourceEntry]) -> Iterator[SourceEntry]:
        """The entries, each after its parent, and last the source's leaf."""
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
        if place is not None and self._last != self.leaf:
            branch = branch_to(self.leaf, self._last, place)
            yield self._timed(branch)
            self._last = self.leaf = branch.uuid

    def _timed(self, branch: SourceEntry) -> SourceEntry:
        """A branch with the time of the agent's last entry, if it has none."""
        if self._time is not None:
            branch.fields.setdefault("timestamp", self._time)
        return branch

    def _placed(self, entry: SourceEntry) -> Iterator[SourceEntry]:
        """An entry whose parent is there, and the entries that wait for it."""
        ready = [entry]
        while ready:
            entry = ready.pop()
            self._correct_references(entry)
            self._parents[entry.uuid] = entry.parent
            if entry.lane is None:
                self._last = entry.uuid
            if entry.type == "branch":
                self._timed(entry)
            elif entry.lane is None:
                self._time = entry.fields.get("timestamp", self._time)
            yield entry
            ready.extend(reversed(self._waiting.pop(entry.uuid, ())))

    def _rest(self) -> Iterator[SourceEntry]:
        """The entries whose parent never came or is below them."""
        held = {entry.uuid: entry for entry in self._held if entry.uuid not in self._parents}
        for top in _tops(list(held.values())):
            siblings = self._waiting.get(top.parent, [])
            self._waiting[top.parent] = [other for other in siblings if other is not top]
            if top.parent in held:
                cause = f"entry {top.uuid} is an ancestor of its own parent {top.parent}"
                self._source.note("cycle", top.place, cause)
            else:
                cause = f"the parent {top.parent} of entry {top.uuid} is not in the file"
                self._source.note("missing parent", top.place, cause)
            top.keep_original("parentUuid")
            top.parent = self._root
            yield from self._placed(top)

    def _correct_references(self, entry: SourceEntry) -> None:
        for key in REFERENCES.get(entry.type, ()):
            named = _text(entry.fields.get(key))
            if named is None and key not in entry.fields and key in OPTIONAL_REFERENCES:
                continue
            if named is not None and self._is_valid(named, key, entry):
                continue
            if named is None or (key, named) != (_LEFT, "root"):  # pi's name for the top
                cause = f"the {key} of {entry.type} {entry.uuid} names no valid entry: {named}"
                self._source.note("reference", entry.place, cause)
            entry.keep_original(key)
            if key == _FIRST_KEPT:
                entry.fields[key] = dumps(entry.uuid)
            elif key == _LEFT:
                entry.fields[key] = dumps(self._root)
            else:
                self._make_custom(entry)
                return

    def _is_valid(self, named: str, key: str, entry: SourceEntry) -> bool:
        if key != _FIRST_KEPT:
            return named in self._parents or named == self._root
        above = entry.parent
        if named == entry.uuid:
            return True
        known = self._last_below.get(named, named)  # so that many compactions cost one walk
        while above not in (named, known) and above in self._parents:
            above = self._parents[above]
        is_above = above in (named, known)
        if is_above:
            self._last_below[named] = entry.uuid
        return is_above

    def _make_custom(self, entry: SourceEntry) -> None:
        """Turn an entry without effect into a custom one that holds its fields."""
        data = {key: value for key, value in entry.fields.items() if key not in _KEPT_IN_CUSTOM}
        kept = {key: entry.fields[key] for key in _KEPT_IN_CUSTOM if key in entry.fields}
        named = dumps(f"{self._source.agent or 'sessiontree'}:{entry.type}")
        made = {"customType": named, "data": Values(data).as_json()}
        entry.type, entry.fields = "custom", {"type": b'"custom"', **kept, **made}


def branch_to(leaf: str, after: str, place: Place) -> SourceEntry:
    """A branch that makes `leaf` the leaf again, to follow the entry `after`."""
    uuid = uuid_of_line(leaf, 0, b"leaf after " + after.encode("utf-8", "replace"))
    return SourceEntry(place, "branch", uuid, leaf, None, {"type": b'"branch"'}, is_made=True)


def _tops(held: list[SourceEntry]) -> list[SourceEntry]:
    """The entries without a parent, and the top of each cycle, as the index of a file cuts it."""
    above: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    passed: set[str] = set()
    for entry in held:
        uuid, parent = entry.uuid, entry.parent
        passed.add(uuid)
        if parent in passed and parent != uuid:
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
