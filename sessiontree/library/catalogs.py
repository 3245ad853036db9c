"""Catalog: the sessions of a folder or of a place, and the ends of a copy.

A store is built on one: a folder of this machine, or a place that an address names. Each session
has a file: a path in a folder, an address in a place. Its name has the project's folder in front:
`<project>/<timestamp>_<id>.jsonl`. A session in the trash of a place has the name
`.trash/<stamp>/<name>`; to move it there is one step of the place, and so is to bring it back.

Invariants: nothing is ever overwritten; what cannot be listed is reported, and hides nothing; a
list of a place takes no request for each session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from sessiontree.errors import (
    ForeignFormatError,
    NothingToDoError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
    UsageError,
    with_step,
)
from sessiontree.library.homes import agent_at
from sessiontree.library.listing import (
    HEAD,
    TAIL,
    Reaches,
    SessionInfo,
    every,
    facts_in,
    facts_of,
    files_with_ending,
    header_of,
    in_project,
    reached,
    session_infos,
)
from sessiontree.library.path_rules import path_rules
from sessiontree.library.root import below, project_name
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.names import (
    SUFFIX,
    TRASH,
    Report,
    is_other_than_folder,
    path_in,
    session_files,
)
from sessiontree.storage.place import HeadAndTail, Place, StoredSession, is_address, without_secret
from sessiontree.storage.places import Location, located, shown
from sessiontree.storage.rollouts import in_force

if TYPE_CHECKING:
    from sessiontree.library.trash import RemovedSession


PathLike = str | os.PathLike[str]


class Catalog:
    """The sessions of a store, by their files; `Folder` and `Remote` say where these are.

    Attributes:
        place: where the sessions are; None: in a folder.
        root: the path of the folder, or the address.
        fs: what sessions in files are opened with.
    """

    place: Place | None
    root: str
    fs: FileSystem

    def project(self, cwd: PathLike) -> str:
        """What the files of a working directory's sessions are below.

        Raises:
            UsageError: no directory can have this path.
        """
        return self._at(project_name(cwd))

    def new_file(self, cwd: PathLike, name: str) -> str:
        """The file of a new session of a working directory, whose folder is there."""
        file = self._at(f"{project_name(cwd)}/{name}")
        make_room(self.fs, file)
        return file

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        """The files of the sessions, one each, unordered; those of a directory, or all.

        Raises:
            StorageError: the root is no folder, or cannot be read.
        """
        raise NotImplementedError

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        """The name of each session, unordered, with what changes when it is written.

        Those in the trash are left out.

        Raises:
            StorageError: the sessions cannot be listed.
        """
        raise NotImplementedError

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The files of the sessions that can be read, unordered, each with its header's keys.

        Raises:
            StorageError: the sessions cannot be listed.
        """
        raise NotImplementedError

    def file(self, name: str) -> str:
        """The file of a session that has this name, or may get it."""
        return self._at(name)

    def holds(self, file: str) -> bool:
        """Whether a path or an address is below this one."""
        raise NotImplementedError

    def infos(self, cwd: PathLike | None, report: Report) -> Iterator[SessionInfo]:
        """The facts of the same sessions as `files`."""
        yield from session_infos(self.files(cwd, report), report, self.facts)

    def facts(self, file: str) -> SessionInfo:
        """The facts of one session, given its file.

        Raises:
            SessionTreeError: it is no session, or cannot be read.
        """
        raise NotImplementedError

    def with_ending(self, cwd: PathLike | None, ending: str) -> Iterator[SessionInfo]:
        """The facts of the sessions whose file's name ends so, or was not given by a store.

        None at all if no file has this ending.
        """
        names = {file: self._name(file) or file for file in self.files(cwd, _ignore)}
        yield from session_infos(files_with_ending(names, ending), _ignore, self.facts)

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        """Move the sessions of a working directory to another; see `Store.move_project`."""
        raise NotImplementedError

    def trash(self, file: str, stamp: str) -> str:
        """Move a session to the trash, below `stamp`; return its file there."""
        if not self.holds(file) and (agent := agent_at(file)) is not None:
            message = f"{file} is kept by {agent.program}, and is never touched"
            raise with_step(ForeignFormatError(message, file, agent.program), "hide")
        name = self._name(file)
        if name is None:
            raise UsageError(
                f"{file} is not a session of {self.root}; name the folder of sessions it is in"
            )
        if name.startswith(f"{TRASH}/"):
            raise UsageError(f"{file} is in the trash of {self.root} already")
        return self._move(file, f"{TRASH}/{stamp}/{name}")

    def trashed(self) -> Catalog:
        """The sessions in the trash, whose names begin with their stamps."""
        raise NotImplementedError

    def restore(self, file: str) -> str:
        """Move a session of the trash back; return its file."""
        trash, _, name = (self._name(file) or "").partition("/")
        stamp, _, rest = name.partition("/")
        if trash != TRASH or not stamp or not rest:
            raise UsageError(
                f"{file} is not in the trash of {self.root}; list what is there, and name one"
            )
        try:
            return self._move(file, rest)
        except SessionExistsError as error:
            raise SessionExistsError(
                f"{error.file} is there already; move that session to the trash, and restore this "
                "one then",
                error.file,
            ) from error

    def finish(self) -> None:
        """Finish the moves that a killed program began."""

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        """Remove what was moved to the trash before a moment."""
        raise NotImplementedError

    def _at(self, name: str) -> str:
        """The path or the address below the root."""
        raise NotImplementedError

    def _name(self, file: str) -> str | None:
        """The name of a file below the root; None if a path is not below it.

        Raises:
            UsageError: the file is elsewhere.
        """
        raise NotImplementedError

    def _move(self, file: str, target: str) -> str:
        """Give a session another name, and return its file; one of the names is in the trash."""
        raise NotImplementedError


def _ignore(problem: str) -> None:
    """Report nothing: a list of the sessions does."""


def _directories(cwd: PathLike) -> list[PathLike]:
    """A working directory, and what other machines call it by the user's rules."""
    return [cwd, *path_rules().there(os.path.abspath(cwd))]


class Folder(Catalog):
    """Session files in a folder; there is no index. See `Catalog`."""

    def __init__(self, root: str, fs: FileSystem, reaches: Reaches = every) -> None:
        self.place = None
        self.root = root
        self.fs = fs
        self._reaches = reaches

    def _every_file(self, folder: str, report: Report) -> Iterator[str]:
        """The session files in a folder that may be read."""
        return reached(session_files(folder, report), self._reaches, report)

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        if is_other_than_folder(self.root):
            raise StorageError(f"{self.root} is not a folder; name a folder of sessions", self.root)
        folders = [self.root] if cwd is None else map(self.project, _directories(cwd))
        for folder in folders:
            with suppress(SessionNotFoundError):
                yield from in_force(self._every_file(folder, report))

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        for file in self._every_file(self.root, report) if os.path.isdir(self.root) else ():
            with suppress(OSError):  # gone meanwhile
                state = os.stat(file)
                name = os.path.relpath(file, self.root)
                yield name, (state.st_ino, state.st_size, state.st_mtime)

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for file in self._every_file(self.root, _ignore) if os.path.isdir(self.root) else ():
            with suppress(SessionTreeError):
                yield file, header_of(file, self.fs)

    def file(self, name: str) -> str:
        path = path_in(self.root, *name.split("/"))
        if path is None:
            raise StorageError(f"no file in {self.root} can have the name {name!r:.200}", name)
        return path

    def holds(self, file: str) -> bool:
        root = os.path.join(os.path.realpath(self.root), "")
        return not is_address(file) and os.path.realpath(file).startswith(root)

    def facts(self, file: str) -> SessionInfo:
        return facts_in(self.root, file, self.fs)

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        from sessiontree.library.move_project import rename_project  # few programs move projects

        source, target = self.project(old), self.project(new)
        return rename_project(self.fs, self.root, os.path.abspath(old), source, target, report)

    def trashed(self) -> Folder:
        return Folder(os.path.join(self.root, TRASH), self.fs, self._reaches)

    def finish(self) -> None:
        from sessiontree.library import trash  # few programs use the trash

        trash.finish(self.fs, self.root)

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        from sessiontree.library import trash  # few programs remove sessions

        return trash.empty(self.fs, self.root, before, report, dry_run=dry_run)

    def _at(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _name(self, file: str) -> str | None:
        if is_address(file):
            message = f"{without_secret(file)} is not in {self.root}; name the store at its address"
            raise with_step(UsageError(message), "name store")
        return below(self.root, file)

    def _move(self, file: str, target: str) -> str:
        from sessiontree.library import trash  # few programs use the trash

        return trash.move_trashed(self.fs, self.root, file, self._at(target))


class Remote(Catalog):
    """The sessions of a place whose names begin with a prefix; see `Catalog`."""

    def __init__(self, place: Place, prefix: str) -> None:
        if Location(place, prefix).is_session:
            raise UsageError(
                f"{place.address(prefix)} is the address of a session, not of a store; leave out "
                "its name"
            )
        self.place = self._place = place
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.root = place.address(self._prefix.rstrip("/"))
        self.fs: FileSystem = DISK

    def _folders(self, cwd: PathLike | None) -> list[str]:
        """What the names of a directory's sessions begin with, or of all."""
        if cwd is None:
            return [self._prefix]
        return [f"{self._prefix}{project_name(each)}/" for each in _directories(cwd)]

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        for found in chain.from_iterable(map(self._found, self._folders(cwd))):
            yield self._place.address(found.name)

    def _found(self, start: str) -> Iterator[StoredSession]:
        return (found for found in self._place.list(start) if self._counts(found.name))

    def _counts(self, name: str) -> bool:
        below = name[len(self._prefix) :]
        return name.endswith(SUFFIX) and not below.startswith(f"{TRASH}/")

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        for found in self._found(self._prefix):
            yield found.name[len(self._prefix) :], (found.size, found.modified)

    def found(self) -> Iterator[tuple[str, StoredSession]]:
        """The files of the sessions, unordered, each with its size and time; one list has all."""
        for found in self._found(self._prefix):
            yield self._place.address(found.name), found

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for ends in self._place.ends(self._prefix, HEAD, 1):
            if self._counts(ends.found.name) and ends.problem is None:
                file = self._place.address(ends.found.name)
                with suppress(SessionTreeError):
                    yield file, header_of(file, ends=ends)

    def holds(self, file: str) -> bool:
        place, name = located(file)
        return place is self._place and name.startswith(self._prefix)

    def infos(self, cwd: PathLike | None, report: Report) -> Iterator[SessionInfo]:
        folders = self._folders(cwd)
        for ends in chain.from_iterable(self._place.ends(each, HEAD, TAIL) for each in folders):
            if not self._counts(ends.found.name):
                continue
            if ends.problem is not None:
                report(str(ends.problem))
            else:
                look = partial(self._facts, ends=ends)
                yield from session_infos([self._place.address(ends.found.name)], report, look)

    def facts(self, file: str) -> SessionInfo:
        return self._facts(file)

    def _facts(self, file: str, ends: HeadAndTail | None = None) -> SessionInfo:
        return in_project(facts_of(file, ends=ends), self._place.name(file)[len(self._prefix) :])

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        source, target = (f"{self._prefix}{project_name(cwd)}/" for cwd in (old, new))
        about = os.path.abspath(old)
        if source == target:
            raise NothingToDoError(f"{about} is where its sessions are already")
        names = [found.name for found in self._found(source)]
        if not names:
            raise NothingToDoError(f"no session of {about} is in {self.root}, so nothing is moved")
        for name in names:
            self._place.move(name, target + name[len(source) :])
        return len(names)

    def trashed(self) -> Remote:
        return Remote(self._place, f"{self._prefix}{TRASH}")

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        from sessiontree.library import trash  # few programs remove sessions

        start = f"{self._prefix}{TRASH}/"
        for found in sorted(self._place.list(start)):
            trashed = trash.trashed_at(found.name[len(start) :].partition("/")[0])
            file = self._place.address(found.name)
            if trashed is None:
                report(f"{file} is not a session in the trash; it stays")
                continue
            if not trash.is_before(trashed, before):
                continue
            beside = dict(self._place.beside(found.name))
            size = found.size + sum(beside.values())
            try:
                if not dry_run:
                    self._place.remove(found.name)
            except SessionBusyError as error:
                report(str(error))
                continue
            files = [file, *map(self._place.address, beside)]
            yield trash.RemovedSession(file, trashed, files, size)

    def _at(self, name: str) -> str:
        return self._place.address(self._prefix + name)

    def _name(self, file: str) -> str:
        if not self.holds(file):
            where = "the address" if is_address(file) else "the folder"
            raise UsageError(
                f"{shown(file)} is not a session of {self.root}; name {where} of the store it is in"
            )
        return self._place.name(file)[len(self._prefix) :]

    def _move(self, file: str, target: str) -> str:
        self._place.move(self._place.name(file), self._prefix + target)
        return self._at(target)


class Endpoint(NamedTuple):
    """One end of a copy or a sync: a session, or a store of sessions."""

    at: Location
    store: Catalog | None  # the sessions below it, by their names; None for one session

    @property
    def file(self) -> str:
        return self.at.file

    @property
    def base(self) -> str:
        """The name of a session without its folder."""
        return os.path.basename(self.at.name)


def catalog_at(root: str, fs: FileSystem, reaches: Reaches = every) -> Catalog:
    """The sessions in a folder, or at an address; in a folder, only those that `reaches` lets in.

    Raises:
        UsageError: it is no path and no address, or the address of a session.
    """
    return _catalog_of(located(root), fs, reaches)


def _catalog_of(at: Location, fs: FileSystem, reaches: Reaches = every) -> Catalog:
    if at.place is None:
        return Folder(at.name, fs, reaches)
    return Remote(at.place, at.name)


def source_at(given: str, fs: FileSystem) -> Endpoint:
    """What a path or an address names, which must be there.

    Raises:
        SessionNotFoundError: there is nothing.
        UsageError: it is not an address.
    """
    place, name = at = located(given)
    if place is None:
        if not os.path.lexists(name):
            raise SessionNotFoundError(f"there is no file or folder {name}; check the path", name)
        return Endpoint(at, _catalog_of(at, fs) if os.path.isdir(name) else None)
    at = Location(place, name.rstrip("/"))
    if at.name and place.find(at.name) is not None:
        return Endpoint(at, None)
    is_empty = at.name and next(iter(place.list(f"{at.name}/")), None) is None
    if at.is_session or is_empty:
        raise SessionNotFoundError(f"there is no session at {at.file}; check the address", at.file)
    return Endpoint(at, _catalog_of(at, fs))


def target_at(given: str, fs: FileSystem) -> Endpoint:
    """What a path or an address names, where a session or a store may be made.

    A name that ends in `.jsonl` is that of a session, as long as there is no folder with it.
    """
    place, name = at = located(given)
    if place is not None:
        return Endpoint(at, None if at.is_session else _catalog_of(at, fs))
    if not name:
        raise UsageError("an empty path names nothing; give a file or a folder")
    is_session = name.endswith(SUFFIX) and not os.path.isdir(name)
    return Endpoint(at, None if is_session else _catalog_of(at, fs))


def make_room(fs: FileSystem, file: str) -> None:
    """Make the folder of a session that is a file."""
    if not is_address(file):
        from sessiontree.storage.sidecars import make_folders  # a store needs none of it

        make_folders(fs, os.path.dirname(os.path.realpath(file)))


def check_apart(one: Endpoint, other: Endpoint) -> None:
    """Check that two locations are not the same, and no store is in the other one.

    Raises:
        UsageError: they are.
    """
    if one.at.real == other.at.real:
        raise UsageError(f"{one.file} and {other.file} are the same; give two")
    for inner, outer in ((one, other), (other, one)):
        if inner.store is not None and outer.store is not None and outer.store.holds(inner.file):
            raise UsageError(f"{inner.file} is in {outer.file}; give two stores that are apart")
