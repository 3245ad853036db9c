"""Draws how cost grows with the size of a session: `plot.py FIGURES PICTURE`.

Run by the interpreter of the throwaway environment, which has matplotlib.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

PANELS: Final = (
    ("resume-compacted", "Resume, compacted", "wall"),
    ("resume-uncompacted", "Resume, uncompacted", "wall"),
    ("resume-compacted", "Resume, compacted: memory", "peak"),
    ("fork", "Fork at the middle", "wall"),
    ("append-fsync", "Append, synced", "each"),
    ("list", "List sessions", "wall"),
)
COLOURS: Final = {
    "sessiontree": "#d6336c",
    "sessiontree, exclusive": "#f783ac",
    "pi": "#1c7ed6",
    "pi-new": "#74c0fc",
    "claude": "#f08c00",
    "openai": "#2f9e44",
    "langgraph": "#7048e8",
}


def points(runs: list[Any], job: str, figure: str) -> dict[str, list[tuple[float, float]]]:
    """By contender: the size, and the median in seconds or MB."""
    found: dict[str, list[tuple[float, float]]] = {}
    for key, corpus, contender, made in runs:
        if key != job or contender not in COLOURS or any("failed" in run for run in made):
            continue
        values = [_value(run, figure) for run in made]
        found.setdefault(contender, []).append((float(corpus.split("-")[1]), median(values)))
    return {contender: sorted(values) for contender, values in found.items()}


def _value(run: dict[str, float], figure: str) -> float:
    if figure == "each":
        return run["wall"] / run["count"]
    return run["peak"] / 1e6 if figure == "peak" else run[figure]


def main(figures: str, picture: str) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    kept = json.loads(Path(figures).read_text())
    titles = {key: title for key, (title, _) in kept["about"]["programs"].items()}
    drawing, panels = pyplot.subplots(2, 3, figsize=(13, 7.5), constrained_layout=True)
    for panel, (job, title, figure) in zip(panels.flat, PANELS, strict=True):
        for contender, values in points(kept["runs"], job, figure).items():
            name = titles.get(contender, contender).split(" (")[0]
            style = {"color": COLOURS[contender], "label": name, "marker": "o"}
            ours = contender.startswith("sessiontree")
            panel.plot(*zip(*values, strict=True), linewidth=2.5 if ours else 1.5, **style)
        panel.set(xscale="log", yscale="log", title=title)
        panel.set_xlabel("sessions" if job == "list" else "MB of session")
        panel.set_ylabel("MB resident at most" if figure == "peak" else "seconds")
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        if panel.lines:
            panel.legend(fontsize=8, frameon=False)
    drawing.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(*sys.argv[1:])
