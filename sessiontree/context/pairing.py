"""Pairing: each result of a tool directly behind its call.

Providers refuse a context in which a call has no result, or a result no call. Stored histories have
both: a run was interrupted, a user steered while a tool ran, a branch was taken between the two.
The rules:

- a result is directly behind its call, parallel ones in the order of the calls, and before all
  other content of the messages that bring them;
- a call that was never answered gets a result that says it was interrupted;
- a result without its call, or a second one for the same call, is left out;
- a call that a message broke off in is left out: the model never made it.

Messages that hold one response in pieces, all of one `id`, make their calls together: the results
follow the last piece, in the order in which they came. So do consecutive call items of OpenAI
Responses, with reasoning between them. Nothing says of which response an item is, so a call item
that was never answered ends its response: the items after it may be those of the request that told
the model of the interruption, and that request must be the beginning of the next.

Each correction is a warning. Messages that need none are passed on as the same objects in the same
order. A later call may use an id again: a result answers the nearest open call before it.

Messages are taken one by one, and everything before the last group of calls is settled, so one more
message costs one message. A result for a group that is settled unsettles what follows the group:
then all groups are settled again, once, when the result is asked for.
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
    is_partial,
    is_result_block,
    kind_of,
    result_ids,
    without_cut_calls,
)

Source = TypeVar("Source")

_Noted = tuple[int, str]  # the place of the message that a warning is about, and the warning
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


class CallGroup(Generic[Source]):
    """The calls of one response, and the answers to them so far."""

    __slots__ = (
        *("answers", "calls", "first", "in_pieces", "is_item", "open", "place", "response"),
        *("pieces", "source", "trailing"),
    )

    def __init__(
        self, calls: list[ToolCall], message: Message, source: Source, place: int, first: int
    ) -> None:
        self.calls = calls
        self.response = message.get("id") if message.get("role") == "assistant" else None
        self.is_item = kind_of(message) in CALL_ITEMS
        self.in_pieces = False
        self.source = source
        self.place = place
        self.first = first
        self.open = {call.id for call in calls}
        self.answers: list[ResultMessage[Source]] = []
        self.pieces: list[tuple[Message, Source]] = []
        self.trailing = 0  # the items of reasoning after the last call

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
        calls = calls_of(message) if kind in CALL_ITEMS else []
        return bool(calls) and self.open.isdisjoint(call.id for call in calls)

    def go_on(self, calls: list[ToolCall], place: int) -> set[str]:
        """Take in the calls of the next piece; gives the ids that were not open before it."""
        added = {call.id for call in calls} - self.open
        self.calls += calls
        self.in_pieces = self.in_pieces or bool(calls)
        self.open |= added
        if self.is_item and not calls:
            self.trailing += 1
        else:
            self.trailing, self.place = 0, place
        return added


class ConcatSequence(Generic[Source]):
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

    def copy(self) -> ConcatSequence[Source]:
        return ConcatSequence(self._before, self._last)

    def sequences(self) -> list[Sequence[Source]]:
        """The sequences, those that were joined from a list maybe as one."""
        return [*self._before, self._last]

    def __iter__(self) -> Iterator[Source]:
        return chain.from_iterable(self.sequences())


class Pairing(Generic[Source]):
    """Takes messages, and gives them back with calls and results paired."""

    def __init__(self) -> None:
        self._taken: list[Message] = []
        self._taken_sources: ConcatSequence[Source] = ConcatSequence()
        self._groups: dict[int, CallGroup[Source]] = {}  # by the places of their calls
        self._open: dict[str, list[CallGroup[Source]]] = {}  # by the ids of open calls
        self._left: dict[int, Message | None] = {}  # of messages with results, by their places
        self._handed_out: list[_Noted] = []
        self._start_over()

    def _start_over(self) -> None:
        self._messages: list[Message] = []
        self._sources: ConcatSequence[Source] = ConcatSequence()
        self._settled: list[_Noted] = []
        self._tail: CallGroup[Source] | None = None  # the group that the next message may answer
        self._staying = 0  # the messages so far of which something stays in its place
        self._is_unsettled = False

    def take(self, message: Message, source: Source) -> None:
        place = len(self._taken)
        if is_partial(message):
            whole, cut = without_cut_calls(message)
            for call in cut:
                broken = f"call {call.id} of {call.name or 'a tool'} broke off"
                self._handed_out.append((place, f"{broken} and was left out: it was never run"))
            if whole is None:
                return
            message = whole
        self._taken.append(message)
        self._taken_sources.append(source)
        ids = result_ids(message)
        if ids:
            left = self._hand_out(ResultMessage(ids, message, source), place)
            self._left[place] = left
            if left is not None:  # which ends a response in pieces
                self._stay(left, source, None)
            return
        group, calls = self._tail, calls_of(message)
        if group is not None and group.goes_on_in(message):
            opened = group.go_on(calls, self._staying + 1)
        elif calls:
            group = CallGroup(calls, message, source, self._staying + 1, place)
            opened = group.open
        else:
            self._stay(message, source, None)
            return
        self._groups[place] = group
        for id in opened:
            self._open.setdefault(id, []).append(group)
        self._stay(message, source, group)

    def take_all(self, messages: Sequence[Message], sources: Sequence[Source]) -> None:
        """Take messages one after the other; most are passed on many at once."""
        at = 0
        while at < len(messages):
            end = _end_of_paired(messages, at) if self._tail is None else at
            if end == at:
                self.take(messages[at], sources[at])
                at += 1
            elif at == 0 and end == len(messages):
                self._pass_on(messages, sources)
                return
            else:
                self._pass_on(messages[at:end], sources[at:end])
                at = end

    def _pass_on(self, messages: Sequence[Message], sources: Sequence[Source]) -> None:
        self._taken += messages
        self._taken_sources.extend(sources)
        self._messages += messages
        self._sources.extend(sources)
        self._staying += len(messages)

    def _stay(self, message: Message, source: Source, group: CallGroup[Source] | None) -> None:
        """Settle the last group, unless the message is of it, and put the message behind it."""
        if self._tail is not None and self._tail is not group:
            self._settle(self._tail)
        if group is None:
            self._messages.append(message)
            self._sources.append(source)
        else:
            group.pieces.append((message, source))
        self._staying += 1
        self._tail = group

    def _settle(self, group: CallGroup[Source]) -> None:
        messages, sources, warnings = _answered(group)
        self._messages += messages
        self._sources.extend(sources)
        self._settled += [(group.first, warning) for warning in warnings]

    def _hand_out(self, answer: ResultMessage[Source], place: int) -> Message | None:
        """Give the results of the message at a place to their groups; return what is left of it."""
        home = self._home(answer)
        if home is not None:
            home.answers.append(answer)
            for id in answer.ids:
                self._close(id, home)
            return None
        alone = _each_result(answer.message, len(answer.ids))
        for id, message in zip(answer.ids, alone, strict=True):
            if id not in self._open:
                warning = f"a result for call {id or '(no id)'} was left out"
                self._handed_out.append((place, f"{warning}: no such call is open before it"))
                continue
            group = self._open[id][-1]
            group.answers.append(ResultMessage([id], message, answer.source))
            self._close(id, group)
            self._is_unsettled |= group is not self._tail
            warning = f"the result of call {id} was apart from it and was moved behind it"
            self._handed_out.append((place, warning))
        return _without_results(answer.message)

    def _home(self, answer: ResultMessage[Source]) -> CallGroup[Source] | None:
        """The group that a message of results is directly behind and answers, if any."""
        groups = self._open.get(answer.ids[0])
        if groups is None or groups[-1].place != self._staying:
            return None
        group = groups[-1]
        return group if group.open.issuperset(answer.ids) and _distinct(answer.ids) else None

    def _close(self, id: str, group: CallGroup[Source]) -> None:
        """Close a call of a group, which is nearly always the last with an open call of the id."""
        group.open.discard(id)
        groups = self._open[id]
        del groups[next(at for at in reversed(range(len(groups))) if groups[at] is group)]
        if not groups:
            del self._open[id]

    def _look_again(self) -> None:
        """Settle all groups again, since one got a result after it was settled."""
        self._start_over()
        for group in self._groups.values():
            group.pieces = []
        for place, (message, source) in enumerate(
            zip(self._taken, self._taken_sources, strict=True)
        ):
            left = self._left.get(place, message)
            if left is not None:
                self._stay(left, source, self._groups.get(place))

    def result(self) -> tuple[list[Message], list[Source], list[str]]:
        """The paired messages, the source of each, and the warnings, in fresh lists.

        A result made for an unanswered call has the source of the call.
        """
        messages, sources, warnings = self.joined()
        return messages, list(sources), warnings

    def joined(self) -> tuple[list[Message], ConcatSequence[Source], list[str]]:
        """The same, the sources not read yet."""
        if self._is_unsettled:
            self._look_again()
        messages, sources = self._messages.copy(), self._sources.copy()
        noted = self._handed_out + self._settled
        if self._tail is not None:
            made, more, warnings = _answered(self._tail)
            messages += made
            sources.extend(more)
            noted += [(self._tail.first, warning) for warning in warnings]
        # in the order of their messages, whenever each was found
        return messages, sources, [warning for _, warning in sorted(noted, key=itemgetter(0))]


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
        content = message.get("content")
        if (
            content.__class__ is str
            and len(message) == 2
            and (role == "user" or role == "assistant")
        ):
            continue  # as in most
        if (role != "assistant" and role != "user") or "type" in message or "tool_calls" in message:
            return place
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
            if not _distinct(called) or is_partial(message):
                return place
            place_of_calls = place
            called.reverse()
    return place_of_calls if called else len(messages)


def _answered(group: CallGroup[Source]) -> tuple[list[Message], list[Source], list[str]]:
    """The messages of a group, and the results in call order, made where there are none."""
    calls_by_id = {call.id: call for call in reversed(group.calls)}  # of the same id the first
    order = list(dict.fromkeys(call.id for call in group.calls))
    brought = [id for answer in group.answers for id in answer.ids]
    lead = _results_lead(group.answers)
    end = len(group.pieces) - group.trailing
    if lead and (brought == order or (group.in_pieces and not group.open)):
        answers = [(answer.message, answer.source) for answer in group.answers]
        return *_apart([*group.pieces[:end], *answers, *group.pieces[end:]]), []
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
    missing = {id: calls_by_id[id] for id in order if id not in by_id}
    warnings += [
        f"call {id} of {c.name or 'a tool'} was never answered" for id, c in missing.items()
    ]
    made: list[tuple[Message, Source]] = []
    results: dict[str, tuple[Message, Source]] = {}
    for piece, source in group.pieces[:end]:
        made.append((piece, source))
        calls = calls_of(piece)
        for call in calls:
            made_up = interrupted_result(calls_by_id[call.id]), source
            results.setdefault(call.id, by_id.get(call.id) or made_up)
        if group.is_item and any(call.id in missing for call in calls):
            made += _merged_results(results.values())
            results = {}
    left = ((_without_results(answer.message), answer.source) for answer in group.answers)
    rest = [(message, source) for message, source in left if message is not None]
    made += _merged_results([*results.values(), *rest])
    return *_apart([*made, *group.pieces[end:]]), warnings


def _apart(pairs: Sequence[tuple[Message, Source]]) -> tuple[list[Message], list[Source]]:
    return [message for message, _ in pairs], [source for _, source in pairs]


def _merged_results(
    pairs: Iterable[tuple[Message, Source]],
) -> list[tuple[Message, Source]]:
    """Neighbouring user messages of results as one: Anthropic wants all in the next message."""
    merged: list[tuple[Message, Source]] = []
    joined: list[Any] | None = None  # the content of the last message, once it is a list of ours
    for message, source in pairs:
        last = merged[-1][0] if merged else None
        if last is not None and _holds_blocks(last) and _holds_blocks(message):
            if joined is None:
                joined = list(last["content"])
                merged[-1] = {**last, "content": joined}, merged[-1][1]
            joined += message["content"]
        else:
            merged.append((message, source))
            joined = None
    return merged


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
