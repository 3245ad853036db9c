"""The plot of the size of the context over a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sessiontree.text.amounts import in_short

_WIDTH: Final = 600
_HEIGHT: Final = 80


class Plot(msgspec.Struct, frozen=True):
    """A line, as an SVG polyline has it, and the places of compactions."""

    points: str
    compactions: tuple[int, ...]
    most: str
    width: int = _WIDTH
    height: int = _HEIGHT


def plot_of(sizes: Sequence[Sequence[int]], compacted: Sequence[int]) -> Plot | None:
    """The plot of the sizes of each turn; None with fewer than two sizes.

    `compacted` has the places of the turns with a compaction.
    """
    flat = [size for turn in sizes for size in turn]
    if len(flat) < 2:
        return None
    most = max(flat)
    step = max(1, len(flat) // _WIDTH)
    shown = [max(flat[at : at + step]) for at in range(0, len(flat), step)]
    across = _WIDTH / max(1, len(shown) - 1)
    points = (
        f"{at * across:.0f},{_HEIGHT - size * _HEIGHT / most:.0f}" for at, size in enumerate(shown)
    )
    before = [0]
    for turn in sizes:
        before.append(before[-1] + len(turn))
    marks = sorted({round(before[place] * _WIDTH / len(flat)) for place in compacted})
    return Plot(" ".join(points), tuple(marks), in_short(most))
