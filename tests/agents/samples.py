"""Makes the sample of `fixtures/agents/claude_code/`: `python -m tests.agents.samples`.

The real program writes it; then the texts of the program are replaced, and the hashes that its
records of requests have of these texts.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.agents.claude_code import conversation

FOLDER = Path(__file__).parents[2] / "fixtures" / "agents" / "claude_code"
_SESSION = "5e551015-0000-4000-8000-000000000001"
_LONGEST = 60
_SYSTEM = re.compile(r"Linux \d[\w.-]*")
_HASHED = {"api-request-shape": ("shapeHash", "shape"), "api-request-blob": ("hash", "message")}
_NAMES = re.compile(r"[\w./:@-]+")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, conversation(Path(folder)) as (talk, _):
        for prompt in ("HELLO", "READ 0 1 2", "ASK general-purpose fork", "/compact", "HELLO"):
            talk.say(prompt)
        version = json.loads(talk.file.read_bytes().splitlines()[2])["version"]
        target = FOLDER / version
        shutil.rmtree(target, ignore_errors=True)
        hashes = _hashes([talk.file, *talk.file.with_suffix("").rglob("*.jsonl")], folder)
        for file in (talk.file, *talk.file.with_suffix("").rglob("agent-*")):
            path = target / str(file.relative_to(talk.file.parent)).replace(talk.id, _SESSION)
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [_line(line, folder) for line in file.read_text().splitlines()]
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            for old, new in {**hashes, talk.id: _SESSION}.items():
                text = text.replace(old, new)
            path.write_text(text)
    sys.stdout.write(f"{target}\n")


def _hashes(files: list[Path], folder: str) -> dict[str, str]:
    """The hashes of the replaced texts by those of the program's."""
    found = {}
    for line in (line for file in files for line in file.read_text().splitlines()):
        entry = json.loads(line)
        if entry["type"] in _HASHED:
            key, what = _HASHED[entry["type"]]
            found[entry[key]] = _digest(_line(line, folder)[what])
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _line(line: str, folder: str) -> Any:
    return _replaced(json.loads(_SYSTEM.sub("Linux", line.replace(folder, "/home/user"))))


def _replaced(value: Any) -> Any:
    """A value in which each long text of the program is a short one."""
    if isinstance(value, dict):
        return {key: _replaced(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(_replaced, value[: 4 if len(value) > 20 else None])]
    if not isinstance(value, str) or len(value) <= _LONGEST or _NAMES.fullmatch(value):
        return value
    marks = re.match(r"\s*(<[\w-]+>)", value)
    return f"{marks[1] if marks else ''}A text of {len(value)} characters."


if __name__ == "__main__":
    main()
