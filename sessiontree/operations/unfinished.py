"""An unfinished turn: what a crash or an interruption left undone, and the answer that broke off.

Invariant: a move ends the search, for whoever moved wants nothing answered there. The move of a
`retract` does not: what the answer replied to still waits, also if the program dies before it asks
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile, takewhile
from typing import Final, Literal, NamedTuple

from sessiontree.core.blocks import folded_message, is_handle_of_message, message_uuid
from sessiontree.core.entry import HEADER, MOVES, PIECES, Entry, edit_of, response_of
from sessiontree.core.message import (
    Message,
    blocks_of,
    calls_of,
    ends_in_thought,
    is_item,
    is_partial,
    kind_of,
    result_ids,
    role_of,
)
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.writer import EntryWriter
from sessiontree.errors import NothingToDoError
from sessiontree.operations.moves import RETRACTED, is_step_back, step_back
from sessiontree.views.messages import ResolvedMessages, pieces_of

Unfinished = Literal["prompt", "results", "partial"]

_ENDS: Final = MOVES | {"merge", HEADER}
_PAUSED: Final = "pause_turn"


class PathMessage(NamedTuple):
    last: Entry  # its last entry
    first: Entry  # its first entry
    message: Message
    begins_turn: bool


def unfinished(cursor: Cursor) -> Unfinished | None:
    """See `Session.unfinished`."""
    with cursor.alone():
        states = (_state_of(found) for found in _messages_up(cursor))
        state = next((state for state in states if state is not None), None)
        return state or None


def running_calls(cursor: Cursor) -> Entry | None:
    """The first entry of the last answer if a call of it has no result yet."""
    results: set[str] = set()
    with cursor.alone():
        for found in _messages_up(cursor, past_moves=True):
            if calls := {call.id for call in calls_of(found.message)}:
                is_done = calls <= results
                return None if is_done else _first_of_answer(cursor, found)
            results.update(result_ids(found.message))
            if found.begins_turn or role_of(found.message) == "assistant":
                return None
    return None


def retract(writer: EntryWriter) -> Entry:
    """See `Session.retract`."""
    cursor = writer.cursor
    with cursor.alone():
        newest = next(_messages_up(cursor, past_moves=True), None)
        if newest is None or _state_of(newest) != "partial":
            raise NothingToDoError(
                "the last message is not an answer that broke off; to ask again after a whole "
                "answer, 'branch' from the entry above it"
            )
        first = _first_of_answer(cursor, newest)
        above = writer.reader.parent(first)
    step_back(writer, RETRACTED, first, above)
    return newest.last


def _state_of(found: PathMessage) -> Unfinished | Literal[""] | None:
    """What is left to do after a message; empty: nothing; None if the message does not say it."""
    message, role = found.message, role_of(found.message)
    if result_ids(message) and not found.begins_turn:
        return "results"
    if found.begins_turn:
        return "prompt"
    if role != "assistant":
        return None
    if is_partial(message):
        return "partial"
    if calls_of(message) or _PAUSED in (message.get("stop_reason"), message.get("stopReason")):
        return "results"
    if ends_in_thought(message):
        return "partial"
    return None if is_item(message) else ""


def _messages_up(cursor: Cursor, *, past_moves: bool = False) -> Iterator[PathMessage]:
    """Yield the messages in force from the leaf up to the first move, each once."""
    messages = ResolvedMessages(cursor.messages)
    edits: dict[str, object] = {}  # by the uuid of the target; the lowest is in force
    passed: set[str] = set()  # streamed messages
    for entry in cursor.up():
        if cursor.lane is not None and entry.lane != cursor.lane:
            return  # nothing was written on the lane since it began
        if entry.type == "context_edit" and (edit := edit_of(entry)) is not None:
            edits.setdefault(*edit)
        if entry.type in _ENDS and not past_moves and not is_step_back(entry, RETRACTED):
            return
        if entry.type in PIECES:
            if message_uuid(entry) in passed:
                continue
            passed.add(message_uuid(entry))
            pieces = pieces_of(cursor, entry)
            if not _is_dropped(pieces, edits):
                yield PathMessage(entry, pieces[0], folded_message(pieces), begins_turn=False)
        elif entry.type == "message" or is_handle_of_message(entry):
            own = entry.message_as_stored if entry.type == "message" else messages.of(entry)
            if isinstance(own, dict) and not _is_dropped([entry], edits):
                yield PathMessage(entry, entry, own, messages.begins_turn(entry))


def _is_dropped(entries: list[Entry], edits: dict[str, object]) -> bool:
    return any(edits.get(entry.uuid, "") is None for entry in entries)


def _first_of_answer(cursor: Cursor, newest: PathMessage) -> Entry:
    """The first entry of an answer, which may be several messages."""
    above = dropwhile(lambda found: found != newest, _messages_up(cursor, past_moves=True))
    pieces = takewhile(lambda found: found == newest or _is_of_answer(found, newest), above)
    return [newest.first, *(found.first for found in pieces)][-1]


def _is_of_answer(found: PathMessage, newest: PathMessage) -> bool:
    """True if a message is a piece of the answer that the newest message ends.

    Pieces have one `id`, or are items of one response of OpenAI. An item that broke off is a
    message without an `id`.
    """
    message, last = found.message, newest.message
    if role_of(message) != "assistant":
        return False
    if "id" in last and last["id"] == message.get("id"):
        return True
    responses = {response_of(found.first), response_of(newest.first)} - {None}
    is_item = _is_of_responses(message) and ("id" not in last or _is_of_responses(last))
    return is_item and len(responses) < 2


def _is_of_responses(message: Message) -> bool:
    """True if a message may be an item of OpenAI Responses; Anthropic's have blocks of `text`."""
    blocks = blocks_of(message)
    return is_item(message) or (
        kind_of(message) == "message" and all(kind_of(block) != "text" for block in blocks)
    )
