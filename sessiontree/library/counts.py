"""What a list says of whole files: turns, model, tokens and cost.

A file is read from start to end once; a `Cache` keeps what it adds up to, by the stamp of the file
and of the files beside it that belong to it. A list counts the newest sessions first, and only so
many bytes of files that are not in the cache; what is left is unknown, and the next list counts on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from sessiontree.agents import HEAD, formats
from sessiontree.agents.agent import Agent
from sessiontree.agents.codex.names import rollout_of
from sessiontree.core.entry import decode_object, seconds_of
from sessiontree.core.header import is_in_database
from sessiontree.core.usage import EntryTally, FileCounts, Tally, Usage
from sessiontree.engine.translated import (
    agent_files,
    facts_beside,
    history_files,
    inherited_lines,
    lines_as_read,
)
from sessiontree.errors import CorruptionError, SessionTreeError, TooMuchError
from sessiontree.library.cache import Cache, Stamp, is_settled, stamp_of
from sessiontree.library.root import cache_folder
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import (
    SUBAGENTS,
    Report,
    path_in,
    problem_of,
    side_folder,
    unreadable,
)
from sessiontree.storage.place import is_address
from sessiontree.storage.scanner import Find, Scanner
from sessiontree.text.pattern import finder

if TYPE_CHECKING:
    from sessiontree.library.listing import SessionInfo
    from sessiontree.views.costs import CostSum

By = Literal["day", "week", "month", "block", "project", "model", "agent"]
"""What each row of a sum of many sessions is about; a block is five hours of use."""

PERIODS: Final = frozenset({"day", "week", "month", "block"})
"""What has rows in the order of time."""

BY: Final[tuple[By, ...]] = get_args(By)

AT_ONCE: Final = 24_000_000
"""The bytes that one list counts: about a sixth of a second."""

WORTH_SAVING: Final = 8_000_000
"""The bytes counted for single rows after which the counts are saved."""

LARGEST_DOCUMENT: Final = 32_000_000
"""The largest document, which is not read line by line, in bytes."""

_BOM: Final = b"\xef\xbb\xbf"
_DOCUMENT: Final = b"{\n"
"""How a document over many lines starts."""


class SessionCounts(msgspec.Struct, frozen=True):
    """Sums over a whole session, with all branches; see `SessionInfo.counts`."""

    turns: int  # the number of prompts
    model: str | None  # the model that was used last, or None
    usage: Usage  # the tokens of all answers, and the reported cost
    file: FileCounts

    def __repr__(self) -> str:
        return f"SessionCounts(turns={self.turns}, model={self.model!r}, usage={self.usage})"

    @property
    def cost(self) -> CostSum:
        """What the session cost: as reported, and estimated for answers without a report.

        As `Stats.cost`, but answers behind handles have no cost here.
        """
        from sessiontree.views.costs import cost_of  # few lists show it

        return cost_of(self.file.spent())


class _Estimate(msgspec.Struct, array_like=True, frozen=True):
    prices: int  # which version of the package has them; see `_stamp_of_prices`
    dollars: float


class _CachedCounts(msgspec.Struct, array_like=True, frozen=True):
    others: list[str]  # the other files and folders that decide the counts
    stamp: Stamp  # of the session file and the others
    counts: FileCounts
    estimate: _Estimate | None = None


_decoder: Final = msgspec.msgpack.Decoder(dict[str, _CachedCounts])


class CountCache:
    """Counts sessions, and keeps the counts in a file.

    Args:
        folder: the folder of that file; None: nothing is kept.
        report: called with each unexpected error of a session, which is not counted then.
    """

    def __init__(self, folder: str | None, report: Report = lambda problem: None) -> None:
        file = None if folder is None else os.path.join(folder, "counts-13.msgpack")
        self._report = report
        self._cache = Cache(file, _decoder)
        self._scanner = Scanner()
        self._unsaved = 0  # bytes that were counted since

    def save(self, at_least: int = 0) -> None:
        """Save the counts if at least so many bytes were counted since the last time."""
        if self._unsaved >= at_least:
            self._cache.save()
            self._unsaved = 0

    def counted(
        self, sessions: Iterable[SessionInfo], at_once: int | None = AT_ONCE
    ) -> Iterator[tuple[SessionInfo, FileCounts | None]]:
        """Each session with its counts, as long as `at_once` bytes last; None: all."""
        left = at_once
        for one in sessions:
            known = self._known(one)
            if known is None and left is not None:
                if left < one.bytes:
                    yield one, None
                    continue
                left -= one.bytes
            yield one, known or self._counted(one)

    def _estimated(self, one: SessionInfo, counts: FileCounts) -> float:
        """What answers without a reported cost cost, estimated once for each version of prices."""
        prices = _stamp_of_prices()
        cached = self._cache.get(one.file)
        if cached is not None and cached.estimate is not None and cached.counts == counts:
            known = cached.estimate
            if known.prices == prices:
                return known.dollars
        from sessiontree.views.costs import cost_of  # slow to import, as are the prices

        estimated = cost_of(counts.spent()).estimated
        if cached is not None and cached.counts == counts:
            estimate = _Estimate(prices, estimated)
            self._cache.keep(one.file, replace(cached, estimate=estimate))
        return estimated

    def row(self, one: SessionInfo, counts: FileCounts | None) -> SessionInfo:
        """The facts of a session with its counts and its cost, as far as they are known."""
        if counts is None:
            return one
        usage, estimated = counts.usage, self._estimated(one, counts) or None
        numbers = {"turns": counts.turns, "model": counts.model, "usage": usage.as_dict()}
        return replace(one, **numbers, cost=usage.cost or None, estimated=estimated)

    def count(self, one: SessionInfo) -> FileCounts:
        """What a session adds up to; read only if the file changed.

        Raises:
            SessionTreeError, OSError: a part of it cannot be read.
        """
        return self._known(one) or self._read(one)

    def _known(self, one: SessionInfo) -> FileCounts | None:
        cached = self._cache.get(one.file)
        is_current = cached is not None and cached.stamp == _stamp(one, cached.others)
        return cached.counts if cached is not None and is_current else None

    def _counted(self, one: SessionInfo) -> FileCounts | None:
        """What a session adds up to; None if a part of it cannot be read."""
        try:
            return self._read(one)
        except (SessionTreeError, OSError):  # the list has reported it, or it is gone
            return None
        except Exception as error:
            self._report(problem_of(one.file, error))
            return None

    def _read(self, one: SessionInfo) -> FileCounts:
        others = _others(one)
        stamp = _stamp(one, others)
        counts = _counts_of(one, others, self._scanner)
        if is_settled(stamp) and _stamp(one, others) == stamp:
            self._cache.keep(one.file, _CachedCounts(others, stamp, counts))
            self._unsaved += one.bytes
        return counts


@cache
def _stamp_of_prices() -> int:
    """What changes with the package that has list prices, which is slow to import; 0 without it."""
    found = find_spec("genai_prices")
    return 0 if found is None or found.origin is None else os.stat(found.origin).st_mtime_ns


_lock: Final = threading.Lock()
_shared: Final = cache(CountCache)
"""The counts in a folder of caches, which are loaded once for all rows."""


def counts_of(one: SessionInfo) -> SessionCounts:
    """See `SessionInfo.counts`."""
    with _lock:
        counter = _shared(cache_folder())
        try:
            counts = counter.count(one)
        except OSError as error:
            raise unreadable(one.file, error) from error
        counter.save(WORTH_SAVING)
    return SessionCounts(counts.turns, counts.model, counts.usage, counts)


def with_branches(one: SessionInfo, report: Report) -> SessionInfo:
    """The facts of a session with the number of its branches; the whole file is read.

    `report` is called if it cannot be read.
    """
    from sessiontree.session import Session
    from sessiontree.views.tree import count_branches  # heavy, and seldom asked for

    try:
        with Session.open(one.file, readonly=True) as session:
            return replace(one, branches=count_branches(session.reader))
    except Exception as error:
        report(problem_of(one.file, error))
        return one


def _stamp(one: SessionInfo, others: Iterable[str]) -> Stamp:
    """The stamp of a session and of what is beside it."""
    if is_address(one.file):  # its bytes only become more, but for a rewrite
        return one.bytes, int((seconds_of(one.modified) or 0.0) * 1e9)
    return stamp_of((one.file, *others))


def _others(one: SessionInfo) -> list[str]:
    """What decides the counts beside the session file: folders first, then the files in them."""
    if one.agent is None:
        return []
    of_chat = path_in(os.path.dirname(one.file), one.id)
    folders = [side_folder(one.file, SUBAGENTS), *filter(None, [of_chat])]
    beside = agent_files(one.file, lambda problem: None) if any(map(os.path.isdir, folders)) else ()
    return [*folders, *beside, *history_files(one.file), *filter(None, [_file_of_sums(one)])]


def _file_of_sums(one: SessionInfo) -> str | None:
    """The file beside a session, there or not, that has sums of its tokens."""
    agent = _agent_of(one)
    return None if agent is None or not agent.reader.has_sums_beside else agent.facts_file(one.file)


def _agent_of(one: SessionInfo) -> Agent | None:
    return next((each for each in formats() if each.program == one.agent), None)


def _counts_of(one: SessionInfo, others: Sequence[str], scanner: Scanner) -> FileCounts:
    agent = _agent_of(one)
    document = _document(one)
    is_whole = document is None or bool(decode_object(document))
    if is_whole:
        counts = _counted(one, others, agent, partial(_lines, one, document, scanner))
        if agent is None or not counts.damaged:
            return counts
    if agent is None or not (is_whole or decode_object(next(lines_as_read(agent, one.file), b""))):
        raise CorruptionError(f"{one.file} is cut; its turns are not known", one.file, 0)
    return _counted(one, others, agent, lambda path, find: lines_as_read(agent, path))


def _lines(
    one: SessionInfo, document: bytes | None, scanner: Scanner, path: str, find: Find
) -> Iterator[bytes]:
    """The lines of a file of a session that have something to count, as they are."""
    if document is not None and path == one.file:
        yield document
        return
    for offset, line in scanner.lines(path, find):
        yield line if offset else line.removeprefix(_BOM)


def _counted(
    one: SessionInfo,
    others: Sequence[str],
    agent: Agent | None,
    lines: Callable[[str, Find], Iterator[bytes]],
) -> FileCounts:
    tally: Tally = EntryTally() if agent is None else agent.reader.tally()
    find = _with_torn(finder(tally.needles))
    if agent is not None and _may_have_more(agent, one.file):
        for line in inherited_lines(agent, one.file):
            tally.take(line)
    for line in lines(one.file, find):
        tally.take(line)
    sums = _file_of_sums(one)
    for path in others:
        if path != sums and rollout_of(path) is None and os.path.isfile(path):
            for line in lines(path, find):
                tally.take(line, beside=True)
    if sums is not None and (document := facts_beside(one.file, DISK)) is not None:
        tally.take(document, beside=True)
    return tally.counts()


def _with_torn(find: Find) -> Find:
    """Find a last line without its LF too: a cut line may have had what is counted."""

    def found(block: bytearray | bytes, end: int) -> Iterator[tuple[int, int]]:
        last = -1
        for last, stop in find(block, end):
            yield last, stop
        start = block.rfind(b"\n", 0, end) + 1
        if start not in (last, end):
            yield start, end

    return found


def _may_have_more(agent: Agent, file: str) -> bool:
    """True if a session may have lines in other files of its thread, or of another one."""
    rollout = rollout_of(file)
    if rollout is not None and rollout.segment != rollout.thread:
        return True
    if is_in_database(file):  # where nothing is beside a session
        return False
    with open(file, "rb") as opened:
        return agent.reader.facts(opened.read(HEAD), b"").is_continued


def _document(one: SessionInfo) -> bytes | None:
    """The content of a document; None for a file of lines.

    Raises:
        TooMuchError: the document is too large.
    """
    if is_address(one.file) or is_in_database(one.file):
        return None
    with open(one.file, "rb") as opened:
        if opened.read(len(_DOCUMENT)) != _DOCUMENT:
            return None
        if one.bytes > LARGEST_DOCUMENT:
            raise TooMuchError(f"{one.file} is a document, and too large to count its turns")
        return _DOCUMENT + opened.read()
