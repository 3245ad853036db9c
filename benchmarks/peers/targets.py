"""The goals, as ratios of figures of one run of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.process import NOT_IN_TIME, TIMEOUT
from benchmarks.peers.record import Record

_C2, _C200, _C2000 = "compacted-2", "compacted-200", "compacted-2000"
_B2, _B200, _DEEP = "branched-2", "branched-200", "chain-1000000"
_THOUSAND, _TEN, _BIG = "sessions-1000-1", "sessions-10000-1", "sessions-1000-10"
OURS: Final = "sessiontree"

Value = Callable[[Record], float | None]


@dataclass(frozen=True, slots=True)
class Target:
    """A goal.

    Attributes:
        what: the job.
        goal: the bound, in `unit`; None where there is none.
        least: the bound is the least that is good; else the most.
        unit: after a number.
        beyond: where there is no figure, for the other was ended, what it is more than.
    """

    what: str
    goal: float | None
    least: bool
    unit: str
    value: Value
    beyond: Value | None = None


def _ratio(above: Value, below: Value) -> Value:
    def value(record: Record) -> float | None:
        one, other = above(record), below(record)
        return None if one is None or not other else one / other

    return value


def _of(job: str, corpus: str, contender: str = OURS, figure: str = "wall") -> Value:
    return lambda record: record.median(job, corpus, contender, figure)


def _each(job: str, corpus: str, contender: str) -> Value:
    return lambda record: record.each(job, corpus, contender)


def _a_second(record: Record) -> float | None:
    each = record.each("append-small", _B2, "sessiontree, exclusive")
    return each and 1 / each


def _megabytes(value: Value) -> Value:
    return _ratio(value, lambda record: 1e6)


def _against(job: str, corpus: str, peer: str) -> Value:
    return _ratio(_of(job, corpus, peer), _of(job, corpus))


def _times(job: str, corpus: str, what: str, goal: float) -> Iterator[Target]:
    """Against the release of pi that the goal speaks of, and the newest."""
    for peer, name, bound in (("pi", "pi", goal), ("pi-new", "the newest pi", None)):
        value, beyond = _against(job, corpus, peer), _ended_against(job, corpus, peer)
        yield Target(f"{what}, against {name}", bound, True, " times", value, beyond)


def _ended_against(job: str, corpus: str, peer: str) -> Value:
    """The least ratio to a peer that was ended because it took too long."""

    def ended(record: Record) -> float | None:
        return TIMEOUT if record.failure(job, corpus, peer) == NOT_IN_TIME else None

    return _ratio(ended, _of(job, corpus))


_EXCLUSIVE: Final = "sessiontree, exclusive"
_SQLITE: Final = "bare SQLite (WAL, FULL)"
_LOOP: Final = "bare loop of msgspec"
_BYTES: Final = _ratio(
    _of("index", _B200, figure="bytes"), _of("index", _B200, _LOOP, figure="count")
)
_AGAIN: Final = _ratio(
    _of("context-again", _B200, figure="later"), _of("context-again", _B200, figure="cpu")
)
_TREE: Final = _ratio(
    _of("tree", _B200, "sessiontree tree", "process_wall"),
    _of("index", _B200, figure="process_wall"),
)
_HELP: Final = _ratio(
    _of("help", _B2, "sessiontree --help", "process_wall"),
    _of("help", _B2, "import click", "process_wall"),
)

TARGETS: Final = (
    *_times("resume-compacted", _C200, "resume, 200 MB compacted", 300),
    Target(
        "resume, 200 MB compacted, resident",
        45,
        False,
        " MB",
        _megabytes(_of("resume-compacted", _C200, figure="peak")),
    ),
    Target(
        "resume, compacted, 2 GB against 200 MB",
        1.5,
        False,
        " times",
        _ratio(_of("resume-compacted", _C2000), _of("resume-compacted", _C200)),
    ),
    *_times("resume-uncompacted", _B200, "resume, 200 MB uncompacted", 10),
    *_times("resume-deep", _DEEP, "context over 1,000,000 entries", 20),
    Target("context again after one append, 36,000 deep", 3, False, "%", lambda r: _percent(r)),
    Target(
        "whole-file index, against the bare loop",
        1.3,
        False,
        " times",
        _ratio(_of("index", _B200, figure="cpu"), _of("index", _B200, _LOOP, "cpu")),
    ),
    Target("whole-file index, an entry", 250, False, " bytes", _BYTES),
    Target("append, not synced, exclusive, a second", None, True, "", _a_second),
    Target(
        "append, not synced, exclusive, against a bare write",
        5,
        False,
        " times",
        _ratio(_each("append-small", _B2, _EXCLUSIVE), _each("append-small", _B2, "bare write")),
    ),
    Target(
        "append, not synced, exclusive, against AdvancedSQLiteSession",
        20,
        True,
        " times",
        _ratio(_each("append-small", _B2, "openai"), _each("append-small", _B2, _EXCLUSIVE)),
    ),
    Target(
        "append, synced, against SQLite",
        1,
        False,
        " times",
        _ratio(_each("append-fsync", _B2, OURS), _each("append-fsync", _B2, _SQLITE)),
    ),
    Target(
        "append, synced, exclusive, against SQLite",
        1,
        False,
        " times",
        _ratio(_each("append-fsync", _B2, _EXCLUSIVE), _each("append-fsync", _B2, _SQLITE)),
    ),
    *_times("list", _THOUSAND, "list 1,000 sessions", 5),
    Target(
        "list, 10,000 sessions against 1,000",
        11,
        False,
        " times",
        _ratio(_of("list", _TEN), _of("list", _THOUSAND)),
    ),
    Target(
        "search, 1 GB in 1,000 sessions, against ripgrep",
        2,
        False,
        " times",
        _ratio(_of("search", _BIG), _of("search", _BIG, "ripgrep")),
    ),
    Target("--help, against `import click`", 1.6, False, " times", _HELP),
    Target("tree of 100,000 entries, against the index", 1.5, False, " times", _TREE),
)


def _percent(record: Record) -> float | None:
    share = _AGAIN(record)
    return None if share is None else 100 * share


def rows(record: Record) -> Iterator[tuple[str, str, str, str]]:
    """The goals, each with what was measured and whether it is met."""
    for target in TARGETS:
        value, more = target.value(record), ""
        if value is None and target.beyond is not None:
            value, more = target.beyond(record), "> "
        shown = "not measured" if value is None else f"{more}{_number(value)}{target.unit}"
        if target.goal is None:
            yield target.what, "none", shown, ""
            continue
        bound = "≥" if target.least else "≤"
        goal = f"{bound} {target.goal:g}{target.unit}"
        yield target.what, goal, shown, _met(target, value)


def _met(target: Target, value: float | None) -> str:
    if value is None or target.goal is None:
        return ""
    met = value >= target.goal if target.least else value <= target.goal
    return "yes" if met else "**no**"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
