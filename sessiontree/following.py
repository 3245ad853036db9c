"""Following: each entry that is added to a session, once, in order, as it comes.

Only lines that are ended by a newline are given, so a reader never sees half an
entry, and a torn end is waited out. A file that is replaced (migrated, repaired)
is read on in the new one: what stood in the old one is not given again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from sessiontree.core.codec import decode, head
from sessiontree.core.damage import ignore
from sessiontree.core.entry import Entry
from sessiontree.storage.journal import Journal
from sessiontree.storage.lines import whole_lines
from sessiontree.storage.upgrade import Upgraded, to_current
from sessiontree.storage.view import View

POLL_MILLISECONDS = 500
"""How often to look without being told of a change: not all file systems tell."""


class Follower:
    """Gives what is added to a file after a place in it.

    Args:
        journal: the file, opened to read by this follower alone.
        start: the byte offset after the last line that is known already; for a
            version 1 file, of its migrated lines.
    """

    def __init__(self, journal: Journal, start: int) -> None:
        self._original = journal
        self._upgraded: Upgraded | None = to_current(journal, migrate=False)
        self._journal = self._upgraded.journal if self._upgraded else journal
        self._at = start

    def close(self) -> None:
        self._original.close()

    def entries(self) -> Iterator[Entry]:
        """What was added since the last time."""
        seen = self._seen_if_replaced()
        complete = View(self._journal).complete
        for offset, block in whole_lines(self._journal.read, self._at, complete):
            for line in block.split(b"\n")[:-1]:
                entry = decode(line, offset, ignore)
                offset += len(line) + 1
                self._at = offset
                if entry is not None and entry.uuid not in seen:
                    yield entry

    def _seen_if_replaced(self) -> set[str]:
        """The uuids given already, where the file must be read anew; else nothing."""
        original = self._original
        was_replaced = original.was_replaced()
        grew = self._upgraded is not None and self._upgraded.is_outdated()
        if not was_replaced and not grew:
            return set()
        seen = set(self._uuids_before())
        if was_replaced:
            original.reopen()
        self._upgraded = to_current(original, migrate=False)
        self._journal = self._upgraded.journal if self._upgraded else original
        self._at = 0
        return seen

    def _uuids_before(self) -> Iterator[str]:
        for offset, block in whole_lines(self._journal.read, 0, self._at):
            for line in block.split(b"\n")[:-1]:
                found = head(line, offset, ignore)
                if found is not None:
                    yield found.uuid


def follow(follower: Follower, path: str, stop: threading.Event) -> Iterator[Entry]:
    """The entries added to a file, until `stop` is set."""
    from watchfiles import watch  # heavy, and only followers need it

    real_path = os.path.realpath(path)
    changes = watch(
        os.path.dirname(real_path),
        watch_filter=lambda _, changed: changed == real_path,
        stop_event=stop,
        debounce=20,
        step=5,
        rust_timeout=POLL_MILLISECONDS,
        yield_on_timeout=True,
        recursive=False,
    )
    yield from follower.entries()
    for _ in changes:
        yield from follower.entries()
