"""Damage: what a reader finds wrong in a file, and notes about unknown lines.

A reader never stops at damage and never hides it: it reports, and reads on. A line of another
agent's file that is sound, but of an unknown type, is not damage: a newer version of an agent adds
types of lines. It is kept as a `custom` entry, and counted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

# Takes the kind of damage, the byte offset of its line, and the cause.
Report = Callable[[str, int, str], None]
# What a user can do about each kind of damage.
_OF_AGENTS: Final = {"missing parent": "lost parent"}


def kind_of_agents(kind: str) -> str:
    """The kind of damage in an agent's file, which is never written: its next step is another."""
    return _OF_AGENTS.get(kind, kind)


NEXT_STEP: Final = {
    "header": "the other lines are read; 'repair' writes a new header and keeps the original, for "
    "an agent's file 'repair FILE -o NEW' in a copy",
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
    "number": "the entry is used; programs read the number as infinity or null, so write a smaller "
    "number, or a string",
    "crc": "the entry is used as it is; to check the entry, compare it with a backup",
    "no uuid": "an older program wrote the line; 'repair' adds a uuid and a parent",
    "object": "look at the line; it is not part of the tree",
    "missing parent": "the path starts at this entry; look for the lost line in a backup, or join "
    "the entry to the one before it with 'repair --relink'",
    "lost parent": "the path starts at this entry; look for the lost line in a backup, or write a "
    "sound copy with 'repair FILE -o NEW'",
    "late parent": "the tree is complete; the lines were reordered",
    "cycle": "the path ends here; the file was edited by hand or by a faulty program",
    "duplicate": "a child belongs to the last entry with this uuid that comes before the child",
    "second header": "two files were joined; the first header counts, this one is not in the tree",
    "reference": "the target is lost, or not on the path; look at the entry",
    "handle": "the context has a placeholder; append the handle again in a correct form, and "
    "drop this entry with 'edit-context'",
    "blob": "put the folder of blobs back beside the file, or the blob from a backup",
    "blob folder": "only the blobs that entries name were checked",
    "joined": "the path continues there; look for the lost line in a backup, or write a sound copy "
    "with 'repair FILE -o NEW'",
    "layout": "nothing is lost; 'repair FILE -o NEW' writes each entry on a line of its own",
    "unreadable": "look at the line; the lines before and after it are read",
    "cut short": "all before the cut is read; the program may be writing, or was stopped",
    "foreign line": "nothing is lost; the line is a custom entry, which models do not see",
    "side file": "all other files are read; put a regular file there, or remove this one",
    "history": "all lines that were found are read; put the file back, or look in a backup for it",
    "repeated": "the last line with this uuid counts, the others are custom entries",
    "open end": "nothing is lost; the next entry starts a new line, or 'repair' adds the newline",
}


class Damage(msgspec.Struct, frozen=True):
    """One case of damage in a file."""

    file: str  # the path of the file
    line: int  # the number of the line, from 1
    offset: int  # the offset of the line's first byte
    kind: str  # the kind of damage, such as `torn`; `NEXT_STEP` maps each kind to advice
    cause: str  # a text that says what is wrong

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line} (byte {self.offset})"
        return f"{place}: {self.cause}; {NEXT_STEP[self.kind]}"


def damage_row(damage: Damage) -> dict[str, str | int]:
    """A finding as `--json` prints it, with the next step."""
    return {**msgspec.to_builtins(damage), "next": NEXT_STEP[damage.kind]}


MAX_FINDINGS: Final = 10_000
"""The findings of a kind that are kept one by one."""


class Findings:
    """Damage by place and kind, each once.

    Beyond `MAX_FINDINGS` of a kind, only the first of the others is kept, with their number: a
    file of a few megabytes may have millions of damaged lines.
    """

    def __init__(self) -> None:
        self._causes: dict[tuple[int, str], str] = {}
        self._counts: dict[str, int] = {}
        self._others: dict[str, tuple[array[int], int, str]] = {}

    def __contains__(self, key: tuple[int, str]) -> bool:
        return key in self._causes

    def note(self, kind: str, offset: int, cause: str) -> None:
        """Note damage at an offset; the cause of a run of lines replaces that of its first line."""
        known = self._causes.get((offset, kind))
        if known is not None:
            if cause.startswith(known):
                self._causes[offset, kind] = cause
            return
        self._counts[kind] = count = self._counts.get(kind, 0) + 1
        if count <= MAX_FINDINGS:
            self._causes[offset, kind] = cause
            return
        offsets, first, of_first = self._others.get(kind, (array("q"), offset, cause))
        offsets.append(offset)
        least = (offset, cause) if offset < first else (first, of_first)
        self._others[kind] = offsets, *least

    def forget_from(self, offset: int) -> None:
        """Forget the damage at an offset and after it."""
        for key in [key for key in self._causes if key[0] >= offset]:
            del self._causes[key]
            self._counts[key[1]] -= 1

    def found(self) -> dict[tuple[int, str], str]:
        """The cause by offset and kind."""
        found = dict(self._causes)
        for kind, (offsets, first, cause) in self._others.items():
            found[first, kind] = cause + more_like_it(len(set(offsets)))
        return found


def more_like_it(count: int) -> str:
    """What follows the cause of one of `count` findings that stands for all of them."""
    return f", and {count - 1:,} more findings of this kind" if count > 1 else ""


def ignore(kind: str, offset: int, cause: str) -> None:
    """A report that does nothing, for damage that was reported before."""


UNKNOWN_TYPE: Final = "unknown type"
"""The kind by which a format reports such a line; the cause is then the type's name."""

_MAX_TYPES: Final = 1_000
_OTHERS: Final = "(other types)"
_MAX_NAMED: Final = 10


class Note(msgspec.Struct, frozen=True):
    """The lines of one unknown type."""

    file: str  # the path of the file with the first of these lines
    line: int  # the number of the first line, from 1
    offset: int  # the offset of its first byte
    type: str  # the name of the type
    count: int = 1  # the number of lines

    def __str__(self) -> str:
        lines = "a line" if self.count == 1 else f"{self.count:,} lines, this is the first,"
        return f"{self.file}, line {self.line} (byte {self.offset}): {lines} of type {self.type!r}"


def in_short(notes: Sequence[Note]) -> str:
    """All notes on one line, such as `3 lines of unknown types: glow 2, hum 1`."""
    if not notes:
        return ""
    count = sum(note.count for note in notes)
    of_type = f"{count:,} {'line' if count == 1 else 'lines'} of unknown type"
    listed = ", ".join(f"{note.type} {note.count:,}" for note in notes[:_MAX_NAMED])
    more = f" and {len(notes) - _MAX_NAMED:,} more" if len(notes) > _MAX_NAMED else ""
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
        name = type[:60]
        return name if name in self._first or len(self._first) < _MAX_TYPES else _OTHERS

    def found(self) -> list[Note]:
        """The notes in the order in which their types were met."""
        return [
            Note(first.file, first.line, first.offset, name, self._counts[name])
            for name, first in self._first.items()
        ]
