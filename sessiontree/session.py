"""Session: one conversation, a tree of entries in one append-only log.

`Session` is a facade: each method calls a collaborator or an operation. `SessionFile` is the
opened file of any kind, `TreeReader` reads the entries, `Cursor` is the place in the tree,
`EntryWriter` appends, `HandleScope` resolves handles.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn, Self, TypedDict, Unpack, cast

from sessiontree.context.compaction import Summary, TokenCounter, estimate_tokens, summarize
from sessiontree.context.context import Context
from sessiontree.core.blocks import Resolution
from sessiontree.core.callback import check_never_awaited
from sessiontree.core.codec import FORMAT, VERSION, encode
from sessiontree.core.damage import Damage, Note
from sessiontree.core.entry import (
    HEADER,
    SUBAGENT,
    Entry,
    check_fields,
    check_session_name,
)
from sessiontree.core.header import LANE_KEY
from sessiontree.core.index import Branch
from sessiontree.core.jsonbytes import Dumpable
from sessiontree.core.message import Message
from sessiontree.engine import names as refs
from sessiontree.engine import opening
from sessiontree.engine.cursor import Ref
from sessiontree.engine.writer import EntryWriter, fresh_uuid, now
from sessiontree.errors import (
    EntryError,
    SessionExistsError,
    SessionNotFoundError,
    UsageError,
    no_attribute,
)
from sessiontree.operations import compact as compaction
from sessiontree.operations import lanes, moves
from sessiontree.operations.compact import RESERVE_TOKENS, CompactionPlan
from sessiontree.storage.fs import CREATE, DISK, Durability, FileSystem
from sessiontree.storage.log import FileLog, Log, closed_on_failure, planned_again
from sessiontree.storage.places import check_durability, check_new_address, create_log, open_log

if TYPE_CHECKING:
    from sessiontree.agents import TargetName
    from sessiontree.context.providers.values import Request
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.core.handle import Handle, Kind
    from sessiontree.engine.gc import GcResult
    from sessiontree.engine.repair import Progress, RepairResult
    from sessiontree.handles.builtin import ResolvedEntry
    from sessiontree.handles.registry import Registry
    from sessiontree.handles.registry import Resolution as HandleResolution
    from sessiontree.handles.resolve import HandleScope
    from sessiontree.history.edits import FileEvent
    from sessiontree.operations.convert import ConversionResult
    from sessiontree.operations.export import Original
    from sessiontree.operations.moves import MovePlan, PromptText
    from sessiontree.operations.unfinished import Unfinished
    from sessiontree.recording.events import StoredEvent
    from sessiontree.recording.stream import Granularity, MessageStream
    from sessiontree.redact.redaction import Redaction
    from sessiontree.storage.blobs import Blobs
    from sessiontree.views.compare import Comparison
    from sessiontree.views.costs import Stats
    from sessiontree.views.rows import TreeRow
    from sessiontree.views.tree import Label
    from sessiontree.views.turns import SessionOutline, Turn

PathLike = str | os.PathLike[str]

SPILL_OVER: Final = 32 * 1024
"""The bytes of the longest string that stays in the file by default."""


class SharedOptions(TypedDict, total=False):
    """The options of `Session.create` and of `Session.open`."""

    exclusive: bool
    lane: str
    durability: Durability
    spill_over: int | None
    hooks: Iterable[Any]
    registry: Registry | None
    root: PathLike | None


class CreateOptions(SharedOptions, total=False):
    """The options of `Session.create`, as the methods that pass them on take them."""

    name: str | None
    metadata: Mapping[str, Any] | None


class OpenOptions(SharedOptions, total=False):
    """The options of `Session.open`, as the methods that pass them on take them."""

    readonly: bool
    migrate: opening.Migrate


def to_open(options: CreateOptions) -> OpenOptions:
    """Return the options that opening a session takes too."""
    taken = OpenOptions.__annotations__
    return cast(OpenOptions, {key: value for key, value in options.items() if key in taken})


NEAR_NAMES: Final = {
    "messages": "context().messages",
    "get_messages": "context().messages",
    "history": "context().messages, or path() for the entries",
    "system": "context().system",
    "model": "context().model",
    "tokens": "context().tokens",
    "add_message": "append_message",
    "add": "append_message, or append for any entry",
    "save": "append_message: what it returned is on disk",
    "head": "leaf",
    "current": "leaf",
    "last": "leaf",
    "title": "name, which rename sets",
    "set_name": "rename",
    "load": "open",
    "get": "entry",
    "checkout": "switch",
    "tags": "labels()",
    "usage": "stats().usage",
    "cost": "stats().cost",
    "cwd": "header['cwd']",
    "created": "header.timestamp",
    "delete": "Store.trash",
}
"""Names that people try, and the words that a session has for them."""


class KnowsNearNames(type):
    """The class of a session's class, which names the right word for a near miss."""

    if not TYPE_CHECKING:  # to a type checker, any name would be right

        def __getattr__(cls, name: str) -> Any:
            raise no_attribute(cls, name, NEAR_NAMES)


class Session(metaclass=KnowsNearNames):
    """A session. `create` and `open` return a session, which is also a context manager.

    Its methods and properties, in six groups:

    - Open and close: `create`, `open`, `open_or_create`, `beside`, `close`, `refresh`, `follow`;
      maintain: `verify`, `repair`, `gc`.
    - Read: `context`, `unfinished`, `path`, `turns`, `turn`, `entry`, `entries`, `children`,
      `find`, `block`, `branches`, `labels`, `tree`, `outline`, `render`, `compare`,
      `conversation`, `stats`, `file_events`, `sent_request`, `original`, `resolve`,
      `resolve_many`, `resolved_path`, `resolved_tree`; `id`, `name`, `metadata`,
      `file`, `header`, `leaf`, `lane_name`, `conflict`, `damage`, `notes`, `blobs`, `handles`.
    - Write: `append_message`, `stream_message`, `append`, `append_handle`, `append_usage`,
      `attach`, `label`, `rename`, `update_metadata`, `set_model`, `set_thinking_level`, `batch`,
      `locked`.
    - Move: `branch`, `switch`, `rewind`, `undo`, `retract`, `push`, `pop`, `compact`,
      `auto_compact`, `needs_compaction`, `merge`, `cherry_pick`, `edit_context`; plan a summary:
      `branch_plan`, `pop_plan`, `compaction_plan`, `merge_plan`.
    - Copy: `fork`, `export_branch`, `to_markdown`, `to_html`, `convert`.
    - Lanes: `lane`, `subagent`, `scratch`, `keep`.

    Any method may raise these errors, in addition to the errors in its own description:

    - RefError: a ref names no entry, or more than one entry.
    - EntryError: a summary is empty or not text.
    - SessionExistsError: the new file already exists.
    - HookRejectedError, or another error that a hook raises: nothing was written.
    - ReadOnlyError: the session is read-only or closed, or its scratch lane was kept.
    - SessionBusyError: another writer is exclusive, or does not release the lock.
    - WriteFailedError, StorageError: the operating system reported an error. A failed write
      may have written a part of the entry: open the session again.
    - SessionNotFoundError, FileReplacedError: the file is gone, or was replaced.
    - CorruptionError: a part of the file that the method needs is damaged.

    Attributes:
        cursor: the place of the session in the tree.
        reader: the object that reads the entries.
        writer: the object that appends entries.
        disk: the file system for the files that the session makes.
    """

    def __init__(
        self,
        file: opening.SessionFile,
        writer: EntryWriter,
        disk: FileSystem,
        registry: Registry | None = None,
        root: str | None = None,
        origin: Session | None = None,
    ) -> None:
        """Wrap the parts of an open session; `create` and `open` make them."""
        self.writer = writer
        self.cursor = writer.cursor
        self.reader = writer.reader
        self.disk = disk
        self._opened_file = file
        self._registry = registry
        self._root = root
        self._origin = origin
        self._handles: HandleScope | None = None
        self._closing = threading.Event()
        self._followed: list[tuple[tuple[int, int], Damage]] = []
        self.cursor.resolve = self._resolve_messages
        self.cursor.uuid_of_turn = self._uuid_of_turn
        self.cursor.origin = self._origin_of
        writer.hooks.subject = self

    def __repr__(self) -> str:
        where = "in memory" if self.file is None else repr(self.file)
        return f"<Session {where}, lane {self.lane_name}>"

    if not TYPE_CHECKING:  # as in `KnowsNearNames`

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, NEAR_NAMES)

    # Open and close

    @classmethod
    def create(
        cls,
        file: PathLike | None = None,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        spill_over: int | None = SPILL_OVER,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Make a new session and open it.

        Args:
            file: the path of the new file, which only its owner can read, or an address such as
                `postgresql://host/db/project/chat.jsonl` or `s3://bucket/project/chat.jsonl`; None:
                the session has no file.
            cwd: the working directory of the session, by default the current directory.
            id: the id of the session, by default a new UUID.
            name: the name of the session.
            metadata: facts such as `model`, `system`, or the agent's own session id.
            exclusive, lane, durability, spill_over, hooks, registry, root, fs: as for `open`.

        Raises:
            EntryError: a value is not JSON.
            StorageError: the file cannot be made.
            UsageError: an address does not end in `.jsonl`, or is in the trash.
        """
        refs.check_name(lane, "lane name")
        check_durability(durability)
        _check_options(spill_over)
        line = encode(_header(cwd, id, name, metadata)) + b"\n"
        log: Log
        if file is None:
            from sessiontree.storage.memory import MemoryFiles  # most sessions have a file

            files, spill_over = MemoryFiles(), None
            files.write(files.open(_IN_MEMORY, CREATE), line)
            log, fs = FileLog(files, _IN_MEMORY, durability="os"), DISK
        else:
            check_new_address(os.fspath(file), exclusive=exclusive)
            create_log(fs, os.fspath(file), iter([line]))
            log = open_log(fs, os.fspath(file), durability=durability)
        return cls._open(
            log,
            fs,
            exclusive=exclusive,
            lane=lane,
            spill_over=spill_over,
            hooks=hooks,
            registry=registry,
            root=root,
        )

    @classmethod
    def open(
        cls,
        file: PathLike,
        *,
        readonly: bool = False,
        exclusive: bool = False,
        lane: str = "main",
        durability: Durability = "fsync",
        spill_over: int | None = SPILL_OVER,
        migrate: opening.Migrate = True,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Open a session.

        A version 1 file is migrated on disk. With `readonly`, the file is migrated in memory. A
        file of another agent can only be read; it is translated in memory (`sessiontree.agents`).

        Args:
            file: the path of the session file, or the address of the session, such as
                `postgresql://host/db/project/chat.jsonl` or `s3://bucket/project/chat.jsonl`.
            readonly: take no lock and never write to the disk.
            exclusive: keep all other writers out until the session is closed.
            lane: the lane to read and write; only a writer can start a new lane.
            durability: `fsync`: a returned entry survives a power cut; `os`: a returned entry
                survives the death of the process.
            spill_over: a string longer than this number of UTF-8 bytes is stored as a blob
                beside the file. None: never; 0: always.
            migrate: False: refuse to migrate a version 1 file on disk; "later": migrate the file
                with the first entry that is written.
            hooks: objects that are called before and after each write; see `Hook`.
            registry: the resolvers of handles, by default `Registry.default()`.
            root: the folder for `file` handles; without a root, no `file` handle is resolved.
            fs: the file system; tests pass another one.

        Raises:
            NotASessionError, ForeignFormatError, NewerFormatError: the file has another format.
            MissingHeaderError: the header is lost, and `readonly` is False; see `repair_file`.
            MigrationRefusedError: the file has version 1, and `migrate` is False.
            RefError: the lane has no entry, and `readonly` is True.
        """
        check_durability(durability)
        _check_options(spill_over)
        if readonly and exclusive:
            raise UsageError("a session is opened readonly or exclusive, not both")
        return cls._open(
            open_log(fs, os.fspath(file), readonly=readonly, durability=durability),
            fs,
            exclusive=exclusive,
            lane=lane,
            spill_over=spill_over,
            migrate=migrate,
            hooks=hooks,
            registry=registry,
            root=root,
        )

    @classmethod
    def open_or_create(
        cls,
        file: PathLike,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        fs: FileSystem = DISK,
        **options: Unpack[CreateOptions],
    ) -> Self:
        """Open a session to continue it, or make it if the file does not exist.

        A program calls it at each start, and continues after a crash in the same way.

        Args:
            file: the path of the session file, or an address.
            cwd, id: as for `create`. An existing session keeps its own, and its name and metadata.
            fs: the file system; tests pass another one.
            options: the other options of `create`.

        Raises:
            SessionTreeError: any error of `open` and `create`.
        """
        opened = partial(cls.open, file, fs=fs, **to_open(options))
        with suppress(SessionNotFoundError):
            return opened()
        with suppress(SessionExistsError):  # another program made it meanwhile
            return cls.create(file, cwd=cwd, id=id, fs=fs, **options)
        return opened()

    @classmethod
    def _open(
        cls,
        log: Log,
        disk: FileSystem,
        *,
        exclusive: bool,
        lane: str,
        spill_over: int | None,
        migrate: opening.Migrate = True,
        hooks: Iterable[Any],
        registry: Registry | None,
        root: PathLike | None,
    ) -> Self:
        with closed_on_failure(log):
            if not log.readonly:
                refs.check_name(lane, "lane name")
            file = opening.open_file(log, migrate=migrate)
            if exclusive:
                log.keep()
            writer = EntryWriter.of(file.log, lane, hooks, spill_over, file.header_line)
            if log.readonly:
                lanes.check_exists(writer.cursor)
        return cls(file, writer, disk, registry, None if root is None else os.fspath(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __aenter__(self) -> NoReturn:
        self.close()
        raise UsageError(
            "a Session is entered with 'with'; for 'async with', use AsyncSession, which has the "
            "same methods to await"
        )

    def __aexit__(self, *exception: object) -> NoReturn:
        raise UsageError("a Session is left with 'with'; for 'async with', use AsyncSession")

    def close(self) -> None:
        """Write an open batch, close the file, and release the lock. A second call does nothing.

        The memory of the context and of the tree is free afterwards. `leaf`, `header`, `id` and
        `damage` stay.
        """
        self._closing.set()
        self.writer.close()
        self._handles = None
        if not self._file.is_current:
            self._file.original.close()

    def beside(self, file: PathLike) -> Session:
        """Open another session read-only, with this session's file system and resolvers."""
        return type(self).open(
            file, readonly=True, registry=self._registry, root=self._root, fs=self.disk
        )

    @property
    def _file(self) -> opening.SessionFile:
        """The opened file; after a replacement, the one that the reader reads now."""
        if self._opened_file.is_current and self._opened_file.log is not self.reader.log:
            self._opened_file = opening.NativeFile(self.reader.log)
        return self._opened_file

    @property
    def handles(self) -> HandleScope:
        """The object that resolves the handles of this session."""
        if self._handles is None:
            from sessiontree.handles.resolve import HandleScope  # many sessions have no handles

            self._handles = HandleScope(self, self._registry, self._root)
        return self._handles

    def _resolve_messages(self, entries: Sequence[Entry]) -> Sequence[Resolution]:
        return self.handles.messages(entries) if entries else ()

    def _uuid_of_turn(self, number: str) -> str:
        return self.outline().numbered(number).uuid

    def _origin_of(self, entry: Entry) -> str | None:
        return self._file.origin(entry)

    # Look

    @property
    def file(self) -> str | None:
        """The path of the file, as given, or the address; None for a session without one."""
        log = self.reader.log
        if log.name != _IN_MEMORY:
            return log.name
        from sessiontree.storage.memory import MemoryFiles  # as above

        return None if isinstance(log.blobs.fs, MemoryFiles) else log.name

    @property
    def header(self) -> Entry:
        """The first entry, the root of the tree."""
        return self.reader.header

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.reader.id

    @property
    def lane_name(self) -> str:
        """The lane that this session reads and writes."""
        return self.cursor.lane or "main"

    @property
    def leaf(self) -> Entry:
        """The current entry: the parent of the next entry that this session writes."""
        return self.cursor.leaf

    @property
    def conflict(self) -> Entry | None:
        """The last entry of this lane, if another writer added it and it is not on this path.

        The leaf of the lane in the file has then moved: what this session writes is on another
        branch than this entry. A session learns of other writers when it writes, and when you call
        `refresh`. The property is None again after a `switch` to the entry, or a `merge` of it.
        """
        return self.writer.conflict

    @property
    def name(self) -> str | None:
        """The latest name of the session, or None."""
        return self.reader.names().name

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the header, with all later changes.

        On a lane, facts that the recorder stored for an agent on this lane (under `lane:NAME`)
        replace those of the session.
        """
        found = self.reader.names().metadata.copy()
        own = found.get(LANE_KEY + (self.cursor.lane or ""))
        return found | own if isinstance(own, dict) else found

    @property
    def blobs(self) -> Blobs:
        """The folder of blobs beside the file: content that is too large for the file."""
        return self.reader.blobs

    @property
    def damage(self) -> list[Damage]:
        """The damage found in the file so far, in file order."""
        file = self._file
        found = file.damage_in_original(self.reader.damage)
        met = {(damage.offset, damage.kind) for damage in found}
        for identity, damage in self._followed:
            if identity == file.original.identity and (damage.offset, damage.kind) not in met:
                met.add((damage.offset, damage.kind))
                found.append(damage)
        return sorted(found, key=lambda damage: (damage.offset, damage.kind))

    @property
    def notes(self) -> list[Note]:
        """The lines of another agent's file that are of unknown types, one note a type.

        These lines are custom entries, and are not damage. An agent's newer version adds types.
        """
        return list(self._file.notes)

    def entry(self, ref: Ref) -> Entry:
        """Return the entry that a ref names."""
        return self.cursor.entry(ref)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries in file order, the header first."""
        return self.reader.entries()

    def children(self, ref: Ref) -> list[Entry]:
        """Return the children of an entry, in file order."""
        return self.reader.children(self.entry(ref))

    def find(self, *, type: str | None = None, tool_call_id: str | None = None) -> list[Entry]:
        """List the entries of a type, or the entries of a tool call and its results, in file order.

        With `tool_call_id`, handles of messages are resolved. If one cannot be resolved, a
        SessionTreeWarning says so.

        Raises:
            UsageError: neither `type` nor `tool_call_id` is given.
        """
        from sessiontree.views.messages import find  # few sessions are searched

        return find(self.cursor, type, tool_call_id)

    def path(self, ref: Ref | None = None) -> list[Entry]:
        """Return the entries from the header to an entry, by default the leaf.

        If a parent is missing, the path starts below that parent, and `damage` names the parent.
        """
        return self.cursor.path(ref)

    def context(
        self,
        ref: Ref | None = None,
        *,
        verbatim: bool = False,
        resolve: bool = True,
        strict: bool = False,
        count: TokenCounter = estimate_tokens,
    ) -> Context:
        """Return the messages and settings that a model gets at an entry, by default the leaf.

        A handle on the path is resolved once. If the content behind a handle changes, the
        context keeps the earlier content, so that the model gets the same bytes again. To get
        the new content, append the handle again, open the session again, or use `strict`.

        Args:
            ref: the entry.
            verbatim: return the messages exactly as stored; do not pair calls and results.
            resolve: False: do not resolve handles; the messages name the handles.
            strict: resolve all handles again, and raise an error if a blob or handle fails.
                By default, a placeholder replaces missing content.
            count: a function that counts the tokens of one message.

        Raises:
            BlobError, ResolveError: `strict` is True, and content is missing.
        """
        return self.cursor.context(
            ref, verbatim=verbatim, resolve=resolve, strict=strict, count=count
        )

    def unfinished(self) -> Unfinished | None:
        """Return what a crash or an interruption left undone at the leaf.

        Returns:
            `"prompt"`: the last prompt has no answer. `"results"`: the model called tools; the next
              request gives it the results, and says which calls were interrupted. `"partial"`: the
              last answer broke off, or ends in thinking; `retract` takes it off the path. None: the
              last answer is whole, or the session moved (`branch`, `rewind`, `undo`, …) and nothing
              was written since. A `retract` does not count as a move.
        """
        from sessiontree.operations.unfinished import unfinished  # asked once, at the start

        return unfinished(self.cursor)

    def turns(self, ref: Ref | None = None) -> list[list[Entry]]:
        """Return the messages of a path as a list of turns.

        A turn is a prompt and all messages after the prompt, up to the next prompt. A command that
        the user typed, such as `/review`, is a prompt. A handle of a message counts as a message;
        it is resolved only if it may be a prompt. `outline` resolves no handles, so its turns may
        differ.
        """
        from sessiontree.views.turns import turns  # few programs group a path

        return turns(self.path(ref), self.cursor.messages)

    def branches(self, ref: Ref | None = None) -> list[Branch]:
        """Return all branches, or the branches below an entry.

        What a subagent did is not a branch, unless the session is on its lane; see `outline`. That
        is a lane of `subagent`, or one of another agent's session; a lane of `lane` is a branch.

        The list is sorted by the position of the last entry of each branch in the file.
        """
        below = None if ref is None else self.entry(ref)
        from sessiontree.views.tree import branches  # few programs list them

        return branches(self.cursor, below)

    def tree(self) -> Iterator[TreeRow]:
        """Yield each entry with its place in the tree, in file order.

        No handle is resolved. Each handle of a message with the role `user` counts as a prompt.
        """
        from sessiontree.views.rows import rows  # few sessions are read as rows

        return rows(self.cursor)

    def outline(self) -> SessionOutline:
        """Return the turns of all branches: what was asked, and what was done.

        The whole file is read once. `sessiontree tree` draws this outline. No handle is resolved.
        Each handle of a message with the role `user` counts as a prompt.
        """
        from sessiontree.views.turns import outline  # few sessions are outlined

        return outline(self.cursor)

    def compare(self, one: Ref, other: Ref | None = None) -> Comparison:
        """Return where two branches part, and what was done on each of them since.

        `other` is by default the leaf.
        """
        from sessiontree.views.compare import compare  # few sessions are compared

        return compare(
            self.cursor, self.entry(one), self.entry(refs.LEAF if other is None else other)
        )

    def labels(self) -> list[Label]:
        """Return the labels with the entries that they name, in the order of the entries."""
        from sessiontree.views.tree import labels  # few programs list them

        return labels(self.cursor)

    def turn(self, turn: Turn) -> list[Entry]:
        """Return the entries of a turn of `outline`, from its first to its last."""
        from sessiontree.views.turns import entries_of

        return entries_of(self.cursor, turn)

    def render(self, *, all: bool = False, width: int | None = None) -> Iterator[str]:
        """Yield the lines of a drawing of the tree; with `all`, every entry has a line.

        With `width`, the content of each entry is cut to leave room for its uuid and its names in
        so many characters, and not to 60 characters.
        """
        from sessiontree.views.layout import draw  # few programs draw the tree

        return draw(self.cursor, all=all, width=width)

    def conversation(self, ref: Ref | None = None) -> Iterator[StoredEvent]:
        """Yield a path as events, with the same classes as the events of a recorded stream.

        `sessiontree.recording.events` defines the classes. Each whole block and each whole message
        is one event. There are no start events and no delta events of blocks.
        """
        from sessiontree.recording.replay import conversation  # few sessions are taken apart

        return conversation(self.cursor, ref)

    def block(self, ref: Ref, index: int) -> dict[str, Any]:
        """Return one content block of a message.

        The entry is the message itself, or one part of a message that was written in blocks. Some
        items of OpenAI's Responses API have no role, for example a function call. Such an item
        counts as one block: block 0 is the item.

        Raises:
            UsageError: the entry is not a message, or the message has no such block.
            ResolveError: the entry is a handle of a message, and cannot be resolved.
        """
        from sessiontree.recording.replay import block  # few sessions are taken apart

        return block(self.cursor, ref, index)

    def stats(self) -> Stats:
        """Count the entries, branches, bytes and tokens, and add up the cost.

        Handles that may be answers are resolved. If one cannot be resolved, a SessionTreeWarning
        says so.
        """
        from sessiontree.views.costs import stats  # few sessions are ever counted

        with self.reader.alone():
            size = self.reader.whole().size if self._file.is_current else self._file.size
            return stats(self.cursor, size)

    def file_events(self, names: Collection[str] = ()) -> list[FileEvent]:
        """Return what the session did to files, and what it saw of them, in the order of time.

        A call that failed, was refused or has no result has an event too; it changed nothing.

        Args:
            names: only events of calls that have one of these names in their arguments; all
                events if empty.
        """
        from sessiontree.history.edits import file_events  # few sessions are asked for it

        return file_events(self.cursor, self._file.original_line, names)

    def original(self, ref: Ref) -> bytes:
        """Return the line of an entry exactly as in the file.

        In another agent's file, the line has the format of that agent.
        """
        return self._file.original_line(self.entry(ref))

    def sent_request(self, ref: Ref | None = None) -> Request:
        """Return the request to which an answer was the response, as the agent recorded it.

        Claude Code records its requests since version 2.1.330, in its transcripts and so in imports
        of them. `ref` is an answer, by default the last one, or the id of a request.

        The `params` of the result have the system prompt, the tools, the messages and the
        settings. `warnings` says what was left out or changed.

        Raises:
            UsageError: the session, or the answer, has no record of a request.
            FileError: a part of the record is missing, or the records form a loop.
            TooMuchError: the messages of the request have more than 128 MiB.
        """
        from sessiontree.operations.requests import is_answer, sent_request  # rarely needed

        def entry() -> Entry | None:
            return self.cursor.nearest(is_answer) if ref is None else self.entry(ref)

        with self.reader.alone():
            return sent_request(self.cursor, self._file.original_line, entry, ref)

    def resolve(self, handle: Handle | str | Mapping[str, Any]) -> ResolvedHandle:
        """Return what a handle points to. The handle may have its text form or a JSON form.

        Raises:
            HandleError: the handle is not well formed, or does not fit its schema.
            ResolveError, BlobError: the content is missing.
        """
        return self.handles.resolve(handle)

    def resolve_many(
        self, handles: Iterable[Handle | str | Mapping[str, Any]]
    ) -> list[HandleResolution]:
        """Return what each handle points to, or the error. Equal handles are resolved once."""
        return self.handles.resolve_many(handles)

    def resolved_path(self, ref: Ref | None = None) -> list[ResolvedEntry]:
        """Return the entries of a path, each with the content of its handle or with the error."""
        return self.handles.resolved_path(ref)

    def resolved_tree(self, ref: Ref | None = None) -> ResolvedEntry:
        """Return an entry, by default the header, and all entries below it; see `resolved_path`."""
        return self.handles.resolved_tree(ref)

    def refresh(self) -> None:
        """Read the entries that other writers added.

        A writer stays at its leaf. A reader goes to the new leaf of its lane. No refresh is needed
        for entries of sessions that you opened with `lane()` or `scratch()`: `entries`, `find`,
        `tree`, `render`, `branches` and `stats` see these entries at once.

        Raises:
            FileReplacedError: the file was replaced by another file, and the new file does not
                have this session's leaf.
        """
        if not self.reader.log.readonly:
            self.writer.refresh()
            return
        with self.reader.alone():
            self.reader.catch_up()
            self.writer.go_to_tip()
        if self._file.is_outdated():
            again = opening.reopened(self._file)
            if self._file.ends_by_rule:
                self.cursor.reset(self.header)
            self.cursor.replace_log(again.log)
            self.writer.go_to_tip()
            self._opened_file = again

    def follow(
        self,
        damaged: Callable[[Damage], object] | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Entry]:
        """Yield each entry that any writer adds from now on, until the session is closed.

        Only lines that end with a newline count. `Session.damage` has the damage in these lines.
        Another agent's file is read anew after a change, and gives the entries that are new in it.

        Args:
            damaged: also called with each damage found in the new lines.
            stop: an event that ends the iteration too when it is set.

        Raises:
            UsageError: the session is in memory.
            FileReplacedError: the file was rewritten in place, or now has another session.
        """
        from sessiontree.operations import follow  # few sessions are followed

        check_never_awaited("damaged", damaged)
        view = self.reader.ready()
        file = self._file
        if self.file is None:
            raise UsageError("a session in memory has no file to follow")
        self.reader.log.size()  # raises if the session is closed

        def note(identity: tuple[int, int], damage: Damage) -> None:
            self._followed.append((identity, damage))
            if damaged is not None:
                damaged(damage)

        known = file.original.identity, view.complete if file.is_current else file.size
        ends = self._closing if stop is None else follow.AnyEvent(stop, self._closing)
        options = follow.Options(note, known, self.reader.fetch, ends)
        if file.ends_by_rule:
            return follow.follow_translated(file, options)
        return follow.follow(file.original.to_read(), view, self.reader.log, options)

    # Write

    def append(
        self,
        /,
        type: str,
        *,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
        uuid: str | None = None,
        **fields: Any,
    ) -> Entry:
        """Write one entry, which is durable when the call returns (except in a `batch`).

        Args:
            type: the entry type. The name of your own type begins with `x-`; an entry of your own
                type is written as given.
            parent: the parent of the entry, by default `leaf`.
            metadata: small facts of your own.
            uuid: the uuid of the entry, by default a new uuid.
            fields: the fields of the type, with their names in the file.

        Raises:
            EntryError: there is no such type, a field is missing, wrong or not JSON, or the uuid is
                already used.
            BlobError: a handle names a blob that this session does not have.
        """
        if metadata is not None:
            fields["metadata"] = metadata
        return self.writer.append(type, fields, parent=parent, uuid=uuid)

    def append_message(
        self,
        message: Message | Dumpable,
        *,
        attachments: Sequence[PathLike | bytes | BinaryIO] = (),
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write one message exactly as given.

        With `attachments`, the content of each file becomes a block of the message, after the
        message's own content. The files are a part of the prompt, also for `rewind` and `turns`. A
        model gets the same content as from `attach`.

        Args:
            message: a dict in any provider's shape, or an SDK's object with `model_dump()`, also
                inside the dict; later changes do not change the entry.
            attachments: paths of files, bytes, and binary streams, each up to 20 MiB.
            parent, metadata: as for `append`.

        Raises:
            EntryError: the dict is not a message, has no content, or is not JSON.
            UsageError: a message with attachments has another role than `user`, or an attachment
                is too large.
            StorageError: an attachment cannot be read.
        """
        if attachments:
            from sessiontree.operations import attach  # few messages have attachments

            message = attach.prompt_with(message, attachments)
        return self.writer.append_message(message, parent, metadata)

    def append_handle(
        self,
        handle: Handle | str | Mapping[str, Any],
        *,
        kind: Kind | None = None,
        role: str | None = None,
        preview: str | None = None,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write an entry that points to content stored elsewhere.

        Args:
            handle: a handle, or the text form or a JSON form of one.
            kind: the kind of the content, by default the kind in the plugin's schema.
            role: the role of the message that a context makes of the content.
            preview: a few words that describe the content to people.
            parent: as for `append`.
            metadata: hints, up to 1 KB as JSON.

        Raises:
            HandleError: the handle, the kind or the metadata is wrong, or the handle names an
                entry that this session does not have.
            BlobError: the handle names a blob that this session does not have.
        """
        fields = self.handles.entry_fields(handle, kind, role, preview, metadata)
        return self.writer.append("handle", fields, parent=parent)

    def attach(
        self,
        content: PathLike | BinaryIO,
        media_type: str | None = None,
        *,
        role: str = "user",
        preview: str | None = None,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Store a file or stream of any size as a blob, and write an entry with its handle.

        A model gets images (PNG, JPEG, GIF, WebP), PDF up to 20 MiB, and UTF-8 text up to 256 KiB.
        If a text has a few bytes that are not valid UTF-8, U+FFFD replaces these bytes. Content
        with more such bytes is not treated as text. For any other content, the model gets only the
        name, and the context has a warning. With the role `system`, a text is the system text of
        the context, and the model gets only the name of an image or PDF.

        Args:
            content: the path of a file, or a binary stream, which is read to its end.
            media_type: the media type, by default guessed from the content and the file name.
            role, preview, parent, metadata: as for `append_handle`.

        Raises:
            StorageError: the content cannot be read or stored.
            HandleError: the media type or the metadata is wrong.
        """
        from sessiontree.operations import attach  # few sessions have attachments

        self.reader.log.check_writable()
        self.writer.check_log_is_there()
        handle, name = attach.store(self.blobs, content, media_type)
        return self.append_handle(
            handle,
            kind="binary",
            role=role,
            preview=preview or name,
            parent=parent,
            metadata=metadata,
        )

    def stream_message(
        self,
        role: str = "assistant",
        *,
        model: str | None = None,
        provider: str | None = None,
        granularity: Granularity = "message",
    ) -> MessageStream:
        """Write a message while it arrives.

        Call `feed` for each stream event of Anthropic, OpenAI Responses or Chat Completions; or,
        for any other API, call `start`, `delta` and `stop` for each block.

        Args:
            role, model, provider: the values for the message.
            granularity: `block` writes one entry for each finished block; `message` writes one
                entry at the end.

        Returns:
            A context manager. The message ends when the `with` block ends.

        Raises:
            UsageError: there is no such granularity.
        """
        facts = {"model": model, "provider": provider}
        from sessiontree.recording.stream import MessageStream  # few programs stream

        return MessageStream(self, role, facts, granularity)

    def append_usage(
        self,
        usage: Mapping[str, Any] | Dumpable,
        *,
        model: str | None = None,
        provider: str | None = None,
        kind: str = "response",
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write the usage of a request that no message has, for example one of OpenAI Responses.

        `stats` counts the usage. Models do not see the entry. An entry of usage moves no leaf.

        Args:
            usage: the numbers as the provider reports them: a dict, or the SDK's object.
            model, provider: the model that was asked.
            kind: what the request was for, such as `response` or `summary`.
            metadata: as for `append`.

        Raises:
            EntryError: the usage is not a dict, or not JSON.
        """
        fields: dict[str, Any] = {"kind": kind, "provider": provider, "model": model}
        return self.append("usage", metadata=metadata, usage=usage, **fields)

    def label(self, ref: Ref, text: str | None) -> Entry:
        """Give an entry a label, or remove the label with None. Returns the new `label` entry.

        Raises:
            InvalidNameError: the label is not valid as a ref, or names another entry or a lane.
        """
        self.reader.log.check_writable()
        target = self.entry(ref)
        if ref == refs.LEAF:  # label the entry that people see, not a mark below it
            target = self.reader.skip_unseen(target)
        if text is not None:
            self.reader.check_name_is_free(refs.check_new_name(text, refs.LABEL), target.uuid)
        return self.writer.annotate("label", {"targetUuid": target.uuid, "label": text})

    def rename(self, name: str) -> Entry:
        """Give the session a name. Returns the new `session_info` entry.

        Raises:
            EntryError: the name is empty, or not one line of text without control characters.
        """
        check_session_name(name)
        return self.writer.annotate("session_info", {"name": name})

    def update_metadata(self, /, **facts: Any) -> Entry:
        """Set facts of the session's metadata. Returns the new `session_info` entry.

        Raises:
            EntryError: no fact is given, or a fact is not JSON.
        """
        if not facts:
            raise EntryError("update_metadata needs a fact; give key=value")
        return self.writer.annotate("session_info", {"metadata": facts})

    def set_model(self, provider: str | None, model_id: str) -> Entry:
        """Set the model for the new entry and all entries below it. Returns the new entry."""
        return self.append("model_change", provider=provider, modelId=model_id)

    def set_thinking_level(self, level: str) -> Entry:
        """Set the thinking level for the new entry and all entries below it. Returns the entry."""
        return self.append("thinking_level_change", thinkingLevel=level)

    def batch(self) -> AbstractContextManager[None]:
        """Write all entries that the `with` block appends, with one write and one sync.

        The entries are written when the block ends. The lock is held during the whole block, so
        keep the block short. If you read the session inside the block, the entries appended so
        far are written first. A batch is not atomic. After a crash, the file may have only the
        first part of the batch. An exception does not undo the entries appended before.

        The batch belongs to the asyncio or trio task that opened it. If another task appends
        an entry meanwhile, the waiting entries and this entry are written immediately.

        Raises:
            UsageError: this task, or another task of this thread, has a batch open.
        """
        return self.writer.batch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Take the lock, move to the newest leaf of the lane, and hold the lock for the block.

        A bucket has no lock that keeps other programs out. There, a write of the block fails if
        another program wrote after the block began; run the block again.

        Raises:
            OvertakenError: another program was faster; this write was not done.
        """
        with self.writer.locked():
            yield

    # Move

    def branch(
        self, ref: Ref | MovePlan, summary: Summary | None = None, name: str | None = None
    ) -> Entry:
        """Continue from an entry in the same file: append a `branch` entry below that entry.

        Args:
            ref: the entry to continue from; the header gives an empty context. Or a
                plan of `branch_plan`.
            summary: a summary of the path that you leave: text, or a summarizer. The new entry
                is then a `branch_summary`, and the context has the summary. With a plan, the
                default is `sessiontree.summarize`.
            name: a name for the new branch.

        Returns:
            The new entry, which is the new leaf.

        Raises:
            InvalidNameError: the name is invalid or taken.
            UsageError: the session moved or wrote an entry since the plan, or while the summarizer
                worked: the summary would lack that entry. Nothing is written.
        """
        return moves.branch(self.writer, ref, summary, name)

    def branch_plan(self, ref: Ref, *, instructions: str | None = None) -> MovePlan:
        """Return the messages that the summary of a `branch` has to cover; write nothing.

        See `pop_plan`.

        Raises:
            NothingToDoError: no message is left.
        """
        return self._plan("branch", ref, instructions)

    def _plan(self, move: moves.Move, ref: Ref | None, instructions: str | None) -> MovePlan:
        with self.handles.failing_once():
            return moves.plan(self.writer, move, ref, instructions)

    def switch(self, ref: Ref) -> Entry:
        """Go to an entry, or to the last entry of a named branch. Returns the leaf.

        If the session is already at that entry, nothing is written.
        """
        return moves.switch(self.writer, ref)

    def rewind(self, ref: Ref | None = None) -> PromptText:
        """Go to the entry above a prompt, by default the last prompt. Returns the prompt's text.

        The text is a string with the rest of the prompt: its `attachments`, such as images, its
        whole `message`, to ask it again, and its `entry`. A handle of a message may be the prompt.
        If it cannot be resolved, its preview is returned.

        Raises:
            UsageError: the entry is not a prompt.
            NothingToDoError: the path has no prompt.
        """
        return moves.rewind(self.writer, ref)

    def undo(self) -> Entry:
        """Take back the last move, compaction, merge, edit or push. Returns the entry taken back.

        The session moves to where it was before that entry, by a new `branch` entry; settings made
        since are repeated there. Nothing is deleted: `switch` to the returned entry does the step
        again. A second `undo` takes back the step before.

        Raises:
            NothingToDoError: the last entry is not such a step, or there is none.
        """
        from sessiontree.operations.undo import undo  # few programs take a step back

        return undo(self.writer)

    def retract(self) -> Entry:
        """Take an answer that broke off off the path, to ask again. Returns its last entry.

        The session moves to before the answer, which stays in the file, and `unfinished` then
        returns what the answer replied to.

        Raises:
            NothingToDoError: the last message is not an answer that broke off.
        """
        from sessiontree.operations.unfinished import retract  # few answers break off

        return retract(self.writer)

    def push(self, note: str | None = None) -> Entry:
        """Mark the leaf; `pop` returns to the marked entry."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        return self.append("stack_push", **fields)

    def pop(self, ref: Ref | MovePlan | None = None, summary: Summary | None = None) -> Entry:
        """Go back up the path, and add a summary of the entries that you leave.

        Args:
            ref: the entry to go back to; by default the last push that has no pop yet. If there is
                no such push: the last prompt that has a message below it, for example an answer.
                Or a plan of `pop_plan`.
            summary: text, or a summarizer; by default `sessiontree.summarize`.

        Returns:
            The new `stack_summary` entry, which is the new leaf.

        Raises:
            UsageError: the entry is not on the path; or the session moved or wrote an entry since
                the plan, or while the summarizer worked.
            NothingToDoError: nothing follows the entry, or there is no entry to go back to.
        """
        with self.handles.failing_once():  # the target and the summary ask for the same handles
            return moves.pop(self.writer, ref, summary)

    def pop_plan(self, ref: Ref | None = None, *, instructions: str | None = None) -> MovePlan:
        """Return the messages that the summary of a `pop` has to cover; write nothing.

        Use it to ask a model for the summary: send `plan.text` to the model, then call
        `pop(plan, summary)`. `branch_plan` and `merge_plan` do the same for a `branch` and a
        `merge`, and `compaction_plan` for a `compact`.

        Args:
            ref: the entry to go back to, as for `pop`.
            instructions: the user's instructions for the summary; they are in `plan.text`, and a
                summarizer gets them as its second argument.

        Raises:
            UsageError: as for `pop`.
            NothingToDoError: as for `pop`, or no message is left.
        """
        return self._plan("pop", ref, instructions)

    def compact(
        self,
        summary: Summary | None = None,
        plan: CompactionPlan | None = None,
        *,
        first_kept: Ref | None = None,
        keep: int | None = None,
        count: TokenCounter = estimate_tokens,
        instructions: str | None = None,
        details: Any = None,
        usage: Any = None,
    ) -> Entry:
        """Replace the older part of the context with a summary.

        By default, about 20,000 tokens at the end of the context stay. If the context is shorter:
        with a `summary`, the summary replaces the whole context; without a `summary`, there is
        nothing to do.

        Args:
            summary: text, or a summarizer of the replaced entries; by default
                `sessiontree.summarize`.
            plan: what to replace, as `compaction_plan` returned it. Entries that this session wrote
                below the leaf of the plan stay in the context.
            first_kept: the first entry to keep; by default chosen by `keep`. Here `@` means the
                last message on the path, even if the leaf is a label entry or an edit entry after
                that message.
            keep: the approximate number of tokens to keep; 0 keeps nothing.
            count: a function that counts the tokens of one message.
            instructions: the user's instructions for the summary. A summarizer gets them as its
                second argument.
            details, usage: values to store in the new entry.

        Raises:
            UsageError: `keep` is not a number of tokens; the first kept entry is not on the path;
                the summarizer takes no instructions; or the plan no longer fits, because the
                session moved, or what the plan replaces was compacted or edited since.
            NothingToDoError: the context is empty, or has fewer tokens than are to be kept.
        """
        extra = {k: v for k, v in (("details", details), ("usage", usage)) if v is not None}
        with self.handles.failing_once():
            if plan is None:
                chosen = compaction.plan(
                    self.cursor, first_kept, keep, count, instructions, any_size=summary is not None
                )
                if isinstance(summary, str) and instructions is not None:
                    raise UsageError("instructions are for a summarizer, and the summary is a text")
            else:
                if not isinstance(plan, compaction.CompactionPlan):
                    raise UsageError(
                        f"plan is what compaction_plan() returns, not {plan!r:.60}; to name the "
                        "first entry to keep, give first_kept="
                    )
                if (first_kept, keep, instructions) != (None, None, None):
                    raise UsageError(
                        "the plan has what to keep and the instructions; leave 'first_kept', "
                        "'keep' and 'instructions' out"
                    )
                chosen = plan
            return compaction.compact(
                self.writer, chosen, summarize if summary is None else summary, extra
            )

    def compaction_plan(
        self,
        *,
        first_kept: Ref | None = None,
        keep: int | None = None,
        count: TokenCounter = estimate_tokens,
        instructions: str | None = None,
    ) -> CompactionPlan:
        """Return what a compaction would replace, and write nothing.

        Use it to ask a model for the summary: send `plan.text` to the model, then call
        `compact(summary, plan)`. By default, about 20,000 tokens at the end of the context stay; if
        the context is shorter, the plan replaces the whole context.

        Args:
            first_kept, keep, count: as for `compact`.
            instructions: the user's instructions for the summary; they are in `plan.text`.

        Raises:
            UsageError: as for `compact`.
            NothingToDoError: the context is empty, or has fewer tokens than `keep`.
        """
        return compaction.plan(self.cursor, first_kept, keep, count, instructions, any_size=True)

    def needs_compaction(
        self, window: int, reserve: int = RESERVE_TOKENS, *, count: TokenCounter = estimate_tokens
    ) -> bool:
        """True if the context leaves less than `reserve` tokens of the model's window.

        The usage that the provider reported last on the path counts, with an estimate of what came
        after it; it includes the system text and the definitions of tools. Without a report since
        the last compaction, messages and system text are estimated, and tools are not: `reserve`
        must have room for them, and for the longest answer.

        Args:
            window: the number of tokens of the model's context window.
            reserve: the tokens to leave free.
            count: a function that counts the tokens of one message.

        Raises:
            UsageError: `window` or `reserve` is not a number of tokens, or `reserve` is not less
                than `window`.
        """
        return compaction.needs_compaction(self.cursor, window, reserve, count)

    def auto_compact(
        self,
        window: int,
        summarizer: Summary = summarize,
        *,
        reserve: int = RESERVE_TOKENS,
        keep: int | None = None,
        count: TokenCounter = estimate_tokens,
        instructions: str | None = None,
    ) -> Entry | None:
        """Compact the context if it needs it; call it before each request.

        What is kept begins before a prompt where possible, never between a call and its result, and
        includes calls without a result: tools may run meanwhile. While the summarizer works, no
        lock is held, and what is written meanwhile stays in the context.

        Args:
            window, reserve, count: as for `needs_compaction`.
            summarizer: a function of the replaced entries that returns the summary; `entries.text`
                is a request to a model. By default `sessiontree.summarize`, which asks none.
            keep: the approximate number of tokens to keep, by default a quarter of what may be
                used, and at most 20,000.
            instructions: as for `compact`.

        Returns:
            The compaction; None if the context is small enough, if nothing can be left out, or if
              the session moved or was compacted meanwhile.

        Raises:
            UsageError: as for `needs_compaction` and `compact`.
        """
        return compaction.auto_compact(
            self.writer, window, summarizer, reserve, keep, count, instructions
        )

    # Combine

    def cherry_pick(self, picked: Ref, source: Session | None = None) -> Entry:
        """Add a copy of an entry of this or another session below the leaf. Returns the copy.

        The copy of a part of a message that was written in blocks is the whole message, as one
        entry. If several branches continue the message, the last part in the file decides.

        Args:
            picked: the entry.
            source: the session that has the entry, by default this session.

        Raises:
            UsageError: an entry of this type (for example a `label` or a `merge`) has a meaning
                only at its place in the tree, so it cannot be copied. Or the entry is a part of a
                message of another session, and `source` is missing.
            BlobError: the content of the entry is missing.
        """
        return moves.cherry_pick(self.writer, picked, None if source is None else source.cursor)

    def merge(self, ref: Ref | MovePlan, summary: Summary | None = None) -> Entry:
        """Add the entries of another branch, or a summary of them, to the context of this path.

        Args:
            ref: the last entry to merge; or a plan of `merge_plan`.
            summary: text, or a summarizer of the merged entries. With a plan, the default is
                `sessiontree.summarize`.

        Raises:
            UsageError: the entry and the path have no common ancestor; or the session moved since
                the plan, or while the summarizer worked. What was written below the leaf of the
                plan stays in the context.
            NothingToDoError: the entry is already on the path.
        """
        return moves.merge(self.writer, ref, summary)

    def merge_plan(self, ref: Ref, *, instructions: str | None = None) -> MovePlan:
        """Return the messages that the summary of a `merge` has to cover; write nothing.

        See `pop_plan`.

        Raises:
            UsageError, NothingToDoError: as for `merge`.
        """
        return self._plan("merge", ref, instructions)

    def edit_context(self, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
        """Replace or drop the content of an entry in the context.

        Appends an entry that records the change. The change applies to every context that is built
        at or below that entry. Contexts on other branches do not change.

        Args:
            ref: the entry.
            replacement: the new content, as text or `{"content": …}`; None drops the content.

        Raises:
            UsageError: the entry contributes nothing to the current context.
        """
        return moves.edit_context(self.writer, ref, replacement)

    # Copy

    @property
    def _original(self) -> Original:
        from sessiontree.operations.export import Original  # few sessions are copied

        return Original(self.cursor, self.handles, self.file, self.disk)

    def fork(
        self,
        file: PathLike,
        at: Ref | None = None,
        *,
        id: str | None = None,
        cwd: PathLike | None = None,
        name: str | None = None,
    ) -> str:
        """Copy the path to an entry into a new session file; returns the path of the copy.

        Each `usage` entry is copied with the last entry of its lane before it in the file,
        annotations aside: the copy has the costs of its path. An agent's own session id in the
        metadata is not copied. A lost or damaged blob gives a ContentLostWarning.

        Args:
            file: the path or the address of the new file; `Store.fork` chooses a file in a store.
            at: the last entry to copy, by default the leaf.
            id: the id of the copy, by default a new UUID.
            cwd: the working directory of the copy, by default that of this session.
            name: the name of the copy, by default that of this session.

        Raises:
            BlobUnreadableError: the system refuses to read a blob.
        """
        from sessiontree.operations.export import fork  # few sessions are copied

        facts = {"id": id or fresh_uuid()}
        if cwd is not None:
            facts["cwd"] = os.fspath(cwd)
        if name is not None:
            check_session_name(name)
            facts["name"] = name
        return fork(self._original, os.fspath(file), at, facts)

    def export_branch(
        self,
        ref: Ref,
        file: PathLike,
        with_path: bool = False,
        *,
        inline: bool = False,
        redact: Redaction | None = None,
    ) -> str:
        """Copy an entry and all entries below it into a new session file; returns the path.

        Scratch lanes that were never kept are left out, with a warning. Entries on the lane of
        `ref`, and on the path to this session's leaf, are copied even if their lane was not kept.

        Args:
            ref: the top entry of the subtree.
            file: the new file.
            with_path: copy the path from the header to the entry too.
            inline: put the content of blobs and handles into the new file itself.
            redact: the object that masks secrets in the copy, and reports what it masked.

        Raises:
            BlobError: with `inline`: content is missing. Without `inline`: the system refuses
                to read a blob (a lost blob only gives a ContentLostWarning).
        """
        from sessiontree.operations.export import export  # few sessions are copied

        path = os.fspath(file)
        return export(self._original, ref, path, with_path=with_path, inline=inline, redact=redact)

    def to_markdown(
        self,
        ref: Ref | None = None,
        *,
        redact: Redaction | None = None,
        beside: str | None = None,
        remote_images: bool = False,
    ) -> Iterator[str]:
        """Yield the path to an entry as Markdown. A note replaces missing content.

        Args:
            ref: the entry, by default the leaf.
            redact: the object that masks secrets in the text, and reports what it masked.
            beside: the folder where you will save the Markdown; images of `attach` become links
                relative to this folder.
            remote_images: keep the images that the texts name. By default each is a link, because
                a viewer that loads an image tells the image's server who reads, and when.

        Raises:
            TooMuchError: the messages have more than 200,000 content blocks and calls, and more
                than one for each 100 bytes of the session.
        """
        from sessiontree.views.markdown import transcript  # few sessions are printed

        leaf = self.leaf if ref is None else self.entry(ref)
        return transcript(self.cursor, leaf, redact, beside, remote_images=remote_images)

    def to_html(
        self,
        at: Ref | None = None,
        *,
        redact: Redaction | None = None,
        images: PathLike | None = None,
    ) -> Iterator[str]:
        """Yield the parts of an HTML file with the whole session: all branches, and every entry.

        The file loads nothing from elsewhere. A note replaces missing content.

        Args:
            at: the entry that the page opens at, by default the beginning.
            redact: the object that masks secrets in the file, and reports what it masked.
            images: the path of a folder beside the file, for images after the first 3 MB; made
                if need be. By default, all images are inside the file.

        Raises:
            StorageError: an image cannot be written.
            TooMuchError: the session has more than 50,000 turns; or its messages have more than
                200,000 content blocks and calls, and more than one for each 100 bytes.
        """
        from sessiontree.page.document import (
            Images,
            document,  # few sessions become a page
        )

        opened = None if at is None else self.entry(at)
        beside = None if images is None else Images(os.path.abspath(images))
        return document(self.cursor, self._file.original_line, opened, redact, beside)

    def convert(
        self,
        to: TargetName,
        file: PathLike | None = None,
    ) -> ConversionResult:
        """Make a file for another program. This session does not change.

        Args:
            to: `pi` makes a version 3 session of the pi coding agent with the whole tree.
                `claude-code` makes a transcript of Claude Code, `codex` a rollout of Codex,
                `gemini` a chat of Gemini CLI and `qwen` a session of Qwen Code, each with the
                conversation of each branch. `atif`
                makes a file in the Agent Trajectory Interchange Format 1.7 with
                the current path, also with the messages that were compacted away. `otel` makes
                spans of OpenTelemetry, with all turns, as lines of OTLP in JSON.
            file: the new file; by default a file in the current directory, with a name that the
                other program uses.

        Returns:
            The paths of the new files, and a list of what they leave out or change.

        Raises:
            UsageError: there is no such target.
            NothingToDoError: the session has no message yet.
        """
        from sessiontree.operations.convert import convert  # few sessions are converted

        return convert(self._original, to, file)

    # Lanes

    def lane(self, name: str, at: Ref | None = None, *, empty: bool = False) -> Session:
        """Open another lane of this file as a new session, which you close separately.

        The new session is read-only if this session is read-only. For the work of a subagent, use
        `subagent`: its lane is not a branch.

        Args:
            name: the name of the lane. A lane without entries starts at the leaf of main, and its
                context has everything above that leaf.
            at: the parent of the next entry on the lane, by default the leaf of the lane.
            empty: a lane without entries starts at the header, with an empty context.

        Raises:
            UsageError: both `at` and `empty` are given.
            RefError: this session is read-only, and the lane has no entry.
        """
        if empty and at is not None:
            raise UsageError("give 'at' or 'empty', not both")
        return self._on(lanes.lane(self._file, self.writer, name, at, empty=empty))

    def subagent(self, call_id: str, name: str | None = None) -> Session:
        """Open the lane of a subagent that a tool call started, as a session to close separately.

        The lane begins with an empty context. What the subagent does is not a branch: `branches`,
        `tree` and `stats` do not count it, and `outline` has it below the turn with the call. The
        same call gives the same lane again, also after a crash.

        Args:
            call_id: the id of the tool call, which is in a message on the current path.
            name: the name or type of the subagent, as people see it.

        Raises:
            UsageError: no message on the current path has the call.
        """
        lane, facts = lanes.subagent_of(self.cursor, call_id, name)
        opened = self.lane(lane, empty=True)
        with closed_on_failure(opened):
            if opened.leaf.lane != lane:
                opened.append("custom", customType="sessiontree" + SUBAGENT, data=facts)
        return opened

    def scratch(self, at: Ref | None = None) -> Session:
        """Open a new scratch lane at an entry, by default the leaf, as a new session.

        The entries of the scratch lane move no other leaf. Unless you call `keep` on the new
        session, `gc` removes the entries and their labels. If the new session sets the session's
        name or metadata, or labels an entry that is not on the scratch lane, this is written on
        main and stays. If this session is on a scratch lane too, `keep` joins the new lane to this
        session's lane.

        Raises:
            ReadOnlyError: this session is read-only.
        """
        return self._on(lanes.scratch(self.writer, at))

    def _on(self, opened: tuple[opening.SessionFile, EntryWriter]) -> Session:
        file, writer = opened
        origin = self if file.is_current else None
        return type(self)(file, writer, self.disk, self._registry, self._root, origin)

    def keep(self, lane: str | None = None) -> Entry:
        """Join lane A, for example a scratch lane, to lane B, for example main.

        B continues from the last entry of A: a `branch` entry of B is appended below that entry.

        - With `lane`, A is the named lane, and B is this session's lane. Lane A can get more
          entries afterwards, and you can keep A again.
        - Without `lane`, A is this session's lane. B is the lane of the parent session (the session
          that opened this session), or main. If A is a scratch lane, this session is read-only
          afterwards: continue in the parent session.

        Returns:
            The new entry. If lane B got entries after lane A began, these entries are now a side
              branch. The key `fromUuid` of the new entry names the last entry of that side branch.
              `merge` adds the side branch to the context; `switch` goes back to the side branch.

        Raises:
            NothingToDoError: lane A has no entry, or was already kept.
        """
        if lane is not None:
            return lanes.keep(self.writer, lane)
        lanes.check_can_be_kept(self.writer)
        home = self._origin
        while home is not None and (home.reader.log.ended or home.lane_name == self.lane_name):
            home = home._origin  # a kept session is a part of the lane that it was joined to
        if home is not None and not home.reader.log.closed:
            return lanes.keep_own(self.writer, home.writer)
        self.reader.log.check_writable()
        with self.lane("main" if home is None else home.lane_name) as home:
            return lanes.keep_own(self.writer, home.writer)

    # Maintain

    def verify(
        self, progress: Progress | None = None, *, processes: int | None = 1
    ) -> list[Damage]:
        """Read the whole file, check each reference, and return all damage in file order.

        Args:
            progress: called from time to time with the bytes read so far and the total bytes.
            processes: the number of processes that check the checksums of a large file. Extra
                processes are forked. None: chosen automatically.
        """
        from sessiontree.operations.workers import (
            available,
            verify,  # few sessions are ever verified
        )

        check_never_awaited("progress", progress)
        self.reader.ready()
        found = verify(self.reader.log, progress, processes or available())
        return self._file.damage_in_original(found)

    def repair(self, *, dry_run: bool = False, relink: bool = False) -> RepairResult:
        """Repair the damage that needs no guess, and keep the original beside the file.

        Args:
            dry_run: only report what would be done.
            relink: also join an entry whose parent is missing to the entry before it in the file.
                Its `metadata.missingParent` then has the uuid of the parent.

        Raises:
            MigrationRefusedError: the file has version 1, and this session is read-only.
        """
        from sessiontree.engine import repair  # few sessions are ever repaired

        self.reader.ready()
        if dry_run:
            return repair.repair(self._file.original, dry_run=True, relink=relink)
        return self.writer.rewrite(lambda log: repair.repair(log, relink=relink))

    def gc(self, *, dry_run: bool = False, now: datetime | None = None) -> GcResult:
        """Remove scratch entries that were never kept, and blobs that no entry uses.

        An entry moves to an archive beside the file when the entry and all entries below it are
        seven days old. An archive is removed after thirty days.

        Args:
            dry_run: only report what would be removed.
            now: a time with a time zone to use as the current time.

        Raises:
            CorruptionError: a line cannot be read; repair the file first.
        """
        from sessiontree.engine.gc import collect  # few sessions are ever collected

        moment = now or datetime.now(UTC)
        if moment.tzinfo is None:
            raise UsageError(f"now is a time with a time zone, not {moment}")
        self.reader.ready()
        leaves = [self.leaf.uuid]
        if dry_run:
            return collect(self.reader.log, self.blobs, leaves, moment, dry_run=True)
        return self.writer.rewrite(lambda log: collect(log, self.blobs, leaves, moment))


_IN_MEMORY: Final = "(in memory)"


def repair_file(
    file: PathLike,
    output: PathLike | None = None,
    *,
    relink: bool = False,
    fs: FileSystem = DISK,
) -> RepairResult:
    """Repair a session file, even if the header is lost; see `Session.repair`.

    Args:
        file: the session file.
        output: of another agent's file, the path of the sound copy to write, which that agent
            opens. The file itself stays as it is, and so do the files beside it.
        relink: see `Session.repair`; a copy is always joined.
        fs: the file system; tests pass another one.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: the file has another format.
        MigrationRefusedError: the file has version 1; migrate the file first.
        SessionBusyError: another writer is exclusive.
        SessionNotFoundError, StorageError: the operating system reported an error.
        SessionExistsError: `output` is there already.
        UsageError: `output` is given for a file of sessiontree.
    """
    from sessiontree.engine.repair import RepairResult, repair  # few are ever repaired

    if output is None:
        with closing(open_log(fs, os.fspath(file))) as log:
            return planned_again(log, lambda: repair(log, relink=relink))
    from sessiontree.operations.repair import copied

    with closing(open_log(fs, os.fspath(file), readonly=True)) as log:
        changes = copied(log, os.fspath(output), fs)
    with Session.open(output, readonly=True, fs=fs) as copy:
        return RepairResult(changes, None, copy.verify())


def _check_options(spill_over: object) -> None:
    if spill_over is not None and (not isinstance(spill_over, int) or spill_over < 0):
        raise UsageError(f"spill_over is a number of bytes or None, not {spill_over!r}")


def _header(
    cwd: PathLike | None, id: str | None, name: str | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The header of a new session."""
    fields: dict[str, Any] = {
        "type": HEADER,
        "version": VERSION,
        "format": FORMAT,
        "uuid": fresh_uuid(),
        "parentUuid": None,
        "timestamp": now(),
        "id": id or fresh_uuid(),
        "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
    }
    if name is not None:
        check_session_name(name)
        fields["name"] = name
    if metadata is not None:
        check_fields("custom", {"customType": HEADER, "metadata": metadata})
        fields["metadata"] = metadata
    return fields
