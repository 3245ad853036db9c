"""Verify and repair a session file.

Repair does not guess. It removes what has no content (NUL bytes, blank lines, torn
fragments, CR, byte order marks), gives each entry of a shared line its own line, ends the
last line with a newline, adopts the lines that an older program appended without uuids, and
writes a lost header again (`core.salvage`). It reports and keeps all other damage: missing
parents, wrong checksums, duplicate uuids, and lines that are neither JSON nor a torn
fragment. A flipped bit leaves most of an entry readable.

Asked to, it joins an entry whose parent is missing to the entry before it in the file, and keeps
the parent's uuid in the entry's metadata. A file of another agent stays as it is:
`operations.repair` writes a sound copy.

Invariants: the original is saved beside the file before the file changes; the new file
replaces it in one step, under the writer's lock; sound lines are copied byte for byte; a
second repair changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.core import jsonbytes
from sessiontree.core.codec import decode, encode, lines_in
from sessiontree.core.damage import Damage, Report, ignore
from sessiontree.core.entry import (
    BOM,
    MISSING_PARENT,
    Entry,
    bare_line,
    decode_leniently,
    decode_object,
)
from sessiontree.core.handle import Blob, blobs_needed, may_name_blob
from sessiontree.core.migrate import UuidAssigner, values_of
from sessiontree.core.salvage import take_apart
from sessiontree.core.spill import check_spilled
from sessiontree.core.verify import Verification, unsound
from sessiontree.engine.logtree import LogTree
from sessiontree.engine.opening import Headless, sniff_file
from sessiontree.errors import (
    BlobError,
    ForeignFormatError,
    MigrationRefusedError,
    SpilledError,
    StorageError,
)
from sessiontree.storage.lines import rest_of_line, whole_lines
from sessiontree.storage.log import Log, Moved

Progress = Callable[[int, int], None]
"""Called with the number of bytes done and the total number of bytes."""

Share = tuple[int, int]
"""The offsets at which a run of whole lines starts and stops."""

SHARE: Final = 16 * 1024 * 1024
"""The bytes of a share."""

FindUnsound = Callable[[Sequence[Share]], Iterator[Sequence[int]]]
"""Gives the result of `unsound_in` for each share, in order."""


class RepairedLine(msgspec.Struct, frozen=True):
    """One line that was repaired."""

    line: Annotated[int, Meta(description="The number of the line, from 1.")]
    offset: Annotated[int, Meta(description="The first byte of the line.")]
    what: Annotated[str, Meta(description="What was done, or would be.")]


class RepairResult(msgspec.Struct, frozen=True):
    """The outcome of a repair.

    Attributes:
        mended: the repaired lines, in file order.
        evidence: the path of the saved original; None if nothing was repaired.
        remaining: the damage that remains; after a dry run, all damage.
    """

    mended: list[RepairedLine]
    evidence: str | None
    remaining: list[Damage]


def verify(
    log: Log, progress: Progress | None = None, find_unsound: FindUnsound | None = None
) -> list[Damage]:
    """Return all damage in a file and in the blobs it needs, in file order.

    Args:
        log: the file.
        progress: called from time to time with the bytes read so far and the total bytes.
        find_unsound: runs `unsound_in` over the shares of a large file in other processes,
            while this one checks the structure.
    """
    view = LogTree(log)
    verification = Verification(view.report)
    if view.is_header_fused:
        verification.take(view.header.line, view.header.offset)
    needed: dict[Blob, int] = {}
    is_shared = find_unsound is not None and view.complete > SHARE
    take = verification.take_structure if is_shared else verification.take_block
    shares = _shares(log, view.complete) if is_shared else [(0, view.complete)]
    found = find_unsound(shares) if find_unsound is not None and is_shared else iter([()])
    for (start, stop), offsets in zip(shares, found, strict=True):
        for offset, block in whole_lines(log.read, start, stop):
            take(block, offset)
            if _may_need_blob(block):
                _note_blobs(block, offset, view.report, needed)
            if progress is not None:
                progress(offset + len(block), view.size)
        for offset in offsets:
            verification.look_into(rest_of_line(log.read, offset) + b"\n", offset)
    if not view.reads_to_end:
        rest = log.read(view.complete, view.size - view.complete)
        verification.take(rest, view.complete)
        if decode(rest, view.complete, ignore) is not None:
            view.report("open end", view.complete, "the last line has no newline")
    verification.finish()
    _verify_blobs(log, needed, view.report)
    return view.damage


def _shares(log: Log, end: int) -> list[Share]:
    """Split the whole lines of a file into shares of about the same size."""
    shares: list[Share] = []
    start = 0
    while start < end:
        stop = min(start + SHARE, end)
        if stop < end:
            stop += len(rest_of_line(log.read, stop)) + 1
        shares.append((start, stop))
        start = stop
    return shares


def unsound_in(log: Log, share: Share) -> list[int]:
    """Return the offsets of the lines of a share that need a closer look; see `unsound`."""
    blocks = whole_lines(log.read, *share)
    found = (unsound(block, offset) for offset, block in blocks)
    return [offset for lines in found for offset, _ in lines]


def _may_need_blob(lines: bytes) -> bool:
    return may_name_blob(lines) or jsonbytes.find(lines, b'"spilled"') >= 0


def _note_blobs(block: bytes, offset: int, report: Report, needed: dict[Blob, int]) -> None:
    """Note the blobs that lines need, each with the offset of the first such line."""
    for line in lines_in(block):
        entry = decode(line, offset, ignore) if _may_need_blob(line) else None
        if entry is not None:
            try:
                check_spilled(entry.as_stored)
            except SpilledError as error:
                report("blob", offset, f"{entry.uuid}: {error}")
            for blob in blobs_needed(entry.as_stored):
                needed.setdefault(blob, offset)
        offset += len(line) + 1


def _verify_blobs(log: Log, needed: dict[Blob, int], report: Report) -> None:
    """Read each blob and compare it with its hash."""
    sidecar = log.blobs.open()
    causes: dict[int, list[str]] = {}
    for blob, offset in needed.items():
        try:
            for _ in sidecar.blocks(*blob):
                pass
        except BlobError as error:
            causes.setdefault(offset, []).append(error.cause)
    for offset, found in causes.items():
        report("blob", offset, "; ".join(found))
    try:
        sidecar.unfinished()
    except StorageError as error:
        report("blob folder", 0, str(error))


def never_written(file: str, agent: str) -> ForeignFormatError:
    """The error for a file of another agent that was to be repaired in place."""
    return ForeignFormatError(
        f"{file} is a file of {agent}, which is never written: 'repair FILE -o NEW' writes a sound "
        "copy that the program opens, or import it to go on with it here",
        file,
        agent,
    )


def repair(log: Log, *, dry_run: bool = False, relink: bool = False) -> RepairResult:
    """Repair a file; with `dry_run` only report what would be done.

    The caller holds the lock, except for a dry run. The log stays open on the original. With
    `relink`, an entry whose parent is missing is joined to the entry before it.

    Raises:
        ForeignFormatError: the file is another agent's.
        MigrationRefusedError: the file has version 1.
    """
    start = sniff_file(log)
    if start.agent is not None:
        raise never_written(log.name, start.agent.program)
    if start.kind == "version 1":
        raise MigrationRefusedError(
            f"{log.name} has version 1, and repair needs the current version; "
            "migrate it first, which keeps the original, and then repair it",
            log.name,
        )
    lost = None if start.stand_in is None else Headless(log, start.stand_in)
    view = LogTree(log if lost is None else lost.log)
    mended: list[RepairedLine] = []
    above = _joins(_repaired_lines(view, [])) if relink else {}
    for _ in _repaired_lines(view, mended):
        pass
    mended += _joined(view, above)
    if lost is not None:
        mended = [*_header_repairs(lost), *(_in_original(lost, mending) for mending in mended)]
    if not mended or dry_run:
        remaining = verify(log) if lost is None else lost.damage_in_original(verify(lost.log))
        return RepairResult(mended, None, remaining)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    suffix = f".damaged-{stamp}"
    lines = _relinked(_repaired_lines(view, []), above)
    try:
        evidence = log.rewrite((line + b"\n" for line in lines), suffix)
    except Moved:
        with contextlib.suppress(FileNotFoundError):
            log.parts.remove(suffix)
        raise
    successor = log.successor()
    try:
        return RepairResult(mended, evidence, verify(successor))
    finally:
        successor.release()


def _joins(lines: Iterator[bytes]) -> dict[str, str]:
    """The entry before each entry that `verify` reports without its parent."""
    from sessiontree.agents.base import Link, joins  # few sessions are ever relinked

    missing: set[int] = set()

    def report(kind: str, offset: int, cause: str) -> None:
        if kind == "missing parent":
            missing.add(offset)

    verification = Verification(report)
    entries: list[tuple[int, Entry]] = []
    offset = 0
    for line in lines:
        verification.take(line, offset)
        if (entry := decode(line, offset, ignore)) is not None:
            entries.append((offset, entry))
        offset += len(line) + 1
    verification.finish()
    links = (Link(entry.uuid, entry.parent_uuid, entry.lane) for _, entry in entries)
    found = joins(links)
    return {e.uuid: found[e.uuid] for at, e in entries if at in missing and e.uuid in found}


def _relinked(lines: Iterator[bytes], above: Mapping[str, str]) -> Iterator[bytes]:
    for line in lines:
        entry = decode(line, 0, ignore) if above else None
        parent = None if entry is None else above.get(entry.uuid)
        if entry is None or parent is None:
            yield line
            continue
        keys = values_of(line, decode_object(line))
        metadata = decode_object(line).get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        keys["metadata"] = {**metadata, MISSING_PARENT: entry.parent_uuid}
        keys["parentUuid"] = parent
        keys.pop("crc", None)
        yield encode(keys)


def _joined(view: LogTree, above: Mapping[str, str]) -> Iterator[RepairedLine]:
    number = 1
    for offset, line, count in view.line_runs() if above else ():
        entry = decode(line, offset, ignore)
        if entry is not None and entry.uuid in above:
            what = f"joined entry {entry.uuid} to the one before it, {above[entry.uuid]}"
            yield RepairedLine(number, offset, f"{what}: its parent {entry.parent_uuid} is missing")
        number += count


def _header_repairs(lost: Headless) -> Iterator[RepairedLine]:
    header = lost.stand_in
    if header.offset:
        yield RepairedLine(1, 0, f"removed {header.offset} bytes without content")
    yield RepairedLine(header.number, header.offset, header.repair)


def _in_original(lost: Headless, mending: RepairedLine) -> RepairedLine:
    return RepairedLine(*lost.place(mending.line, mending.offset), mending.what)


def _repaired_lines(view: LogTree, mended: list[RepairedLine]) -> Iterator[bytes]:
    """Yield the lines of the repaired file, and add what was done to `mended`."""
    adoption = UuidAssigner()
    number = 1
    for offset, line, count in view.line_runs():
        more = f", and the same in the {count - 1:,} lines after it" if count > 1 else ""

        def note(what: str, number: int = number, offset: int = offset, more: str = more) -> None:
            mended.append(RepairedLine(number, offset, what + more))

        pieces = _pieces(line, note)
        if pieces and offset == view.complete:
            note("ended the last line with a newline")
        if count > 1 and not any(isinstance(decode_leniently(piece), dict) for piece in pieces):
            yield from pieces * count
            pieces = []
        for piece in pieces * count:
            yield adoption.take(piece, note)
        number += count


def _pieces(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """Return the lines that replace a line: nearly always the line itself."""
    bare = _stripped(line, note)
    if not bare.strip():
        if bare == line:
            note("removed a blank line")
        return []
    if decode_leniently(bare) is not None:
        return [bare]
    return _split(bare, note)


def _stripped(line: bytes, note: Callable[[str], None]) -> bytes:
    """Strip NUL bytes, byte order marks and a CR from the ends of a line."""
    bare = bare_line(line.rstrip(b"\0\r"))
    if len(bare) == len(line):
        return line
    around = line.replace(bare, b"", 1)
    if zeros := around.count(b"\0"):
        note(f"removed {zeros} NUL bytes")
    if BOM in around:
        note("removed a byte order mark")
    if b"\r" in around:
        note("removed a CR before the newline")
    return bare


def _split(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """Split a line that is not JSON into its entries, and leave out torn fragments."""
    pieces, entries, torn = take_apart(line)
    if torn:
        kept = f", and kept the {entries} whole entries beside it" if entries else ""
        note(f"removed a torn fragment of {torn} bytes{kept}")
    elif len(pieces) > 1:
        note(f"split the line: each of its {entries} whole entries has a line of its own")
    elif pieces != [line]:
        note("removed bytes without content beside the entry")
    return pieces
