"""Store: a folder of sessions, with a folder in it for each project; or the same at an address.

A session is `<root>/<project>/<timestamp>_<id>.jsonl`. The project's folder is its
working directory, encoded (`core.header`). There is no index: a file dropped in by hand
is found at once, whatever its name, and belongs to the project whose folder it is in.

Invariants: nothing is ever overwritten; a session is removed only by `empty_trash`; what cannot be
listed is reported and hides nothing.
"""

from __future__ import annotations

import builtins
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

from sessiontree.core.callback import check_never_awaited
from sessiontree.core.header import id_in_name
from sessiontree.errors import (
    ContentLostWarning,
    MigrationRefusedError,
    RefError,
    SessionNotFoundError,
    SessionTreeError,
    UsageError,
    warn,
)
from sessiontree.library import lookup
from sessiontree.library.catalogs import catalog_at
from sessiontree.library.listing import Reaches, SessionInfo, by_time, every, facts_of
from sessiontree.library.root import default_root, file_name, for_names
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.names import SUFFIX, Report, is_file
from sessiontree.storage.place import is_address, path_of, whole_path
from sessiontree.storage.places import shown

if TYPE_CHECKING:
    from collections.abc import Generator

    from sessiontree.engine.cursor import Ref
    from sessiontree.engine.gc import GcResult
    from sessiontree.importing.backup import BackupResult
    from sessiontree.importing.importer import ImportResult
    from sessiontree.library.search_file import SearchHit
    from sessiontree.library.trash import RemovedSession
    from sessiontree.session import CreateOptions, OpenOptions, Session

PathLike = str | os.PathLike[str]
Made = TypeVar("Made")

_ATTEMPTS: Final = 10


class Store:
    """A folder of sessions, or the sessions at an address.

    Args:
        root: the folder, created with the first session, or an address such as
            `postgresql://host/db`; by default what the environment variable SESSIONTREE_STORE or
            SESSIONTREE_HOME names, or else the folder `sessiontree` in the user's data folder.
        fs: the file system; tests pass another one.
        reaches: True for the path of a session file that may be read; for programs that confine
            what others read through them. By default all are read, also those that links lead to.

    Attributes:
        root: the absolute path of the folder, or the address without its password.
    """

    def __init__(
        self, root: PathLike | None = None, *, fs: FileSystem = DISK, reaches: Reaches = every
    ) -> None:
        given = os.fspath(default_root() if root is None else root)
        self._catalog = catalog_at(whole_path(path_of(given)), fs, reaches)
        self.root = self._catalog.root
        self._fs = fs

    def __repr__(self) -> str:
        return f"Store({self.root!r})"

    def project_dir(self, cwd: PathLike) -> str:
        """Return the path of the folder for the sessions of a working directory.

        Raises:
            UsageError: no directory can have this path.
        """
        return self._catalog.project(cwd)

    def create(
        self,
        /,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> Session:
        """Make a new session in the folder of its working directory, and open the session.

        Args:
            cwd: the working directory of the session, by default the current directory.
            id: the id of the session, by default a new UUID.
            options: the other options of `Session.create`.

        Raises:
            SessionExistsError, EntryError, StorageError: as for `Session.create`.
        """
        from sessiontree.session import Session  # slow to import, and a list needs none of it

        def make(file: str, about: str, chosen: str) -> Session:
            return Session.create(file, cwd=about, id=chosen, fs=self._fs, **options)

        return self._make(make, cwd, id)

    def open(
        self, /, ref: str, *, cwd: PathLike | None = None, **options: Unpack[OpenOptions]
    ) -> Session:
        """Open the session that a ref names.

        Args:
            ref: `latest`, an id, a name, or the start of an id; see `find`.
            cwd: find only sessions of this working directory; by default of all directories.
            options: the other options of `Session.open`.

        Raises:
            RefError: the ref names no session, or more than one.
            ForeignFormatError: a version 1 file that lies where an agent keeps its sessions.
            SessionTreeError: any error of `Session.open`.
        """
        return self._open(self.find(ref, cwd=cwd).file, options)

    def open_or_create(
        self,
        /,
        id: str,
        *,
        cwd: PathLike | None = None,
        **options: Unpack[CreateOptions],
    ) -> Session:
        """Open the session with an id, or make it; for a program that chooses its ids.

        The session is found by the id in the name of its file, without reading other sessions. Two
        programs that make the same id at the same moment make two sessions.

        Args:
            id: the whole id of the session.
            cwd: the working directory of a new session, by default the current directory. If given,
                only sessions of this directory are opened.
            options: the other options of `Session.create`. An existing session keeps its name and
                metadata.

        Raises:
            RefError: more than one session has the id.
            SessionTreeError: any error of `open` and `create`.
        """
        found = self._by_id(id, cwd)
        file = self._found(id, found, cwd).file if found else None
        return self._open_or_create(file, cwd, id, options)

    def continue_latest(
        self, /, *, cwd: PathLike | None = None, **options: Unpack[CreateOptions]
    ) -> Session:
        """Open the most recently written session of a working directory, or make the first one.

        Files of other agents in the store, which can only be read, are passed over.

        Args:
            cwd: the working directory, by default the current directory.
            options: the other options of `Session.create`. An existing session keeps its name and
                metadata.

        Raises:
            SessionTreeError: any error of `open` and `create`.
        """
        about = os.getcwd() if cwd is None else cwd
        latest = next((one.file for one in self.list(cwd=about) if one.agent is None), None)
        return self._open_or_create(latest, about, None, options)

    def _open_or_create(
        self, file: str | None, cwd: PathLike | None, id: str | None, options: CreateOptions
    ) -> Session:
        if file is None:
            return self.create(cwd=cwd, id=id, **options)
        from sessiontree.session import to_open  # slow to import, and a list needs none of it

        return self._open(file, to_open(options))

    def _open(self, file: str, options: OpenOptions) -> Session:
        from sessiontree.session import Session  # slow to import, and a list needs none of it

        unmigrated: OpenOptions = {**options, "migrate": False}
        try:
            return Session.open(file, fs=self._fs, **unmigrated)
        except MigrationRefusedError:
            if options.get("migrate", True) is False:
                raise
        from sessiontree.library.homes import check_not_of_agent  # few files are of version 1

        check_not_of_agent(file)
        return Session.open(file, fs=self._fs, **options)

    def fork(
        self,
        /,
        ref: str,
        at: Ref | None = None,
        *,
        cwd: PathLike | None = None,
        id: str | None = None,
        name: str | None = None,
    ) -> str:
        """Copy the path to an entry of a session into a new session of this store.

        Returns the path of the copy; the session does not change. See `Session.fork`.

        Args:
            ref: the path of the session, which may be outside the store, or a ref as for `find`.
            at: the last entry to copy, by default the current leaf.
            cwd: the working directory of the copy, by default that of the session.
            id: the id of the copy, by default a new UUID.
            name: the name of the copy, by default that of the session.

        Raises:
            RefError: a ref names no session or entry, or more than one.
            SessionTreeError: any error of `Session.open` and `Session.fork`.
        """
        from sessiontree.session import Session  # slow to import, and a list needs none of it

        source = path_of_ref(ref) or self.find(ref).file
        with Session.open(source, readonly=True, fs=self._fs) as original:

            def make(file: str, about: str, chosen: str) -> str:
                return original.fork(file, at, id=chosen, cwd=about, name=name)

            return self._make(make, self._cwd_of(source) if cwd is None else cwd, id)

    def find(
        self, ref: str, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> SessionInfo:
        """Find the session that a ref names.

        Args:
            ref: `latest`, an id, a name, or the first four or more characters of an id, tried in
                this order. Only the current name of a session counts, not earlier names.
            cwd: find only sessions of this working directory; by default of all directories.
            report: as for `list`.

        Raises:
            RefError: the ref names no session, or more than one.
        """
        by_id = [] if ref == lookup.LATEST else self._by_id(ref, cwd)
        if len(by_id) == 1:
            return by_id[0]
        return self._found(ref, self.list(cwd=cwd, report=report), cwd)

    def list(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> builtins.list[SessionInfo]:
        """List the sessions, most recently written first.

        `SessionInfo.counts` has the turns, the model, the usage and the cost of a session. It is
        read from the cache when you ask for it.

        Args:
            cwd: list only sessions of this working directory; by default of all directories.
            report: called with a text about each file that cannot be listed; None: a warning is
                given.

        Raises:
            StorageError: the root is not a folder, or cannot be read.
        """
        found = list(self.iter_sessions(cwd=cwd, report=report))
        found.sort(key=by_time, reverse=True)
        return found

    def iter_sessions(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> Iterator[SessionInfo]:
        """Yield each session as soon as it is found, in no fixed order; see `list`."""
        report = report or warn
        check_never_awaited("report", report)
        yield from self._catalog.infos(cwd, report)

    def paths(
        self, *, cwd: PathLike | None = None, report: Report | None = None
    ) -> builtins.list[str]:
        """Return the paths of the session files, newest first by the time in the file name.

        No file is read. The arguments and errors are the same as for `list`.
        """
        return sorted(self._files(cwd, report or warn), key=os.path.basename, reverse=True)

    def search(
        self,
        pattern: str,
        *,
        regex: bool = False,
        ignore_case: bool | None = None,
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
        """Search for entries that contain all words of a pattern, in all branches.

        The newest sessions are searched first, by the time in the file name. Each hit comes as
        soon as it is found. Files of other agents in the store are searched too. Types, roles,
        ids and images are not searched; `sessiontree.text.preview` has the details.

        Args:
            pattern: words, and phrases in quotes, which must all be in the text of an entry, with
                or without accents, or, with `regex`, a regular expression of Python's `re`.
            regex: whether the pattern is a regular expression.
            ignore_case: whether to ignore case; None: case counts if the pattern has a capital,
                or is a regular expression. False: accents and the width of letters count as well.
            role: find only entries of this role, or of one of these roles.
            tool: find only calls of this tool, and the results of these calls.
            since: find only entries from this time on; a time without a zone is local time.
            cwd: search only sessions of this working directory; by default of all directories.
            current: whether to find only entries on the path to the leaf of a session.
            blobs: whether to search large content too, which is stored in blobs.
            limit: the maximum number of hits.
            report: called with a text about each unreadable file or line; None: a warning is given.
            processes: the number of processes that search; None: chosen automatically. Extra
                processes are forked, and end when the iterator is closed. Sessions in a bucket
                are searched by one process.

        Raises:
            UsageError: the pattern is empty, or is not a valid regular expression.
            StorageError: the root is not a folder, or cannot be read.
        """
        # slow to import, and a list needs none of it
        from sessiontree.library.search import search
        from sessiontree.library.search_file import SearchFilter
        from sessiontree.text.pattern import query

        report = report or warn
        roles = frozenset([role] if isinstance(role, str) else role)
        return search(
            query(pattern, regex=regex, ignore_case=ignore_case),
            self.paths(cwd=cwd, report=report),
            SearchFilter(roles, tool, since, current, blobs),
            report,
            limit=limit,
            processes=processes,
        )

    def latest(self, *, cwd: PathLike | None = None) -> SessionInfo | None:
        """Return the most recently written session, or None."""
        return next(iter(self.list(cwd=cwd)), None)

    def gc(
        self,
        *,
        cwd: PathLike | None = None,
        now: datetime | None = None,
        dry_run: bool = False,
        each: Callable[[str, GcResult], object] | None = None,
        report: Report | None = None,
    ) -> dict[str, GcResult]:
        """Remove the garbage of all sessions; see `Session.gc`.

        A session without garbage is only read. Files of other agents and files of version 1 have
        no garbage, and do not change. The sessions in the trash are left out.

        Args:
            cwd: look only at sessions of this working directory; by default of all directories.
            now: a time with a time zone to use as the current time.
            dry_run: only report what would be removed.
            each: called with the path and the result of each session as soon as it is done.
            report: called with a text about each session whose garbage cannot be removed; None: a
                warning is given. The other sessions are still done.

        Returns:
            What was removed, by the path of the session; without the sessions that had no garbage.

        Raises:
            UsageError: the time has no time zone.
            StorageError: the root is not a folder, or cannot be read.
        """
        from sessiontree.library.one import collected  # few programs remove garbage

        check_never_awaited("each", each)
        report = report or warn
        found: dict[str, GcResult] = {}
        files = self.paths(cwd=cwd, report=report)
        for file, result in collected(self._fs, files, now, report, dry_run=dry_run):
            if each is not None:
                each(file, result)
            if not result.is_empty:
                found[file] = result
        return found

    def backup(
        self,
        paths: Iterable[PathLike] = (),
        *,
        cache: PathLike | None = None,
        each: Callable[[ImportResult], object] | None = None,
    ) -> BackupResult:
        """Import what is new in the files of agents; what an agent deletes stays in the store.

        What was written is read back before it counts as kept: lines are compared with their
        checksums and counted, and blobs are compared with their hashes. A file that did not change
        since an earlier backup is not read again.

        Args:
            paths: files and folders of agents; by default the folders where all agents that are
                read keep their sessions.
            cache: the folder for the sizes and times of the files that were seen; by default the
                user's folder of caches. Without it a backup takes longer, and does the same.
            each: called with each session that is new or has new entries, as soon as it is kept.

        Returns:
            What was kept, and what could not be kept: a file that cannot be read hides no other.

        Raises:
            SessionBusyError: another backup writes to the store, and does not end.
            UsageError: the root is a file.
            StorageError: the store cannot be written.
        """
        # slow to import, and few programs make backups
        from sessiontree.importing.backup import Backup
        from sessiontree.library.root import cache_folder

        check_never_awaited("each", each)
        folder = cache_folder() if cache is None else os.fspath(cache)
        backup = Backup(self.root, [os.fspath(path) for path in paths], fs=self._fs, cache=folder)
        return backup.run(each=each) if each is not None else backup.run()

    def move_project(self, old: PathLike, new: PathLike) -> int:
        """Move the sessions of a renamed working directory to the folder for its new path.

        Those move that are in the folder for the old path, where `create` and imports put them. A
        session file in any other folder of the store stays, whatever directory its header names.

        If a session is open during the move and not `exclusive`, the next write to the session
        raises SessionNotFoundError. Nothing is lost.

        Args:
            old: the old path of the working directory.
            new: the new path of the working directory, which may already have sessions.

        Returns:
            The number of sessions that were moved.

        Raises:
            NothingToDoError: the old path has no sessions.
            SessionBusyError: an exclusive writer holds one of the sessions; nothing was moved.
            SessionExistsError: both folders have a file with the same name. Files handled before
                this file are already moved.
            StorageError: the operating system reported an error.
        """
        return self._catalog.move_project(old, new, warn)

    def trash(self, ref: str) -> str:
        """Move a session to the trash, with all its files.

        Args:
            ref: the path of the session, or a ref as for `find`.

        Returns:
            The path of the session in the trash.

        Raises:
            RefError: the ref names no session, or more than one.
            UsageError: the file is not in the store, or is already in the trash.
            SessionBusyError: a writer has the session open with `exclusive=True`.
            StorageError: the operating system reported an error.
        """
        from sessiontree.engine.writer import fresh_uuid, now  # a list needs none of it

        file = path_of_ref(ref) or self.find(ref).file
        return self._catalog.trash(file, f"{for_names(now())}_{fresh_uuid()[:8]}")

    def trashed(self, *, report: Report | None = None) -> builtins.list[SessionInfo]:
        """List the sessions in the trash, most recently trashed first; see `list`."""
        check_never_awaited("report", report)
        trash = self._catalog.trashed()
        found = sorted(trash.infos(None, report or warn), key=by_time, reverse=True)
        found.sort(key=lambda one: one.file.removeprefix(trash.root), reverse=True)
        return found

    def restore(self, ref: str) -> str:
        """Move a session from the trash back to its old path.

        Args:
            ref: the path of the session in the trash, or a ref as for `find_trashed`.

        Returns:
            The path of the restored session. If blobs are missing, a ContentLostWarning says so.

        Raises:
            RefError: the ref names no session in the trash, or more than one.
            SessionExistsError: another file now has the old path.
            StorageError: the operating system reported an error.
        """
        from sessiontree.session import Session
        from sessiontree.views.costs import lost_blobs  # few programs use the trash

        restored = path_of_ref(ref) or self.find_trashed(ref)
        file = self._catalog.restore(restored)
        lost = 0
        with (  # what cannot be opened is restored as well
            suppress(SessionTreeError),
            Session.open(file, readonly=True, fs=self._fs) as session,
        ):
            lost = lost_blobs(session.reader)
        if lost:
            warn(
                f"{file} is restored, but {lost} of the blobs that it needs are missing or cannot "
                "be read; verify the file to see which",
                ContentLostWarning,
            )
        return file

    def find_trashed(self, ref: str, *, report: Report | None = None) -> str:
        """Return the path of a trashed session, given a ref.

        The arguments and errors are as for `find`; `latest` is the session that was trashed last.
        Of several that are copies of one conversation it is the one that was trashed last.
        """
        from sessiontree.library.conversations import first_of_each  # few use the trash

        where = f"in the trash of {self.root}"
        command = shlex.join(("sessiontree", "restore", "--store", self.root))
        try:
            trashed = self.trashed(report=report)
            return lookup.find(ref, first_of_each(trashed), where, command).file
        except RefError:
            self._catalog.finish()  # a session that a killed move left in two parts
            raise

    def empty_trash(
        self,
        *,
        older_than: timedelta | datetime,
        dry_run: bool = False,
        each: Callable[[RemovedSession], object] | None = None,
        report: Report | None = None,
    ) -> builtins.list[RemovedSession]:
        """Remove sessions from the trash for good, with all their files.

        A folder in the trash is left as it is if it holds a link, or a file that does not belong to
        its session. If the program is killed, the next call removes the rest.

        Args:
            older_than: remove the sessions that were trashed longer ago than this, or before this
                time.
            dry_run: only report what would be removed.
            each: called with each removed session as soon as it is removed.
            report: called with a text about each folder that is left; None: a warning is given.

        Returns:
            The removed sessions, longest trashed first.

        Raises:
            UsageError: the duration is negative, or the time has no time zone.
            StorageError: the trash is a link, or cannot be read.
        """
        check_never_awaited("each", each)
        check_never_awaited("report", report)
        before = _moment_of(older_than)
        removed: builtins.list[RemovedSession] = []
        for one in self._catalog.empty(before, report or warn, dry_run=dry_run):
            removed.append(one)
            if each is not None:
                each(one)
        return removed

    def _make(
        self, make: Callable[[str, str, str], Made], cwd: PathLike | None, id: str | None
    ) -> Made:
        """Make a session with a function of its file, its directory and its id."""
        from sessiontree.engine.writer import fresh_uuid, now

        about = os.path.abspath(os.getcwd() if cwd is None else cwd)
        for attempt in range(_ATTEMPTS):
            chosen = id or fresh_uuid()
            file = self._catalog.new_file(about, _name_for(now(), chosen))
            try:
                return make(file, about, chosen)
            except SessionNotFoundError:  # the project was moved meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _found(
        self, ref: str, sessions: builtins.list[SessionInfo], cwd: PathLike | None
    ) -> SessionInfo:
        where = f"in {self.root}" if cwd is None else f"of {os.path.abspath(cwd)} in {self.root}"
        command = shlex.join(("sessiontree", "ls", self.root))
        return lookup.find(ref, sessions, where, command)

    def _files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        """The files of the sessions, one each, unordered; none if there is no folder."""
        check_never_awaited("report", report)
        return self._catalog.files(cwd, report)

    def _cwd_of(self, file: str) -> str | None:
        """The working directory of a session, which may be outside the store."""
        if is_address(file) == (self._catalog.place is not None):
            return self._catalog.facts(file).cwd
        return facts_of(file, self._fs).cwd

    def _by_id(self, id: str, cwd: PathLike | None) -> builtins.list[SessionInfo]:
        """The sessions of a whole id, if a file is named for it.

        Files named for another id are not read.
        """
        try:
            ending = f"_{id_in_name(id)}{SUFFIX}"
        except UnicodeError:  # no file can have such a name
            return []
        found = self._catalog.with_ending(cwd, ending) if id else iter(())
        return [one for one in found if one.id == id]


def _moment_of(older_than: timedelta | datetime) -> datetime:
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise UsageError(f"older_than is a time with a time zone, not {older_than}")
        return older_than
    if older_than < timedelta():
        raise UsageError(f"older_than is a duration of zero or more, not {older_than}")
    try:
        return datetime.now(UTC) - older_than
    except OverflowError:  # nothing is that old
        return datetime.min.replace(tzinfo=UTC)


def path_of_ref(ref: str) -> str | None:
    """The absolute path or the shown address that a ref is; None if it names a session."""
    if is_address(ref):
        return shown(ref)
    return os.path.abspath(ref) if os.path.isabs(ref) or is_file(ref) else None


def _name_for(created: str, id: str) -> str:
    """The name of a new session's file.

    Raises:
        UsageError: no file can be named for the id.
    """
    try:
        return file_name(created, id)
    except UnicodeError as error:
        raise UsageError(
            f"no file can be named for the id {id!r:.200}; give another one"
        ) from error
