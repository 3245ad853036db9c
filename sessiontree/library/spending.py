"""What many sessions cost: as a whole, and by day, project, model or agent.

Reported and estimated costs are kept apart. For sums by day, project, model or agent a session is
read whole, one at a time in each process; of each answer only its sums and the hash of its key are
kept. The sums of a list (`totals_of`) are added up from counts, which a cache keeps.

Invariants: an answer that is copied to several sessions, such as forks and imports, counts once,
for the first of them (`core.usage.copy_key` is the one rule); a file that cannot be read is
reported, and hides no other.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from sessiontree.agents import OWN
from sessiontree.core.usage import AnswerUsage, FileCounts, Usage, total
from sessiontree.library.listing import SessionInfo
from sessiontree.library.search import processes_for
from sessiontree.operations.workers import Crew, Each, nothing
from sessiontree.session import Session
from sessiontree.storage.names import Report, problem_of
from sessiontree.views.costs import Prices, Spent, costs, unreported

By = Literal["day", "project", "model", "agent"]
BY: Final[tuple[By, ...]] = get_args(By)

Name = str | None
"""The day, project, model or agent of a row; None for what has none."""


class CountedFile(NamedTuple):
    """A session file, and the facts by which its costs are added up."""

    file: str
    agent: str
    project: str | None


class SpendingSum(msgspec.Struct):
    """The sums of some answers.

    Attributes:
        sessions: the number of sessions that the answers are in.
        answers: the number of answers, summaries and `usage` entries.
        usage: the tokens, and the cost that the agents reported.
        estimated: the cost in US dollars at list prices of the answers without a reported cost.
        unpriced: the number of answers without a reported cost whose price is not known.
    """

    sessions: int = 0
    answers: int = 0
    usage: Usage = Usage()
    estimated: float = 0.0
    unpriced: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --by --json` prints for a row."""
        return {
            "sessions": self.sessions,
            "answers": self.answers,
            "usage": self.usage.as_dict(),
            "cost": {
                "reported": round(self.usage.cost, 9),
                "estimated": round(self.estimated, 9),
                "unpricedAnswers": self.unpriced,
            },
        }


class Spending(msgspec.Struct):
    """What sessions cost.

    Attributes:
        rows: the sums by day (the earliest first), or by project, model or agent (the most
            expensive first); None has what belongs to no day, project or model.
        total: the sums of all.
        unpriced: the number of answers without a known price, by model.
        copies: the number of answers that stand in another session too, and count there.
    """

    rows: dict[Name, SpendingSum]
    total: SpendingSum
    unpriced: Counter[Name]
    copies: int = 0


class _CountedAnswer(msgspec.Struct, array_like=True):
    number: int  # of the source
    spent: Spent
    price: float | None


class _Counted(msgspec.Struct, gc=False):
    """An answer that counts; its price does, as long as no cost is reported for it."""

    number: int  # of the source
    row: Name
    price: float | None
    is_estimated: bool


class _Sums:
    """Adds up answers."""

    def __init__(self, by: By, sources: Sequence[CountedFile]) -> None:
        self.made = Spending({}, SpendingSum(), Counter())
        self._by = by
        self._sources = sources
        self._known: dict[int, _Counted] = {}  # by the hash of the key
        self._last: dict[Name, int] = {}  # by row, the session that it counted last
        self._counted = -1

    def add(self, found: _CountedAnswer) -> None:
        """Add an answer, unless it is a copy of one that counts already."""
        spent, key = found.spent, hash(found.spent.copy_key)
        known = self._known.get(key)
        if known is not None and known.number != found.number:
            self._add_copy(spent, known)
            return
        name = _row_name(self._by, self._sources[found.number], spent)
        row, total = self.made.rows.setdefault(name, SpendingSum()), self.made.total
        row.sessions += self._last.get(name) != found.number
        total.sessions += self._counted != found.number
        self._last[name] = self._counted = found.number
        for each in (row, total):
            each.answers += not spent.is_report
            each.usage += spent.usage
        self._known[key] = _Counted(found.number, name, found.price, spent.needs_price)
        if spent.needs_price:
            self._add_price(name, found.price, spent)

    def _add_copy(self, spent: Spent, known: _Counted) -> None:
        """Count a copy; one whose cost is reported takes back what was estimated."""
        self.made.copies += not spent.is_report
        if known.is_estimated and not spent.needs_price:
            known.is_estimated = False
            self._add_price(known.row, known.price, spent, -1)

    def _add_price(self, name: Name, price: float | None, spent: Spent, sign: int = 1) -> None:
        for each in (self.made.rows[name], self.made.total):
            each.estimated = max(0.0, each.estimated + sign * (price or 0.0))
            each.unpriced += sign * (price is None)
        if price is None:
            self.made.unpriced[spent.name or None] += sign


def spending_of(
    sources: Sequence[CountedFile],
    by: By,
    prices: Prices | None,
    report: Report,
    *,
    since: datetime | None = None,
    is_listed: bool = False,
    shown: Each = nothing,
    processes: int | None = None,
) -> Spending:
    """The costs of sessions, by day, project, model or agent; see `spendings_of`."""
    return spendings_of(
        sources,
        (by,),
        prices,
        report,
        since=since,
        is_listed=is_listed,
        shown=shown,
        processes=processes,
    )[by]


def spendings_of(
    sources: Sequence[CountedFile],
    each_by: Sequence[By],
    prices: Prices | None,
    report: Report,
    *,
    since: datetime | None = None,
    is_listed: bool = False,
    shown: Each = nothing,
    processes: int | None = None,
) -> dict[By, Spending]:
    """The costs of sessions, added up in several ways; each session is read once.

    Args:
        sources: the sessions; an answer that several have counts for the first.
        each_by: what the rows are about.
        prices: the prices of answers without a reported cost; None: they are not known.
        report: is called for each file that cannot be read, and for what is wrong with one.
        is_listed: whether each answer is priced, and no reported cost counts.
        since: what was spent before does not count; None: all counts.
        shown: is called with the number of each session before it is read.
        processes: how many processes share the sessions; None: as many as are worth it.
    """
    sums = [_Sums(by, sources) for by in each_by]
    processes = processes_for([source.file for source in sources], processes)

    def found_in(number: int) -> Iterator[_CountedAnswer | str]:
        return _found_in(number, sources[number].file, prices, is_listed=is_listed)

    crew = Crew(found_in, msgspec.msgpack.encode, _decode, processes)
    with closing(crew.results(range(len(sources)), shown)) as results:
        for found in results:
            if isinstance(found, str):
                report(found)
                continue
            time = found.spent.time
            if since is None or time is None or time >= since:
                for each in sums:
                    each.add(found)
    return {by: _in_order(each.made, by) for by, each in zip(each_by, sums, strict=True)}


def _in_order(made: Spending, by: By) -> Spending:
    made.unpriced = +made.unpriced
    made.rows = dict(sorted(made.rows.items(), key=_place_by_day if by == "day" else _place))
    return made


_LOSING: Final = frozenset(
    {
        *("header", "torn", "nul", "json", "utf-8", "crc", "object"),
        *("unreadable", "cut short", "side file", "history"),
    }
)
"""The kinds of damage by which an answer, or what it cost, may be lost."""

_decode: Final = msgspec.msgpack.Decoder(_CountedAnswer | str).decode


def _found_in(
    number: int, file: str, prices: Prices | None, *, is_listed: bool
) -> Iterator[_CountedAnswer | str]:
    """What a session spent, and what is wrong with its file."""
    try:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            with Session.open(file, readonly=True) as session:
                found = costs(session.cursor)
                damage = sum(found.kind in _LOSING for found in session.damage)
    except Exception as error:
        yield problem_of(file, error)
        return
    for spent in unreported(found) if is_listed else found:
        price = prices.of(spent) if prices is not None and spent.needs_price else None
        yield _CountedAnswer(number, spent, price)
    yield from (f"{file}: {warning.message}" for warning in given)
    if damage:
        places = "1 damaged place" if damage == 1 else f"{damage:,} damaged places"
        yield f"what {places} of {file} may have cost; verify the file to see the damage"


def _row_name(by: By, source: CountedFile, spent: Spent) -> Name:
    if by == "project":
        return source.project
    if by == "agent":
        return source.agent
    if by == "model":
        return spent.name or None
    return None if spent.time is None else spent.time.astimezone().date().isoformat()


def _place_by_day(item: tuple[Name, SpendingSum]) -> tuple[bool, str]:
    return item[0] is None, item[0] or ""


def _place(item: tuple[Name, SpendingSum]) -> tuple[float, int, bool, str]:
    name, row = item
    return -(row.usage.cost + row.estimated), -row.usage.output, name is None, name or ""


class Totals(msgspec.Struct):
    """The sums of some sessions.

    Attributes:
        sessions: the number of sessions.
        turns: the number of prompts, in each session that has them.
        bytes: the size of the session files.
        usage: the tokens, and the cost that the agents reported, of each answer once.
        not_counted: the number of sessions whose turns and tokens are not known.
        copies: the number of answers that stand in another session too, and count there.
    """

    sessions: int = 0
    turns: int = 0
    bytes: int = 0
    usage: Usage = Usage()
    not_counted: int = 0
    copies: int = 0

    def add(self, one: SessionInfo, counts: FileCounts | None, copies: list[AnswerUsage]) -> None:
        """Add a session, without the answers that are copies."""
        self.sessions += 1
        self.bytes += one.bytes
        if counts is None:
            self.not_counted += 1
            return
        self.turns += counts.turns
        self.usage += counts.usage
        if copies:
            self.usage -= total(copies)
            self.copies += sum(answer.usage.tokens > 0 for answer in copies)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "sessions": self.sessions,
            "turns": self.turns,
            "bytes": {"file": self.bytes},
            "usage": self.usage.as_dict(),
            "notCounted": self.not_counted,
            "copies": self.copies,
        }


def totals_of(
    sessions: Iterable[tuple[SessionInfo, FileCounts | None]],
) -> tuple[Totals, dict[str, Totals]]:
    """The sums of all sessions, and by agent, the agent with the most sessions first.

    An answer that several sessions have counts for the first.
    """
    every = Totals()
    agents: dict[str, Totals] = {}
    known: set[str] = set()
    for one, counts in sessions:
        answers = counts.answers() if counts is not None else []
        keys = {answer.copy_key for answer in answers}
        copied = keys & known
        copies = [answer for answer in answers if answer.copy_key in copied] if copied else []
        known |= keys
        every.add(one, counts, copies)
        agents.setdefault(one.made_by or OWN, Totals()).add(one, counts, copies)
    most_first = sorted(agents.items(), key=lambda item: (-item[1].sessions, item[0]))
    return every, dict(most_first)
