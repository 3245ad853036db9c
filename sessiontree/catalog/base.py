"""What a store is built on: a folder of this machine, or a place that an address names.

Each session has a file: a path in a folder, an address in a place. Its name has the project's
folder in front: `<project>/<timestamp>_<id>.jsonl`.

Invariants: nothing is ever overwritten; what cannot be listed is reported, and hides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from sessiontree.catalog.listing import SessionInfo
from sessiontree.errors import SessionExistsError
from sessiontree.storage.files import Report
from sessiontree.storage.fs import FileSystem

if TYPE_CHECKING:
    from sessiontree.catalog.empty import RemovedSession

PathLike = str | os.PathLike[str]


def not_restored(error: SessionExistsError) -> SessionExistsError:
    """The error for a session of the trash whose old path another one has."""
    return SessionExistsError(
        f"{error.file} is there already; move that session to the trash, and restore this one then",
        error.file,
    )


class Catalog(Protocol):
    """The sessions of a store, by their files.

    Attributes:
        root: the path of the folder, or the address.
        fs: what sessions in files are opened with.
    """

    @property
    def root(self) -> str: ...
    @property
    def fs(self) -> FileSystem: ...

    def project(self, cwd: PathLike) -> str:
        """What the files of a working directory's sessions are below.

        Raises:
            UsageError: no directory can have this path.
        """

    def new_file(self, cwd: PathLike, name: str) -> str:
        """The file of a new session of a working directory, whose folder is there."""

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        """The files of the sessions, one each, unordered; those of a directory, or all.

        Raises:
            StorageError: the root is no folder, or cannot be read.
        """

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        """The name of each session, unordered, with what changes when it is written.

        Those in the trash are left out.

        Raises:
            StorageError: the sessions cannot be listed.
        """

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The files of the sessions that can be read, unordered, each with its header's keys.

        Raises:
            StorageError: the sessions cannot be listed.
        """

    def file(self, name: str) -> str:
        """The file of a session that has this name, or may get it."""

    def holds(self, file: str) -> bool:
        """Whether a path or an address is below this one."""

    def infos(self, cwd: PathLike | None, report: Report) -> Iterator[SessionInfo]:
        """The facts of the same sessions."""

    def facts(self, file: str) -> SessionInfo:
        """The facts of one session, given its file.

        Raises:
            SessionTreeError: it is no session, or cannot be read.
        """

    def with_ending(self, cwd: PathLike | None, ending: str) -> Iterator[SessionInfo]:
        """The facts of the sessions whose file's name ends so, or was not given by a store.

        None at all if no file has this ending.
        """

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        """Move the sessions of a working directory to another; see `Store.move_project`."""

    def trash(self, file: str, stamp: str) -> str:
        """Move a session to the trash, below `stamp`; return its file there."""

    def trashed(self) -> Catalog:
        """The sessions in the trash, whose names begin with their stamps."""

    def restore(self, file: str) -> str:
        """Move a session of the trash back; return its file."""

    def finish(self) -> None:
        """Finish the moves that a killed program began."""

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        """Remove what was moved to the trash before a moment."""
