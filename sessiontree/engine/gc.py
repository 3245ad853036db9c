"""Collection: taking garbage out of a session's files, in steps that lose nothing.

What was tried on a scratch lane and reached by nothing lasting goes seven days
after it, and all below it, was written: into an archive file beside the session,
byte for byte. An archive goes thirty days after its date, and so does what stood in
a blob's place and was kept aside; a blob when no file of the session names it and it
is older than seven days.

Invariants: it runs under the writer's lock; the archive is on the medium before
the session file without those entries takes the place of the old one; what is
damaged is not judged, and nothing is taken out beside it; a blob goes last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from sessiontree.core.blob import MARK, Blob, hashes_named
from sessiontree.core.entry import Entry
from sessiontree.core.garbage import expired
from sessiontree.engine.view import View
from sessiontree.errors import CorruptionError
from sessiontree.storage.blobs import ASIDE, Blobs
from sessiontree.storage.lines import LARGEST_BLOCK
from sessiontree.storage.log import Log
from sessiontree.storage.oserrors import os_errors

GRACE: Final = timedelta(days=7)
KEPT: Final = timedelta(days=30)
ARCHIVE: Final = ".archive-"

_UNREADABLE: Final = frozenset({"json", "torn", "object", "no uuid", "nul"})
"""Damage that may hide an entry, and so a reference."""


class GcResult(msgspec.Struct, frozen=True):
    """What was taken out, or after a dry run what would be.

    Attributes:
        entries: the entries that went into the archive, in file order.
        archive: the path of the archive; None where no entry went.
        archives: the paths of the archives whose time was over.
        blobs: the blobs that nothing named any more.
        unfinished: files of blobs that were never finished.
        aside: files that stood in a blob's place and were not the blob, whose time was over.
        freed: bytes by which the session and its sidecars are smaller.
    """

    entries: list[Entry]
    archive: str | None
    archives: list[str]
    blobs: list[Blob]
    unfinished: list[str]
    aside: list[str]
    freed: int

    def as_dict(self) -> dict[str, Any]:
        """The shape that `gc --json` prints."""
        return {
            "entries": [
                {"uuid": e.uuid, "type": e.type, "lane": e.lane, "timestamp": e.timestamp}
                for e in self.entries
            ],
            "archive": self.archive,
            "archives": self.archives,
            "blobs": [{"sha256": blob.sha256, "size": blob.size} for blob in self.blobs],
            "unfinished": self.unfinished,
            "aside": self.aside,
            "freed": self.freed,
        }


def collect(
    log: Log, blobs: Blobs, standing: list[str], now: datetime, *, dry_run: bool = False
) -> GcResult:
    """Take out the garbage of one session; with `dry_run` only say what would go.

    The lock must be held, but for a dry run. The log stays open on the old file.

    Args:
        log: the session's file, of the current version.
        blobs: its sidecar.
        standing: uuids of entries that the caller stands at.
        now: the moment to count from, with a time zone.

    Raises:
        CorruptionError: a line cannot be read, so nobody knows what it refers to.
        StorageError: the system refused; nothing is lost.
    """
    with os_errors(log.name, "collect the garbage of"):
        return _collect(log, blobs, standing, now, dry_run=dry_run)


def _collect(
    log: Log, blobs: Blobs, standing: list[str], now: datetime, *, dry_run: bool
) -> GcResult:
    view = View(log)
    tree = view.tree()
    _check_readable(view)
    id = str(view.header.get("id", ""))

    def entry_at(row: int) -> Entry | None:
        return view.read(tree.offsets[row])

    rows = expired(tree, entry_at, id, now - GRACE, standing)
    gone = [entry for entry in map(entry_at, rows) if entry is not None]
    archive = ARCHIVE + now.astimezone(UTC).date().isoformat()
    if gone and not dry_run:
        _archive(log, archive, gone)
        offsets = {entry.offset for entry in gone}
        lines = (line + b"\n" for offset, line in view.lines() if offset not in offsets)
        log.rewrite(lines)
    over = _archives_over(log, now)
    garbage = _blobs_unnamed(log, blobs, now, over)
    unfinished = [name for name in blobs.unfinished() if _is_older(blobs, name, now - GRACE)]
    aside = [name for name in blobs.aside() if _was_put_aside_before(blobs, name, now - KEPT)]
    freed = sum(len(e.line) + 1 for e in gone) + sum(blob.size for blob in garbage)
    freed += sum(log.part_size(part) for part in over)
    freed += sum(found.size for name in [*unfinished, *aside] if (found := blobs.look(name)))
    if not dry_run:
        for part in over:
            log.remove_part(part)
        for name in [*(blob.sha256 for blob in garbage), *unfinished, *aside]:
            blobs.remove(name)
    return GcResult(
        entries=gone,
        archive=log.part_name(archive) if gone else None,
        archives=[log.part_name(part) for part in over],
        blobs=garbage,
        unfinished=unfinished,
        aside=aside,
        freed=freed,
    )


def _is_older(blobs: Blobs, name: str, moment: datetime) -> bool:
    """Whether a file of the sidecar was written before a moment; one that is gone is not."""
    found = blobs.look(name)
    return found is not None and found.modified < moment.timestamp()


def _was_put_aside_before(blobs: Blobs, name: str, moment: datetime) -> bool:
    """By the date in its name, for what was damaged may have been written long before."""
    dated = name.partition(ASIDE)[2].rpartition("-")[0]
    try:
        return date.fromisoformat(dated) < moment.astimezone(UTC).date()
    except ValueError:
        return _is_older(blobs, name, moment)


def _check_readable(view: View) -> None:
    damage = next((found for found in view.damage if found.kind in _UNREADABLE), None)
    if damage is not None:
        raise CorruptionError(
            f"{damage.file}:{damage.line}: byte {damage.offset}: {damage.cause}; what it refers "
            "to is unknown, so nothing was collected: repair the file first",
            damage.file,
            damage.offset,
        )


def _archive(log: Log, archive: str, gone: list[Entry]) -> None:
    """Add lines to the archive of the day, but for those that an attempt before added."""
    before = b"".join(log.read_part(archive)) if archive in log.parts() else b""
    there = set(before.split(b"\n"))
    new = [entry.line + b"\n" for entry in gone if entry.line not in there]
    log.write_part(archive, iter([before, *new]))


def _archives_over(log: Log, now: datetime) -> list[str]:
    over = []
    for part in log.parts():
        with contextlib.suppress(ValueError):
            if part.startswith(ARCHIVE) and (
                date.fromisoformat(part.removeprefix(ARCHIVE)) < (now - KEPT).astimezone(UTC).date()
            ):
                over.append(part)
    return over


def _blobs_unnamed(log: Log, blobs: Blobs, now: datetime, over: list[str]) -> list[Blob]:
    """The blobs past the grace period that no file of the session names."""
    old = [blob for blob in blobs.blobs() if _is_older(blobs, blob.sha256, now - GRACE)]
    if not old:
        return []
    current = log.successor()
    try:
        named = _hashes_in(_blocks(current))
    finally:
        current.release()
    for part in log.parts():
        if part not in over and log.part_size(part) >= 0:
            named |= _hashes_in(log.read_part(part))
    return [blob for blob in old if blob.sha256 not in named]


def _blocks(log: Log) -> Iterator[bytes]:
    offset = 0
    while block := log.read(offset, LARGEST_BLOCK):
        yield block
        offset += len(block)


def _hashes_in(blocks: Iterator[bytes]) -> set[str]:
    """Every hash that some bytes name, in whatever line, damaged ones too."""
    named: set[str] = set()
    rest = b""
    for block in blocks:
        text = rest + block
        if MARK in text:
            named |= hashes_named(text)
        rest = text[-_LONGEST_NAME:]
    return named


_LONGEST_NAME: Final = len(MARK) + 64
