"""A log as a tree of entries, as far as it is known, and its header.

A tree knows the log up to `size`; `grow` extends it. It collects the damage that its readers meet.
The header of a file is its first line that is not blank.

Invariants: a log only grows, so what a tree knows stays true; each fault is reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiontree.core.codec import (
    Decode,
    DecodeChain,
    chain_decoder,
    decode,
    decoder,
    head,
    head_decoder,
    lines_in,
    parts,
    report_run,
)
from sessiontree.core.damage import Damage, Findings, ignore
from sessiontree.core.entry import HEADER, Entry, stored
from sessiontree.core.header import check_header, is_version_1
from sessiontree.core.spill import Fetch
from sessiontree.errors import NotASessionError
from sessiontree.storage.lines import (
    Positioned,
    count_newlines,
    lines_at,
    rest_of_line,
    whole_lines,
)
from sessiontree.storage.log import Log

if TYPE_CHECKING:
    from sessiontree.core.index import TreeIndex
    from sessiontree.engine.walk import Walk

BLANK: Final = b"\0\r\t \xef\xbb\xbf"
"""The bytes of a blank line."""

_START: Final = 4096
_BLOCK: Final = 64 * 1024


class HeaderLine(NamedTuple):
    """The header of a file; it `shares_line` if its line goes on behind it."""

    line: bytes
    offset: int
    keys: dict[str, Any]
    shares_line: bool


def find_header(file: Positioned, head: bytes = b"") -> HeaderLine:
    """Find the header of a file, of which `head` is the start.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: there is none.
    """
    offset, number = 0, 1
    while offset < len(head) or offset < file.size():
        if offset >= len(head):
            blank, lines = _blank_lines(file, offset)
            offset, number = offset + blank, number + lines
            if offset >= file.size():
                break
        end = head.find(b"\n", offset)
        line = head[offset:end] if end >= 0 else _long_line(file, offset)
        if line.strip(BLANK):
            place = f"line {number} (byte {offset})"
            try:
                return HeaderLine(line, offset, check_header(line, file.name, place), False)
            except NotASessionError as error:
                return _first_of_line(line, offset, file.name, place, error)
        offset += len(line) + 1
        number += 1
    if not offset:
        raise NotASessionError(
            f"{file.name} is not a session: it is empty; a program may not have written to it yet",
            file.name,
        )
    raise NotASessionError(
        f"{file.name} is not a session: it holds no entry; make one with 'new'", file.name
    )


def _blank_lines(file: Positioned, offset: int) -> tuple[int, int]:
    """The bytes of the blank lines that start at an offset, and how many they are."""
    block = file.read(offset, _BLOCK)
    end = len(block) - len(block.lstrip(BLANK + b"\n"))
    end = block.rfind(b"\n", 0, end) + 1
    return end, block.count(b"\n", 0, end)


def _long_line(file: Positioned, offset: int) -> bytes:
    start = file.read(offset, _START)
    if start.strip(BLANK + b"\n")[:1] not in (b"{", b""):  # binary, maybe without any newline
        return start.partition(b"\n")[0]
    return rest_of_line(file.read, offset, 64 * 1024 * 1024)


def _first_of_line(
    line: bytes, offset: int, file: str, place: str, error: NotASessionError
) -> HeaderLine:
    """The header that shares its line with something else; raises `error` if there is none."""
    if not line.strip(BLANK).startswith(b"{"):
        raise error
    from sessiontree.core.salvage import take_apart  # few headers share their line

    first = next(iter(take_apart(line).pieces), line)
    keys = check_header(first, file, place)
    if not is_version_1(keys):
        return HeaderLine(first, offset, keys, True)
    raise NotASessionError(
        f"{file}: {place} holds a header of version 1 and more behind it; "
        "put the header on a line of its own and open it again",
        file,
    ) from error


class LogTree:
    """What is known of an open log.

    Args:
        log: the log.
        fetch: gives the bytes of a blob.
        header_line: the header of the log, where it was read before.

    Attributes:
        size: the bytes of the log that are known.
        header: the first entry. In version 1 it has no uuid.
        is_header_fused: whether the header shares its line with something else.
        decode: gives the entry of a line, and reports the damage in it.
    """

    def __init__(
        self, log: Log, fetch: Fetch | None = None, header_line: HeaderLine | None = None
    ) -> None:
        self._log = log
        self._fetch = fetch
        self.decode, self._decode_chain, self._decode_head = self._decoders(0)
        self._findings = Findings()
        self._tree: TreeIndex | None = None
        self._tree_ends_open = False
        self._walk: Walk | None = None
        self.is_header_fused = False
        self._set_size(log.size())
        self.header = self._read_header(header_line or find_header(log, log.read(0, _START)))

    def forget(self) -> None:
        """Forget the index; the header and the damage stay."""
        self._tree = self._walk = None

    def _set_size(self, size: int) -> None:
        self.size = size
        self._walk = None
        self._complete = size
        if size and self._log.read(size - 1, 1) != b"\n":
            self._complete = self.walk().last_line_start()

    def _read_header(self, found: HeaderLine) -> Entry:
        if found.offset:
            self.decode, self._decode_chain, self._decode_head = self._decoders(found.offset)
            self._walk = None  # an earlier one has the decoders from before
        offset = 0
        if found.offset:  # decode the lines before it, to report their damage
            for lines, count in parts(self._log.read(0, found.offset)):
                for line in lines:
                    if count > 1:
                        report_run(line[:-1], count, offset, self.report)
                    else:
                        self.decode(line.removesuffix(b"\n"), offset)
                    offset += count * len(line)
        if found.shares_line:
            self.report("json", found.offset, "the header shares its line with something else")
            self.is_header_fused = True
            header = self.decode(found.line, found.offset)
            self.decode = _with_header(self.decode, header, found.offset)
            self._decode_chain = _no_chain
            self._decode_head = _with_header(self._decode_head, header, found.offset)
            self._walk = None  # an earlier one has the decoder from before
        if is_version_1(found.keys):
            return stored(Entry(type="session", uuid=""), found.line, found.offset, found.keys)
        entry = self.decode(found.line, found.offset)
        if entry is None:
            file = self._log.name
            raise NotASessionError(
                f"{file} is not a session: its header has no usable uuid; restore it from a backup",
                file,
            )
        return entry

    def _decoders(self, header_at: int) -> tuple[Decode, DecodeChain, Decode]:
        """Make the decoders of lines; only the header at an offset is an entry."""
        return (
            decoder(self.report, self._fetch, header_at),
            chain_decoder(self._fetch, header_at),
            head_decoder(self.report, header_at),
        )

    @property
    def is_version_1(self) -> bool:
        return not self.header.uuid

    @property
    def complete(self) -> int:
        """The offset after the last newline."""
        return self._complete

    @property
    def reads_to_end(self) -> bool:
        """Whether the log ends with a newline."""
        return self._complete == self.size

    def report(self, kind: str, offset: int, cause: str) -> None:
        """Note damage; see `core.damage`."""
        if kind == "json" and offset >= self._complete:
            kind, cause = "torn", "the file ends in the middle of an entry"
        elif kind == "json" and (offset, "torn") in self._findings:
            return
        self._findings.note(kind, offset, cause)

    @property
    def damage(self) -> list[Damage]:
        """The damage met so far, in file order."""
        findings = self._findings.found()
        if self._tree is not None and "parentSession" not in self.header:
            for row, parent in self._tree.missing_parents():
                cause = f"the parent {parent} of entry {self._tree.uuids[row]} is not in the file"
                findings[self._tree.offsets[row], "missing parent"] = cause
        damage: list[Damage] = []
        line = 1
        counted = 0
        for (offset, kind), cause in sorted(findings.items()):
            line += count_newlines(self._log.read, counted, offset)
            counted = offset
            damage.append(Damage(self._log.name, line, offset, kind, cause))
        return damage

    def walk(self) -> Walk:
        """A walk over the known part of the log."""
        if self._walk is None:
            self._walk = self._walk_by(self.decode, self._decode_chain)
        return self._walk

    def walk_of_heads(self) -> Walk:
        """A walk whose entries have only their structural keys and their line, unchecked."""
        return self._walk_by(self._decode_head, _no_chain)

    def _walk_by(self, decode: Decode, decode_chain: DecodeChain) -> Walk:
        end = self.size
        if end and self._log.read(end - 1, 1) == b"\n":
            end -= 1
        from sessiontree.engine.walk import Walk  # a list of sessions only needs their headers

        return Walk(self._log.read, end, self.tree, decode, decode_chain, self._log.find)

    @property
    def has_tree(self) -> bool:
        """Whether the index was built, for the known part of the log or an earlier one."""
        return self._tree is not None

    def tree(self) -> TreeIndex:
        """The index of the known part of the log, built or extended."""
        tree = self._tree
        if tree is not None and self._tree_ends_open and tree.end < self.size:
            if self._log.read(tree.end, 1) == b"\n":
                tree.end += 1
                self._tree_ends_open = False
            else:
                tree = None
        if tree is None:
            from sessiontree.core.index import TreeIndex  # as above

            tree = self._tree = TreeIndex()
            self._tree_ends_open = False
            if self.is_header_fused:  # its line gives no row
                tree.add(self.header.line, self.header.offset, ignore)
        for offset, block in whole_lines(self._log.read, tree.end, self._complete):
            tree.extend(block, offset, self.report)
        if tree.end < self.size:
            rest = self._log.read(tree.end, self.size - tree.end)
            if decode(rest, tree.end, ignore) is not None:
                tree.add(rest, tree.end, self.report)
                tree.end = self.size
                self._tree_ends_open = True
        return tree

    def grow(self, size: int) -> Iterator[Entry]:
        """Extend the view to `size`; yield the structure of each new entry, in file order."""
        known = self._complete
        self._findings.forget_from(known)
        seen = self.size
        self._set_size(size)
        for offset, block in whole_lines(self._log.read, known, self._complete):
            for line in lines_in(block):
                yield from self._new_entry(line, offset, seen)
                offset += len(line) + 1
        if self._complete < size:
            rest = self._log.read(self._complete, size - self._complete)
            yield from self._new_entry(rest, self._complete, seen)

    def _new_entry(self, line: bytes, offset: int, seen: int) -> Iterator[Entry]:
        found = head(line, offset, self.report)
        if found is not None and found.type != HEADER and offset + len(line) > seen:
            entry = Entry(found.type, found.uuid, found.parent_uuid, found.lane)
            yield stored(entry, line, offset)

    def appended(self, size: int) -> None:
        """Note that this process wrote whole lines, up to `size`."""
        self.size = self._complete = size
        self._walk = None

    def read(self, offset: int) -> Entry | None:
        """The entry whose line starts at `offset`, or None."""
        return self.decode(rest_of_line(self._log.read, offset), offset)

    def lines_at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """The lines that start at ascending offsets."""
        return lines_at(self._log.read, offsets)

    def holds(self, entry: Entry) -> bool:
        """Whether the log has the line of an entry at its offset."""
        line = entry.line
        if entry.offset == self.header.offset:  # the header may share its line
            return line == self.header.line
        return entry.offset >= 0 and self._log.read(entry.offset, len(line)) == line

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """All known lines with their offsets, damaged ones too; an open end comes last."""
        return self._lines(self._complete, self.size)

    def entry_lines(self) -> Iterator[tuple[int, bytes]]:
        """The same, but for runs of lines too short for an entry, which are reported."""
        return self._entry_lines(self._complete, self.size)

    def _entry_lines(self, complete: int, size: int) -> Iterator[tuple[int, bytes]]:
        for offset, line, count in self._line_runs(complete, size):
            if count > 1:
                report_run(line, count, offset, self.report)
            else:
                yield offset, line

    def line_runs(self) -> Iterator[tuple[int, bytes, int]]:
        """All known lines with their offsets, and how often each stands there in a row."""
        return self._line_runs(self._complete, self.size)

    def _line_runs(self, complete: int, size: int) -> Iterator[tuple[int, bytes, int]]:
        for offset, block in whole_lines(self._log.read, 0, complete):
            for lines, count in parts(block):
                for line in lines:
                    yield offset, line[:-1], count
                    offset += count * len(line)
        if complete < size:
            yield complete, self._log.read(complete, size - complete), 1

    def _lines(self, complete: int, size: int) -> Iterator[tuple[int, bytes]]:
        for offset, block in whole_lines(self._log.read, 0, complete):
            for line in lines_in(block):
                yield offset, line
                offset += len(line) + 1
        if complete < size:
            yield complete, self._log.read(complete, size - complete)


def _no_chain(block: bytes, offset: int, uuid: str, /) -> None:
    """Have each line decoded by itself."""


def _with_header(decode: Decode, header: Entry | None, place: int) -> Decode:
    """A decoder that gives `header` for the line at `place`, which holds more than that."""

    def decode_but_header(line: bytes, offset: int, uuid: str | None = None, /) -> Entry | None:
        if offset != place:
            return decode(line, offset, uuid)
        return header if header is None or uuid in (None, header.uuid) else None

    return decode_but_header
