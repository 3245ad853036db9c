"""The data of a page: the index of its rows, and the rows in compressed chunks.

The index is what the script of the page knows of all rows, entries and turns; it opens a chunk when
the reader gets there.

Invariants: lists of numbers that grow are kept as differences, which take less room when
compressed; a chunk is closed at the first end of a turn beyond its size, so that one turn is in
memory at most; a body that an earlier row has too is kept once.
"""

from __future__ import annotations

import base64
import json
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from sessiontree.core.entry import Entry, moment_of
from sessiontree.core.index import NO_ROW
from sessiontree.page.making import RenderedTurn
from sessiontree.page.panels import ContextRules
from sessiontree.page.rows import PageRow

NO_ENTRY: Final = -1
ALWAYS: Final = -2
NOWHERE: Final = -3
PARENT, FORK, FIRST, END = 1, 2, 4, 5
"""The places of some facts of a turn: the turn above, the row that it branches off, its rows."""


class Index:
    """Collects the index of a page of a session's `tree`; `text` masks a text."""

    def __init__(self, tree: Any, text: Callable[[str], str]) -> None:
        self._tree = tree
        self._text = text
        self._kinds: list[str] = []
        self._gists: list[str] = []
        self._times = array("q")
        self._entry_of = array("i")
        self._rows = array("i")  # of the tree, by number of entry
        self._row_of = array("i")
        self._end_of = array("i")
        self._tokens = array("i")
        self._rules: dict[str, dict[int, Any]] = {
            name: {} for name in ContextRules.__struct_fields__
        }
        self.turns: list[list[Any]] = []
        self.agents: dict[int, list[int]] = {}
        self.files: dict[int, list[int]] = {}

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self._rows)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._kinds)

    def take(self, made: Sequence[PageRow], first_entry: int = NO_ENTRY) -> None:
        """Take rows; those made of an entry count from the first entry of their turn."""
        for row in made:
            self._kinds.append(row.kind)
            self._gists.append(row.gist)
            moment = None if row.time is None else moment_of(row.time)
            self._times.append(0 if moment is None else int(moment.timestamp()))
            has_entry = first_entry != NO_ENTRY and row.entry != NO_ENTRY
            self._entry_of.append(first_entry + row.entry if has_entry else NO_ENTRY)

    def take_entries(self, made: RenderedTurn, first_row: int) -> None:
        """Take the entries of a turn, whose rows begin with a number."""
        first = self.entries
        for name, found in zip(self._rules, msgspec.structs.astuple(made.rules), strict=True):
            for number in found:
                self._rules[name][first + number] = found[number]
        for entry in made.entries:
            self._rows.append(entry.row)
            self._row_of.append(first_row + entry.at)
            self._end_of.append(first_row + entry.end)
            self._tokens.append(entry.tokens)
        for place, turns in made.agents.items():
            self.agents[first_row + place] = turns

    def as_dict(self, header: Entry, labels: Mapping[str, str]) -> dict[str, Any]:
        """The index, without what the document knows itself."""
        uuids = [self._tree.uuids[row] for row in self._rows]
        number_of = {uuid: number for number, uuid in enumerate(uuids)}
        for turn in self.turns:
            turn[FORK] = self._fork_of(turn, number_of.get(turn[FORK]))
        return {
            "kinds": "".join(self._kinds),
            "gists": "\n".join(gist.replace("\n", " ") for gist in self._gists),
            "times": differences(self._times),
            "entryOf": differences(self._entry_of),
            "uuids": "\n".join(self._text(uuid).replace("\n", " ") for uuid in uuids),
            "rowOf": differences(self._row_of),
            "turns": self.turns,
            "agents": {str(row): turns for row, turns in self.agents.items()},
            "files": {str(row): found for row, found in self.files.items()},
            "labels": {self._text(uuid): label for uuid, label in labels.items()},
            "above": self._above(),
            "tokens": self._tokens.tolist(),
            "rules": self._folding(number_of, header),
        }

    def _fork_of(self, turn: Sequence[Any], fork: int | None) -> int:
        """The end of the rows that a turn branches off in the turn above."""
        if turn[PARENT] < 0:
            return NO_ENTRY
        first, end = self.turns[turn[PARENT]][FIRST : END + 1]
        row = end if fork is None else self._end_of[fork]
        return row if first < row <= end else int(end)

    def _above(self) -> list[int]:
        """How far before each entry its parent is; the header is at `NO_ENTRY`, none `NOWHERE`."""
        numbers = array("i", [NO_ENTRY]) * len(self._tree)
        for number, row in enumerate(self._rows):
            numbers[row] = number
        parents = (self._tree.parents[row] for row in self._rows)
        above = (numbers[row] if row != NO_ROW else NOWHERE for row in parents)
        return [number - parent for number, parent in enumerate(above)]

    def _folding(self, number_of: Mapping[str, int], header: Entry) -> dict[str, Any]:
        def named(uuid: str) -> int:
            return number_of.get(uuid, NO_ENTRY)

        bases = {**number_of, header.uuid: NO_ENTRY}
        return {
            "cut": _cut(header, named),
            "kept": {
                n: ALWAYS if uuid == header.uuid else named(uuid) for n, uuid in self._all("kept")
            },
            "edits": {n: [named(uuid), size] for n, (uuid, size) in self._all("edits")},
            "merges": {
                n: [bases.get(base, NOWHERE), named(end), int(whole)]
                for n, (base, end, whole) in self._all("merges")
            },
            "pieces": self._pieces(),
            **self._strays(),
        }

    def _all(self, name: str) -> Iterator[tuple[str, Any]]:
        return ((str(number), found) for number, found in self._rules[name].items())

    def _pieces(self) -> dict[str, int]:
        first: dict[str, int] = {}
        return {n: first.setdefault(name, int(n)) for n, name in self._all("pieces")}

    def _strays(self) -> dict[str, Any]:
        """The results that stand apart from their calls, and what decides whether they count.

        Gives these entries, and whether each has something else too; and for the ids that they
        answer, as numbers, the entries that call and answer.
        """
        strays = {n: int(more) for n, more in self._all("strays")}
        wanted = {id for n, ids in self._all("answers") if n in strays for id in ids}
        numbers = {id: number for number, id in enumerate(sorted(wanted))}

        def known(ids: Sequence[str]) -> list[int]:
            return sorted({numbers[id] for id in ids if id in numbers})

        calls = ((n, known(ids), stay) for n, (ids, stay) in self._all("calls") if wanted)
        answers = ((n, known(ids)) for n, ids in self._all("answers") if wanted)
        return {
            "strays": strays,
            "calls": {n: [int(stay), *ids] for n, ids, stay in calls if ids},
            "answers": {n: ids for n, ids in answers if ids},
        }


def _cut(header: Entry, named: Callable[[str], int]) -> int:
    """The entry above which the file was cut; `ALWAYS` where that is so for each of the first."""
    origin = header.get("parentSession")
    if not isinstance(origin, dict):
        return NO_ENTRY
    uuid = origin.get("uuid")
    if origin.get("cutAbove") is True:
        return ALWAYS
    return named(uuid) if isinstance(uuid, str) else NO_ENTRY


def differences(numbers: Sequence[int]) -> list[int]:
    """Numbers as their differences, which take less room."""
    before = 0
    found: list[int] = []
    for number in numbers:
        found.append(number - before)
        before = number
    return found


_CHUNK: Final = 256 * 1024  # characters of HTML
_SHARED: Final = 512  # characters from which on an equal body is kept once


class Chunks:
    """Takes rows, and gives chunks."""

    def __init__(self) -> None:
        self.firsts: list[int] = []  # the number of the first row of each chunk
        self._rows: list[list[Any]] = []
        self._size = 0
        self._count = 0
        self._seen: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    def take(self, rows: Iterable[PageRow]) -> Iterator[str]:
        """Take rows; give the chunks that are full."""
        for row in rows:
            self._rows.append(self._packed(row))
            self._count += 1
            self._size += len(row.head) + len(row.body)
            if self._size > _CHUNK:
                yield self.close()

    def _packed(self, row: PageRow) -> list[Any]:
        if not row.body:
            return [row.head]
        if len(row.body) < _SHARED:
            return [row.head, row.body]
        key = blake2b(row.body.encode("utf-8", "replace"), digest_size=12).digest()
        first = self._seen.setdefault(key, self._count)
        return [row.head, row.body if first == self._count else first]

    def close(self) -> str:
        """The rows since the last chunk, as a chunk."""
        rows, self._rows, self._size = self._rows, [], 0
        self.firsts.append(self._count - len(rows))
        return packed(rows)


def packed(value: Any) -> str:
    """A value as JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(as_json(value), 7)).decode("ascii")


def as_json(value: Any) -> bytes:
    """A value as JSON; half of a pair of surrogates becomes a question mark."""
    try:
        return orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=str)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, default=str).encode("utf-8", "replace")
