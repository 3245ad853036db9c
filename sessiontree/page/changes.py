"""What a session changed: for each file the calls that edited it, and a diff of it all.

Invariant: a diff of it all is made only where each state of the file is known, from its first edit
to its last; a file that an edit leaves unknown has none.
"""

from __future__ import annotations

import posixpath
from typing import Final

import msgspec

from sessiontree.core.edit_diff import Counts, diff_of
from sessiontree.core.edits import Edit, after
from sessiontree.core.steps import Steps
from sessiontree.errors import TooMuchError

_MOST_TEXT: Final = 400_000  # characters of a file whose states are kept


class ChangedFile(msgspec.Struct):
    """A file that a session changed.

    Attributes:
        path: its path.
        rows: the numbers of the rows of the calls that edited it.
        added, removed: the lines of all edits.
        did: what was done, in words.
    """

    path: str
    rows: list[int] = []
    added: int = 0
    removed: int = 0
    did: dict[str, int] = {}
    first: str | None = None
    last: str | None = None
    is_known: bool = True

    def diff(self) -> list[str]:
        """The lines of a diff from the first state to the last; empty where they are not known."""
        if not self.is_known or self.last is None or len(self.rows) < 2:
            return []
        whole = Edit(path=self.path, kind="write", before=self.first or "", content=self.last)
        return diff_of(whole)


class Changes:
    """Collects the edits of a session of so many bytes, in order."""

    def __init__(self, cwd: str | None, size: int) -> None:
        self._cwd = cwd
        self._steps = Steps.of_command(size, "the files are too large for the number of edits")
        self.files: dict[str, ChangedFile] = {}

    def take(self, edit: Edit, counts: Counts, row: int) -> None:
        """Take an edit that was done by the call of a row, with the lines that it changed."""
        path = posixpath.normpath(posixpath.join(self._cwd or "", edit.path))
        file = self.files.setdefault(path, ChangedFile(path))
        if not file.rows or file.rows[-1] != row:
            file.rows.append(row)
        file.added += counts.added
        file.removed += counts.removed
        word = "created" if edit.is_new else _WORDS.get(edit.kind, "edited")
        file.did[word] = file.did.get(word, 0) + 1
        self._follow(file, edit)

    def _follow(self, file: ChangedFile, edit: Edit) -> None:
        is_first = file.last is None and file.is_known
        if is_first:
            file.first = "" if edit.is_new else edit.before
        before = (
            edit.before if edit.before is not None else file.last if not is_first else file.first
        )
        made = self._after(edit, before)
        file.is_known = file.is_known and file.first is not None and made is not None
        file.last = made if made is not None and len(made) <= _MOST_TEXT else None
        if file.last is None:
            file.is_known, file.first = False, None

    def _after(self, edit: Edit, before: str | None) -> str | None:
        try:
            return after(edit, before, self._steps)
        except TooMuchError:  # the page has the diff of each edit
            return None


_WORDS: Final = {"write": "written", "delete": "deleted", "move": "moved", "append": "appended to"}
