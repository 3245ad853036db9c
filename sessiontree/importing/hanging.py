"""Hanging: each entry below its parent, and each reference to what is there.

A foreign file may name a parent that comes later, or never, or go in circles, and may
refer to what is not in it. Where it is read in place, that is damage; what is imported
is sound. So an entry waits until its parent is there; where that never comes, or the
circle closes, it hangs below the header, and its path starts there as it does in place.
A reference to nothing becomes what it means to a context: a compaction keeps nothing,
a branch that was left is the root, a label and an edit of nothing are custom entries.

Invariants: a parent stands before its children; every reference names what is there;
each context is that of the file read in place; what was mended is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiontree.core.entry import decode_leniently
from sessiontree.core.fields import REFERENCES
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.migrate import uuid_of_line
from sessiontree.formats.values import Values
from sessiontree.importing.entries import Carried, keep_original
from sessiontree.importing.source import Source

_ABOVE: Final = "firstKeptEntryUuid"
_LEFT: Final = "fromUuid"


class Hanging:
    """Puts the entries of one source in order. The header is taken by itself.

    Attributes:
        leaf: the uuid at which the source stands: its last entry on the main lane.
        last: the uuid of the last entry of the main lane that was given.
    """

    def __init__(self, root: str, source: Source) -> None:
        self._root = root
        self._source = source
        self._parents: dict[str, str] = {}
        self._waiting: dict[str, list[Carried]] = {}
        self._agent = None if source.format is None else source.format.name
        self._held: list[Carried] = []
        self._time: bytes | None = None
        self.leaf = self.last = root

    def hung(self, entries: Iterator[Carried]) -> Iterator[Carried]:
        """The entries, each behind its parent, and at their end the source's leaf."""
        place = None
        for entry in entries:
            place = entry.place
            if entry.lane is None:
                self.leaf = entry.uuid
            if entry.parent == self._root or entry.parent in self._parents:
                yield from self._placed(entry)
            else:
                self._waiting.setdefault(entry.parent, []).append(entry)
                self._held.append(entry)
        yield from self._rest()
        if place is not None and self.last != self.leaf:
            uuid = uuid_of_line(self.leaf, 0, b"leaf after " + self.last.encode("utf-8", "replace"))
            fields = self._timed({"type": b'"branch"'})
            yield Carried(place, "branch", uuid, self.leaf, None, fields, is_made=True)
            self.last = self.leaf = uuid

    def _timed(self, fields: dict[str, bytes]) -> dict[str, bytes]:
        """The fields of a branch, which was made when the agent last said something."""
        if self._time is not None:
            fields.setdefault("timestamp", self._time)
        return fields

    def _placed(self, entry: Carried) -> Iterator[Carried]:
        ready = [entry]
        while ready:
            entry = ready.pop()
            self._mend(entry)
            self._parents[entry.uuid] = entry.parent
            if entry.lane is None:
                self.last = entry.uuid
            if entry.type == "branch":
                self._timed(entry.fields)
            elif entry.lane is None:
                self._time = entry.fields.get("timestamp", self._time)
            yield entry
            ready.extend(reversed(self._waiting.pop(entry.uuid, ())))

    def _rest(self) -> Iterator[Carried]:
        """Those whose parent never came, or stands in a circle with them."""
        held = {entry.uuid: entry for entry in self._held if entry.uuid not in self._parents}
        for top in _tops(list(held.values())):
            yield from self._placed(self._below_header(top, held))

    def _below_header(self, entry: Carried, held: dict[str, Carried]) -> Carried:
        siblings = self._waiting.get(entry.parent, [])
        self._waiting[entry.parent] = [other for other in siblings if other is not entry]
        if entry.parent in held:
            cause = f"entry {entry.uuid} is an ancestor of its own parent {entry.parent}"
            self._source.note("cycle", entry.place, cause)
        else:
            cause = f"the parent {entry.parent} of entry {entry.uuid} is not in the file"
            self._source.note("missing parent", entry.place, cause)
        keep_original(entry, "parentUuid")
        entry.parent = self._root
        return entry

    def _mend(self, entry: Carried) -> None:
        """Let what an entry refers to be there."""
        for key in REFERENCES.get(entry.type, ()):
            named = _text(entry.fields.get(key))
            if named is not None and self._is_there(named, key, entry):
                continue
            if named is None or (key, named) != (_LEFT, "root"):  # so pi names the top
                cause = f"the {key} of {entry.type} {entry.uuid} names nothing it could: {named}"
                self._source.note("reference", entry.place, cause)
            keep_original(entry, key)
            if key == _ABOVE:
                entry.fields[key] = dumps(entry.uuid)
            elif key == _LEFT:
                entry.fields[key] = dumps(self._root)
            else:
                self._make_custom(entry)
                return

    def _is_there(self, named: str, key: str, entry: Carried) -> bool:
        if key != _ABOVE:
            return named in self._parents or named == self._root
        above = entry.parent
        if named == entry.uuid:
            return True
        while above != named and above in self._parents:
            above = self._parents[above]
        return above == named

    def _make_custom(self, entry: Carried) -> None:
        """An entry that could do nothing, as one that says nothing."""
        own = ("uuid", "parentUuid", "lane", "timestamp", "original", "metadata")
        data = {key: value for key, value in entry.fields.items() if key not in own}
        kept = {key: entry.fields[key] for key in own if key in entry.fields}
        named = f"{self._agent or 'sessiontree'}:{entry.type}"
        entry.type = "custom"
        entry.fields = {
            "type": b'"custom"',
            **kept,
            "customType": dumps(named),
            "data": Values(data).text_of_whole(),
        }


def _tops(held: list[Carried]) -> list[Carried]:
    """Those that a circle is cut above, where the index of a file cuts it, and those without
    a parent."""
    above: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    come: set[str] = set()
    for entry in held:
        uuid, parent = entry.uuid, entry.parent
        come.add(uuid)
        if parent in come and parent != uuid:
            above[uuid] = parent
        elif parent != uuid:
            waiting.setdefault(parent, []).append(uuid)
        for child in waiting.pop(uuid, ()):
            top = uuid
            while top in above:
                top = above[top]
            if top != child:
                above[child] = uuid
    return [entry for entry in held if entry.uuid not in above]


def _text(raw: bytes | None) -> str | None:
    value = None if raw is None else decode_leniently(raw)
    return value if isinstance(value, str) else None
