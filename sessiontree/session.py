"""Session: one conversation, a tree of entries in one append-only log.

`Session` is a facade: each method calls a collaborator or an operation. `SessionFile` is the
opened file of any kind, `TreeReader` reads the entries, `Cursor` is the place in the tree,
`EntryWriter` appends, `HandleScope` resolves handles.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
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
    from sessiontree.operations.export import Original
    from sessiontree.operations.outline import TreeRow
    from sessiontree.operations.stats import Stats
    from sessiontree.recording.events import Event
    from sessiontree.redact.redaction import Redaction
    from sessiontree.storage.blobs import Blobs

PathLike = str | os.PathLike[str]

SPILL_OVER: Final = 32 * 1024
"""The bytes of the longest string that stays in the file by default."""


class Session:
    """A session; a context manager. Make one with `create` or `open`.

    Any method may raise, in addition to the errors that it names:

    - RefError: a ref means no entry, or more than one.
    - EntryError: a summary is empty or not text.
    - SessionExistsError: a file to make exists already.
    - HookRejectedError, or another error that a hook raises: nothing was written.
    - ReadOnlyError: a write to a session that was opened to read, closed, or kept.
    - SessionBusyError: another writer is exclusive, or does not release the lock.
    - WriteFailedError, StorageError: the system refused; how much was written is unknown.
      Open the session again.
    - SessionNotFoundError, FileReplacedError: the file vanished, or was replaced.
    - CorruptionError: the answer is in a damaged part of the file.

    Attributes:
        cursor: the place in the tree.
        reader: reads the entries.
        writer: appends entries.
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
            file: the file to make, readable by its owner alone; None: keep it in memory.
            cwd: the working directory of the session, by default the current one.
            id: its id, by default a fresh UUID.
            name: a name for people.
            metadata: facts such as `model`, `system`, or the agent's own session id.
            exclusive, lane, durability, spill_over, hooks, registry, root, fs: as for `open`.

        Raises:
            EntryError: a value is not JSON.
            StorageError: the file cannot be made.
        """
        refs.check_name(lane, "lane name")
        _check_options(durability, spill_over)
        line = encode(_header(cwd, id, name, metadata)) + b"\n"
        log: Log
        if file is None:
            log, fs, spill_over = MemoryLog(_IN_MEMORY, [line]), DISK, None
        else:
            create_file(fs, os.fspath(file), iter([line]))
            log = FileLog(fs, os.fspath(file), durability=durability)
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
        migrate: bool = True,
        hooks: Iterable[Any] = (),
        registry: Registry | None = None,
        root: PathLike | None = None,
        fs: FileSystem = DISK,
    ) -> Self:
        """Open a session.

        A version 1 file is migrated on disk, or with `readonly` in memory. Another agent's file
        can only be read, and is translated in memory; see `sessiontree.formats`.

        Args:
            file: the session file.
            readonly: never write: no lock, no migration on disk.
            exclusive: keep all other writers out until the session is closed.
            lane: the lane to read and write; only a writer can start a new one.
            durability: `fsync`: a returned entry survives a power cut; `os`: it survives the
                death of the process.
            spill_over: strings with more UTF-8 bytes go into the sidecar folder; None: none
                does, 0: all do.
            migrate: False: refuse to migrate a version 1 file on disk.
            hooks: objects to call with each entry written; see `Hook`.
            registry: resolves handles; by default `Registry.default()`.
            root: the folder of `file` handles; without it none is resolved.
            fs: the file system; tests pass another one.

        Raises:
            NotASessionError, ForeignFormatError, NewerFormatError: not a sessiontree session.
            MissingHeaderError: not `readonly`, and the header is lost; see `repair_file`.
            MigrationRefusedError: version 1, and `migrate=False`.
            RefError: `readonly`, and the lane has no entry.
        """
        _check_options(durability, spill_over)
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

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Write an open batch, close the file and release its lock. May be called twice."""
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
        """The opened file; after a replacement, the one that the reader reads now."""
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
        """The parent of the next entry: the one that this session last saw or wrote."""
        return self.cursor.leaf

    @property
    def name(self) -> str | None:
        """The session's latest name, or None. Reads the whole file."""
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
        """Return the entry that a ref means."""
        return self.cursor.entry(ref)

    def entries(self) -> Iterator[Entry]:
        """Yield all entries in file order, the header first."""
        return self.reader.entries()

    def children(self, ref: Ref) -> list[Entry]:
        """Return the children of an entry, in file order."""
        return self.reader.children(self.entry(ref))

    def find(self, *, type: str | None = None, tool_call_id: str | None = None) -> list[Entry]:
        """Return the entries of a type, or of a tool call and its results, in file order.

        Raises:
            UsageError: neither is given.
        """
        return self.reader.find(type, tool_call_id)

    def path(self, ref: Ref | None = None) -> list[Entry]:
        """Return the entries from the header to an entry, by default the leaf.

        If a parent is missing, the path starts below it, and `damage` names it.
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
        """Return what a model gets at an entry, by default the leaf.

        A handle on the path is resolved once: if its file changes, the context still has the
        earlier content, so that the model gets the same bytes again. To get the new content,
        append the handle again, open the session again, or use `strict`.

        Args:
            ref: the entry.
            verbatim: return the messages as stored, calls and results not paired.
            resolve: False: leave handles as references.
            strict: raise an error for a blob or handle that fails, instead of a placeholder.
            count: counts the tokens of one message.

        Raises:
            BlobError, ResolveError: with `strict`, content that is missing.
        """
        return self.cursor.context(
            ref, verbatim=verbatim, resolve=resolve, strict=strict, count=count
        )

    def turns(self, ref: Ref | None = None) -> list[list[Entry]]:
        """Return the messages of a path in turns: a prompt and what follows it."""
        return outline.turns(self.path(ref))

    def branches(self, ref: Ref | None = None) -> list[Branch]:
        """Return the branches, all or those below an entry, in file order of their tips."""
        below = None if ref is None else self.entry(ref)
        return outline.branches(self.cursor, below)

    def tree(self) -> Iterator[TreeRow]:
        """Yield each entry with its place in the tree, in file order."""
        return outline.rows(self.cursor)

    def render(self, *, all: bool = False) -> Iterator[str]:
        """Yield the lines of a drawing of the tree; `all` shows long unbranched runs whole."""
        return outline.draw(self.cursor, all=all)

    def conversation(self, ref: Ref | None = None) -> Iterator[Event]:
        """Yield the events of a recording of a path, block by block, without starts and deltas.

        See `sessiontree.recording.events`.
        """
        from sessiontree.recording.replay import conversation  # few sessions are taken apart

        return conversation(self.cursor, ref)

    def block(self, ref: Ref, index: int) -> dict[str, Any]:
        """Return a content block of the message that an entry is, or is a piece of.

        An OpenAI Responses item without a role (a call, its output, a thought) is its own
        block 0.

        Raises:
            UsageError: it is not a message, or has no such block.
        """
        from sessiontree.recording.replay import block  # few sessions are taken apart

        return block(self.cursor, ref, index)

    def stats(self) -> Stats:
        """Count the entries, branches, bytes, tokens and costs."""
        from sessiontree.operations.stats import stats  # few sessions are ever counted

        with self.reader.alone():
            size = self.reader.whole().size if self._file.is_current else self._file.size
            return stats(self.reader, size)

    def original(self, ref: Ref) -> bytes:
        """Return the line of an entry as it is in the file, in the format of its program."""
        return self._file.original_line(self.entry(ref))

    def resolve(self, handle: Handle | str) -> ResolvedHandle:
        """Return what a handle points to.

        Raises:
            HandleError: it is not well formed, or does not fit its schema.
            ResolveError, BlobError: the content is missing.
        """
        return self.handles.resolve(handle)

    def resolve_many(self, handles: Iterable[Handle | str]) -> list[HandleResolution]:
        """Return what each handle points to, or its error; resolves each distinct one once."""
        return self.handles.resolve_many(handles)

    def resolved_path(self, ref: Ref | None = None) -> list[ResolvedEntry]:
        """Return a path with what its handles point to, or their errors."""
        return self.handles.resolved_path(ref)

    def resolved_tree(self, ref: Ref | None = None) -> ResolvedEntry:
        """Return an entry, by default the header, and all below it, as `resolved_path` does."""
        return self.handles.resolved_tree(ref)

    def refresh(self) -> None:
        """Read what others wrote. A writer stays at its leaf; a reader goes to the new one.

        `entries`, `find`, `tree`, `render`, `branches` and `stats` see what sessions made by
        `lane` and `scratch` wrote without a refresh.

        Raises:
            FileReplacedError: another file without the leaf replaced this one.
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
        """Yield each entry that any writer adds from now on, until the session is closed.

        Only lines that end with a newline count. Damage in them goes to `damage`.

        Args:
            damaged: called with each damage in them too.

        Raises:
            UsageError: the session is in memory, or the file is another agent's.
            FileReplacedError: the file was rewritten in place, or has another session now.
        """
        from sessiontree.operations import follow  # few sessions are followed

        view = self.reader.ready()
        file = self._file
        if self.file is None:
            raise UsageError("a session in memory has no file to follow")
        if file.not_followed:
            raise UsageError(file.not_followed)
        self.reader.log.size()  # raises if the session is closed

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
        """Write one entry and return it; it is durable when the call returns.

        Args:
            type: an entry type; an unknown one is written as given.
            parent: its parent, by default `leaf`.
            metadata: small facts of the caller.
            uuid: its uuid, by default a fresh one.
            fields: the fields of the type, with their names in the file.

        Raises:
            EntryError: fields are missing, wrong, or not JSON; the uuid is taken.
            BlobError: the handle of a blob that this session does not have.
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
            message: the dict; a later change of it does not change the entry.
            parent, metadata: as for `append`.

        Raises:
            EntryError: it is not a message, or not JSON.
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
        """Write an entry that points to content kept elsewhere.

        Args:
            handle: a handle, or its text form.
            kind: the kind of its content, by default the one in its plugin's schema.
            role: the role of its message in a context.
            preview: a few words that describe it to people.
            parent: as for `append`.
            metadata: hints, up to 1 KB as JSON.

        Raises:
            HandleError: the handle, its kind or the metadata is wrong, or it names an entry
                that this session does not have.
            BlobError: it names a blob that this session does not have.
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
        """Copy a file or stream of any size into the sidecar folder, and write its handle.

        A model gets images (PNG, JPEG, GIF, WebP), PDF up to 20 MiB, and UTF-8 text up to
        256 KiB, with U+FFFD for a few wrong bytes. Of other content it gets the name, and the
        context has a warning.

        Args:
            content: the path of a file, or a binary stream, which is read to its end.
            media_type: by default guessed from the content and the file name.
            role, preview, parent, metadata: as for `append_handle`.

        Raises:
            StorageError: it cannot be read or stored.
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
            granularity: `block` writes an entry for each finished block; `message` writes
                one at the end.

        Returns:
            A context manager; leaving it ends the message.

        Raises:
            UsageError: there is no such granularity.
        """
        facts = {"model": model, "provider": provider}
        return MessageStream(self, role, facts, granularity)

    def label(self, ref: Ref, text: str | None) -> Entry:
        """Label an entry; None removes its label. Returns the `label` entry.

        Raises:
            InvalidNameError: a ref cannot spell it, or it means another entry or a lane.
        """
        self.reader.log.check_writable()
        target = self.entry(ref)
        if ref == refs.LEAF:  # label the entry that people see, not a mark below it
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
        """Set facts of the session's metadata. Returns the `session_info` entry.

        Raises:
            EntryError: no fact is given, or one is not JSON.
        """
        if not facts:
            raise EntryError("update_metadata needs a fact; give key=value")
        return self.writer.annotate("session_info", {"metadata": facts})

    def set_model(self, provider: str | None, model_id: str) -> Entry:
        """Set the model on this path from here on."""
        return self.append("model_change", provider=provider, modelId=model_id)

    def set_thinking_level(self, level: str) -> Entry:
        """Set the thinking level on this path from here on."""
        return self.append("thinking_level_change", thinkingLevel=level)

    def batch(self) -> AbstractContextManager[None]:
        """Write all entries appended inside the block with one write and one sync, at its end.

        The lock is held for the whole block, so keep it short. Reading the session inside
        writes the entries so far. A batch is not atomic: a crash may keep its first part, and
        an exception does not undo the entries before it.
        """
        return self.writer.batch()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for the block, and go to the lane's leaf in the file."""
        with self.writer.holding():
            self.writer.go_to_tip()
            yield

    # Move

    def branch(self, ref: Ref, summary: Summary | None = None, name: str | None = None) -> Entry:
        """Go on from an entry in the same file: append a `branch` entry below it.

        Args:
            ref: the entry to go on from; the header gives an empty context.
            summary: a summary of the path left behind: text, or a summarizer. Then the entry is
                a `branch_summary`, which is in the context.
            name: a name for the new branch.

        Returns:
            The entry written, the new leaf.

        Raises:
            InvalidNameError: the name is invalid or taken.
        """
        return moves.branch(self.writer, ref, summary, name)

    def switch(self, ref: Ref) -> Entry:
        """Go to the tip of a named branch, or to any entry; returns the leaf.

        Writes nothing if that is the leaf already.
        """
        return moves.switch(self.writer, ref)

    def rewind(self, ref: Ref | None = None) -> str:
        """Go to before a prompt, by default the last; returns its text for editing.

        Raises:
            UsageError: the entry is not a prompt.
            NothingToDoError: the path has no prompt.
        """
        return moves.rewind(self.writer, ref)

    def push(self, note: str | None = None) -> Entry:
        """Mark the leaf, so that `pop` returns to it."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        return self.append("stack_push", **fields)

    def pop(self, ref: Ref | None = None, summary: Summary | None = None) -> Entry:
        """Go back up the path, with a summary of what is left behind.

        Args:
            ref: the entry to go to; by default the innermost open push, or else the nearest
                prompt followed by more than summaries and markers.
            summary: text, or a summarizer; by default `sessiontree.summarize`.

        Returns:
            The `stack_summary` written, the new leaf.

        Raises:
            UsageError: the entry is not on the path.
            NothingToDoError: nothing follows it, or there is no place to pop to.
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
        """Replace the older part of the context with a summary.

        Args:
            summary: text, or a summarizer of the replaced entries; by default
                `sessiontree.summarize`.
            first_kept: the first entry to keep; by default chosen by `keep`. `@` is the last
                message, even if marks or edits follow it.
            keep: about how many tokens to keep; 0 keeps nothing.
            count: counts the tokens of one message.
            details, usage: stored in the entry.

        Raises:
            UsageError: `keep` is not a number of tokens, or the first kept entry is not on
                the path.
            NothingToDoError: the context is smaller than `keep`.
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
            UsageError: entries of its type are bound to their place in the tree.
            BlobError: its content is missing.
        """
        return merge.cherry_pick(self.writer, picked)

    def merge(self, ref: Ref, summary: Summary | None = None) -> Entry:
        """Add the context of another branch, or a summary of it, to this path.

        Args:
            ref: the last entry to merge.
            summary: text, or a summarizer of the merged entries.

        Raises:
            UsageError: it has no common ancestor with the path.
            NothingToDoError: it is on the path already.
        """
        return merge.merge(self.writer, ref, summary)

    def edit_context(self, ref: Ref, replacement: str | Mapping[str, Any] | None) -> Entry:
        """Replace or drop an entry's part of the context, on this path from here on.

        Args:
            ref: the entry.
            replacement: new content, as text or `{"content": …}`; None drops it.

        Raises:
            UsageError: it contributes nothing to the current context.
        """
        return merge.edit_context(self.writer, ref, replacement)

    # Copy

    @property
    def _original(self) -> Original:
        from sessiontree.operations.export import Original  # few sessions are copied

        return Original(self.cursor, self.handles, self.file, self.disk)

    def fork(self, file: PathLike, at: Ref | None = None) -> str:
        """Copy the path to an entry, by default the leaf, into a new session file.

        Returns its path. The copy has a new id, and omits the agent's session id. A lost or
        damaged blob is a ContentLostWarning.

        Raises:
            BlobUnreadableError: the system refuses to read a blob.
        """
        from sessiontree.operations.export import fork  # few sessions are copied

        return fork(self._original, os.fspath(file), at)

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

        Scratch lanes that were never kept are left out, with a warning, except those of the
        entry and of this session.

        Args:
            ref: the top of the subtree.
            file: the file to make.
            with_path: copy the path from the header to the entry too.
            inline: put the content of blobs and handles into the file itself.
            redact: masks secrets in the copy, and reports them.

        Raises:
            BlobError: with `inline`, content is missing; without it, the system refuses to
                read a blob, and a lost blob is a ContentLostWarning.
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
    ) -> Iterator[str]:
        """Yield the path to an entry as Markdown; missing content is named in its place.

        Args:
            ref: the entry, by default the leaf.
            redact: masks secrets in the text, and reports them.
            beside: the folder of the text; attached images become links to their files.
        """
        from sessiontree.operations.transcript import transcript  # few sessions are printed

        leaf = self.leaf if ref is None else self.entry(ref)
        return transcript(self.cursor, leaf, redact, beside)

    def convert(
        self, to: Literal["pi", "claude-code", "atif"], file: PathLike | None = None
    ) -> ConversionResult:
        """Make a file for another program; this session does not change.

        Args:
            to: `pi`: version 3 of the pi coding agent, the whole tree; `claude-code`: a
                transcript of Claude Code; `atif`: the current path in the Agent Trajectory
                Interchange Format 1.7.
            file: the file to make, by default in the current directory, with the name that
                the program would give it.

        Returns:
            The files made, and what in them is left out or written differently.

        Raises:
            UsageError: there is no such target.
            NothingToDoError: the session has no message yet.
        """
        from sessiontree.operations.convert import convert  # few sessions are converted

        return convert(self._original, to, file)

    # Lanes

    def lane(self, name: str, at: Ref | None = None) -> Session:
        """Open another lane of this file, as a session to close separately.

        It is `readonly` if this session is.

        Args:
            name: the lane; a lane without entries starts at the main leaf.
            at: the parent of its next entry; by default the lane's leaf.

        Raises:
            RefError: this session was opened to read, and the lane has no entry.
        """
        return self._on(lanes.lane(self._file, self.writer, name, at))

    def scratch(self, at: Ref | None = None) -> Session:
        """Open a new scratch lane at an entry, by default the leaf, as a session.

        Its entries move no other leaf, and are garbage unless its `keep` is called; so are
        labels of its own entries. Other labels, names and metadata are written on main, and
        stay. A scratch lane opened from another one is joined to that one by `keep`.

        Raises:
            ReadOnlyError: this session was opened to read.
        """
        return self._on(lanes.scratch(self.writer, at))

    def _on(self, opened: tuple[opening.SessionFile, EntryWriter]) -> Session:
        file, writer = opened
        origin = self if file.is_current else None
        return type(self)(file, writer, self.disk, self._registry, self._root, origin)

    def keep(self, lane: str | None = None) -> Entry:
        """Join a lane to another, by a `branch` entry below the last entry of the first.

        With `lane`, join that lane to the lane of this session; it can go on, and be kept
        again. Without, join the lane of this session to the lane of the session that it was
        opened from, or to main. A session on a scratch lane writes nothing after that: use the
        other one.

        Returns:
            The entry written. Its `lane` is the lane joined to (None is main).
            If that lane has gone on meanwhile, `fromUuid` is its earlier leaf, now the tip of a
            side branch: `merge` merges it, `switch` goes back to it.

        Raises:
            NothingToDoError: the lane has no entry, or is kept already.
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
            progress: called with the bytes done and the bytes in all, now and then.
            processes: the number of processes that check the checksums of a large file; all
                but this one are forked. None: chosen by the number of processors.
        """
        from sessiontree.operations.verify import verify  # few sessions are ever verified
        from sessiontree.operations.workers import available

        self.reader.ready()
        found = verify(self.reader.log, progress, processes or available())
        return self._file.damage_in_original(found)

    def repair(self, *, dry_run: bool = False) -> RepairResult:
        """Repair the damage that needs no guess, and keep the original beside the file.

        Args:
            dry_run: only report what would be done.

        Raises:
            MigrationRefusedError: the file has version 1, and was opened to read.
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
        """Remove scratch entries that were never kept, and blobs without a handle.

        Entries go into an archive beside the file seven days after they were written. The
        archive is removed thirty days later.

        Args:
            dry_run: only report what would be removed.
            now: the time to count from, with a time zone; by default the current time.

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
        with self.writer.holding():
            done = collect(self.reader.log, self.blobs, leaves, moment)
            if done.entries:
                self.reader.catch_up()
        return done


_IN_MEMORY: Final = "(in memory)"


def repair_file(file: PathLike, *, fs: FileSystem = DISK) -> RepairResult:
    """Repair a session file, even one whose header is lost; see `Session.repair`.

    Args:
        file: the session file.
        fs: the file system; tests pass another one.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: not a sessiontree session.
        MigrationRefusedError: version 1; migrate it first.
        SessionBusyError: another writer is exclusive.
        SessionNotFoundError, StorageError: the system refused.
    """
    from sessiontree.engine.repair import repair  # few sessions are ever repaired

    with closing(FileLog(fs, os.fspath(file))) as log, log.hold():
        if log.was_replaced():
            log.reopen()  # another program repaired it first
        return repair(log)


def _check_options(durability: object, spill_over: object) -> None:
    if durability not in ("fsync", "os"):
        raise UsageError(f"durability is 'fsync' or 'os', not {durability!r}")
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
