"""What many sessions cost: as a whole, and by period, project, model or agent.

All sums are added up from the counts of whole files (`library.counts`), which a cache keeps.
Reported and estimated costs are kept apart.

Invariants: an answer that is copied to several files, such as forks and imports, counts once, for
the first of them (`Spent.copy_key` is the one rule), and one that was converted for another agent
only where no other file of its conversation is; one that a fork has with another time counts only
where the session that it was forked from is not; a session that is not counted, or only in part, is
reported, and hides no other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, count
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.agents import OWN, named
from sessiontree.core.usage import FileCounts, Spent, Usage
from sessiontree.library.conversations import are_copies, distance, originals_first
from sessiontree.library.counts import PERIODS, By, CountCache
from sessiontree.library.listing import SessionInfo
from sessiontree.library.root import cache_folder
from sessiontree.storage.names import Report
from sessiontree.text.amounts import counted
from sessiontree.views.costs import Prices, Stats, load, unreported, with_covered, with_spent

UNNAMED: Final = {
    **dict.fromkeys(PERIODS, "(no time)"),
    "project": "(no directory)",
    "model": "(no model)",
}
"""What people read where a row has no name."""

Name = str | None
"""The day, project, model or the like of a row; None for what has none."""

CountedSession = tuple[SessionInfo, FileCounts | None]
"""A file with its counts, None if they are not known; see `library.counts`.

The files of one conversation follow each other, as `conversations.originals_first` gives them.
"""


class _Place(NamedTuple):
    file: int  # the number of a file
    conversation: int  # that of its conversation
    family: str  # the id of the conversation that its conversation was first forked from, or its
    # own; where the agent does not say what a fork is of, the agent's name
    # The id of the conversation that changed its agent, of which it is a file or a fork; else None.
    changed: str | None


def _conversations(sessions: Iterable[CountedSession]) -> Iterator[list[CountedSession]]:
    """The files of each conversation."""
    files: list[CountedSession] = []
    for one, counts in sessions:
        if files and not are_copies(files[0][0], one):
            yield files
            files = []
        files.append((one, counts))
    if files:
        yield files


class _PlacedFile(NamedTuple):
    at: _Place
    one: SessionInfo
    counts: FileCounts | None
    keeps_converted: bool  # whether no other file has its converted answers as they were
    keeps_inherited: bool  # whether the session is not there that it was forked from

    def spent(self) -> list[Spent]:
        """What counts of the file, but for copies of what an earlier file has."""
        return [
            spent
            for spent in ([] if self.counts is None else self.counts.spent())
            if (self.keeps_converted or not spent.is_converted)
            and (self.keeps_inherited or not spent.is_inherited)
        ]

    def inherited(self) -> int:
        """The number of answers that count where the session is that it was forked from."""
        if self.counts is None or self.keeps_inherited:
            return 0
        return sum(spent.is_inherited for spent in self.counts.spent())


def _with_places(sessions: Iterable[CountedSession]) -> Iterator[_PlacedFile]:
    number = count()
    changed: dict[str | None, str] = {}  # by the id of a conversation
    families: dict[str, str] = {}  # likewise
    for conversation, files in enumerate(_conversations(sessions)):
        first = files[0][0]
        forked_from = next((changed[one.copy_of] for one, _ in files if one.copy_of in changed), "")
        above = next((one.copy_of for one, _ in files if one.copy_of != one.id), None)
        keeps_inherited = above not in families
        family = families.setdefault(first.id, families.get(above, above) if above else first.id)
        agent = named(first.made_by)
        if agent is not None and not agent.names_origins:
            family = agent.name
        is_converted = [one.is_converted for one, _ in files]
        if forked_from or any(is_converted):
            changed[first.id] = forked_from or first.id
        for one, counts in files:
            keeps_converted = all(is_converted) and one is first
            place = _Place(next(number), conversation, family, changed.get(first.id))
            yield _PlacedFile(place, one, counts, keeps_converted, keeps_inherited)


class SpendingSum(msgspec.Struct):
    """The sums of some answers."""

    sessions: int = 0  # that the answers are in
    answers: int = 0  # with summaries and `usage` entries
    usage: Usage = Usage()  # the tokens, and the cost that the agents reported
    # The cost in US dollars at list prices of the answers without a reported cost.
    estimated: float = 0.0
    unpriced: int = 0  # answers without a reported cost whose price is not known

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
    """What sessions cost."""

    # The sums by periods (the earliest first), or by project, model or agent (the most expensive
    # first); None has what belongs to no period, project or model.
    rows: dict[Name, SpendingSum]
    total: SpendingSum
    unpriced: Counter[Name]  # answers without a known price, by model
    copies: int = 0  # answers that are in another session too, and count there
    # Sessions that no row counts: they have no answers, or all of them count in another session.
    without: int = 0


class _CountedAnswer(msgspec.Struct, gc=False):
    """An answer that counts; its price does, as long as no cost is reported for it."""

    number: int  # of the file
    row: Name
    price: float | None
    is_estimated: bool


def _keys(at: _Place, spent: Spent) -> Iterator[object]:
    """What copies of an answer may have in common.

    Two answers without an id may have the same time and the same tokens. They are one only where a
    conversation was forked from the other one, or may have been, as far as the agent says what its
    forks are of; or if their entries have the same uuid.

    A fork of a conversation that changed its agent may have the answer as a conversion has it: with
    another id, or none, and the tokens that were written to a cache among the other ones.
    """
    if spent.answer:
        yield spent.copy_key
    else:
        yield at.family, spent.copy_key
        if spent.entry:
            yield spent.entry, spent.copy_key
    used = spent.usage
    if at.changed is not None and used.tokens:
        yield at.changed, spent.time, used.input + used.cache_write, used.output, used.cache_read


class _Sums:
    def __init__(self, by: By, blocks: Sequence[float]) -> None:
        self.made = Spending({}, SpendingSum(), Counter())
        self._by = by
        self._blocks = blocks
        self._known: dict[int, _CountedAnswer] = {}  # by the hash of the key
        self._last: dict[Name, int] = {}  # by row, the conversation that it counted last
        self._counted = -1

    def add(self, at: _Place, one: SessionInfo, spent: Spent, price: float | None) -> None:
        """Add an answer of a file, unless it is a copy of one in another."""
        keys = [*map(hash, _keys(at, spent))]
        known = next(filter(None, map(self._known.get, keys)), None)
        if known is not None and known.number != at.file:
            self._known.update((key, known) for key in keys if key not in self._known)
            self._add_copy(spent, known)
            return
        name = _row_name(self._by, one, spent, self._blocks)
        row, total = self.made.rows.setdefault(name, SpendingSum()), self.made.total
        row.sessions += self._last.get(name) != at.conversation
        total.sessions += self._counted != at.conversation
        self._last[name] = self._counted = at.conversation
        for each in (row, total):
            each.answers += not spent.is_report
            each.usage += spent.usage
        counted = _CountedAnswer(at.file, name, price, spent.needs_price)
        self._known.update(dict.fromkeys(keys, counted))
        if spent.needs_price:
            self._add_price(name, price, spent)

    def _add_copy(self, spent: Spent, known: _CountedAnswer) -> None:
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
    sessions: Iterable[CountedSession], by: By, prices: Prices | None, report: Report, **how: Any
) -> Spending:
    """The costs of sessions, by one thing; see `spendings_of`."""
    return spendings_of(sessions, (by,), prices, report, **how)[by]


def spendings_of(
    sessions: Iterable[CountedSession],
    each_by: Sequence[By],
    prices: Prices | None,
    report: Report,
    *,
    since: datetime | None = None,
    is_listed: bool = False,
) -> dict[By, Spending]:
    """The costs of sessions, added up in several ways.

    Args:
        sessions: the sessions; an answer that several have counts for the first.
        each_by: what the rows are about.
        prices: the prices of answers without a reported cost; None: they are not known.
        report: is called for each session that is not counted, and for each that is damaged.
        since: what was spent before does not count; None: all counts.
        is_listed: whether each answer is priced, and no reported cost counts.
    """
    files: Iterable[_PlacedFile] = _with_places(sessions)
    files = list(files) if "block" in each_by else files
    blocks = _blocks_of(files) if "block" in each_by else []
    sums = [_Sums(by, blocks) for by in each_by]
    start = None if since is None else since.timestamp() * 1000
    read: set[int] = set()  # conversations
    for file in files:
        at, one, counts = file[:3]
        if counts is None:
            report(f"{one.file} is not counted: it is cut, or too large")
            continue
        read.add(at.conversation)
        found, inherited = with_covered(file.spent()), file.inherited()
        for each in sums:
            each.made.copies += inherited
        for spent in unreported(found) if is_listed else found:
            if start is not None and spent.time is not None and spent.time < start:
                continue
            price = prices.of(spent) if prices is not None and spent.needs_price else None
            for each in sums:
                each.add(at, one, spent, price)
        if counts.damaged:
            places = counted(counts.damaged, "damaged place")
            report(f"what {places} of {one.file} may have cost; verify the file to see the damage")
    for each in sums if since is None else ():  # else most spent nothing in that time
        each.made.without = len(read) - each.made.total.sessions
    return {by: _in_order(each.made, by) for by, each in zip(each_by, sums, strict=True)}


def _in_order(made: Spending, by: By) -> Spending:
    made.unpriced = +made.unpriced
    made.rows = dict(sorted(made.rows.items(), key=_place_in_time if by in PERIODS else _place))
    return made


def _row_name(by: By, one: SessionInfo, spent: Spent, blocks: Sequence[float]) -> Name:
    if by == "project":
        return one.cwd
    if by == "agent":
        return one.made_by or OWN
    if by == "model":
        return spent.name or None
    if spent.moment is None:
        return None
    here = spent.moment.astimezone()
    if by == "day":
        return here.date().isoformat()
    if by == "month":
        return f"{here:%Y-%m}"
    if by == "week":
        return (here.date() - timedelta(days=here.weekday())).isoformat()
    start = blocks[bisect_right(blocks, spent.moment.timestamp()) - 1]
    return f"{datetime.fromtimestamp(start).astimezone():%Y-%m-%d %H:%M}"


_BLOCK: Final = 5 * 3600.0
"""The seconds in which Claude's plans count what is used, from the hour of the first answer."""


def _blocks_of(files: Iterable[_PlacedFile]) -> list[float]:
    """When the blocks start in which the answers of some sessions are; ccusage has the same."""
    times = (spent.time for file in files for spent in file.spent())
    starts: list[float] = []
    last = 0.0
    for time in sorted(time / 1000 for time in times if time is not None):
        if not starts or time - starts[-1] > _BLOCK or time - last > _BLOCK:
            starts.append(time - time % 3600)
        last = time
    return starts


def _place_in_time(item: tuple[Name, SpendingSum]) -> tuple[bool, str]:
    return item[0] is None, item[0] or ""


def _place(item: tuple[Name, SpendingSum]) -> tuple[float, int, bool, str]:
    name, row = item
    return -(row.usage.cost + row.estimated), -row.usage.output, name is None, name or ""


class Totals(msgspec.Struct):
    """The sums of some conversations."""

    sessions: int = 0
    turns: int = 0  # in each conversation that has them
    bytes: int = 0  # of the session files
    not_counted: int = 0  # conversations whose turns and tokens are not known
    spent: SpendingSum = msgspec.field(default_factory=SpendingSum)
    copies: int = 0  # answers that are in another file too, and count there

    @property
    def usage(self) -> Usage:
        return self.spent.usage

    def add(self, files: Sequence[CountedSession]) -> None:
        """Add the files of a conversation."""
        self.sessions += 1
        self.not_counted += all(counts is None for _, counts in files)
        self.turns += turns_of(files)
        self.bytes += sum(one.bytes for one, _ in files)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "sessions": self.sessions,
            "turns": self.turns,
            "bytes": {"file": self.bytes},
            "usage": self.usage.as_dict(),
            "cost": self.spent.as_dict()["cost"],
            "notCounted": self.not_counted,
            "copies": self.copies,
        }


def turns_of(files: Sequence[CountedSession]) -> int:
    """The turns of a conversation, given its files: each prompt once.

    Copies of a prompt have one time. A converted prompt is that of another file, if one is left. An
    import has a prompt twice that its file has changed since: the agent's own file has its time
    once. Where Codex replays a session for a subagent, all prompts have one time.
    """
    counted = [(one, counts) for one, counts in files if counts is not None]
    own = Counter[int]()
    for one, counts in counted:
        if one.imported_from is None:
            own |= Counter(filter(None, counts.times_asked()))
    asked, least = Counter[int](), [0]
    for _, counts in counted:
        times = Counter(filter(None, counts.times_asked()))
        once = Counter({time: 1 if own[time] == 1 else count for time, count in times.items()})
        least.append(counts.turns - times.total() + once.total())
        asked |= once
    every = asked.total()
    if counted and all(one.is_converted for one, _ in counted):
        first = counted[0][1]
        every += first.turns - len(first.times_asked())
    return max(every, *least)


def row_of(counter: CountCache, one: SessionInfo, counts: FileCounts | None) -> SessionInfo:
    """The facts of a conversation with its counts, as far as they are known.

    `counts` are those of the file that counts; turns, tokens and cost are of all files.
    """
    row, files = counter.row(one, counts), originals_first([one])
    if counts is None or len(files) == 1:
        return row
    counted = list(counter.counted(files, None))
    row = replace(row, turns=turns_of(counted))
    own = {spent.copy_key for spent in counts.spent() if not spent.is_converted}
    every = chain.from_iterable(each.spent() for _, each in counted if each is not None)
    if all(spent.is_converted or spent.copy_key in own for spent in every):
        return row
    total = spending_of(counted, "agent", load(), lambda problem: None).total
    used, estimated = total.usage, total.estimated or None
    return replace(row, usage=used.as_dict(), cost=used.cost or None, estimated=estimated)


def numbers_of(row: SessionInfo | None, numbers: Stats) -> Stats:
    """The numbers of a session, with all answers of the conversation that its file is a row of.

    Another file of the row may have answers that the session lost, or has converted, which lack
    their models. An import has the sum of an agent's session as it was then.
    """
    files = [] if row is None else originals_first([row])
    if row is None or (not row.is_converted and [one.file for one in files] == [row.file]):
        return numbers
    counter, known = CountCache(cache_folder()), set[object]()
    every = counter.count(row).spent()
    own = {spent.copy_key for spent in every if not spent.is_converted and not _is_sum(spent)}
    sums = {spent.answer: spent.usage for spent in every if _is_sum(spent)}
    found: list[Spent] = []
    for file in _with_places(counter.counted(files, None)):
        each = file.spent()
        keys = [[*_keys(file.at, spent)] for spent in each]
        found += [spent for spent, of in zip(each, keys, strict=True) if known.isdisjoint(of)]
        known.update(chain.from_iterable(keys))
    is_all = all(
        sums.get(spent.answer) == spent.usage if _is_sum(spent) else spent.copy_key in own
        for spent in found
    )
    return numbers if is_all else with_spent(numbers, found)


def _is_sum(spent: Spent) -> bool:
    """Whether this is the sum of a session so far, of which an import may have an earlier one."""
    return spent.is_of_session and bool(spent.answer)


def turns_in(row: SessionInfo) -> int:
    """The turns of a conversation, of all its files."""
    return turns_of([*CountCache(cache_folder()).counted(originals_first([row]), None)])


def all_counted(sessions: Iterable[SessionInfo], report: Report) -> list[SessionInfo]:
    """The facts of conversations with their counts, as far as `CountCache` counts them at once."""
    counter = CountCache(cache_folder(), report)
    found = [row_of(counter, *each) for each in counter.counted(sessions)]
    counter.save()
    return found


def totals_of(
    sessions: Iterable[CountedSession], prices: Prices | None, since: datetime | None = None
) -> tuple[Totals, dict[str, Totals]]:
    """The sums of all conversations, and by agent, the agent with the most sessions first.

    An answer that several files have counts for the first (`spendings_of` is the one rule). A
    conversation counts for the agent of its first file. What was spent before `since` does not
    count; turns and bytes are those of the whole conversations.
    """
    found = list(sessions)
    made = spending_of(found, "agent", prices, lambda problem: None, since=since)
    every = Totals(spent=made.total, copies=made.copies)
    agents = {name or OWN: Totals(spent=row) for name, row in made.rows.items()}
    for conversation in _conversations(found):
        agent = min((one for one, _ in conversation), key=distance).made_by or OWN
        for sums in (every, agents.setdefault(agent, Totals())):
            sums.add(conversation)
    most_first = sorted(agents.items(), key=lambda item: (-item[1].sessions, item[0]))
    return every, dict(most_first)
