"""The path to an entry, or of a branch, as a document: what `session` handles of them resolve to.

The document has the messages of the context at the entry, so a compaction or an edit on the path
has its effect. Handles on the path are resolved too.

Invariants: what all paths that are resolved together read, and give, is limited; a path on another
path of the same session is not resolved there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sessiontree.context.resolved import ResolvedHandle, is_shown
from sessiontree.core.blob import MARK, blobs_needed
from sessiontree.core.entry import MAIN, Entry
from sessiontree.core.handle import Handle
from sessiontree.core.index import NO_ROW
from sessiontree.core.media import base_type
from sessiontree.engine.reader import TreeReader
from sessiontree.engine.refs import lane_leaf
from sessiontree.errors import (
    HandleCycleError,
    TargetMissingError,
    TargetRefusedError,
)
from sessiontree.handles.entries import messages
from sessiontree.handles.registry import HandleSession, Scope, json_of

MOST_ENTRIES: Final = 200_000
LARGEST: Final = 64 * 1024 * 1024
"""The most entries, and the most bytes of them and of their messages, of all paths together."""


def path_document(
    handle: Handle, session: HandleSession, leaf: Entry, scope: Scope
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
        row = names.tips(tree)[rows[0]] if rows else lane_leaf(name, tree)
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
        if entries > MOST_ENTRIES or size > LARGEST:
            raise TargetRefusedError(
                f"{handle} is not resolved: it has, with the other paths that are resolved with "
                f"it, more than {MOST_ENTRIES:,} entries or {LARGEST:,} bytes; point to an entry, "
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
                    first_kept = entry.get("firstKeptEntryUuid")
                if entry.uuid == first_kept:
                    return


def _content_beside(entry: Entry) -> int:
    """The bytes of the blobs that the message of an entry has."""
    if MARK not in entry.line:
        return 0
    keys = entry.as_stored
    blobs = list(blobs_needed(keys))
    if entry.type == "handle" and blobs:
        media_type = base_type(Handle.parse(str(keys["handle"])).meta[2])
        blobs = [blob for blob in blobs if is_shown(media_type, blob.size)]
    return sum(blob.size for blob in blobs)
