"""Why a call was made: the turn that it is in, its prompt, and what the agent said before it.

Invariant: what a subagent did belongs to the turn of the main agent that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec

from sessiontree.catalog.search_turns import LARGEST
from sessiontree.core.activity import as_typed
from sessiontree.core.display import before_cut
from sessiontree.core.entry import Entry, is_of_subagent
from sessiontree.core.message import Message, blocks_of, kind_of, role_of, text_of, thought_text
from sessiontree.engine.cursor import Cursor
from sessiontree.errors import RefError
from sessiontree.operations.messages import is_shown_as_prompt, typed_in
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
    reasons = _Reasons(cursor, prompt_numbers(cursor) if is_small else {})
    return {uuid: reasons.of(uuid) for uuid in wanted}


class _Reasons:
    """The reasons of calls. An entry is passed once for each lane, however many calls it has below.

    Args:
        cursor: the session.
        numbers: the numbers of its turns, by the uuids of their prompts.
    """

    def __init__(self, cursor: Cursor, numbers: dict[str, int]) -> None:
        self._cursor = cursor
        self._numbers = numbers
        self._known: dict[tuple[str, str | None], Reason] = {}  # by uuid and lane; texts uncut

    def of(self, uuid: str) -> Reason:
        try:
            entry = self._cursor.entry(uuid)
        except RefError:  # the file was replaced meanwhile
            return Reason()
        found = self._from(entry)
        said = before_cut(found.reasoning or "", 0, LONGEST)[:LONGEST]
        return Reason(found.turn, found.prompt, said or None)

    def _from(self, entry: Entry) -> Reason:
        passed: list[tuple[str, str]] = []
        reason = Reason()
        for above in self._above(entry):
            known = self._known.get((above.uuid, entry.lane))
            if known is not None:
                reason = known
                break
            if not is_of_subagent(above.lane) and is_shown_as_prompt(above):
                reason = self._known[above.uuid, entry.lane] = self._turn(above)
                break
            is_own = above.lane == entry.lane
            passed.append((above.uuid, _said_in(_message_in(above) or {}) if is_own else ""))
        for uuid, said in reversed(passed):
            if said:
                reason = Reason(reason.turn, reason.prompt, said)
            self._known[uuid, entry.lane] = reason
        return reason

    def _turn(self, entry: Entry) -> Reason:
        """What is known at the entry of a prompt."""
        message = _message_in(entry) or {}
        prompt = typed_in(entry) or text_of(message)
        number = self._numbers.get(entry.uuid)
        name = None if number is None else str(number)
        return Reason(name, before_cut(as_typed(prompt), 0, LONGEST)[:LONGEST])

    @cached_property
    def _callers(self) -> dict[str | None, str]:
        """By the lane of each subagent the uuid of the entry with the call that started it."""
        starts = filter(begins_subagent, self._cursor.reader.of_type("custom"))
        facts = ((start.lane, start.as_stored.get("data")) for start in starts)
        called = ((lane, data.get("calledBy")) for lane, data in facts if isinstance(data, dict))
        return {lane: caller for lane, caller in called if isinstance(caller, str)}

    def _above(self, entry: Entry) -> Iterator[Entry]:
        """An entry and those above it; above those of a subagent, those above its call."""
        yield from _with(entry, self._cursor.up(entry))
        for _ in range(_MOST_AGENTS):
            caller = self._callers.get(entry.lane) if is_of_subagent(entry.lane) else None
            if caller is None:
                return
            try:
                entry = self._cursor.entry(caller)
            except RefError:  # its line is damaged
                return
            yield from _with(entry, self._cursor.up(entry))


def _with(entry: Entry, above: Iterator[Entry]) -> Iterator[Entry]:
    """The entries from one upwards, that one included."""
    yield entry
    yield from (each for each in above if each.uuid != entry.uuid)


def _message_in(entry: Entry) -> Message | None:
    return message_of(entry, entry.as_stored)


def _said_in(message: Message) -> str:
    """What an answer says beside its calls; else what it thinks."""
    if role_of(message) != "assistant" and kind_of(message) != "reasoning":
        return ""
    said = text_of(message).strip()
    if not said:
        said = "\n".join(filter(None, map(thought_text, (message, *blocks_of(message))))).strip()
    return said
