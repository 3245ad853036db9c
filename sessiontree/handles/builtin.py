"""The built-in resolvers: `blob`, `file` and `session`. None of them uses a network.

Invariants:

- `file` reads below a root and nothing outside of it. The path is opened part by part, each
  below the one before, and links are followed by hand. So whatever is renamed or replaced
  meanwhile, the file was reached from the root.
- `blob` reads the sidecar of the session that the handle is in. The bytes are compared with
  the hash whenever they are read.
- `session` reads entries, content blocks and paths of the session that the handle is in, or of
  another one of the same store, found by the id in its header and opened to read. Handles in that
  one are resolved there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from sessiontree.context.fold import custom_message, summary_message
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import SUMMARIES, Entry
from sessiontree.core.handle import MEDIA_TYPE, Handle
from sessiontree.core.media import media_type_of
from sessiontree.core.message import is_item, numbered_blocks
from sessiontree.errors import TargetMissingError, TargetRefusedError
from sessiontree.handles.entries import pointer_of
from sessiontree.handles.neighbors import Neighbors
from sessiontree.handles.paths import branch_leaf, path_document
from sessiontree.handles.registry import HandleSession, Resolver, Scope
from sessiontree.handles.schema import HandleSchema, MetaField
from sessiontree.storage.fs import DISK, Descriptor

if TYPE_CHECKING:
    from sessiontree.engine.reader import TreeReader


_T = TypeVar("_T")
LARGEST: Final = 64 * 1024 * 1024  # the largest file that is read, in bytes; the default
_MOST_LINKS: Final = 40
MOST_OPEN: Final = 64  # other sessions


MayRead = Callable[[str], bool]
"""Whether a session file may be read."""


def built_in(may_read: MayRead | None = None) -> list[Resolver]:
    """Make a resolver for each built-in plugin; `may_read` limits which other sessions are read."""
    return [BlobResolver(), FileResolver(), SessionResolver(may_read)]


FILE_SCHEMA: Final = HandleSchema(
    plugin="file",
    method="path",
    versions="1.x",
    meta=[
        MetaField(
            "path", pattern=r"(?s:(?!/)(?!(.*/)?\.\.(/|\Z)).+)", form="a relative path without '..'"
        )
    ],
    kind="binary",
    resolves_to="the bytes of the file as it is now, with a media type by its content",
)


class FileResolver:
    """Resolves `file@1.0.0::path:<relative path>`, below the root of the scope."""

    schemas = (FILE_SCHEMA,)

    def __init__(self, largest: int = LARGEST) -> None:
        """Make a resolver of files of up to `largest` bytes."""
        self._largest = largest

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """The content of the file, whole; an error where it is missing, or must not be read."""
        try:
            content = _Descent(handle, scope.root, self._largest).read()
        except OSError as error:
            raise TargetMissingError(
                f"cannot read {handle} below {scope.root}: {error.strerror or error}", str(handle)
            ) from error
        return ResolvedHandle(handle, "binary", content, media_type_of(content))


class _Descent:
    """One way down from a root, by descriptors."""

    def __init__(self, handle: Handle, root: str, largest: int) -> None:
        self._handle = handle
        self._root = root
        self._largest = largest
        self._links = 0

    def read(self) -> bytes:
        path = self._handle.meta[0]
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            self._refuse("is not a path below a root")
        with contextlib.ExitStack() as opened:
            return self._content(self._open(_parts(path), opened))

    def _open(self, waiting: list[str], opened: contextlib.ExitStack) -> int:
        """A descriptor of the file at the end of a path, whose parts are given last first."""
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        folders = [opened.enter_context(Descriptor(DISK, root))]
        while waiting:
            part = waiting.pop()
            if part == "..":  # of a link: up from its target, never by name
                folders.pop()
                if not folders:
                    self._refuse("leads out of the root by a link")
                continue
            found = os.stat(part, dir_fd=folders[-1], follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                waiting.extend(self._link_parts(part, folders))
                continue
            if not waiting:
                self._check(found)
            elif not stat.S_ISDIR(found.st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            below = os.open(
                part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folders[-1]
            )
            folders.append(opened.enter_context(Descriptor(DISK, below)))
        return folders[-1]

    def _link_parts(self, link: str, folders: list[int]) -> list[str]:
        """The parts of a link's target, last first; an absolute one starts at the root again."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(link, dir_fd=folders[-1])
        if target.startswith("/"):
            root = os.path.realpath(self._root)
            if not (target + "/").startswith(root.rstrip("/") + "/"):
                self._refuse("leads out of the root by a link")
            target = target[len(root) :]
            del folders[1:]
        return _parts(target)

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            self._refuse("is a folder")
        if not stat.S_ISREG(found.st_mode):
            self._refuse("is a device, a pipe or a socket, not a file")
        if found.st_size > self._largest:
            self._refuse(f"has {found.st_size:,} bytes, and {self._largest:,} are allowed")

    def _content(self, fd: int) -> bytes:
        self._check(os.fstat(fd))  # the file may have been replaced since `stat`
        with open(fd, "rb", closefd=False) as file:
            content = file.read(self._largest + 1)
        if len(content) > self._largest:
            self._refuse(f"grew beyond {self._largest:,} bytes while it was read")
        return content

    def _refuse(self, why: str) -> NoReturn:
        raise TargetRefusedError(f"{self._handle} {why}; it was not read", str(self._handle))


def _parts(path: str) -> list[str]:
    """The parts of a path, last first, without empty ones and `.`."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


BLOB_SCHEMA: Final = HandleSchema(
    plugin="blob",
    method="sha256",
    versions="1.x",
    meta=[
        MetaField("sha256", pattern="[0-9a-f]{64}", form="64 lower-case hex digits"),
        MetaField("size", pattern="0|[1-9][0-9]{0,17}", form="a number of bytes"),
        MetaField("media type", pattern=MEDIA_TYPE, form="a media type like image/png"),
    ],
    kind="binary",
    resolves_to="the bytes of that hash and size in the session's sidecar, with the media type",
)


class BlobResolver:
    """Resolves `blob@1.0.0::sha256:<hex>:<size>:<media type>`."""

    schemas = (BLOB_SCHEMA,)

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """The bytes of the blob; a BlobError where they are missing or damaged."""
        sha256, size, media_type = handle.meta
        content = scope.session.blobs.read(sha256, int(size))
        return ResolvedHandle(handle, "binary", content, media_type)


_SESSION: Final = MetaField("session id")

ENTRY: Final = HandleSchema(
    plugin="session",
    method="entry",
    versions="2.x",
    meta=[_SESSION, MetaField("uuid")],
    kind="message",
    resolves_to="the entry's message; what a handle entry resolves to; of any other the entry",
)
BLOCK: Final = HandleSchema(
    plugin="session",
    method="block",
    versions="2.x",
    meta=[
        _SESSION,
        MetaField("uuid"),
        MetaField("index", pattern="0|[1-9][0-9]{0,8}", form="a number from 0"),
    ],
    kind="message",
    resolves_to="a message with that content block alone, and the role of the whole; "
    "an item of OpenAI Responses is its own block 0",
)


_TO_ENTRY: Final = (
    "the session's id, the uuid of the last entry, and the messages of the context there"
)
PATH: Final = HandleSchema(
    plugin="session",
    method="path",
    versions="2.x",
    meta=[_SESSION, MetaField("uuid")],
    kind="document",
    resolves_to=f"{_TO_ENTRY}, up to the entry",
)
BRANCH: Final = HandleSchema(
    plugin="session",
    method="branch",
    versions="2.x",
    meta=[_SESSION, MetaField("name", form="the name of a branch or a lane")],
    kind="document",
    resolves_to=f"{_TO_ENTRY}, up to the last entry of the branch or lane",
)


class SessionResolver:
    """Resolves `session@2.0.0::entry:…`, `…::block:…`, `…::path:…` and `…::branch:…`."""

    schemas = (ENTRY, BLOCK, PATH, BRANCH)

    def __init__(self, may_read: MayRead | None = None) -> None:
        """Make a resolver; `may_read` limits which other sessions are read."""
        self._may_read = may_read

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """An entry, one block of it, or a path; a TargetMissingError where there is none."""
        if handle.method == "branch":
            return self._resolved_branch(handle, scope)
        near = ""
        for session in _sessions(handle, scope, self._may_read):
            within = scope.within(session)
            step = within.step(handle)
            if step is not None:
                return within.follow(*step)
            entry = _entry_of(session, handle.meta[1], within)
            if handle.method == "block":
                message = block_of(handle, session.reader, entry, within)
                if message is not None:
                    return ResolvedHandle(handle, "message", message)
            elif entry is not None and handle.method == "path":
                return path_document(handle, session, entry, within)
            elif entry is not None:
                return _resolved(handle, entry, within)
            near = near or similar_uuids(session.reader, handle.meta[1])
        raise TargetMissingError(
            f"{handle} points to an entry that session {handle.meta[0]} does not have{near}",
            str(handle),
        )

    def _resolved_branch(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        for session in _sessions(handle, scope, self._may_read):
            leaf = branch_leaf(handle, session.reader)
            if leaf is not None:
                return path_document(handle, session, leaf, scope.within(session))
        raise TargetMissingError(
            f"{handle} points to a branch or lane that session {handle.meta[0]} does not have",
            str(handle),
        )


def _entry_of(session: HandleSession, uuid: str, scope: Scope) -> Entry | None:
    """The entry with a uuid; the last one is kept, since handles of its blocks often follow."""
    kept: tuple[str, Entry] | None = scope.kept.get(_entry_of)
    if kept is not None and kept[0] == uuid:
        return kept[1]
    entry = session.cursor.by_uuid(uuid)
    if entry is not None:
        scope.kept[_entry_of] = (uuid, entry)
    return entry


def similar_uuids(reader: TreeReader, uuid: str) -> str:
    """A hint with the uuids that begin with an unknown one; empty where none does."""
    with reader.alone():
        near = reader.index().some_uuids_with_prefix(uuid, 3)
    return f"; give its uuid whole: {', '.join(near)}" if near else ""


def _resolved(handle: Handle, entry: Entry, scope: Scope) -> ResolvedHandle:
    kind = entry.type
    if kind == "handle":
        return scope.follow(*pointer_of(entry))
    message = entry.get("message")
    if kind == "message" and isinstance(message, dict):
        return ResolvedHandle(handle, "message", message)
    if kind == "compaction" or kind in SUMMARIES:
        role = "compactionSummary" if kind == "compaction" else "branchSummary"
        return ResolvedHandle(handle, "message", summary_message(role, entry))
    if kind == "custom_message":
        return ResolvedHandle(handle, "message", custom_message(entry))
    document = {key: entry[key] for key in entry if key not in ("spilled", "crc")}
    return ResolvedHandle(handle, "document", document)


def block_of(
    handle: Handle, reader: TreeReader, entry: Entry | None, scope: Scope | None = None
) -> dict[str, Any] | None:
    """The message with one block that a handle points to in a session.

    The handle's meta is valid, and `entry` is the one with its uuid in the session, or None. None
    where the session has nothing with that uuid; a TargetMissingError where the message has no such
    block. The scope keeps what the next handle of the same message needs.
    """
    uuid, index = handle.meta[1], int(handle.meta[2])
    kept, found = ({}, {}) if scope is None else (scope.kept, scope.found)
    if entry is not None and entry.type == "message":
        message = entry.get("message")
        blocks = _kept(kept, entry, lambda: _blocks_of(message))
        if index >= len(blocks):
            raise _no_block(handle, len(blocks))
        if is_item(message):
            return dict(message)
        return {"role": message.get("role") or "assistant", "content": [blocks[index]]}
    if entry is not None and entry.type not in ("block", "message_end"):
        raise TargetMissingError(
            f"{handle} points to a block of a {entry.type}, which has none", str(handle)
        )
    if entry is not None:
        uuid = message_uuid(entry) or uuid
    streamed = _kept(found, (id(reader), uuid), lambda: _Streamed.read(reader, uuid))
    block = streamed.blocks.get(index)
    if isinstance(block, dict):
        return {"role": streamed.role, "content": [block]}
    if streamed.is_there:
        raise _no_block(handle, len(streamed.indices))
    return None


def _blocks_of(message: Any) -> list[Mapping[str, Any]]:
    return numbered_blocks(message) if isinstance(message, dict) else []


def _kept(found: dict[Any, Any], wanted: object, read: Callable[[], _T]) -> _T:
    """What was read last, where it is the same again: handles of one message follow each other."""
    kept: tuple[object, _T] | None = found.get(_kept)
    if kept is None or kept[0] != wanted:
        kept = found[_kept] = (wanted, read())
    return kept[1]


def _no_block(handle: Handle, count: int) -> TargetMissingError:
    has = f"the message has {count}, counted from 0" if count else "the message has none"
    return TargetMissingError(f"{handle} points to a block that is not there: {has}", str(handle))


class _Streamed:
    """A message that was written block by block; reading it reads the whole file."""

    def __init__(self) -> None:
        self.role = "assistant"
        self.blocks: dict[int, Any] = {}
        self.indices: set[int] = set()
        self.is_there = False

    @classmethod
    def read(cls, reader: TreeReader, uuid: str) -> Self:
        found = cls()
        for entry in reader.entries():
            if entry.type in ("block", "message_end") and entry.get("messageUuid") == uuid:
                found._add(entry)
        return found

    def _add(self, entry: Entry) -> None:
        self.is_there = True
        if isinstance(index := entry.get("index"), int):
            self.indices.add(index)
            if entry.type == "block":
                self.blocks[index] = entry.get("block")
        if entry.type == "message_end":
            self.role = entry.get("role") or self.role


def _sessions(handle: Handle, scope: Scope, may_read: MayRead | None) -> Iterator[HandleSession]:
    """The sessions with an id: this one, or else those of its store."""
    here = scope.session
    wanted = handle.meta[0]
    # A fork has copies of entries, with the same uuids; names mean others there.
    if here.id == wanted or ("parentSession" in here.header and handle.method != "branch"):
        yield here
    if here.id == wanted:
        return
    if here.file is None:
        raise TargetMissingError(
            f"{handle} points to another session, and a session in memory has no folder",
            str(handle),
        )
    neighbors = scope.found.get((_sessions, here.file))
    if neighbors is None:
        neighbors = scope.found[_sessions, here.file] = Neighbors(here.file, here.disk, may_read)
    files = neighbors.files(wanted)
    for file in files:
        yield _opened(file, scope)
    if not files:
        raise TargetMissingError(
            f"{handle} points to a session that is not in {neighbors.root}; put its file there",
            str(handle),
        )


def _opened(file: str, scope: Scope) -> HandleSession:
    """Another session, opened to read; a limited number of them is open at a time."""
    opened: dict[str, HandleSession] = scope.found.setdefault(_opened, {})
    session = opened.pop(file, None) or scope.opened.enter_context(scope.session.beside(file))
    opened[file] = session  # the one used last is the last
    if len(opened) > MOST_OPEN:
        idle = (one for one in opened if one != file and not scope.is_in(opened[one].id))
        if (least_used := next(idle, None)) is not None:
            opened.pop(least_used).__exit__(None, None, None)
    return session
