"""Session: one conversation, a tree of entries in one append-only log.

`Session` is what users hold. It is a facade: each method hands over to a collaborator or
to an operation. `SessionFile` is the opened file of whatever kind, `TreeReader` reads the
entries, `Cursor` is the place in the tree, `EntryWriter` appends, `HandleScope` resolves
handles.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Self

from sessiontree.context.compaction import KEEP_TOKENS, TokenCounter, estimate_tokens
from sessiontree.context.context import Context
from sessiontree.context.summary import Summary, summarize
from sessiontree.core.blocks import Resolution
from sessiontree.core.codec import FORMAT, VERSION, encode
from sessiontree.core.damage import Damage
from sessiontree.core.entry import ANNOTATIONS, HEADER, Entry, check_fields, check_session_name
from sessiontree.core.index import Branch
from sessiontree.core.message import Message
from sessiontree.engine import opening, refs
from sessiontree.engine.cursor import Ref
from sessiontree.engine.writer import EntryWriter, fresh_uuid, now
from sessiontree.errors import EntryError, UsageError
from sessiontree.operations import branch as moves
from sessiontree.operations import export as copies
from sessiontree.operations import lanes, merge, outline
from sessiontree.operations.compact import compact
from sessiontree.recording.stream import Granularity, MessageStream
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK, Durability, FileSystem
from sessiontree.storage.log import FileLog, Log, MemoryLog

if TYPE_CHECKING:
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.core.handle import Handle, Kind
    from sessiontree.engine.gc import GcResult
    from sessiontree.engine.repair import Progress, RepairResult
    from sessiontree.handles.registry import Registry
    from sessiontree.handles.registry import Resolution as HandleResolution
    from sessiontree.handles.resolve import HandleScope, ResolvedEntry
    from sessiontree.operations.convert import ConversionResult
    from sessiontree.operations.outline import TreeRow
    from sessiontree.operations.stats import Stats
    from sessiontree.recording.events import Event
    from sessiontree.redact.redaction import Redaction
    from sessiontree.storage.blobs import Blobs

PathLike = str | os.PathLike[str]

SPILL_OVER: Final = 32 * 1024
"""Bytes of a string that stay in the file by default."""


class Session:
    """A session; a context manager. Make one with `create` or `open`.

    Any method may raise, beside what it names itself:

    - RefError: a ref names no entry, or more than one.
    - HookRejectedError, or another error that a hook raises: nothing was written.
    - ReadOnlyError: a write on a session that was opened to read, closed, or kept.
    - SessionBusyError: another writer is exclusive, or does not release the lock.
    - WriteFailedError, StorageError: the system refused; how much was written is unknown.
      Open the session again.
    - SessionNotFoundError, FileReplacedError: the file vanished, or another took its place.
    - CorruptionError: the answer is in a damaged part of the file.

    Attributes:
        cursor: the place in the tree.
        reader: reads the entries.
        writer: appends.
        disk: where the files that it makes go.
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
        writer.hooks.subject = self

    def __repr__(self) -> str:
        where = "in memory" if self.file is None else repr(self.file)
        return f"<Session {where}, lane {self.lane_name}>"

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
            file: where to keep it, readable by its owner alone; None keeps it in memory.
            cwd: the working directory that it is about, by default the current one.
            id: its id, by default a fresh UUID.
            name: a name for people.
            metadata: facts such as `model`, `system`, or the agent's own session id.
            exclusive, lane, durability, spill_over, hooks, registry, root, fs: as for `open`.

        Raises:
            SessionExistsError: the file exists already.
            EntryError: a value that JSON cannot carry.
            StorageError: the file cannot be made.
        """
        refs.check_name(lane, "lane name")
        line = encode(_header(cwd, id, name, metadata)) + b"\n"
        if file is None:
            return cls._open(
                MemoryLog(_IN_MEMORY, [line]),
                DISK,
                exclusive=exclusive,
                lane=lane,
                spill_over=None,
                hooks=hooks,
                registry=registry,
                root=root,
            )
        path = os.fspath(file)
        create_file(fs, path, iter([line]))
        return cls.open(
            path,
            exclusive=exclusive,
            lane=lane,
            durability=durability,
            spill_over=spill_over,
            hooks=hooks,
            registry=registry,
            root=root,
            fs=fs,
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
        migrate: bool = True,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Open a session. A version 1 file is migrated: on disk, or in memory to read it.

        Another agent's file can only be read. It is translated in memory; see
        `sessiontree.formats`.

        Args:
            file: the session file.
            readonly: never write: no lock, no migration on disk.
            exclusive: keep all other writers out until closed.
            lane: the lane to read and write; only a writer begins a new one.
            durability: `fsync`: an acknowledged entry survives a power cut;
                `os`: it survives the death of the process.
            spill_over: strings of content with more UTF-8 bytes go into the sidecar folder;
                None: none does, 0: all do.
            migrate: False refuses a version 1 file that would be written.
            hooks: objects that are called with what is written; see `Hook`.
            registry: resolves handles; by default `Registry.default()`.
            root: the folder that `file` handles are below; without it none is read.
            fs: the seam to the disk; tests pass another one.

        Raises:
            NotASessionError, ForeignFormatError, NewerFormatError: not a session of sessiontree.
            MissingHeaderError: not `readonly`, and the header is lost; see `repair_file`.
            MigrationRefusedError: version 1, and `migrate=False`.
            SessionBusyError: another writer is exclusive.
            RefError: `readonly`, and the lane has no entry.
            SessionNotFoundError, StorageError: the system refused.
        """
        if durability not in ("fsync", "os"):
            raise UsageError(f"durability is 'fsync' or 'os', not {durability!r}")
        if spill_over is not None and (not isinstance(spill_over, int) or spill_over < 0):
            raise UsageError(f"spill_over is a number of bytes or None, not {spill_over!r}")
        if readonly and exclusive:
            raise UsageError("a session is opened readonly or exclusive, not both")
        return cls._open(
            FileLog(fs, os.fspath(file), readonly=readonly, durability=durability),
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
    def _open(
        cls,
        log: Log,
        disk: FileSystem,
        *,
        exclusive: bool,
        lane: str,
        spill_over: int | None,
        migrate: bool = True,
        hooks: Iterable[Any],
        registry: Registry | None,
        root: PathLike | None,
    ) -> Self:
        try:
            refs.check_name(lane, "lane name")
            file = opening.open_file(log, migrate=migrate)
            if exclusive:
                log.keep()
            writer = EntryWriter.of(file.log, lane, hooks, spill_over)
            if log.readonly:
                lanes.check_exists(writer.cursor)
        except BaseException:
            log.close()
            raise
        return cls(file, writer, disk, registry, None if root is None else os.fspath(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and release its lock. Closing twice is allowed.

        The entries of an open batch are written first.
        """
        self._closing.set()
        self.writer.close()
        if not self._file.is_current:
            self._file.original.close()

    def beside(self, file: PathLike) -> Session:
        """Open another session on the same disk to read it, with the same resolvers."""
        return type(self).open(
            file, readonly=True, registry=self._registry, root=self._root, fs=self.disk
        )

    @property
    def _file(self) -> opening.SessionFile:
        """The opened file; the reader may have gone on to the one that took its place."""
        if self._opened_file.is_current and self._opened_file.log is not self.reader.log:
            self._opened_file = opening.Current(self.reader.log)
        return self._opened_file

    @property
    def handles(self) -> HandleScope:
        """Resolves the handles of this session."""
        if self._handles is None:
            from sessiontree.handles.resolve import HandleScope  # many sessions have no handles

            self._handles = HandleScope(self, self._registry, self._root)
        return self._handles

    def _resolve_messages(self, entries: Sequence[Entry]) -> Sequence[Resolution]:
        return self.handles.messages(entries) if entries else ()

    # Look

    @property
    def file(self) -> str | None:
        """The path of the file, as given; None for a session in memory."""
        log = self.reader.log
        return None if isinstance(log, MemoryLog) and self._file.is_current else log.name

    @property
    def header(self) -> Entry:
        """The first entry, the root of the tree."""
        return self.reader.header

    @property
    def id(self) -> str:
        """The session's id."""
        return self.reader.id

    @property
    def lane_name(self) -> str:
        """The lane that this session reads and writes."""
        return self.cursor.lane or "main"

    @property
    def leaf(self) -> Entry:
        """The entry that the next one hangs below: what this session last saw or wrote."""
        return self.cursor.leaf

    @property
    def name(self) -> str | None:
        """The session's name, the latest given, or None. Reads the whole file."""
        return self.reader.names().name

    @property
    def metadata(self) -> dict[str, Any]:
        """The header's metadata with all later changes. Reads the whole file."""
        return self.reader.names().metadata.copy()

    @property
    def blobs(self) -> Blobs:
        """The sidecar folder with the content that is too big for the file."""
        return self.reader.blobs

    @property
    def damage(self) -> list[Damage]:
        """The damage met in the file so far, in file order."""
        file = self._file
        found = file.damage_in_original(self.reader.damage)
        met = {(damage.offset, damage.kind) for damage in found}
        for identity, damage in self._followed:
            if identity == file.original.identity and (damage.offset, damage.kind) not in met:
                met.add((damage.offset, damage.kind))
                found.append(damage)
        return sorted(found, key=lambda damage: damage.offset)

    def entry(self, ref: Ref) -> Entry:
        """The entry that a ref names.

        Raises:
            RefError: it names none, or more than one.
        """
        return self.cursor.entry(ref)

    def entries(self) -> Iterator[Entry]:
        """All entries in file order, the header first, one by one."""
        return self.reader.entries()

    def children(self, ref: Ref) -> list[Entry]:
        """The entries whose parent is this one, in file order."""
        return self.reader.children(self.entry(ref))

    def find(self, *, type: str | None = None, tool_call_id: str | None = None) -> list[Entry]:
        """The entries of a type, or that make or answer a tool call, in file order.

        Raises:
            UsageError: neither is given.
        """
        return self.reader.find(type, tool_call_id)

    def path(self, ref: Ref | None = None) -> list[Entry]:
        """The entries from the header to an entry, by default the leaf, root first.

        Where a parent is missing the path starts below the gap, and the gap is in
        `damage`.
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
        """What a model gets at an entry, by default the leaf.

        What a handle on the path to the leaf resolved to is kept as the session goes on
        from there: a file that changes is shown as it was, so that the model gets the same
        words again. To show what it is now, append its handle again, or open the session
        anew, or give `strict`.

        Args:
            ref: the entry.
            verbatim: give the messages as stored, calls and results unpaired.
            resolve: False leaves handles as references.
            strict: a blob or a handle that fails is an error, not a placeholder.
            count: counts the tokens of one message.

        Raises:
            BlobError, ResolveError: with `strict`, content that is missing.
        """
        return self.cursor.context(
            ref, verbatim=verbatim, resolve=resolve, strict=strict, count=count
        )

    def turns(self, ref: Ref | None = None) -> list[list[Entry]]:
        """The messages of a path by turns: each a prompt and what follows it."""
        return outline.turns(self.path(ref))

    def branches(self, ref: Ref | None = None) -> list[Branch]:
        """The branches of the conversation by their tips, in file order.

        Args:
            ref: only those below this entry.
        """
        below = None if ref is None else self.entry(ref)
        return outline.branches(self.cursor, below)

    def tree(self) -> Iterator[TreeRow]:
        """Each entry with its place in the tree, in file order, one by one."""
        return outline.rows(self.cursor)

    def render(self, *, all: bool = False) -> Iterator[str]:
        """The tree drawn with box characters, line by line.

        Args:
            all: show every message, also in long runs without a branch.
        """
        return outline.draw(self.cursor, all=all)

    def conversation(self, ref: Ref | None = None) -> Iterator[Event]:
        """The conversation on a path, block by block: the events that a recording of it gives.

        Deltas and starts are left out; see `sessiontree.recording.events`.
        """
        from sessiontree.recording.replay import conversation  # few sessions are taken apart

        return conversation(self.cursor, ref)

    def block(self, ref: Ref, index: int) -> dict[str, Any]:
        """A content block of the message that an entry is, or is a piece of.

        An item of OpenAI Responses that has no role (a call, its output, a thought) is its
        own block 0.

        Raises:
            UsageError: it is not a message, or has no such block.
        """
        from sessiontree.recording.replay import block  # few sessions are taken apart

        return block(self.cursor, ref, index)

    def stats(self) -> Stats:
        """How many entries, branches and bytes there are, and what they cost."""
        from sessiontree.operations.stats import stats  # few sessions are ever counted

        with self.reader.alone():
            size = self.reader.whole().size if self._file.is_current else self._file.size
            return stats(self.reader, size)

    def original(self, ref: Ref) -> bytes:
        """The line that an entry was made of, as the program wrote it whose file this is.

        In a file of the current version that is the entry's own line.
        """
        return self._file.original_line(self.entry(ref))

    def resolve(self, handle: Handle | str) -> ResolvedHandle:
        """What a handle points to.

        Raises:
            HandleError: it is not well formed, or does not fit its schema.
            ResolveError, BlobError: the content is missing.
        """
        return self.handles.resolve(handle)

    def resolve_many(self, handles: Iterable[Handle | str]) -> list[HandleResolution]:
        """What handles point to, or the error of each, in order; each distinct one once."""
        return self.handles.resolve_many(handles)

    def resolved_path(self, ref: Ref | None = None) -> list[ResolvedEntry]:
        """The path to an entry, by default the leaf, with what its handles point to.

        A handle that cannot be resolved has its error in place of that.
        """
        return self.handles.resolved_path(ref)

    def resolved_tree(self, ref: Ref | None = None) -> ResolvedEntry:
        """An entry, by default the header, and all below it, with what handles point to.

        A handle that cannot be resolved has its error in place of that.
        """
        return self.handles.resolved_tree(ref)

    def refresh(self) -> None:
        """See what others wrote. A writer stays where it is; a reader goes to the new leaf.

        What sessions made by `lane` and `scratch` wrote is seen without it by every method
        that reads the whole file: `entries`, `find`, `tree`, `render`, `branches`, `stats`.

        Raises:
            FileReplacedError: another file took this one's place, without the leaf in it.
            SessionNotFoundError: the path vanished.
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

    def follow(self, damaged: Callable[[Damage], object] | None = None) -> Iterator[Entry]:
        """Each entry that anyone adds after what this session knows, as it comes.

        Ends when the session is closed. Only lines that end with a newline are given.
        Damage in what is added goes to `damage`.

        Args:
            damaged: called with each such finding as well.

        Raises:
            UsageError: the session is in memory, or the file is another agent's.
            FileReplacedError: the file was rewritten in place, or is another session's now.
            SessionNotFoundError: it is gone.
        """
        from sessiontree.operations import follow  # few sessions are followed

        view = self.reader.ready()
        file = self._file
        if self.file is None:
            raise UsageError("a session in memory has no file to follow")
        if file.not_followed:
            raise UsageError(file.not_followed)
        self.reader.log.size()  # refused where this is closed

        def note(identity: tuple[int, int], damage: Damage) -> None:
            self._followed.append((identity, damage))
            if damaged is not None:
                damaged(damage)

        known = file.original.identity, view.complete if file.is_current else file.size
        options = follow.Options(note, known, self.reader.fetch, self._closing)
        return follow.follow(file.original.to_read(), view, self.reader.log, options)

    # Write

    def append(
        self,
        type: str,
        *,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
        uuid: str | None = None,
        **fields: Any,
    ) -> Entry:
        """Write one entry and return it; it is kept when this returns.

        Args:
            type: an entry type; an unknown one is written as given.
            parent: the entry that it hangs below, by default `leaf`.
            metadata: small facts of the caller's own.
            uuid: its uuid, by default a fresh one.
            fields: the fields of the type, with the names they have in the file.

        Raises:
            EntryError: fields are missing, wrong, or not JSON; the uuid is taken.
            RefError: a parent or target does not exist.
            BlobError: a handle of a blob that this session does not have.
            HookRejectedError: a hook refused.
        """
        if metadata is not None:
            fields["metadata"] = metadata
        return self.writer.append(type, fields, parent=parent, uuid=uuid)

    def append_message(
        self,
        message: Message,
        *,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write one message, verbatim: a dict with a `role`, in any provider's shape.

        Args:
            message: the dict is not kept: a later change of it changes nothing.
            parent, metadata: as for `append`.

        Raises:
            EntryError: it is not a message, or holds what JSON cannot carry.
        """
        return self.writer.append_message(message, parent, metadata)

    def append_handle(
        self,
        handle: Handle | str,
        *,
        kind: Kind | None = None,
        role: str | None = None,
        preview: str | None = None,
        parent: Ref | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write an entry that points to content which its owner keeps elsewhere.

        Args:
            handle: a handle, or its text form.
            kind: what it resolves to, by default what its plugin's schema says.
            role: of the message that it becomes in a context.
            preview: a few words for people to recognise it by.
            parent: the entry that it hangs below, by default `leaf`.
            metadata: hints, of up to 1 KB as JSON.

        Raises:
            HandleError: the handle, its kind or the metadata is wrong, or it is of this very
                session and points to nothing in it; names the part.
            BlobError: it points to a blob that this session does not have.
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
        """Copy a file, or a stream, into the sidecar folder, and write its handle.

        It is copied block by block, so it may be of any size. A model gets images (PNG,
        JPEG, GIF, WebP), PDF of up to 20 MiB, and text in UTF-8 of up to 256 KiB, a few
        wrong bytes of it as U+FFFD. Of anything else it gets the name, and the warnings of
        the context say so.

        Args:
            content: the path of a file, or a binary stream, which is read to its end.
            media_type: by default what the content and the name of the file say.
            role, preview, parent, metadata: as for `append_handle`.

        Raises:
            StorageError: it cannot be read, or kept.
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
        """Write a message while it arrives: `start`, `delta` and `stop` each block.

        Args:
            role, model, provider: of the message.
            granularity: `block` keeps each block when it is finished; `message`
                writes one entry at the end.

        Returns:
            A context manager; leaving it ends the message.

        Raises:
            UsageError: there is no such granularity.
        """
        facts = {"model": model, "provider": provider}
        return MessageStream(self, role, facts, granularity)

    def label(self, ref: Ref, text: str | None) -> Entry:
        """Name an entry; None takes its name away. Returns the `label` entry.

        Raises:
            InvalidNameError: no ref could spell it, or it means another entry or a lane.
        """
        self.reader.log.check_writable()
        target = self.entry(ref)
        if ref == refs.LEAF:  # not a mark behind what is meant, which no drawing shows
            while target.type in ANNOTATIONS or target.type == "branch":
                target = self.reader.parent(target)
        if text is not None:
            self.reader.check_name_is_free(refs.check_name(text, "label"), target.uuid)
        return self.writer.annotate("label", {"targetUuid": target.uuid, "label": text})

    def rename(self, name: str) -> Entry:
        """Give the session a name. Returns the `session_info` entry.

        Raises:
            EntryError: it is not text, or not one line without control characters.
        """
        check_session_name(name)
        return self.writer.annotate("session_info", {"name": name})

    def update_metadata(self, **facts: Any) -> Entry:
        """Set facts of the session's metadata; others stay as they are.

        Returns the `session_info` entry.

        Raises:
            EntryError: no fact is given, or one is not JSON.
        """
        if not facts:
            raise EntryError("update what? give key=value")
        return self.writer.annotate("session_info", {"metadata": facts})

    def set_model(self, provider: str | None, model_id: str) -> Entry:
        """Put a model in force on this path, from here on."""
        return self.append("model_change", provider=provider, modelId=model_id)

    def set_thinking_level(self, level: str) -> Entry:
        """Put a thinking level in force on this path, from here on."""
        return self.append("thinking_level_change", thinkingLevel=level)

    def batch(self) -> AbstractContextManager[None]:
        """Write all entries appended inside in one write and one sync, at the end.

        The lock is held all the while, so keep it short. Looking at the session inside
        writes first what waits. A batch is not atomic: a crash may keep the first part. An
        exception inside does not undo what was appended before it.
        """
        return self.writer.batch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out, and go to the lane's leaf in the file."""
        with self.writer.holding():
            self.writer.go_to_tip()
            yield

    # Move

    def branch(self, ref: Ref, summary: Summary | None = None, name: str | None = None) -> Entry:
        """Go on from an entry, in place: append a `branch` entry below it.

        Args:
            ref: where to go on; the header starts over with an empty context.
            summary: of the work left behind: text, or a summarizer. The entry is then
                a `branch_summary`, which the context shows.
            name: a name for the new branch.

        Returns:
            The entry written, the new leaf.

        Raises:
            InvalidNameError: the name is not a name, or taken.
            EntryError: the summary is empty, or not text.
        """
        return moves.branch(self.writer, ref, summary, name)

    def switch(self, ref: Ref) -> Entry:
        """Go to the tip of a named branch, or to any entry; returns the leaf.

        Going to the current place writes nothing.
        """
        return moves.switch(self.writer, ref)

    def rewind(self, ref: Ref | None = None) -> str:
        """Go to before a prompt, by default the last; returns its text, to be edited.

        Raises:
            UsageError: the entry is not a prompt.
            NothingToDoError: the path has no prompt.
        """
        return moves.rewind(self.writer, ref)

    def push(self, note: str | None = None) -> Entry:
        """Mark this place, to `pop` back to."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        return self.append("stack_push", **fields)

    def pop(self, ref: Ref | None = None, summary: Summary | None = None) -> Entry:
        """Go back up the path, with a summary of what is left behind.

        Without `ref`: to the innermost open push, and where none is open to the
        nearest prompt that has something besides summaries and markers after it.
        Without `summary`: what `sessiontree.summarize` gives.

        Returns:
            The `stack_summary` written, the new leaf.

        Raises:
            UsageError: the entry is not on the path.
            NothingToDoError: nothing follows it, or there is no place to pop to.
            EntryError: the summary is empty, or not text.
        """
        return moves.pop(self.writer, ref, summarize if summary is None else summary)

    def compact(
        self,
        summary: Summary | None = None,
        first_kept: Ref | None = None,
        *,
        keep: int = KEEP_TOKENS,
        count: TokenCounter = estimate_tokens,
        details: Any = None,
        usage: Any = None,
    ) -> Entry:
        """Put a summary in place of the older part of the context.

        Args:
            summary: text, or a summarizer of the entries it replaces; by default
                `sessiontree.summarize`.
            first_kept: the first entry to keep as it is; by default chosen. `@` is the last
                message, also where marks or edits follow it.
            keep: about how many tokens to keep, where chosen; 0 keeps nothing.
            count: counts the tokens of one message.
            details, usage: kept with the entry.

        Raises:
            UsageError: `keep` is not a number of tokens, or the first kept entry is not on
                the path.
            NothingToDoError: the context is smaller than `keep`.
            EntryError: the summary is empty, or not text.
        """
        if not isinstance(keep, int) or keep < 0:
            raise UsageError(f"keep is a number of tokens, 0 or more, not {keep!r}")
        extra = {k: v for k, v in (("details", details), ("usage", usage)) if v is not None}
        summary = summarize if summary is None else summary
        return compact(self.writer, summary, first_kept, keep, count, extra)

    # Combine

    def cherry_pick(self, picked: Ref) -> Entry:
        """Copy an entry, of this session or another, below the leaf; returns the copy.

        Raises:
            UsageError: its type speaks of its own place in the tree.
            BlobError: content of it is missing.
        """
        return merge.cherry_pick(self.writer, picked)

    def merge(self, ref: Ref, summary: Summary | None = None) -> Entry:
        """Take what another branch contributes into this path, or a summary of it.

        Args:
            ref: the last entry to take in.
            summary: text, or a summarizer of what is taken in.

        Raises:
            UsageError: it has no ancestor in common with the path.
            NothingToDoError: it is on the path already.
            EntryError: the summary is empty, or not text.
        """
        return merge.merge(self.writer, ref, summary)

    def edit_context(self, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
        """Replace or drop what an entry contributes, on this path, from here on.

        Args:
            ref: the entry.
            replacement: None drops it; text, or `{"content": …}`, takes its content's place.

        Raises:
            UsageError: it contributes nothing to the current context.
        """
        return merge.edit_context(self.writer, ref, replacement)

    # Copy

    @property
    def _original(self) -> copies.Original:
        return copies.Original(self.cursor, self.handles, self.file, self.disk)

    def fork(self, file: PathLike, at: Ref | None = None) -> str:
        """Copy the path to an entry, by default the leaf, into a new session file.

        Returns its path. The copy has an id of its own, and not the agent's session id.

        Raises:
            SessionExistsError: the file exists already.
            BlobUnreadableError: the system refuses a blob that it needs. One that is lost
                or damaged is a ContentLostWarning.
        """
        return copies.fork(self._original, os.fspath(file), at)

    def export_branch(
        self,
        ref: Ref,
        file: PathLike,
        with_path: bool = False,
        *,
        inline: bool = False,
        redact: Redaction | None = None,
    ) -> str:
        """Copy an entry and all below it into a new session file; returns its path.

        Scratch lanes below it that were never kept stay behind, with a warning, except the
        one that the entry is on and the one that this session is on.

        Args:
            ref: the top of the subtree.
            file: the file to make.
            with_path: also copy the path from the header down to it.
            inline: put what is in blobs, and what handles point to, into the file itself.
            redact: masks secrets in the copy, and says afterwards which.

        Raises:
            SessionExistsError: the file exists already.
            BlobError: with `inline`, content that is missing; without it, a blob that the
                system refuses. One that is lost is a ContentLostWarning then.
        """
        path = os.fspath(file)
        return copies.export(
            self._original, ref, path, with_path=with_path, inline=inline, redact=redact
        )

    def to_markdown(
        self,
        ref: Ref | None = None,
        *,
        redact: Redaction | None = None,
        beside: str | None = None,
    ) -> Iterator[str]:
        """The path to an entry as Markdown for people to read, part by part.

        Content that is missing is named in its place.

        Args:
            ref: the entry, by default the leaf.
            redact: masks secrets in it, and says afterwards which.
            beside: the folder that the text will be in; attached images are then links to
                their files.
        """
        from sessiontree.operations.transcript import transcript  # few sessions are printed

        leaf = self.leaf if ref is None else self.entry(ref)
        return transcript(self.cursor, leaf, redact, beside)

    def convert(
        self, to: Literal["pi", "claude-code", "atif"], file: PathLike | None = None
    ) -> ConversionResult:
        """Make a file that another program opens; this session stays as it is.

        Args:
            to: `pi`, the pi coding agent, version 3: the whole tree; `claude-code`, a
                transcript of Claude Code; `atif`, a trajectory in the Agent Trajectory
                Interchange Format 1.7: the current path, as it happened.
            file: the file to make, by default one in the current directory, with the name
                that the program would give it.

        Returns:
            The files made, and what in them is left out, or written differently.

        Raises:
            UsageError: there is no such target.
            NothingToDoError: the session has no message yet.
            SessionExistsError: a file exists already.
        """
        from sessiontree.operations.convert import convert  # few sessions are converted

        return convert(self._original, to, file)

    # Lanes

    def lane(self, name: str, at: Ref | None = None) -> Session:
        """A session on another lane of this file; to be closed by itself.

        That of a session opened with `readonly=True` looks at the lane, and writes nothing.

        Args:
            name: the lane; one without entries starts at the main leaf.
            at: the entry that its next one hangs below; by default the lane's leaf.

        Raises:
            RefError: this session was opened to read, and the lane has no entry.
        """
        return self._on(lanes.lane(self._file, self.writer, name, at))

    def scratch(self, at: Ref | None = None) -> Session:
        """A session on a fresh scratch lane, from an entry on, by default the leaf.

        What it writes moves no other leaf, and is garbage unless `keep` is called on it;
        so are the labels of its own entries. Other labels, and a name or metadata for the
        session, are written on main: they stay.
        One may be opened from another: `keep` then joins it to that one, not to main.

        Raises:
            ReadOnlyError: this session was opened to read.
        """
        return self._on(lanes.scratch(self.writer, at))

    def _on(self, opened: tuple[opening.SessionFile, EntryWriter]) -> Session:
        file, writer = opened
        origin = self if file.is_current else None
        return type(self)(file, writer, self.disk, self._registry, self._root, origin)

    def keep(self, lane: str | None = None) -> Entry:
        """Join a lane to this one by a `branch` entry below its last; this session goes there.

        Without `lane` the one that this session is on is joined to the lane of the session
        that it was opened from (main, where it was opened by `Session.open`). If it is a
        scratch lane, this session writes nothing more: go on with the other one. A lane kept
        by its name goes on as before, and what it gets later can be kept again.

        Returns:
            The entry written. Its `lane` is where it was joined (None is main). It has a
            `fromUuid` where that lane had gone on meanwhile: the entry it was at, which
            is the tip of a side branch now; `merge` takes it in, `switch` goes back to it.

        Raises:
            NothingToDoError: the lane has no entry, or is kept already.
        """
        if lane is not None:
            return lanes.keep(self.writer, lane)
        lanes.check_can_be_kept(self.writer)
        home = self._origin
        while home is not None and (home.reader.log.ended or home.lane_name == self.lane_name):
            home = home._origin  # one that was kept itself is a part of where it was kept
        if home is not None and not home.reader.log.closed:
            return lanes.keep_own(self.writer, home.writer)
        self.reader.log.check_writable()  # nor is this one closed
        with self.lane("main" if home is None else home.lane_name) as home:
            return lanes.keep_own(self.writer, home.writer)

    # Maintain

    def verify(
        self, progress: Progress | None = None, *, processes: int | None = 1
    ) -> list[Damage]:
        """Read everything, follow every reference, and give all damage.

        Args:
            progress: called with the bytes done and the bytes in all, now and then.
            processes: how many check the checksums of a large file; None: as many as are
                worth it. More than this one are forked.

        Returns:
            One finding a fault, in file order; empty where the file is sound.
        """
        from sessiontree.operations.verify import verify  # few sessions are ever verified
        from sessiontree.operations.workers import available

        self.reader.ready()
        found = verify(self.reader.log, progress, processes or available())
        return self._file.damage_in_original(found)

    def repair(self, *, dry_run: bool = False) -> RepairResult:
        """Repair what can be repaired without guessing; the original is kept beside the file.

        Args:
            dry_run: only say what would be done.

        Returns:
            What was repaired, where the original is, and the damage that remains.

        Raises:
            MigrationRefusedError: the file is of version 1, and was opened to read.
        """
        from sessiontree.engine import repair  # few sessions are ever repaired

        self.reader.ready()
        if dry_run:
            return repair.repair(self._file.original, dry_run=True)
        with self.writer.holding():
            done = repair.repair(self.reader.log)
            if done.evidence is not None:
                self.reader.catch_up()
        return done

    def gc(self, *, dry_run: bool = False, now: datetime | None = None) -> GcResult:
        """Take out what was tried on scratch lanes and never kept, and blobs without a handle.

        Seven days after it was written it goes into an archive beside the file, and
        thirty days later the archive goes.

        Args:
            dry_run: only say what would go.
            now: the moment to count from, with a time zone; by default this one.

        Raises:
            CorruptionError: the file has lines that cannot be read; repair it first.
        """
        from sessiontree.engine.gc import collect  # seldom called

        moment = datetime.now(UTC) if now is None else now
        if moment.tzinfo is None:
            raise UsageError(f"now is a moment with a time zone, not {moment}")
        self.reader.ready()
        kept = [self.leaf.uuid]
        if dry_run:
            return collect(self.reader.log, self.blobs, kept, moment, dry_run=True)
        with self.writer.holding():
            done = collect(self.reader.log, self.blobs, kept, moment)
            if done.entries:
                self.reader.catch_up()
        return done


_IN_MEMORY: Final = "(in memory)"


def repair_file(file: PathLike, *, fs: FileSystem = DISK) -> RepairResult:
    """Repair a session that cannot be opened to write, its header being lost, or any other.

    Args:
        file: the session file.
        fs: the seam to the disk; tests pass another one.

    Returns:
        What was repaired, where the original is, and the damage that remains.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: not a session of sessiontree.
        MigrationRefusedError: version 1; migrate it first.
        SessionBusyError: another writer is exclusive.
        SessionNotFoundError, StorageError: the system refused.
    """
    from sessiontree.engine.repair import repair  # few sessions are ever repaired

    with closing(FileLog(fs, os.fspath(file))) as log, log.hold():
        if log.was_replaced():
            log.reopen()  # another program repaired it first
        return repair(log)


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
