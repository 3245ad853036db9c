"""Sync: unite two copies of a session that both went on.

Each copy gets the lines that it lacks, as their bytes, and entries that make both mean the same;
`core.union` has the rules.

Invariants: lines are only appended; a blob is in a copy before the line that needs it; both logs
are held while they are written, in one order for all programs, and an append fails if a log does
not end where this program last read. A call that was killed is finished by another one, with the
same result. Where nothing is lacking, no lock is taken and nothing is written.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import lt
from typing import Any, Final, NamedTuple

import msgspec

from sessiontree.core.codec import check_seal
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Blob
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.union import CopySide, MergePlan, parents_first, settled
from sessiontree.engine.logtree import LogTree, find_header
from sessiontree.engine.opening import FileStart, foreign_refusal, sniff_file
from sessiontree.engine.walk import gc_paused
from sessiontree.errors import (
    BlobUnreadableError,
    CorruptionError,
    MigrationRefusedError,
    MissingHeaderError,
    SessionNotFoundError,
    StorageError,
    UsageError,
    with_step,
)
from sessiontree.operations.copy import NamedBlobs, named_in
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.lines import rest_of_line, whole_lines
from sessiontree.storage.log import Log, Moved, closed_on_failure
from sessiontree.storage.place import is_address, path_of
from sessiontree.storage.places import is_same_log, open_log

_BLOCK: Final = 1024 * 1024
_APPEND: Final = 4 * 1024 * 1024
"""The bytes of lines that are appended at once."""

_ATTEMPTS: Final = 100


class SyncedSession(msgspec.Struct, frozen=True):
    """What `sync` did with the two copies of one session."""

    id: str  # the id of the session
    a: str  # the path or address of the first copy
    b: str  # the path or address of the second copy
    added_to_a: int  # the number of lines that were appended to the first copy
    added_to_b: int  # the number of lines that were appended to the second copy
    blobs: int  # the number of blobs that were copied
    # the path or address that the session was copied to, where only one of two stores had it; else
    # None
    copied_to: str | None
    problems: list[str]  # what could not be done, in words; the rest was
    damage: list[str]  # what is wrong with the lines of the copies, in words

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was written."""
        return not (self.added_to_a or self.added_to_b or self.blobs or self.copied_to)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `sync --json` prints."""
        keys = msgspec.to_builtins(self)
        return {
            **{key: keys[key] for key in ("id", "a", "b")},
            "addedToA": self.added_to_a,
            "addedToB": self.added_to_b,
            "blobs": self.blobs,
            "copiedTo": self.copied_to,
            "problems": self.problems,
            "damage": self.damage,
        }


class _Side:
    def __init__(self, fs: FileSystem, file: str) -> None:
        self.file = file
        self.refusal: StorageError | None = None
        try:
            self.log = open_log(fs, file)
        except SessionNotFoundError:
            raise
        except StorageError as error:  # a medium that is read-only, and may lack nothing
            self.log = open_log(fs, file, readonly=True)
            self.refusal = error
        self.place = self.log.name if is_address(file) else os.path.realpath(path_of(file))
        with closed_on_failure(self.log):
            self.view = self._opened()
        self.blobs = self.log.blobs.open()

    def _opened(self) -> LogTree:
        check_kind(self.log)
        view = LogTree(self.log)
        with gc_paused():
            view.tree()
        return view

    @property
    def tree(self) -> TreeIndex:
        return self.view.tree()

    def entries_at(self, rows: Iterable[int]) -> Iterator[Entry | None]:
        """The entries of rows; rows near each other are read together."""
        offsets = [self.tree.offsets[row] for row in rows]
        yield from map(self.view.decode, self.view.lines_at(offsets), offsets)

    def catch_up(self) -> None:
        if self.log.was_replaced():
            self.log.reopen()
            self.view = self._opened()
            return
        size = self.log.size()
        if size != self.view.size:
            for _ in self.view.grow(size):
                pass

    def is_current(self) -> bool:
        return self.log.ends_at(self.view.size)


def sync_session(fs: FileSystem, a: str, b: str) -> SyncedSession:
    """Unite two copies of a session, given by their paths or addresses.

    Raises:
        UsageError: they are one file, or two sessions.
        CorruptionError: they have different lines with the same uuid; nothing was written.
        MigrationRefusedError, ForeignFormatError, MissingHeaderError: one has no entries that can
            be united.
        SessionBusyError: a writer holds one of them.
        StorageError: the system refused; a second call finishes what was begun.
    """
    with contextlib.ExitStack() as opened:
        sides = []
        for file in (a, b):
            side = _Side(fs, file)
            opened.callback(side.log.close)
            sides.append(side)
        one, other = sides
        _check_same(one, other)
        plan = _SyncPlan.of(one, other)
        counts = _SideCounts()
        if not plan.is_empty:
            _unite(one, other, plan, counts)
        problems = [*counts.problems, *_lost_blobs(plan, one)]
        damage = list(_damage(one, other))
    return SyncedSession(
        id=str(one.view.header.get("id") or ""),
        a=a,
        b=b,
        added_to_a=counts.added[0],
        added_to_b=counts.added[1],
        blobs=counts.blobs,
        copied_to=None,
        problems=problems,
        damage=damage,
    )


class _SideCounts:
    def __init__(self) -> None:
        self.added = [0, 0]
        self.blobs = 0
        self.problems: list[str] = []


class _Blobs(NamedTuple):
    """The blobs that entries need and a copy lacks: `for_a` and `for_b`; `lost`: both lack them."""

    for_a: list[Blob]
    for_b: list[Blob]
    lost: list[Blob]


class _SyncPlan(NamedTuple):
    lines: tuple[list[int], list[int]]  # for each copy the rows of the other one that it lacks
    settled: list[bytes]  # the lines that both get at their ends
    needed: list[Blob]  # the blobs that the entries of both need
    blobs: _Blobs  # which of them are lacking

    @classmethod
    def of(cls, one: _Side, other: _Side) -> _SyncPlan:
        """Compare two copies."""
        with gc_paused():
            common = _common(one, other)
            first = common.first
            lines = _lacking(other, one, first), _lacking(one, other, first)
            copies = CopySide(one.tree, one.entries_at), CopySide(other.tree, other.entries_at)
            end = settled(
                MergePlan(copies[0], copies[1], lines[0], first),
                MergePlan(copies[1], copies[0], lines[1], first),
            )
            rest = (*_blobs_from(one, common.end), *_blobs_from(other, common.end))
            needed = [*dict.fromkeys([*common.blobs, *rest])]
            return cls(lines, end, needed, _lacking_blobs(one, other, needed))

    @property
    def is_empty(self) -> bool:
        return not (any(self.lines) or self.settled or self.blobs.for_a or self.blobs.for_b)


def check_kind(log: Log) -> FileStart:
    """Check that a log has the entries of a current session; how it starts.

    Raises:
        MigrationRefusedError, ForeignFormatError, MissingHeaderError: it has others, or none.
        NotASessionError, NewerFormatError: as `sniff` raises them.
    """
    start = sniff_file(log)
    if start.agent is not None:
        raise foreign_refusal(start.agent, log.name)
    if start.kind == "version 1":
        raise MigrationRefusedError(
            f"{log.name} is of version 1; migrate it first, then unite the copies: "
            "nothing was written",
            log.name,
        )
    if start.kind == "lost header":
        raise MissingHeaderError(
            f"{log.name} has lost its header, so nothing tells which session it is; repair it "
            "first: nothing was written",
            log.name,
            0,
        )
    if find_header(log, log.read(0, 4096)).shares_line:
        error = CorruptionError(
            f"the header of {log.name} shares its line with something else; repair it first: "
            "nothing was written",
            log.name,
            0,
        )
        raise with_step(error, "repair")
    return start


def _check_same(one: _Side, other: _Side) -> None:
    if is_same_log(one.log, other.log):
        raise UsageError(f"{one.file} and {other.file} are the same session; give two copies")
    headers = one.view.header, other.view.header
    ids = [header.get("id") for header in headers]
    if ids[0] != ids[1] or headers[0].uuid != headers[1].uuid:
        raise UsageError(
            f"{one.file} and {other.file} are two sessions, {ids[0]} and {ids[1]}, and not two "
            "copies of one; a fork is a session of its own. Nothing was written: to have both in "
            "one place, copy them"
        )
    if headers[0].line != headers[1].line:
        raise _differ(one, 0, other, 0)


def _differ(one: _Side, row: int, other: _Side, other_row: int) -> CorruptionError:
    offsets = one.tree.offsets[row], other.tree.offsets[other_row]
    return CorruptionError(
        f"the entry {one.tree.uuids[row]} is not the same in both copies: see {one.file}, byte "
        f"{offsets[0]}, and {other.file}, byte {offsets[1]}; one of them is damaged. Nothing was "
        "written: look at both lines, and compare them with a backup",
        one.file,
        offsets[0],
    )


class _Common(NamedTuple):
    end: int  # where the last line ends that is the same in both
    first: int  # the first row behind it
    blobs: list[Blob]  # the blobs that the lines before it need


def _common(one: _Side, other: _Side) -> _Common:
    limit = min(one.view.complete, other.view.complete)
    named = NamedBlobs()
    offset = same = 0
    while offset < limit:
        size = min(_BLOCK, limit - offset)
        block, theirs = one.log.read(offset, size), other.log.read(offset, size)
        if block != theirs:
            pairs = enumerate(zip(block, theirs, strict=False))
            at = next((at for at, (x, y) in pairs if x != y), min(len(block), len(theirs)))
            block = block[: block.rfind(b"\n", 0, at) + 1]
            limit = offset
        named.take(block)
        same = offset + block.rfind(b"\n") + 1 if b"\n" in block else same
        offset += size
    return _Common(same, bisect_left(one.tree.offsets, same), [*named.blobs])


def _lacking(source: _Side, target: _Side, first: int) -> list[int]:
    """The rows of one copy that the other one lacks, parents first."""
    tree, rows = source.tree, range(first, len(source.tree))
    known = target.tree
    common = [row for row in rows if known.row(tree.uuids[row]) != NO_ROW]
    lacking = [row for row in rows if known.row(tree.uuids[row]) == NO_ROW]
    if tree.has_duplicates or known.has_duplicates:
        return parents_first(tree, _lacking_lines(source, target, rows))
    theirs = [known.row(tree.uuids[row]) for row in common]
    marks = _marks(source, common), _marks(target, theirs)
    for row, other in zip(common, theirs, strict=True):
        if marks[0][row] != marks[1][other]:
            raise _differ(source, row, target, other)
    return parents_first(tree, lacking)


def _lacking_lines(source: _Side, target: _Side, rows: Iterable[int]) -> list[int]:
    """The same where a uuid has several lines in a copy: each line counts by itself."""
    ours, theirs = _lines_by_uuid(source), _lines_by_uuid(target)
    found: list[int] = []
    taken: set[int] = set()
    for row in rows:
        uuid = source.tree.uuids[row]
        own, known = ours[uuid], theirs.get(uuid, {})
        if known and not (own.keys() <= known.keys() or known.keys() <= own.keys()):
            mark = next(mark for mark in known if mark not in own)
            raise _differ(source, row, target, known[mark])
        lacking = {mark: at for mark, at in own.items() if mark not in known}
        if row in lacking.values() and row not in taken:
            taken.add(row)
            found.append(row)
    return found


def _lines_by_uuid(side: _Side) -> dict[str, dict[int, int]]:
    """The first row of each different line, by its hash, of each uuid."""
    rows = range(len(side.tree))
    found: dict[str, dict[int, int]] = {}
    for row, mark in _marks(side, rows).items():
        found.setdefault(side.tree.uuids[row], {}).setdefault(mark, row)
    return found


def _marks(side: _Side, rows: Iterable[int]) -> dict[int, int]:
    ordered = sorted(rows)
    lines = side.view.lines_at(side.tree.offsets[row] for row in ordered)
    return {row: hash(line) for row, line in zip(ordered, lines, strict=True)}


def _lacking_blobs(one: _Side, other: _Side, needed: Iterable[Blob]) -> _Blobs:
    ours, theirs = set(one.blobs.blobs()), set(other.blobs.blobs())
    return _Blobs(
        [blob for blob in needed if blob not in ours and blob in theirs],
        [blob for blob in needed if blob not in theirs and blob in ours],
        [blob for blob in needed if blob not in ours and blob not in theirs],
    )


def _blobs_from(side: _Side, start: int) -> Iterator[Blob]:
    complete, size = side.view.complete, side.view.size
    for _, block in whole_lines(side.log.read, start, complete):
        yield from named_in(block)
    if complete < size:
        yield from named_in(side.log.read(complete, size - complete) + b"\n")


def _unite(one: _Side, other: _Side, plan: _SyncPlan, counts: _SideCounts) -> None:
    """Write what both copies lack.

    Both logs are held, so that no append comes between; where a log cannot be held, an append that
    comes between is read, and all is compared again.
    """
    for side, lines in ((one, plan.lines[0]), (other, plan.lines[1])):
        if side.refusal is not None and (lines or plan.settled):
            raise side.refusal
    _copy_blobs(one, other, plan, counts)  # before the logs are held: they may be large
    for _ in range(_ATTEMPTS):
        with _held(one, other):
            if not (one.is_current() and other.is_current()):
                one.catch_up()
                other.catch_up()
                _check_same(one, other)
                plan = _SyncPlan.of(one, other)
            elif any(plan.lines):  # a gc may have removed a blob that no entry named yet
                plan = plan._replace(blobs=_lacking_blobs(one, other, plan.needed))
            _copy_blobs(one, other, plan, counts)
            with contextlib.suppress(Moved):
                for number, (side, source) in enumerate(((one, other), (other, one))):
                    for count in _append(side, source, plan.lines[number], plan.settled):
                        counts.added[number] += count
                return
    raise StorageError(
        f"{one.file} or {other.file} was written by others all the time; try again", one.file
    )


@contextlib.contextmanager
def _held(one: _Side, other: _Side) -> Iterator[None]:
    """Hold both logs, in the same order in every program that unites these two."""
    with contextlib.ExitStack() as held:
        for side in sorted((one, other), key=lambda side: side.place):
            if side.refusal is None:
                held.enter_context(side.log.hold())
        yield


def _copy_blobs(one: _Side, other: _Side, plan: _SyncPlan, counts: _SideCounts) -> None:
    for_a, for_b, _ = plan.blobs
    for target, source, blobs in ((one, other, for_a), (other, one, for_b)):
        new = [blob for blob in blobs if not target.blobs.has(blob)]
        lost = target.blobs.link_from(source.blobs, new) if new else []
        for error in lost:
            if isinstance(error, BlobUnreadableError):
                raise error
            if str(error) not in counts.problems:
                counts.problems.append(str(error))
        counts.blobs += sum(target.blobs.has(blob) for blob in new)


def _append(side: _Side, source: _Side, rows: list[int], end: list[bytes]) -> Iterator[int]:
    for lines in _blocks(source, rows, end):
        block = b"".join(lines)
        with side.log.alone():
            at = side.log.append(block, side.view.size)
            side.view.appended(at + len(block))
        yield len(lines)


def _blocks(source: _Side, rows: list[int], end: list[bytes]) -> Iterator[list[bytes]]:
    offsets = [source.tree.offsets[row] for row in rows]
    lines: Iterable[bytes] = (rest_of_line(source.log.read, offset) for offset in offsets)
    if all(map(lt, offsets, offsets[1:])):
        lines = source.view.lines_at(offsets)
    waiting: list[bytes] = []
    size = 0
    for offset, line in zip(offsets, lines, strict=True):
        check_seal(line, offset, source.view.report)
        waiting.append(line + b"\n")
        size += len(line) + 1
        if size >= _APPEND:
            yield waiting
            waiting, size = [], 0
    if waiting or end:
        yield [*waiting, *end]


def _lost_blobs(plan: _SyncPlan, side: _Side) -> Iterator[str]:
    for blob in plan.blobs.lost:
        fault = side.blobs.fault(blob)
        why = f"{side.file} has something else in its place" if fault is None else fault.cause
        yield f"neither copy has the blob {blob.sha256}: {why}"


def _damage(one: _Side, other: _Side) -> Iterator[str]:
    for side in (one, other):
        side.view.tree()  # reads the end of a line that was cut off
        damage = side.view.damage
        if damage:
            more = f", and {len(damage) - 1:,} more findings" if len(damage) > 1 else ""
            first = damage[0]
            yield f"{first.file}, line {first.line} (byte {first.offset}): {first.cause}{more}"
