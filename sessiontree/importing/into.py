"""Where an import puts sessions: a folder of this machine, or a place at an address.

Invariant: a new session is there whole or not at all, and a name that is taken stays as it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from sessiontree.catalog.listing import HEAD, header_of
from sessiontree.catalog.root import project_folder
from sessiontree.core.project import folder_name
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.importing.shared import SharedBlobs
from sessiontree.importing.source import files_in
from sessiontree.storage.atomic import create_file
from sessiontree.storage.backends import create_log, place_of
from sessiontree.storage.contents import spooled
from sessiontree.storage.files import SUFFIX, TRASH, session_files
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.logs import Logs
from sessiontree.storage.move import make_folders
from sessiontree.storage.oserrors import os_errors
from sessiontree.storage.place import Ends, Found, is_address

Stamp = tuple[int, ...]
"""For each of some paths the size, both times in nanoseconds and the inode; -1 for none."""

ABSENT: Final[Stamp] = (-1, -1, -1, -1)
"""The stamp of nothing."""


class Into(Protocol):
    """Where an import puts sessions.

    Attributes:
        root: the path of the folder, or the address without its password.
        shared: stores a content once for all sessions; None where each has its own.
    """

    root: str
    shared: SharedBlobs | None

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The sessions that can be read, each with the keys of its header, ordered by file."""

    def file(self, cwd: str | None, name: str) -> str:
        """The file of a new session; below its project's folder if `cwd` is given."""

    def is_taken(self, file: str) -> bool: ...

    def create(self, file: str, lines: Iterator[bytes], check: Callable[[str], object]) -> None:
        """Make a session; `check` is called with what it can be read back from, and may raise.

        Raises:
            SessionExistsError: the name is taken.
            StorageError: it cannot be made.
        """

    def files(self) -> list[str]:
        """The files of all sessions but those in the trash, sorted."""

    def trash(self) -> Into | None:
        """The sessions in the trash; None if there are none."""

    def is_trashed(self, file: str) -> bool:
        """Whether a session is in the trash."""

    def stamp(self, file: str) -> Stamp:
        """What changes when a session is written, as of this moment or of the last `look`."""

    def look(self, file: str = "") -> None:
        """Let the stamps be those of now: of one session, or of all."""


def into_at(root: str | os.PathLike[str], fs: FileSystem = DISK, *, is_store: bool = False) -> Into:
    """Where an import into a folder or an address puts sessions.

    Args:
        is_store: whether it is the root of a store, whose path is made absolute.

    Raises:
        UsageError: the path is not a folder, or the address not one.
    """
    given = os.fspath(root)
    if is_address(given):
        return _Place(given)
    return _Folder(os.path.abspath(given) if is_store else given, fs)


class _Folder:
    """A folder of this machine; see `Into`."""

    def __init__(self, root: str, fs: FileSystem) -> None:
        self.root = root
        self.shared: SharedBlobs | None = SharedBlobs(fs, root)
        self._fs = fs
        if os.path.lexists(root) and not os.path.isdir(root):
            raise UsageError(f"{root} is not a folder; give a folder to import into")

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if not os.path.isdir(self.root):
            return
        for path in files_in(self.root, lambda problem: None):
            with contextlib.suppress(SessionTreeError):
                yield path, header_of(path, self._fs)

    def file(self, cwd: str | None, name: str) -> str:
        folder = self.root
        if cwd is not None:
            with contextlib.suppress(UsageError):  # not a valid path on this system
                folder = project_folder(folder, cwd)
        return os.path.join(folder, name)

    def is_taken(self, file: str) -> bool:
        return os.path.lexists(file)

    def create(self, file: str, lines: Iterator[bytes], check: Callable[[str], object]) -> None:
        folder = os.path.dirname(file)
        with os_errors(folder, "make"):
            make_folders(self._fs, os.path.abspath(folder))
        create_file(self._fs, file, lines, check)

    def files(self) -> list[str]:
        if not os.path.isdir(self.root):
            return []
        return sorted(session_files(self.root, lambda problem: None))

    def trash(self) -> Into | None:
        path = os.path.join(self.root, TRASH)
        return _Folder(path, self._fs) if os.path.isdir(path) else None

    def is_trashed(self, file: str) -> bool:
        return file.startswith(os.path.join(self.root, TRASH, ""))

    def stamp(self, file: str) -> Stamp:
        return stamp_of(file)

    def look(self, file: str = "") -> None:
        """Do nothing: each stamp is of its moment."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class _Place:
    """The names in a place that begin with a prefix; see `Into`.

    A session is read back when it has its name: a place makes it in one step.
    """

    def __init__(self, url: str) -> None:
        self._place, name = place_of(url)
        name = name.strip("/")
        self._prefix = f"{name}/" if name else ""
        self.root = self._place.address(name)
        self.shared: SharedBlobs | None = None
        self._stamps: dict[str, Stamp] | None = None

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        found: dict[str, Mapping[str, Any]] = {}
        for ends in self._place.ends(self._prefix, HEAD, 1):
            if self._counts(ends.found.name) and ends.problem is None:
                with contextlib.suppress(SessionTreeError):
                    found[ends.found.name] = self._header(ends)
        for name in sorted(found):
            yield self._place.address(name), found[name]

    def _header(self, ends: Ends) -> Mapping[str, Any]:
        return header_of(self._place.address(ends.found.name), Logs(self._place, ends))

    def _counts(self, name: str) -> bool:
        return name.endswith(SUFFIX) and not name.startswith(f"{self._prefix}{TRASH}/")

    def file(self, cwd: str | None, name: str) -> str:
        folder = ""
        if cwd is not None:
            with contextlib.suppress(UnicodeError, ValueError):
                folder = f"{folder_name(os.path.abspath(cwd))}/"
        return self._place.address(self._prefix + folder + name)

    def is_taken(self, file: str) -> bool:
        return self._place.find(self._place.name(file)) is not None

    def create(self, file: str, lines: Iterator[bytes], check: Callable[[str], object]) -> None:
        with spooled(lines) as blocks:  # the blobs are stored, and no transaction waits for them
            create_log(DISK, file, blocks)
        check(file)

    def files(self) -> list[str]:
        return sorted(file for file in self._all() if self._counts(self._place.name(file)))

    def _all(self) -> dict[str, Stamp]:
        if self._stamps is None:
            found = self._place.list(self._prefix)
            self._stamps = {self._place.address(one.name): _stamp(one) for one in found}
        return self._stamps

    def trash(self) -> Into | None:
        if not any(map(self.is_trashed, self._all())):
            return None
        return _Place(self._place.address(f"{self._prefix}{TRASH}"))

    def is_trashed(self, file: str) -> bool:
        return self._place.name(file).startswith(f"{self._prefix}{TRASH}/")

    def stamp(self, file: str) -> Stamp:
        return self._all().get(file, ABSENT)

    def look(self, file: str = "") -> None:
        if not file:
            self._stamps = None
        elif self._stamps is not None:
            found = self._place.find(self._place.name(file))
            self._stamps[file] = ABSENT if found is None else _stamp(found)


def _stamp(found: Found) -> Stamp:
    return found.size, int(found.modified * 1e9), 0, 0
