"""Resolving the handles of a session: one, many, along a path, over a tree.

Nothing here is called by looking at a session: only who asks for content waits
for it. A failure belongs to its handle: it never hides what others resolve to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessiontree.context.resolved import (
    ResolvedHandle,
    base_type,
    carried_of,
    is_shown,
    message_of,
    only_named,
    role_of_entry,
)
from sessiontree.core.blocks import Resolution as Contribution
from sessiontree.core.blocks import Shown
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Handle, check_metadata
from sessiontree.core.message import Message
from sessiontree.engine.cursor import Ref
from sessiontree.errors import (
    BlobError,
    HandleError,
    SessionTreeError,
    TargetMissingError,
    UsageError,
)
from sessiontree.handles.builtin import block_of, nearest
from sessiontree.handles.registry import HandleSession, Registry, Resolution, Scope
from sessiontree.handles.schema import KINDS, Kind

class ResolvedEntry:
    """An entry, and what its handle resolved to.

    Attributes:
        entry: the entry.
        resolved: what its handle points to; None where it has none, or it failed.
        error: why it could not be resolved, or None.
        children: in a tree, the same of the entries below; in a path none.
    """

    __slots__ = ("children", "entry", "error", "resolved")

    def __init__(self, entry: Entry, found: Resolution | None = None) -> None:
        self.entry = entry
        self.resolved = found if isinstance(found, ResolvedHandle) else None
        self.error = found if isinstance(found, SessionTreeError) else None
        self.children: list[ResolvedEntry] = []

    def __repr__(self) -> str:
        return f"<ResolvedEntry {self.entry!r} {self.error or self.resolved!r:.80}>"


class HandleScope:
    """Resolves the handles of one session.

    Args:
        session: the session that the handles are in.
        registry: knows the resolvers; by default those built in and installed.
        root: the folder that `file` handles are below; without it none is read.
    """

    def __init__(self, session: HandleSession, registry: Registry | None, root: str | None) -> None:
        self._session = session
        self._registry = registry
        self._root = root

    def _scope(self) -> Scope:
        return Scope(self._registry or Registry.default(), self._session, self._root)

    def resolve(self, handle: Handle | str) -> ResolvedHandle:
        """See `Session.resolve`."""
        with self._scope() as scope:
            return scope.resolve(handle)

    def resolve_many(self, handles: Iterable[Handle | str]) -> list[Resolution]:
        """See `Session.resolve_many`."""
        with self._scope() as scope:
            return scope.resolve_many(handles)

    def resolved_path(self, ref: Ref | None) -> list[ResolvedEntry]:
        """See `Session.resolved_path`."""
        with self._scope() as scope:
            return _resolved_entries(self._session.cursor.path(ref), scope)

    def resolved_tree(self, ref: Ref | None) -> ResolvedEntry:
        """See `Session.resolved_tree`; every entry is in memory at once."""
        cursor = self._session.cursor
        reader = cursor.reader
        top = reader.header if ref is None else cursor.entry(ref)
        index = reader.index()
        rows = index.subtree(reader.row(top))
        with self._scope() as scope:
            found = _resolved_entries([reader.entry_at(row) for row in rows], scope)
        nodes = dict(zip(rows, found, strict=True))
        for row in rows:
            above = nodes.get(index.parents[row])
            if above is not None:
                above.children.append(nodes[row])
        return nodes[reader.row(top)]

    def _contribution(found: ResolvedEntry) -> Contribution:
    if found.resolved is not None:
        return message_of(found.resolved, found.entry)
    return _why_not(found)


def _why_not(found: ResolvedEntry) -> SessionTreeError:
    return found.error or UsageError(f"entry {found.entry.uuid} has no handle to resolve")


def _only_named(entry: Entry) -> Shown | None:
    """The message of a blob that is only named; None for any other handle."""
    handle = handle_of(entry)
    if isinstance(handle, SessionTreeError) or (handle.plugin, handle.method) != ("blob", "sha256"):
        return None
    if len(handle.meta) != 3 or not handle.meta[1].isdecimal():
        return None
    media_type, size = base_type(handle.meta[2]), int(handle.meta[1])
    if is_shown(media_type, size):
        return None
    content, lack = only_named(handle, media_type, size)
    return Shown({"role": role_of_entry(entry) or "user", "content": content}, lack)
