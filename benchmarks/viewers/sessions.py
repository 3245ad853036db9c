"""The sessions that the viewers show: a transcript of Claude Code, repeated to a size.

Each repetition has its own uuids, ids and times, and continues the one before. `ANSWER` is in each
answer of the model and nowhere else, so that a list with the titles of sessions does not have it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

ANSWER: Final = "wombat"
PROMPT: Final = "quokka"

SESSION: Final = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
PROJECT: Final = "-home-me-app"
_FOLDER: Final = "/home/me/app"
_BEGAN: Final = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
_WORDS: Final = (
    *("session", "entry", "writer", "reader", "branch", "cursor", "cache", "index", "token"),
    *("retry", "queue", "worker", "buffer", "socket", "parser", "column", "record", "offset"),
    *("window", "handle", "request", "answer", "context", "summary", "commit", "folder"),
)
_ID: Final = re.compile(rb'"((?:msg|toolu|req)_[A-Za-z0-9]+)"')

Line = dict[str, Any]


def made(seed: int = 7, turns: int = 12, longest: int = 450) -> list[Line]:
    """A transcript as Claude Code writes it: prompts, thoughts, calls, results, edits, answers.

    Args:
        seed: decides the words.
        turns: how many prompts it has.
        longest: how many lines a result has at most.
    """
    chance = random.Random(seed)
    lines: list[Line] = []
    for turn in range(turns):
        lines += _turn(chance, turn, turns, longest)
    above = None
    for number, line in enumerate(lines):
        line |= {"uuid": f"{seed:08x}-0000-4000-8000-{number:012x}", "parentUuid": above}
        above = line["uuid"]
        at = _BEGAN + timedelta(seconds=3 * number)
        line["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return lines


def _turn(chance: random.Random, turn: int, turns: int, longest: int) -> Iterator[Line]:
    yield _line("user", {"role": "user", "content": f"{PROMPT}: {_text(chance, 30)}"})
    for call in range(chance.randint(3, 7)):
        id = f"toolu_{turn * turns + call:024d}"
        name, given, output, beside = _call(chance, longest)
        thought = {"type": "thinking", "thinking": _text(chance, 80), "signature": "c2ln"}
        said = {"type": "text", "text": f"{ANSWER} {_text(chance, 25)}"}
        used = {"type": "tool_use", "id": id, "name": name, "input": given}
        for block in (thought, said, used):
            yield _answer(block, f"msg_{turn:03d}{call:03d}", "tool_use")
        found = {"type": "tool_result", "tool_use_id": id, "content": output}
        yield _line("user", {"role": "user", "content": [found]}, toolUseResult=beside)
    closing = (
        f"{ANSWER}: done.\n\n## What changed\n\n- {_text(chance, 20)}\n- `{_text(chance, 3)}`\n\n"
    )
    closing += f"```python\n{_code(chance, 20)}\n```\n\n{_text(chance, 60)}"
    yield _answer({"type": "text", "text": closing}, f"msg_{turn:03d}999", "end_turn")


def _call(chance: random.Random, longest: int) -> tuple[str, Line, str, Any]:
    kind = chance.choice(("Bash", "Read", "Edit"))
    path = f"{_FOLDER}/src/{chance.choice(_WORDS)}.py"
    if kind == "Bash":
        output = "\n".join(_text(chance, 12) for _ in range(chance.randint(10, longest)))
        given = {"command": f"rg {chance.choice(_WORDS)} src | head", "description": "Search"}
        return kind, given, output, {"stdout": output, "stderr": "", "interrupted": False}
    if kind == "Read":
        code = _code(chance, chance.randint(10, longest))
        numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(code.split("\n"), 1))
        file = {"filePath": path, "content": code, "startLine": 1, "numLines": code.count("\n") + 1}
        return kind, {"file_path": path}, numbered, {"type": "text", "file": file}
    old, new = _code(chance, 4), _code(chance, 6)
    rows = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
    patch = {"oldStart": 10, "oldLines": 4, "newStart": 10, "newLines": 6, "lines": rows}
    given = {"file_path": path, "old_string": old, "new_string": new}
    beside = {"filePath": path, "oldString": old, "newString": new, "structuredPatch": [patch]}
    return kind, given, f"The file {path} has been updated.", beside


def _line(kind: str, message: Line, **more: Any) -> Line:
    about: Line = {
        "isSidechain": False,
        "userType": "external",
        "cwd": _FOLDER,
        "sessionId": SESSION,
    }
    about |= {"version": "2.1.330", "gitBranch": "main", "type": kind}
    return {"parentUuid": None, **about, "message": message, **more}


def _answer(block: Line, id: str, reason: str) -> Line:
    usage: Line = {"input_tokens": 4, "cache_creation_input_tokens": 900, "output_tokens": 350}
    usage["cache_read_input_tokens"] = 42_000
    message: Line = {"id": id, "type": "message", "role": "assistant", "model": "claude-opus-4-6"}
    message |= {"content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}
    return _line("assistant", message, requestId=id.replace("msg", "req"))


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words))


def _code(chance: random.Random, lines: int) -> str:
    names = [chance.choice(_WORDS) for _ in range(lines)]
    return "\n".join(
        f"    {name} = {chance.choice(names)}({n}, '{name}')" for n, name in enumerate(names)
    )


def write(file: Path, lines: Iterable[Line], megabytes: float) -> int:
    """Write a transcript, repeated until it has so many MB; the number of its lines."""
    block = list(lines)
    file.parent.mkdir(parents=True, exist_ok=True)
    size = number = 0
    above: str | None = None
    with file.open("wb") as out:
        while size < megabytes * 1_000_000:
            made, above = _repetition(block, number, above)
            size += out.write(b"".join(made))
            number += 1
    return number * len(block)


def _repetition(
    block: list[Line], number: int, above: str | None
) -> tuple[list[bytes], str | None]:
    """The lines of a repetition, and the uuid that the next repetition hangs below."""
    found: list[bytes] = []
    suffix = f"r{number}".encode()
    later = timedelta(seconds=number * 3 * len(block))
    for line in block:
        made = dict(line)
        for key in ("uuid", "parentUuid"):
            if isinstance(line.get(key), str):
                made[key] = _renamed(line[key], number)
        if line.get("parentUuid") is None and line.get("type") in ("user", "assistant"):
            made["parentUuid"] = above
        if isinstance(at := line.get("timestamp"), str):
            moment = datetime.fromisoformat(at.replace("Z", "+00:00")) + later
            made["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        encoded = orjson.dumps(made) + b"\n"
        above = made.get("uuid") or above
        found.append(_ID.sub(rb'"\1' + suffix + b'"', encoded))
    return found, above


def _renamed(uuid: str, number: int) -> str:
    return f"{uuid[:24]}{uuid[-6:]}{number:06x}"


def read(file: Path) -> list[Line]:
    """The lines of a transcript, with the words that the measurement looks for."""
    lines: list[Line] = [orjson.loads(line) for line in file.read_bytes().splitlines() if line]
    for line in lines:
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        word = PROMPT if line.get("type") == "user" else ANSWER
        if isinstance(content, str) and isinstance(message, dict):
            message["content"] = f"{word} {content}"
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "text":
                block["text"] = f"{word} {block['text']}"
        if "sessionId" in line:
            line["sessionId"] = SESSION
    return lines


def home_of(folder: Path, lines: Iterable[Line], megabytes: float) -> Path:
    """A home folder with one session of a size; its file."""
    file = folder / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(file, lines, megabytes)
    told = {"display": PROMPT, "pastedContents": {}, "timestamp": 1_793_523_600_000}
    told |= {"project": _FOLDER, "sessionId": SESSION}
    (folder / ".claude" / "history.jsonl").write_bytes(orjson.dumps(told) + b"\n")
    return file


def home_of_many(folder: Path, count: int) -> None:
    """A home folder with so many sessions of one turn or two."""
    for number in range(count):
        lines = made(number, 1 + number % 2, longest=30)
        id = f"{number:08x}-0000-4000-8000-000000000000"
        file = folder / ".claude" / "projects" / PROJECT / f"{id}.jsonl"
        write(file, [{**line, "sessionId": id} for line in lines], 0.000_001)
