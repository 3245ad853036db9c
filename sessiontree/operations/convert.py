"""Converting: a session as a file that another program opens.

The source is any session that can be opened, and is not changed. Every entry is either
said in the target's own way, or named among the losses, with how often and where first;
what had to be replaced by a placeholder is among the warnings. The same session always
gives the same bytes. New files are made whole or not at all, and never over another;
those beside the main one come first.

The session that is converted, as every target reads it.

Invariants: nothing is written; what blobs and handles stand for is there, or a
placeholder and a warning; the same session is read in the same order every time.

Writing a converted session: its file, and before it those that lie beside it.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from sessiontree.context.context import Context
from sessiontree.context.fold import Fold
from sessiontree.core.blocks import Contents, message_uuid
from sessiontree.core.entry import Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.message import Message
from sessiontree.core.origin import derived_uuid
from sessiontree.engine.surveyor import Surveyor
from sessiontree.errors import NothingToDoError, SessionExistsError, UsageError
from sessiontree.formats.writing import Loss, Losses
from sessiontree.storage.atomic import check_free, create_file
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.oserrors import speaking_of

SCRATCH: Final = "scratch/"
PIECES: Final = frozenset({"block", "message_end"})
LONG_AGO: Final = "1970-01-01T00:00:00.000Z"

_TOGETHER: Final = frozenset({"merge", "block", "message_end"})
"""What an entry of these types says depends on others of its path."""

_AT_ONCE: Final = 100
"""Entries that are read together."""


class Source:
    """A session, read whole.

    Attributes:
        session: the session.
        tree: its index.
        leaf: the row that it stands at.
        losses: what the target does not say.
    """

    def __init__(self, session: Surveyor) -> None:
        self.session = session
        self.tree: TreeIndex = session._index()
        self.leaf = session._row(session.leaf)
        self.losses = Losses()
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> list[str]:
        """What could not be had as it was, each told once."""
        return list(self._warnings)

    def warn(self, warnings: Iterable[str]) -> None:
        """Add warnings."""
        self._warnings.update(dict.fromkeys(warnings))

    def rows(self) -> Iterator[int]:
        """All rows but the header's, in file order, but each behind its parent."""
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

    def entry(self, row: int) -> Entry:
        """The entry of a row, whole, or with placeholders."""
        return self.whole(self.session._entry_at(row))

    def whole(self, entry: Entry) -> Entry:
        """The entry with what was spilled of it, or with placeholders."""
        warnings: list[str] = []
        found = Contents(None, False, warnings).whole(entry)
        self.warn(warnings)
        return found

    def resolved(self, entry: Entry) -> Message:
        """The message of a `handle` entry, or a placeholder."""
        warnings: list[str] = []
        found = Contents(self.session._resolved_messages, False, warnings).of_handle(entry)
        self.warn(warnings)
        return found

    def context(self, ref: Entry) -> Context:
        """What the path to an entry says, as stored."""
        found = self.session.context(ref, verbatim=True)
        self.warn(found.warnings)
        return found

    def places(self, leaf: Entry, entries: Sequence[Entry]) -> list[int]:
        """Where on the path to an entry its messages are said, given what they came from.

        That is the row of the entry below which another goes on after the message: its
        own, the last one of a message in pieces, the compaction that kept it, or the
        merge that took it in.
        """
        path = self.session._read_path(leaf).entries
        ends = {message_uuid(entry): entry for entry in path if entry.type in PIECES}
        at = {entry.uuid: number for number, entry in enumerate(path)}
        merges = [number for number, entry in enumerate(path) if entry.type == "merge"]
        first = max((n for n, entry in enumerate(path) if entry.type == "compaction"), default=0)
        last = first
        found: list[int] = []
        for entry in entries:
            whole = ends.get(message_uuid(entry), entry) if entry.type in PIECES else entry
            at_merge = next((number for number in merges if number > last), last)
            number = at.get(whole.uuid, at_merge)
            if whole.uuid in at:
                last = number = max(first, number)
            found.append(self.session._row(path[number]))
        return found

    def merged(self, merge: Entry) -> list[tuple[Message, Entry]]:
        """What a merge adds to the path to it."""
        session = self.session
        path = session._read_path(merge)
        fold = Fold(path, session._segment, session._resolved_messages, verbatim=True)
        self.warn(fold.result()[2])
        piece = next(piece for piece in fold.pieces(path) if piece.uuid == merge.uuid)
        return list(zip(piece.messages, piece.sources, strict=True))

    def rows_down(self, leaf: int) -> array[int]:
        """The rows from the top down to one."""
        rows = array("i", self.tree.rows_up(leaf))
        rows.reverse()
        return rows

    def said(self, rows: array[int]) -> Iterator[tuple[Message, Entry]]:
        """All that was said on a path, whatever was compacted since, and by which entry.

        It is read as it is asked for, but where merges, or messages in pieces, are on it.
        """
        tree, read = self.tree, self.session._entry_at
        if any(tree.type_of(row) in _TOGETHER for row in rows):
            yield from self._folded([read(row) for row in rows])
            return
        edits: dict[str, Entry] = {}
        for row in rows:
            if tree.type_of(row) == "context_edit":
                edit = read(row)
                target = edit.get("targetUuid")
                edits |= {target: edit} if isinstance(target, str) else {}
        for start in range(0, len(rows), _AT_ONCE):
            run = rows[start : start + _AT_ONCE]
            entries = [read(row) for row in run if tree.type_of(row) != "context_edit"]
            yield from self._folded(
                [*entries, *(edits[entry.uuid] for entry in entries if entry.uuid in edits)]
            )

    def _folded(self, entries: list[Entry]) -> Iterator[tuple[Message, Entry]]:
        session = self.session
        path = _Uncompacted(entries)
        fold = Fold(path, session._segment, session._resolved_messages, verbatim=True)
        messages, sources, warnings = fold.result()
        self.warn(warnings)
        return zip(messages, sources, strict=True)

    def tips(self) -> list[int]:
        """The rows with content and none below, in file order, but for those above the leaf."""
        content = self.tree.content_rows()
        above = self.tree.rows_above_content(content)
        own = set(self.tree.rows_up(self.leaf))
        return [r for r in range(1, len(self.tree)) if content[r] and not above[r] and r not in own]

    def lanes(self) -> dict[str, list[int]]:
        """The tips of each lane but the one that is stood on, its own leaf last."""
        standing = self.session._lane
        found: dict[str, list[int]] = {}
        for lane in self.tree.lanes:
            if lane is not None and lane != standing:
                found[lane] = []
        for row in self.tips():
            lane = self.tree.lane_of(row)
            if lane is not None and lane in found:
                found[lane].append(row)
        for lane, tips in found.items():
            leaf = self.tree.last_on(lane)
            if tips or leaf not in set(self.tree.rows_up(self.leaf)):
                tips.append(leaf)
        return {lane: tips for lane, tips in found.items() if tips}

    def derived_uuid(self, uuid: str, number: int) -> str:
        """A uuid for the `number`th thing made of an entry."""
        return derived_uuid(self.session.id, uuid, number)


class _Uncompacted:
    """A path of which nothing was compacted (`context.context.PathRead`)."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.compaction: Entry | None = None
        self.whole = True
        self.cut_above = False


def milliseconds(timestamp: str | None) -> int:
    """An RFC 3339 time as milliseconds since 1970; 0 for none."""
    moment = moment_of(timestamp)
    return 0 if moment is None else round(moment.timestamp() * 1000)


def moment_of(timestamp: Any) -> datetime | None:
    """The moment that a timestamp tells, or None."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except ValueError:
        return None


Beside = tuple[str, Callable[[], Iterator[bytes]]]
"""The path of a file and what gives its bytes."""


def write(
    fs: FileSystem, path: str, blocks: Iterator[bytes], beside: Sequence[Beside] = ()
) -> None:
    """Make the files, the main one last; where one cannot be made, none is left.

    Raises:
        SessionExistsError: one of them is there already.
        StorageError: one cannot be made.
    """
    for name in (path, *(name for name, _ in beside)):
        check_free(fs, name)
    made: list[str] = []
    try:
        for name, content in beside:
            _make_folder(fs, os.path.dirname(name), os.path.dirname(path))
            create_file(fs, name, content())
            made.append(name)
        create_file(fs, path, blocks)
    except BaseException:
        for name in made:
            with contextlib.suppress(OSError):
                fs.unlink(name)
        raise


def _make_folder(fs: FileSystem, folder: str, above: str) -> None:
    """Make a folder, and those between it and one that is there."""
    if folder == above or not folder:
        return
    _make_folder(fs, os.path.dirname(folder), above)
    try:
        with speaking_of(folder, "make"):
            fs.make_folder(folder)
    except SessionExistsError:
        if not fs.stat(folder).is_folder:
            raise
    with speaking_of(folder, "sync the folder of"):
        fs.sync_folder(os.path.dirname(folder) or os.curdir)


TARGETS: Final = ("pi", "claude-code", "atif")


class Target(Protocol):
    """A session put in another program's words.

    Attributes:
        default_name: the name that its program would give to the file.
    """

    @property
    def default_name(self) -> str: ...

    def beside(self, stem: str) -> list[Beside]:
        """The files that belong beside it; `stem` is its path without the suffix."""
        ...

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, taken once, after `beside`."""
        ...


class ConversionResult(msgspec.Struct, frozen=True):
    """A session that was converted.

    Attributes:
        file: the file made.
        to: the target.
        beside: the other files that were made, those that it needs beside it.
        losses: what the target does not say, or says in another way.
        warnings: what could not be had as it was, such as a missing blob.
    """

    file: str
    to: str
    beside: list[str]
    losses: list[Loss]
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The shape that `convert --json` prints."""
        return {
            "file": self.file,
            "to": self.to,
            "beside": self.beside,
            "notExpressed": [msgspec.structs.asdict(loss) for loss in self.losses],
            "warnings": self.warnings,
        }


def convert(
    session: Surveyor, to: str, file: os.PathLike[str] | str | None = None
) -> ConversionResult:
    """See `Session.convert`."""
    given = None if file is None else _path(file)
    source = _checked(session, to)
    target = _target(source, to)
    path = target.default_name if given is None else given
    stem = os.path.splitext(path)[0]
    beside = target.beside(stem)
    if stem == path and beside and to == "claude-code":
        raise UsageError(
            f"{path} needs a folder of its name beside it; give a name that ends in .jsonl"
        )
    write(session._disk, path, target.blocks(), beside)
    made = [name for name, _ in beside]
    return ConversionResult(path, to, made, source.losses.found(), source.warnings)


def _path(file: object) -> str:
    if isinstance(file, os.PathLike):
        file = os.fspath(file)
    if isinstance(file, str):
        return file
    raise UsageError(f"the file to make is named by a string or a Path, not by {file!r:.60}")


def converted(session: Surveyor, to: str) -> tuple[Iterator[bytes], Source]:
    """The bytes of the file alone, for a pipe.

    Returns:
        Its blocks, and the source, which knows the losses when they have been taken.

    Raises:
        UsageError: it needs files beside it.
    """
    source = _checked(session, to)
    target = _target(source, to)
    if target.beside(""):
        raise UsageError(
            f"{session.file or 'the session'} takes more than one file as {to}; give a file to make"
        )
    return target.blocks(), source


def _checked(session: Surveyor, to: str) -> Source:
    if to not in TARGETS:
        raise UsageError(f"there is no target {to!r}; give one of {', '.join(TARGETS)}")
    if len(session._index()) < 2:
        raise NothingToDoError(
            f"{session.file or 'the session'} holds nothing to convert yet; append to it first"
        )
    return Source(session)


def _target(source: Source, to: str) -> Target:
    """A converter, imported when it is asked for."""
    if to == "pi":
        from sessiontree.formats.pi.writer import PiTree

        return PiTree(source)
    if to == "claude-code":
        from sessiontree.formats.claude_code.writer import ClaudeCodeFiles

        return ClaudeCodeFiles(source)
    from sessiontree.formats.atif import AtifDocument

    return AtifDocument(source)
