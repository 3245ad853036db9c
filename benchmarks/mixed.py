"""What it costs to list and to search a folder in which the files of all agents lie.

    python -m benchmarks.mixed [--sessions N] [--size BYTES] [--rounds N]

The same conversations are written as sessions of ours, each in the format of one agent
after the other, in the shares that a developer's folder may have, and all in each of
the formats, in folders as those agents make them. Lists and searches of the folders take
turns, and so does the least that they can be read in: what is compressed decompressed,
documents decoded. Figures are medians of the processor's time, user and system, of this
process and those it forks, and their ratio to ours.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import orjson

from benchmarks import corpus
from benchmarks.finding import processor_seconds
from benchmarks.peers.shapes import ClaudeLines, PiLines, openai_items
from sessiontree import Store
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.storage.names import session_files
from sessiontree.text.pattern import Pattern

Fields = dict[str, Any]

RARE: Final = "needlezz"
COMMON: Final = "part-317.ts"
"""What some file names in the corpus are: in most sessions of 1 MB, a time or two."""

SPILLED: Final = "the output that was too long to be kept"


def _as_json(lines: list[Fields]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def version_1(folder: Path, entries: list[Fields]) -> Path:
    """A session as it was before there was a tree: without uuids."""
    tree = ("version", "format", "uuid", "parentUuid", "crc")
    lines = [{k: v for k, v in entry.items() if k not in tree} for entry in entries]
    return _written(folder / "old" / f"{entries[0]['id']}.jsonl", _as_json(lines))


def pi(folder: Path, entries: list[Fields]) -> Path:
    shape = PiLines()
    lines = [line for entry in entries for line in shape.lines(entry)]
    file = folder / "pi" / "--project--" / f"2025-01-01T00-00-00-000Z_{entries[0]['id']}.jsonl"
    return _written(file, _as_json(lines))


def claude_code(folder: Path, entries: list[Fields]) -> Path:
    """A transcript with a subagent's, and with an output in a file of its own."""
    id = entries[0]["id"]
    shape = ClaudeLines(id)
    lines = [line for entry in entries for line in shape.lines(entry)]
    cut = max(1, len(lines) * 4 // 5)
    aside = [{**line, "isSidechain": True, "agentId": "a1b2c3d4"} for line in lines[cut:]]
    if aside:
        aside[0]["parentUuid"] = None
    project = folder / "claude" / "projects" / "-project"
    _written(project / id / "subagents" / "agent-a1b2c3d4.jsonl", _as_json(aside))
    _written(project / id / "tool-results" / "b7.txt", f"{SPILLED}\n".encode())
    return _written(project / f"{id}.jsonl", _as_json(lines[:cut]))


def codex(folder: Path, entries: list[Fields]) -> Path:
    return _written(_rollout_path(folder, entries), _as_json(_rollout(entries)))


def codex_compressed(folder: Path, entries: list[Fields]) -> Path:
    import zstandard

    whole = zstandard.ZstdCompressor().compress(_as_json(_rollout(entries)))
    return _written(Path(f"{_rollout_path(folder, entries)}.zst"), whole)


def _rollout_path(folder: Path, entries: list[Fields]) -> Path:
    day = folder / "codex" / "2025" / "01" / "01"
    return day / f"rollout-2025-01-01T00-00-00-{entries[0]['id']}.jsonl"


def _rollout(entries: list[Fields]) -> list[Fields]:
    at = entries[0]["timestamp"]
    meta = {"id": entries[0]["id"], "timestamp": at, "cwd": "/project", "cli_version": "0.50"}
    lines: list[Fields] = [{"timestamp": at, "type": "session_meta", "payload": meta}]
    for entry in entries[1:]:
        for item in openai_items(entry["message"]):
            said = {"type": "message", "content": item.get("content"), **item}
            if isinstance(said["content"], str):
                said["content"] = [{"type": "input_text", "text": said["content"]}]
            at = entry["timestamp"]
            lines.append({"timestamp": at, "type": "response_item", "payload": said})
    return lines


def gemini(folder: Path, entries: list[Fields]) -> Path:
    """A chat as one document, with the results in the calls' messages."""
    messages: list[Fields] = []
    calls: dict[str, Fields] = {}
    for entry in entries[1:]:
        message = entry["message"]
        base = {"id": entry["uuid"], "timestamp": entry["timestamp"]}
        content = message["content"]
        if message["role"] == "toolResult":
            told = {"functionResponse": {"response": {"output": content[0]["text"]}}}
            calls[message["toolCallId"]] |= {"result": [told], "status": "success"}
            continue
        text = "".join(block["text"] for block in content if block["type"] == "text")
        if message["role"] == "user":
            messages.append({**base, "type": "user", "content": text})
            continue
        made = [
            {"id": block["id"], "name": block["name"], "args": block["arguments"]}
            for block in content
            if block["type"] == "toolCall"
        ]
        calls |= {call["id"]: call for call in made}
        messages.append({**base, "type": "gemini", "content": text, "toolCalls": made})
    id = entries[0]["id"]
    times = {"startTime": entries[0]["timestamp"], "lastUpdated": entries[-1]["timestamp"]}
    chat = {"sessionId": id, "projectHash": "0" * 64, **times, "messages": messages}
    text = json.dumps(chat, indent=2, ensure_ascii=False)
    file = folder / "gemini" / "0" / "chats" / f"session-2025-01-01T00-00-{id}.json"
    return _written(file, text.encode())


def ours(folder: Path, entries: list[Fields]) -> Path:
    return _written(folder / "ours" / f"{entries[0]['id']}.jsonl", _as_json(entries))


def _written(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


Writer = Callable[[Path, list[Fields]], Path]

WRITERS: Final[dict[str, Writer]] = {
    "ours": ours,
    "ours, version 1": version_1,
    "pi": pi,
    "Claude Code": claude_code,
    "Codex": codex,
    "Codex, compressed": codex_compressed,
    "Gemini CLI": gemini,
}


USUAL: Final[list[Writer]] = [
    *([claude_code] * 8),
    *([codex] * 4),
    *([ours] * 3),
    *([gemini] * 2),
    *([pi, version_1, codex_compressed]),
]
"""Of 20 sessions: an assumption."""


def make_folder(folder: Path, writers: list[Writer], count: int, size: int) -> None:
    """Write so many conversations of about so many bytes, the writers taking turns."""
    for number, lines in enumerate(islice(corpus.sessions(max(1, size // 2000)), count)):
        entries = [json.loads(line) for line in lines]
        writers[number % len(writers)](folder, entries)


def jobs(folder: str) -> Iterator[tuple[str, Callable[[], object]]]:
    files = sorted(session_files(folder, print))

    def searched(text: str) -> Callable[[], object]:
        return lambda: sum(1 for _ in search(Pattern(text), files, SearchFilter(), print))

    def decompressed() -> None:
        import zstandard

        for file in files:
            with open(file, "rb", buffering=0) as reading:
                decoder = zstandard.ZstdDecompressor().decompressobj()
                while block := reading.read(64 * 1024):
                    decoder.decompress(block)

    def decoded() -> None:
        for file in files:
            orjson.loads(Path(file).read_bytes())

    if files[0].endswith(".zst"):
        yield "decompress, bare", decompressed
    if files[0].endswith(".json"):
        yield "decode, bare", decoded
    yield "list", lambda: len(Store(folder).list())
    yield "search, rare", searched(RARE)
    yield "search, in most sessions", searched(COMMON)


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=210)
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or Path(temporary)
        kinds: dict[str, list[Writer]] = {
            "native": [ours],
            "mixed": list(WRITERS.values()),
            "usual shares": USUAL,
            **{name: [writer] for name, writer in WRITERS.items() if writer is not ours},
        }
        for name, writers in kinds.items():
            if not (root / name).exists():
                make_folder(root / name, writers, options.sessions, options.size)
        took: dict[tuple[str, str], list[float]] = {}
        for _ in range(options.rounds):
            for name in kinds:
                for job, work in jobs(str(root / name)):
                    started = processor_seconds()
                    work()
                    took.setdefault((job, name), []).append(processor_seconds() - started)
        sizes = {name: _bytes_in(root / name) for name in kinds}
        for (job, name), times in took.items():
            native = took.get((job, "native")) or took["search, rare", "native"]
            ratio = median(times) / median(native)
            print(f"{job} | {name} | {median(times) * 1000:.0f} ms | {ratio:.2f}", end=" | ")
            print(f"{sizes[name] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
