"""The acts of a turn: its entries, each call with its result, wherever in the turn that is.

Invariants: every call of the turn is an act, whether it has a result or not; a result without its
call stays with its own entry; no blob is read, so that of a large result its beginning is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sessiontree.core.activity import results_in
from sessiontree.core.display import WIDTH, one_line
from sessiontree.core.entry import Entry, decode_object, moment_of
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.message import (
    Message,
    ToolCall,
    calls_of,
    preview_of,
    without_calls,
)
from sessiontree.edits.tools import SideFacts
from sessiontree.text.preview import preview, shown, told
from sessiontree.views.acts import Act, act_of
from sessiontree.views.work import message_of

OriginalLine = Callable[[Entry], bytes]
"""Gives the line of the agent's file that an entry was made of."""


class LedgerAct(NamedTuple):
    """A call with its act."""

    call: ToolCall
    act: Act
    result: str | None
    """The uuid of the entry with the result; None without one."""


class LedgerRow(NamedTuple):
    """An entry of a turn with the acts that it has."""

    entry: Entry
    message: Message | None
    """The message behind a handle; None for another entry."""

    acts: Sequence[LedgerAct] = ()
    rest: Message | None = None
    """The message without its calls; None if it has no calls, or nothing else."""

    is_result: bool = False
    """True if all that it has are results of calls, which have them in their acts."""


class _FoundResult(NamedTuple):
    row: int
    entry: Entry
    block: Mapping[str, Any]


def ledger(
    said: Iterable[tuple[Entry, Message | None]],
    cwd: str | None = None,
    original_line: OriginalLine = lambda entry: entry.line,
) -> list[LedgerRow]:
    """The rows of a turn, given its entries in order, each with the message behind its handle."""
    rows = [(entry, message, _message(entry, message)) for entry, message in said]
    waiting: dict[str, deque[_FoundResult]] = {}
    for number, (entry, _, fields) in enumerate(rows):
        for id, block in results_in(fields):
            waiting.setdefault(id, deque()).append(_FoundResult(number, entry, block))
    facts = _Facts(original_line)
    made: list[LedgerRow] = []
    taken = [0] * len(rows)  # the results of each row that are in acts
    for number, (entry, message, fields) in enumerate(rows):
        acts: list[LedgerAct] = []
        for call in calls_of(fields):
            found = waiting.get(call.id, deque())
            while found and found[0].row < number:
                found.popleft()
            result = found.popleft() if found else None
            if result is not None:
                taken[result.row] += 1
            acts.append(_act(call, entry, result, facts, cwd))
        made.append(LedgerRow(entry, message, acts, without_calls(fields) if acts else None))
    return [
        row._replace(is_result=0 < taken[number] == _count(fields))
        for number, (row, (_, _, fields)) in enumerate(zip(made, rows, strict=True))
    ]


def _message(entry: Entry, message: Message | None) -> Message:
    if message is not None:
        return message
    return message_of(entry, told(entry.as_stored)) or {}


def _count(message: Message) -> int:
    """How many results a message has; one more if it has something else."""
    results, content = results_in(message), message.get("content")
    if message.get("role") != "user" or not isinstance(content, list):
        return len(results)
    return len(results) + (len(content) != len(results))


class _Facts:
    """What agents keep beside results; one line may have many of them."""

    def __init__(self, original_line: OriginalLine) -> None:
        self._original_line = original_line
        self._raw = b""
        self._facts = SideFacts({})

    def of(self, entry: Entry, id: str) -> Mapping[str, Any]:
        raw = self._original_line(entry)
        if raw is not self._raw:
            self._raw = raw
            self._facts = SideFacts(entry.as_stored if raw is entry.line else decode_object(raw))
        return self._facts.of(entry.as_stored, id)


def _act(
    call: ToolCall, entry: Entry, result: _FoundResult | None, facts: _Facts, cwd: str | None
) -> LedgerAct:
    if result is None:
        return LedgerAct(call, act_of(call, cwd=cwd), None)
    act = act_of(
        call,
        result.block,
        told=facts.of(result.entry, call.id),
        cwd=cwd,
        seconds=_seconds_between(entry, result.entry),
    )
    return LedgerAct(call, act, result.entry.uuid)


def _seconds_between(entry: Entry, result: Entry) -> float | None:
    began, ended = moment_of(entry.timestamp), moment_of(result.timestamp)
    return None if began is None or ended is None else (ended - began).total_seconds()


_CALLS: Final = (b'"toolCall"', b'"tool_use"', b'"tool_calls"', b'_call"')
"""What the line of an entry with a call has one of, unless it has escapes."""

_MAX_ACTS: Final = 20


def gist_of(entry: Entry, width: int = WIDTH, cwd: str | None = None) -> str:
    """An entry in a few words on one line, as `preview` has it, but with its calls as acts."""
    line = entry.line
    if not any(map(line.__contains__, _CALLS)) and not has_escapes(line):
        return preview(entry, width=width)
    message = _message(entry, None)
    calls = calls_of(message)
    if not calls:
        return preview(entry, width=width)
    rest = without_calls(message)
    acts = (act_of(call, cwd=cwd).what for call in calls[:_MAX_ACTS])
    said = "" if rest is None else one_line(preview_of(shown(rest)), width)
    return one_line(" · ".join(filter(None, [said, *acts])), width)
