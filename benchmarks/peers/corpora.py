"""The same sessions in the format of each peer, made from a seed.

    python -m benchmarks.peers.corpora NAME FOLDER

A corpus is a folder with a folder for each format, and `facts.json`: how many
messages each peer should give for its context, and where the middle is. The
databases are made from what lies there by the drivers of those peers.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from benchmarks import corpus
from benchmarks.peers.shapes import ClaudeLines, Fields, PiLines, openai_items

SESSION: Final = "00000000-0000-4000-8000-000000000001"
MESSAGES_A_MB: Final = 500
SESSION_MESSAGES: Final = 45
"""Messages in a session of 100 KB."""

APPENDED: Final = 1000


def lines_of(name: str) -> Iterator[bytes]:
    """The entries of a session: `compacted-MB`, `branched-MB`, or `chain-ENTRIES`."""
    shape, size = name.rsplit("-", 1)
    count = int(size) * MESSAGES_A_MB
    if shape == "compacted":
        return corpus.compacted(count=count)
    if shape == "branched":
        return corpus.branched(count=count, depth=count * corpus.DEPTH // corpus.MESSAGES)
    return corpus.chain(length=int(size))


def has_databases(name: str) -> bool:
    """Whether a corpus comes as databases too: the largest would take them hours."""
    return not name.startswith("sessions-") and name != "compacted-2000"


def make(name: str, folder: Path) -> None:
    """Make a corpus in `folder/name`, unless it is there."""
    target = folder / name
    if target.exists():
        return
    unfinished = folder / (name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    if name.startswith("sessions-"):
        _, count, times = name.split("-")
        _many(unfinished, int(count), SESSION_MESSAGES * int(times))
    else:
        _one(unfinished, name)
    unfinished.rename(target)


def _one(folder: Path, name: str) -> None:
    source = folder / "sessiontree" / "project" / "session.jsonl"
    source.parent.mkdir(parents=True)
    above: dict[str, str | None] = {}
    with source.open("wb") as out:
        for line in lines_of(name):
            out.write(line + b"\n")
            entry = orjson.loads(line)
            above[entry["uuid"]] = entry["parentUuid"]
    path = _path_from(entry["uuid"], above)
    facts = _convert(folder, source, path, with_databases=has_databases(name))
    (folder / "facts.json").write_bytes(orjson.dumps(facts))
    with source.open("rb") as lines, (folder / "messages.jsonl").open("wb") as out:
        said = (entry["message"] for entry in _entries(lines) if entry["type"] == "message")
        for message in islice(said, APPENDED):
            out.write(orjson.dumps(message) + b"\n")


def _path_from(leaf: str, above: dict[str, str | None]) -> set[str]:
    path = set()
    uuid: str | None = leaf
    while uuid is not None:
        path.add(uuid)
        uuid = above[uuid]
    return path


def _entries(lines: BinaryIO) -> Iterator[Fields]:
    return map(orjson.loads, lines)


class _Counts:
    """Follows a path down: what a context has, and where the middle is."""

    def __init__(self, length: int) -> None:
        self._middle = length // 2
        self._seen = self._turns = 0
        self.context = {"sessiontree": 0, "pi": 0, "claude": 0, "openai": 0, "langgraph": 0}
        self.half: dict[str, Any] = {}

    def see(self, entry: Fields, id: str | None) -> None:
        self._seen += 1
        if entry["type"] == "compaction":
            context = dict.fromkeys(self.context, 1 + corpus.KEPT)
            self.context = context | {"claude": 1, "openai": 0}
        if entry["type"] != "message":
            return
        message = entry["message"]
        for format in self.context:
            self.context[format] += len(openai_items(message)) if format == "openai" else 1
        if message["role"] != "user":
            return
        self._turns += 1
        if self._seen >= self._middle and not self.half:
            uuid = entry["uuid"]
            self.half = {"sessiontree": uuid, "claude": uuid, "pi": id, "openai": self._turns}
            self.half["messages"] = self.context["sessiontree"]

    def facts(self) -> Fields:
        return {"session": SESSION, "context": self.context, "half": self.half}


def _convert(folder: Path, source: Path, path: set[str], *, with_databases: bool) -> Fields:
    """Write what the peers read; the facts."""
    pi, claude = PiLines(), ClaudeLines(SESSION)
    counts = _Counts(len(path))
    with ExitStack() as opened:

        def file(name: str) -> BinaryIO:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            return opened.enter_context(place.open("wb"))

        pi_file = file("pi/session.jsonl")
        claude_file = file(f"claude/projects/-project/{SESSION}.jsonl")
        items = aside = state = None
        if with_databases:
            items, aside = file("openai/main.jsonl"), file("openai/aside.jsonl")
            state = file("langgraph/messages.jsonl")
        for entry in _entries(opened.enter_context(source.open("rb"))):
            _write(pi_file, pi.lines(entry))
            _write(claude_file, claude.lines(entry))
            on_path = entry["uuid"] in path
            if on_path:
                counts.see(entry, pi.id_of(entry["uuid"]))
            if items and aside and state and entry["type"] == "message":
                _write(items if on_path else aside, openai_items(entry["message"]))
                _write(state, [entry["message"]] if on_path else [])
    return counts.facts()


def _write(file: BinaryIO, values: list[Fields]) -> None:
    for value in values:
        file.write(orjson.dumps(value) + b"\n")


def _many(folder: Path, count: int, length: int) -> None:
    """So many sessions, one file each, in the formats that have such."""
    for format in ("sessiontree/project", "pi", "claude/projects/-project"):
        (folder / format).mkdir(parents=True)
    for lines in islice(corpus.sessions(length), count):
        entries = [orjson.loads(line) for line in lines]
        header = entries[0]
        id, stamp = header["id"], header["timestamp"].translate({ord(":"): "-", ord("."): "-"})
        pi, claude = PiLines(), ClaudeLines(id)
        ours = folder / "sessiontree" / "project" / f"{stamp}_{id}.jsonl"
        ours.write_bytes(b"\n".join(lines) + b"\n")
        _fill(folder / "pi" / f"{stamp}_{id}.jsonl", entries, pi.lines)
        _fill(folder / "claude" / "projects" / "-project" / f"{id}.jsonl", entries, claude.lines)
    facts = {"sessions": count}
    (folder / "facts.json").write_bytes(orjson.dumps(facts))


def _fill(file: Path, entries: list[Fields], lines: Callable[[Fields], list[Fields]]) -> None:
    with file.open("wb") as out:
        for entry in entries:
            _write(out, lines(entry))


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
