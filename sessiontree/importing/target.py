"""The target of an import: made new or updated, its blobs shared, and read back.

A foreign file may name a parent that comes later or never, or have cycles, and may refer to entries
that it does not have. Read in place, that is damage; the imported session is sound. So an entry
waits for its parent; if the parent never comes or is below the entry, the entry's parent is the
header, and its path starts there as it does in place. A reference to a missing entry becomes what
it means in a context: a compaction keeps nothing, a branch was left at the root, a label or an edit
of nothing is a custom entry.

A content is stored once for all sessions of a folder. Each session has a name of its own for it;
where the file system has hard links, the second one costs no space, and to remove one session never
hurts another.

An update skips an entry that the session has as the source has it, and appends a new one. One that
the source has changed (its parent is another, or it was replaced) is appended under a uuid derived
from its line, with the entries below it. The main leaf follows the source, unless a user appended
to the session: then the main lane is the user's, and new entries go to a lane with the agent's
name. Of copies of a source that both went on, such as conflict copies of a sync program, the leaf
is that of the later one, and the other one is a branch.

Invariants:

- A new target gets its name when it is complete, with its blobs.
- A parent comes before its children, and every reference names an entry of the session.
- Each context is that of the source read in place; each change is reported.
- An update changes nothing that is there, and is one write, so that a crash keeps a part from its
  start at most, which the next import completes.
- Bytes of other writers are not read back.
- A blob of another session is read and compared with its hash before it is shared.
- An import that finds nothing new writes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import replace

from sessiontree.agents.agent import is_uuid
from sessiontree.agents.base import LinePlace, Values, encoded
from sessiontree.core.codec import FORMAT, VERSION, head, lines_in
from sessiontree.core.damage import ignore
from sessiontree.core.entry import (
    ANNOTATIONS,
    MARK_OF_JOINED,
    MISSING_PARENT,
    OPTIONAL_REFERENCES,
    REFERENCES,
    REWRITTEN,
    Entry,
    decode_leniently,
    decode_object,
    missing_parent,
    moment_of,
)
from sessiontree.core.handle import Blob, Handle
from sessiontree.core.header import CONVERTED, IMPORTED_FROM
from sessiontree.core.index import NO_ROW
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import TYPED
from sessiontree.core.migrate import uuid_of_line
from sessiontree.core.usage import is_session_sum
from sessiontree.core.verify import is_sealed
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.reader import BlobFetch
from sessiontree.engine.scan import LogScan
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import CorruptionError, NotASessionError, SessionTreeError
from sessiontree.importing.source import ORIGINAL, ImportSource, PutBlob, SourceEntry, entries_of
from sessiontree.library.homes import agent_of_version_1
from sessiontree.library.listing import HAS_MORE
from sessiontree.storage.atomic import create_file
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.contents import spooled
from sessiontree.storage.fs import FileSystem, os_errors
from sessiontree.storage.lines import Backwards, rest_of_line, whole_lines
from sessiontree.storage.log import Log
from sessiontree.storage.names import BLOBS, is_not_entered
from sessiontree.storage.place import is_address
from sessiontree.storage.places import blobs_of, create_log, open_log
from sessiontree.storage.sidecars import make_folders


def check_lines(
    fs: FileSystem, session: str, start: int, end: int, count: int, path: str = ""
) -> None:
    """Check that a session has so many whole lines between two offsets, each with its checksum.

    `path` is the path of the file now, if it does not have its name yet. Raises CorruptionError if
    it has not, StorageError if the file cannot be read.
    """
    found = 0
    with contextlib.closing(open_log(fs, path or session, readonly=True)) as log:
        for offset, block in whole_lines(log.read, start, end):
            for line in lines_in(block):
                if not is_sealed(line + b"\n"):
                    cause = f"the line at byte {offset:,} reads back with other bytes"
                    raise _lost(session, offset, cause)
                offset += len(line) + 1
                found += 1
    if found != count:
        raise _lost(session, start, f"{found:,} of {count:,} lines read back")


def _lost(path: str, offset: int, cause: str) -> CorruptionError:
    message = (
        f"{path} is not kept: {cause}; the medium does not return what was written: check it, and "
        "back up to another one meanwhile"
    )
    return CorruptionError(message, path, offset)


_NAME_OF_BLOB: Final = re.compile(r"[0-9a-f]{64}")


class SharedBlobs:
    """The blobs of all sessions in a folder and below, which is looked at when one is first put."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._holders: dict[str, str] | None = None

    def put(self, blobs: Blobs, content: bytes) -> Blob:
        """Store a content among the blobs of a session; raises as `Blobs.put` does."""
        if self._holders is None:
            self._holders = self._found()
        sha256 = hashlib.sha256(content).hexdigest()
        blob = Blob(sha256, len(content))
        holder = self._holders.get(sha256)
        if holder not in (None, blobs.file) and not blobs.has(blob) and blobs.look(sha256) is None:
            with contextlib.suppress(SessionTreeError):  # the content itself is stored below
                blobs.link_from(Blobs(self._fs, str(holder)), [blob])
        stored = blobs.put(content)
        self._holders[sha256] = blobs.file
        return stored

    def _found(self) -> dict[str, str]:
        """For each blob the file of a session that has it, by their names."""
        holders: dict[str, str] = {}
        for where, folders, _ in os.walk(self._folder):
            for name in [name for name in folders if name.endswith(BLOBS)]:
                holder = os.path.join(where, name)
                with contextlib.suppress(OSError):
                    for blob in filter(_NAME_OF_BLOB.fullmatch, self._fs.list(holder)):
                        holders[blob] = holder.removesuffix(BLOBS)
            folders[:] = [name for name in folders if not is_not_entered(name)]
        return holders


_FIRST_KEPT: Final = "firstKeptEntryUuid"
_LEFT: Final = "fromUuid"
_KEPT_IN_CUSTOM: Final[tuple[str, ...]] = (
    *("uuid", "parentUuid", "lane", "timestamp", "original", "metadata"),
)


class ImportCounts(NamedTuple):
    """What an import did."""

    entries: int  # the entries of the source without the header
    new: int  # those that were written
    blobs: int  # the large contents that were stored


class OpenedSource(NamedTuple):
    """A source whose header is read."""

    header: dict[str, Any]  # its keys, as they will be written
    root: str  # its uuid
    entries: Iterator[SourceEntry]  # the other entries, in order
    order: Order  # knows the leaf after the last entry
    lost_head: bool = False  # whether the source has no header, so that entries may be lost with it


def opening_of(source: ImportSource) -> OpenedSource:
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
    in_lines = str(fields.get("id") or "")
    id = source.session_id(in_lines)
    agent = source.maker
    if source.agent is None and (agent := agent_of_version_1(source.path, fields)) is not None:
        metadata.setdefault("agent", agent)
    if agent is not None and not source.id_above()[1]:
        metadata |= source.ids(in_lines)
    converted = {CONVERTED: True} if source.is_converted() else {}
    metadata[IMPORTED_FROM] = {"file": source.name, "state": source.state, **converted}
    fields |= {"version": VERSION, "format": FORMAT, "id": id, "metadata": metadata}
    order = Order(first.uuid, source)
    return OpenedSource(fields, first.uuid, order.ordered(entries), order, first.is_made)


def create(
    fs: FileSystem, path: str, opening: OpenedSource, shared: SharedBlobs | None
) -> ImportCounts:
    """Make the target, read back before it has its name, or right after at an address.

    Raises:
        SessionExistsError: the name is taken.
        StorageError: it cannot be made.
        CorruptionError: it is read back with other bytes.
    """
    blobs = BlobHandles(blobs_of(fs, path), shared)
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
        blobs.check()

    if is_address(path):
        with spooled(lines()) as blocks:  # the blobs are stored, and no transaction waits for them
            create_log(fs, path, blocks)
        check(path)
    else:
        folder = os.path.dirname(path)
        with os_errors(folder, "make"):
            make_folders(fs, os.path.abspath(folder))
        create_file(fs, path, lines(), check)
    return ImportCounts(count, count, len(blobs.made))


def planned(opening: OpenedSource) -> ImportCounts:
    """What `create` would do; nothing is written."""
    blobs = BlobHandles(None)
    count = sum(bool(entry.line(blobs.put)) for entry in opening.entries)
    return ImportCounts(count, count, len(blobs.made))


class BlobHandles:
    """Makes the handles of large strings, and stores those unless `blobs` is None."""

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
        return self._blobs is not None and all(self._blobs.has(blob) for blob in self.made)

    def check(self) -> None:
        """Read each blob back; CorruptionError if one does not have the bytes of its hash."""
        for blob in self.made:
            if self._blobs is not None and not self._blobs.is_whole(blob):
                cause = f"blob {blob.sha256} reads back with other bytes"
                raise _lost(self._blobs.file, 0, cause)


def handle_of(content: bytes, media_type: str) -> str:
    return BlobHandles(None).put(content, media_type)


def is_up_to_date(fs: FileSystem, path: str, state: str) -> bool:
    """True if a target has all entries of a source in this state; reads only its end."""
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
    """Puts the entries of one source in order, below the header `root`."""

    def __init__(self, root: str, source: ImportSource) -> None:
        self._root = root
        self._source = source
        self._parents: dict[str, str] = {}
        self._last_below: dict[str, str] = {}  # by a first kept entry: the last one to name it
        self._waiting: dict[str, list[SourceEntry]] = {}
        self._held: list[SourceEntry] = []
        self._time: bytes | None = None
        self.leaf = self._last = root  # the last entry on the main lane, of the source and here

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
        if self._time is not None:
            branch.fields.setdefault("timestamp", self._time)
        return branch

    def _placed(self, entry: SourceEntry) -> Iterator[SourceEntry]:
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
        held = {entry.uuid: entry for entry in self._held if entry.uuid not in self._parents}
        for top in _tops(list(held.values())):
            siblings = self._waiting.get(top.parent, [])
            self._waiting[top.parent] = [other for other in siblings if other is not top]
            if top.parent in held:
                cause = f"entry {top.uuid} is an ancestor of its own parent {top.parent}"
                self._source.note("cycle", top.place, cause)
            else:
                cause = f"the parent {top.parent} of entry {top.uuid} is not in the file"
                self._source.note("lost parent", top.place, cause)
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
        data = {key: value for key, value in entry.fields.items() if key not in _KEPT_IN_CUSTOM}
        kept = {key: entry.fields[key] for key in _KEPT_IN_CUSTOM if key in entry.fields}
        named = dumps(f"{self._source.maker or 'sessiontree'}:{entry.type}")
        made = {"customType": named, "data": Values(data).as_json()}
        entry.type, entry.fields = "custom", {"type": b'"custom"', **kept, **made}


def branch_to(leaf: str, after: str, place: LinePlace) -> SourceEntry:
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


_REWRITTEN: Final = b'"%b":[' % REWRITTEN.encode()

VARIANT_OF: Final = "variantOf"
"""The key of an entry that the source changed: the uuid of the earlier one."""

# `metadata` is what the reader noted about an entry.
_NOT_CONTENT: Final = frozenset(
    {"uuid", "parentUuid", "lane", "timestamp", "crc", "metadata", ORIGINAL}
)

_OF_PROGRAM: Final = frozenset(
    {
        *("parentUuid", "parentId", "sessionId", "agentId", "isSidechain"),
        *("timestamp", "cwd", "version", "gitBranch", "userType"),
    }
)
"""The keys of a source line that describe the program, not the conversation."""


class Update:
    """What a source adds to a target, which is open as a log."""

    def __init__(self, log: Log, opening: OpenedSource, agent: str | None) -> None:
        self._log = log
        self._opening = opening
        self._view = LogTree(log)
        self._tree = self._view.tree()
        self._agent = agent or "import"
        self._names = LogScan(log.read, self._view).names()
        self._given = {opening.root: self._view.header.uuid}
        self._seen = {self._view.header.uuid}
        self._lanes: dict[str, str | None] = {}
        self._is_copy = CONVERTED in record_in(self._view.header.body)
        self._content = self._tree.content_rows()
        self._count = 0

    @property
    def size(self) -> int:
        return self._view.size

    def lines(self, put: PutBlob) -> tuple[list[bytes], ImportCounts]:
        """The lines to append, and their counts; `put` takes the large strings."""
        found = (self._new(entry) for entry in self._opening.entries)
        new = self._on_lanes([entry for entry in found if entry is not None])
        before = self._leaf()
        lane = self._agent if before is not None and _is_of_user(before, self._seen) else None
        leaf = self._given.get(self._opening.order.leaf, self._opening.order.leaf)
        main = [entry for entry in new if entry.lane is None]
        if main and main[-1].uuid != leaf:
            main.append(branch_to(leaf, main[-1].uuid, main[-1].place))
            new.append(main[-1])
        if main and before is not None and lane is None and self._is_later(before, main):
            back = branch_to(before.uuid, main[-1].uuid, main[-1].place)
            back.fields["timestamp"] = dumps(before.timestamp)
            main.append(back)
            new.append(back)
        for entry in main:
            entry.lane = lane
        lines = [entry.line(put) for entry in new]
        record = self._record_of(new, lane)
        if record is not None:
            lines.insert(new.index(main[-1]) if main else 0, record)
        return lines, ImportCounts(self._count, len(new), 0)

    def _new(self, found: SourceEntry) -> SourceEntry | None:
        """An entry as it is to be written; None if the target has it."""
        self._count += 1
        entry = self._with_given_uuids(found)
        self._seen.add(entry.uuid)
        known = self._known(entry)
        if known is not None:
            self._note_known(known, found)
            return None
        if self._tree.row(entry.uuid) == NO_ROW:
            return entry
        if self._is_prompt_passed(entry):
            self._given[entry.uuid] = entry.parent
            return None
        variant = self._given[entry.uuid] = _variant_of(entry)
        fields = {**entry.fields, VARIANT_OF: dumps(entry.uuid)}
        return self._with_given_uuids(replace(entry, uuid=variant, fields=fields))

    def _with_given_uuids(self, entry: SourceEntry) -> SourceEntry:
        given = self._given
        fields = entry.fields
        for key in REFERENCES.get(entry.type, ()):
            named = decode_leniently(fields.get(key, b""))
            if isinstance(named, str) and named in given:
                fields = {**fields, key: dumps(given[named])}
        return replace(entry, parent=given.get(entry.parent, entry.parent), fields=fields)

    def _known(self, entry: SourceEntry) -> str | None:
        """The uuid of the same entry in the target, or None.

        A variant goes before an entry with the same content, which was not known as the same
        when the variant was written.
        """
        tree = self._tree
        row = tree.row(entry.uuid)
        place = NO_ROW if entry.origin is None else tree.row(entry.origin)
        if place != NO_ROW and (not self._is_copy or self._is_below_origin(row, place)):
            return entry.origin
        if row == NO_ROW:
            return None
        if self._is_at(row, entry) or self._is_rewritten_at(row, entry):
            return entry.uuid
        if tree.row(variant := _variant_of(entry)) != NO_ROW:
            return variant
        return entry.uuid if self._has_content_at(row, entry) else None

    def _is_prompt_passed(self, entry: SourceEntry) -> bool:
        """True if the target has a prompt that no message has at another place, and what follows.

        The target keeps both as they are: what follows is not repeated below the prompt.
        """
        above = self._tree.row(entry.parent)
        if entry.type != "custom" or TYPED not in entry.fields.get("metadata", b"").decode():
            return False
        return above != NO_ROW and any(self._content[row] for row in self._tree.children(above))

    def _is_below_origin(self, row: int, place: int) -> bool:
        """True if the origin of a line is its place in a copy that has the line too."""
        return row in (NO_ROW, place) or row in self._tree.rows_up(place)

    def _note_known(self, known: str, found: SourceEntry) -> None:
        self._seen.add(known)
        if known != found.uuid:
            self._given[found.uuid] = known
        if found.lane is not None:
            self._lanes[found.lane] = self._tree.lane_of(self._tree.row(known))

    def _on_lanes(self, new: list[SourceEntry]) -> list[SourceEntry]:
        """The new entries on their lanes, without those that only start or end a known lane."""
        changed = {entry.lane for entry in new if not entry.is_made}
        kept: list[SourceEntry] = []
        for entry in new:
            lane = entry.lane
            is_known = lane is None or lane in self._lanes
            if entry.is_made and is_known and (entry.type != "branch" or lane not in changed):
                self._given[entry.uuid] = self._given.get(entry.parent, entry.parent)
                continue
            entry = self._with_given_uuids(entry)
            if lane is not None and self._lanes.get(lane) is not None:
                entry.lane = self._lanes[lane]
            kept.append(entry)
        return kept

    def _has_content_at(self, row: int, entry: SourceEntry) -> bool:
        """True if the entry of a row has all content of this one, at the same place.

        Facts about the program may differ, and entries without content may be between. An entry
        without its parent is at the same place where an import put it before there were joins.
        """
        stored = self._view.read(self._tree.offsets[row])
        above = self._row_above(entry)
        if stored is None or above == NO_ROW:
            return False
        is_joined = MARK_OF_JOINED in entry.fields.get("metadata", b"")
        is_older = is_joined and missing_parent(stored) is None
        above_there, above_here = self._tree.parents[row], self._content_above(above)
        is_cut = self._opening.lost_head and above_here == NO_ROW  # what was above is lost
        if not (is_older or is_cut) and self._content_above(above_there) != above_here:
            return False
        there, here = stored.as_stored, decode_object(entry.line(handle_of))
        if stored.type == "custom" and entry.type == "message":  # an older version kept the line
            return _has_all(there.get("data"), here.get(ORIGINAL))
        if stored.type != entry.type:
            return False
        keys = (key for key in here if key not in _NOT_CONTENT)
        return all(key in there and there[key] == here[key] for key in keys) and _has_all(
            there.get(ORIGINAL), here.get(ORIGINAL)
        )

    def _row_above(self, entry: SourceEntry) -> int:
        """The row of the parent that an entry names, also of one that the source lost."""
        if MARK_OF_JOINED in entry.fields.get("metadata", b""):
            metadata = decode_object(entry.fields["metadata"])
            if (row := self._tree.row(str(metadata.get(MISSING_PARENT)))) != NO_ROW:
                return row
        return self._tree.row(entry.parent)

    def _content_above(self, row: int) -> int:
        """The nearest row with content at or above one, or NO_ROW."""
        if row == NO_ROW:
            return NO_ROW
        return next((above for above in self._tree.rows_up(row) if self._content[above]), NO_ROW)

    def _is_at(self, row: int, entry: SourceEntry) -> bool:
        """True if the target has this line, on the entry's own lane or on the agent's."""
        lane = self._tree.lane_of(row)
        stored = rest_of_line(self._log.read, self._tree.offsets[row])
        if entry.lane is None and lane == self._agent:
            entry = replace(entry, lane=lane)
        return entry.line(handle_of) == stored

    def _is_rewritten_at(self, row: int, entry: SourceEntry) -> bool:
        """True if the target has this entry as a rewriting of the session made it, masked or so."""
        if _REWRITTEN not in rest_of_line(self._log.read, self._tree.offsets[row]):
            return False
        from sessiontree.library.rewrite import is_made_of  # few sessions were rewritten

        stored = LogTree(self._log, BlobFetch(self._log)).read(self._tree.offsets[row])
        fields = {key: decode_leniently(raw) for key, raw in entry.fields.items()}
        above = self._tree.row(entry.parent)
        if stored is None or self._tree.parents[row] != above:
            return False
        return is_made_of(stored, fields, fields.keys() - _NOT_CONTENT | {ORIGINAL})

    def _leaf(self) -> Entry | None:
        """The target's main leaf; an annotation of a user is none. None without a leaf."""
        walk = self._view.walk()
        leaf: Entry | None = walk.last_on(None)
        above = iter(()) if leaf is None else walk.up(leaf)
        while leaf is not None and leaf.type in ANNOTATIONS and leaf.uuid not in self._seen:
            leaf = next(above, None)
        return leaf

    def _is_later(self, leaf: Entry, new: list[SourceEntry]) -> bool:
        """True if the leaf is of another copy of the source, and later than all that is new."""
        if leaf.uuid in self._seen or (time := moment_of(leaf.timestamp)) is None:
            return False
        times = (moment_of(_text(entry.fields.get("timestamp"))) for entry in new)
        return all(moment is None or moment < time for moment in times)

    def _record_of(self, new: list[SourceEntry], lane: str | None) -> bytes | None:
        """The line with the record of this import; None if nothing is new."""
        header = self._opening.header
        known = self._names.metadata
        facts = {key: value for key, value in header["metadata"].items() if key not in known}
        record = {**header["metadata"][IMPORTED_FROM]}
        if CONVERTED in record:  # the facts are the session's own
            if not new:
                return None
            facts = {}
        before = record_in({"metadata": known})
        given, name = before.get("name", self._view.header.get("name")), header.get("name")
        fields: dict[str, Any] = {}
        if name is not None and name != given:
            record["name"] = name
            if self._names.name == given:
                fields["name"] = name
        elif "name" in before:
            record["name"] = before["name"]
        if not new and not facts and record.get("name") == before.get("name"):
            return None
        if new:
            record["last"] = new[-1].uuid
        if HAS_MORE in before or self._has_more():
            record[HAS_MORE] = True
        tail = self._view.walk().last_on(lane) or self._view.walk().last_on(None)
        fields |= {
            "type": "session_info",
            "uuid": fresh_uuid(),
            "parentUuid": (tail or self._view.header).uuid,
            "timestamp": now(),
            "metadata": {**facts, IMPORTED_FROM: record},
        }
        if lane is not None:
            fields["lane"] = lane
        return encoded(fields)

    def _has_more(self) -> bool:
        """True if the target has what the source lacks: a turn that was cut off, or what one cost.

        Each sum of a session is another entry; the source has the last one.
        """
        seen = {self._tree.row(uuid) for uuid in self._seen}
        if any(self._content[row] for row in range(len(self._tree)) if row not in seen):
            return True
        lost = (row for row in self._tree.rows_of_type("usage") if row not in seen)
        stored = (self._view.read(self._tree.offsets[row]) for row in lost)
        return any(one is not None and not is_session_sum(one.as_stored) for one in stored)


def _is_of_user(leaf: Entry, seen: Container[str]) -> bool:
    """True if no import made an entry, of this source or of another copy of it.

    An import derives a uuid from a line, or takes the agent's. An agent's line with a random uuid,
    as a user's entry has, also has keys that the entry keeps in `original`.
    """
    is_random = is_uuid(leaf.uuid) and leaf.uuid[14] == "4"
    return leaf.uuid not in seen and is_random and leaf.get(ORIGINAL) is None


def _variant_of(entry: SourceEntry) -> str:
    return uuid_of_line(entry.uuid, 0, entry.line(handle_of))


def _has_all(there: Any, here: Any) -> bool:
    if not isinstance(here, dict):
        return here is None
    known = there if isinstance(there, dict) else {}
    keys = (key for key in here if key not in _OF_PROGRAM)
    return all(key in known and known[key] == here[key] for key in keys)
