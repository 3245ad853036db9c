"""Turns: messages in turns that alternate, with every call answered.

Invariants: sides alternate; no turn is empty; the last is no answer that broke off; each call of an
assistant's turn has exactly one result in the user's turn that follows, results first and in the
order of the calls; there are no other results; ids are fit to be sent and no two calls share one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sessiontree.context.pairing import Pairing
from sessiontree.context.providers.reading import (
    ASSISTANTS,
    Media,
    MessageReader,
    Part,
    ProviderBlock,
    Result,
    SentCall,
    Side,
    TextPart,
    Thinking,
    maker_of,
)
from sessiontree.context.providers.values import GivenIds, RequestNotes
from sessiontree.core import limits
from sessiontree.core.limits import Budget
from sessiontree.core.message import (
    RESULT_ITEMS,
    Message,
    count_of_blocks,
    is_partial,
    kind_of,
)

_INTERRUPTED: Final = "Interrupted: no result was recorded for this call."


@dataclass(frozen=True, slots=True)
class SideTurn:
    """The parts of one side until the other side speaks."""

    side: Side
    parts: list[Part]


def turns_of(
    messages: Sequence[Message],
    uuids: Sequence[str],
    *,
    model: str | None,
    is_paired: bool,
    id_limit: int,
    fit: Callable[[Sequence[SideTurn], RequestNotes], list[SideTurn]],
) -> tuple[list[SideTurn], RequestNotes]:
    """Messages of any shape as turns, and the notes taken on the way.

    `uuids` has the entry of each message, and `fit` keeps the parts that the provider accepts.
    Messages as stored, not paired, may have system messages, which are left to the caller.
    Thinking of any model but `model` is left out. A TooMuchError for more than `REQUEST_BLOCKS`.
    """
    notes = RequestNotes()
    blocks = Budget(limits.REQUEST_BLOCKS)
    for message, uuid in zip(messages, uuids, strict=True):
        blocks.take(count_of_blocks(message), uuid=uuid)
    if not is_paired:
        messages, uuids = _paired(messages, uuids, notes)
    paired, sources = _without_broken_end(messages, uuids, model, notes)
    turns = _answered(
        _by_side(paired, sources, MessageReader(notes, model, translates=False)),
        GivenIds(id_limit),
        notes,
    )
    notes.uuid = ""
    turns = _joined(fit(turns, notes))
    if not turns:
        notes.add("there is nothing to send: the context holds no message")
    return turns, notes


def _paired(
    messages: Sequence[Message], uuids: Sequence[str], notes: RequestNotes
) -> tuple[list[Message], list[str]]:
    pairing: Pairing[str] = Pairing()
    for message, uuid in zip(messages, uuids, strict=True):
        if message.get("role") != "system":
            pairing.take(message, uuid)
    paired, sources, warnings = pairing.result()
    for warning in warnings:
        notes.add(warning)
    return paired, sources


def _without_broken_end(
    messages: Sequence[Message], uuids: Sequence[str], model: str | None, notes: RequestNotes
) -> tuple[list[Message], list[str]]:
    """The messages without an answer that broke off at their end, so that the model answers anew.

    A request that ends with half an answer asks the model to go on in the middle of a sentence,
    which newer models refuse. All pieces of the answer, of one `id`, are left out together.
    Messages behind the answer that give nothing to send do not count.
    """
    trial = MessageReader(RequestNotes(), model)
    ids: set[str] = set()
    left_out: set[int] = set()
    for place in reversed(range(len(messages))):
        message = messages[place]
        id = message.get("id")
        is_piece = isinstance(id, str) and id in ids
        if str(message.get("role")) in ASSISTANTS and (is_partial(message) or is_piece):
            left_out.add(place)
            ids |= {id} if isinstance(id, str) else set()
        elif any(trial.parts_of(message)):
            break
    for place in sorted(left_out):
        notes.uuid = uuids[place]
        notes.add("an answer that broke off at the end was left out: the model answers anew")
    kept = [place for place in range(len(messages)) if place not in left_out]
    return [messages[place] for place in kept], [uuids[place] for place in kept]


def note_answer_at_end(
    turns: Sequence[SideTurn], messages: Sequence[Message], notes: RequestNotes
) -> None:
    """Note that a request ends with an answer, unless the provider wants to get it back so."""
    if not turns or turns[-1].side != "assistant":
        return
    last = messages[-1]
    # Anthropic goes on with such an answer
    if last.get("stopReason", last.get("stop_reason")) != "pause_turn":
        notes.add("the request ends with an answer of the model; some models refuse that")


def _joined(turns: Iterable[SideTurn]) -> list[SideTurn]:
    """The turns without empty ones, neighbours of the same side as one."""
    out: list[SideTurn] = []
    for turn in turns:
        if not turn.parts:
            continue
        if out and out[-1].side == turn.side:
            out[-1].parts.extend(turn.parts)
        else:
            out.append(SideTurn(turn.side, turn.parts.copy()))
    return out


def media_apart(result: Result) -> tuple[Result, list[Part]]:
    """A result without its media, and the media under a text that names the result."""
    texts = tuple(part for part in result.parts if isinstance(part, TextPart))
    media = [part for part in result.parts if isinstance(part, Media)]
    if not media:
        return result, []
    apart = [replace(part, source=None) for part in media]  # in one message with the text
    return replace(result, parts=texts), [TextPart(f"From the result of call {result.id}:"), *apart]


def _by_side(
    paired: Sequence[Message], sources: Sequence[str], reading: MessageReader
) -> list[SideTurn]:
    turns: list[SideTurn] = []
    ids: list[str | None] = []  # the id of the last message in each turn
    unsaid: list[ProviderBlock] = []  # blocks of the user, whose maker the next answer shows
    for message, uuid in zip(paired, sources, strict=True):
        reading.notes.uuid = uuid
        id = message.get("id")
        id = id if isinstance(id, str) and message.get("role") == "assistant" else None
        parts = list(reading.parts_of(message))
        unsaid = _settle_makers(parts, message, unsaid)
        if id and _goes_on(turns, ids, id, parts):
            turns[-2].parts.extend(part for _, part in parts)
            continue
        if parts and parts[0][0] == "assistant" and turns and (id is None or ids[-1] != id):
            _leave_out_last_thinking(turns[-1], reading.notes)
        for side, part in parts:
            if not turns or turns[-1].side != side:
                turns.append(SideTurn(side, []))
                ids.append(None)
            turns[-1].parts.append(part)
            ids[-1] = id
    return turns


def _leave_out_last_thinking(turn: SideTurn, notes: RequestNotes) -> None:
    """Leave out thinking at the end of an answer that another follows: it is not of that one.

    An item of OpenAI is a message of its own, so what its reasoning led to is another message.
    """
    while turn.parts and isinstance(last := turn.parts[-1], Thinking) and last.item is None:
        notes.add("thinking that nothing followed was left out")
        turn.parts.pop()


def _settle_makers(
    parts: Sequence[tuple[Side, Part]], message: Message, unsaid: list[ProviderBlock]
) -> list[ProviderBlock]:
    """Note who a block of an unknown type was for; return those that no answer followed yet."""
    if str(message.get("role")) not in ASSISTANTS:
        new = (part for _, part in parts if isinstance(part, ProviderBlock) and part.maker is None)
        return [*unsaid, *new]
    for part in unsaid:
        part.maker = maker_of(message)
    return []


def _goes_on(
    turns: Sequence[SideTurn],
    ids: Sequence[str | None],
    id: str,
    parts: Sequence[tuple[Side, Part]],
) -> bool:
    """True if calls belong to the message before the last results, as a piece of it.

    An agent that stores a message block by block stores parallel calls apart, and the pairing then
    puts results between them.
    """
    return (
        len(turns) > 1
        and ids[-2] == id
        and turns[-1].side == "user"
        and bool(parts)
        and all(isinstance(part, SentCall) for _, part in parts)
        and all(isinstance(part, Result) for part in turns[-1].parts)
    )


def _answered(turns: Sequence[SideTurn], ids: GivenIds, notes: RequestNotes) -> list[SideTurn]:
    """The turns with fit ids, each call with its one result directly behind it."""
    out: list[SideTurn] = []
    waiting: list[tuple[str, SentCall]] = []
    for turn in turns:
        if turn.side == "user":
            out.append(SideTurn("user", _with_results(turn.parts, waiting, notes)))
            waiting = []
            continue
        parts: list[Part] = []
        for part in turn.parts:
            if isinstance(part, SentCall):
                fit = replace(part, id=ids.give(part.id))
                waiting.append((part.id, fit))
                part = fit
            parts.append(part)
        out.append(SideTurn("assistant", parts))
    if waiting:
        out.append(SideTurn("user", _with_results([], waiting, notes)))
    return _joined(out)


def _with_results(
    parts: Sequence[Part], waiting: Sequence[tuple[str, SentCall]], notes: RequestNotes
) -> list[Part]:
    """The parts of the user's side, the results of the waiting calls first."""
    brought: dict[str, deque[Result]] = {}
    for part in parts:
        if isinstance(part, Result):
            brought.setdefault(part.id, deque()).append(part)
    ordered: list[Part] = []
    for stored, call in waiting:
        results = brought.get(stored)
        if results:
            result = results.popleft()
        else:
            notes.add(f"call {stored} of {call.name or 'a tool'} was never answered")
            result = Result(stored, (TextPart(_INTERRUPTED),), failed=True)
        name = result.name or call.name
        own = result.stored if _is_native(call, result) else None
        ordered.append(replace(result, id=call.id, name=name, freeform=call.freeform, stored=own))
    for stored, results in brought.items():
        for _ in results:
            notes.add(f"a result for call {stored or '(no id)'} was left out: no such call is open")
    ordered.extend(part for part in parts if not isinstance(part, Result))
    return ordered


def _is_native(call: SentCall, result: Result) -> bool:
    """True if a result may go back as it was stored: an item answers a call of its own kind."""
    stored = result.stored or {}
    kind = kind_of(stored)
    if kind not in RESULT_ITEMS:
        return True
    asked, output = call.stored or {}, stored.get("output")
    if kind != f"{kind_of(asked)}_output":
        return False
    if kind in ("function_call_output", "custom_tool_call_output"):
        return True
    # a note that a call was interrupted is not a screenshot, nor the output of a shell
    is_whole = not isinstance(output, str) or "status" in stored
    return {"id", "status"} <= asked.keys() and (is_whole or kind == "local_shell_call_output")
