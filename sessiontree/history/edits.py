"""The edits of a session with their calls and outcomes, and the files it read and changed.

Invariants: events come in the order of their times, and else of the file; a call that failed, was
refused or has no result changed nothing, and is told as such; what branches that were left did is
told too, because it happened to the files.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sessiontree.core.activity import CallEnding, ended_calls, results_of
from sessiontree.core.codec import lines_in
from sessiontree.core.entry import CONTENT, Entry, decode_object, moment_of
from sessiontree.core.message import Message, ToolCall, calls_of, result_ids
from sessiontree.core.paths import is_whole
from sessiontree.edits.diff import counts_of
from sessiontree.edits.tools import (
    Edit,
    SeenLines,
    SideFacts,
    edits_of,
    paths_in,
    seen_in,
    with_arguments,
)
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.logtree import LogTree
from sessiontree.errors import BlobError
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import Read, whole_lines
from sessiontree.storage.names import path_in, read_side_file
from sessiontree.text.pattern import Pattern, lines_with
from sessiontree.views.messages import is_repeat, with_messages
from sessiontree.views.work import message_of

_SNAPSHOT: Final = b'"claude-code:file-history-snapshot"'

Ending = CallEnding | Literal["unanswered"]

_FOLDERS: Final = ("workdir", "cwd", "dir_path", "directory")
"""The arguments that name the directory of a call."""


_NEEDED: Final = (b"model_change", b"spilled", b"file-history-snapshot")
"""What an entry has that matters for other entries, or whose content is elsewhere."""


_MAX_SEARCHED: Final = 100
"""The calls without a result whose ids are searched for; for more, each line is decoded."""


class FileEvent(msgspec.Struct, frozen=True):
    """An edit of a file, or a look at one, by a call of a session."""

    uuid: str  # the uuid of the entry with the call, or of the one that names a copy of the file
    call: str  # the id of the call; empty for a copy that Claude Code made before an edit
    tool: str  # the name of the tool; empty for such a copy
    # the timestamp of the result, or of the call without one; None if there is none
    time: str | None
    lane: str | None  # the lane of the call; None for main
    model: str | None  # the model that called; None if it is not told
    path: str  # the path of the file; absolute where the directory of the call is known
    ending: Ending  # how the call ended
    edit: Edit | None = None  # the edit; None for a look
    seen: SeenLines | None = None  # what was shown; None for an edit
    to: str | None = None  # the new path of a file that is moved, as `path`; else None


def file_events(
    cursor: Cursor, original_line: Callable[[Entry], bytes], names: Collection[str] = ()
) -> list[FileEvent]:
    """What a session did to files, and saw of them, in order.

    Only of calls with one of these names in their arguments, unless there are none.
    """
    cwd = cursor.reader.header.get("cwd")
    backups = _backups_of(cursor)
    events = _Events(backups, original_line, cwd if isinstance(cwd, str) and cwd else None, names)
    with cursor.alone():
        entries = _entries_about(cursor, names) if names else cursor.reader.entries()
        for entry, message in with_messages(entries, cursor.messages, is_wanted=_is_handle):
            if not is_repeat(entry, cursor.reader.index):
                events.take(entry, message)
    found = events.found()
    moments = {id(event): _moment(event) for event in found}
    last = 0.0
    for event in found:  # an event without a time stays behind the one before it
        last = moments[id(event)] = moments[id(event)] or last
    return sorted(found, key=lambda event: moments[id(event)])


def _entries_about(cursor: Cursor, names: Collection[str]) -> Iterator[Entry]:
    """The entries that may have calls with some names, their results, and models, in order."""
    view = cursor.reader.ready()
    finders = [Pattern(name).candidates for name in names]
    finders += [partial(lines_with, needle) for needle in _NEEDED]
    waiting: dict[bytes, int] = {}  # by the id of a call the place of its line
    for start, block in _blocks(cursor.reader.log.read, view.size):
        end = len(block)
        found: dict[int, Entry | None] = {}
        for find in finders:
            for at, _ in find(block, end):
                entry = found[at] = view.read(start + at)
                calls = calls_of(message_of(entry, entry.as_stored) or {}) if entry else ()
                ids = (call.id.encode("utf-8", "replace") for call in calls if call.id)
                waiting |= dict.fromkeys(ids, start + at)
        if len(waiting) > _MAX_SEARCHED:
            for entry in _entries_in(view, start, block):
                for answer in result_ids(message_of(entry, entry.as_stored) or {}):
                    waiting.pop(answer.encode("utf-8", "replace"), None)
                yield entry
            continue
        answered = []
        for id, place in waiting.items():
            results = [at for at, _ in lines_with(id, block, end) if start + at != place]
            answered += [id] if results else []
            for at in results:
                found[at] = found[at] if at in found else view.read(start + at)
        yield from (entry for _, entry in sorted(found.items()) if entry is not None)
        for id in answered:
            del waiting[id]


def _entries_in(view: LogTree, start: int, block: bytes) -> Iterator[Entry]:
    """The entries of a block of lines; its last line may lack its end."""
    for line in lines_in(block if block.endswith(b"\n") else block + b"\n"):
        if (entry := view.decode(line, start)) is not None:
            yield entry
        start += len(line) + 1


def _blocks(read: Read, size: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines with their offsets; the last line may lack its end."""
    last = 0
    for offset, block in whole_lines(read, 0, size):
        yield offset, block
        last = offset + len(block)
    if last < size:
        yield last, read(last, size - last)


def _moment(event: FileEvent) -> float:
    moment = moment_of(event.time)
    return moment.timestamp() if moment is not None else 0.0


def _is_handle(entry: Entry) -> bool:
    return entry.type == "handle"


class _Waiting(msgspec.Struct):
    entry: Entry
    call: ToolCall
    model: str | None


class _AgentLine(msgspec.Struct):
    raw: bytes
    keys: Mapping[str, Any]
    told: SideFacts


class _Results(msgspec.Struct):
    entry: Entry
    keys: Mapping[str, Any]
    line: _AgentLine


class _Events:
    def __init__(
        self,
        backups: Callable[[str], str | None],
        original_line: Callable[[Entry], bytes],
        cwd: str | None,
        names: Collection[str],
    ) -> None:
        self._backups = backups
        self._original_line = original_line
        self._cwd = cwd
        self._names = names
        self._model: str | None = None
        self._waiting: dict[str, _Waiting] = {}
        self._found: list[FileEvent] = []
        self._line = _AgentLine(b"", {}, SideFacts({}))  # the last one: it may have many results

    def take(self, entry: Entry, message: Message | None) -> None:
        if entry.type == "model_change":
            model = entry.as_stored.get("modelId")
            self._model = model if isinstance(model, str) else None
        if entry.type == "custom" and _SNAPSHOT in entry.line:
            self._found += self._shown_in(entry)
        if entry.type not in CONTENT:
            return
        fields = message if message is not None else message_of(entry, entry.as_stored)
        if fields is None:
            return
        calls = calls_of(fields)
        if calls:
            self._note(entry, calls, fields)
        if self._waiting:
            self._answer(entry, fields)

    def _shown_in(self, entry: Entry) -> Iterator[FileEvent]:
        """The files that Claude Code copied before it changed them."""
        data = entry.as_stored.get("data")
        snapshot = data.get("snapshot") if isinstance(data, Mapping) else None
        kept = snapshot.get("trackedFileBackups") if isinstance(snapshot, Mapping) else None
        for path, backup in kept.items() if isinstance(kept, Mapping) else ():
            name = backup.get("backupFileName") if isinstance(backup, Mapping) else None
            if not isinstance(name, str) or (
                self._names and not any(n in path for n in self._names)
            ):
                continue
            time, text = backup.get("backupTime"), self._backups(name)
            if text is None or not isinstance(time, str):
                continue
            yield FileEvent(
                uuid=entry.uuid,
                call="",
                tool="",
                time=time,
                lane=entry.lane,
                model=None,
                path=_at(self._cwd, path),
                ending="done",
                seen=SeenLines(path, text, is_whole=True),
            )

    def _note(self, entry: Entry, calls: Iterable[ToolCall], message: Message) -> None:
        model = message.get("model")
        named = model if isinstance(model, str) and model else self._model
        whole: list[ToolCall] | None = None
        for call in map(with_arguments, calls):
            if self._names and not self._is_named(call):
                continue
            if entry.has_spilled:  # large arguments are in blobs
                whole = whole if whole is not None else _whole_calls(entry)
                call = next((with_arguments(one) for one in whole if one.id == call.id), call)
            self._waiting[call.id] = _Waiting(entry, call, named)

    def _is_named(self, call: ToolCall) -> bool:
        return any(name in text for text in paths_in(call) for name in self._names)

    def _answer(self, entry: Entry, message: Message) -> None:
        texts: dict[str, str] = {}
        results: _Results | None = None
        for id, ending in ended_calls(message):
            waiting = self._waiting.pop(id, None)
            if waiting is None:
                continue
            if results is None:
                whole = _whole(entry) if entry.has_spilled else entry.as_stored
                texts = dict(results_of(message_of(entry, whole) or message))
                results = _Results(entry, whole, self._line_of(entry))
            self._found += self._events_of(waiting, results, ending, texts.get(id, ""))

    def _line_of(self, entry: Entry) -> _AgentLine:
        raw = self._original_line(entry)
        if raw is not self._line.raw:
            keys = decode_object(raw)
            self._line = _AgentLine(raw, keys, SideFacts(keys))
        return self._line

    def found(self) -> list[FileEvent]:
        for waiting in self._waiting.values():
            self._found += self._events_of(waiting, None, "unanswered", "")
        self._waiting.clear()
        return self._found

    def _events_of(
        self, waiting: _Waiting, results: _Results | None, ending: Ending, text: str
    ) -> Iterator[FileEvent]:
        result = None if results is None else results.entry
        told: Mapping[str, Any] = {}
        folder = self._folder(waiting.call, {} if results is None else results.line.keys)
        if results is not None:
            told = results.line.told.of(results.keys, waiting.call.id)
        for edit in edits_of(waiting.call, told if ending == "done" else {}):
            to = _at(folder, edit.to) if edit.to else None
            yield self._event(waiting, result, ending, _at(folder, edit.path), edit=edit, to=to)
        if ending == "done":
            for seen in seen_in(waiting.call, told, text):
                yield self._event(waiting, result, ending, _at(folder, seen.path), seen=seen)

    def _event(
        self, waiting: _Waiting, result: Entry | None, ending: Ending, path: str, **what: Any
    ) -> FileEvent:
        entry = waiting.entry
        return FileEvent(
            uuid=entry.uuid,
            call=waiting.call.id,
            tool=waiting.call.name,
            time=(result.timestamp if result is not None else None) or entry.timestamp,
            lane=entry.lane,
            model=waiting.model,
            path=path,
            ending=ending,
            **what,
        )

    def _folder(self, call: ToolCall, line: Mapping[str, Any]) -> str | None:
        """The directory in which a call was done, as far as it is told."""
        own = line.get("cwd")
        folder = own if isinstance(own, str) and own else self._cwd
        arguments = call.arguments
        given = (
            next((arguments[key] for key in _FOLDERS if arguments.get(key)), None)
            if isinstance(arguments, Mapping)
            else None
        )
        if not isinstance(given, str):
            return folder
        return given if folder is None or is_whole(given) else posixpath.join(folder, given)


def _backups_of(cursor: Cursor) -> Callable[[str], str | None]:
    """Gives the copies of files that Claude Code keeps for a session, by their names.

    They are in the folder `file-history` beside `projects`, where the transcripts are.
    """
    file = os.path.realpath(cursor.reader.log.name)
    projects = os.path.dirname(os.path.dirname(file))
    if os.path.basename(projects) != "projects":
        return lambda name: None
    folder = os.path.join(os.path.dirname(projects), "file-history")

    def backup(name: str) -> str | None:
        path = path_in(folder, cursor.reader.id, name)
        content = None if path is None else read_side_file(DISK, path)
        return None if content is None else content.decode("utf-8", "replace")

    return backup


_HOME: Final = re.compile(r"(?:/Users/|/home/)[^/]+|/root(?=/|$)|[A-Za-z]:[\\/]Users[\\/][^\\/]+")
"""The home of the user who worked in a folder, which may be one of another machine."""


def _at(folder: str | None, path: str) -> str:
    """A path of a call as an absolute one, if that can be known."""
    if path.startswith("~/") and folder is not None:
        home = _HOME.match(folder)
        path = path if home is None else home[0] + path[1:]
    elif folder is not None and not is_whole(path):
        path = posixpath.join(folder, path)
    return posixpath.normpath(path)


def _whole(entry: Entry) -> Mapping[str, Any]:
    """The keys of an entry with the content of its blobs; as stored where one cannot be read."""
    try:
        return {key: entry.get(key) for key in entry}
    except BlobError:
        return entry.as_stored


def _whole_calls(entry: Entry) -> list[ToolCall]:
    return calls_of(message_of(entry, _whole(entry)) or {})


class SessionFileUse(msgspec.Struct, omit_defaults=True):
    """What a session did to one file."""

    path: Annotated[str, Meta(description="The path of the file, absolute where it is known.")]
    reads: Annotated[int, Meta(description="The calls that read it.")] = 0
    edits: Annotated[int, Meta(description="The calls that changed it.")] = 0
    failed: Annotated[int, Meta(description="The calls that should change it and did not.")] = 0
    added: Annotated[int, Meta(description="The lines that were added.")] = 0
    removed: Annotated[int, Meta(description="The lines that were taken away.")] = 0
    created: Annotated[bool, Meta(description="Whether a call created it.")] = False
    deleted: Annotated[bool, Meta(description="Whether the last change deleted it.")] = False
    moved_to: Annotated[str | None, Meta(description="The path that it was moved to.")] = None
    first: Annotated[str | None, Meta(description="The time of the first call.")] = None
    last: Annotated[str | None, Meta(description="The time of the last call.")] = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `files --json` prints."""
        return {key: getattr(self, key) for key in self.__struct_fields__}

    def did(self) -> Iterator[str]:
        """What was done, in words."""
        if self.created:
            yield "created"
        if self.edits:
            yield "1 edit" if self.edits == 1 else f"{self.edits:,} edits"
        if self.deleted:
            yield "deleted"
        if self.moved_to is not None:
            yield f"moved to {self.moved_to}"
        if self.reads:
            yield "1 read" if self.reads == 1 else f"{self.reads:,} reads"
        if self.failed:
            yield "1 failed" if self.failed == 1 else f"{self.failed:,} failed"


def files_of(events: Iterable[FileEvent]) -> list[SessionFileUse]:
    """The files of events, in the order of their first event."""
    found: dict[str, SessionFileUse] = {}
    for event in events:
        use = found.setdefault(event.path, SessionFileUse(event.path, first=event.time))
        use.last = event.time
        _count(use, event)
    return list(found.values())


def _count(use: SessionFileUse, event: FileEvent) -> None:
    edit = event.edit
    if edit is None:
        use.reads += 1
        return
    if event.ending != "done":
        use.failed += 1
        return
    counts = counts_of(edit)
    use.added += counts.added
    use.removed += counts.removed
    use.edits += 1
    use.created = use.created or edit.is_new
    use.deleted = edit.kind == "delete"
    use.moved_to = event.to or use.moved_to
