"""What the commands print about a few sessions, and what they write into the files.

The cases are those of `tests.cli.cases`. The expectation of each is `printed/expected/CASE.txt`.
`python -m tests.cli.printing` writes all expectations again; a change of an output then shows as a
difference of these files.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.cli.cases import CASES, HERE, lines_of
from tests.cli.screens import screens
from tests.cli.tables import tables
from tests.support.terminal import run, utc

EXPECTED: Final = HERE / "expected"

LENGTH: Final = 150
"""How long the path of the folder is: files that name it have a size that is printed."""

NOW: Final = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)

LONG_AGO: Final = 1_770_000_000

UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
VARYING: Final = re.compile(
    "|".join(
        (
            UUID,
            r'"(?:state|says)":"[0-9a-f]+"',
            r'"crc":"[0-9a-f]{8}"',
            r"scratch/[0-9a-f]{8}\b|(?<=_)[0-9a-f]{8}(?=/)",
            r"\b1[7-9]\d{11}\b",
            r"\d{8}T\d{6}\.\d+Z",
            r"\b\d\d? [A-Z][a-z]{2,8} 2\d{3}\b|(?<=  )\d\d:\d\d$",
            r"\b\d+ (?:years?|months?|weeks?|days?|h|min|s)(?: \d+ (?:h|min|s))?(?: ago)?\b",
            r"2\d{3}-\d\d-\d\dT\d\d-\d\d-\d\d(?:-\d{3}Z)?",
            r"2\d{3}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+Z)?)?)?",
        )
    ),
    re.MULTILINE,
)
"""What differs in each run: uuids, hashes, names and times."""


def printed(case: Path) -> str:
    """What all commands print about a case, with times of UTC."""
    width = patch.dict(os.environ, {"COLUMNS": "100"})
    with utc(), width, patch("sessiontree.cli.screen.now", lambda: NOW):
        return "\n".join(_played(case, line) for line in lines_of(case.name))


def _played(case: Path, line: str) -> str:
    """What some commands print, and the files that differ afterwards."""
    with copied(case) as here:
        start = re.escape(here.rstrip("x")).replace("_", r"\\?_")  # Markdown escapes it
        said = re.sub(f"{start}x+", "HERE", _said(line))  # or its start
    return steady(said, case)


@contextmanager
def copied(case: Path) -> Iterator[str]:
    """A copy of a case, as the working directory, that is as old as all its files."""
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "x" * (LENGTH - len(folder)))
        shutil.copytree(case, made)
        with chdir(made):
            for path in Path().rglob("*"):
                os.utime(path, (LONG_AGO, LONG_AGO))
            yield made


def _said(line: str) -> str:
    before = dict(_files())
    said = [run_line(each) for each in line.replace("FILE", "session.jsonl").split("; ")]
    for name, content in _files():
        if (old := before.pop(name, None)) != content:
            start = len(old) if old and content.startswith(old) else 0
            added = content[start:].decode("utf-8", "backslashreplace")
            added = added.replace("\0", "\\0").replace("\r", "\\r")
            said.append(f"--- {name} from {start}\n{added}\n")
    said += [f"--- {name} is gone\n" for name in before]
    return "".join(said)


def run_line(line: str) -> str:
    """What a command prints, below the command."""
    words, _, stdin = line.partition(" < ")
    named = [name for word in words.split() for name in (sorted(glob(word)) or [word])]
    result = run(*named, input=Path(stdin).read_bytes() if stdin else None)
    code = f"[exit {result.exit_code}]\n" if result.exit_code else ""
    return f"$ sessiontree {words}\n{result.output}{code}"


def _files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


def steady(text: str, case: Path) -> str:
    """A text without what differs in each run: new uuids, checksums and times."""
    given = b"".join(p.read_bytes() for p in case.rglob("*.jsonl")).decode("utf-8", "replace")
    numbers: dict[str, str] = {}

    def steady(match: re.Match[str]) -> str:
        found = match[0]
        if found in given or found[:10] in ("2026-02-02", "2030-01-01", "2031-01-01"):
            return found
        if found.startswith(('"', "scratch/")):
            return f"{re.split('[:/]', found)[0]}…"
        if re.fullmatch(UUID, found):
            return numbers.setdefault(found, f"uuid-{len(numbers) + 1}")
        return "NOW"

    steadied = VARYING.sub(steady, text)
    for found, name in numbers.items():
        steadied = steadied.replace(found[:8], name)
    return steadied


def main() -> None:
    from tests.cli import outlines

    EXPECTED.mkdir(exist_ok=True)
    outlines.main()
    for name, case in CASES.items():
        (EXPECTED / f"{name}.txt").write_text(printed(case), encoding="utf-8")
    for name, screen in screens():
        (EXPECTED / f"{name}.txt").write_text(screen, encoding="utf-8")
    (EXPECTED / "tables.txt").write_text(tables(), encoding="utf-8")


if __name__ == "__main__":
    main()
