"""Garbage collection of a session: its file, its archives and its blobs.

Scratch entries that no durable entry reaches move into an archive file beside the session,
byte for byte, seven days after they and all their descendants were written. Archives, and
damaged blobs that were put aside, are removed thirty days after their date. Blobs that no
file of the session names are removed after seven days.

Invariants: it runs under the writer's lock; the archive is on the medium before the session
file is replaced by one without those entries; a file with an unreadable line is not
collected at all; blobs are removed last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from sessiontree.core.entry import Entry
from sessiontree.core.garbage import expired
from sessiontree.core.handle import Blob, hashes_named, may_name_blob
from sessiontree.engine.logtree import LogTree
from sessiontree.errors import CorruptionError
from sessiontree.storage.blobs import ASIDE, Blobs
from sessiontree.storage.fs import os_errors
from sessiontree.storage.lines import LARGEST_BLOCK
from sessiontree.storage.log import Log

GRACE: Final = timedelta(days=7)
KEPT: Final = timedelta(days=30)
ARCHIVE: Final = ".archive-"

_UNREADABLE: Final = frozenset({"json", "torn", "object", "no uuid", "nul"})
"""Kinds of damage that may hide an entry, and so a reference."""


class GcResult(msgspec.Struct, frozen=True):
    """What `gc` removed; after a dry run, what `gc` would remove."""

    entries: list[Entry]  # the entries that moved to the archive, in file order
    archive: str | None  # the path of the archive; None if no entry moved
    archives: list[str]  # the paths of the removed archives
    blobs: list[Blob]  # the removed blobs
    unfinished: list[str]  # the names of the removed unfinished blobs
    aside: list[str]  # the names of the removed damaged blobs, which were put aside earlier
    freed: int  # the number of bytes that the session and the files beside it lost

    @property
    def is_empty(self) -> bool:
        """Whether nothing was removed."""
        return not (self.entries or self.archives or self.blobs or self.unfinished or self.aside)

    def as_dict(self) -> dict[str, Any]:
        """Return the shape that `gc --json` prints."""
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
    log: Log, blobs: Blobs, leaves: list[str], now: datetime, *, dry_run: bool = False
) -> GcResult:
    """Remove the garbage of one session; with `dry_run` only report it.

    The caller holds the lock, except for a dry run. The log stays open on the old file.

    Args:
        log: the session's file, of the current version.
        blobs: its sidecar folder; nothing is collected if that is a link.
        leaves: the uuids of entries to keep, with their ancestors.
        now: the moment to count from, with a time zone.

    Raises:
        CorruptionError: a line cannot be read, so its references are unknown.
        StorageError: the system refused; nothing is lost.
    """
    with os_errors(log.name, "collect the garbage of"):
        return _collect(log, blobs, leaves, now, dry_run=dry_run)


def _collect(
    log: Log, blobs: Blobs, leaves: list[str], now: datetime, *, dry_run: bool
) -> GcResult:
    blobs.check_own()
    view = LogTree(log)
    tree = view.tree()
    _check_readable(view)
    id = str(view.header.get("id", ""))

    def entry_at(row: int) -> Entry | None:
        return view.read(tree.offsets[row])

    rows = expired(tree, entry_at, id, now - GRACE, leaves)
    gone = [entry for entry in map(entry_at, rows) if entry is not None]
    archive = ARCHIVE + now.astimezone(UTC).date().isoformat()
    if gone and not dry_run:
        _archive(log, archive, gone)
        offsets = {entry.offset for entry in gone}
        lines = (line + b"\n" for offset, line in view.lines() if offset not in offsets)
        log.rewrite(lines)
    archives = _old_archives(log, now)
    garbage = _unnamed_blobs(log, blobs, now, archives)
    unfinished = [name for name in blobs.unfinished() if _is_older(blobs, name, now - GRACE)]
    aside = [name for name in blobs.aside() if _was_put_aside_before(blobs, name, now - KEPT)]
    freed = sum(len(e.line) + 1 for e in gone) + sum(blob.size for blob in garbage)
    freed += sum(map(log.parts.size, archives))
    freed += sum(found.size for name in [*unfinished, *aside] if (found := blobs.look(name)))
    if not dry_run:
        for part in archives:
            log.parts.remove(part)
        for name in [*(blob.sha256 for blob in garbage), *unfinished, *aside]:
            blobs.remove(name)
    return GcResult(
        entries=gone,
        archive=log.parts.name(archive) if gone else None,
        archives=[log.parts.name(part) for part in archives],
        blobs=garbage,
        unfinished=unfinished,
        aside=aside,
        freed=freed,
    )


def _is_older(blobs: Blobs, name: str, moment: datetime) -> bool:
    """Whether a file of the sidecar exists and was written before a moment."""
    found = blobs.look(name)
    return found is not None and found.modified < moment.timestamp()


def _was_put_aside_before(blobs: Blobs, name: str, moment: datetime) -> bool:
    """Whether the date in the name is before a moment; the file itself may be much older."""
    dated = name.partition(ASIDE)[2].rpartition("-")[0]
    try:
        return date.fromisoformat(dated) < moment.astimezone(UTC).date()
    except ValueError:
        return _is_older(blobs, name, moment)


def _check_readable(view: LogTree) -> None:
    damage = next((found for found in view.damage if found.kind in _UNREADABLE), None)
    if damage is not None:
        raise CorruptionError(
            f"{damage.file}:{damage.line}: byte {damage.offset}: {damage.cause}; what it refers "
            "to is unknown, so nothing was collected: repair the file first",
            damage.file,
            damage.offset,
        )


def _archive(log: Log, archive: str, gone: list[Entry]) -> None:
    """Add lines to the archive of the day, except those that an earlier attempt added."""
    before = b"".join(log.parts.read(archive)) if archive in log.parts.list() else b""
    archived = set(before.split(b"\n"))
    new = [entry.line + b"\n" for entry in gone if entry.line not in archived]
    log.parts.write(archive, iter([before, *new]))


def _old_archives(log: Log, now: datetime) -> list[str]:
    old = []
    last = (now - KEPT).astimezone(UTC).date()
    for part in log.parts.list():
        with contextlib.suppress(ValueError, FileNotFoundError):  # a link may lead nowhere
            if (
                part.startswith(ARCHIVE)
                and date.fromisoformat(part.removeprefix(ARCHIVE)) < last
                and log.parts.size(part) >= 0
            ):
                old.append(part)
    return old


def _unnamed_blobs(log: Log, blobs: Blobs, now: datetime, archives: list[str]) -> list[Blob]:
    """Return the blobs past the grace period that no file but `archives` names."""
    old = [blob for blob in blobs.blobs() if _is_older(blobs, blob.sha256, now - GRACE)]
    if not old:
        return []
    current = log.successor()
    try:
        named = _hashes_in(_blocks(current))
    finally:
        current.release()
    for part in log.parts.list():
        with contextlib.suppress(FileNotFoundError):  # a link may lead nowhere
            if part not in archives and log.parts.size(part) >= 0:
                named |= _hashes_in(log.parts.read(part))
    return [blob for blob in old if blob.sha256 not in named]


def _blocks(log: Log) -> Iterator[bytes]:
    offset = 0
    while block := log.read(offset, LARGEST_BLOCK):
        yield block
        offset += len(block)


def _hashes_in(blocks: Iterator[bytes]) -> set[str]:
    """Return each blob hash that the bytes name, in damaged lines too."""
    named: set[str] = set()
    for lines in _whole_lines(blocks):
        if may_name_blob(lines):
            named |= hashes_named(lines)
    return named


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes again, cut between lines."""
    waiting: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*waiting, block[:cut]])
            waiting.clear()
        waiting.append(block[cut:])
    yield b"".join(waiting)
