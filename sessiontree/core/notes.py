"""Notes: lines of another agent's file that are sound, but of a type that no reader knows.

A newer version of an agent adds types of lines. Such a line is kept as a `custom` entry. It is
counted, and it is not damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

UNKNOWN_TYPE: Final = "unknown type"
"""The kind by which a format reports such a line; the cause is then the type's name."""

_MOST_TYPES: Final = 1_000
_OTHERS: Final = "(other types)"
_LONGEST_NAME: Final = 60
_MOST_NAMED: Final = 10


class Note(msgspec.Struct, frozen=True):
    """The lines of one unknown type.

    Attributes:
        file: the path of the file with the first of these lines.
        line: the number of the first line, from 1.
        offset: the offset of its first byte.
        type: the name of the type.
        count: the number of lines.
    """

    file: str
    line: int
    offset: int
    type: str
    count: int = 1

    def __str__(self) -> str:
        lines = "a line" if self.count == 1 else f"{self.count:,} lines, this is the first,"
        return f"{self.file}, line {self.line} (byte {self.offset}): {lines} of type {self.type!r}"


def in_short(notes: Sequence[Note]) -> str:
    """All notes on one line, such as `3 lines of unknown types: glow 2, hum 1`."""
    if not notes:
        return ""
    count = sum(note.count for note in notes)
    of_type = f"{count:,} {'line' if count == 1 else 'lines'} of unknown type"
    listed = ", ".join(f"{note.type} {note.count:,}" for note in notes[:_MOST_NAMED])
    more = f" and {len(notes) - _MOST_NAMED:,} more" if len(notes) > _MOST_NAMED else ""
    return f"{of_type}{'' if len(notes) == 1 else 's'}: {listed}{more}"


class Notes:
    """Collects notes, one a type."""

    def __init__(self) -> None:
        self._first: dict[str, Note] = {}
        self._counts: Counter[str] = Counter()

    def add(self, note: Note) -> None:
        name = self._name(note.type)
        self._first.setdefault(name, note)
        self._counts[name] += note.count

    def again(self, type: str) -> bool:
        """Count one more line of a type, if one was added; whether one was."""
        name = self._name(type)
        if name not in self._first:
            return False
        self._counts[name] += 1
        return True

    def _name(self, type: str) -> str:
        name = type[:_LONGEST_NAME]
        return name if name in self._first or len(self._first) < _MOST_TYPES else _OTHERS

    def found(self) -> list[Note]:
        """The notes in the order in which their types were met."""
        return [
            Note(first.file, first.line, first.offset, name, self._counts[name])
            for name, first in self._first.items()
        ]
