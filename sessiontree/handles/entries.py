"""The handles of entries: what they point to, and the messages that a context makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sessiontree.context.resolved import ResolvedHandle, is_shown, message_of, only_named
from sessiontree.core.blob import blob_of
from sessiontree.core.blocks import Resolution as Contribution
from sessiontree.core.blocks import Shown, role_of_entry
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Handle
from sessiontree.core.media import base_type
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.handles.registry import Resolution, Scope, Step

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
        BlobError: the handle was spilled.
    """
    handle, older = Handle.from_json(entry.get("handle"))
    own = entry.as_stored.get("metadata")
    return handle, {**(older or {}), **(own if isinstance(own, Mapping) else {})}


def resolved_entries(entries: Sequence[Entry], scope: Scope) -> list[ResolvedEntry]:
    """The entries, each with the content of its handle or the error; resolved together."""
    return _resolved_by(entries, [_pointer_if_any(entry) for entry in entries], scope)


def _resolved_by(
    entries: Sequence[Entry], pointers: Sequence[_Pointer | None], scope: Scope
) -> list[ResolvedEntry]:
    """The same, with what each entry points to."""
    wanted = [one for one in pointers if isinstance(one, tuple)]
    found = iter(scope.resolve_all([one[0] for one in wanted], [one[1] for one in wanted]))
    return [
        ResolvedEntry(entry, next(found) if isinstance(one, tuple) else one)
        for entry, one in zip(entries, pointers, strict=True)
    ]


def messages(entries: Sequence[Entry], scope: Scope) -> list[Contribution]:
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


def _only_named(entry: Entry, pointer: _Pointer | None) -> Shown | None:
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
    return Shown({"role": role_of_entry(entry) or "user", "content": content}, lack)
