"""Spending: what each answer of a model used and cost, in the order of the file.

An agent may report a cost apart from the answers: Claude Code writes what the session cost so far
(`cost-state`), and the recorder what a turn cost. An answer that such a report covers has no cost
of its own, and must not be priced again.

Invariants: the usage of one answer counts once, however many entries repeat it; no blob is read,
and no handle resolved but those that may be answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from sessiontree.context.settings import model_of
from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.blocks import role_of_entry
from sessiontree.core.counts import ANSWERS
from sessiontree.core.entry import Entry, decode_object
from sessiontree.core.moment import moment_of
from sessiontree.core.usage import (
    Mode,
    Usage,
    advice_in,
    counts_instead,
    mode_of,
    reports_cost,
    usage_of,
    written_for_an_hour,
)
from sessiontree.operations.messages import with_messages
from sessiontree.storage.lines import Backwards

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader

_OF_SESSION: Final = "session"
_REPORTS: Final = frozenset({_OF_SESSION, "result"})
"""The kinds of `usage` entries that give the cost of answers before them."""

_VARIANT: Final = re.compile(r"\[[^]]*]$|-\d{8}$")
"""What a name of a model may have at its end in one place and not in another."""

_NEAR: Final = 64
"""Lines before an entry without a time that are read to find one."""


class Spent(msgspec.Struct, frozen=True):
    """The usage of one answer, summary or `usage` entry.

    Attributes:
        key: identifies the answer in all files that have a copy of it.
        time: when it was first written; None if that is not known.
        provider: the provider, as far as the entry names it.
        model: the model; empty if the entry names none.
        usage: the tokens, and the cost that was reported.
        written_for_an_hour: the part of the tokens written to a cache that is kept for an hour.
        mode: how the provider served it, if that has a price of its own.
        is_reported: whether a cost, which may be 0, was reported with the tokens.
        is_report: whether the cost is that of answers before it.
        is_of_session: whether these are all answers of the session, and not those of a turn.
        entry: the uuid of the first entry that has it.
        is_covered: whether a later entry of the session reports the cost.
    """

    key: str
    time: datetime | None
    provider: str | None
    model: str
    usage: Usage
    written_for_an_hour: int = 0
    mode: Mode | None = None
    is_reported: bool = False
    is_report: bool = False
    is_of_session: bool = False
    entry: str = ""
    is_covered: bool = False

    @property
    def name(self) -> str:
        """The model with its provider, as `stats` names it; empty if it is not known."""
        return f"{self.provider}/{self.model}" if self.provider and self.model else self.model

    @property
    def needs_price(self) -> bool:
        """Whether tokens were used whose cost nothing reports."""
        return bool(self.usage.tokens) and not (self.is_reported or self.is_covered)

    def unless_known(self, known: Spent | None) -> Spent:
        """What counts of this and of what an earlier entry of the same answer spent."""
        if known is None:
            return self
        if not counts_instead(self.usage, known.usage):
            return known
        return replace(self, key=known.key, time=known.time, entry=known.entry)


def spending(cursor: Cursor, needed: set[Blob] | None = None) -> Iterator[Spent]:
    """What each entry with usage spent; an answer that several entries repeat is given once.

    The blobs that entries need are added to `needed`, so that the file is read once.
    """
    answers: dict[str, Spent] = {}
    lack = "their usage is not counted"
    entries = may_have_usage(cursor.reader, set() if needed is None else needed)
    for entry, message in with_messages(entries, cursor.messages, lack, _may_be_answer):
        fields = entry.message_as_stored if entry.type == "message" else entry.as_stored
        fields = fields if message is None else message
        if not isinstance(fields, dict) or not isinstance(fields.get("usage"), dict):
            continue
        for name, spent in spent_by(entry, fields, _time_of(entry, cursor.reader)):
            spent = replace(spent, entry=entry.uuid)
            if name:
                answers[name] = spent.unless_known(answers.get(name))
            else:
                yield spent
    yield from answers.values()


def costs(cursor: Cursor) -> list[Spent]:
    """What `spending` gives, with the answers marked whose cost another entry reports.

    Such an entry is given with the provider and the name that the answers have for its model.
    """
    return with_covered(list(spending(cursor)))


def with_covered(found: list[Spent]) -> list[Spent]:
    """See `costs`; `found` is what one session spent."""
    until: dict[str, datetime] = {}  # by model: the time of its last report
    named: dict[str, Spent] = {}
    for spent in found:
        model = _plain(spent.model)
        if spent.is_report:
            time = spent.time or _NEVER
            until[model] = max(until.get(model, time), time)
        else:
            named.setdefault(model, spent)
    return [_marked(spent, until, named) for spent in found] if until else found


def unreported(found: Iterable[Spent]) -> list[Spent]:
    """What was spent without the costs that were reported, so that each answer needs a price."""
    return [
        replace(spent, usage=replace(spent.usage, cost=0.0), is_reported=False, is_covered=False)
        for spent in found
        if not spent.is_report
    ]


def _marked(spent: Spent, until: Mapping[str, datetime], named: Mapping[str, Spent]) -> Spent:
    model = _plain(spent.model)
    if spent.is_report:
        answer = named.get(model, spent)
        return replace(spent, provider=answer.provider, model=answer.model)
    ends = [until[each] for each in (model, "") if each in until]
    is_covered = bool(ends) and (spent.time is None or spent.time <= max(ends))
    return replace(spent, is_covered=True) if is_covered and not spent.is_reported else spent


_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def _plain(model: str) -> str:
    """The name of a model without its variant and its date."""
    return _VARIANT.sub("", _VARIANT.sub("", model))


def may_have_usage(reader: TreeReader, needed: set[Blob]) -> Iterator[Entry]:
    """The entries that may have usage; the blobs that entries need are added to `needed`."""
    with reader.alone():
        view = reader.whole()
        lines = view.entry_lines()
    for offset, line in lines:
        if MARK in line:
            needed.update(blobs_needed(decode_object(line)))
        if b'"usage"' not in line and b'"handle"' not in line:
            continue
        entry = view.decode(line, offset)
        if entry is not None:
            yield entry


def _may_be_answer(handle: Entry) -> bool:
    """Whether a handle of a message may be an answer, and does not have its usage itself."""
    return role_of_entry(handle) in (None, "assistant") and "usage" not in handle.as_stored


def spent_by(
    entry: Entry, fields: Mapping[str, Any], time: datetime | None
) -> Iterator[tuple[str, Spent]]:
    """What an entry spent, given its message or its keys, with the name of the answer.

    The name is what other entries of the answer repeat; it is empty where the answer has none. A
    model that the model of the answer asked has an answer of its own.
    """
    given = fields.get(ANSWERS.get(entry.type, ""))
    name = given if isinstance(given, str) else ""
    model = model_of(fields) or {}
    provider, named = model.get("provider"), str(model.get("modelId", ""))
    told = provider if isinstance(provider, str) else None
    reported = fields["usage"]
    kind = fields.get("kind") if entry.type == "usage" else None
    key = name or entry.uuid
    mode = mode_of(reported, fields.get("serviceTier"))
    yield name, _spent(key, time, told, named, reported, mode, kind)
    for number, advice in enumerate(advice_in(reported, name)):
        key = advice.name or f"{entry.uuid} {number}"
        yield advice.name, _spent(key, time, told, advice.model, advice.reported)


def _spent(
    key: str,
    time: datetime | None,
    provider: str | None,
    model: str,
    reported: Any,
    mode: Mode | None = None,
    kind: Any = None,
) -> Spent:
    usage = usage_of(reported)
    is_report = isinstance(kind, str) and kind in _REPORTS
    return Spent(
        key=f"{key} {time and time.timestamp()}",
        time=time,
        provider=provider,
        model=model,
        usage=usage,
        written_for_an_hour=written_for_an_hour(reported),
        mode=mode,
        is_reported=usage.cost > 0 if is_report else reports_cost(reported),
        is_report=is_report and usage.cost > 0,
        is_of_session=kind == _OF_SESSION,
    )


def _time_of(entry: Entry, reader: TreeReader) -> datetime | None:
    """When an entry was written; of one without a time, the time of the entry before it."""
    return _moment(entry.timestamp) if entry.timestamp else _time_before(entry, reader)


def _time_before(entry: Entry, reader: TreeReader) -> datetime | None:
    backwards = Backwards(reader.log.read)
    end = entry.offset - 1
    for _ in range(_NEAR):
        if end <= 0:
            break
        start, line = backwards.line_before(end)
        body = decode_object(line)
        if body.get("timestamp") and body.get("lane") == entry.lane:
            return _moment(body["timestamp"])
        end = start - 1
    return None


def _moment(timestamp: Any) -> datetime | None:
    found = moment_of(timestamp)
    with suppress(OverflowError):  # at the first or the last year
        return None if found is None else found.astimezone(UTC)
    return None
