"""What is told of each file of a project that agents and a person wrote.

The project is that of a seed (`tests.history.project`). Its expectation is `told/SEED.txt`.
`python -m tests.history.told` writes all expectations again; a change then shows as a difference of
these files. `test_truth` says how much of it is true.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.cli.printing import run_line
from tests.history.project import Project, play
from tests.support.terminal import printed_json, utc

EXPECTED: Final = Path(__file__).parent / "told"
SEEDS: Final = (5, 44)

NOW: Final = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
_DERIVED: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}(?:-[0-9a-f]+)*")
"""A uuid that is made of the path of the session's file."""

_HASH: Final = re.compile(r"\b[0-9a-f]{64}\b|\bapp-[0-9a-f]{6}\b")

ALL: Final = ("blame {}", "history {} --prompt", "recover {}")
ONE: Final = (
    *("blame {}:3-5 --prompt", "blame {}:3 --json", "blame {} --since 2026-03-04"),
    *("history {} --stat", "history {} --json --since 2026-03-04", "recover {} --json"),
)


def told(seed: int) -> str:
    """What the commands about files print of a project, with times of UTC."""
    with tempfile.TemporaryDirectory() as folder:
        project = play(seed, Path(folder))
        environ = {**project.environ, "COLUMNS": "100"}
        now = patch("sessiontree.cli.screen.now", lambda: NOW)
        with utc(), patch.dict(os.environ, environ), now:
            derived: dict[str, None] = {}
            said = "\n".join(_said(project, derived))
    return _steady(said, folder, derived)


def _said(project: Project, derived: dict[str, None]) -> Iterator[str]:
    """What is printed; the uuids in it that are made of paths are put into `derived`."""
    for name in sorted(project.files):
        file = project.root / name
        yield from (run_line(line.format(_word(file))) for line in ALL)
        states = printed_json("recover", file)
        rows = [*states, *printed_json("history", file)]
        derived |= dict.fromkeys(row["uuid"] for row in rows if _DERIVED.fullmatch(row["uuid"]))
        for state in [each for each in states if each["gaps"] or each["commit"]] + states[-1:]:
            yield run_line(f"recover {_word(file)} --partial --at {state['uuid']}")
    some = _word(project.root / min(project.files, key=len))
    yield from (run_line(line.format(some)) for line in ONE)
    yield from (run_line(f"files {path}") for path in project.paths.values())


def _word(file: Path) -> str:
    return str(file).replace(" ", "?")  # a pattern that has this one file


def _steady(text: str, folder: str, derived: dict[str, None]) -> str:
    """A text without what the folder of the project decides."""
    text = text.replace(folder, "HERE")
    for form in (folder.replace("/", "-"), re.sub(r"[^A-Za-z0-9]", "-", folder)):
        text = text.replace(form[1:], "HERE")
    for number, uuid in enumerate(derived):
        text = text.replace(uuid, f"uuid-{number}").replace(uuid[:8], f"uuid-{number}")
    return _HASH.sub("HASH", text)


def main() -> None:
    EXPECTED.mkdir(exist_ok=True)
    for seed in SEEDS:
        (EXPECTED / f"{seed}.txt").write_text(told(seed), encoding="utf-8")


if __name__ == "__main__":
    main()
