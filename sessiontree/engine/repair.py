"""Recovery: looking a session file over, and mending what can be mended.

Repair guesses nothing. It takes out what carries nothing (NUL bytes, blank
lines, torn fragments), puts back what was only pushed together or dressed up
(fused lines, CR LF, a byte order mark, a missing final newline), and adopts the
lines that an older program appended without uuids. A header that is lost it writes
anew (`core.salvage`). Entries that lost their
parent, wrong checksums and uuids that stand twice stay as they are, and are named;
so does a line that is no JSON and no torn fragment (`core.salvage`): a flipped
bit leaves most of an entry, and somebody may know what it said.

Invariants: the original is kept whole beside the file before anything else; the
new file takes its place under the writer's lock, at once; a line that is sound
is carried over byte for byte; mending what was mended changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
import stringzilla  # type: ignore[import-not-found, unused-ignore]

from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.codec import decode, ended_lines, lines_in
from sessiontree.core.damage import Damage, Report, ignore
from sessiontree.core.entry import decode_leniently
from sessiontree.core.migrate import Adoption
from sessiontree.core.salvage import take_apart
from sessiontree.core.spill import check_spilled
from sessiontree.core.verify import Verification, unsound
from sessiontree.engine.headless import Headless
from sessiontree.engine.opening import foreign_refusal, sniff_file
from sessiontree.engine.view import View
from sessiontree.errors import BlobError, MigrationRefusedError, SpilledError, StorageError
from sessiontree.storage.lines import rest_of_line, whole_lines
from sessiontree.storage.log import Log

Progress = Callable[[int, int], None]
"""Takes the bytes done and the bytes in all."""

Share = tuple[int, int]
"""Where some whole lines of a file start, and where they stop."""

SHARE: Final = 16 * 1024 * 1024
"""Bytes of a share."""

Elsewhere = Callable[[Sequence[Share]], Iterator[Sequence[int]]]
"""Gives for each share, in order, what `unsound_in` finds there."""


class Mending(msgspec.Struct, frozen=True):
    """What repair does to one line.

    Attributes:
        line: the number of the line in the file before, from 1.
        offset: the byte offset of the line.
        what: what was done, in words.
    """

    line: int
    offset: int
    what: str


class RepairResult(msgspec.Struct, frozen=True):
    """The outcome of a repair.

    Attributes:
        mended: what was done, in file order; empty where nothing had to be.
        evidence: the path of the original, kept whole; None where nothing was done.
        remaining: what is damaged still; after a dry run, all that is damaged.
    """

    mended: list[Mending]
    evidence: str | None
    remaining: list[Damage]


def verify(
    log: Log, progress: Progress | None = None, elsewhere: Elsewhere | None = None
) -> list[Damage]:
    """Everything that is not sound in a file and the blobs it needs, in file order.

    Args:
        log: the file.
        progress: told of the bytes done and the bytes in all, now and then.
        elsewhere: finds in other processes what `unsound_in` finds in each share of a file
            that is large; the structure is taken here meanwhile.
    """
    view = View(log)
    verification = Verification(view.report)
    needed: dict[Blob, int] = {}
    is_shared = elsewhere is not None and view.complete > SHARE
    take = verification.take_structure if is_shared else verification.take_block
    shares = _shares(log, view.complete) if is_shared else [(0, view.complete)]
    found = elsewhere(shares) if elsewhere is not None and is_shared else iter([()])
    for (start, stop), offsets in zip(shares, found, strict=True):
        for offset, block in whole_lines(log.read, start, stop):
            take(block, offset)
            if stringzilla.find(block, MARK) >= 0:  # many times as fast as `in`
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
    """A file's whole lines in shares of about the same size."""
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
    """The offsets of the lines of a share that are to be looked into; see `unsound`."""
    blocks = whole_lines(log.read, *share)
    found = (unsound(ended_lines(block), offset) for offset, block in blocks)
    return [offset for lines in found for offset, _ in lines]


def _note_blobs(block: bytes, offset: int, report: Report, needed: dict[Blob, int]) -> None:
    """Note the blobs that lines need, each with the offset of the first such line."""
    for line in lines_in(block):
        entry = decode(line, offset, ignore) if MARK in line else None
        if entry is not None:
            try:
                check_spilled(entry.as_stored)
            except SpilledError as error:
                report("blob", offset, f"{entry.uuid}: {error}")
            for blob in blobs_needed(entry.as_stored):
                needed.setdefault(blob, offset)
        offset += len(line) + 1


def _verify_blobs(log: Log, needed: dict[Blob, int], report: Report) -> None:
    """Read every blob that is needed, and compare it with its hash."""
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


def repair(log: Log, *, dry_run: bool = False) -> RepairResult:
    """Mend a file in place of itself; with `dry_run` only say what would be done.

    The lock must be held, but for a dry run. The log stays open on the original.

    Raises:
        MigrationRefusedError: the file is of version 1.
    """
    start = sniff_file(log)
    if start.format is not None:
        raise foreign_refusal(start.format, log.name)
    if start.kind == "version 1":
        raise MigrationRefusedError(
            f"{log.name} is of version 1, and repair mends the current one; "
            "migrate it first, which keeps the original, and then repair it",
            log.name,
        )
    lost = None if start.stand_in is None else Headless(log, start.stand_in)
    view = View(log if lost is None else lost.log)
    mended: list[Mending] = []
    for _ in _mended_lines(view, mended):
        pass
    if lost is not None:
        mended = [*_header_mended(lost), *(_in_file(lost, mending) for mending in mended)]
    if not mended or dry_run:
        remaining = verify(log) if lost is None else lost.damage_in_original(verify(lost.log))
        return RepairResult(mended, None, remaining)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    suffix = f".damaged-{stamp}"
    lines = _mended_lines(view, [])
    evidence = log.rewrite((line + b"\n" for line in lines), suffix)
    successor = log.successor()
    try:
        return RepairResult(mended, evidence, verify(successor))
    finally:
        successor.release()


def _header_mended(lost: Headless) -> Iterator[Mending]:
    standing = lost.stand_in
    if standing.offset:
        yield Mending(1, 0, f"took out {standing.offset} bytes that carry nothing")
    yield Mending(standing.number, standing.offset, standing.repair)


def _in_file(lost: Headless, mending: Mending) -> Mending:
    return Mending(*lost.place(mending.line, mending.offset), mending.what)


def _mended_lines(view: View, mended: list[Mending]) -> Iterator[bytes]:
    """The lines of the file as they should be; what was done to them goes to `mended`."""
    adoption = Adoption()
    for number, (offset, line) in enumerate(view.lines(), 1):

        def note(what: str, number: int = number, offset: int = offset) -> None:
            mended.append(Mending(number, offset, what))

        pieces = _pieces(line, note)
        if pieces and offset == view.complete:
            note("ended the last line with a newline")
        for piece in pieces:
            yield adoption.take(piece, note)


def _pieces(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """The lines that one line should have been: as a rule itself."""
    bare = _undressed(line, note)
    if not bare.strip():
        if bare == line:
            note("took out a blank line")
        return []
    if decode_leniently(bare) is not None:
        return [bare]
    return _apart(bare, note)


def _undressed(line: bytes, note: Callable[[str], None]) -> bytes:
    """A line without what may stand around it and carries nothing."""
    bare = line.rstrip(b"\0\r")
    while bare.startswith((b"\0", _BOM)):
        bare = bare.lstrip(b"\0").removeprefix(_BOM)
    if len(bare) == len(line):
        return line
    around = line.replace(bare, b"", 1) if bare else line
    if zeros := around.count(b"\0"):
        note(f"took out {zeros} NUL bytes")
    if _BOM in around:
        note("took out a byte order mark")
    if b"\r" in around:
        note("took out a CR before the newline")
    return bare


_BOM: Final = b"\xef\xbb\xbf"


def _apart(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """The pieces of a line that is no JSON, without the torn fragments among them."""
    pieces, entries, torn = take_apart(line)
    if torn:
        kept = f", and kept the {entries} whole entries beside it" if entries else ""
        note(f"took out a torn fragment of {torn} bytes{kept}")
    elif len(pieces) > 1:
        note(f"put what shared the line, {entries} whole entries, on lines of their own")
    elif pieces != [line]:
        note("took out bytes that carry nothing beside the entry")
    return pieces
