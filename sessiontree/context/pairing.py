"""Pairing: each result of a tool directly behind its call.

Providers refuse a context in which a call has no result, or a result no call. Stored histories have
both: a run was interrupted, a user steered while a tool ran, a branch was taken between the two.
The rules:

- a result is directly behind its call, parallel ones in the order of the calls, and before all
  other content of the messages that bring them;
- a call that was never answered gets a result that says it was interrupted;
- a result without its call, or a second one for the same call, is left out.

Messages that hold one response in pieces, all of one `id`, make their calls together: the results
follow the last piece, in the order in which they came. So do consecutive call items of OpenAI
Responses, with reasoning between them.

Each correction is a warning. Messages that need none are passed on as the same objects in the same
order. A later call may use an id again: a result answers the nearest open call before it.

Messages are taken one by one, and everything before the last group of calls is settled, so that one
more message costs one message. A result that comes after its call was given up unsettles all that
stands before it: then all messages are paired again, once, when the result is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sessiontree.core.message import (
    CALL_BLOCKS,
    CALL_ITEMS,
    RESULT_BLOCKS,
    Message,
    ToolCall,
    calls_of,
    interrupted_result,
    is_result_block,
    kind_of,
    result_ids,
)

Source = TypeVar("Source")

_Noted = tuple[int, str]  # the place of the message that a warning is about, and the warning
_RESULT_ROLES = frozenset({"toolResult", "tool"})  # roles of messages that are one result
_PAIRED_BLOCKS = CALL_BLOCKS | RESULT_BLOCKS


class ResultMessage(Generic[Source]):
    """A message that brings results, and its source."""

    __slots__ = ("ids", "message", "source")

    def __init__(self, ids: list[str], message: Message, source: Source) -> None:
        self.ids, self.message, self.source = ids, message, source

    def results(self) -> dict[str, Message]:
        """For each id the message with that result alone; the first of two with one id."""
        messages = _each_result(self.message, len(self.ids))
        return dict(zip(reversed(self.ids), reversed(messages), strict=True))


class Group(Generic[Source]):
    """The calls of one response, and the answers to them so far."""

    __slots__ = (
        *("answers", "calls", "first", "in_pieces", "is_item", "open", "place", "response"),
        "source",
    )

    def __init__(
        self, calls: list[ToolCall], message: Message, source: Source, place: int, first: int
    ) -> None:
        self.calls = calls
        self.response = message.get("id")
        self.is_item = kind_of(message) in CALL_ITEMS
        self.in_pieces = False
        self.source = source
        self.place = place
        self.first = first
        self.open = {call.id for call in calls}
        self.answers: list[ResultMessage[Source]] = []

    def goes_on_in(self, message: Message) -> bool:
        """True if a message is the next piece of this response."""
        if self.answers:
            return False
        if self.is_item:
            return self._is_next_item(message)
        id = self.response
        return type(id) is str and id == message.get("id") and message.get("role") == "assistant"

    def _is_next_item(self, message: Message) -> bool:
        kind = kind_of(message)
        if kind == "reasoning":
            return True
        return kind in CALL_ITEMS and self.open.isdisjoint(call.id for call in calls_of(message))

    def go_on(self, calls: list[ToolCall], place: int) -> set[str]:
        """Take in the calls of the next piece; gives the ids that were not open before it."""
        added = {call.id for call in calls} - self.open
        self.calls += calls
        self.in_pieces = self.in_pieces or bool(calls)
        self.open |= added
        self.place = place
        return added


class Joined(Generic[Source]):
    """Sequences one after the other; a lazy one is not read before all are."""

    __slots__ = ("_before", "_last")

    def __init__(
        self, before: Iterable[Sequence[Source]] = (), last: Iterable[Source] = ()
    ) -> None:
        self._before = list(before)
        self._last = list(last)

    def append(self, one: Source) -> None:
        self._last.append(one)

    def extend(self, more: Sequence[Source]) -> None:
        if isinstance(more, list):
            self._last += more
        else:
            self._before += (self._last, more)
            self._last = []

    def copy(self) -> Joined[Source]:
        return Joined(self._before, self._last)

    def sequences(self) -> list[Sequence[Source]]:
        """The sequences, those that were joined from a list maybe as one."""
        return [*self._before, self._last]

    def __iter__(self) -> Iterator[Source]:
        return chain.from_iterable(self.sequences())


class Pairing(Generic[Source]):
    """Takes messages, and gives them back with calls and results paired."""

    def __init__(self) -> None:
        self._taken: list[Message] = []
        self._taken_sources: Joined[Source] = Joined()
        self._start_over()

    def _start_over(self) -> None:
        self._messages: list[Message] = []
        self._sources: Joined[Source] = Joined()
        self._warnings: list[_Noted] = []
        self._tail: Group[Source] | None = None
        self._given_up: set[str] = set()
        self._is_unsettled = False

    def take(self, message: Message, source: Source) -> None:
        self._taken.append(message)
        self._taken_sources.append(source)
        if self._is_unsettled:
            return
        role = message.get("role")
        is_item = "type" in message or "tool_calls" in message
        is_text = type(message.get("content")) is str
        if is_item or not (role == "assistant" or (role == "user" and is_text)):
            ids = result_ids(message)
            if ids:
                if role in _RESULT_ROLES and self._closes_tail(ids[0]):
                    self._messages.append(message)
                    self._sources.append(source)
                else:
                    self._take_answer(ResultMessage(ids, message, source))
                return
        tail = self._tail
        if tail is not None and not tail.goes_on_in(message):
            self._settle_tail()
            tail = None
        self._messages.append(message)
        self._sources.append(source)
        if is_item or not is_text:
            calls = calls_of(message)
            if tail is not None:
                tail.go_on(calls, len(self._messages))
            elif calls:
                first = len(self._taken) - 1
                self._tail = Group(calls, message, source, len(self._messages), first)

    def take_all(self, messages: Sequence[Message], sources: Sequence[Source]) -> None:
        """Take messages one after the other; most are passed on many at once."""
        at = 0
        while at < len(messages) and not self._is_unsettled:
            if self._tail is None and (end := _end_of_paired(messages, at)) > at:
                self._pass_on(messages[at:end], sources[at:end])
                at = end
            else:
                self.take(messages[at], sources[at])
                at += 1
        self._taken += messages[at:]
        self._taken_sources.extend(sources[at:])

    def take_texts(self, messages: Sequence[Message], sources: Sequence[Source]) -> None:
        """Take messages that have a role and a text, and nothing else."""
        if self._is_unsettled:
            self._taken += messages
            self._taken_sources.extend(sources)
            return
        self._settle_tail()  # a message without an id goes on in no response
        self._pass_on(messages, sources)

    def _pass_on(self, messages: Sequence[Message], sources: Sequence[Source]) -> None:
        self._taken += messages
        self._taken_sources.extend(sources)
        self._messages += messages
        self._sources.extend(sources)

    def _closes_tail(self, id: str) -> bool:
        """True if this answers the only open call, as most results do; closes it then."""
        tail = self._tail
        if tail is None or tail.answers or len(tail.calls) != 1 or tail.calls[0].id != id:
            return False
        self._tail = None
        return True

    def _take_answer(self, answer: ResultMessage[Source]) -> None:
        tail = self._tail
        if tail is not None and tail.open.issuperset(answer.ids) and _distinct(answer.ids):
            tail.open.difference_update(answer.ids)
            tail.answers.append(answer)
            return
        if self._given_up.isdisjoint(answer.ids) and (
            tail is None or tail.open.isdisjoint(answer.ids)
        ):
            self._leave_out(answer)
            return
        self._is_unsettled = True

    def _leave_out(self, answer: ResultMessage[Source]) -> None:
        """Drop results that answer no open call; keep the other content of the message."""
        place = len(self._taken) - 1
        self._warnings.extend((place, _orphan_warning(id)) for id in answer.ids)
        rest = _without_results(answer.message)
        if rest is not None:
            self._settle_tail()
            self._messages.append(rest)
            self._sources.append(answer.source)

    def _settle_tail(self) -> None:
        tail = self._tail
        if tail is None:
            return
        messages, sources, warnings = _answered(tail)
        self._messages += messages
        self._sources.extend(sources)
        self._warnings += [(tail.first, warning) for warning in warnings]
        self._given_up |= tail.open
        self._tail = None

    def _look_again(self) -> None:
        self._start_over()
        taken = list(zip(self._taken, self._taken_sources, strict=True))
        groups, leftovers = _assign(taken, self._warnings)
        for place, (message, source) in enumerate(taken):
            left = leftovers.get(place, message)
            if left is None:
                continue
            group = groups.get(place)
            if group is None or group is not self._tail:
                self._settle_tail()
            self._messages.append(left)
            self._sources.append(source)
            self._tail = group

    def result(self) -> tuple[list[Message], list[Source], list[str]]:
        """The paired messages, the source of each, and the warnings, in fresh lists.

        A result made for an unanswered call has the source of the call.
        """
        messages, sources, warnings = self.joined()
        return messages, list(sources), warnings

    def joined(self) -> tuple[list[Message], Joined[Source], list[str]]:
        """The same, the sources not read yet."""
        if self._is_unsettled:
            self._look_again()
        if self._tail is None:
            return self._messages.copy(), self._sources.copy(), _in_order(self._warnings)
        messages, more, warnings = _answered(self._tail)
        noted = self._warnings + [(self._tail.first, warning) for warning in warnings]
        sources = self._sources.copy()
        sources.extend(more)
        return self._messages + messages, sources, _in_order(noted)


def _end_of_paired(messages: Sequence[Message], start: int) -> int:
    """Where the messages end that pairing leaves as they are, given that no call is open.

    They make no calls, or calls with their results in the next messages, in order. Other messages
    may need no change either.
    """
    place_of_calls = start
    called: list[str] = []  # the calls without a result so far, the next one last
    for place in range(start, len(messages)):
        message = messages[place]
        role = message.get("role")
        if called:
            if role == "toolResult" and message.get("toolCallId") == called[-1]:
                called.pop()
                continue
            ids = result_ids(message)
            if not ids or ids != called[: -len(ids) - 1 : -1]:
                return place_of_calls
            if role == "user" and len(ids) != len(message["content"]):
                return place_of_calls
            del called[-len(ids) :]
            continue
        if (role != "assistant" and role != "user") or "type" in message or "tool_calls" in message:
            return place
        content = message.get("content")
        if content.__class__ is str:
            continue
        if content.__class__ is not list:
            return place
        for block in content:
            if block.__class__ is not dict or (kind := block.get("type")).__class__ is not str:
                continue
            if kind not in _PAIRED_BLOCKS:
                continue
            id = block.get("id")
            if kind in RESULT_BLOCKS or id.__class__ is not str:
                return place
            called.append(id)
        if called:
            if not _distinct(called):
                return place
            place_of_calls = place
            called.reverse()
    return place_of_calls if called else len(messages)


def _in_order(warnings: list[_Noted]) -> list[str]:
    """The warnings in the order of their messages, whenever each was found."""
    return [warning for _, warning in sorted(warnings, key=itemgetter(0))]


def _assign(
    taken: list[tuple[Message, Source]], warnings: list[_Noted]
) -> tuple[dict[int, Group[Source]], dict[int, Message | None]]:
    """Give every result to its call.

    Returns the groups by the place of their calls, and what is left of each message that brought
    results (None for nothing) by its place.
    """
    groups: dict[int, Group[Source]] = {}
    open_calls: dict[str, list[Group[Source]]] = {}
    leftovers: dict[int, Message | None] = {}
    group: Group[Source] | None = None
    stayed = 0  # the messages so far of which something stays in its place
    for place, (message, source) in enumerate(taken):
        ids = result_ids(message)
        if ids:
            answer = ResultMessage(ids, message, source)
            left = leftovers[place] = _hand_out(answer, place, stayed, open_calls, warnings)
            if left is not None:
                stayed += 1
                group = None  # other content between two pieces ends the response
            continue
        stayed += 1
        calls = calls_of(message)
        if group is not None and group.goes_on_in(message):
            opened = group.go_on(calls, stayed)
        elif calls:
            group = Group(calls, message, source, stayed, place)
            opened = group.open
        else:
            group = None
            continue
        groups[place] = group
        for id in opened:
            open_calls.setdefault(id, []).append(group)
    return groups, leftovers


def _hand_out(
    answer: ResultMessage[Source],
    at: int,
    stayed: int,
    open_calls: dict[str, list[Group[Source]]],
    warnings: list[_Noted],
) -> Message | None:
    """Give the results of the message at a place to their groups; returns what is left of it."""
    home = _home(answer, stayed, open_calls)
    if home is not None:
        home.answers.append(answer)
        for id in answer.ids:
            _remove_last(open_calls[id], home)
            home.open.discard(id)
        return None
    alone = _each_result(answer.message, len(answer.ids))
    for id, message in zip(answer.ids, alone, strict=True):
        if not open_calls.get(id):
            warnings.append((at, _orphan_warning(id)))
            continue
        group = open_calls[id].pop()
        group.open.discard(id)
        group.answers.append(ResultMessage([id], message, answer.source))
        warnings.append((at, f"the result of call {id} was apart from it and was moved behind it"))
    return _without_results(answer.message)


def _remove_last(groups: list[Group[Source]], group: Group[Source]) -> None:
    """Remove a group, nearly always the last, from the groups with an open call."""
    del groups[next(at for at in reversed(range(len(groups))) if groups[at] is group)]


def _home(
    answer: ResultMessage[Source], place: int, open_calls: dict[str, list[Group[Source]]]
) -> Group[Source] | None:
    """The group that a message of results is directly behind and answers, if any."""
    nearest = open_calls.get(answer.ids[0])
    if not nearest or nearest[-1].place != place:
        return None
    group = nearest[-1]
    return group if group.open.issuperset(answer.ids) and _distinct(answer.ids) else None


def _answered(group: Group[Source]) -> tuple[list[Message], list[Source], list[str]]:
    """The results of a group in call order, made where there are none."""
    order = [call.id for call in group.calls]
    brought = [id for answer in group.answers for id in answer.ids]
    lead = _results_lead(group.answers)
    messages = [answer.message for answer in group.answers]
    sources = [answer.source for answer in group.answers]
    if lead and (brought == order or (group.in_pieces and not group.open)):
        return messages, sources, []
    messages, sources = [], []
    places = {id: place for place, id in enumerate(order)}
    in_order = brought == sorted(brought, key=places.__getitem__)
    warnings = [] if in_order else ["parallel results were put in call order"]
    if not lead:
        warnings.append("results were put before the content between them")
    by_id = {
        id: (message, answer.source)
        for answer in group.answers
        for id, message in answer.results().items()
    }
    for call in {call.id: call for call in group.calls}.values():
        answered = by_id.get(call.id)
        if answered is None:
            warnings.append(f"call {call.id} of {call.name or 'a tool'} was never answered")
            answered = interrupted_result(call), group.source
        messages.append(answered[0])
        sources.append(answered[1])
    for answer in group.answers:
        rest = _without_results(answer.message)
        if rest is not None:
            messages.append(rest)
            sources.append(answer.source)
    return (*_merged_results(messages, sources), warnings)


def _merged_results(
    messages: list[Message], sources: list[Source]
) -> tuple[list[Message], list[Source]]:
    """Neighbouring user messages of results as one: Anthropic wants all in the next message."""
    merged: list[Message] = []
    from_: list[Source] = []
    joined: list[Any] | None = None  # the content of the last message, once it is a list of ours
    for message, source in zip(messages, sources, strict=True):
        last = merged[-1] if merged else None
        if last is not None and _holds_blocks(last) and _holds_blocks(message):
            if joined is None:
                joined = list(last["content"])
                merged[-1] = {**last, "content": joined}
            joined += message["content"]
        else:
            merged.append(message)
            from_.append(source)
            joined = None
    return merged, from_


def _holds_blocks(message: Message) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), list)


def _results_lead(answers: Sequence[ResultMessage[Source]]) -> bool:
    has_other = False
    for answer in answers:
        message = answer.message
        for block in message["content"] if _holds_blocks(message) else (None,):
            if block is not None and not is_result_block(block):
                has_other = True
            elif has_other:
                return False
    return True


def _each_result(message: Message, count: int) -> list[Message]:
    """The message with each of its results alone; itself where a message is one result."""
    if not _holds_blocks(message) or len(message["content"]) == 1:
        return [message] * count
    blocks = [block for block in message["content"] if is_result_block(block)]
    return [{**message, "content": [block]} for block in blocks]


def _without_results(message: Message) -> Message | None:
    if not _holds_blocks(message):
        return None
    blocks = [block for block in message["content"] if not is_result_block(block)]
    return {**message, "content": blocks} if blocks else None


def _distinct(ids: list[str]) -> bool:
    return len(ids) == 1 or len(set(ids)) == len(ids)


def _orphan_warning(id: str) -> str:
    return f"a result for call {id or '(no id)'} was left out: no such call is open before it"
