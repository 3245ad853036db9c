"""The size of the product and of its tests does not grow unseen.

A change that needs more raises a figure of `MAX` in a commit that says why; one that makes the
project smaller lowers it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

MOST: Final = {
    "modules of sessiontree": 356,
    "lines of sessiontree": 108_185,
    "lines of tests": 119_089,
}


def _files(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts]


def _lines(folder: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in _files(folder))


def measured() -> dict[str, int]:
    return {
        "modules of sessiontree": len(_files("sessiontree")),
        "lines of sessiontree": _lines("sessiontree"),
        "lines of tests": _lines("tests"),
    }


def test_the_project_is_no_larger_than_its_meters_allow() -> None:
    for name in MOST:
        assert measured()[name] <= MOST[name], f"raise {name} in MOST in a commit that says why"
