"""The files that a session read and changed, with counts.

Invariant: a call that failed, was refused or has no result counts as nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessiontree.core.edit_diff import counts_of
from sessiontree.operations.edits import FileEvent


class SessionFileUse(msgspec.Struct):
    """What a session did to one file.

    Attributes:
        path: the path of the file, absolute where that is known.
        reads: the number of calls that read it.
        edits: the number of calls that changed it.
        failed: the number of calls that were to change it and did not.
        added, removed: the lines that edits added and took away, as far as they tell.
        created, deleted: whether a call created it, and whether the last change deleted it.
        moved_to: the path that it was moved to last; None if it was not.
        first, last: the times of the first and the last call, or None.
    """

    path: str
    reads: int = 0
    edits: int = 0
    failed: int = 0
    added: int = 0
    removed: int = 0
    created: bool = False
    deleted: bool = False
    moved_to: str | None = None
    first: str | None = None
    last: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `files --json` prints."""
        return {key: getattr(self, key) for key in self.__struct_fields__}

    def did(self) -> Iterator[str]:
        """What was done, in words."""
        if self.created:
            yield "created"
        if self.edits:
            yield "1 edit" if self.edits == 1 else f"{self.edits:,} edits"
        if self.deleted:
            yield "deleted"
        if self.moved_to is not None:
            yield f"moved to {self.moved_to}"
        if self.reads:
            yield "1 read" if self.reads == 1 else f"{self.reads:,} reads"
        if self.failed:
            yield "1 failed" if self.failed == 1 else f"{self.failed:,} failed"


def files_of(events: Iterable[FileEvent]) -> list[SessionFileUse]:
    """The files of events, in the order of their first event."""
    found: dict[str, SessionFileUse] = {}
    for event in events:
        use = found.setdefault(event.path, SessionFileUse(event.path, first=event.time))
        use.last = event.time
        _count(use, event)
    return list(found.values())


def _count(use: SessionFileUse, event: FileEvent) -> None:
    edit = event.edit
    if edit is None:
        use.reads += 1
        return
    if event.ending != "done":
        use.failed += 1
        return
    counts = counts_of(edit)
    use.added += counts.added
    use.removed += counts.removed
    use.edits += 1
    use.created = use.created or edit.is_new
    use.deleted = edit.kind == "delete"
    use.moved_to = event.to or use.moved_to
