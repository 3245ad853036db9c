"""The import of many files: what was imported, and what was left out.

Invariant: a file that cannot be imported hides no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from sessiontree.core.damage import Damage
from sessiontree.core.notes import Notes
from sessiontree.errors import FileError, NothingToDoError, SessionNotFoundError, SessionTreeError
from sessiontree.importing.importer import Importer, ImportResult
from sessiontree.storage.files import problem_of

Shown = Callable[[float, int, str], object]
"""Called with how many files are done, of how many, and the name of the file that is read."""


class Batch:
    """The files of one import.

    Args:
        importer: where the sessions go.
        given: the files, and the folders of files.
        fail: called with the error of each file that should have been imported; if only one file is
            given, its error is raised instead.
        dry_run: only look what would be imported.

    Attributes:
        failed: whether a file failed that should have been imported.
        left_out: why files were left out that may be no sessions.
        shared: warnings about files of one session id.
        damage, notes: the damage and the lines of unknown types in the files.
        imported, updated, same: the numbers of sessions that were made, got new entries, or were up
            to date.
        new: the number of new entries.
    """

    def __init__(
        self,
        importer: Importer,
        given: Sequence[str],
        fail: Callable[[SessionTreeError], object],
        *,
        dry_run: bool = False,
    ) -> None:
        self._take = importer.look if dry_run else importer.take
        self._tell_failure = fail
        self._sources: dict[str, str] = {}
        self._files: list[tuple[str, bool]] = []
        self._is_alone = len(given) == 1 and not os.path.isdir(given[0])
        self.failed = False
        self.left_out: list[str] = []
        self.shared: list[str] = []
        self.damage: list[Damage] = []
        self.notes = Notes()
        self.imported = self.updated = self.same = self.new = 0
        for path in given:
            try:
                files = importer.sources(path, self._refuse)
                found = [(file, file == path) for file in files]
            except SessionNotFoundError as error:
                self._fail(error)
                continue
            if not found:
                self.left_out.append(f"there is no session file in {path}; check the path")
                self.failed = self.failed or len(given) == 1
            self._files += found

    @property
    def is_of_many(self) -> bool:
        """Whether more than one file is given, or a folder."""
        return len(self._files) > 1 or not self._is_alone

    def results(self, shown: Shown) -> Iterator[ImportResult]:
        """Import each file that is a session of another agent."""
        for number, (file, is_named) in enumerate(self._files):

            def report(done: float, size: float, at: int = number, file: str = file) -> None:
                shown(at + done / max(size, 1), len(self._files), os.path.basename(file))

            shown(number, len(self._files), os.path.basename(file))
            try:
                result = self._take(file, report)
            except SessionTreeError as error:
                if is_named or not isinstance(error, FileError | NothingToDoError):
                    self._fail(error)
                elif isinstance(error, FileError):
                    self.left_out.append(str(error))
                continue
            except Exception as error:
                if self._is_alone:
                    raise
                self._refuse(problem_of(file, error))
                continue
            self._note(result)
            yield result

    def _note(self, result: ImportResult) -> None:
        other = self._sources.setdefault(result.file, result.source)
        if other != result.source:
            self.shared.append(
                f"{other} and {result.source} are both of the session {result.id}, and both "
                f"are in {result.file} now; if they are not one conversation, import each into "
                "a folder of its own"
            )
        self.damage += result.damage
        for note in result.notes:
            self.notes.add(note)
        self.new += result.new
        self.imported += result.made
        self.same += result.is_up_to_date
        self.updated += not (result.made or result.is_up_to_date)

    def _refuse(self, problem: str) -> None:
        self.left_out.append(problem)
        self.failed = True

    def _fail(self, error: SessionTreeError) -> None:
        if self._is_alone:
            raise error
        self.failed = True
        self._tell_failure(error)
