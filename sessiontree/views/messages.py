"""Messages of entries, with those behind handles, and the entries of a call.

An operation asks for a message only where the `handle` entry itself does not answer. The entries of
a tool call are the call and its results, also those behind handles.

Invariants: handles that follow each other are resolved together, a limited number at once; one that
cannot be resolved has no message, and hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, overload

from msgspec.structs import replace

from sessiontree.context.compaction import Summarized, Summary, text_of_summary
from sessiontree.core.blocks import (
    Resolution,
    Resolve,
    ShownHandle,
    is_handle_of_message,
    message_uuid,
    role_of_entry,
)
from sessiontree.core.entry import CONTENT, PIECES, Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.message import (
    FAILURE,
    REPEATS,
    TYPED,
    Message,
    begins_turn,
    calls_of,
    failure_in,
    is_prompt,
    message_in,
    repeated_by,
    result_ids,
    typed_text,
)
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import SessionTreeError, UsageError, warn

AT_ONCE: Final = 1000
"""The most handles that are resolved together."""

_TYPED: Final = b'"%b"' % TYPED.encode()
_FAILURE: Final = b'"%b"' % FAILURE.encode()
_IS_META: Final = b"isMeta"
_REPEATS: Final = b'"%b"' % REPEATS.encode()
_WAITING: Final = 8 * 1024 * 1024
"""The most bytes of entries that wait for the handles among them."""


class ResolvedMessages:
    """What handles resolve to; each is resolved once."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._found: dict[Entry, Resolution] = {}

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Resolve the handles of messages among entries together."""
        new = [e for e in entries if is_handle_of_message(e) and e not in self._found]
        if new:
            self._found.update(zip(new, self._resolve(new), strict=True))

    def of(self, entry: Entry) -> Message | None:
        """The message that a `handle` entry resolves to; None where it has none."""
        self.prepare([entry])
        found = self._found.get(entry)
        return found.message if isinstance(found, ShownHandle) else None

    def begins_turn(self, entry: Entry) -> bool:
        """Whether an entry is a prompt.

        A handle of another role than `user` is not, and is not resolved. One of the role `user`
        that cannot be resolved is.
        """
        if entry.type == "message" or not may_be_prompt(entry):
            return begins_turn_with(entry, None)
        return begins_turn_with(entry, self.of(entry))

    def warn(self, lack: str) -> None:
        """Give a warning if handles were not resolved, with what is lacking because of it."""
        failed = [one for one in self._found.values() if isinstance(one, SessionTreeError)]
        warn_of(len(failed), failed[0] if failed else None, lack)


def begins_turn_with(entry: Entry, message: Message | None) -> bool:
    """Whether an entry is a prompt; `message` is what a handle resolves to, None if it cannot."""
    if entry.type == "message":
        return _begins_turn(entry)
    if not may_be_prompt(entry):
        return is_typed(entry)
    message = message or {"role": role_of_entry(entry), "content": "?"}
    return begins_turn({"message": message, "metadata": entry.get("metadata")})


def is_shown_as_prompt(entry: Entry) -> bool:
    """True if an entry is a prompt as far as its own line says; no handle is resolved.

    So each handle of a message with the role `user` is a prompt.
    """
    return begins_turn_with(entry, None)


def _begins_turn(entry: Entry) -> bool:
    """The same of a message; few lines are decoded whole for that."""
    message = entry.message_as_stored
    if isinstance(message, dict):
        if not is_prompt(message):
            return False
        line = entry.line
        is_plain = _IS_META not in line and _REPEATS not in line
        if is_plain and b"\\u" not in line:  # no mark of a program, however written
            return begins_turn({"message": message})
    return begins_turn(entry.as_stored)


def is_typed(entry: Entry) -> bool:
    """Whether an entry is a prompt that no message has."""
    return typed_in(entry) is not None


def typed_in(entry: Entry) -> str | None:
    """The text of a prompt that no message has; None for any other entry."""
    if entry.type != "custom" or _TYPED not in entry.line:
        return None
    return typed_text(entry.as_stored)


def failure_of(entry: Entry) -> str | None:
    """The error that ended a turn without being an answer; None for any other entry."""
    if entry.type != "custom" or _FAILURE not in entry.line:
        return None
    return failure_in(entry.as_stored)


def repeated_in(entry: Entry) -> str | None:
    """See `repeated_by`; most lines need no decoding for it."""
    return repeated_by(entry.as_stored) if _REPEATS in entry.line else None


def is_of_compaction(entry: Entry) -> bool:
    """True if a compaction lists an entry, which repeats another one or not."""
    if _REPEATS not in entry.line:
        return False
    metadata = entry.as_stored.get("metadata")
    return isinstance(metadata, dict) and REPEATS in metadata


def is_repeat(entry: Entry, index: Callable[[], TreeIndex]) -> bool:
    """True if an entry repeats another one of its session, so people do not read it again."""
    repeated = repeated_in(entry)
    return repeated is not None and index().row(repeated) != NO_ROW


def is_said(entry: Entry) -> bool:
    """Whether people read an entry as part of the conversation, also where no context has it."""
    return entry.type in CONTENT or is_typed(entry) or failure_of(entry) is not None


def may_be_prompt(entry: Entry) -> bool:
    """Whether an entry is a handle that has to be resolved to know if it is a prompt."""
    return is_handle_of_message(entry) and role_of_entry(entry) in (None, "user")


def warn_of(count: int, first: SessionTreeError | None, lack: str) -> None:
    """Give a warning about handles that were not resolved."""
    if count:
        handles = "1 handle" if count == 1 else f"{count:,} handles"
        warn(f"{handles} cannot be resolved, so {lack}: {first}")


def with_messages(
    entries: Iterable[Entry],
    resolve: Resolve,
    lack: str = "",
    is_wanted: Callable[[Entry], bool] = is_handle_of_message,
) -> Iterator[tuple[Entry, Message | None]]:
    """Each entry in its order, with the message that it is a handle of.

    Args:
        entries: the entries.
        resolve: resolves the handles.
        lack: what is lacking if a handle cannot be resolved, for a warning; empty for none.
        is_wanted: whether an entry, which is a handle of a message, is resolved.
    """
    waiting: list[Entry] = []
    failed: list[SessionTreeError] = []
    size = 0

    def given() -> Iterator[tuple[Entry, Message | None]]:
        wanted = [is_handle_of_message(entry) and is_wanted(entry) for entry in waiting]
        handles = [entry for entry, one in zip(waiting, wanted, strict=True) if one]
        found = iter(resolve(handles))
        for entry, one in zip(waiting, wanted, strict=True):
            resolution = next(found) if one else None
            if isinstance(resolution, SessionTreeError):
                failed.append(resolution)
            yield entry, resolution.message if isinstance(resolution, ShownHandle) else None

    for entry in entries:
        if not waiting and not (is_handle_of_message(entry) and is_wanted(entry)):
            yield entry, None
            continue
        waiting.append(entry)
        size += len(entry.line)
        if len(waiting) == AT_ONCE or size > _WAITING:
            yield from given()
            waiting, size = [], 0
    if waiting:
        yield from given()
    if lack:
        warn_of(len(failed), failed[0] if failed else None, lack)


def pieces_of(cursor: Cursor, piece: Entry) -> list[Entry]:
    """The pieces of a streamed message on the path to one of them, and below it on the current."""
    uuid = message_uuid(piece)

    def is_one(entry: Entry) -> bool:
        return entry.type in PIECES and message_uuid(entry) == uuid

    below = takewhile(lambda entry: entry != piece, cursor.up())
    found = list(filter(is_one, below)) if cursor.is_above(piece) else []
    above = takewhile(lambda entry: is_one(entry) or not entry.is_content, cursor.up(piece))
    found += filter(is_one, above)
    found.reverse()
    return found


class ResolvedEntries(Summarized):
    """Entries of which each `handle` has the message it resolves to, as `entry["message"]`.

    Nothing is resolved before it is read. `request` gives their `text`.
    """

    def __init__(
        self, entries: Sequence[Entry], resolve: Resolve, request: Callable[[], str]
    ) -> None:
        self._entries = entries
        self._resolve = resolve
        self._request = request

    @property
    def text(self) -> str:
        """See `Summarized.text`."""
        return self._request()

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        if isinstance(at, slice):
            return list(self._resolved(self._entries[at]))
        return next(self._resolved([self._entries[at]]))

    def __iter__(self) -> Iterator[Entry]:
        return self._resolved(self._entries)

    def _resolved(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        lack = "the summarizer gets no message of them"
        for entry, message in with_messages(entries, self._resolve, lack):
            yield entry if message is None else replace(entry, message_value=message)


class ReadEntries(Summarized):
    """Entries that were read, with their text, for use outside the session's thread."""

    def __init__(self, entries: ResolvedEntries) -> None:
        self._entries = list(entries)
        self._text = entries.text

    @property
    def text(self) -> str:
        """See `Summarized.text`."""
        return self._text

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        return self._entries[at]


def summary_text(
    cursor: Cursor,
    summary: Summary,
    entries: Sequence[Entry],
    request: Callable[[], str],
    instructions: str | None,
) -> str:
    """A summary as text; a summarizer gets the messages of handles too.

    `request` gives the text for a model.
    """
    given = ResolvedEntries(entries, cursor.messages, request)
    return text_of_summary(summary, given, instructions)


def find(cursor: Cursor, type: str | None, tool_call_id: str | None) -> list[Entry]:
    """See `Session.find`."""
    if type is None and tool_call_id is None:
        raise UsageError("find needs a criterion; give type=… or tool_call_id=…")
    if tool_call_id is None:
        return cursor.reader.of_type(type or "")
    needle = _spelling(tool_call_id)
    likely = (
        entry
        for entry in (cursor.reader.entries() if type is None else cursor.reader.of_type(type))
        if needle is None
        or needle in entry.line
        or entry.type == "handle"
        or has_escapes(entry.line)
    )
    lack = "the tool calls are not found"
    found = with_messages(likely, cursor.messages, lack, lambda e: role_of_entry(e) != "system")
    return [entry for entry, message in found if _names_call(entry, message, tool_call_id)]


def _spelling(text: str) -> bytes | None:
    """The bytes of a string in any line; None if JSON may spell it in another way."""
    is_plain = text.isascii() and text.replace("_", "").replace("-", "").isalnum()
    return text.encode() if is_plain else None


def _names_call(entry: Entry, resolved: Message | None, id: str) -> bool:
    message = message_in(entry.as_stored) if resolved is None else resolved
    if message is None:
        return False
    return id in result_ids(message) or any(call.id == id for call in calls_of(message))
