"""What the commands draw on screens of some sizes, with and without colour.

`python -m tests.cli.printing` writes the expectations again, in `printed/expected/outlines/`. An
escape character is written as `␛`. The time on these screens is always the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from unittest.mock import patch

from sessiontree import Session
from sessiontree.cli.screen import Screen
from sessiontree.views.drawing import OutlineRenderer
from tests.cli.cases import HERE
from tests.cli.printing import EXPECTED, NOW
from tests.support.terminal import run, utc

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
OUTLINES: Final = EXPECTED / "outlines"
SIZES: Final = {80: 24, 120: 40, 200: 50}
NAMES: Final = [f"{w}x{h}{colour}" for w, h in SIZES.items() for colour in ("", "-colour")]

WORKED: Final = HERE / "worked" / "session.jsonl"
COMMANDS: Final = """
tree worked
tree worked --depth 0
tree worked --depth 1
tree worked --turn 3
tree worked --turn s2
diff worked a4 a7
diff worked a10 --no-pager
labels worked
tree claude_code
tree claude_code --depth 2
tree codex
tree gemini
tree pi
"""

HEIGHTS: Final = {48: (1, *range(17, 37)), 76: (20, 26, None)}

FILES: Final = {
    "worked": WORKED,
    "claude_code": next((FIXTURES / "agents/claude_code").glob("*/*.jsonl")),
    "codex": FIXTURES / "foreign-codex-rolled-back/session.jsonl",
    "gemini": FIXTURES / "foreign-gemini-log/session.jsonl",
    "pi": FIXTURES / "foreign-pi-3/session.jsonl",
}


def drawn(name: str) -> str:
    """All commands on a screen, such as `80x24` or `80x24-colour`."""
    size, _, colour = name.partition("-")
    given = {"COLUMNS": size.partition("x")[0], "NO_COLOR": "", "FORCE_COLOR": colour}
    with utc(), patch.dict(os.environ, given), patch("sessiontree.cli.screen.now", lambda: NOW):
        return "\n".join(_shown(line) for line in COMMANDS.split("\n") if line)


def _shown(line: str) -> str:
    result = run(*(FILES.get(word, word) for word in line.split()))
    assert result.exit_code == 0, result.output
    return f"$ sessiontree {line}\n{result.output}".replace("\x1b", "␛")


def pictures() -> str:
    """The outline on narrow screens of all heights; each row more shows something more."""
    drawn: list[str] = []
    with Session.open(WORKED, readonly=True) as session, utc():
        outline, before = session.outline(), [""]
        for width, heights in HEIGHTS.items():
            for height in heights:
                screen = Screen(width, False, NOW, height)
                lines = list(screen.drawn(OutlineRenderer(outline, screen).lines()))
                drawn += [f"--- {width}x{height}", *(lines if lines != before else ["the same"])]
                before = lines
    return "\n".join(drawn) + "\n"


def main() -> None:
    OUTLINES.mkdir(exist_ok=True)
    (OUTLINES / "heights.txt").write_text(pictures(), encoding="utf-8")
    for name in NAMES:
        (OUTLINES / f"{name}.txt").write_text(drawn(name), encoding="utf-8")
