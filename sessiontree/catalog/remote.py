"""The sessions in a place that is no folder of this machine; see `Catalog`.

A session in the trash has the name `.trash/<stamp>/<name>`. To move it there is one step of the
place, and so is to bring it back.

Invariant: a list takes no request for each session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sessiontree.catalog.base import PathLike, not_restored
from sessiontree.catalog.listing import (
    HEAD,
    TAIL,
    SessionInfo,
    facts_of,
    files_with_ending,
    header_of,
    session_infos,
)
from sessiontree.core.project import directory_of, folder_name
from sessiontree.errors import (
    NothingToDoError,
    SessionBusyError,
    SessionExistsError,
    SessionTreeError,
    UsageError,
)
from sessiontree.storage.backends import place_of, shown
from sessiontree.storage.files import SUFFIX, TRASH, Report
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.logs import Logs
from sessiontree.storage.place import Ends, Found, Place, is_address, is_session_address

if TYPE_CHECKING:
    from sessiontree.catalog.empty import RemovedSession

_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z_[0-9a-f]{8}")
"""What `Store.trash` puts before the name of a session."""


class Remote:
    """The sessions of a place whose names begin with a prefix; see `Catalog`."""

    def __init__(self, place: Place, prefix: str) -> None:
        self._place = place
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.root = place.address(self._prefix.rstrip("/"))
        self.fs: FileSystem = DISK

    @classmethod
    def at(cls, url: str) -> Remote:
        """The sessions at an address.

        Raises:
            UsageError: it is the address of a session.
        """
        if is_session_address(url):
            raise UsageError(
                f"{shown(url)} is the address of a session, not of a store; leave out its name"
            )
        return cls(*place_of(url))

    def _folder(self, cwd: PathLike) -> str:
        """The part of the names of a directory's sessions that is its own, with a slash."""
        try:
            return f"{self._prefix}{folder_name(os.path.abspath(cwd))}/"
        except (UnicodeError, ValueError) as error:
            raise UsageError(f"{os.fspath(cwd)!r:.200} is not a path of a directory") from error

    def project(self, cwd: PathLike) -> str:
        return self._place.address(self._folder(cwd).rstrip("/"))

    def new_file(self, cwd: PathLike, name: str) -> str:
        return self._place.address(self._folder(cwd) + name)

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        start = self._prefix if cwd is None else self._folder(cwd)
        for found in self._found(start):
            yield self._place.address(found.name)

    def _found(self, start: str) -> Iterator[Found]:
        return (found for found in self._place.list(start) if self._counts(found.name))

    def _counts(self, name: str) -> bool:
        below = name[len(self._prefix) :]
        return name.endswith(SUFFIX) and not below.startswith(f"{TRASH}/")

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        for found in self._found(self._prefix):
            yield found.name[len(self._prefix) :], (found.size, found.modified)

    def found(self) -> Iterator[tuple[str, Found]]:
        """The files of the sessions, unordered, each with its size and time; one list has all."""
        for found in self._found(self._prefix):
            yield self._place.address(found.name), found

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for ends in self._place.ends(self._prefix, HEAD, 1):
            if self._counts(ends.found.name) and ends.problem is None:
                file = self._place.address(ends.found.name)
                with suppress(SessionTreeError):
                    yield file, header_of(file, Logs(self._place, ends))

    def file(self, name: str) -> str:
        return self._place.address(self._prefix + name)

    def holds(self, file: str) -> bool:
        if not is_address(file):
            return False
        place, name = place_of(file)
        return place is self._place and name.startswith(self._prefix)

    def infos(self, cwd: PathLike | None, report: Report) -> Iterator[SessionInfo]:
        start = self._prefix if cwd is None else self._folder(cwd)
        for ends in self._place.ends(start, HEAD, TAIL):
            if not self._counts(ends.found.name):
                continue
            if ends.problem is not None:
                report(str(ends.problem))
            else:
                look = partial(self._facts, ends=ends)
                yield from session_infos([self._place.address(ends.found.name)], report, look)

    def facts(self, file: str) -> SessionInfo:
        return self._facts(file)

    def _facts(self, file: str, ends: Ends | None = None) -> SessionInfo:
        found = facts_of(file, Logs(self._place, ends))
        project = self._place.name(file)[len(self._prefix) :].partition("/")[0]
        directory = directory_of(project)
        is_own = directory in (None, found.cwd)
        return found if is_own else _with_cwd(found, directory)

    def with_ending(self, cwd: PathLike | None, ending: str) -> Iterator[SessionInfo]:
        names = {file: self._place.name(file) for file in self.files(cwd, lambda problem: None)}
        likely = files_with_ending(names, ending)
        yield from session_infos(likely, lambda problem: None, self.facts)

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        source, target = self._folder(old), self._folder(new)
        about = os.path.abspath(old)
        if source == target:
            raise NothingToDoError(f"{about} is where its sessions are already")
        names = [self._place.name(file) for file in self.files(old, report)]
        if not names:
            raise NothingToDoError(f"no session of {about} is in {self.root}, so nothing is moved")
        for name in names:
            self._place.move(name, target + name[len(source) :])
        return len(names)

    def trash(self, file: str, stamp: str) -> str:
        name = self._own_name(file)
        if name.startswith(f"{self._prefix}{TRASH}/"):
            raise UsageError(f"{file} is in the trash of {self.root} already")
        target = f"{self._prefix}{TRASH}/{stamp}/{name[len(self._prefix) :]}"
        self._place.move(name, target)
        return self._place.address(target)

    def trashed(self) -> Remote:
        return Remote(self._place, f"{self._prefix}{TRASH}")

    def restore(self, file: str) -> str:
        name = self._own_name(file)
        start = f"{self._prefix}{TRASH}/"
        stamp, slash, rest = name[len(start) :].partition("/")
        if not name.startswith(start) or not stamp or not slash or not rest:
            raise UsageError(
                f"{file} is not in the trash of {self.root}; list what is there, and name one"
            )
        try:
            self._place.move(name, self._prefix + rest)
        except SessionExistsError as error:
            raise not_restored(error) from error
        return self._place.address(self._prefix + rest)

    def _own_name(self, file: str) -> str:
        if not self.holds(file):
            where = "the address" if is_address(file) else "the folder"
            raise UsageError(
                f"{shown(file)} is not a session of {self.root}; name {where} of the store it is in"
            )
        return self._place.name(file)

    def finish(self) -> None:
        self._place.finish()

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        from sessiontree.catalog.empty import RemovedSession  # few programs remove sessions

        if not dry_run:
            self.finish()
        start = f"{self._prefix}{TRASH}/"
        for found in sorted(self._place.list(start)):
            stamp = _STAMP.fullmatch(found.name[len(start) :].partition("/")[0])
            file = self._place.address(found.name)
            if stamp is None:
                report(f"{file} is not a session in the trash; it stays")
                continue
            trashed = f"{stamp[1]}T{stamp[2]}:{stamp[3]}:{stamp[4]}.{stamp[5]}Z"
            if _moment(trashed) >= before:
                continue
            contents = self._place.contents
            keys = list(contents.keys(f"{found.name}."))
            kept = filter(None, map(contents.look, keys))
            size = found.size + sum(one.size for one in kept)
            try:
                if not dry_run:
                    self._place.remove(found.name)
            except SessionBusyError as error:
                report(str(error))
                continue
            files = [file, *map(self._place.address, keys)]
            yield RemovedSession(file, trashed, files, size)


def _moment(trashed: str) -> datetime:
    try:
        return datetime.fromisoformat(trashed)
    except ValueError:  # no day of the calendar: it is no older than anything
        return datetime.max.replace(tzinfo=UTC)


def _with_cwd(found: SessionInfo, cwd: str | None) -> SessionInfo:
    from msgspec.structs import replace

    return replace(found, cwd=cwd)
