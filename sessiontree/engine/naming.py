r"""Naming: what names mean, and which uuids are taken, without the index of the whole log.

A compaction repeats in its `state` where the lines are that give names, and marks of the uuids and
ids since the compaction before. With it, only those lines and the ones behind it are read. Where
no such compaction is near the end, one search through the raw bytes answers for one name or uuid:
JSON spells a string of printable ASCII characters as it is, or with escapes `\u00XX` or `\/`, and
lines with such escapes are decoded. After a few searches, the structure of all lines is read once.

Invariants: an answer equals the one of the index; a `state` is used only if the log has the
same bytes before the place that it describes, and each line that it lists still gives a name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from operator import lt
from typing import Any, Final, NamedTuple

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.codec import (
    CRC_KEY,
    CRC_LENGTH,
    LineHead,
    crc32,
    ended_lines,
    head,
    heads_of,
    parts,
    quoted,
)
from sessiontree.core.damage import ignore
from sessiontree.core.entry import ANNOTATIONS, HEADER, MAIN, MARKERS, Entry
from sessiontree.core.index import NO_ROW
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.marks import (
    MARKS,
    Marks,
    MarksKey,
    Tail,
    mark_of,
    marks_in,
    marks_to_repeat,
)
from sessiontree.engine.names import NAMING, UUID_LENGTH, Names
from sessiontree.storage.lines import Backwards, Read, rest_of_line, whole_lines

STATE: Final = "names"
"""The key of a compaction's `state`."""

_MOST_PLACES: Final = 500
_CHECKED: Final = 256
"""Bytes before the place that a `state` describes, which identify the log."""

_NEAR: Final = 16 * 1024 * 1024
"""Bytes at the end of a log that are searched for a `state` before a name is searched for."""

_MOST_SEARCHES: Final = 3
_MOST_EXPECTED: Final = 6
_MOST_TOLD: Final = 2
"""How often the size of the log may be searched for entries before the index finds them."""

_MOST_ASKED: Final = 1000
"""Questions for uuids that together cost less than the index."""

_MOST_HITS: Final = 2000
_MOST_TARGETS: Final = 8
_MOST_NEEDLES: Final = 32
_MOST_LINES: Final = 10_000
_FEW_ESCAPES: Final = 256  # single searches cost less than the regular expression

_FACTS: Final = "session_info"
_NOTES: Final = ("label", _FACTS)
_COMPACTION: Final = b'"compaction"'
_COMPACTION_SIZE: Final = 16 * 1024  # of nearly all
_PLAIN: Final = re.compile(r"""[ !#-\[\]-~]+""")
"""Strings that JSON spells as they are, but for `\\u00XX` and `\\/`."""

_ESCAPE: Final = b"\\u00"
_LONGEST_ESCAPE: Final = b"\\u0020"
_SEARCHED: Final = 512 * 1024
_FIRST: Final = 8 * 1024  # bytes of lines that are read in a row
_PRINTABLE_ESCAPE: Final = re.compile(rb"\\u00[2-7]")

Line = tuple[LineHead | Entry, bytes, int]
"""The structural keys of an entry, its line (maybe with its LF), and its offset."""


class _NamesKey(msgspec.Struct):
    end: int
    check: str
    lines: list[int]


class _State(msgspec.Struct):
    names: _NamesKey | None = None
    uuids: MarksKey | None = None


class _Compaction(msgspec.Struct):
    type: str
    state: _State | None = None


_decode_compaction: Final = msgspec.json.Decoder(_Compaction).decode


class Meaning(NamedTuple):
    """What a name means."""

    is_uuid: bool | None  # whether an entry has it as its uuid; None where that is not known
    labelled: set[str]  # the uuids of the entries that have it as their label
    branches: list[int]  # the offsets of the `branch` entries that give it
    has_lane: bool  # whether there is an entry on a lane of this name


class ToldNames(NamedTuple):
    """What the annotations of a session tell."""

    name: str | None  # the session's name, or None
    metadata: dict[str, Any]  # the session's metadata
    labels: list[tuple[int, str]]  # the offset and the target of each `label` entry, in file order


class Naming:
    """The names of the known part of a log.

    Args:
        read: reads the log.
        view: the known part.
    """

    def __init__(self, read: Read, view: LogTree) -> None:
        self._read = read
        self._view = view
        self._names: Names | None = None
        self._end = 0  # the offset up to which `_names` knows the log
        self._open_end = -1  # the size of the log when its last line had no LF and was read
        self._searches = 0
        self._asked = 0
        self._tail = Tail(0, 0, bytearray())
        self._compaction: int | None = None  # the offset of the last one that tells
        self._earlier: list[Marks] | None = None  # what compactions tell, the last first
        self._facts: Names | None = None  # only the session's name and metadata are whole
        self._facts_end = 0  # the offset up to which `_facts` knows the log
        self._noted: tuple[int, list[Entry]] | None = None  # all annotations up to an offset
        self._absent: dict[str, int] = {}  # uuids that no line before an offset has
        self._not_held: dict[str, int] = {}  # ids that no line before an offset holds
        self._expected: set[str] = set()
        self._expected_id: str | None = None
        self._told = 0  # the bytes that were searched for entries that compactions tell

    def known(self) -> Names:
        """Return all names."""
        view = self._view
        if self._open_end not in (-1, view.size):
            self._names = None  # that line may have gone on
        if self._names is None:
            self._begin(view.complete)
        names = self._names
        assert names is not None
        if self._end < view.complete or (view.complete < view.size != self._open_end):
            self._extend(names)
        return names

    def facts(self) -> Names:
        """Return names of which the session's name and metadata are whole."""
        view = self._view
        self._begin_near()
        if self._names is not None or view.has_tree or view.complete < view.size:
            return self.known()
        if self._facts is None and (self._searches >= _MOST_SEARCHES or self._survey() is None):
            return self.known()
        names = self._facts
        assert names is not None
        for found, line, offset in self._lines_from(self._facts_end):
            if found.type == _FACTS:
                self._take(names, found, line, offset)
        self._facts_end = view.complete
        return names

    def expect(self, uuids: Iterable[str], id: str | None) -> None:
        """Note uuids and an id that will be asked for, so that one search answers for all."""
        self._expected = {uuid for uuid in uuids if uuid not in self._absent}
        self._expected_id = id if id is not None and _PLAIN.fullmatch(id) else None

    def _begin_near(self) -> None:
        """Start with a `state` near the end, if there is one."""
        if self._names is None and not self._view.has_tree and not self._searches:
            self._begin(_NEAR)

    def _survey(self, *asked: str) -> set[str] | None:
        """Search once for uuids, and for all that gives the session its name and metadata.

        Returns the uuids that are there, or None where only the index tells.
        """
        self._searches += 1
        end = self._view.complete
        wanted, self._expected = {*asked, *list(self._expected)[:_MOST_EXPECTED]}, set()
        names = Names(self._view.header) if self._facts is None else None
        id, self._expected_id = self._expected_id, None
        needles = {*wanted, *([] if id is None else [id]), *([] if names is None else [_FACTS])}
        there: set[str] = set()
        is_held = False
        for entry in self._holding(needles, 0, end):
            if entry is None:
                return None
            there.update(wanted & {entry.uuid})
            is_held = is_held or (id is not None and quoted(id) in entry.line)
            if names is not None and entry.type == _FACTS:
                names.take(entry, entry.offset)
        if names is not None:
            self._facts, self._facts_end = names, end
        self._absent.update(dict.fromkeys(wanted - there, end))
        if id is not None and not is_held:
            self._not_held[id] = end
        return there

    def lookup(self, name: str) -> Meaning | None:
        """Return what a name means; None where only the index tells."""
        if self._names is None and not self._view.has_tree:
            if not self._searches:
                self._begin(_NEAR)
            if self._names is None and self._searches < _MOST_SEARCHES:
                self._searches += 1
                if (found := self._search(name)) is not None:
                    return found
        names = self.known()
        if self._view.has_tree:
            is_uuid: bool | None = self._view.tree().row(name) != NO_ROW
        elif names.uuids is None or len(name) == UUID_LENGTH:
            is_uuid = None
        else:
            is_uuid = name in names.uuids
        labelled = {uuid for uuid, label in names.labels.items() if label == name}
        has_lane = name == MAIN or name in names.lanes
        return Meaning(is_uuid, labelled, names.branches.get(name, []), has_lane)

    def told(self, is_wanted: Callable[[str], bool]) -> ToldNames:
        """Return the facts of the session, and its labels if some wanted uuid ever had one."""
        self._begin_near()
        if self._names is None and not self._view.has_tree:
            found = self._noted_at(self._view.size)
            names = Names(self._view.header)
            for entry in found or ():
                names.take(entry, entry.offset)
        else:
            names, found = self.known(), []
            last = names.last_labels()
            if any(map(is_wanted, last)):
                end = max(last.values())
                end += len(rest_of_line(self._read, end))
                found = self._annotations(("label",), end)
        if found is None:  # they are too many to be searched for
            tree = self._view.tree()
            names = self.known()
            read = (self._view.read(tree.offsets[row]) for row in tree.rows_of_type("label"))
            found = [*filter(None, read)]
        given = [(one.offset, one.get("targetUuid")) for one in found if one.type == "label"]
        labels = [(at, uuid) for at, uuid in given if isinstance(uuid, str)]
        return ToldNames(names.name, names.metadata, labels)

    def _noted_at(self, end: int) -> list[Entry] | None:
        """Return all annotations of a log of this size; None where they are too many."""
        if self._noted is not None and self._noted[0] == end:
            return self._noted[1]
        self._searches += 1
        return self._annotations(_NOTES, end)

    def entry_and_notes(self, uuid: str) -> Entry | None:
        """Return the last entry with a uuid, by the search that `told` needs, and does not repeat.

        None where no such search is needed, or only the index tells.
        """
        self._begin_near()
        if self._names is not None or self._view.has_tree:
            return None
        self._searches += 1
        end = self._view.size
        found: Entry | None = None
        notes: list[Entry] = []
        for entry in self._holding((uuid, *_NOTES), 0, end):
            if entry is None:
                return None
            if entry.type in _NOTES:
                notes.append(entry)
            if entry.uuid == uuid and quoted(uuid) in entry.line:
                found = entry
        self._noted = end, notes
        return found

    def _annotations(self, types: tuple[str, ...], end: int) -> list[Entry] | None:
        """Return the entries of these types before an offset; None where they are too many."""
        found: list[Entry] = []
        for entry in self._holding(types, 0, end):
            if entry is None:
                return None
            if entry.type in types:
                found.append(entry)
        return found

    def places_of(self, uuids: set[str]) -> dict[str, int]:
        """Return the offset of the entry that each of these uuids means."""
        few = len(uuids) <= _MOST_NEEDLES and not self._view.has_tree
        found = self._search_places(uuids) if few else None
        if found is not None:
            return found
        tree = self._view.tree()
        rows = {uuid: tree.row(uuid) for uuid in uuids}
        return {uuid: tree.offsets[row] for uuid, row in rows.items() if row != NO_ROW}

    def _search_places(self, uuids: set[str]) -> dict[str, int] | None:
        """Do the same without the index; None where only the index tells."""
        found: dict[str, int] = {}
        for entry in self._holding(uuids, 0):
            if entry is None:
                return None
            uuid = entry.uuid
            if uuid in uuids and (uuid not in found or quoted(uuid) in entry.line):
                found[uuid] = entry.offset
        return found

    def state(self) -> dict[str, Any]:
        """Return what a compaction repeats of the names and uuids; nothing where it is too much."""
        places = self.known().places()
        if places is None or len(places) > _MOST_PLACES:
            return {}
        end = self._view.complete
        lines = [at for at in places if at < end]
        names = {"end": end, "check": self._check(end), "lines": lines}
        return {STATE: names, **self._marks_to_repeat(end)}

    def _marks_to_repeat(self, end: int) -> dict[str, Any]:
        """Return the marks that a compaction adds to those before; nothing where they are many.

        It repeats those of earlier compactions that do not have more, so that few are read later.
        """
        if self._tail.end < end:  # the names came from the index
            tree = self._view.tree()
            since = bisect_left(tree.offsets, self._tail.end)
            for row in tree.rows_of_type("compaction", since=since):
                self._restart_at(tree.offsets[row])
            rows = range(*(bisect_left(tree.offsets, at) for at in (self._tail.end, end)))
            self._tail.uuids.extend(b"".join(mark_of(tree.uuids[row]) for row in rows))
            self._tail = self._tail._replace(end=end)
        blocks = (block for _, block in whole_lines(self._read, self._tail.start, end))
        marks = marks_to_repeat(self._tail, blocks)
        if marks is None:
            return {}
        before = self._compaction
        while before is not None and (given := self._marks_at(before, marks.start)) is not None:
            joined = marks.with_earlier(given[0])
            if joined is None:
                break
            marks, before = joined, given[1]
        return {MARKS: marks.as_json(before)}

    def has_uuid(self, uuid: str) -> bool:
        """Whether an entry has a uuid."""
        view = self._view
        self._begin_near()
        self._asked += uuid not in self._absent
        if not view.has_tree and self._asked <= _MOST_ASKED:
            found = self._search_uuid(uuid)
            if found is False:
                self._absent[uuid] = view.complete
            if found is not None:
                return found
        return view.tree().row(uuid) != NO_ROW

    def entry_told(self, uuid: str) -> Entry | None:
        """Return the last entry with a uuid, if compactions tell where it is.

        None once the searches together cost more than the index, and where the log ends in the
        middle of a line, which may have the uuid too.
        """
        view = self._view
        if view.complete < view.size or self._told > _MOST_TOLD * view.size:
            return None
        self._begin_near()
        if self._names is None or not _PLAIN.fullmatch(uuid):
            return None
        self.known()
        for one in self._marks_known():
            if one.may_have_uuid(uuid):
                self._told += one.end - one.start
                found = list(self._holding(uuid, one.start, one.end))
                entries = [each for each in found if each is not None and each.uuid == uuid]
                plain = [each for each in entries if quoted(uuid) in each.line]
                if plain or None in found:
                    return plain[-1] if plain and None not in found else None
        return None

    def _marks_known(self) -> list[Marks]:
        """Return the marks of the last lines, and all that compactions tell, the last first."""
        if self._earlier is None:
            self._earlier = self._read_marks()
        return [self._tail.marks(), *self._earlier]

    def _search_uuid(self, uuid: str) -> bool | None:
        """Do the same without the index; None where only the index tells."""
        if uuid in self._absent:
            return self._is_uuid_in(uuid, self._absent[uuid], self._view.size)
        if self._names is None and self._searches >= _MOST_SEARCHES:
            return None
        if self._names is None:
            there = self._survey(uuid)
            if there is None or uuid in there:
                return None if there is None else True
            return self._is_uuid_in(uuid, self._view.complete, self._view.size)
        self.known()
        known = self._marks_known()
        ranges = [(one.start, one.end) for one in known if one.may_have_uuid(uuid)]
        if self._tail.end < self._view.size:
            ranges.append((self._tail.end, self._view.size))
        if known[-1].start:  # no compaction tells of what is before
            self._searches += 1
            ranges.append((0, known[-1].start))
        if self._searches > _MOST_SEARCHES:
            return None
        for start, end in ranges:
            if (found := self._is_uuid_in(uuid, start, end)) is not False:
                return found
        return False

    def _is_uuid_in(self, uuid: str, start: int, end: int) -> bool | None:
        for entry in self._holding(uuid, start, end):
            if entry is None:
                return None
            if entry.uuid == uuid:
                return True
        return False

    def _read_marks(self) -> list[Marks]:
        """Read what compactions repeat, each of the lines since the one before."""
        place, end = self._compaction, self._tail.start
        found: list[Marks] = []
        while place is not None:
            given = self._marks_at(place, end)
            if given is None:
                break
            one, before = given
            found.append(one)
            place, end = before, one.start
        return found

    def _marks_at(self, place: int, end: int) -> tuple[Marks, int | None] | None:
        """Read what a compaction repeats of uuids up to `end`, and the place of the one before.

        None also where the one before is elsewhere. `sync` may have put the lines between the two
        in another order here than in the log where they were written.
        """
        found = self._uuids_at(place, end)
        marks = None if found is None else marks_in(found, end, place)
        if found is None or marks is None:
            return None
        before = found.before
        if before is not None and self._uuids_at(before, marks.start) is None:
            return None
        return marks, before

    def _uuids_at(self, place: int, end: int) -> MarksKey | None:
        state = _state_in(rest_of_line(self._read, place, step=_COMPACTION_SIZE))
        if state is None or state.names is None or state.names.end != end:
            return None
        return state.uuids

    def _check(self, end: int) -> str:
        start = max(0, end - _CHECKED)
        return f"{crc32(self._read(start, end - start)):08x}"

    def _begin(self, most: int) -> None:
        """Start with the last `state` in so many bytes at the end, or with nothing."""
        self._end, self._open_end = 0, -1
        self._tail = Tail(0, 0, bytearray())
        self._compaction = self._earlier = None
        view = self._view
        base = max(0, view.complete - most)
        if not view.has_tree:
            window = Backwards(lambda at, size: self._read(base + at, size))
            for at, line in window.find(_COMPACTION, view.complete - base):
                if self._take_state(line, base + at):
                    return
        if not base:
            self._names = Names(view.header)

    def _take_state(self, line: bytes, offset: int) -> bool:
        """Start with the `state` of a compaction, if it is one of this log."""
        state = _state_in(line)
        if state is None or state.names is None:
            return False
        end, check, lines = state.names.end, state.names.check, state.names.lines
        if not 0 < end <= offset or not all(map(lt, [-1, *lines], [*lines, end])):
            return False
        if check != self._check(end):
            return False
        names = Names(self._view.header)
        for at, named in zip(lines, self._view.lines_at(lines), strict=True):
            found = self._view.decode(named, at)
            if found is None:
                return False
            self._take(names, found, named, at)
        if names.places() != lines:
            return False
        self._names, self._end = names, end
        self._tail = Tail(end, end, bytearray())
        self._compaction = offset
        return True

    def _extend(self, names: Names) -> None:
        view = self._view
        if view.has_tree:
            self._extend_from_tree(names)
        else:
            for found, line, offset in self._lines_from(self._end):
                if found.type == "compaction":
                    self._restart_at(offset)
                self._tail.uuids.extend(mark_of(found.uuid) if offset < view.complete else b"")
                if found.type in NAMING or found.lane is not None or len(found.uuid) != UUID_LENGTH:
                    self._take(names, found, line, offset)
            self._tail = self._tail._replace(end=view.complete)
        self._end = view.complete
        self._open_end = view.size if view.complete < view.size else -1

    def _restart_at(self, offset: int) -> None:
        """Collect the marks behind a compaction anew, if it repeats all those before it."""
        given = self._marks_at(offset, offset)
        if given is None or given[0].start > self._tail.start:
            return
        if given[0].start == self._tail.start and given[1] != self._compaction:
            return
        if self._earlier is not None:
            earlier = [one for one in self._earlier if one.start < given[0].start]
            self._earlier = [given[0], *earlier]
        self._tail, self._compaction = Tail(offset, offset, bytearray()), offset

    def _extend_from_tree(self, names: Names) -> None:
        tree = self._view.tree()
        since = bisect_left(tree.offsets, self._end)
        uuids = tree.uuids
        rows = {row for row in range(since, len(tree)) if len(uuids[row]) != UUID_LENGTH}
        rows.update(tree.rows_of_type(*NAMING, since=since))
        if any(lane not in names.lanes for lane in tree.lanes[1:]):
            first = tree.first_of_each_lane()
            first.pop(None, None)
            rows.update(row for lane, row in first.items() if lane not in names.lanes)
        for row in sorted(rows):
            offset = tree.offsets[row]
            names.note(uuids[row], tree.lane_of(row), offset)
            if tree.type_of(row) in NAMING and (entry := self._view.read(offset)) is not None:
                names.take(entry, offset)

    def _take(self, names: Names, found: LineHead | Entry, line: bytes, offset: int) -> None:
        lane = None if found.lane == MAIN else found.lane
        names.note(found.uuid, lane, offset)
        if found.type in NAMING:
            entry = self._view.decode(line.removesuffix(b"\n"), offset)
            if entry is not None:
                names.take(entry, offset)

    def _lines_from(self, offset: int) -> Iterator[Line]:
        """Yield the structure of all entries from an offset on; an open end comes last."""
        for start, block in self._blocks_from(offset):
            lines = ended_lines(block)
            heads = heads_of(lines)
            if not heads or not all(found.uuid for found in heads):
                yield from filter(self._is_entry, _hard_lines(block, start))
                continue
            for found, line in zip(heads, lines, strict=True):
                if found.type != HEADER or self._is_entry((found, line, start)):
                    yield found, line, start
                start += len(line)

    def _is_entry(self, line: Line) -> bool:
        """True if a line is not a second header."""
        return line[0].type != HEADER or line[2] == self._view.header.offset

    def may_hold(self, text: str, end: int | None = None) -> bool:
        """Whether some line before an offset, by default the end, may hold a string."""
        if not _PLAIN.fullmatch(text) or "/" in text:
            return True
        stop = self._view.size if end is None else end
        return next(self._places_of([quoted(text)], 0, stop), None) is not None

    def may_hold_id(self, id: str) -> bool:
        """Whether some line may hold the id of a message or a call, as sessiontree spells it."""
        if not _PLAIN.fullmatch(id):
            return True
        self._begin_near()
        needle = [quoted(id)]
        return any(
            next(self._places_of(needle, *part, with_escapes=False), None) is not None
            for part in self._parts_with(id)
        )

    def _parts_with(self, id: str) -> Iterator[tuple[int, int]]:
        """Yield the parts of the log that may hold an id, as compactions tell."""
        size = self._view.size
        if self._names is None:
            yield self._not_held.get(id, 0), size
            return
        self.known()
        tail, *earlier = self._marks_known()
        yield tail.start, size
        for one in earlier:
            if one.may_have_id(id):
                yield one.start, one.end
        yield 0, earlier[-1].start if earlier else tail.start

    def holding(self, text: str) -> list[Entry] | None:
        """Return the entries whose lines may hold a string; None where they are too many."""
        found: list[Entry] = []
        for entry in self._holding(text, 0):
            if entry is None:
                return None
            found.append(entry)
        return found

    def on_lane(self, lane: str | None, start: int) -> Iterator[tuple[LineHead | Entry, int]]:
        """Yield the structure of the entries of a lane from an offset on, and their offsets."""
        for found, _, offset in self._lines_from(start):
            if (None if found.lane == MAIN else found.lane) == lane:
                yield found, offset

    def _search(self, name: str) -> Meaning | None:
        """Search the raw bytes for what a name means; None where they do not tell."""
        is_uuid = False
        labels: dict[str, int] = {}  # where each target got this label last
        branches: list[int] = []
        has_lane = name == MAIN
        for entry in self._holding(name, 0):
            if entry is None:
                return None
            is_uuid = is_uuid or entry.uuid == name
            has_lane = has_lane or entry.lane == name
            target = entry.get("targetUuid") if entry.type == "label" else None
            if isinstance(target, str) and entry.get("label") == name:
                labels[target] = entry.offset
            elif entry.type == "branch" and entry.get("name") == name:
                branches.append(entry.offset)
        if len(labels) > _MOST_TARGETS:
            return None
        labelled = set()
        for target, offset in labels.items():
            last: Any = None
            for entry in self._holding(target, offset):
                if entry is None:
                    return None
                if entry.type == "label" and entry.get("targetUuid") == target:
                    last = entry.get("label")
            if last == name:
                labelled.add(target)
        return Meaning(is_uuid, labelled, branches, has_lane)

    def _holding(
        self, text: str | Iterable[str], start: int, stop: int | None = None
    ) -> Iterator[Entry | None]:
        """Yield the entries of a range whose lines may hold one of some strings; None: too many."""
        needles: list[bytes] = []
        for one in [text] if isinstance(text, str) else text:
            if not _PLAIN.fullmatch(one):
                yield None
                return
            needles.append(quoted(one))
            needles += [f"{part}\\/".encode() for part in one.split("/")[:-1]]
        backwards, end = Backwards(self._read), start
        stop = self._view.size if stop is None else stop
        hits = 0
        for at in self._places_of(needles, start, stop):
            if at < end:
                continue  # in the line before
            begin, _ = backwards.line_before(at)
            line = rest_of_line(self._read, begin)[: self._view.size - begin]
            end = begin + len(line)
            hits += 1
            if hits > _MOST_HITS:
                yield None
                return
            entry = self._view.decode(line, begin)
            if entry is not None:
                yield entry

    def _places_of(
        self, needles: list[bytes], start: int, stop: int, *, with_escapes: bool = True
    ) -> Iterator[int]:
        """Yield where these bytes are in a range, by default escapes of printable ASCII too."""
        overlap = max(map(len, [*needles, _LONGEST_ESCAPE])) - 1
        while start < stop:
            block = self._read(start, min(_SEARCHED + overlap, stop - start))
            found = {at for needle in needles for at in _places_in(block, needle)}
            found.update(_escapes_in(block) if with_escapes else ())
            yield from sorted(start + at for at in found)
            start += _SEARCHED

    def _blocks_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        view = self._view
        near = min(offset + _FIRST, view.complete)  # often enough
        for at, block in whole_lines(self._read, offset, near):
            yield at, block
            offset = at + len(block)
        yield from whole_lines(self._read, offset, view.complete)
        if view.complete < view.size:
            yield view.complete, self._read(view.complete, view.size - view.complete)

    def tip(self, offset: int) -> str | None:
        """Return the uuid of the tip of the named branch that begins at an offset.

        See `Names.tips`. None where only the index tells.
        """
        lines = self._lines_from(offset)
        first = next(lines, None)
        if first is None or first[2] != offset or quoted(first[0].uuid) not in first[1]:
            return None
        tip, lane = first[0].uuid, first[0].lane
        below = {tip}
        for found, line, at in lines:
            uuid = found.uuid
            if quoted(uuid) not in line:
                return None
            if found.type == HEADER or found.parent_uuid not in below or self._is_named(found, at):
                below.discard(uuid)
                continue
            below.add(uuid)
            is_on_lane = found.lane == lane or {found.lane, lane} <= {None, MAIN}
            if is_on_lane and found.type not in MARKERS:
                tip = uuid
        return tip

    def _is_named(self, found: LineHead | Entry, offset: int) -> bool:
        if found.type != "branch":
            return False
        entry = self._view.read(offset)
        return entry is not None and isinstance(entry.get("name"), str)

    def last_of_lane(self, name: str) -> Entry | None:
        """Return the last entry of a lane, without annotations; None if only the index tells."""
        lane = None if name == MAIN else name
        entry = self._view.walk().last_on(lane)
        if entry is None or entry.type not in ANNOTATIONS:
            return entry
        backwards, end = Backwards(self._read), entry.offset - 1
        for _ in range(_MOST_LINES):
            if end <= 0:
                break
            offset, line = backwards.line_before(end)
            found = head(line, offset, ignore)
            if found is not None and found.lane == lane and found.type not in ANNOTATIONS:
                entry = self._view.decode(line, offset)
                if entry is not None:
                    return entry
            end = offset - 1
        return None


def _state_in(line: bytes) -> _State | None:
    """The `state` of a compaction whose checksum is right."""
    if line[-CRC_LENGTH:] != CRC_KEY + b'%08x"}' % crc32(line[:-CRC_LENGTH]):
        return None
    try:
        found = _decode_compaction(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found.state if found.type == "compaction" else None


def _hard_lines(block: bytes, offset: int) -> Iterator[Line]:
    """Yield the structure of the entries among lines that may be damaged."""
    for lines, count in parts(block):
        for line in lines:
            found = head(line.removesuffix(b"\n"), offset, ignore) if count == 1 else None
            if found is not None:
                yield found, line, offset
            offset += count * len(line)


def _places_in(block: bytes, needle: bytes) -> Iterator[int]:
    at = stringzilla.find(block, needle)
    while at >= 0:
        yield at
        at = stringzilla.find(block, needle, at + 1)


def _escapes_in(block: bytes) -> Iterator[int]:
    """Where a block has escapes of printable ASCII."""
    at = stringzilla.find(block, _ESCAPE)
    for _ in range(_FEW_ESCAPES):
        if at < 0:
            return
        if _PRINTABLE_ESCAPE.match(block, at):
            yield at
        at = stringzilla.find(block, _ESCAPE, at + 1)
    if at >= 0:
        yield from (escape.start() for escape in _PRINTABLE_ESCAPE.finditer(block, at))
