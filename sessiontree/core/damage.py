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
    "header": "all else is read; 'repair' writes a header anew, and keeps the original",
    "blank": "nothing is lost; 'repair' takes the line out",
    "bom": "nothing is lost; 'repair' takes it out",
    "crlf": "nothing is lost; 'repair' puts it right",
    "torn": "no append that succeeded wrote it; 'repair' keeps a copy and takes it out",
    "nul": "they carry nothing, as after a power cut; 'repair' takes them out",
    "json": "'repair' parts fused lines and takes out fragments; look at what it leaves",
    "utf-8": "the entry is used with the bad bytes replaced; look at the line",
    "crc": "the entry is used as it stands; compare it with a backup",
    "no uuid": "an older program wrote it; 'repair' adopts it into the tree",
    "object": "look at the line; it takes no part in the tree",
    "missing parent": "the path starts at this entry; look for the lost line in a backup",
    "late parent": "the tree is right; the lines were reordered",
    "cycle": "the path ends here; the file was edited by hand or by a faulty program",
    "duplicate": "children hang below the nearest one before them",
    "second header": "two files were joined; the first header counts",
    "reference": "what it names is lost or elsewhere; look at the entry, nothing is guessed",
    "blob": "put the folder of blobs back beside the file, or the blob from a backup",
    "blob folder": "only the blobs that entries name were looked for",
    "unreadable": "look at the line; what stands before and after it is read",
    "cut short": "what stands before is read; the program may be writing, or have been cut off",
    "foreign line": "nothing is lost; it is kept as a custom entry and says nothing to a model",
    "repeated": "the last line with this uuid counts, the others are custom entries",
    "open end": "nothing is lost; the next entry starts a new line, or 'repair' ends it",
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
