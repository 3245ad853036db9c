"""The commits that a call made, as git told them.

Source: the line that `git commit` prints, `[main 1a2b3c4] Subject`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_ASKS: Final = re.compile(r"\bgit\b[^\n|;&]{0,400}?\b(?:commit|merge|cherry-pick|revert|am)\b")
_TOLD: Final = re.compile(
    r"^\[(?:[^\[\]\n ]{1,250}|detached HEAD)(?: \(root-commit\))? ([0-9a-f]{7,40})\] (.{1,300})",
    re.MULTILINE,
)


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """A commit: the start of its hash, and the first line of its message."""

    hash: str
    subject: str


def commits_told(script: str, output: str) -> Iterator[Commit]:
    """The commits that a script made, in order, if git printed them."""
    if _ASKS.search(script):
        yield from (Commit(*found.groups()) for found in _TOLD.finditer(output))
