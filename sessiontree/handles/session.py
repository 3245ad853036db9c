"""Entries and content blocks, of the session that a handle stands in or one beside it.

Another session is found by the id in its header, among the `.jsonl` files of the
same folder, and opened to read. What its handles point to is resolved in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sessiontree.context.contribution import custom_message, summary_message
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.blocks import message_uuid
from sessiontree.core.entry import HEADER, SUMMARIES, Entry, decode_leniently
from sessiontree.core.handle import Handle
from sessiontree.core.message import is_item, numbered_blocks
from sessiontree.errors import TargetMissingError
from sessiontree.handles.registry import Scope
from sessiontree.handles.schema import HandleSchema, MetaField
from sessiontree.storage.fs import READ, FileSystem
from sessiontree.storage.lines import rest_of_line

if TYPE_CHECKING:
    from sessiontree.engine.reader import Reader

_HEADER_LIMIT: Final = 1024 * 1024
"""Bytes of a first line that is looked at for an id."""

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


class SessionResolver:
    """Resolves `session@2.0.0::entry:…` and `session@2.0.0::block:…`."""

    schemas = (ENTRY, BLOCK)

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """An entry, or one block of it.

        Raises:
            TargetMissingError: no such session, entry or block.
            HandleCycleError: a handle entry leads back to itself.
        """
        near = ""
        for session in _sessions(handle, scope):
            entry = session._by_uuid(handle.meta[1])
            if handle.method == "block":
                message = block_of(handle, session, entry)
                if message is not None:
                    return ResolvedHandle(handle, "message", message)
            elif entry is not None:
                return _resolved(handle, entry, scope.within(session))
            near = near or nearest(session, handle.meta[1])
        raise TargetMissingError(
            f"{handle} points to an entry that session {handle.meta[0]} does not have{near}",
            str(handle),
        )


def nearest(session: Reader, uuid: str) -> str:
    """What to say of the entries whose uuids begin as one that is none; nothing where none do."""
    near = [whole for whole in session._index().uuids if whole.startswith(uuid)][:3]
    return f"; give its uuid whole: {', '.join(near)}" if near else ""


def _resolved(handle: Handle, entry: Entry, scope: Scope) -> ResolvedHandle:
    """What an entry stands for."""
    kind = entry.type
    if kind == "handle":
        return scope.resolve(Handle.from_json(entry.get("handle"))[0])
    message = entry.get("message")
    if kind == "message" and isinstance(message, dict):
        return ResolvedHandle(handle, "message", message)
    if kind in SUMMARIES:
        return ResolvedHandle(handle, "message", summary_message("branchSummary", entry))
    if kind == "compaction":
        return ResolvedHandle(handle, "message", summary_message("compactionSummary", entry))
    if kind == "custom_message":
        return ResolvedHandle(handle, "message", custom_message(entry))
    told = {key: entry[key] for key in entry if key not in ("spilled", "crc")}
    return ResolvedHandle(handle, "document", told)


def block_of(handle: Handle, session: Reader, entry: Entry | None) -> dict[str, Any] | None:
    """The message with one block that a handle points to in a session.

    Args:
        handle: of the method `block`, its meta sound.
        session: where the block is.
        entry: the entry of the handle's uuid there, or None.

    Returns:
        None where the session has nothing of that uuid.

    Raises:
        TargetMissingError: what has it has no such block; says how many there are.
    """
    uuid, index = handle.meta[1], int(handle.meta[2])
    if entry is not None and entry.type == "message":
        message = entry.get("message")
        blocks = numbered_blocks(message) if isinstance(message, dict) else []
        if index >= len(blocks):
            raise _no_block(handle, len(blocks))
        if is_item(message):
            return dict(message)
        return {"role": message.get("role") or "assistant", "content": [blocks[index]]}
    if entry is not None and entry.type not in ("block", "message_end"):
        raise TargetMissingError(
            f"{handle} points to a block of a {entry.type}, which has none", str(handle)
        )
    return _streamed_block(handle, session, uuid if entry is None else _whole(entry))


def _no_block(handle: Handle, count: int) -> TargetMissingError:
    has = f"the message has {count}, counted from 0" if count else "the message has none"
    return TargetMissingError(f"{handle} points to a block that is not there: {has}", str(handle))


def _whole(entry: Entry) -> str:
    """The message that an entry is a piece of."""
    return message_uuid(entry) or entry.uuid


def _streamed_block(handle: Handle, session: Reader, uuid: str) -> dict[str, Any] | None:
    """The same of a message that was written block by block; reads the whole file."""
    role, block, is_there = "assistant", None, False
    indices: set[int] = set()
    for entry in session.entries():
        if entry.type not in ("block", "message_end") or entry.get("messageUuid") != uuid:
            continue
        is_there = True
        if isinstance(index := entry.get("index"), int):
            indices.add(index)
        if entry.type == "message_end":
            role = entry.get("role") or role
        elif index == int(handle.meta[2]):
            block = entry.get("block")
    if isinstance(block, dict):
        return {"role": role, "content": [block]}
    if is_there:
        raise _no_block(handle, len(indices))
    return None


def _sessions(handle: Handle, scope: Scope) -> Iterator[Reader]:
    """The sessions of an id: this one, else those in its folder.

    Raises:
        TargetMissingError: there is none.
    """
    here = scope.session
    wanted = handle.meta[0]
    if here.id == wanted or "parentSession" in here.header:
        yield here  # a fork has copies of entries that it knows by the same uuid
    if here.id == wanted:
        return
    if here.file is None:
        raise TargetMissingError(
            f"{handle} points to another session, and one in memory stands beside none",
            str(handle),
        )
    folder = os.path.dirname(os.path.realpath(here.file))
    files = _files_of(folder, scope, here._disk)
    for file in files.get(wanted, ()):
        yield _opened(file, scope, here._disk)
    if wanted not in files:
        raise TargetMissingError(
            f"{handle} points to a session that is not in {folder}; put its file there", str(handle)
        )


def _files_of(folder: str, scope: Scope, fs: FileSystem) -> dict[str, list[str]]:
    """The session files of a folder by their ids, looked up once."""
    key = ("sessions", folder)
    if key not in scope.found:
        found: dict[str, list[str]] = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith(".jsonl"):
                file = os.path.join(folder, name)
                found.setdefault(_id_of(file, fs), []).append(file)
        scope.found[key] = found
    files: dict[str, list[str]] = scope.found[key]
    return files


def _id_of(file: str, fs: FileSystem) -> str:
    """The id in a session's header; empty where the file is no session."""
    try:
        found = fs.stat(file)
        if found.is_folder or found.is_stream:
            return ""
        fd = fs.open(file, READ)
        try:
            line = rest_of_line(lambda size, offset: fs.read(fd, size, offset), 0, _HEADER_LIMIT)
        finally:
            fs.close(fd)
    except OSError:
        return ""
    header = decode_leniently(line)
    if not isinstance(header, dict) or header.get("type") != HEADER:
        return ""
    return str(header.get("id", ""))


def _opened(file: str, scope: Scope, fs: FileSystem) -> Reader:
    """A session beside this one, opened once."""
    from sessiontree.session import Session  # which resolves handles, and so knows of this

    key = ("session", file)
    if key not in scope.found:
        scope.found[key] = scope.opened.enter_context(Session.open(file, readonly=True, fs=fs))
    session: Reader = scope.found[key]
    return session
