"""A model of a day of coding agents: what each calls, when, and how much it stores.

    python -m benchmarks.day FOLDER

prints the tables below from the session files in a folder: of the pi coding agent (version 1) in
FOLDER/pi-v1, and of Claude Code in FOLDER/claude-code. They are counts, sizes and times; no content
is in them. What the sessions do not say is assumed, and `Day` says so.

Invariant: the same seed gives the same day, for each agent by itself.
"""

from __future__ import annotations

import math
import random
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

_SHARES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

Table = Sequence[float]
"""The values at these shares of a sorted sample."""


class Shape(NamedTuple):
    """What was measured in the sessions of one agent.

    Attributes:
        entries: the entries of a turn: its prompt, answers and results.
        prompt, answer, result: bytes of a line.
        reading: seconds from the end of a turn to the next prompt.
        thinking: seconds from an entry to the answer after it.
        running: seconds from a call to its result.
    """

    entries: Table
    prompt: Table
    answer: Table
    result: Table
    reading: Table
    thinking: Table
    running: Table


SHAPES: Final[dict[str, Shape]] = {
    "pi-v1": Shape(
        entries=(2, 2, 4, 6, 12, 20, 28, 146, 146),
        prompt=(148, 155, 181, 226, 261, 353, 466, 2548, 2548),
        answer=(385, 553, 589, 676, 1024, 1719, 2383, 4554, 21977),
        result=(241, 249, 321, 769, 1329, 2309, 3108, 8712, 49232),
        reading=(1.3, 9.2, 14.9, 38.7, 82.8, 209.8, 262.4, 709.4, 709.4),
        thinking=(0.0, 3.4, 4.0, 5.1, 6.7, 9.1, 11.1, 17.0, 60.8),
        running=(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.1, 6.3, 7.8),
    ),
    "claude-code": Shape(
        entries=(1, 1, 1, 1, 8, 11, 36, 36, 36),
        prompt=(428, 448, 449, 491, 611, 730, 10842, 10842, 10842),
        answer=(817, 892, 952, 992, 1430, 2265, 2642, 4400, 4400),
        result=(710, 790, 853, 3176, 6161, 6827, 7667, 23352, 23352),
        reading=(0.0, 0.0, 0.0, 2.3, 3.9, 74.8, 74.8, 74.8, 74.8),
        thinking=(0.3, 0.4, 0.7, 2.2, 3.3, 5.6, 7.9, 15.0, 15.0),
        running=(0.0, 0.0, 0.2, 2.1, 25.8, 61.6, 110.4, 135.3, 135.3),
    ),
}
"""One session of pi with 88 turns, and three of Claude Code with 13."""


class Day(NamedTuple):
    """The parameters of a day; those marked *assumed* are not in the sessions that were measured.

    Attributes:
        agents: sessions that are begun; half of each shape, by chance.
        hour, spread: when: a normal distribution, in hours of one time zone (assumed).
        turns, width, most: turns of a session: a lognormal distribution with this median and this
            deviation of the logarithm, as the four sessions have it (2, 4, 7 and 88), cut at most.
        breaks: one pause in so many is long, 10 minutes to 2 hours, after which the session is
            resumed by a new process (assumed).
        parallel: one call in so many is 2 to 16 calls, whose results are one batch (5 of 402).
        images: one result in so many has an image of 60 to 400 KB (assumed: no session has one).
        branches: before one turn in so many, the session goes back to an earlier prompt (assumed).
        window: the bytes of messages after which a context is compacted (assumed: 150,000 tokens).
        lists, searches: before one turn in so many, the sessions of the project are listed, or
            searched (assumed).
        team: the agents of a project.
    """

    agents: int = 10_000
    hour: float = 11.0
    spread: float = 2.5
    turns: float = 8.4
    width: float = 1.65
    most: int = 200
    breaks: int = 20
    parallel: int = 80
    images: int = 50
    branches: int = 25
    window: int = 600_000
    lists: int = 10
    searches: int = 40
    team: int = 10


APPENDS: Final = frozenset({"prompt", "answer", "result", "image", "batch"})
"""The kinds of calls that append messages."""


class Call(NamedTuple):
    """A call of an agent.

    Attributes:
        at: the second of the day.
        kind: `start`, one of `APPENDS`, `resume`, `branch`, `compact`, `list` or `search`.
        sizes: the bytes of the lines that it appends.
    """

    at: float
    kind: str
    sizes: tuple[int, ...] = ()


def drawn(table: Table, chance: random.Random) -> float:
    """A value of a table; between two of its values, each is as likely."""
    share = chance.random()
    number = min(bisect_right(_SHARES, share), len(_SHARES) - 1)
    low, high = _SHARES[number - 1], _SHARES[number]
    return table[number - 1] + (table[number] - table[number - 1]) * (share - low) / (high - low)


class _Clock:
    """The time of an agent, and what its context has since it was compacted."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.stored = 0

    def call(self, kind: str, *sizes: int) -> Call:
        self.stored += sum(sizes)
        return Call(self.at, kind, sizes)


def calls_of(day: Day, seed: int, agent: int) -> Iterator[Call]:
    """The calls of an agent, in order."""
    chance = random.Random(f"{seed} {agent}")
    shape = chance.choice(list(SHAPES.values()))
    clock = _Clock(chance.gauss(day.hour, day.spread) * 3600)
    yield clock.call("start", 300)
    turns = min(day.most, max(1, round(chance.lognormvariate(math.log(day.turns), day.width))))
    for turn in range(turns):
        if turn:
            yield from _between(day, shape, clock, chance)
        yield from _turn(day, shape, clock, chance)


def _between(day: Day, shape: Shape, clock: _Clock, chance: random.Random) -> Iterator[Call]:
    """What happens before a turn that is not the first one."""
    clock.at += drawn(shape.reading, chance)
    if chance.random() < 1 / day.breaks:
        clock.at += chance.uniform(600, 7200)
        yield clock.call("resume")
    if chance.random() < 1 / day.lists:
        yield clock.call("list")
    if chance.random() < 1 / day.searches:
        yield clock.call("search")
    if clock.stored > day.window:
        clock.stored = 0
        yield clock.call("compact", 4000)
    elif chance.random() < 1 / day.branches:
        yield clock.call("branch", 1000)


def _turn(day: Day, shape: Shape, clock: _Clock, chance: random.Random) -> Iterator[Call]:
    """A prompt, and answers with the results of their calls; the last answer calls nothing."""
    yield clock.call("prompt", round(drawn(shape.prompt, chance)))
    for _ in range((max(2, round(drawn(shape.entries, chance))) - 2) // 2):
        clock.at += drawn(shape.thinking, chance)
        yield clock.call("answer", round(drawn(shape.answer, chance)))
        clock.at += drawn(shape.running, chance)
        if chance.random() < 1 / day.parallel:
            count = chance.randint(2, 16)
            yield clock.call("batch", *(round(drawn(shape.result, chance)) for _ in range(count)))
        elif chance.random() < 1 / day.images:
            yield clock.call("image", chance.randint(60_000, 400_000))
        else:
            yield clock.call("result", round(drawn(shape.result, chance)))
    clock.at += drawn(shape.thinking, chance)
    yield clock.call("answer", round(drawn(shape.answer, chance)))


@dataclass(slots=True)
class Demand:
    """What a day asks for, counted without a call of the library.

    Attributes:
        calls: how many of each kind.
        entries, bytes: what is stored; images count with their bytes.
        peak: the second at which the busiest minute begins.
        peak_entries: the entries of that minute.
        at_once: the most agents that are in a turn at the same time.
    """

    calls: Counter[str]
    entries: int
    bytes: int
    peak: int
    peak_entries: int
    at_once: int

    @property
    def turns(self) -> int:
        return self.calls["prompt"]


def demand_of(day: Day, seed: int) -> Demand:
    """What the agents of a day ask for."""
    calls: Counter[str] = Counter()
    minutes: Counter[int] = Counter()
    steps: list[tuple[float, int]] = []
    stored = 0
    for agent in range(day.agents):
        begun = ended = math.inf
        for call in calls_of(day, seed, agent):
            calls[call.kind] += 1
            stored += sum(call.sizes)
            minutes[int(call.at // 60)] += len(call.sizes)
            if call.kind == "prompt":
                if begun < math.inf:
                    steps += [(begun, 1), (ended, -1)]
                begun = call.at
            if call.kind in APPENDS:
                ended = call.at
        steps += [(begun, 1), (ended, -1)]
    minute, most = minutes.most_common(1)[0]
    return Demand(calls, minutes.total(), stored, minute * 60, most, _most_at_once(steps))


def _most_at_once(steps: list[tuple[float, int]]) -> int:
    count = most = 0
    for _, step in sorted(steps):
        count += step
        most = max(most, count)
    return most


def main() -> None:
    """Print the tables of the session files in a folder."""
    folder = Path(sys.argv[1])
    for name in ("pi-v1", "claude-code"):
        print(f"    {name!r}: Shape(")
        for field, values in zip(Shape._fields, _measured(folder / name), strict=True):
            print(f"        {field}={_table(values)},")
        print("    ),")


def _table(values: list[float]) -> tuple[float, ...]:
    values = sorted(values)
    places = (min(len(values) - 1, int(share * len(values))) for share in _SHARES)
    return tuple(round(values[place], 1) for place in places)


def _measured(folder: Path) -> list[list[float]]:
    """The samples of the fields of a shape."""
    entries: list[float] = []
    sizes: dict[str, list[float]] = defaultdict(list)
    gaps: dict[str, list[float]] = defaultdict(list)
    for file in sorted(folder.glob("*.jsonl")):
        found = list(_messages(file))
        prompts = [number for number, (kind, _, _) in enumerate(found) if kind == "prompt"]
        entries += [end - begin for begin, end in pairwise([*prompts, len(found)])]
        for kind, size, _ in found:
            sizes[kind].append(size)
        for (_, _, before), (kind, _, at) in pairwise(found):
            gaps[kind].append(max(0.0, at - before))
    kinds = ("prompt", "answer", "result")
    return [entries, *(sizes[kind] for kind in kinds), *(gaps[kind] for kind in kinds)]


def _messages(file: Path) -> Iterator[tuple[str, int, float]]:
    """The kind, the bytes and the time of each message of a session file."""
    for line in file.read_bytes().splitlines():
        entry: dict[str, Any] = orjson.loads(line)
        message = entry.get("message")
        if entry.get("type") == "progress" or not isinstance(message, dict):
            continue
        at = datetime.fromisoformat(entry["timestamp"]).timestamp()
        yield _kind(message), len(line), at


def _kind(message: dict[str, Any]) -> str:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    if message["role"] == "toolResult" or any(one["type"] == "tool_result" for one in blocks):
        return "result"
    return "prompt" if message["role"] == "user" else "answer"


if __name__ == "__main__":
    main()
