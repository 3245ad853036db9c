"""Convert a session to files that another program opens.

The source is any session that can be opened; it is not changed. Each entry is written in
the target's own way or counted among the losses. Content that is missing is replaced by a
placeholder and a warning.

Invariants: the same session gives the same bytes; each new file is complete or absent, and
never replaces another; the files beside the main one are made first.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from sessiontree.agents import TARGETS, TRAJECTORY, named
from sessiontree.agents.writing import PIECES, Loss, Losses, SideFile, Writer
from sessiontree.context.fold import ContextBuilder
from sessiontree.core import limits
from sessiontree.core.blocks import EntryContents, Resolution, message_uuid
from sessiontree.core.entry import Entry, edit_of, stored
from sessiontree.core.header import derived_uuid, origin_at
from sessiontree.core.index import NO_ROW
from sessiontree.core.limits import Budget
from sessiontree.core.message import Message, count_of_blocks
from sessiontree.engine.walk import gc_paused
from sessiontree.errors import NothingToDoError, SessionExistsError, SessionTreeError, UsageError
from sessiontree.operations.export import Original
from sessiontree.storage.atomic import check_all_free, check_free, create_file, make_file
from sessiontree.storage.fs import FileSystem, os_errors, real_path

_DEPENDENT: Final = PIECES | {"merge"}
"""The types of entries whose messages depend on other entries of the path."""

_SHORT: Final = 500
"""The bytes up to which the entry of a line is kept: it takes little memory."""

_TRIES: Final = 10
"""The ids that a new file may get, if files of the others are there."""

_BATCH: Final = 100
"""The number of entries that are read together."""


class ConversionResult(msgspec.Struct, frozen=True):
    """The result of a conversion."""

    file: str  # the path of the new file
    to: str  # the target
    beside: list[str]  # the paths of the other new files, which belong to the new file
    losses: list[Loss]  # the parts of the session that the target leaves out or changes
    warnings: list[str]  # texts about content that could not be read, such as a missing blob

    def as_dict(self) -> dict[str, Any]:
        """The shape that `convert --json` prints."""
        return {
            "file": self.file,
            "to": self.to,
            "beside": self.beside,
            "notExpressed": [msgspec.structs.asdict(loss) for loss in self.losses],
            "warnings": self.warnings,
        }


@gc_paused()
def convert(
    original: Original, to: str, file: os.PathLike[str] | str | None = None
) -> ConversionResult:
    given = os.fspath(file) if isinstance(file, os.PathLike) else file
    if given is not None and not isinstance(given, str):
        raise UsageError(f"the file to make must be a string or a Path, not {given!r:.60}")
    source, writer = _opened(original, to)
    name = os.path.basename(writer.default_name)  # some agents keep it in a folder of its own
    return _converted(source, writer, to, name if given is None else given)


@gc_paused()
def convert_to(
    original: Original,
    to: str,
    path_of: Callable[[str], str],
    cwd: str,
    opened: str,
    *,
    provider: str | None,
    is_again: bool,
) -> ConversionResult:
    """Convert a session to be gone on with, in the folder `cwd`, from the time `opened` on.

    The other program asks models of the `provider`, if that is known.

    `path_of` gives the path of the new file, by the name that the other program would give it. If
    the program has a file of the session already (`is_again`), or a file of that name is there,
    such as one that was emptied, the new one gets an id of its own.
    """
    for again in range(int(is_again), _TRIES):
        source, writer = _opened(original, to, cwd, opened, provider, again=again)
        path = path_of(writer.default_name)
        if not _is_taken(source.disk, path):
            break
    return _converted(source, writer, to, path)


def _is_taken(fs: FileSystem, path: str) -> bool:
    try:
        check_free(fs, path)
    except SessionExistsError:
        return True
    return False


def _converted(source: ConvertedSession, writer: Writer, to: str, path: str) -> ConversionResult:
    stem = os.path.splitext(path)[0]
    folder, name = os.path.split(stem)
    beside = [
        file._replace(path=os.path.join(folder, *file.path.split("/")))
        for file in writer.beside(name)
    ]
    if any(file.path.startswith(os.path.join(path, "")) for file in beside):
        raise UsageError(
            f"{path} needs a folder of its name beside it; give a name that ends in .jsonl"
        )
    _write(source.disk, path, writer.blocks(), beside)
    made = [file.path for file in beside]
    return ConversionResult(path, to, made, source.losses.found(), source.warnings)


def converted(original: Original, to: str) -> tuple[Iterator[bytes], ConvertedSession]:
    """The bytes of the main file, for a pipe, and the source; its losses are complete at the end.

    Raises:
        UsageError: the target needs files beside it.
    """
    source, writer = _opened(original, to)
    if writer.beside(""):
        raise UsageError(f"{source.title} needs more than one file as {to}; name the file to make")
    return writer.blocks(), source


class ConvertedSession:
    """The session to convert (`agents.writing.SessionSource`), read whole."""

    def __init__(self, original: Original) -> None:
        reader, cursor = original.reader, original.cursor
        self._reader = reader
        self._cursor = cursor
        self.disk = original.disk
        self.tree = reader.index()
        self.leaf = reader.row(cursor.leaf)
        self.lane = cursor.lane
        self.title = original.file or "the session"
        self.id = self._conversation = reader.id
        self._ids: tuple[str, str] | None = None
        self.name = reader.names().name
        self.metadata = reader.names().metadata
        self.header = reader.header
        self.opened: str | None = None
        self.provider: str | None = None
        self.losses = Losses()
        size = reader.view.size
        title, count = self.title, len(self.tree)
        more = count + size // limits.BYTES_FOR_EACH_READ
        self.room = Budget(limits.READ_AGAIN, more=more, title=title, entries=count)
        self.lines = Budget(limits.LANE_LINES, size, title=title)
        self.repeated = Budget(limits.REPEATED_BYTES, title=title)
        self._blocks = Budget(limits.CONVERTED_BLOCKS, size, title=title)
        self._counted = bytearray(len(self.tree))  # the rows whose blocks are in `_blocks`
        self._warnings: dict[str, None] = {}
        self._stored: dict[int, Entry] = {}
        self._origins: dict[str, str] = {}  # of the entry that was asked for last
        self._unresolved: dict[str, SessionTreeError] = {}
        self._ahead: dict[int, Resolution] = {}  # by row: the handles resolved last

    @property
    def warnings(self) -> list[str]:
        return list(self._warnings)

    def _resolve(self, entries: Sequence[Entry]) -> Sequence[Resolution]:
        """The messages of `handle` entries; those that cannot be resolved are not tried again."""
        known = [self._unresolved.get(entry.uuid) for entry in entries]
        new = [entry for entry, error in zip(entries, known, strict=True) if error is None]
        found = list(self._cursor.resolve(new))
        for entry, one in zip(new, found, strict=True):
            if isinstance(one, SessionTreeError):
                self._unresolved[entry.uuid] = one
        ordered = iter(found)
        return [next(ordered) if error is None else error for error in known]

    def _warn(self, warnings: Iterable[str]) -> None:
        self._warnings.update(dict.fromkeys(warnings))

    def model_id(self) -> str | None:
        model = self._cursor.context(resolve=False).model
        return model["modelId"] if model else None

    def rows(self) -> Iterator[int]:
        tree = self.tree
        done = bytearray(len(tree))
        done[0] = 1
        for row in range(1, len(tree)):
            waiting = []
            while row != NO_ROW and not done[row]:
                waiting.append(row)
                done[row] = 1
                row = tree.parents[row]
            yield from reversed(waiting)

    def row(self, entry: Entry) -> int:
        row = self.tree.row_at(entry.offset)
        return row if row != NO_ROW else self._reader.row(entry)

    def stored(self, row: int) -> Entry:
        known = self._stored.get(row)
        if known is not None:
            return known
        entry = self._reader.read_at(self.tree.offsets[row])
        if not self._counted[row] and isinstance(message := entry.message_value, dict):
            self._counted[row] = 1
            self._blocks.take(count_of_blocks(message))
        # the entries that are kept, the first that are read
        if self._is_forked and len(entry.line) <= _SHORT and len(self._stored) < 50_000:
            self._stored[row] = entry  # branches and lanes read the start of their paths many times
        return entry

    @cached_property
    def _is_forked(self) -> bool:
        return bool(self.tips())

    def entry(self, row: int) -> Entry:
        stored = self.stored(row)
        if not stored.has_spilled:
            return stored
        warnings: list[str] = []
        found = EntryContents(None, False, warnings).whole(stored)
        self._warn(warnings)
        return found

    def parent(self, entry: Entry) -> Entry:
        return self._reader.parent(entry)

    def resolved(self, entry: Entry) -> Message:
        warnings: list[str] = []
        known = self._ahead.get(self.row(entry))
        resolve = self._resolve if known is None else (lambda _: [known])
        found = EntryContents(resolve, False, warnings).of_handle(entry)
        self._warn(warnings)
        return found

    def resolve_ahead(self, rows: Sequence[int]) -> None:
        entries = [self.stored(row) for row in rows]
        self._ahead = dict(zip(rows, self._resolve(entries), strict=True))

    def _segment(self, base_uuid: str, merged_uuid: str) -> list[Entry]:
        found = self._cursor.segment(base_uuid, merged_uuid)
        self.room.take(1 + len(found))  # a search that finds nothing takes time, too
        return found

    def context(self, leaf: Entry) -> list[tuple[Message, Entry, int]]:
        path = self._cursor.read_path(leaf)
        self.room.take(len(path.entries))
        fold = ContextBuilder(path, self._segment, self._resolve, verbatim=True)
        messages, entries, warnings = fold.result()
        self.room.take(len(messages))
        self._warn(warnings)
        return list(zip(messages, entries, self._places(path.entries, entries), strict=True))

    def _places(self, path: Sequence[Entry], entries: Sequence[Entry]) -> list[int]:
        """The rows to continue from behind each of the entries that the messages came from."""
        ends = {message_uuid(entry): entry for entry in path if entry.type in PIECES}
        at = {entry.uuid: number for number, entry in enumerate(path)}
        merges = [number for number, entry in enumerate(path) if entry.type == "merge"]
        first = max((n for n, entry in enumerate(path) if entry.type == "compaction"), default=0)
        last = first
        found: list[int] = []
        for entry in entries:
            whole = ends.get(message_uuid(entry), entry) if entry.type in PIECES else entry
            number = at.get(whole.uuid)
            if number is None:
                after = bisect_right(merges, last)
                number = merges[after] if after < len(merges) else last
            else:
                last = number = max(first, number)
            found.append(self.row(path[number]))
        return found

    def merged(self, merge: Entry) -> list[tuple[Message, Entry]]:
        path = self._cursor.read_path(merge)
        self.room.take(len(path.entries))
        fold = ContextBuilder(path, self._segment, self._resolve, verbatim=True)
        self._warn(fold.result()[2])
        piece = next(piece for piece in fold.pieces(path) if piece.uuid == merge.uuid)
        self.room.take(len(piece.messages))
        return list(zip(piece.messages, piece.sources, strict=True))

    def path(self, leaf: int) -> array[int]:
        rows = array("i", self.tree.rows_up(leaf))
        rows.reverse()
        return rows

    def messages(self, path: array[int]) -> Iterator[tuple[Message, Entry]]:
        tree = self.tree
        if any(tree.type_of(row) in _DEPENDENT for row in path):
            yield from self._folded([self.stored(row) for row in path])
            return
        edits: dict[str, Entry] = {}
        for row in path:
            if tree.type_of(row) == "context_edit":
                entry = self.stored(row)
                edits |= {edit[0]: entry} if (edit := edit_of(entry)) is not None else {}
        for start in range(0, len(path), _BATCH):
            rows = path[start : start + _BATCH]
            entries = [self.stored(row) for row in rows if tree.type_of(row) != "context_edit"]
            own_edits = [edits[entry.uuid] for entry in entries if entry.uuid in edits]
            yield from self._folded([*entries, *own_edits])

    def _folded(self, entries: list[Entry]) -> Iterable[tuple[Message, Entry]]:
        if all(map(_is_plain, entries)):  # a fold for each of many branches takes long
            return [(entry.message_value, entry) for entry in entries]
        path = _FullPath(entries)
        fold = ContextBuilder(path, self._cursor.segment, self._resolve, verbatim=True)
        messages, sources, warnings = fold.result()
        self._warn(warnings)
        return zip(messages, sources, strict=True)

    def tips(self) -> list[int]:
        content = self.tree.content_rows()
        above = self.tree.rows_above_content(content)
        own = set(self.tree.rows_up(self.leaf))
        return [r for r in range(1, len(self.tree)) if content[r] and not above[r] and r not in own]

    def lanes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {
            lane: [] for lane in self.tree.lanes if lane is not None and lane != self.lane
        }
        for row in self.tips():
            lane = self.tree.lane_of(row)
            if lane in found:
                found[lane].append(row)
        own = set(self.tree.rows_up(self.leaf))
        leaves = self.tree.last_of_each_lane()
        for lane, tips in found.items():
            leaf = leaves[lane]
            if tips or leaf not in own:
                tips.append(leaf)
        return {lane: tips for lane, tips in found.items() if tips}

    def get_own_id(self, number: int) -> None:
        """Let the new file have one of its own ids, the same as long as the session has no more."""
        self.id = self.derived_uuid(self.tree.uuids[self.leaf], len(self.tree) + number - 1)

    def name_conversation(self, id: str) -> None:
        """Let the lines of the new file, which has this id, name the conversation they are of."""
        self._ids = None if id == self._conversation else (self._conversation, id)

    def derived_uuid(self, uuid: str, number: int) -> str:
        return derived_uuid(self._conversation, uuid, number)

    def origin_at(self, uuid: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if uuid not in self._origins:
            entry = self._reader.read_at(self.tree.offsets[self.tree.row(uuid)])
            self._origins = {uuid: self._cursor.origin(entry) or uuid}  # lines of one follow it
        return origin_at(self._origins[uuid], fields, self._ids)


def _is_plain(entry: Entry) -> bool:
    """Whether an entry gives its message as it is, without a warning."""
    message = entry.message_value
    return entry.type == "message" and type(message) is dict and "partial" not in message


class _FullPath:
    """A path read without its compactions (`context.context.PathRead`)."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.compaction: Entry | None = None
        self.whole = True
        self.cut_above = False


def _opened(
    original: Original,
    to: str,
    cwd: str | None = None,
    opened: str | None = None,
    provider: str | None = None,
    *,
    again: int = 0,
) -> tuple[ConvertedSession, Writer]:
    """The source, and its writer, whose module is imported late: a run needs one of them."""
    if to not in TARGETS:
        raise UsageError(f"there is no target {to!r}; give one of {', '.join(TARGETS)}")
    source = ConvertedSession(original)
    source.opened, source.provider = opened, provider
    if again:
        source.get_own_id(again)
    if cwd is not None:
        header = source.header
        moved = Entry(header.type, header.uuid, timestamp=header.timestamp)
        source.header = stored(moved, header.line, header.offset, {**header.body, "cwd": cwd})
    if len(source.tree) < 2:
        raise NothingToDoError(f"{source.title} holds nothing to convert yet; append to it first")
    agent = named(to)
    if agent is not None:
        writer = agent.writer(source)
        if cwd is not None:
            source.name_conversation(writer.session_id)
        return source, writer
    if to == TRAJECTORY.name:
        return source, TRAJECTORY.writer(source)
    from sessiontree.operations.otel import OtelWriter  # few sessions become a trace

    return source, OtelWriter(source, original.cursor)


def _write(fs: FileSystem, path: str, blocks: Iterator[bytes], beside: Sequence[SideFile]) -> None:
    """Make the files, the main one last; if one exists or cannot be made, remove the others.

    A folder is synced once, after all its files.
    """
    check_free(fs, path)
    check_all_free(fs, (file.path for file in beside))
    targets: dict[str, str] = {}  # by folder: its real path
    made: list[str] = []
    try:
        for file in beside:
            folder, name = os.path.split(file.path)
            if folder not in targets:
                _make_folder(fs, folder, os.path.dirname(path))
                targets[folder] = real_path(folder or os.curdir)
            make_file(fs, file.path, os.path.join(targets[folder], name), file.blocks())
            made.append(file.path)
        for folder, target in targets.items():
            with os_errors(folder, "sync"):
                fs.sync_folder(target)
        create_file(fs, path, blocks)
    except BaseException:
        for name in made:
            with contextlib.suppress(OSError):
                fs.unlink(name)
        raise


def _make_folder(fs: FileSystem, folder: str, above: str) -> None:
    if folder == above or not folder:
        return
    _make_folder(fs, os.path.dirname(folder), above)
    try:
        with os_errors(folder, "make"):
            fs.make_folder(folder)
    except SessionExistsError:
        if not fs.stat(folder).is_folder:
            raise
    with os_errors(folder, "sync the folder of"):
        fs.sync_folder(os.path.dirname(folder) or os.curdir)
