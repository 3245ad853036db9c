"""Finding the entries of a tool call: the call and its results, also those behind handles."""

from __future__ import annotations

from sessiontree.core.blocks import role_of_entry
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, calls_of, message_in, result_ids
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import UsageError
from sessiontree.operations.messages import with_messages


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
        if needle is None or needle in entry.line or entry.type == "handle"
    )
    lack = "their tool calls are not found"
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
