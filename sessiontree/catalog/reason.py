"""Why a call was made: the turn that it is in, its prompt, and what the agent said before it.

Invariant: what a subagent did belongs to the turn of the main agent that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from sessiontree.catalog.search_turns import LARGEST
from sessiontree.core.activity import as_typed
from sessiontree.core.display import before_cut
from sessiontree.core.entry import Entry, is_of_subagent
from sessiontree.core.message import Message, blocks_of, kind_of, role_of, text_of
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import RefError
from sessiontree.operations.messages import Messages, typed_in
from sessiontree.operations.outline import begins_subagent
from sessiontree.operations.turns import prompt_numbers
from sessiontree.operations.work import message_of
from sessiontree.session import Session

LONGEST: Final = 2000
"""The most characters of a prompt, and of a reasoning, that are told."""


_MOST_AGENTS: Final = 20
"""How deep subagents may start subagents; hostile ones may start themselves."""


class Reason(msgspec.Struct, frozen=True):
    """Why a call was made.

    Attributes:
        turn: the number of the turn; None in a session of more than 16 MB, and above all prompts.
        prompt: the text of the prompt, at most 2,000 characters; None above all prompts.
        reasoning: what the agent said, or else thought, before the call, at most 2,000 characters;
            None if that is nothing.
    """

    turn: str | None = None
    prompt: str | None = None
    reasoning: str | None = None


def reasons_of(session: Session, uuids: Iterable[str]) -> dict[str, Reason]:
    """The reason of each call of a session, by the uuids of their entries."""
    cursor = session.cursor
    wanted = dict.fromkeys(uuids)
    is_small = bool(wanted) and cursor.reader.log.size() <= LARGEST
    numbers = prompt_numbers(cursor) if is_small else {}
    return {uuid: _reason_of(cursor, uuid, numbers) for uuid in wanted}


def _reason_of(cursor: Cursor, uuid: str, numbers: dict[str, int]) -> Reason:
    try:
        entry = cursor.entry(uuid)
    except RefError:  # the file was replaced meanwhile
        return Reason()
    messages = Messages(cursor.messages)
    reasoning = ""
    for above in _above(cursor, entry):
        if not is_of_subagent(above.lane) and messages.begins_turn(above):
            prompt = typed_in(above) or text_of(_message_in(above) or messages.of(above) or {})
            number = numbers.get(above.uuid)
            return Reason(
                None if number is None else str(number),
                before_cut(as_typed(prompt), 0, LONGEST)[:LONGEST],
                reasoning or None,
            )
        if not reasoning and above.lane == entry.lane:
            reasoning = _said_in(_message_in(above) or {})
    return Reason(reasoning=reasoning or None)


def _callers(cursor: Cursor) -> dict[str | None, str]:
    """By the lane of each subagent the uuid of the entry with the call that started it."""
    starts = filter(begins_subagent, cursor.reader.of_type("custom"))
    facts = ((start.lane, start.as_stored.get("data")) for start in starts)
    called = ((lane, data.get("calledBy")) for lane, data in facts if isinstance(data, dict))
    return {lane: caller for lane, caller in called if isinstance(caller, str)}


def _above(cursor: Cursor, entry: Entry) -> Iterator[Entry]:
    """An entry and those above it; above those of a subagent, those above its call."""
    yield from _with(entry, cursor.up(entry))
    callers = _callers(cursor) if is_of_subagent(entry.lane) else {}
    for _ in range(_MOST_AGENTS):
        caller = callers.get(entry.lane)
        if caller is None:
            return
        try:
            entry = cursor.entry(caller)
        except RefError:  # its line is damaged
            return
        yield from _with(entry, cursor.up(entry))


def _with(entry: Entry, above: Iterator[Entry]) -> Iterator[Entry]:
    """The entries from one upwards, that one included."""
    yield entry
    yield from (each for each in above if each.uuid != entry.uuid)


def _message_in(entry: Entry) -> Message | None:
    return message_of(entry, entry.as_stored)


_THOUGHTS: Final = ("thinking", "text", "summary")


def _said_in(message: Message) -> str:
    """What an answer says beside its calls; else what it thinks."""
    if role_of(message) != "assistant" and kind_of(message) != "reasoning":
        return ""
    said = text_of(message).strip()
    if not said:
        said = "\n".join(filter(None, map(_thought_in, _parts(message)))).strip()
    return before_cut(said, 0, LONGEST)[:LONGEST]


def _parts(message: Message) -> Iterator[Any]:
    yield from blocks_of(message)
    summary = message.get("summary")
    yield from summary if isinstance(summary, list) else ()


def _thought_in(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    return next((text for key in _THOUGHTS if isinstance(text := block.get(key), str)), "")
