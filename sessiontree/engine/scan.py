r"""LogScan: questions that the raw bytes of a log answer, without the index of its lines.

What gives a name is found by one search through the log, whose lines are decoded only where one
of a few strings is in them; what is added later is searched when it is asked for. A uuid is
searched for in the same way, and in the same search if it was expected. JSON spells a string of
printable ASCII characters as it is, or with escapes `\u00XX` or `\/`, so lines with such escapes
are decoded, too.

Invariants: an answer equals the one of the index. Where searches cost more than the index, it is
built, and answers from then on.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.codec import LineHead, ended_lines, head, heads_of, parts, quoted
from sessiontree.core.damage import ignore
from sessiontree.core.entry import ANNOTATIONS, HEADER, MAIN, MARKERS, Entry
from sessiontree.core.index import NO_ROW
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.names import NAMING, Names
from sessiontree.storage.lines import Backwards, Read, rest_of_line, whole_lines

_GIVING: Final = (*NAMING, "lane")
"""Strings of which one is in each line that gives a name."""

_MAX_SEARCHES: Final = 3
"""Searches of the whole log for uuids, which together cost as much as the index."""

_MAX_HITS: Final = 2000
_MAX_NEEDLES: Final = 8
_MAX_LINES: Final = 10_000
_FEW_ESCAPES: Final = 256  # single searches cost less than the regular expression

_PLAIN: Final = re.compile(r"""[ !#-\[\]-~]+""")
"""Strings that JSON spells as they are, but for `\\u00XX` and `\\/`."""

_ESCAPE: Final = b"\\u00"
_LONGEST_ESCAPE: Final = b"\\u0020"
_SEARCHED: Final = 512 * 1024
_FIRST: Final = 8 * 1024  # bytes of lines that are read in a row
_PRINTABLE_ESCAPE: Final = re.compile(rb"\\u00[2-7]")

_Line = tuple[LineHead | Entry, bytes, int]
"""The structural keys of an entry, its line (maybe with its LF), and its offset."""


class _OnlyIndexError(Exception):
    """Only the index answers, or it costs less than the search."""


class LogScan:
    """Answers questions about the known part of a log.

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
        self._expected: set[str] = set()
        self._absent: dict[str, int] = {}  # strings that no line before an offset holds
        self._free: dict[str, int] = {}  # uuids that no entry before an offset has

    def expect(self, texts: Iterable[str]) -> None:
        """Look also for some strings in the first search, since questions about them follow."""
        if not self._end:
            found = (text for text in texts if _PLAIN.fullmatch(text) and "/" not in text)
            self._expected.update(islice(found, _MAX_NEEDLES - len(self._expected)))

    def names(self) -> Names:
        """All names."""
        view = self._view
        if self._open_end not in (-1, view.size):
            self._names = None  # that line may have gone on
        if self._names is None:
            self._names, self._end = Names(view.header), 0
        if self._end < view.complete or (view.complete < view.size != self._open_end):
            self._names = self._extended(self._names)
            self._end = view.complete
            self._open_end = view.size if view.complete < view.size else -1
        return self._names

    def _extended(self, names: Names) -> Names:
        """The names with those of what was added."""
        if not self._view.has_tree:
            try:
                return self._searched(names)
            except _OnlyIndexError:
                names, self._end = Names(self._view.header), 0
        self._take_rows(names)
        return names

    def _searched(self, names: Names) -> Names:
        absent, free = self._expected, self._expected.copy()
        self._expected = set()
        for line, offset in self._holding([*_GIVING, *absent], self._end):
            absent = {text for text in absent if not _may_hold(line, text)}
            found = head(line, offset, ignore)
            if found is None or (found.type == HEADER and offset != self._view.header.offset):
                continue
            free.discard(found.uuid)
            names.note_lane(None if found.lane == MAIN else found.lane)
            entry = self._view.decode(line, offset) if found.type in NAMING else None
            if entry is not None:
                names.take(entry, offset)
        self._absent.update(dict.fromkeys(absent, self._view.complete))
        self._free.update(dict.fromkeys(free, self._view.complete))
        return names

    def _take_rows(self, names: Names) -> None:
        tree = self._view.tree()
        for lane in tree.lanes:
            names.note_lane(lane)
        since = bisect_left(tree.offsets, self._end)
        for row in sorted(tree.rows_of_type(*NAMING, since=since)):
            if (entry := self._view.read(tree.offsets[row])) is not None:
                names.take(entry, entry.offset)

    def has_uuid(self, uuid: str) -> bool:
        """Whether an entry has a uuid."""
        if not self._view.has_tree:
            try:
                return self._is_there(uuid)
            except _OnlyIndexError:
                pass
        return self._view.tree().row(uuid) != NO_ROW

    def _is_there(self, uuid: str) -> bool:
        if uuid in self._expected:
            self.names()
        start = max(self._absent.get(uuid, 0), self._free.get(uuid, 0))
        if not start:
            self._searches += 1
            if self._searches > _MAX_SEARCHES:
                raise _OnlyIndexError
        if any(entry.uuid == uuid for entry in self._entries_holding([uuid], start)):
            return True
        self._free[uuid] = self._view.complete
        return False

    def places_of(self, uuids: set[str]) -> dict[str, int]:
        """The offset of the entry that each of these uuids means."""
        if len(uuids) <= _MAX_NEEDLES and not self._view.has_tree:
            try:
                return self._searched_places(uuids)
            except _OnlyIndexError:
                pass
        tree = self._view.tree()
        rows = {uuid: tree.row(uuid) for uuid in uuids}
        return {uuid: tree.offsets[row] for uuid, row in rows.items() if row != NO_ROW}

    def _searched_places(self, uuids: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for entry in self._entries_holding(uuids):
            uuid = entry.uuid
            if uuid in uuids and (uuid not in found or quoted(uuid) in entry.line):
                found[uuid] = entry.offset
        return found

    def may_hold(self, text: str, end: int | None = None) -> bool:
        """Whether some line before an offset, by default the end, may hold a string."""
        if not _PLAIN.fullmatch(text) or "/" in text:
            return True
        if text in self._expected:
            self.names()
        stop = self._view.size if end is None else end
        start = min(self._absent.get(text, 0), stop)
        return next(self._places_of([quoted(text)], start, stop), None) is not None

    def holding(self, text: str) -> list[Entry] | None:
        """The entries whose lines may hold a string; None where they are too many."""
        try:
            return list(self._entries_holding([text]))
        except _OnlyIndexError:
            return None

    def on_lane(self, lane: str | None, start: int) -> Iterator[tuple[LineHead | Entry, int]]:
        """The structure of the entries of a lane from an offset on, and their offsets."""
        for found, _, offset in self._lines_from(start):
            if (None if found.lane == MAIN else found.lane) == lane:
                yield found, offset

    def tip(self, offset: int) -> str | None:
        """The uuid of the tip of the named branch that begins at an offset; see `Names.tips`.

        None where only the index tells.
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
        return entry is not None and isinstance(entry.as_stored.get("name"), str)

    def last_of_lane(self, name: str) -> Entry | None:
        """The last entry of a lane, without annotations; None if only the index tells."""
        lane = None if name == MAIN else name
        entry = self._view.walk().last_on(lane)
        if entry is None or entry.type not in ANNOTATIONS:
            return entry
        backwards, end = Backwards(self._read), entry.offset - 1
        for _ in range(_MAX_LINES):
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

    def _lines_from(self, offset: int) -> Iterator[_Line]:
        """The structure of all entries from an offset on; an open end comes last."""
        for start, block in self._blocks_from(offset):
            lines = ended_lines(block)
            heads = heads_of(lines)
            if not heads or not all(found.uuid for found in heads):
                yield from filter(self._is_entry, _hard_lines(block, start))
                continue
            for found, line in zip(heads, lines, strict=True):
                if self._is_entry((found, line, start)):
                    yield found, line, start
                start += len(line)

    def _is_entry(self, line: _Line) -> bool:
        """True if a line is not a second header."""
        return line[0].type != HEADER or line[2] == self._view.header.offset

    def _blocks_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        view = self._view
        near = min(offset + _FIRST, view.complete)  # often enough
        for at, block in whole_lines(self._read, offset, near):
            yield at, block
            offset = at + len(block)
        yield from whole_lines(self._read, offset, view.complete)
        if view.complete < view.size:
            yield view.complete, self._read(view.complete, view.size - view.complete)

    def _entries_holding(self, texts: Iterable[str], start: int = 0) -> Iterator[Entry]:
        """The entries from an offset on whose lines may hold one of some strings."""
        for line, offset in self._holding(texts, start):
            entry = self._view.decode(line, offset)
            if entry is not None:
                yield entry

    def _holding(self, texts: Iterable[str], start: int) -> Iterator[tuple[bytes, int]]:
        """The lines from an offset on that may hold one of some strings, and their offsets.

        Raises:
            _OnlyIndexError: a string has other spellings, or there are too many lines.
        """
        needles: list[bytes] = []
        for text in texts:
            if not _PLAIN.fullmatch(text):
                raise _OnlyIndexError
            needles.append(quoted(text))
            needles += [f"{part}\\/".encode() for part in text.split("/")[:-1]]
        backwards, end, stop = Backwards(self._read), start, self._view.size
        hits = 0
        for at in self._places_of(needles, start, stop):
            if at < end:
                continue  # in the line before
            begin, _ = backwards.line_before(at)
            line = rest_of_line(self._read, begin)[: stop - begin]
            end = begin + len(line)
            hits += 1
            if hits > _MAX_HITS:
                raise _OnlyIndexError
            yield line, begin

    def _places_of(self, needles: list[bytes], start: int, stop: int) -> Iterator[int]:
        """Where these bytes, or escapes of printable ASCII, are in a range."""
        overlap = max(map(len, [*needles, _LONGEST_ESCAPE])) - 1
        while start < stop:
            block = self._read(start, min(_SEARCHED + overlap, stop - start))
            found = {at for needle in needles for at in _places_in(block, needle)}
            found.update(_escapes_in(block))
            yield from sorted(start + at for at in found)
            start += _SEARCHED


def _hard_lines(block: bytes, offset: int) -> Iterator[_Line]:
    """The structure of the entries among lines that may be damaged."""
    for lines, count in parts(block):
        for line in lines:
            found = head(line.removesuffix(b"\n"), offset, ignore) if count == 1 else None
            if found is not None:
                yield found, line, offset
            offset += count * len(line)


def _may_hold(line: bytes, text: str) -> bool:
    return quoted(text) in line or _PRINTABLE_ESCAPE.search(line) is not None


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
