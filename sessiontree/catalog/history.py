"""Every edit of a file, by all agents over all sessions, with what came of it.

Invariant: an edit that failed, was refused or has no result is told too, as such.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from sessiontree.catalog.blame import played
from sessiontree.catalog.file_edits import SessionEdit, edits_of
from sessiontree.catalog.target import known_file, read_text
from sessiontree.core.edit_diff import Counts, counted_diff_of
from sessiontree.operations.workers import Each, nothing
from sessiontree.storage.files import Report

Outcome = Literal[
    "kept",
    "replaced",
    "deleted",
    "reverted",
    "lost",
    "failed",
    "refused",
    "unanswered",
    "done",
]


class FileEdit(msgspec.Struct, frozen=True):
    """One edit of a file, and what came of it.

    Attributes:
        edit: the edit with its session.
        kind: what kind of edit it is: `write`, `edit`, `delete`, `move` or `change`.
        outcome: `kept`: lines of it are in the file; `replaced`: other edits or commits took their
            place; `deleted`: the file is not there any more; `reverted`: the file had the content
            before it again; `lost`: the same, and no commit has it; `done`: it wrote no line, such
            as one that deletes the file; `failed`, `refused` and `unanswered`: it changed nothing,
            as far as is known.
        kept: how many lines of the file are the edit's.
        added, removed: how many lines it added and took away, as far as it tells.
        diff: the lines of its diff, each with a mark.
    """

    edit: SessionEdit
    kind: str
    outcome: Outcome
    kept: int
    added: int
    removed: int
    diff: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `history --json` prints."""
        event = self.edit.event
        return {
            "time": event.time,
            "agent": self.edit.agent,
            "model": event.model,
            "session": self.edit.session,
            "file": self.edit.file,
            "uuid": event.uuid,
            "call": event.call,
            "tool": event.tool,
            "lane": event.lane,
            "path": event.path,
            "kind": self.kind,
            "to": event.to,
            "outcome": self.outcome,
            "kept": self.kept,
            "added": self.added,
            "removed": self.removed,
            "turn": self.edit.reason.turn,
            "prompt": self.edit.reason.prompt,
            "reasoning": self.edit.reason.reasoning,
            "diff": list(self.diff),
        }


def history(
    path: str,
    files: Callable[[], Sequence[str]],
    report: Report,
    *,
    since: datetime | None = None,
    each: Each = nothing,
) -> list[FileEdit]:
    """List the edits of a file, in the order of time.

    Args:
        path: the path of the file, which need not be there any more.
        files: gives the session files to look in.
        report: called with what cannot be read.
        since: only edits since this time; None for all.
        each: called with the number of each session file before it is read.

    Raises:
        UsageError: the file is binary.
        StorageError: the file cannot be read, or git fails.
    """
    text = read_text(path) if os.path.exists(path) else ""
    known = known_file(path)
    edits = edits_of(known.target, files(), report, each)
    result = played(known, edits, text)
    kept = Counter(writer.edit for writer in result.writers if writer is not None)
    shown = [
        (number, edit, made)
        for number, edit in enumerate(edits)
        if (made := edit.event.edit) and (since is None or edit.seconds >= since.timestamp())
    ]
    found: list[FileEdit] = []
    for number, edit, made in shown:
        counts, diff = counted_diff_of(made)
        is_undone, is_committed = number in result.undone, number in result.committed
        outcome = _outcome(edit, counts, kept[number], is_undone, is_committed)
        if outcome == "replaced" and not os.path.exists(path):
            outcome = "deleted"
        found.append(FileEdit(edit, made.kind, outcome, kept[number], *counts, tuple(diff)))
    return found


def _outcome(
    edit: SessionEdit, counts: Counts, kept: int, is_undone: bool, is_committed: bool
) -> Outcome:
    event = edit.event
    if event.ending != "done":
        return event.ending
    if kept:
        return "kept"
    if is_undone:
        return "reverted" if is_committed else "lost"
    return "replaced" if counts.added else "done"
