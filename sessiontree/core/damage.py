"""Damage: what a reader met in a file and could not take at its word.

A reader never stops at damage and never hides it: it reports, and reads on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

Report = Callable[[str, int, str], None]
"""Takes the kind of damage, the byte offset of its line, and the cause."""

NEXT_STEP: Final = {
    "blank": "nothing is lost; rewriting the file removes the line",
    "bom": "nothing is lost; rewrite the file without the byte order mark",
    "crlf": "nothing is lost; keep programs that convert line ends away from the file",
    "torn": "the fragment was never acknowledged; it stays, and the next entry starts a new line",
    "nul": "the bytes carry nothing; look for a power cut or a full disk at that time",
    "json": "look at the line; entries below it may have lost their parent",
    "utf-8": "the entry is used with the bad bytes replaced; look at the line",
    "crc": "the entry is used as it stands; compare it with a backup",
    "no uuid": "an older program wrote it; the line is kept and takes no part in the tree",
    "object": "look at the line; it takes no part in the tree",
    "missing parent": "the path starts at this entry; look for the lost line in a backup",
    "late parent": "the tree is right; the lines were reordered",
    "cycle": "the path ends here; the file was edited by hand or by a faulty program",
    "duplicate": "children hang below the nearest one before them",
    "second header": "two files were joined; the first header counts",
    "reference": "what it names is lost or elsewhere; look at the entry, nothing is guessed",
    "open end": "nothing is lost; the next entry starts a new line",
}
"""What a user can do about each kind of damage."""


class Damage(msgspec.Struct, frozen=True):
    """One finding.

    Attributes:
        file: the path of the file.
        line: the number of the line, from 1.
        offset: the offset of the line's first byte.
        kind: a key of `NEXT_STEP`.
        cause: what is wrong, in words.
    """

    file: str
    line: int
    offset: int
    kind: str
    cause: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line} (byte {self.offset})"
        return f"{place}: {self.cause}; {NEXT_STEP[self.kind]}"


def ignore(kind: str, offset: int, cause: str) -> None:
    """The report of a reader that was told of the damage before."""
