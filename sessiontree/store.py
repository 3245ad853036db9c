"""Store: a folder of sessions, one folder a project in it.

A session is `<root>/<project>/<timestamp>_<id>.jsonl`. The project's folder is its
working directory, encoded (`core.project`). The folder is the truth: there is no
index, so what is dropped in by hand is there at once, whatever it is called, and
belongs to the project in whose folder it lies.

Invariants: nothing is ever overwritten or removed; what cannot be listed is
reported, and hides nothing else.
"""

from __future__ import annotations

import builtins
import os
import re
import shlex
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from sessiontree.catalog.listing import SessionInfo, facts_of, listed, moment
from sessiontree.catalog.lookup import LATEST, named
from sessiontree.core.project import directory_of, encoded, folder_name
from sessiontree.errors import (
    SessionNotFoundError,
    SessionTreeWarning,
    StorageError,
    UsageError,
)
from sessiontree.storage.files import SUFFIX, Report, session_files
from sessiontree.storage.fs import DISK, FileSystem

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime

    from sessiontree.catalog.search_file import SearchHit
    from sessiontree.session import Session

PathLike = str | os.PathLike[str]

_LONGEST_ID: Final = 150
_LONGEST_TIME: Final = 40
_ATTEMPTS: Final = 10


def default_root() -> str:
    """Where sessions are kept unless somebody says otherwise: the user's data folder."""
    from platformdirs import user_data_dir  # not needed by who names a folder

    return user_data_dir("sessiontree", appauthor=False)


class Store:
    """A folder of sessions.

    Args:
        root: the folder; made when the first session is. By default the user's data folder;
            SESSIONTREE_HOME, which the command line goes by, is not looked at here.
        fs: the seam to the disk; another one is for tests.

    Attributes:
        root: its absolute path.
    """

    def __init__(self, root: PathLike | None = None, *, fs: FileSystem = DISK) -> None:
        self.root = os.path.abspath(default_root() if root is None else root)
        self._fs = fs

    def __repr__(self) -> str:
        return f"Store({self.root!r})"

    def project_dir(self, cwd: PathLike) -> str:
        """The path of the folder that holds the sessions of a working directory."""
        try:
            return os.path.join(self.root, folder_name(os.path.abspath(cwd)))
        except (UnicodeError, ValueError) as error:
            raise UsageError(f"{os.fspath(cwd)!r:.200} is no path of a directory") from error

    def create(
        self, *, cwd: PathLike | None = None, id: str | None = None, **options: Any
    ) -> Session:
        """Make a new session in its project's folder, and open it.

        Args:
            cwd: the working directory it is about, by default the current one.
            id: its id, by default a fresh UUID.
            options: as for `Session.create`.

        Raises:
            SessionExistsError, EntryError, StorageError: as `Session.create` does.
        """
        from sessiontree.engine.writer import fresh_uuid, now
        from sessiontree.session import Session  # heavy, and a list needs none of this
        from sessiontree.storage.move import make_folders

        about = os.path.abspath(os.getcwd() if cwd is None else cwd)
        for attempt in range(_ATTEMPTS):
            folder = self.project_dir(about)
            make_folders(self._fs, folder)
            chosen = id or fresh_uuid()
            file = os.path.join(folder, file_name(now(), chosen))
            try:
                return Session.create(file, cwd=about, id=chosen, fs=self._fs, **options)
            except SessionNotFoundError:  # the project was moved meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def open(self, ref: str, *, cwd: PathLike | None = None, **options: Any) -> Session:
        """Open a session by its id, a unique prefix of it, its name, or `latest`.

        Args:
            ref: what names it; see `find`.
            cwd: only among the sessions of this working directory.
            options: as for `Session.open`.

        Raises:
            RefError: it names none, or more than one.
        """
        from sessiontree.session import Session

        return Session.open(self.find(ref, cwd=cwd).file, fs=self._fs, **options)

    def find(
        self, ref: str, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> SessionInfo:
        """The session that `latest`, an id, a name, or four characters or more of an id name.

        They are tried in this order. A name is the one the session has now.

        Args:
            ref: what names it.
            cwd: only among the sessions of this working directory.
            report: as for `list`.

        Raises:
            RefError: it names none, or more than one.
        """
        of_id = [] if ref == LATEST else self._of_id(ref, cwd)
        if len(of_id) == 1:
            return of_id[0]
        where = f"in {self.root}" if cwd is None else f"of {os.path.abspath(cwd)} in {self.root}"
        command = shlex.join(("sessiontree", "ls", self.root))
        return named(ref, self.list(cwd=cwd, report=report), where, command)

    def list(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> builtins.list[SessionInfo]:
        """The sessions, the one that was written to last first.

        Args:
            cwd: only those of this working directory.
            report: told of each file that cannot be listed, and why; by default a warning
                is given.
        """
        found = list(self.iter_sessions(cwd=cwd, report=report))
        found.sort(key=in_time, reverse=True)
        return found

    def iter_sessions(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> Iterator[SessionInfo]:
        """The same one by one, in no order, as they are found.

        Raises:
            StorageError: the root is no folder, or one that cannot be read.
        """
        report = report or _warn
        yield from listed(self._files(cwd, report), report, self._look)

    def paths(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> builtins.list[str]:
        """The paths of the session files, those named for a later time first; none is read.

        Raises:
            StorageError: as for `survey`.
        """
        return sorted(self._files(cwd, report or _warn), key=os.path.basename, reverse=True)

    def search(
        self,
        pattern: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        role: str | Collection[str] = (),
        tool: str | None = None,
        since: datetime | None = None,
        cwd: PathLike | None = None,
        current: bool = False,
        blobs: bool = False,
        limit: int | None = None,
        report: Report | None = None,
        processes: int | None = 1,
    ) -> Generator[SearchHit, None, None]:
        """The entries whose text matches a pattern, in all branches, as they are found.

        The sessions named for a later time come first, those of other agents among them.
        What counts as text is said in `text.searchable`: not types, roles, ids and images.

        Args:
            pattern: the text, accents spelled either way, or the regular expression.
            regex: whether it is a regular expression, of Python's `re`, taken as it stands.
            ignore_case: letters match in either case.
            role: only entries that speak in this role, or in one of these.
            tool: only calls of this tool, and their results.
            since: only entries written then or later; without a zone it is local time.
            cwd: only sessions of this working directory.
            current: only what is on the path that a session stands at.
            blobs: also what was too large for a line, and lies beside the file.
            limit: how many at most.
            report: told of each file and line that cannot be read, and why; by default a
                warning is given.
            processes: how many share the files; None: as many as are worth it. More than
                this one are forked, and end when the iterator is closed.

        Raises:
            UsageError: an empty pattern, or no regular expression.
            StorageError: as for `survey`.
        """
        from sessiontree.catalog import search as searching  # heavy, and a list needs none of this
        from sessiontree.text.pattern import Pattern

        report = report or _warn
        return searching.search(
            Pattern(pattern, regex=regex, ignore_case=ignore_case),
            self.paths(cwd=cwd, report=report),
            searching.Wanted(
                frozenset([role] if isinstance(role, str) else role), tool, since, current, blobs
            ),
            report,
            limit=limit,
            processes=processes,
        )

    def _files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        """The session files, in no order; none where there is no folder."""
        if os.path.lexists(self.root) and not os.path.isdir(self.root):
            raise StorageError(f"{self.root} is no folder, as one of sessions would be", self.root)
        with suppress(SessionNotFoundError):
            yield from session_files(self.root if cwd is None else self.project_dir(cwd), report)

    def latest(self, *, cwd: PathLike | None = None) -> SessionInfo | None:
        """The session that was written to last, or None."""
        return next(iter(self.list(cwd=cwd)), None)

    def _look(self, file: str) -> SessionInfo:
        """What is told of a file; its project is the one in whose folder it lies."""
        found = facts_of(file, self._fs)
        project = os.path.relpath(file, self.root).split(os.sep)[0]
        directory = directory_of(project)
        return found if directory in (None, found.cwd) else replace(found, cwd=directory)

    def _of_id(self, id: str, cwd: PathLike | None) -> builtins.list[SessionInfo]:
        """Those of a whole id, where a file is named for it.

        Of the others none is looked into whose name tells that it is of another id.
        """
        folder = self.root if cwd is None else self.project_dir(cwd)
        files = list(session_files(folder, _ignore)) if id and os.path.isdir(folder) else []
        try:
            ending = f"_{_as_name(id)}{SUFFIX}"
        except UnicodeError:  # a text that names no file
            return []
        if not any(file.endswith(ending) for file in files):
            return []
        likely = [file for file in files if file.endswith(ending) or not _tells_id(file)]
        return [one for one in listed(likely, _ignore, self._look) if one.id == id]

    def move_project(self, old: PathLike, new: PathLike) -> int:
        """Let the sessions of a working directory be those of another: it was renamed.

        The sessions of both are then together. One that a writer holds keeps all where
        they are; a session that is open and not held says that its file vanished when it
        is written to, and loses nothing.

        Returns:
            how many sessions were moved.

        Raises:
            NothingToDoError: there is none.
            SessionBusyError: a writer holds one; nothing was moved.
            SessionExistsError: both have a file of one name; what was moved before stays so.
            StorageError: the system refused.
        """
        from sessiontree.catalog.move import rename_project  # not needed to look at sessions

        source, target = self.project_dir(old), self.project_dir(new)
        return rename_project(self._fs, self.root, os.path.abspath(old), source, target, _warn)

    def trash(self, ref: str) -> str:
        """Put a session away, with all that lies beside it; the path it has in the trash.

        Args:
            ref: its path, or what names it as for `find`.

        Raises:
            RefError: it names none, or more than one.
            UsageError: the file is not in the store, or in its trash already.
            SessionBusyError: a writer holds it.
            StorageError: the system refused.
        """
        from sessiontree.catalog import trash  # heavy, and not needed to look at sessions

        file = path_given(ref) or self.find(ref).file
        return trash.throw_away(self._fs, self.root, file, self._stamp())

    def trashed(self, *, report: Report | None = None) -> builtins.list[SessionInfo]:
        """The sessions in the trash, the one that was put away last first."""
        from sessiontree.catalog import trash  # heavy, and not needed to look at sessions

        folder = os.path.join(self.root, trash.TRASH)
        found = Store(folder, fs=self._fs).list(report=report)
        found.sort(key=lambda one: os.path.relpath(one.file, folder).split(os.sep)[0], reverse=True)
        return found

    def restore(self, ref: str) -> str:
        """Bring a session back from the trash to where it was; its path.

        Args:
            ref: its path in the trash, or what names it among those there, of which
                `latest` is the one that was put away last.

        Raises:
            RefError: it names none, or more than one.
            SessionExistsError: another file has its place now.
            StorageError: the system refused.
        """
        from sessiontree.catalog import trash  # heavy, and not needed to look at sessions

        file = path_given(ref) or self.find_trashed(ref)
        return trash.bring_back(self._fs, self.root, file)

    def find_trashed(self, ref: str, *, report: Report | None = None) -> str:
        """The path in the trash of the session that a ref names there; see `find`."""
        where = f"in the trash of {self.root}"
        command = shlex.join(("sessiontree", "restore", "--store", self.root))
        return named(ref, self.trashed(report=report), where, command).file

    def _stamp(self) -> str:
        from sessiontree.engine.writer import fresh_uuid, now

        return f"{_for_names(now())}_{fresh_uuid()[:8]}"


def path_given(ref: str) -> str | None:
    """The absolute path of the file that a ref is the path of; None where it is a name."""
    return os.path.abspath(ref) if os.path.isabs(ref) or os.path.isfile(ref) else None


def in_time(one: SessionInfo) -> tuple[float, str]:
    """What sessions are ordered by: the last change, and in one millisecond the file's name."""
    return moment(one.modified), os.path.basename(one.file)


def file_name(created: str | None, id: str) -> str:
    """The name of a session's file: when it was made, where that is known, and its id."""
    name = f"{_as_name(id)}{SUFFIX}"
    return name if created is None else f"{encoded(_for_names(created))[:_LONGEST_TIME]}_{name}"


def _tells_id(file: str) -> bool:
    """Whether a file is named as `file_name` names one, with its id at the end."""
    return _OWN_NAME.fullmatch(os.path.basename(file)) is not None


_OWN_NAME: Final = re.compile(r"\d{4}(-\d\d){2}T\d\d(-\d\d){2}-\d{3}Z_.+\.jsonl")


def _for_names(timestamp: str) -> str:
    return timestamp.replace(":", "-").replace(".", "-")


def _as_name(id: str) -> str:
    """An id as a part of a file name."""
    name = encoded(id)
    if len(name.encode()) <= _LONGEST_ID:
        return name
    return folder_name(os.sep + id)[-_LONGEST_ID:]


def _warn(problem: str) -> None:
    warnings.warn(problem, SessionTreeWarning, stacklevel=4)


def _ignore(problem: str) -> None:
    """The report of one who was told before."""
