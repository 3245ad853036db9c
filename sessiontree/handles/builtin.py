"""The built-in resolvers `blob`, `file` and `session`, and what they resolve to.

A session handle names a session of the same store, found by the id in its header. A store has a
folder for each project (`core.header`). For a session outside of a store, the folder of its file
takes the place of the store. At an address, the parts of names are the folders.

A path, or a branch, resolves to a document with the messages of the context at its last entry, so a
compaction or an edit on the path has its effect. Handles on the path are resolved too.

Invariants:

- Nothing is written, and none of the resolvers uses a network.
- `file` reads below a root and nothing outside of it. The path is opened part by part, each below
  the one before, and links are followed by hand. So whatever is renamed or replaced meanwhile, the
  file was reached from the root.
- `blob` reads the sidecar of the session that the handle is in. The bytes are compared with the
  hash whenever they are read.
- `session` opens other sessions to read, and resolves the handles in them there. Of each file of
  the store the start is read, once. A link that leads out of the store is passed over, and so is a
  file that may not be read.
- What all paths that are resolved together read, and give, is limited. A path on another path of
  the same session is not resolved there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from sessiontree.context.fold import custom_message, summary_message
from sessiontree.context.resolved import (
    ResolvedHandle,
    StoredMessage,
    is_shown,
    message_of,
    only_named,
)
from sessiontree.core.blocks import Resolution as Contribution
from sessiontree.core.blocks import ShownHandle, message_uuid, numbered, ordered, role_of_entry
from sessiontree.core.entry import MAIN, PIECES, SUMMARIES, Entry
from sessiontree.core.handle import (
    MEDIA_TYPE,
    Handle,
    blob_of,
    blobs_needed,
    may_name_blob,
    media_type_in,
)
from sessiontree.core.header import id_in_name, id_of_name, is_folder_name
from sessiontree.core.index import NO_ROW
from sessiontree.core.media import base_type, media_type_of
from sessiontree.core.message import is_item, numbered_blocks
from sessiontree.engine.opening import sniff_file
from sessiontree.errors import (
    HandleCycleError,
    SessionTreeError,
    TargetMissingError,
    TargetRefusedError,
    UsageError,
)
from sessiontree.handles.registry import (
    HandleSchema,
    HandleSession,
    MetaField,
    Resolution,
    Resolver,
    ResolverScope,
    Step,
    json_of,
)
from sessiontree.storage.fs import DISK, Descriptor, FileSystem
from sessiontree.storage.names import is_session_name, session_files
from sessiontree.storage.place import Place
from sessiontree.storage.places import located, open_log

if TYPE_CHECKING:
    from sessiontree.engine.reader import TreeReader


def store_of(file: str) -> str:
    """The folder of the store that a session's file is in; outside of a store the file's own."""
    place, name = located(file)
    return _store_in(os.path.realpath(name)) if place is None else place.address(_store_in(name))


def _store_in(file: str) -> str:
    own = folder = os.path.dirname(file)
    while (above := os.path.dirname(folder)) != folder:
        if is_folder_name(os.path.basename(folder)):
            return above
        folder = above
    return own


class Neighbors:
    """The session files of one store, as they are when first asked for."""

    def __init__(
        self, file: str, fs: FileSystem, may_read: Callable[[str], bool] | None = None
    ) -> None:
        self.root = store_of(file)  # the folder of the store
        self._place, name = located(file)
        self._folder = _store_in(name)
        self._may_read = may_read
        self._fs = fs
        self._ids: dict[str, str] = {}

    def files(self, id: str) -> list[str]:
        """The files of the sessions with an id.

        A file that is named for another session is read only where no other has the id.
        """
        own_named, others = self._by_name
        with contextlib.suppress(UnicodeError):  # no file can have such a name
            named = [file for file in own_named.get(id_in_name(id), ()) if self._id(file) == id]
            found = sorted({*named, *others.get(id, ())})
            if found:
                return found
        return self._by_id.get(id, [])

    @cached_property
    def _all(self) -> list[str]:
        if self._place is not None:
            found_there = map(self._place.address, self._names(self._place))
            return sorted(file for file in found_there if self._may(file))
        found: set[str] = set()
        with contextlib.suppress(OSError), os.scandir(self.root) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                with contextlib.suppress(OSError, SessionTreeError):
                    if is_session_name(entry.name) and entry.is_file():
                        found.add(entry.path)
                    elif is_folder_name(entry.name) and entry.is_dir(follow_symlinks=False):
                        found.update(session_files(entry.path, _ignore))
        return sorted(filter(self._is_inside, found))

    def _names(self, place: Place) -> Iterator[str]:
        """The names of the sessions of a place that are in the store."""
        start = f"{self._folder}/" if self._folder else ""
        for found in place.list(start):
            folder, slash, _ = found.name[len(start) :].partition("/")
            if is_session_name(found.name) and (not slash or is_folder_name(folder)):
                yield found.name

    def _may(self, file: str) -> bool:
        return self._may_read is None or self._may_read(file)

    def _is_inside(self, file: str) -> bool:
        if not self._may(file):
            return False
        if not os.path.islink(file):
            return True
        return os.path.realpath(file).startswith(os.path.join(self.root, ""))

    @cached_property
    def _by_name(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The files named for a session, by the id in the name; all others by their id."""
        own_named: defaultdict[str, list[str]] = defaultdict(list)
        others: defaultdict[str, list[str]] = defaultdict(list)
        for file in self._all:
            name = id_of_name(file)
            if name is None:
                others[self._id(file)].append(file)
            else:
                own_named[name].append(file)
        return own_named, others

    @cached_property
    def _by_id(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for file in self._all:
            found[self._id(file)].append(file)
        return found

    def _id(self, file: str) -> str:
        """The id of the session in a file; empty where it is not a session that can be read."""
        if file not in self._ids:
            self._ids[file] = ""
            with contextlib.suppress(OSError, SessionTreeError), contextlib.ExitStack() as opened:
                log = open_log(self._fs, file, readonly=True)
                opened.callback(log.close)
                self._ids[file] = sniff_file(log).session_id
        return self._ids[file]


def _ignore(problem: str) -> None:
    """Files that cannot be read are passed over; `ls` reports them."""


_Pointer = Step | SessionTreeError


class ResolvedEntry:
    """An entry, and the content of its handle.

    Attributes:
        entry: the entry.
        resolved: the content of the handle; None if there is no handle, or an error.
        error: the error of resolving the handle, or None.
        children: in a tree, the entries below this entry; in a path, an empty list.
    """

    __slots__ = ("children", "entry", "error", "resolved")

    def __init__(self, entry: Entry, found: Resolution | None = None) -> None:
        self.entry = entry
        self.resolved = found if isinstance(found, ResolvedHandle) else None
        self.error = found if isinstance(found, SessionTreeError) else None
        self.children: list[ResolvedEntry] = []

    def __repr__(self) -> str:
        return f"<ResolvedEntry {self.entry!r} {self.error or self.resolved!r:.80}>"


def pointer_of(entry: Entry) -> Step:
    """The handle of a `handle` entry, in any stored form, and the metadata of the entry.

    Raises:
        HandleError: the handle is not valid.
    """
    handle, older = Handle.from_json(entry.as_stored.get("handle"))
    own = entry.as_stored.get("metadata")
    return handle, {**(older or {}), **(own if isinstance(own, Mapping) else {})}


def resolved_entries(entries: Sequence[Entry], scope: ResolverScope) -> list[ResolvedEntry]:
    """The entries, each with the content of its handle or the error; resolved together."""
    return _resolved_by(entries, [_pointer_if_any(entry) for entry in entries], scope)


def _resolved_by(
    entries: Sequence[Entry], pointers: Sequence[_Pointer | None], scope: ResolverScope
) -> list[ResolvedEntry]:
    """The same, with what each entry points to."""
    wanted = [one for one in pointers if isinstance(one, tuple)]
    found = iter(scope.resolve_all([one[0] for one in wanted], [one[1] for one in wanted]))
    return [
        ResolvedEntry(entry, next(found) if isinstance(one, tuple) else one)
        for entry, one in zip(entries, pointers, strict=True)
    ]


def messages(entries: Sequence[Entry], scope: ResolverScope) -> list[Contribution]:
    """What `handle` entries contribute to a context, or the error of each.

    A blob of which a model gets the name only is not read.
    """
    pointers = [_pointer_if_any(entry) for entry in entries]
    named = [_only_named(*one) for one in zip(entries, pointers, strict=True)]
    unread = [n for n, message in enumerate(named) if message is None]
    found = _resolved_by([entries[n] for n in unread], [pointers[n] for n in unread], scope)
    contributions = iter(
        error_of(one) if one.resolved is None else message_of(one.resolved, one.entry)
        for one in found
    )
    return [next(contributions) if message is None else message for message in named]


def error_of(found: ResolvedEntry) -> SessionTreeError:
    """Why an entry has no content of a handle."""
    return found.error or UsageError(f"entry {found.entry.uuid} has no handle to resolve")


def _pointer_if_any(entry: Entry) -> _Pointer | None:
    """What an entry points to, or why that cannot be told; None for another type of entry."""
    if entry.type != "handle":
        return None
    try:
        return pointer_of(entry)
    except SessionTreeError as error:
        return error.with_traceback(None)  # whose frames hold the session's handles


def _only_named(entry: Entry, pointer: _Pointer | None) -> ShownHandle | None:
    """The message of a blob that a model gets the name of only; None for any other handle."""
    if not isinstance(pointer, tuple):
        return None
    handle = pointer[0]
    if (handle.plugin, handle.method) != ("blob", "sha256"):
        return None
    if len(handle.meta) != 3 or blob_of(str(handle)) is None:
        return None
    media_type, size = base_type(handle.meta[2]), int(handle.meta[1])
    if is_shown(media_type, size):
        return None
    content, lack = only_named(handle, media_type, size)
    return ShownHandle({"role": role_of_entry(entry) or "user", "content": content}, lack)


MAX_ENTRIES: Final = 200_000
LARGEST: Final = 64 * 1024 * 1024
"""The most entries, and the most bytes of them and of their messages, of all paths together."""


def path_document(
    handle: Handle, session: HandleSession, leaf: Entry, scope: ResolverScope
) -> ResolvedHandle:
    """The messages up to an entry of a session; `scope` resolves the handles in that session."""
    _check_outer(handle, scope.leading)
    spent: _Spent = scope.found.setdefault(_Spent, _Spent())
    spent.read(handle, session, leaf)
    found = session.cursor.messages_at(leaf, lambda entries: messages(entries, scope))
    data = {"session": session.id, "leaf": leaf.uuid, "messages": found}
    spent.take(handle, 0, len(json_of(handle, data)))
    return ResolvedHandle(handle, "document", data)


def _check_outer(handle: Handle, leading: Iterable[Handle]) -> None:
    """Refuse a path on another path of the same session: its messages would be there twice."""
    for outer in leading:
        is_path = outer.plugin == handle.plugin and outer.method in ("path", "branch")
        if is_path and outer.meta[0] == handle.meta[0]:
            raise HandleCycleError(
                f"{handle} is on a path of the same session, and is not resolved there", str(handle)
            )


def branch_leaf(handle: Handle, reader: TreeReader) -> Entry | None:
    """The last entry of the branch or lane that a handle names; None where there is none.

    Raises:
        TargetMissingError: several branches have the name.
    """
    name = handle.meta[1]
    if name == MAIN:
        reader.ready()
        return reader.leaf_of(None)
    with reader.alone():
        tree, names = reader.index(), reader.names()
        rows = names.branch_rows(tree).get(name, [])
        if len(rows) > 1:
            raise TargetMissingError(
                f"{handle} is ambiguous: {len(rows)} branches of the session have this name; point "
                "to the last entry of one of them by a path",
                str(handle),
            )
        row = names.tips(tree)[rows[0]] if rows else tree.last_on(name)
        return None if row == NO_ROW else reader.entry_at(row)


class _Spent:
    """What the paths that are resolved together took so far."""

    def __init__(self) -> None:
        self._entries = 0
        self._bytes = 0

    def take(self, handle: Handle, entries: int, size: int) -> None:
        """Count what a path takes.

        Raises:
            TargetRefusedError: the paths take too much.
        """
        entries, size = self._entries + entries, self._bytes + size
        if entries > MAX_ENTRIES or size > LARGEST:
            raise TargetRefusedError(
                f"{handle} is not resolved: it has, with the other paths that are resolved with "
                f"it, more than {MAX_ENTRIES:,} entries or {LARGEST:,} bytes; point to an entry, "
                "or to a path with a compaction",
                str(handle),
            )
        self._entries, self._bytes = entries, size

    def read(self, handle: Handle, session: HandleSession, leaf: Entry) -> None:
        """Count the entries that the context at an entry needs."""
        first_kept: Any = None
        with session.cursor.alone():
            for entry in session.cursor.up(leaf):
                self.take(handle, 1, len(entry.line) + _content_beside(entry))
                if first_kept is None and entry.type == "compaction":
                    first_kept = entry.as_stored.get("firstKeptEntryUuid")
                if entry.uuid == first_kept:
                    return


def _content_beside(entry: Entry) -> int:
    """The bytes of the blobs that the message of an entry has."""
    if not may_name_blob(entry.line):
        return 0
    keys = entry.as_stored
    blobs = list(blobs_needed(keys))
    if entry.type == "handle":
        media_type = base_type(media_type_in(keys.get("handle")))
        blobs = [blob for blob in blobs if is_shown(media_type, blob.size)]
    return sum(blob.size for blob in blobs)


_T = TypeVar("_T")

MAX_OPEN: Final = 64  # other sessions


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

    def resolve(self, handle: Handle, scope: ResolverScope) -> ResolvedHandle:
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
        if self._links > 40:
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

    def resolve(self, handle: Handle, scope: ResolverScope) -> ResolvedHandle:
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

    def resolve(self, handle: Handle, scope: ResolverScope) -> ResolvedHandle:
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
                    return StoredMessage(handle, "message", message)
            elif entry is not None and handle.method == "path":
                return path_document(handle, session, entry, within)
            elif entry is not None:
                return _resolved(handle, entry, within)
            near = near or similar_uuids(session.reader, handle.meta[1])
        raise TargetMissingError(
            f"{handle} points to an entry that session {handle.meta[0]} does not have{near}",
            str(handle),
        )

    def _resolved_branch(self, handle: Handle, scope: ResolverScope) -> ResolvedHandle:
        for session in _sessions(handle, scope, self._may_read):
            leaf = branch_leaf(handle, session.reader)
            if leaf is not None:
                return path_document(handle, session, leaf, scope.within(session))
        raise TargetMissingError(
            f"{handle} points to a branch or lane that session {handle.meta[0]} does not have",
            str(handle),
        )


def _entry_of(session: HandleSession, uuid: str, scope: ResolverScope) -> Entry | None:
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


def _resolved(handle: Handle, entry: Entry, scope: ResolverScope) -> ResolvedHandle:
    kind = entry.type
    if kind == "handle":
        return scope.follow(*pointer_of(entry))
    message = entry.get("message")
    if kind == "message" and isinstance(message, dict):
        return StoredMessage(handle, "message", message)
    if kind == "compaction" or kind in SUMMARIES:
        role = "compactionSummary" if kind == "compaction" else "branchSummary"
        return StoredMessage(handle, "message", summary_message(role, entry))
    if kind == "custom_message":
        return StoredMessage(handle, "message", custom_message(entry))
    document = {key: entry[key] for key in entry if key not in ("spilled", "crc")}
    return ResolvedHandle(handle, "document", document)


def block_of(
    handle: Handle, reader: TreeReader, entry: Entry | None, scope: ResolverScope | None = None
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
        return {"role": message["role"], "content": [blocks[index]]}
    if entry is not None and entry.type not in ("block", "message_end"):
        raise TargetMissingError(
            f"{handle} points to a block of a {entry.type}, which has none", str(handle)
        )
    if entry is not None:
        uuid = message_uuid(entry)
    streamed = _kept(found, (id(reader), uuid), lambda: _Streamed.read(reader, uuid))
    block = streamed.blocks.get(index)
    if isinstance(block, dict):
        return {"role": streamed.role, "content": [block]}
    if streamed.is_there:
        raise _no_block(handle, len(streamed.blocks))
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
    """A message that was written block by block."""

    def __init__(self, members: Sequence[Entry]) -> None:
        self.blocks = {index: block.get("block") for index, block in numbered(members).items()}
        self.is_there = bool(members)
        _, end = ordered(members)
        self.role = (end and role_of_entry(end)) or "assistant"

    @classmethod
    def read(cls, reader: TreeReader, uuid: str) -> Self:
        """Read the whole file."""
        pieces = (entry for entry in reader.entries() if entry.type in PIECES)
        return cls([entry for entry in pieces if message_uuid(entry) == uuid])


def _sessions(
    handle: Handle, scope: ResolverScope, may_read: MayRead | None
) -> Iterator[HandleSession]:
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


def _opened(file: str, scope: ResolverScope) -> HandleSession:
    """Another session, opened to read; a limited number of them is open at a time."""
    opened: dict[str, HandleSession] = scope.found.setdefault(_opened, {})
    session = opened.pop(file, None) or scope.opened.enter_context(scope.session.beside(file))
    opened[file] = session  # the one used last is the last
    if len(opened) > MAX_OPEN:
        idle = (one for one in opened if one != file and not scope.is_in(opened[one].id))
        if (least_used := next(idle, None)) is not None:
            opened.pop(least_used).__exit__(None, None, None)
    return session
