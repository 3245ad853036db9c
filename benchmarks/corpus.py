"""Session files to measure on: made from a seed, the same bytes every time.

Messages are shaped like those of a coding agent: a short prompt, then rounds of
an assistant message (text and tool calls, with its usage) and the results of
its calls, some KB each, long ones now and then, with code in them and so with
escapes, letters beyond ASCII and terminal colours. The average is 2 KB a line.

    python benchmarks/corpus.py NAME FOLDER
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sessiontree.core.codec import FORMAT, VERSION, encode

SEED: Final = 20_250_101
MESSAGES: Final = 100_000
DEPTH: Final = 36_000
COMPACT_EVERY: Final = 500
KEPT: Final = 20
CHAIN: Final = 1_000_000

Fields = dict[str, Any]

_START: Final = datetime(2025, 1, 1, tzinfo=UTC)
_PROSE: Final = (
    "the file and then reads return self session def for in if not None import path value "
    "entry line \"text\" 'key' { } ( ) => const function async await string number = == + "
    "should we keep this test fails because tree parent child leaf index offset \\n 0x1f 42"
)
_RARE: Final = ("→", "│", "é", "…", "\x1b[31m", "\x1b[0m", "✓")


class _Maker:
    """Makes entries one below the other, on any branch."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._clock = _START
        self.leaf = ""
        self._prose = self._text(400_000)

    def _text(self, length: int) -> str:
        choice, chance = self._random.choice, self._random.random
        words = _PROSE.split()
        parts: list[str] = []
        size = 0
        while size < length:
            word = choice(words)
            if chance() < 0.09:
                word += "\n" + " " * choice((0, 4, 8))
            elif chance() < 0.002:
                word += choice(_RARE)
            parts.append(word)
            size += len(word) + 1
        return " ".join(parts)

    def some_text(self, median: int, spread: float = 0.8) -> str:
        length = min(int(self._random.lognormvariate(0, spread) * median) + 1, 60_000)
        start = self._random.randrange(len(self._prose) - length)
        return self._prose[start : start + length]

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def around(self, mean: int) -> int:
        """A length of a run: many short, few long."""
        return 1 + int(self._random.expovariate(1 / mean))

    def id(self) -> str:
        return f"toolu_{self._random.getrandbits(120):030x}"

    def entry(self, kind: str, fields: Fields, parent: str | None = None) -> bytes:
        """The line of an entry below another, by default the one made before."""
        uuid = str(UUID(int=self._random.getrandbits(128), version=4))
        self._clock += timedelta(milliseconds=self._random.randrange(50, 20_000))
        keys: Fields = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": parent or self.leaf or None,
            "timestamp": self._clock.isoformat(timespec="milliseconds")[:-6] + "Z",
        }
        self.leaf = uuid
        return encode({**keys, **fields})

    def header(self, id: str = "benchmark") -> bytes:
        self.leaf = ""
        facts = {"version": VERSION, "format": FORMAT, "id": id, "cwd": "/project"}
        return self.entry("session", facts)

    def message(self, message: Fields) -> bytes:
        return self.entry("message", {"message": message})


def messages(make: _Maker) -> Iterator[Fields]:
    """The messages of a conversation that never ends."""
    while True:
        yield {"role": "user", "content": [_text(make.some_text(200))]}
        for _ in range(make.around(4)):
            calls = [_call(make) for _ in range(1 if make.chance(0.9) else make.between(2, 4))]
            said = [_text(make.some_text(250))] if make.chance(0.5) else []
            yield _assistant([*said, *calls], "toolUse")
            for call in calls:
                yield {
                    "role": "toolResult",
                    "toolCallId": call["id"],
                    "toolName": call["name"],
                    "content": [_text(make.some_text(1900, 0.95))],
                    "isError": False,
                }
        yield _assistant([_text(make.some_text(500))], "stop")


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}


def _call(make: _Maker) -> Fields:
    arguments: Fields = {"path": f"packages/agent/src/part-{make.between(1, 400)}.ts"}
    name = "read"
    if make.chance(0.5):
        name = "edit"
        arguments |= {"oldText": make.some_text(300), "newText": make.some_text(400)}
    return {"type": "toolCall", "id": make.id(), "name": name, "arguments": arguments}


def _assistant(content: list[Fields], stop: str) -> Fields:
    return {
        "role": "assistant",
        "content": content,
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {
            "input": 3,
            "output": 267,
            "cacheRead": 23_764,
            "cacheWrite": 614,
            "cost": {"input": 9e-06, "output": 0.004005, "total": 0.090129},
        },
        "stopReason": stop,
    }


def compacted(seed: int = SEED, count: int = MESSAGES) -> Iterator[bytes]:
    """So many messages, compacted every 500; the leaf 500 below the last compaction."""
    make = _Maker(seed)
    conversation = messages(make)
    yield make.header()
    recent: list[str] = []
    for made in range(count):
        if made and made % COMPACT_EVERY == 0:
            yield make.entry("compaction", _compaction(make, recent[-KEPT]))
            recent.clear()
        yield make.message(next(conversation))
        recent.append(make.leaf)


def _compaction(make: _Maker, first_kept: str) -> Fields:
    return {
        "summary": make.some_text(3000, 0.3),
        "firstKeptEntryUuid": first_kept,
        "tokensBefore": 150_000,
        "state": {
            "model": {"provider": "anthropic", "modelId": "claude-sonnet-4-5"},
            "thinkingLevel": None,
            "system": None,
            "name": None,
        },
    }


def branched(seed: int = SEED, count: int = MESSAGES, depth: int = DEPTH) -> Iterator[bytes]:
    """So many messages, `depth` of them on the path to the leaf, never compacted.

    Work goes on for about 36 messages, then something else is tried for about 64,
    then a `branch` entry goes back to where that began, and so on. A last prompt
    stands on the path, for those to whom the last line alone is the leaf.
    """
    make = _Maker(seed)
    conversation = messages(make)
    yield make.header()
    deep, aside = depth, count - depth
    while deep:
        run = min(make.around(36), deep) if aside else deep
        deep -= run
        for _ in range(run):
            yield make.message(next(conversation))
        if aside:
            fork = make.leaf
            run = min(make.around(64), aside) if deep else aside
            aside -= run
            tried = messages(make)
            for _ in range(run):
                yield make.message(next(tried))
            yield make.entry("branch", {}, parent=fork)
    yield make.message({"role": "user", "content": [_text("So much for that.")]})


def chain(seed: int = SEED, length: int = CHAIN) -> Iterator[bytes]:
    """So many small messages, each below the one before."""
    make = _Maker(seed)
    yield make.header()
    for count in range(length):
        role = "assistant" if count % 2 else "user"
        yield make.message({"role": role, "content": f"message {count}"})


def sessions(length: int, seed: int = SEED) -> Iterator[list[bytes]]:
    """Sessions without end, each of so many messages and with an id of its own."""
    make = _Maker(seed)
    number = 0
    while True:
        number += 1
        conversation = messages(make)
        header = make.header(str(UUID(int=number, version=4)))
        yield [header, *(make.message(next(conversation)) for _ in range(length))]


FILES: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "compacted": compacted,
    "branched": branched,
    "chain": chain,
}


def path_of(name: str, folder: Path) -> Path:
    return folder / f"{name}-{SEED}.jsonl"


def make_file(name: str, folder: Path) -> None:
    """Make the session file of that name in a folder, unless it is there."""
    file = path_of(name, folder)
    if file.exists():
        return
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("wb") as out:
        out.writelines(line + b"\n" for line in FILES[name]())
    unfinished.rename(file)


if __name__ == "__main__":
    make_file(sys.argv[1], Path(sys.argv[2]))
