"""What labels, moves and one recorded turn cost on a session of 200 MB and of 2 GB.

    python -m benchmarks.moves [--size MB …] [--against OTHER] [--folder FOLDER] [--rounds N]

makes sessions of each size (the same bytes every time), does each operation in a fresh process, and
prints its processor time, from the opening to the closing of the session, divided by the time to
decode the file, `[orjson.loads(line) for line in open(file, "rb")]`. The time of imports is
left out. The reference is measured on 200 MB and scaled to the other sizes, for decoding 2 GB
takes 5 GB of memory. OTHER is the path of another checkout, which does the same in turns.

A *compacted* session ends as sessiontree leaves it: with a compaction by `Session.compact`, a
label, a named branch and messages after it. *Older* has no compaction that repeats the names, as
sessions had that version 0.2.0 compacted; *branched* has no compaction at all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

SIZES: Final = (200, 2000)
SHAPES: Final = ("compacted", "older", "branched")
_REFERENCE_MB: Final = 200
_AFTER: Final = 300
"""Messages after the last compaction of a compacted session."""


def _turn(uuid: Callable[[int], Any]) -> bytes:
    """The stream of one turn of Claude Code; `uuid` gives that of each event, or None."""
    base = {"session_id": "stream"}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    answer = {**said, "content": [{"type": "text", "text": "Yes."}], "usage": usage}
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "cwd": "/project", **base},
        {"type": "assistant", "message": answer, "parent_tool_use_id": None, **base},
        {"type": "result", "subtype": "success", "result": "Yes.", "is_error": False, **base},
    ]
    for at, line in enumerate(lines):
        if (own := uuid(at)) is not None:
            line["uuid"] = own
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


_TURN: Final = _turn(lambda at: f"0f0e0d0c-0b0a-4908-8706-05040302010{at}")
BARE_TURN: Final = _turn(lambda at: None)


def _record(session: Any, stream: bytes) -> None:
    from sessiontree import StreamAccumulator

    with StreamAccumulator(session, prompt="More?") as recording:
        recording.feed(stream)


def _fork(session: Any, ref: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=Path(session.file).parent) as folder:
        session.fork(f"{folder}/fork.jsonl", ref)


OPERATIONS: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "open and close": lambda session, _: None,
    "entry @~3": lambda session, _: session.entry("@~3"),
    "label": lambda session, at: session.label(at["near"], "fresh"),
    "rename": lambda session, _: session.rename("fresh"),
    "branch, named": lambda session, at: session.branch(at["near"], name="fresh"),
    "switch to a uuid": lambda session, at: session.switch(at["near"]),
    "switch to a label": lambda session, _: session.switch("here"),
    "switch to a branch": lambda session, _: session.switch("aside"),
    "record": lambda session, _: _record(session, _TURN),
    "record, no uuids": lambda session, _: _record(session, BARE_TURN),
    "push": lambda session, _: session.push("aside"),
    "pop": lambda session, _: session.pop(summary="Popped."),
    "rewind": lambda session, _: session.rewind(),
    "compact": lambda session, _: session.compact(summary="Compacted.", keep=2000),
    "fork, 100 deep": lambda session, at: _fork(session, at["100"]),
    "fork, 1,000 deep": lambda session, at: _fork(session, at["1000"]),
    "fork, whole path": lambda session, _: _fork(session, None),
}
_LONG_CONTEXT: Final = frozenset({"compact"})
"""Operations that need the whole context, which of a branched session is its whole path."""


def work(operation: str, file: str, facts: dict[str, Any]) -> float:
    """Do one operation; return the processor's seconds."""
    from sessiontree import Session

    run = OPERATIONS[operation]
    with (
        tempfile.TemporaryDirectory(dir=Path(file).parent) as folder,
        Session.create(f"{folder}/small.jsonl") as small,  # so that all is imported
    ):
        first = [small.append_message({"role": "user", "content": "Go"}) for _ in range(9)][1]
        small.label(first, "here")
        small.branch(first, name="aside")
        small.append_message({"role": "user", "content": "Aside " * 3000})
        small.append_message({"role": "user", "content": "Aside " * 3000})
        run(small, {"near": first.uuid, "100": first.uuid, "1000": first.uuid})
    size = os.path.getsize(file)
    try:
        began = time.process_time()
        with Session.open(file) as session:
            run(session, facts)
        return time.process_time() - began
    finally:
        os.truncate(file, size)


def decode(file: str) -> float:
    """Decode every line, and keep them; return the processor's seconds."""
    import orjson

    began = time.process_time()
    with open(file, "rb") as lines:
        kept = [orjson.loads(line) for line in lines]
    took = time.process_time() - began
    assert kept
    return took


def make(shape: str, megabytes: int, folder: Path) -> Path:
    """Make a session, unless it is there, with the facts about it beside it."""
    import orjson

    from benchmarks.peers.corpora import lines_of
    from sessiontree import Session

    file = folder / f"{shape}-{megabytes}.jsonl"
    if file.exists():
        return file
    uuids: dict[str, str] = {}
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("wb") as out:
        made = lines_of(f"{'branched' if shape == 'branched' else 'compacted'}-{megabytes}")
        for number, line in enumerate(made):
            out.write(line + b"\n")
            if number in (100, 1000):
                uuids[str(number)] = orjson.loads(line)["uuid"]
    with Session.open(str(unfinished), durability="os") as session:
        if shape == "compacted":
            session.compact(summary="The last compaction.", keep=2000)
        message = {"role": "user", "content": "And then. " * 200}
        answer = {"role": "assistant", "content": "Done. " * 300}
        near = "" if shape != "compacted" else session.leaf.uuid
        for number in range(_AFTER):
            entry = session.append_message(answer if number % 2 else message)
            near = entry.uuid if number == _AFTER // 2 else near
        uuids["near"] = near
        session.label(near, "here")
        session.branch(near, name="aside")
        session.append_message(message)
        session.append_message(answer)
        session.switch(entry.uuid)
        for number in range(_AFTER // 10):
            session.append_message(answer if number % 2 else message)
    file.with_suffix(".facts").write_bytes(orjson.dumps(uuids))
    unfinished.rename(file)
    return file


def _measured(checkout: Path, *words: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--do", *words]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, nargs="+", default=SIZES, help="in MB")
    parser.add_argument("--shape", nargs="+", default=SHAPES, choices=SHAPES)
    parser.add_argument("--only", nargs="+", default=list(OPERATIONS))
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--folder", type=Path, help="a folder that keeps the sessions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--do", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do:
        operation, file, facts = options.do
        print(decode(file) if operation == "decode" else work(operation, file, json.loads(facts)))
        return
    own = Path(__file__).resolve().parent.parent
    checkouts = [own] if options.against is None else [options.against.resolve(), own]
    with tempfile.TemporaryDirectory(prefix="sessiontree-moves-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for shape in options.shape:
            _table(shape, options, checkouts, folder)


def _table(shape: str, options: argparse.Namespace, checkouts: list[Path], folder: Path) -> None:
    files = {size: make(shape, size, folder) for size in options.size}
    reference = make(shape, _REFERENCE_MB, folder)
    rounds = range(options.rounds)
    whole = median(_measured(checkouts[-1], "decode", str(reference), "") for _ in rounds)
    names = ["before", "now"][-len(checkouts) :]
    cells = [f"{name}, {size} MB" for size in files for name in names]
    print(f"\n{shape}: {_REFERENCE_MB} MB are decoded in {whole:.2f} s\n")
    print("operation", *cells, sep=" | ")
    print(" | ".join(["---"] * (1 + len(cells))), flush=True)
    for operation in options.only:
        if shape == "branched" and operation in _LONG_CONTEXT:
            continue
        row = []
        for size, file in files.items():
            facts = file.with_suffix(".facts").read_text()
            turns = [
                [_measured(one, operation, str(file), facts) for one in checkouts] for _ in rounds
            ]
            for times in zip(*turns, strict=True):
                took = median(times)
                row.append(f"{took / whole * _REFERENCE_MB / size:.2%} ({took * 1e3:,.1f} ms)")
        print(operation, *row, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
