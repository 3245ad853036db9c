"""A conversation as events: the content of a path, block by block, each with its position.

All content counts, whatever a compaction or an edit changed since; `Session.context` is for
what a model gets. Missing content is a placeholder, with a warning.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sessiontree.core.blocks import EntryContents, is_handle_of_message, message_uuid
from sessiontree.core.entry import ANNOTATIONS, HEADER, Entry
from sessiontree.core.message import (
    block_text,
    blocks_of,
    calls_beside,
    is_item,
    kind_of,
    numbered_blocks,
    preview_of,
    result_ids,
    role_of,
)
from sessiontree.errors import SessionTreeError, UsageError, warn
from sessiontree.recording.events import (
    AssistantMessage,
    ContentEnd,
    Passthrough,
    Position,
    StoredEvent,
    ThinkingEnd,
    ToolResult,
    ToolUseEnd,
)
from sessiontree.recording.lane import PREFIX, ended, heard
from sessiontree.views.messages import with_messages

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor, Ref

_PIECES = ("block", "message_end")


def conversation(cursor: Cursor, ref: Ref | None = None) -> Iterator[StoredEvent]:
    missing: list[str] = []
    contents = EntryContents(None, False, missing)
    path = [contents.whole(entry) for entry in cursor.path(ref)]
    for cause in missing:
        warn(cause)
    pieces: dict[str, list[Entry]] = {}
    for entry in path:
        if entry.type in _PIECES:
            pieces.setdefault(message_uuid(entry), []).append(entry)
    lack = "the content is not among the events"
    for entry, resolved in with_messages(path, cursor.messages, lack):
        if entry.type in _PIECES:
            members = pieces[message_uuid(entry)]
            found = _of_pieces(members) if members[0] is entry else iter(())
        elif entry.type == "message" or resolved is not None:
            found = _of_message(entry, entry.get("message") if resolved is None else resolved)
        elif entry.type in ANNOTATIONS or entry.type == HEADER:
            continue
        else:
            found = _other(entry)
        for event in found:
            yield event if entry.lane is None else msgspec.structs.replace(event, lane=entry.lane)


def block(cursor: Cursor, ref: Ref, index: int) -> dict[str, Any]:
    if not isinstance(index, int) or isinstance(index, bool):
        raise UsageError(f"a block is named by a number, counted from 0, not by {index!r:.60}")
    entry = cursor.entry(ref)
    if entry.type in _PIECES:
        uuid = entry.get("messageUuid")
        members = [e for e in cursor.path(entry) if e.get("messageUuid") == uuid]
        below = (e for e in cursor.path() if e.get("messageUuid") == uuid)
        members += [e for e in below if e not in members]
        blocks = {index: each["block"] for index, each in _by_index(members).items()}
    elif isinstance(message := _message_of(cursor, entry), Mapping):
        blocks = dict(enumerate(numbered_blocks(message)))
    else:
        raise UsageError(f"entry {entry.uuid} is a {entry.type}, which has no blocks")
    if index not in blocks:
        has = f"it has {len(blocks)}, counted from 0" if blocks else "it has none"
        raise UsageError(f"the message of entry {entry.uuid} has no block {index}; {has}")
    return dict(blocks[index])


def _message_of(cursor: Cursor, entry: Entry) -> Any:
    if not is_handle_of_message(entry):
        return entry.get("message") if entry.type == "message" else None
    found = cursor.messages([entry])[0]
    if isinstance(found, SessionTreeError):
        raise found
    return found.message


def _of_pieces(members: Sequence[Entry]) -> Iterator[StoredEvent]:
    for index, entry in sorted(_by_index(members).items()):
        yield from ended(entry["block"], Position(entry.uuid, index))
    ends = [entry for entry in members if entry.type == "message_end"]
    last = ends[-1] if ends else members[-1]
    reason = last.get("stopReason") if ends else None
    yield AssistantMessage(position=Position(last.uuid), stop_reason=reason)


def _of_message(entry: Entry, message: Any) -> Iterator[StoredEvent]:
    if not isinstance(message, Mapping):
        yield from _other(entry)
        return
    role, uuid = role_of(message), entry.uuid
    place = Position(uuid, 0) if is_item(message) else Position(uuid)
    if role == "assistant":
        for index, block in enumerate(blocks_of(message)):
            position = Position(uuid, index)
            if text := block_text(block):
                yield ContentEnd(position=position, text=text)
            else:
                yield from ended(block, position)
        yield from _apart_from_content(message, place)
        reason = message.get("stopReason", message.get("stop_reason"))
        yield AssistantMessage(
            position=Position(uuid), stop_reason=reason if isinstance(reason, str) else None
        )
    elif role == "user":
        yield from heard(message, uuid)
    elif ids := result_ids(message):
        is_error = message.get("isError") is True
        output = preview_of(message)
        yield ToolResult(position=place, tool_use_id=ids[0], output=output, is_error=is_error)
    else:
        yield Passthrough(event_type=role, position=Position(uuid), data=message)


def _apart_from_content(message: Mapping[str, Any], position: Position) -> Iterator[StoredEvent]:
    """Content beside `content` in OpenAI's shapes: calls, and thinking that is a message."""
    summary = message.get("summary")
    if kind_of(message) == "reasoning":
        pieces = summary if isinstance(summary, list) else []
        texts = (block_text(piece) for piece in pieces if isinstance(piece, Mapping))
        yield ThinkingEnd(position=position, text="\n\n".join(filter(None, texts)))
    for call in calls_beside(message):
        input = call.arguments
        if isinstance(input, str):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                input = msgspec.json.decode(input)
        yield ToolUseEnd(position=position, tool_use_id=call.id, tool_name=call.name, input=input)


def _other(entry: Entry) -> Iterator[StoredEvent]:
    kind, data = entry.type, entry.body
    if kind == "custom":
        kind, data = str(entry.get("customType")).removeprefix(PREFIX), entry.get("data")
    yield Passthrough(event_type=kind, position=Position(entry.uuid), data=data)


def _by_index(members: Sequence[Entry]) -> dict[int, Entry]:
    """The blocks of a message written block by block; of one index the latest counts."""
    return {
        entry["index"]: entry
        for entry in members
        if entry.type == "block"
        and isinstance(entry.get("index"), int)
        and isinstance(entry.get("block"), Mapping)
    }
