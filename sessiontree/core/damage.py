"""Damage: what a reader found wrong in a file.

A reader never stops at damage and never hides it: it reports, and reads on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

# Takes the kind of damage, the byte offset of its line, and the cause.
Report = Callable[[str, int, str], None]
# What a user can do about each kind of damage.
NEXT_STEP: Final = {
    "header": "the other lines are read; 'repair' writes a new header and keeps the original",
    "blank": "nothing is lost; 'repair' removes the line",
    "bom": "nothing is lost; 'repair' removes the byte order mark",
    "crlf": "nothing is lost; 'repair' replaces CR LF with LF",
    "torn": "no successful append wrote this line; 'repair' keeps a copy and removes it",
    "nul": "NUL bytes are not data (a power cut can write them); 'repair' removes them",
    "json": (
        "'repair' separates joined lines and removes fragments; "
        "check by hand the lines that it does not change"
    ),
    "utf-8": "the entry is used with the bad bytes replaced; look at the line",
    "crc": "the entry is used as it is; to check the entry, compare it with a backup",
    "no uuid": "an older program wrote the line; 'repair' adds a uuid and a parent",
    "object": "look at the line; it is not part of the tree",
    "missing parent": "the path starts at this entry; look for the lost line in a backup",
    "late parent": "the tree is complete; the lines were reordered",
    "cycle": "the path ends here; the file was edited by hand or by a faulty program",
    "duplicate": "a child belongs to the last entry with this uuid that comes before the child",
    "second header": "two files were joined; the first header counts",
    "reference": "the target is lost, or not on the path; look at the entry",
    "handle": "the context has a placeholder; append the handle again in a correct form, and "
    "drop this entry with 'edit-context'",
    "blob": "put the folder of blobs back beside the file, or the blob from a backup",
    "blob folder": "only the blobs that entries name were checked",
    "unreadable": "look at the line; the lines before and after it are read",
    "cut short": "all before the cut is read; the program may be writing, or was stopped",
    "foreign line": "nothing is lost; the line is a custom entry, which models do not see",
    "side file": "all other files are read; put a regular file there, or remove this one",
    "repeated": "the last line with this uuid counts, the others are custom entries",
    "open end": "nothing is lost; the next entry starts a new line, or 'repair' adds the newline",
}


class Damage(msgspec.Struct, frozen=True):
    """One case of damage in a file.

    Attributes:
        file: the path of the file.
        line: the number of the line, from 1.
        offset: the offset of the line's first byte.
        kind: the kind of damage, such as `torn`; `NEXT_STEP` maps each kind to advice.
        cause: a text that says what is wrong.
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
    """A report that does nothing, for damage that was reported before."""
