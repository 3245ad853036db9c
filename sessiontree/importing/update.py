"""Growing: what a source adds to the session of ours that it was imported into before.

Nothing there is ever changed, so what the source says anew is added. An entry that
stands in the target as the source has it is left alone; one that is new is appended;
one that the source now tells in another way (it hangs elsewhere, or was replaced) is
appended under a uuid made of its line, and what hangs below it follows.

The main leaf follows the source, unless somebody went on in the target: then the
main lane is theirs, and what is new goes on a lane named after the agent.

Invariants: what is added is one write, so that a crash keeps a part from its start at
most, which the next import completes; an import that finds nothing new writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from sessiontree.core.entry import ANNOTATIONS, REFERENCES, Entry, decode_leniently, decode_object
from sessiontree.core.index import NO_ROW
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.migrate import uuid_of_line
from sessiontree.engine import refs
from sessiontree.engine.view import View
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.formats.base import encoded
from sessiontree.importing.entries import ORIGINAL, Carried, Store
from sessiontree.importing.target import (
    CONVERTED,
    IMPORTED_FROM,
    Counts,
    Opening,
    named_only,
    record_in,
)
from sessiontree.storage.lines import rest_of_line
from sessiontree.storage.log import FileLog

VARIANT_OF: Final = "variantOf"
"""The key of an entry that the source told in another way before: the uuid it had."""

_AROUND: Final = frozenset({"uuid", "parentUuid", "lane", "timestamp", "crc", ORIGINAL})
"""Keys of an entry that are not what it says."""

_OF_PROGRAM: Final = frozenset(
    {
        *("parentUuid", "parentId", "sessionId", "agentId", "isSidechain"),
        *("timestamp", "cwd", "version", "gitBranch", "userType"),
    }
)
"""Keys of a line that tell of the program that wrote it, and not what was said."""


class Grown:
    """A target that is there, and what a source adds to it.

    Args:
        log: the target, open.
        opening: the source, begun.
    """

    def __init__(self, log: FileLog, opening: Opening, agent: str | None) -> None:
        self._log = log
        self._opening = opening
        self._view = View(log)
        self._tree = self._view.tree()
        self._agent = agent or "import"
        self._names = refs.Names(self._view.header)
        self._names.extend(self._tree, self._view.read)
        self._given = {opening.root: self._view.header.uuid}
        self._seen = {self._view.header.uuid}
        self._lanes: dict[str, str | None] = {}
        self._is_copy = CONVERTED in record_in(self._view.header.body)
        self._content = self._tree.content_rows()
        self._count = 0

    @property
    def size(self) -> int:
        """The size of the target that was looked at."""
        return self._view.size

    def added(self, store: Store) -> tuple[list[bytes], Counts]:
        """The lines to be appended, and what they are; none where all is there.

        Args:
            store: keeps the large strings of new entries.
        """
        found = (self._new(entry) for entry in self._opening.entries)
        new = self._without_needless([entry for entry in found if entry is not None])
        lane = None if self._is_leaf_ours() else self._agent
        leaf = self._given.get(self._opening.hanging.leaf, self._opening.hanging.leaf)
        main = [entry for entry in new if entry.lane is None]
        if main and main[-1].uuid != leaf:
            main.append(self._branch_to(leaf, main[-1]))
            new.append(main[-1])
        for entry in main:
            entry.lane = lane
        lines = [entry.line(store) for entry in new]
        record = self._record_of(new, lane)
        if record is not None:
            lines.insert(new.index(main[-1]) if main else 0, record)
        return lines, Counts(self._count, len(new), 0)

    def _new(self, told: Carried) -> Carried | None:
        """An entry as it is to be written; None where it stands in the target."""
        self._count += 1
        entry = self._repointed(told)
        self._seen.add(entry.uuid)
        known = self._known(entry)
        if known is not None:
            self._note_known(known, told)
            return None
        if self._tree.row(entry.uuid) == NO_ROW:
            return entry
        variant = uuid_of_line(entry.uuid, 0, entry.line(named_only))
        self._given[entry.uuid] = variant
        self._seen.add(variant)
        if self._tree.row(variant) != NO_ROW:
            return None
        fields = {**entry.fields, VARIANT_OF: dumps(entry.uuid)}
        return self._repointed(replace(entry, uuid=variant, fields=fields))

    def _repointed(self, entry: Carried) -> Carried:
        """An entry that names those that have another uuid here by that one."""
        given = self._given
        fields = entry.fields
        for key in REFERENCES.get(entry.type, ()):
            named = decode_leniently(fields.get(key, b""))
            if isinstance(named, str) and named in given:
                fields = {**fields, key: dumps(given[named])}
        return replace(entry, parent=given.get(entry.parent, entry.parent), fields=fields)

    def _known(self, entry: Carried) -> str | None:
        """The uuid of the entry of the target that says what this one says, or None."""
        tree = self._tree
        row = tree.row(entry.uuid)
        place = NO_ROW if entry.origin is None else tree.row(entry.origin)
        if place != NO_ROW and (not self._is_copy or self._goes_on_at(row, place)):
            return entry.origin
        if row != NO_ROW and (self._stands_at(row, entry) or self._is_said_at(row, entry)):
            return entry.uuid
        return None

    def _goes_on_at(self, row: int, place: int) -> bool:
        """Whether the origin of a line is its place also in a copy, which has the line itself."""
        return row in (NO_ROW, place) or row in self._tree.rows_up(place)

    def _note_known(self, known: str, told: Carried) -> None:
        self._seen.add(known)
        if known != told.uuid:
            self._given[told.uuid] = known
        if told.lane is not None:
            self._lanes[told.lane] = self._tree.lane_of(self._tree.row(known))

    def _without_needless(self, new: list[Carried]) -> list[Carried]:
        """The new entries on their lanes, without what only begins or ends what is known."""
        said = {entry.lane for entry in new if not entry.is_made}
        kept: list[Carried] = []
        for entry in new:
            lane = entry.lane
            is_known = lane is None or lane in self._lanes
            if entry.is_made and is_known and (entry.type != "branch" or lane not in said):
                self._given[entry.uuid] = self._given.get(entry.parent, entry.parent)
                continue
            entry = self._repointed(entry)
            if lane is not None and self._lanes.get(lane) is not None:
                entry.lane = self._lanes[lane]
            kept.append(entry)
        return kept

    def _is_said_at(self, row: int, entry: Carried) -> bool:
        """Whether the entry of a row says all that this one says, at the same place.

        What a program tells of itself may differ, and what says nothing stand between.
        """
        stored = self._view.read(self._tree.offsets[row])
        above = self._tree.row(entry.parent)
        if stored is None or stored.type != entry.type or above == NO_ROW:
            return False
        if self._content_above(self._tree.parents[row]) != self._content_above(above):
            return False
        there, here = stored.as_stored, decode_object(entry.line(named_only))
        words = (key for key in here if key not in _AROUND)
        return all(key in there and there[key] == here[key] for key in words) and _has_all(
            there.get(ORIGINAL), here.get(ORIGINAL)
        )

    def _content_above(self, row: int) -> int:
        """The nearest row with content at or above one; NO_ROW for none."""
        if row == NO_ROW:
            return NO_ROW
        return next((above for above in self._tree.rows_up(row) if self._content[above]), NO_ROW)

    def _stands_at(self, row: int, entry: Carried) -> bool:
        """Whether this very entry stands in the target, on its own lane or on the agent's."""
        lane = self._tree.lane_of(row)
        stored = rest_of_line(self._log.read, self._tree.offsets[row])
        if entry.lane is None and lane == self._agent:
            entry = replace(entry, lane=lane)
        return entry.line(named_only) == stored

    def _is_leaf_ours(self) -> bool:
        """Whether the target's main leaf is one that an import made, of this or a former source."""
        walk = self._view.walk()
        leaf: Entry | None = walk.last_on(None)
        above = iter(()) if leaf is None else walk.up(leaf)
        while leaf is not None and leaf.type in ANNOTATIONS and leaf.uuid not in self._seen:
            leaf = next(above, None)
        if leaf is None or leaf.uuid in self._seen:
            return True
        return leaf.uuid[14:15] == "5"  # made of a line; what a user writes has a random one

    def _branch_to(self, leaf: str, after: Carried) -> Carried:
        uuid = uuid_of_line(leaf, 0, b"leaf after " + after.uuid.encode("utf-8", "replace"))
        fields = {"type": b'"branch"'}
        return Carried(after.place, "branch", uuid, leaf, None, fields, is_made=True)

    def _record_of(self, new: list[Carried], lane: str | None) -> bytes | None:
        """The line that says what was imported; None where nothing is new."""
        header = self._opening.header
        facts = self._facts_missing(header["metadata"])
        record = {**header["metadata"][IMPORTED_FROM]}
        if CONVERTED in record:  # whose facts are those that the session told
            if not new:
                return None
            facts = {}
        before = record_in({"metadata": self._names.metadata})
        given, name = before.get("name", self._view.header.get("name")), header.get("name")
        fields: dict[str, Any] = {}
        if name is not None and name != given:
            record["name"] = name
            if self._names.name == given:
                fields["name"] = name
        elif "name" in before:
            record["name"] = before["name"]
        if not new and not facts and record.get("name") == before.get("name"):
            return None
        if new:
            record["last"] = new[-1].uuid
        tail = self._view.walk().last_on(lane) or self._view.walk().last_on(None)
        fields |= {
            "type": "session_info",
            "uuid": fresh_uuid(),
            "parentUuid": (tail or self._view.header).uuid,
            "timestamp": now(),
            "metadata": {**facts, IMPORTED_FROM: record},
        }
        if lane is not None:
            fields["lane"] = lane
        return encoded(fields)

    def _facts_missing(self, told: Mapping[str, Any]) -> dict[str, Any]:
        known = self._names.metadata
        return {key: value for key, value in told.items() if key not in known}


def _has_all(there: Any, here: Any) -> bool:
    """Whether what a line left over is there too, apart from what tells of its program."""
    if not isinstance(here, dict):
        return here is None
    known = there if isinstance(there, dict) else {}
    words = (key for key in here if key not in _OF_PROGRAM)
    return all(key in known and known[key] == here[key] for key in words)
