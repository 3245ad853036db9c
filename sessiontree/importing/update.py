"""The update of a session from the source that it was imported from.

Nothing in the session changes. An entry that the session has as the source has it is skipped, a new
one is appended, and one that the source has changed (its parent is another, or it was replaced) is
appended under a uuid derived from its line, with the entries below it.

The main leaf follows the source, unless a user appended to the session: then the main lane
is the user's, and new entries go to a lane with the agent's name.

Invariants: an update is one write, so that a crash keeps a part from its start at most,
which the next import completes; an import that finds nothing new writes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from sessiontree.core.entry import ANNOTATIONS, REFERENCES, Entry, decode_leniently, decode_object
from sessiontree.core.index import NO_ROW
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.message import TYPED
from sessiontree.core.migrate import uuid_of_line
from sessiontree.engine.naming import Naming
from sessiontree.engine.view import View
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.formats.base import encoded
from sessiontree.importing import target
from sessiontree.importing.entries import ORIGINAL, PutBlob, SourceEntry
from sessiontree.storage.lines import rest_of_line
from sessiontree.storage.log import Log

VARIANT_OF: Final = "variantOf"
"""The key of an entry that the source changed: the uuid of the earlier one."""

_NOT_COMPARED: Final = frozenset(
    {"uuid", "parentUuid", "lane", "timestamp", "crc", "metadata", ORIGINAL}
)
"""The keys of an entry that are not its content; `metadata` is what the reader noted about it."""

_OF_PROGRAM: Final = frozenset(
    {
        *("parentUuid", "parentId", "sessionId", "agentId", "isSidechain"),
        *("timestamp", "cwd", "version", "gitBranch", "userType"),
    }
)
"""The keys of a source line that describe the program, not the conversation."""


class Update:
    """What a source adds to a target, which is open as a log."""

    def __init__(self, log: Log, opening: target.Opening, agent: str | None) -> None:
        self._log = log
        self._opening = opening
        self._view = View(log)
        self._tree = self._view.tree()
        self._agent = agent or "import"
        self._names = Naming(log.read, self._view).known()
        self._given = {opening.root: self._view.header.uuid}
        self._seen = {self._view.header.uuid}
        self._lanes: dict[str, str | None] = {}
        self._is_copy = target.CONVERTED in target.record_in(self._view.header.body)
        self._content = self._tree.content_rows()
        self._count = 0

    @property
    def size(self) -> int:
        return self._view.size

    def lines(self, put: PutBlob) -> tuple[list[bytes], target.Counts]:
        """The lines to append, and their counts; `put` takes the large strings."""
        found = (self._new(entry) for entry in self._opening.entries)
        new = self._on_lanes([entry for entry in found if entry is not None])
        lane = None if self._is_leaf_imported() else self._agent
        leaf = self._given.get(self._opening.order.leaf, self._opening.order.leaf)
        main = [entry for entry in new if entry.lane is None]
        if main and main[-1].uuid != leaf:
            main.append(target.branch_to(leaf, main[-1].uuid, main[-1].place))
            new.append(main[-1])
        for entry in main:
            entry.lane = lane
        lines = [entry.line(put) for entry in new]
        record = self._record_of(new, lane)
        if record is not None:
            lines.insert(new.index(main[-1]) if main else 0, record)
        return lines, target.Counts(self._count, len(new), 0)

    def _new(self, found: SourceEntry) -> SourceEntry | None:
        """An entry as it is to be written; None if the target has it."""
        self._count += 1
        entry = self._with_given_uuids(found)
        self._seen.add(entry.uuid)
        known = self._known(entry)
        if known is not None:
            self._note_known(known, found)
            return None
        if self._tree.row(entry.uuid) == NO_ROW:
            return entry
        if self._is_prompt_passed(entry):
            self._given[entry.uuid] = entry.parent
            return None
        variant = self._given[entry.uuid] = _variant_of(entry)
        fields = {**entry.fields, VARIANT_OF: dumps(entry.uuid)}
        return self._with_given_uuids(replace(entry, uuid=variant, fields=fields))

    def _with_given_uuids(self, entry: SourceEntry) -> SourceEntry:
        """An entry that refers to others by their uuids in the target."""
        given = self._given
        fields = entry.fields
        for key in REFERENCES.get(entry.type, ()):
            named = decode_leniently(fields.get(key, b""))
            if isinstance(named, str) and named in given:
                fields = {**fields, key: dumps(given[named])}
        return replace(entry, parent=given.get(entry.parent, entry.parent), fields=fields)

    def _known(self, entry: SourceEntry) -> str | None:
        """The uuid of the same entry in the target, or None.

        A variant goes before an entry with the same content, which was not known as the same
        when the variant was written.
        """
        tree = self._tree
        row = tree.row(entry.uuid)
        place = NO_ROW if entry.origin is None else tree.row(entry.origin)
        if place != NO_ROW and (not self._is_copy or self._is_below_origin(row, place)):
            return entry.origin
        if row == NO_ROW:
            return None
        if self._is_at(row, entry):
            return entry.uuid
        if tree.row(variant := _variant_of(entry)) != NO_ROW:
            return variant
        return entry.uuid if self._has_content_at(row, entry) else None

    def _is_prompt_passed(self, entry: SourceEntry) -> bool:
        """Whether the target has a prompt that no message has at another place, and what follows.

        The target keeps both as they are: what follows is not repeated below the prompt.
        """
        above = self._tree.row(entry.parent)
        if entry.type != "custom" or TYPED not in entry.fields.get("metadata", b"").decode():
            return False
        return above != NO_ROW and any(self._content[row] for row in self._tree.children(above))

    def _is_below_origin(self, row: int, place: int) -> bool:
        """Whether the origin of a line is its place in a copy that has the line too."""
        return row in (NO_ROW, place) or row in self._tree.rows_up(place)

    def _note_known(self, known: str, found: SourceEntry) -> None:
        self._seen.add(known)
        if known != found.uuid:
            self._given[found.uuid] = known
        if found.lane is not None:
            self._lanes[found.lane] = self._tree.lane_of(self._tree.row(known))

    def _on_lanes(self, new: list[SourceEntry]) -> list[SourceEntry]:
        """The new entries on their lanes, without those that only start or end a known lane."""
        changed = {entry.lane for entry in new if not entry.is_made}
        kept: list[SourceEntry] = []
        for entry in new:
            lane = entry.lane
            is_known = lane is None or lane in self._lanes
            if entry.is_made and is_known and (entry.type != "branch" or lane not in changed):
                self._given[entry.uuid] = self._given.get(entry.parent, entry.parent)
                continue
            entry = self._with_given_uuids(entry)
            if lane is not None and self._lanes.get(lane) is not None:
                entry.lane = self._lanes[lane]
            kept.append(entry)
        return kept

    def _has_content_at(self, row: int, entry: SourceEntry) -> bool:
        """Whether the entry of a row has all content of this one, at the same place.

        Facts about the program may differ, and entries without content may be between.
        """
        stored = self._view.read(self._tree.offsets[row])
        above = self._tree.row(entry.parent)
        if stored is None or above == NO_ROW:
            return False
        if self._content_above(self._tree.parents[row]) != self._content_above(above):
            return False
        there, here = stored.as_stored, decode_object(entry.line(target.handle_of))
        if stored.type == "custom" and entry.type == "message":  # an older version kept the line
            return _has_all(there.get("data"), here.get(ORIGINAL))
        if stored.type != entry.type:
            return False
        keys = (key for key in here if key not in _NOT_COMPARED)
        return all(key in there and there[key] == here[key] for key in keys) and _has_all(
            there.get(ORIGINAL), here.get(ORIGINAL)
        )

    def _content_above(self, row: int) -> int:
        """The nearest row with content at or above one, or NO_ROW."""
        if row == NO_ROW:
            return NO_ROW
        return next((above for above in self._tree.rows_up(row) if self._content[above]), NO_ROW)

    def _is_at(self, row: int, entry: SourceEntry) -> bool:
        """Whether the target has this line, on the entry's own lane or on the agent's."""
        lane = self._tree.lane_of(row)
        stored = rest_of_line(self._log.read, self._tree.offsets[row])
        if entry.lane is None and lane == self._agent:
            entry = replace(entry, lane=lane)
        return entry.line(target.handle_of) == stored

    def _is_leaf_imported(self) -> bool:
        """Whether an import made the target's main leaf, of this source or an earlier one."""
        walk = self._view.walk()
        leaf: Entry | None = walk.last_on(None)
        above = iter(()) if leaf is None else walk.up(leaf)
        while leaf is not None and leaf.type in ANNOTATIONS and leaf.uuid not in self._seen:
            leaf = next(above, None)
        if leaf is None or leaf.uuid in self._seen:
            return True
        return leaf.uuid[14:15] == "5"  # derived from a line; a user's entry has a random uuid

    def _record_of(self, new: list[SourceEntry], lane: str | None) -> bytes | None:
        """The line with the record of this import; None if nothing is new."""
        header = self._opening.header
        known = self._names.metadata
        facts = {key: value for key, value in header["metadata"].items() if key not in known}
        record = {**header["metadata"][target.IMPORTED_FROM]}
        if target.CONVERTED in record:  # the facts are the session's own
            if not new:
                return None
            facts = {}
        before = target.record_in({"metadata": known})
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
            "metadata": {**facts, target.IMPORTED_FROM: record},
        }
        if lane is not None:
            fields["lane"] = lane
        return encoded(fields)


def _variant_of(entry: SourceEntry) -> str:
    """The uuid for an entry that the source changed."""
    return uuid_of_line(entry.uuid, 0, entry.line(target.handle_of))


def _has_all(there: Any, here: Any) -> bool:
    """Whether one `original` has all keys of another but those of the program."""
    if not isinstance(here, dict):
        return here is None
    known = there if isinstance(there, dict) else {}
    keys = (key for key in here if key not in _OF_PROGRAM)
    return all(key in known and known[key] == here[key] for key in keys)
