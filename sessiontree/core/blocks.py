"""Blocks and contents: messages folded from their blocks, and entries made whole.

`Blocks` folds messages that were written block by block. `EntryContents` restores spilled strings
and resolves handles.

Invariants: content that cannot be read is never left out in silence: a placeholder with the cause
takes its place, with a warning, or the error is raised where the caller is strict; a call or a
result keeps its id either way, so the context stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sessiontree.core.entry import RESERVED, REWRITTEN, Entry, stored
from sessiontree.core.handle import KINDS, text_form
from sessiontree.core.message import ABORTED, Message
from sessiontree.errors import (
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    ResolverFailedError,
    SessionTreeError,
)


class Blocks:
    """The messages written block by block, each at its first block's place."""

    def __init__(self, entries: Iterable[Entry], warnings: list[str]) -> None:
        self._warnings = warnings
        self._members: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.type in ("block", "message_end"):
                self._members.setdefault(message_uuid(entry), []).append(entry)

    def message_at(self, entry: Entry) -> tuple[Message, list[str]] | None:
        """The message that starts at an entry, and the uuids of all its entries."""
        is_piece = entry.type in ("block", "message_end")
        members = self._members.get(message_uuid(entry), []) if is_piece else []
        if not members or members[0] != entry:
            return None
        message = folded_message(members)
        if message.get("partial") is True:
            cause = "it broke off" if "stopReason" in message else "it has no end"
            self._warnings.append(f"message {entry.get('messageUuid')} is partial: {cause}")
        return message, [member.uuid for member in members]

    def ended_by(self, end: Entry) -> Message:
        """The message that a `message_end` among the entries ends."""
        return folded_message(self._members[message_uuid(end)])


def message_uuid(entry: Entry) -> str:
    """The uuid of the message that an entry is a piece of; empty where it names none."""
    uuid = entry.as_stored.get("messageUuid")  # like a role, it is never in a blob
    return uuid if isinstance(uuid, str) else ""


def folded_message(members: Sequence[Entry]) -> dict[str, Any]:
    """One message from its `block` entries and, where it was closed, its `message_end`.

    Blocks are ordered by `index`. A later block replaces an earlier one of the same index, and the
    last end counts. A message without an end, or whose end says that it broke off, is marked
    `"partial": true`.
    """
    blocks, end = ordered(members)
    content = [block for entry in blocks if isinstance(block := entry.get("block"), dict)]
    if end is None:
        return {"role": "assistant", "content": content, "partial": True}
    extra = {key: end[key] for key in end if key not in NOT_OF_MESSAGE}
    if extra.get("stopReason") == ABORTED:
        extra["partial"] = True
    role = end.get("role")
    role = role if isinstance(role, str) and role else "assistant"
    return {"role": role, "content": content, **extra}


NOT_OF_MESSAGE: Final = RESERVED | {REWRITTEN, "metadata", "messageUuid", "role", "content"}
"""The keys of a `message_end` that do not become keys of the message as they are."""


def ordered(members: Sequence[Entry]) -> tuple[list[Entry], Entry | None]:
    """The `block` entries of a message that count, in order, and the `message_end` that counts."""
    blocks = numbered(members)
    end = next((entry for entry in reversed(members) if entry.type == "message_end"), None)
    return [blocks[index] for index in sorted(blocks)], end


def numbered(members: Sequence[Entry]) -> dict[float, Entry]:
    """The `block` entries of a message that count, by their index."""
    blocks: dict[float, Entry] = {}
    for place, entry in enumerate(members):
        if entry.type == "block":
            index = entry.get("index")
            is_number = isinstance(index, int | float) and not isinstance(index, bool)
            blocks[index if is_number else place] = entry
    return blocks


class ShownHandle(NamedTuple):
    """The message of a `handle` entry."""

    message: Message
    lack: str = ""  # what of the content is not in it, in words; else empty


Resolution = ShownHandle | SessionTreeError

Resolve = Callable[[Sequence[Entry]], Sequence[Resolution]]
"""Takes `handle` entries, gives for each its message, or the error."""


Place = tuple[str, int]
"""The uuid of an entry and its offset: several entries of a damaged file may have a uuid."""


def place_of(entry: Entry) -> Place:
    """Return what identifies an entry in its file."""
    return entry.uuid, entry.offset


class EntryContents:
    """Makes entries whole for one context; `complete` is False once content could not be read.

    Without `resolve`, handles stay references. Where `strict`, content that cannot be read is an
    error; else every placeholder gives a warning.
    """

    def __init__(self, resolve: Resolve | None, strict: bool, warnings: list[str]) -> None:
        self.complete = True
        self._resolve = resolve
        self._strict = strict
        self._warnings = warnings
        self._stand_ins: dict[Place, Entry] = {}
        self._resolved: dict[Place, Resolution] = {}
        self._made: dict[Place, Message] = {}

    def whole(self, entry: Entry) -> Entry:
        """The entry, or one with placeholders where its blobs cannot be read."""
        if not entry.has_spilled:
            return entry
        place = place_of(entry)
        if place in self._stand_ins:
            return self._stand_ins[place]
        try:
            for key in entry:
                entry[key]
        except SessionTreeError as error:
            cannot = f"the spilled strings of {entry.type} {entry.uuid} cannot be read"
            self._note(f"{cannot}: {error}", error)
            like = Entry(entry.type, entry.uuid, entry.parent_uuid, entry.lane, entry.timestamp)
            entry = stored(like, entry.line, entry.offset, _without_blobs(entry, error))
            self._stand_ins[place] = entry
        return entry

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Resolve all handles among the entries at once."""
        if self._resolve is None:
            return
        wanted = [e for e in entries if e.type == "handle" and place_of(e) not in self._resolved]
        if wanted:
            found = self._resolve(wanted)
            self._resolved.update((place_of(e), r) for e, r in zip(wanted, found, strict=True))

    def of_handle(self, entry: Entry) -> Message:
        """The message of a `handle` entry: resolved, a reference, or a placeholder.

        A warning is given once for an entry, however often its message is asked for.
        """
        place = place_of(entry)
        if place not in self._made:
            self._made[place] = self._made_of(entry)
        return self._made[place]

    def _made_of(self, entry: Entry) -> Message:
        self.prepare([entry])
        found = self._resolved.get(place_of(entry))
        if isinstance(found, SessionTreeError):
            self._note(f"handle {entry.uuid} cannot be resolved: {found}", found)
            return reference(entry, f" cannot be resolved: {_cause(found)}")
        if found is None:
            return reference(entry)
        if found.lack:
            self._warnings.append(f"handle {entry.uuid} {found.lack}")
        return found.message

    def _note(self, warning: str, error: SessionTreeError) -> None:
        if self._strict:
            raise error
        self.complete = False
        self._warnings.append(warning)


def _cause(error: SessionTreeError) -> str:
    """Why content is missing, in words that do not depend on where the file is.

    The fault within a resolver is only in the warning.
    """
    if isinstance(error, ResolverFailedError):
        return "its resolver failed"
    if not isinstance(error, BlobError) or not error.sha256:
        return str(error).partition("; ")[0]  # what to do next is for people
    lost = "is missing" if isinstance(error, BlobMissingError) else "is not what it was"
    lost = "cannot be read" if isinstance(error, BlobUnreadableError) else lost
    return f"blob {error.sha256[:12]} {lost}"


def reference(entry: Entry, cause: str = "") -> Message:
    """A message that names a handle in place of its content."""
    text = handle_text(entry)
    content = f"[{text}{cause}]" if cause else text
    return {"role": role_of_entry(entry) or "user", "content": content}


def role_of_entry(entry: Entry) -> str | None:
    """The role of a `handle` entry, or None."""
    role = entry.as_stored.get("role")
    return role if isinstance(role, str) and role else None


_NO_MESSAGE: Final = tuple(kind for kind in KINDS if kind != "message")


def is_handle_of_message(entry: Entry) -> bool:
    """True if an entry is a handle, and its content may be a message."""
    return entry.type == "handle" and entry.as_stored.get("kind") not in _NO_MESSAGE


def handle_text(entry: Entry) -> str:
    """The text form of a `handle` entry's handle, in whatever form the line has it."""
    return text_form(entry.as_stored.get("handle"))


def _without_blobs(entry: Entry, error: SessionTreeError) -> Mapping[str, Any]:
    stored = entry.as_stored
    handles, text = _listed(stored), f"[missing: {_cause(error)}]"
    return {key: _replaced(part, handles, text) for key, part in stored.items() if key != "spilled"}


def _listed(stored: Mapping[str, Any]) -> list[Any]:
    """The handles that `spilled` lists, as far as it is well formed."""
    spilled = stored.get("spilled")
    places = spilled if isinstance(spilled, list) else []
    return [place[1] for place in places if isinstance(place, list) and len(place) in (2, 3)]


def _replaced(value: Any, handles: Sequence[Any], text: str) -> Any:
    """A value with a text in place of each handle; an image without its bytes becomes text."""
    if isinstance(value, str):
        return text if value in handles else value
    if isinstance(value, list):
        return [_replaced(part, handles, text) for part in value]
    if not isinstance(value, dict):
        return value
    if "type" in value and _bytes_are_missing(value, handles):
        return {"type": "text", "text": text}
    return {key: _replaced(part, handles, text) for key, part in value.items()}


def _bytes_are_missing(block: Mapping[str, Any], handles: Sequence[Any]) -> bool:
    source = block.get("source")
    found = [block.get("data"), block.get("image_url"), block.get("file_data")]
    if isinstance(source, dict):
        found += [source.get("data"), source.get("url")]
    if isinstance(found[1], dict):
        found.append(found[1].get("url"))
    return any(isinstance(part, str) and part in handles for part in found)
