"""The garbage of many sessions, removed one session after the other.

A session is read first, and opened to write only if it has garbage: so no lock file is made beside
the others, and no writer of theirs waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from sessiontree.engine.gc import GcResult
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.session import Session
from sessiontree.storage.files import Report
from sessiontree.storage.fs import FileSystem


def collected(
    fs: FileSystem, files: Iterable[str], now: datetime | None, report: Report, *, dry_run: bool
) -> Iterator[tuple[str, GcResult]]:
    """Remove the garbage of each session; yield its path and what was removed.

    A session whose garbage cannot be removed is reported, and left out.
    """
    if now is not None and now.tzinfo is None:
        raise UsageError(f"now is a time with a time zone, not {now}")
    for file in files:
        try:
            result = _collect(fs, file, now, dry_run=dry_run)
        except SessionTreeError as error:
            report(str(error))
            continue
        yield file, result


def _collect(fs: FileSystem, file: str, now: datetime | None, *, dry_run: bool) -> GcResult:
    with Session.open(file, readonly=True, fs=fs) as session:
        found = session.gc(dry_run=True, now=now)
    if dry_run or found.is_empty:
        return found
    with Session.open(file, migrate=False, fs=fs) as session:
        return session.gc(now=now)
