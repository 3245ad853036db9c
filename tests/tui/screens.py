"""The main screens of the browser, as text at two sizes.

`python -m tests.tui.screens` writes the expectations again, after a change on purpose.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cli.screens import make_home
from tests.support.terminal import utc
from tests.tui.driving import Driven, drive

EXPECTED: Final = Path(__file__).parent / "expected"
SIZES: Final = ((80, 24), (120, 40))


def screens() -> Iterator[tuple[str, str]]:
    """The name and the content of each screen."""
    with tempfile.TemporaryDirectory() as folder, utc():
        home = Path(folder)
        make_home(home)
        for size in SIZES:
            for name, text in _of(home, size):
                yield f"{name}-{size[0]}x{size[1]}", text


def _of(home: Path, size: tuple[int, int]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    async def take(driven: Driven, name: str, *keys: str) -> None:
        found.append((name, await driven.press(*keys) + "\n"))

    async def steps(driven: Driven) -> None:
        await take(driven, "sessions")
        await take(driven, "filtered", *"hello")
        await take(driven, "outline", "enter")
        await take(driven, "turn", "home", "enter")
        await take(driven, "keys", "question_mark")
        await driven.press("escape", "escape")
        await take(driven, "costs", "dollar_sign")
        await driven.press("escape", "slash", *"file")
        await take(driven, "hits", "enter")
        await driven.press("escape", "escape", "escape")
        await take(driven, "spending", "ctrl+e", *["tab"] * 5)

    drive(steps, home, size=size)
    return found


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for name, text in screens():
        (EXPECTED / f"{name}.txt").write_text(text, encoding="utf-8")
