"""A source: a file of another agent, or of version 1, as entries that keep their original keys.

A source line holds more than its entry: a request's id, a tool's result as the program saw it, a
git branch. The keys that the entry does not hold, under the same name or its name here, are in the
entry's key `original`, byte for byte, once for each line. A result that Claude Code stored in a
file of its own is in `toolResults`, under the file's name.

Invariants:

- The file and those beside it are opened to read and never written.
- An import sees the file as it was when it was opened, whatever its program appends.
- The same line gives the same bytes, whatever follows it.
- An entry gives the same context as the source read in place.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from sessiontree.agents.agent import Agent, id_above, ids_of_file, is_of_subagent, session_id
from sessiontree.agents.base import (
    EntryDraft,
    LinePlace,
    Reader,
    Values,
    encoded,
    json_of,
    values,
)
from sessiontree.core.codec import BYTES_OF_MANY_BLOCKS, blocks_beyond, head
from sessiontree.core.damage import UNKNOWN_TYPE, Damage, Note, Notes, ignore
from sessiontree.core.entry import decode_leniently
from sessiontree.core.header import KEY as ORIGIN
from sessiontree.core.header import ORIGIN_START, origin_of
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import MAX_BLOCKS
from sessiontree.core.migrate import migrate
from sessiontree.core.spill import spill
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.opening import sniff_file
from sessiontree.engine.translated import (
    SourceFile,
    agent_files,
    damage_of,
    facts_beside,
    history_files,
)
from sessiontree.errors import EntryError, NothingToDoError, TooMuchError, UsageError
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.log import FileLog, closed_on_failure
from sessiontree.storage.names import (
    SUBAGENTS,
    TOOL_RESULTS,
    chat_id_in,
    is_of_chat,
    own_folder,
    path_in,
    read_side_file,
    side_folder,
)
from sessiontree.storage.place import names_place, without_secret

Progress = Callable[[int, int], object]
"""Takes the number of bytes read so far and the total number of bytes."""


class ImportSource:
    """One file to import; a context manager.

    Raises:
        UsageError: the path is an address.
        NothingToDoError: the file is a session of sessiontree already.
    """

    def __init__(self, fs: FileSystem, path: str, progress: Progress | None = None) -> None:
        if names_place(path):
            raise UsageError(f"{without_secret(path)} is an address; give the path of a file")
        self.path = path
        self.damage: list[Damage] = []  # found so far, and what could not be imported
        self.notes = Notes()  # the lines of unknown types found so far
        self._fs = fs
        self._progress = progress
        self._done = 0
        # A digest of sizes and times; taken first, so that it is never newer than the content.
        self.state = _state(fs, path)
        self._log = FileLog(fs, path, readonly=True)
        with closed_on_failure(self._log):
            start = sniff_file(self._log)
            if start.kind not in ("foreign", "version 1"):
                raise NothingToDoError(
                    f"{path} is a session of sessiontree already; open it as it is"
                )
            self.agent: Agent | None = start.agent  # None for version 1
            self.reader = None if start.agent is None else start.agent.reader
            self._view = LogTree(self._log) if start.agent is None else None
            self._file = SourceFile(self._log)
        self._file.passed = self._passed

    def __enter__(self) -> ImportSource:
        return self

    def __exit__(self, *error: object) -> None:
        for opened in self._file.opened:
            opened.close()
        self._log.close()

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def maker(self) -> str | None:
        """The short name of the agent that wrote it; None for version 1."""
        return None if self.agent is None else self.agent.name

    def session_id(self, given: str) -> str:
        """The id of the session, from the id in its lines."""
        return session_id(self.agent, self.name, given, self._file.head())

    def ids(self, given: str) -> dict[str, str]:
        """The metadata that the file's name decides, from the id in its lines."""
        return ids_of_file(self.agent, self.name, given)

    def likely_id(self) -> str:
        """The id by the start of the file; a wrong one if the start does not hold it."""
        if self.reader is not None:
            head = self._file.head()
            facts = self.reader.with_sidecar(self.reader.facts(head, b""), self._file.sidecar)
            return self.session_id(facts.id or "")
        assert self._view is not None
        return self.session_id(str(self._view.header.get("id") or ""))

    def id_above(self) -> tuple[str, bool]:
        """The id of the session that started this one, and whether this is a subagent's."""
        return id_above(self.name, self.likely_id()), is_of_subagent(self.agent, self.name)

    def is_converted(self) -> bool:
        return ORIGIN_START in self._file.head()

    def drafts(self, reader: Reader) -> Iterator[EntryDraft]:
        """The entries of an agent's file, the header first."""
        yield from reader.translate(self._file, self.note)
        self.damage += damage_of(self._file, self.damage)

    def migrated(self) -> Iterator[tuple[LinePlace, bytes]]:
        """The lines of a file of version 1 in version 2, each with the place of its own line."""
        assert self._view is not None
        view, place = self._view, LinePlace(0, 1, 0)

        def lines() -> Iterator[bytes]:
            nonlocal place
            for number, (offset, line) in enumerate(view.lines(), 1):
                place = LinePlace(0, number, offset)
                self._passed(len(line) + 1)
                yield line

        for line in migrate(lines(), 1):
            yield place, line

    def result_kept_beside(self, name: str) -> bytes | None:
        """The content of a result file by its name; None if it cannot be read."""
        folder = os.path.splitext(os.path.realpath(self.path))[0]
        if os.path.basename(os.path.dirname(folder)) == SUBAGENTS:
            folder = os.path.dirname(os.path.dirname(folder))
        results = os.path.join(folder, TOOL_RESULTS)
        path = path_in(results, name)
        if path is None or os.path.islink(folder) or os.path.islink(results):
            return None
        return read_side_file(self._fs, path)

    def note(self, kind: str, place: LinePlace, cause: str) -> None:
        if kind == UNKNOWN_TYPE and self.notes.again(cause):
            return
        file = self._file.numbered(place.source).path
        if kind == UNKNOWN_TYPE:
            self.notes.add(Note(file, place.number, place.offset, cause))
            return
        self.damage.append(Damage(file, place.number, place.offset, kind, cause))

    def _passed(self, size: int) -> None:
        if self._progress is None:
            return
        self._done += size
        size_of_all = sum(file.size for file in (self._file, *self._file.opened))
        if self.reader is not None and self.reader.reads_twice:
            size_of_all *= 2
        self._progress(min(self._done, size_of_all), size_of_all)


class SourceParts(NamedTuple):
    """What decides what an import of a file reads."""

    files: list[str]  # the file, and those beside it, there or not
    folders: list[str]  # where more of them may appear
    is_whole: bool  # whether all other files are there that the file names


def parts_of(path: str, fs: FileSystem) -> SourceParts:
    missing: list[str] = []
    beside = list(agent_files(path, lambda problem: None))  # reading reports the problems
    sidecars = [found.removesuffix(".jsonl") + ".meta.json" for found in beside]
    history = history_files(path, fs, missing.append)
    return SourceParts([path, *beside, *sidecars, *history], _folders_beside(path), not missing)


def _folders_beside(path: str) -> list[str]:
    own = own_folder(path)
    found = [own, os.path.join(own, TOOL_RESULTS)]
    for where, names, _ in os.walk(side_folder(path, SUBAGENTS)):
        found += [where, *(os.path.join(where, name) for name in names)]
    id = chat_id_in(path)
    if id is not None:
        chats = os.path.dirname(path) or os.curdir
        found.append(chats)
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(chats) if is_of_chat(name, (id,))]
            found += [os.path.join(chats, name) for name in names]
    return list(dict.fromkeys(found))


def _state(fs: FileSystem, path: str) -> str:
    digest = hashlib.sha256()
    digest.update(facts_beside(path, fs) or b"")
    for each in parts_of(path, fs).files:
        with contextlib.suppress(OSError):
            found = fs.stat(each)
            facts = f"{os.path.basename(each)}\n{found.size}\n{found.modified!r}\n"
            digest.update(facts.encode("utf-8", "replace"))
    return digest.hexdigest()[:32]


ORIGINAL: Final = "original"
RESULTS_KEY: Final = "toolResults"
SPILL_OVER: Final = 32 * 1024

_NAMES_HERE: Final[Mapping[str, str]] = {
    "id": "uuid",
    "parentId": "parentUuid",
    "payload": "message",
    "firstKeptEntryId": "firstKeptEntryUuid",
    "fromId": "fromUuid",
    "targetId": "targetUuid",
}
"""Keys of agents that have another name here."""

PutBlob = Callable[[bytes, str], str]
"""Takes a string's UTF-8 and a media type; gives the text form of its blob's handle."""


class SourceEntry(msgspec.Struct, gc=False):
    """An entry of a source, before it is written."""

    place: LinePlace  # the position of its source line
    type: str
    uuid: str
    parent: str
    lane: str | None
    fields: dict[str, bytes]  # the JSON of each of its keys
    origin: str | None = None  # the entry that its line was converted from, if unchanged
    is_made: bool = False  # whether it has no source line of its own, such as the start of a lane

    def line(self, put: PutBlob) -> bytes:
        """Its line, without LF; `put` takes the large strings."""
        fields: dict[str, Any] = {key: orjson.Fragment(raw) for key, raw in self.fields.items()}
        fields |= {"uuid": self.uuid, "parentUuid": self.parent}
        if self.lane is not None:
            fields["lane"] = self.lane
        line = encoded(fields)
        if len(line) <= SPILL_OVER:
            return line
        if len(line) > BYTES_OF_MANY_BLOCKS:
            self._check_blocks()
        return encoded({**fields, **_spilled(self.fields, put)})

    def _check_blocks(self) -> None:
        if count := blocks_beyond(decode_leniently(self.fields.get("message", b""))):
            raise TooMuchError(
                f"line {self.place.number:,} (byte {self.place.offset:,}) has a message of "
                f"{count:,} content blocks and calls; at most {MAX_BLOCKS:,} are read. Remove the "
                "line from a copy, and import the copy"
            )

    def keep_original(self, key: str) -> None:
        if key in self.fields:
            before = values(self.fields.get(ORIGINAL, b"{}")) or Values({})
            self.put_original({**before.raws(), key: self.fields[key]})

    def put_original(self, left: Mapping[str, bytes]) -> None:
        if left:
            self.fields[ORIGINAL] = Values(left).as_json()


def _spilled(fields: Mapping[str, bytes], put: PutBlob) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    places: list[Any] = []
    for key, raw in fields.items():
        if len(raw) <= SPILL_OVER:
            continue
        found = {key: decode_leniently(raw)}
        spilled = spill(found, SPILL_OVER, put)
        if spilled is found:
            continue
        try:
            changed[key] = orjson.Fragment(dumps(spilled[key]))
        except EntryError:  # it cannot be encoded again: it stays in the line
            continue
        places += spilled["spilled"]
    if places:
        changed["spilled"] = places
    return changed


def entries_of(source: ImportSource) -> Iterator[SourceEntry]:
    """The entries of a source in its order, the header first."""
    if source.reader is not None:
        return _entries_of_agent(source, source.reader)
    return _entries_of_version_1(source)


def _entries_of_version_1(source: ImportSource) -> Iterator[SourceEntry]:
    for place, line in source.migrated():
        found = head(line, 0, ignore)
        if found is None:
            source.note("unreadable", place, "the line is not an entry and was not imported")
            continue
        fields = dict((values(line) or Values({})).raws())
        fields.pop("crc", None)
        parent = found.parent_uuid or ""
        yield SourceEntry(place, found.type, found.uuid, parent, found.lane, fields)


def _entries_of_agent(source: ImportSource, reader: Reader) -> Iterator[SourceEntry]:
    drafts = source.drafts(reader)
    opening = next(drafts, None)
    if opening is None:
        return
    header = _entry(opening)
    first = next(drafts, None)
    if first is None or first.line.place != opening.line.place:  # else it has the line's keys
        _add_original_of_header(header, opening, reader)
    yield header
    last: LinePlace | None = None
    origin: str | None = None  # of the line at `last`
    for draft in drafts if first is None else chain((first,), drafts):
        entry = _entry(draft)
        if entry.place == last:
            entry.origin = origin if reader.shares_origins else None
        elif not draft.is_made:
            _add_original(entry, draft, source, reader)
            last, origin = entry.place, entry.origin
        yield entry


def _entry(draft: EntryDraft) -> SourceEntry:
    keys = draft.fields
    fields = {key: json_of(value) for key, value in keys.items()}
    parent, lane = keys["parentUuid"] or "", keys.get("lane")
    place = draft.line.place
    return SourceEntry(
        place, keys["type"], keys["uuid"], parent, lane, fields, is_made=draft.is_made
    )


def _add_original_of_header(header: SourceEntry, draft: EntryDraft, reader: Reader) -> None:
    line = draft.line.values
    if line is None:
        return
    metadata = draft.fields["metadata"]
    left = {key: raw for key, raw in _left_out(line, header).items() if key not in metadata}
    header.put_original(reader.beyond_header(left))


def _add_original(
    entry: SourceEntry, draft: EntryDraft, source: ImportSource, reader: Reader
) -> None:
    line = draft.line.whole.values
    if line is None:
        return
    if ORIGIN in line:
        entry.origin = origin_of({key: line.value(key) for key in line})
    is_whole = entry.type == "custom" and entry.fields.get("data") == line.as_json()
    if not is_whole:
        left = _left_out(line, entry)
        for key in reader.session_keys | reader.held_keys:
            left.pop(key, None)
        entry.put_original(left)
    if entry.type == "message" and reader.has_result_files:
        _add_results(entry, draft.fields.get("metadata"), source)


def _left_out(line: Values, entry: SourceEntry) -> dict[str, bytes]:
    """The keys of a line that an entry does not hold, but its origin."""
    left: dict[str, bytes] = {}
    fields = entry.fields
    for key, raw in line.raws().items():
        here = key if key in fields else _NAMES_HERE.get(key, key)
        if key != ORIGIN and fields.get(here) != raw:
            left[key] = raw
    return left


def _add_results(entry: SourceEntry, metadata: Any, source: ImportSource) -> None:
    named = metadata.get(RESULTS_KEY) if isinstance(metadata, dict) else None
    found: dict[str, str] = {}
    for path in named if isinstance(named, list) else ():
        content = source.result_kept_beside(str(path).rpartition("/")[2])
        if content is None:
            cause = f"the result file {path} is missing, cannot be read, or is over 64 MiB"
            source.note("side file", entry.place, cause)
        else:
            found[str(path)] = _text(content)
    if found:
        entry.fields[RESULTS_KEY] = dumps(found)


def _text(content: bytes) -> str:
    """Content as text: itself if it is UTF-8, else a data URL with its base64 (RFC 2397)."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "data:application/octet-stream;base64," + base64.b64encode(content).decode()
