"""Copy: a session and its blobs, byte for byte, from one path or address to another.

The log is copied up to a whole line, and its blobs and parts with it. A copy that was cut short is
continued; a target that is something else is left as it is.

Invariants: the source is only read, and never locked; a blob is in the target before the line that
needs it; the target has, at any moment, nothing or the first lines of the source; what was written
is read back and compared.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from sessiontree import errors
from sessiontree.core.codec import check_seal, decode, lines_in, parts
from sessiontree.core.damage import ignore, more_like_it
from sessiontree.core.entry import decode_leniently, decode_object
from sessiontree.core.handle import Blob, blobs_needed, may_name_blob
from sessiontree.core.spill import check_spilled
from sessiontree.engine.opening import foreign_refusal, sniff_file
from sessiontree.engine.reader import TreeReader
from sessiontree.errors import (
    BlobUnreadableError,
    CorruptionError,
    SessionExistsError,
    SessionNotFoundError,
    UsageError,
)
from sessiontree.storage.atomic import UNFINISHED
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import Backwards, whole_lines
from sessiontree.storage.log import Log, Moved
from sessiontree.storage.names import BLOBS, LOCK, SUFFIX
from sessiontree.storage.places import (
    blobs_of,
    check_new_address,
    create_log,
    is_same_log,
    open_log,
)
from sessiontree.storage.sidecars import begin_alike

FAULTS: Final[dict[type[errors.BlobError], str]] = {
    errors.BlobMissingError: "missing",
    errors.BlobDamagedError: "damaged",
    errors.BlobUnreadableError: "unreadable",
    errors.SpilledError: "spilled",
}
"""For each error of a blob the word for it."""


def named_in(block: bytes) -> Iterator[Blob]:
    """The blobs that the entries in whole lines need; only lines that may name one are decoded."""
    if not may_name_blob(block):
        return
    for line in lines_in(block):
        entry = decode(line, 0, ignore) if may_name_blob(line) else None
        if entry is not None:
            yield from blobs_needed(entry.as_stored)


class NamedBlobs:
    """The blobs that the entries need in a run of bytes that comes block by block."""

    def __init__(self) -> None:
        self.blobs: dict[Blob, None] = {}  # those that were found, in the order of the lines
        self._waiting: list[bytes] = []  # the beginning of a line

    def take(self, block: bytes) -> None:
        """Look through the next block, which may end inside a line."""
        cut = block.rfind(b"\n") + 1
        if cut:
            lines = b"".join([*self._waiting, block[:cut]]) if self._waiting else block[:cut]
            self.blobs.update(dict.fromkeys(named_in(lines)))
            self._waiting.clear()
        if cut < len(block):
            self._waiting.append(block[cut:])


def may_need_blobs(reader: TreeReader) -> Iterator[Mapping[str, Any]]:
    """The stored keys of each entry that may use a blob."""
    for _, line in reader.ready().entry_lines():
        if may_name_blob(line):
            yield decode_object(line)


def verify_blobs(reader: TreeReader) -> tuple[list[errors.BlobError], int]:
    """Read every blob; what is wrong, and how many blobs there are or should be."""
    needed: set[Blob] = set()
    found: list[errors.BlobError] = []
    for keys in may_need_blobs(reader):
        needed.update(blobs_needed(keys))
        try:
            check_spilled(keys)
        except errors.SpilledError as error:
            message = f"{reader.log.name}, entry {keys.get('uuid')}: {error}"
            found.append(errors.SpilledError(message, reader.blobs.file))
    found += reader.blobs.verify(needed)
    checked = len({one.sha256 for one in [*needed, *reader.blobs.blobs()]})
    return found, checked


_AT_ONCE: Final = 4 * 1024 * 1024
"""The bytes of lines that are written at once."""

_BLOCK: Final = 256 * 1024


class CopiedSession(msgspec.Struct, frozen=True):
    """What `copy` did for one session."""

    source: str  # the path or address of the session
    target: str  # the path or address of the copy
    size: int  # the bytes of the log that source and target have in common now
    written: int  # how many of them were written by this call
    blobs: int  # the number of blobs that were written
    parts: list[str]  # the suffixes of the other files that were written, such as `.v1`
    problems: list[str]  # what could not be copied, in words; the rest was
    damage: list[str]  # what is wrong with the source, in words; lines were copied as they are

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written."""
        return not (self.written or self.blobs or self.parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `copy --json` prints."""
        keys: dict[str, Any] = msgspec.to_builtins(self)
        return keys


class _ComparedLogs(NamedTuple):
    """What an earlier call compared: up to `end` these two logs have the same bytes."""

    source: tuple[int, int]
    target: tuple[int, int]
    end: int
    blobs: frozenset[Blob]


class SessionCopy:
    """The copy of one session, which can be brought up to date again and again.

    The folder of the target exists.
    """

    def __init__(self, fs: FileSystem, source: str, target: str) -> None:
        self._fs = fs
        self.source = source
        self.target = target
        self._known: _ComparedLogs | None = None

    def go(self) -> CopiedSession:
        """Copy what the target lacks.

        Raises:
            UsageError: source and target are the same.
            SessionExistsError: the target is something else than the beginning of the source.
            ForeignFormatError, NotASessionError: the source is not a session of sessiontree.
            CorruptionError: what was written is read back with other bytes.
            StorageError: the system refused; a second call goes on.
        """
        with contextlib.closing(open_log(self._fs, self.source, readonly=True)) as source:
            if self._known is None:
                _check_kind(source)
            run = _Run(self._fs, source, self.target, self._known)
            copied, self._known = run.go()
            return msgspec.structs.replace(copied, source=self.source)


def _check_kind(source: Log) -> None:
    start = sniff_file(source)
    if start.agent is not None:
        raise foreign_refusal(start.agent, source.name)


class _Run:
    def __init__(
        self, fs: FileSystem, source: Log, target: str, known: _ComparedLogs | None
    ) -> None:
        self._fs = fs
        self._source = source
        self._file = target
        self._known = known
        self._end = _whole_end(source)
        self._findings: dict[str, tuple[int, str, int]] = {}
        self._problems: list[str] = []
        self._damage: list[str] = []
        self._needed: dict[Blob, None] = {}
        self._lost: set[str] = set()  # the blobs that the problems have
        self._made = 0  # the bytes of a new target
        self._checked = 0  # up to where the lines were checked

    def go(self) -> tuple[CopiedSession, _ComparedLogs]:
        source, end = self._source, self._end
        if left := source.size() - end:
            self._damage.append(
                f"{source.name}: the last {left:,} bytes are no whole line and were not copied"
            )
        known = self._known.blobs if self._known else frozenset()
        blobs, had = self._copy_blobs(known)
        with contextlib.closing(self._opened_target()) as target:
            if is_same_log(source, target):
                raise UsageError(f"{source.name} and {self._file} are the same session")
            start = 0
            if self._known is not None and (source.identity, target.identity) == self._known[:2]:
                start = self._known.end
            written = self._copy_lines(target, start)
            self._note_lost_blobs(had)
            copied_parts = self._copy_parts(target)
            identity = target.identity
        for offset, cause, count in self._findings.values():
            more = more_like_it(count)
            self._damage.append(f"{source.name} (byte {offset}): {cause}{more}; copied as it is")
        copied = CopiedSession(
            source=source.name,
            target=self._file,
            size=end,
            written=written,
            blobs=blobs,
            parts=copied_parts,
            problems=self._problems,
            damage=self._damage,
        )
        return copied, _ComparedLogs(source.identity, identity, end, had)

    def _opened_target(self) -> Log:
        try:
            return open_log(self._fs, self._file)
        except SessionNotFoundError:
            pass
        check_new_address(self._file)
        first = next(self._lines(0, _AT_ONCE), b"")
        with contextlib.suppress(SessionExistsError):  # another program was faster
            create_log(self._fs, self._file, iter([first]))
            self._made = len(first)
        return open_log(self._fs, self._file)

    def _lines(self, start: int, at_once: int = _AT_ONCE) -> Iterator[bytes]:
        waiting: list[bytes] = []
        size, end = 0, start
        for _, block in whole_lines(self._source.read, start, self._end):
            waiting.append(block)
            size += len(block)
            end += len(block)
            if size >= at_once:
                yield b"".join(waiting)
                waiting, size = [], 0
        if end < self._end:  # a last line without its LF
            waiting.append(self._source.read(end, self._end - end))
        if waiting:
            yield b"".join(waiting)

    def _copy_lines(self, target: Log, start: int) -> int:
        """Append what the target lacks, and compare all; the number of bytes that were written."""
        written = self._made
        self._checked = start
        while True:
            start = self._same_until(target, start)
            if start == self._end:
                return written
            try:
                return written + self._go_on(target, start)
            except Moved:  # another program copies the same session, or it is something else
                if target.was_replaced():
                    target.reopen()
                    start = 0

    def _same_until(self, target: Log, start: int) -> int:
        """Where the target ends, which has the bytes of the source up to there.

        Another program may copy the same session, and be further already.
        """
        size = target.size()
        end = self._end if size <= self._end else _whole_end(self._source)
        limit, offset = min(size, end), start
        for offset, block in whole_lines(self._source.read, start, limit):
            self._compare(target, offset, block)
            self._check(offset, block)
            offset += len(block)
        if offset < limit:  # it ends inside a line
            self._compare(target, offset, self._source.read(offset, limit - offset))
        if size > end:
            raise self._differs(end)
        return min(size, self._end)

    def _compare(self, target: Log, offset: int, block: bytes) -> None:
        found = target.read(offset, len(block))
        if found != block:
            pairs = enumerate(zip(block, found, strict=False))
            raise self._differs(offset + next((at for at, (x, y) in pairs if x != y), len(found)))

    def _differs(self, offset: int) -> SessionExistsError:
        return SessionExistsError(
            f"{self._file} is there already and is no earlier copy of {self._source.name}: they "
            f"differ from byte {offset} on. It was left as it is: choose another name, or unite "
            "both with sync, if they are copies of one session that both went on",
            self._file,
        )

    def _go_on(self, target: Log, end: int) -> int:
        source = self._source
        begins_line = end == 0 or source.read(end - 1, 1) == b"\n"
        if not begins_line and (source.read(end, 1) != b"\n" or end + 1 == self._end):
            return self._write_anew(target, end)
        newline = b"" if begins_line else b"\n"  # which the log puts there
        hashed = hashlib.sha256(newline)
        start = end
        for block in self._lines(end + len(newline)):
            with target.alone():
                target.append(block, start)
            hashed.update(block)
            start += len(newline) + len(block)
            newline = b""
            self._check(start - len(block), block)
        self._read_back(end, hashed.digest())
        return start - end

    def _write_anew(self, target: Log, end: int) -> int:
        """Replace a target that ends inside a line, where the system stopped a copy."""
        hashed = hashlib.sha256()

        def blocks() -> Iterator[bytes]:
            start = 0
            for block in self._lines(0):
                hashed.update(block)
                self._check(start, block)
                start += len(block)
                yield block

        with target.hold():
            if not target.still_ends_at(end):
                raise Moved
            target.rewrite(blocks())
        target.reopen()
        self._read_back(0, hashed.digest())
        return self._end - end

    def _read_back(self, start: int, digest: bytes) -> None:
        """Read the target again from an offset on, and compare the SHA-256 of its bytes."""
        hashed = hashlib.sha256()
        with contextlib.closing(open_log(self._fs, self._file, readonly=True)) as target:
            for offset in range(start, self._end, _BLOCK):
                hashed.update(target.read(offset, min(_BLOCK, self._end - offset)))
        if hashed.digest() != digest:
            raise CorruptionError(
                f"{self._file} was written, and is read with other bytes than {self._source.name}; "
                "check the medium, remove the copy and copy again",
                self._file,
                start,
            )

    def _check(self, offset: int, block: bytes) -> None:
        """Note lines with a wrong checksum, and the blobs that lines need, each line once.

        `block` may end inside a line.
        """
        if offset > self._checked:  # the target ended before the LF of a line
            block = self._source.read(self._checked, offset - self._checked) + block
            offset = self._checked
        block = block[max(0, self._checked - offset) : block.rfind(b"\n") + 1]
        offset = self._checked
        self._checked += len(block)
        self._needed.update(dict.fromkeys(named_in(block)))
        for lines, count in parts(block):
            if count > 1:  # lines too short for an entry
                offset += count * len(lines[0])
                continue
            for line in lines:
                check_seal(line[:-1], offset, self._note)
                offset += len(line)

    def _note(self, kind: str, offset: int, cause: str) -> None:
        first, said, count = self._findings.get(kind, (offset, cause, 0))
        self._findings[kind] = first, said, count + 1

    def _copy_blobs(self, known: frozenset[Blob]) -> tuple[int, frozenset[Blob]]:
        source = self._source.blobs.open()
        wanted = frozenset(source.blobs()) - known
        if not wanted:
            return 0, known
        target = blobs_of(self._fs, self._file)
        there = frozenset(target.blobs())
        new = sorted(wanted - there)
        lost = {error.sha256: error for error in target.link_from(source, new)}
        for error in lost.values():
            if isinstance(error, BlobUnreadableError):
                raise error
        self._problems += [f"not copied: {error}" for error in lost.values()]
        self._lost.update(lost)
        copied = [blob for blob in new if blob.sha256 not in lost]
        for blob in (*copied, *sorted(wanted & there)):
            if not target.is_whole(blob):
                raise CorruptionError(
                    f"the blob {blob.sha256} of {self._file} is read with other bytes than it was "
                    "written with; check the medium, remove it and copy again",
                    self._file,
                    0,
                )
        return len(copied), known | frozenset(copied) | (wanted & there)

    def _note_lost_blobs(self, had: frozenset[Blob]) -> None:
        """Note the blobs that lines need and the target lacks, unless the problems have them."""
        if self._checked < self._end:  # a last line without its LF
            rest = self._source.read(self._checked, self._end - self._checked)
            self._needed.update(dict.fromkeys(named_in(rest + b"\n")))
        lacking = [
            blob for blob in self._needed if blob not in had and blob.sha256 not in self._lost
        ]
        if not lacking:
            return
        source, there = self._source.blobs.open(), frozenset(blobs_of(self._fs, self._file).blobs())
        for blob in lacking:
            if blob in there:
                continue
            fault = source.fault(blob)
            changed = f"the blob {blob.sha256} of {self._source.name} came while it was copied"
            self._problems.append(f"not copied: {changed if fault is None else fault}")

    def _copy_parts(self, target: Log) -> list[str]:
        """Copy what is kept beside the log: originals of version 1, and archives."""
        wanted = (suffix for suffix in self._source.parts.list() if _is_part(suffix))
        found = [suffix for suffix in wanted if self._source.parts.size(suffix) >= 0]
        return [suffix for suffix in found if self._copy_part(target, suffix)]

    def _copy_part(self, target: Log, suffix: str) -> bool:
        for is_last in (False, True):
            state = self._state_of_part(target, suffix)
            if state == "same":
                return False
            if state == "other":
                self._problems.append(
                    f"{target.parts.name(suffix)} is there already and is no copy of "
                    f"{self._source.parts.name(suffix)}; it was left as it is"
                )
                return False
            try:
                target.parts.write(suffix, self._source.parts.read(suffix))
            except SessionExistsError:  # another program copies the same session
                if is_last:
                    raise
                continue
            return True
        return False

    def _state_of_part(self, target: Log, suffix: str) -> str:
        """Whether a part of the target is the `same`, its `beginning`, `other`, or `absent`."""
        if suffix not in target.parts.list():
            return "absent"
        sizes = target.parts.size(suffix), self._source.parts.size(suffix)
        if sizes[0] < 0 or sizes[0] > sizes[1]:
            return "other"
        theirs, ours = target.parts.read(suffix), self._source.parts.read(suffix)
        if not begin_alike(theirs, ours, sizes[0]):
            return "other"
        return "same" if sizes[0] == sizes[1] else "beginning"


def _is_part(suffix: str) -> bool:
    if suffix in (LOCK, BLOBS) or suffix.endswith(UNFINISHED):
        return False
    return SUFFIX not in suffix and not f"{suffix}.".startswith(".zst.")


def _whole_end(log: Log) -> int:
    """Where the last whole line of a log ends; it may lack its LF, if it is a JSON object."""
    size = log.size()
    if not size or log.read(size - 1, 1) == b"\n":
        return size
    start, rest = Backwards(log.read).line_before(size)
    return size if isinstance(decode_leniently(rest), dict) else start
