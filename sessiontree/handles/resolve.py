"""Resolving the handles of a session: one, many, along a path, over a tree.

Invariants: reading entries resolves nothing until the content is asked for; an error affects its
own handle only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sessiontree.context.resolved import ResolvedHandle, carried_of
from sessiontree.core.blocks import Place, place_of
from sessiontree.core.blocks import Resolution as Contribution
from sessiontree.core.entry import Entry
from sessiontree.core.handle import KINDS, Handle, Kind, check_metadata
from sessiontree.core.message import Message
from sessiontree.engine.cursor import Ref
from sessiontree.errors import BlobError, HandleError, SessionTreeError, TargetMissingError
from sessiontree.handles.builtin import (
    ResolvedEntry,
    block_of,
    branch_leaf,
    error_of,
    messages,
    resolved_entries,
    similar_uuids,
)
from sessiontree.handles.registry import HandleSession, Registry, Resolution, ResolverScope

if TYPE_CHECKING:
    from sessiontree.engine.logtree import LogTree


class HandleScope:
    """Resolves the handles of one session, by default with all built-in and installed resolvers.

    `root` is the folder for `file` handles; without a root, no file is read.
    """

    def __init__(
        self, session: HandleSession, registry: Registry | None = None, root: str | None = None
    ) -> None:
        self._session = session
        self._registry = registry
        self._root = root
        self._kept: tuple[LogTree, int, dict[Any, Any]] | None = None
        self._failed: dict[Place, SessionTreeError] | None = None

    def _scope(self) -> ResolverScope:
        view = self._session.reader.view
        size = view.size
        kept = self._kept  # read once: another thread may see a session that has grown
        if kept is None or kept[:2] != (view, size):
            kept = self._kept = view, size, {}
        registry = self._registry or Registry.default()
        return ResolverScope(registry, self._session, self._root, kept[2])

    def resolve(self, handle: Handle | str | Mapping[str, Any]) -> ResolvedHandle:
        """See `Session.resolve`."""
        with self._scope() as scope:
            return scope.resolve(handle)

    def resolve_many(self, handles: Iterable[Handle | str | Mapping[str, Any]]) -> list[Resolution]:
        """See `Session.resolve_many`."""
        with self._scope() as scope:
            return scope.resolve_many(handles)

    def resolved_path(self, ref: Ref | None = None) -> list[ResolvedEntry]:
        """See `Session.resolved_path`."""
        return self.resolved(self._session.cursor.path(ref))

    def resolved(self, entries: Sequence[Entry]) -> list[ResolvedEntry]:
        """The entries, each with the content of its handle or with the error."""
        with self._scope() as scope:
            return resolved_entries(entries, scope)

    def resolved_tree(self, ref: Ref | None = None) -> ResolvedEntry:
        """See `Session.resolved_tree`; every entry is in memory at once."""
        cursor = self._session.cursor
        reader = cursor.reader
        with cursor.alone():  # one moment: another thread may write, or replace the log
            index = reader.index()
            top = reader.row(reader.header if ref is None else cursor.entry(ref))
            rows = index.subtree(top)
            parents = [index.parents[row] for row in rows]
            entries = [reader.entry_at(row) for row in rows]
        with self._scope() as scope:
            found = resolved_entries(entries, scope)
        nodes = dict(zip(rows, found, strict=True))
        for row, parent in zip(rows, parents, strict=True):
            above = nodes.get(parent)
            if above is not None:
                above.children.append(nodes[row])
        return nodes[top]

    def messages(self, entries: Sequence[Entry]) -> list[Contribution]:
        """What `handle` entries contribute to a context, or the error of each.

        A blob of which a model gets the name only is not read.
        """
        failed = self._failed
        if failed is None:
            with self._scope() as scope:
                return messages(entries, scope)
        new = [entry for entry in entries if place_of(entry) not in failed]
        with self._scope() as scope:
            found = iter(messages(new, scope) if new else [])
        made = []
        for entry in entries:
            place = place_of(entry)
            contribution = failed[place] if place in failed else next(found)
            if isinstance(contribution, SessionTreeError):
                failed[place] = contribution
            made.append(contribution)
        return made

    @contextmanager
    def failing_once(self) -> Iterator[None]:
        """Resolve no handle again that cannot be resolved, during an operation that asks often."""
        before, self._failed = self._failed, {}
        try:
            yield
        finally:
            self._failed = before

    def whole_message(self, entry: Entry) -> Message:
        """The message of a `handle` entry, with all its bytes in it; else the error."""
        with self._scope() as scope:
            found = resolved_entries([entry], scope)[0]
        if found.resolved is None:
            raise error_of(found)
        return carried_of(found.resolved, entry)

    def entry_fields(
        self,
        handle: Handle | str | Mapping[str, Any],
        kind: Kind | None = None,
        role: str | None = None,
        preview: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The fields of a `handle` entry, checked as far as its plugin is known here.

        See `Session.append_handle`. The metadata of the older form goes below what is given. A
        handle of this very session that points to nothing in it is a HandleError.
        """
        parsed = (handle, None) if isinstance(handle, Handle) else Handle.from_json(handle)
        pointer, older = parsed
        registry = self._registry or Registry.default()
        schema = registry.check(pointer)
        if schema is not None:
            if kind is not None and kind != schema.kind:
                raise HandleError(
                    f"{schema.name} resolves to a {schema.kind}, not to a {kind!s:.40}; leave the "
                    "kind out",
                    "kind",
                )
            kind = schema.kind
        if kind is None:
            why = registry.unknown(pointer)
            raise HandleError(f"{why}; or give the kind, to keep {pointer} nevertheless", "kind")
        if kind not in KINDS:
            raise HandleError(f"a kind is one of {', '.join(KINDS)}, not {kind!r:.40}", "kind")
        for part, text in (("role", role), ("preview", preview)):
            if text is not None and (not isinstance(text, str) or not text):
                raise HandleError(f"a {part} is a string that is not empty, not {text!r:.40}", part)
        if older is not None:
            metadata = {**older, **(metadata or {})}
        check_metadata(metadata)
        _check_target(self._session, pointer)
        fields = {"role": role, "preview": preview, "metadata": metadata}
        given = {key: value for key, value in fields.items() if value is not None}
        return {"handle": str(pointer), "kind": kind, **given}


def _check_target(session: HandleSession, handle: Handle) -> None:
    """Refuse a handle of the session itself that points to nothing in it.

    Reads the whole file where no entry has the uuid.
    """
    reader = session.reader
    if handle.plugin != "session" or len(handle.meta) < 2 or handle.meta[0] != reader.id:
        return
    uuid = handle.meta[1]
    if handle.method == "branch":
        _check_branch(session, handle)
        return
    entry = session.cursor.by_uuid(uuid)
    if handle.method == "block" and len(handle.meta) == 3:
        try:
            block_of(handle, reader, entry)
        except TargetMissingError as error:
            raise HandleError(str(error), "meta[2]") from error
        except BlobError:
            pass  # it is there, and its content was lost
    if entry is not None:
        return
    has_pieces = handle.method != "path"
    pieces = [*reader.of_type("block"), *reader.of_type("message_end")] if has_pieces else []
    if all(piece.get("messageUuid") != uuid for piece in pieces):
        near = similar_uuids(reader, uuid)
        raise HandleError(f"{handle} names no entry of this session by its uuid{near}", "meta[1]")


def _check_branch(session: HandleSession, handle: Handle) -> None:
    try:
        leaf = branch_leaf(handle, session.reader)
    except TargetMissingError as error:
        raise HandleError(str(error), "meta[1]") from error
    if leaf is None:
        raise HandleError(f"{handle} names no branch and no lane of this session", "meta[1]")
