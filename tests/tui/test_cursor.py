"""The line with the cursor is on the screen, whatever is read, pressed or resized."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.support.transcripts import Line, assistant, result, user, written
from tests.tui.driving import Driven, drive
from tests.tui.sessions import branched, saying

_MOVES: Final = ("up", "down", "pageup", "pagedown", "home", "end", "j", "k", "g", "G")
_KEYS: Final = {
    "outline": (*_MOVES, "space", "z", "left_square_bracket", "right_square_bracket", "at", "f5"),
    "turn": (*_MOVES, "space", "z", "left_square_bracket", "right_square_bracket", "n", "N"),
    "sessions": (
        "up",
        "down",
        "pageup",
        "pagedown",
        "home",
        "end",
        "f5",
        "ctrl+s",
        "1",
        "backspace",
    ),
}
_SIZES: Final = ((80, 24), (120, 36), (40, 10), (100, 12), (30, 6))


def large(file: Path, turns: int = 101) -> Path:
    """A transcript of another agent that is large enough to be read from its end first."""

    def lines() -> Iterator[Line]:
        above: str | None = None
        for n in range(turns):
            yield user(f"u{n}", above, f"prompt number {n}")
            yield assistant(f"c{n}", f"u{n}", f"m{n}", [f"t{n}"])
            yield result(f"r{n}", f"c{n}", f"t{n}", toolUseResult="x " * 20_000)
            yield assistant(f"a{n}", f"r{n}", f"n{n}")
            above = f"a{n}"

    return written(file, lines())


def check(driven: Driven, told: object) -> None:
    """Check that exactly one line is highlighted: the one that keys act on."""
    lines = driven.lines
    if not lines.size.height:
        return
    shown = driven.highlighted
    assert len(shown) == (lines.count > 0), told
    top, height = driven.lines.top, lines.size.height
    assert top == 0 or top + height <= lines.count, (told, "there is room below the last line")
    if shown:
        assert shown == [lines.render_line(lines.at - top).text.strip()], told


@pytest.mark.slow
@for_each("is_listed", [False, True])
def test_the_cursor_is_on_the_screen_when_a_large_transcript_is_read(
    tmp_path: Path, is_listed: bool
) -> None:
    file = large(tmp_path / "s.jsonl")
    assert file.stat().st_size > 1 << 20

    async def steps(driven: Driven) -> None:
        if is_listed:
            await driven.press("enter")
        assert "reading" not in driven.rows[0]
        check(driven, "opened")
        assert "prompt number 100" in driven.chosen
        assert "prompt number 99" in (await driven.press("up"), driven.chosen)[1]
        await driven.press("enter")
        assert "turn 100 · prompt number 99" in driven.rows[0]

    drive(steps, tmp_path, file=None if is_listed else file, size=(120, 36))


@pytest.mark.slow
@for_each("view", _KEYS)
@in_soak("seeds", 1, 6)
def test_the_cursor_is_on_the_screen_after_any_keys(tmp_path: Path, view: str, seeds: int) -> None:
    for seed in range(seeds):
        check_any_keys(tmp_path / str(seed), view, random.Random(seed))


def check_any_keys(tmp_path: Path, view: str, chance: random.Random) -> None:
    tmp_path.mkdir()
    file = branched(tmp_path / "s.jsonl")
    if view == "outline":
        file = large(tmp_path / "t.jsonl", chance.choice((3, 40)))
    elif view == "sessions":
        for n in range(chance.choice((0, 30))):
            saying(tmp_path / f"{n}.jsonl", f"prompt {n}")

    async def steps(driven: Driven) -> None:
        if view == "turn":
            await driven.press("enter")
        done: list[object] = []
        for _ in range(40):
            if chance.random() < 0.1:
                done.append(chance.choice(_SIZES))
                await driven.pilot.resize_terminal(*done[-1])  # type: ignore[misc]
                await driven.settled()
            else:
                done.append(chance.choice(_KEYS[view]))
                await driven.press(str(done[-1]))
            check(driven, done)

    drive(steps, tmp_path, file=None if view == "sessions" else file)
