"""The walk from an entry to its parent, and on to the root, reading backwards.

Only the lines on the path are decoded. The parent is nearly always the line before, so the walk
decodes such lines in blocks, and by themselves where one is damaged or not as written. Where the
parent is elsewhere, the walk searches backwards for its quoted uuid, and decodes each hit to check
it. The index of the whole file answers what this cannot: a parent that is missing or comes after
its child, a uuid written with escapes, a path with so many jumps that the search has read more than
the whole file twice.

Invariants: the walk and the index always give the same answer.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sessiontree.core.codec import SHORTEST_ENTRY, Decode, DecodeChain, head, quoted
from sessiontree.core.damage import ignore
from sessiontree.core.entry import HEADER, Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.storage.lines import LARGEST_BLOCK, Backwards, Read, rest_of_line
from sessiontree.storage.log import Find

_PLAIN: Final = re.compile(r"[0-9A-Za-z_.\-]+")
"""Strings with one spelling in JSON, except by escapes that `_ESCAPED` finds."""

_PLAIN_LANE: Final = re.compile(r"[0-9A-Za-z_.\-/]+")
"""The same for lanes, whose names have slashes; `_may_hide` also looks for `\\/`."""

_ESCAPED: Final = re.compile(
    rb"\\u00(?:2[dDeEfF]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])"
)

_LONGEST_ESCAPE: Final = len("\\u0000")

_PARENT_KEY: Final = b'"parentUuid":'

_FIRST_CHAIN: Final = 16 * 1024
_LARGEST_CHAIN: Final = 32 * 1024
"""Bytes of lines that are decoded at once: first, and later. They fit the processor's cache."""

_LONG: Final = 512
"""Lines of this length on average are decoded one by one: what is in them takes the time."""

_FIRST_WAIT: Final = 8
_LONGEST_WAIT: Final = 256
"""Lines decoded one by one before a block of them is tried: first, and where blocks gave little."""


class Walk:
    """Walks over the lines of a file up to `end`.

    Args:
        read: reads the file.
        end: where the last line ends: the offset of its LF, or of the end of the file.
        index: gives the index of the whole file.
        decode: gives the entry of a line, and reports the damage in it.
        decode_chain: gives the entries of lines that stand one below the other.
        find: finds a line by its uuid, where that costs less than a search.
    """

    def __init__(
        self,
        read: Read,
        end: int,
        index: Callable[[], TreeIndex],
        decode: Decode,
        decode_chain: DecodeChain,
        find: Find | None = None,
    ) -> None:
        self._read = read
        self._end = end
        self._index = index
        self._decode = decode
        self._decode_chain = decode_chain
        self._find = find
        self._backwards = Backwards(read)

    def last_on(self, lane: str | None) -> Entry | None:
        """Return the last entry of a lane, or None."""
        if lane is None:
            return self._last_on_main()
        if not _PLAIN_LANE.fullmatch(lane):
            return self._from_index(lambda tree: tree.last_on(lane))
        for offset, line in self._backwards.find(b'"%b"' % lane.encode(), self._end):
            entry = self._decode(line, offset)
            if entry is not None and entry.lane == lane:
                if self._may_hide(lane, offset + len(line), self._end):
                    break
                return entry
        else:
            if not self._may_hide(lane, 0, self._end):
                return None
        return self._from_index(lambda tree: tree.last_on(lane))

    def last_with(self, text: str, is_it: Callable[[Entry], bool]) -> Entry | None:
        """Return the last entry that holds a plain string as sessiontree spells it, or None.

        `is_it` says whether an entry that holds the string is wanted.
        """
        for offset, line in self._backwards.find(quoted(text), self._end):
            entry = self._decode(line, offset)
            if entry is not None and is_it(entry):
                return entry
        return None

    def last_line_start(self) -> int:
        """Return the offset of the last line."""
        return self._backwards.line_before(self._end)[0]

    def _last_on_main(self) -> Entry | None:
        end = self._end
        run: tuple[bytes, int] | None = None  # the top line so far of a run of short lines alike
        while end > 0:
            offset, line = self._backwards.line_before(end)
            end = offset - 1
            if run is not None and line == run[0]:
                end = self._backwards.before_alike(line, end)
                run = line, offset
                continue
            if run is not None:
                self._decode(*run)  # which reports it
            run = (line, offset) if len(line) < SHORTEST_ENTRY else None
            if run is not None:
                continue
            if b'"lane"' in line:
                found = head(line, offset, ignore)
                if found is not None and found.lane is not None:
                    continue
            entry = self._decode(line, offset)
            if entry is not None and entry.lane is None:
                return entry
        if run is not None:
            self._decode(*run)
        return None

    def entry(self, uuid: str) -> Entry | None:
        """Return the last entry with this uuid, or None."""
        may_search = _PLAIN.fullmatch(uuid) and self._backwards.searched <= 2 * self._end
        found = self._before(uuid, self._end) if may_search else None
        return found or self._from_index(lambda tree: tree.row(uuid))

    def up(self, entry: Entry) -> Iterator[Entry]:
        """Yield the ancestors of an entry, its parent first."""
        for part in self.parts_up(entry):
            yield from reversed(part)

    def parts_up(self, entry: Entry) -> Iterator[Sequence[Entry]]:
        """Yield the ancestors of an entry in parts, each in file order; the last is the nearest.

        Where short lines stand one below the other, a part is a block of them. The blocks begin
        small, so that little is decoded that nobody asks for, and grow while the walk goes on.
        """
        backwards, decode = self._backwards, self._decode
        window, start = backwards.window, backwards.start
        offset = entry.offset
        is_in_row = True  # whether to decode the line before without a look for the uuid in it
        below, in_row = offset, 0  # where the lines in a row end, and how many they are
        size, wait = _FIRST_CHAIN, _FIRST_WAIT
        while (uuid := entry.parent_uuid) is not None and entry.type != HEADER:
            if in_row >= wait and below - offset > _LONG * in_row:
                below, in_row, wait = offset, 0, _longer(wait)
            elif in_row >= wait:
                top, block = backwards.lines_before(offset, size)
                chain = self._decode_chain(block, top, uuid)
                if chain:
                    yield chain
                    entry = chain.top
                    is_in_row = True
                gained = offset - entry.offset if chain else 0
                offset -= gained
                below, in_row = offset, 0
                if gained == len(block):
                    size, wait = min(2 * size, _LARGEST_CHAIN), 0
                else:
                    wait = 1 if gained > size // 8 else _longer(wait)
                    size = _FIRST_CHAIN
                if chain:
                    continue
            # `line_before`, inlined for a line in the window: a long path spends its time here.
            end = offset - start - 1
            at = window.rfind(b"\n", 0, end) if 0 < end <= len(window) else -1
            if at >= 0:
                line = window[at + 1 : end]
                offset = start + at + 1
            elif offset > 0:
                offset, line = backwards.line_before(offset - 1)
                window, start = backwards.window, backwards.start
            else:
                line = b""
            is_in_row = is_in_row or quoted(uuid) in line
            parent = decode(line, offset, uuid) if is_in_row else None
            in_row += 1
            if parent is None:
                parent = self._parent(entry, uuid)
                if parent is None:
                    return
                offset = below = parent.offset
                in_row = 0
                window, start = backwards.window, backwards.start
                is_in_row = False
            yield [parent]
            entry = parent

    def _parent(self, entry: Entry, uuid: str) -> Entry | None:
        if _PLAIN.fullmatch(uuid) and self._backwards.searched <= 2 * self._end:
            parent = self._before(uuid, entry.offset)
            if parent is not None:
                return parent
        return self._from_index(lambda tree: _parent_row(tree, entry))

    def _before(self, uuid: str, end: int, start: int = 0) -> Entry | None:
        """Search for the nearest entry before `end` with this uuid, down to about `start`.

        Where a log finds lines itself, only what is in memory is searched before it is asked.
        """
        if self._find is None:
            return self._search(uuid, end, start)
        window = self._backwards.start
        if window < end <= window + len(self._backwards.window):
            found = self._search(uuid, end, max(start, window))
            if found is not None:
                return found
        offset = self._find(uuid, end)
        line = rest_of_line(self._read, offset) if offset >= 0 else b""
        found = self._decode(line, offset, uuid) if line else None
        return self._search(uuid, end, start) if found is None else found

    def _search(self, uuid: str, end: int, start: int) -> Entry | None:
        needle = b'"%b"' % uuid.encode()
        for offset, line in self._backwards.find(needle, end, start):
            if _only_as_parent(line, needle):
                continue
            entry = self._decode(line, offset, uuid)
            if entry is not None:
                return entry
        return None

    def _may_hide(self, lane: str, start: int, end: int) -> bool:
        """Whether a line in the range may spell the name of a lane with escapes."""
        slashed = [f"{part}\\/".encode() for part in lane.split("/")[:-1]]
        overlap = max(_LONGEST_ESCAPE, *map(len, slashed), 0) - 1
        while start < end:
            block = self._read(start, min(LARGEST_BLOCK, end - start))
            if not block:
                return False
            if _ESCAPED.search(block) or any(spelled in block for spelled in slashed):
                return True
            start += len(block) if start + len(block) >= end else max(len(block) - overlap, 1)
        return False

    def _from_index(self, choose: Callable[[TreeIndex], int]) -> Entry | None:
        tree = self._index()
        row = choose(tree)
        if row == NO_ROW:
            return None
        offset = tree.offsets[row]
        return self._decode(rest_of_line(self._read, offset), offset)


def _longer(wait: int) -> int:
    return min(max(2 * wait, _FIRST_WAIT), _LONGEST_WAIT)


def _parent_row(tree: TreeIndex, entry: Entry) -> int:
    row = tree.row_at(entry.offset)
    return NO_ROW if row == NO_ROW else tree.parents[row]


def _only_as_parent(line: bytes, needle: bytes) -> bool:
    """Whether the line is sure to name the uuid only as its parent."""
    at = line.find(needle)
    if not line.endswith(_PARENT_KEY, 0, at):
        return False
    return line.find(needle, at + len(needle)) < 0 and not _ESCAPED.search(line)


_MANY_OBJECTS: Final = 10_000
"""New objects that the interpreter's garbage collector would take long to scan."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the interpreter's garbage collection of cycles.

    A long path is read into hundreds of thousands of dicts and lists, none part of a cycle.
    The collector would scan them again and again, a fifth of the time of a long resume, and up to
    three quarters of that of a conversion.
    Collection is on again afterwards if it was on before. With several threads, the one that
    found it on turns it on.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _make_old()
            gc.enable()


def _make_old() -> None:
    """Count what was made meanwhile among the old objects, so that it is not scanned now."""
    if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
