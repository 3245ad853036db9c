"""Location: what a path or an address names: one session, or a folder or place of sessions.

The sessions in a location have names: their paths below it, such as `<project>/<file>.jsonl`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from sessiontree.errors import SessionNotFoundError, UsageError
from sessiontree.storage.backends import place_of
from sessiontree.storage.files import SUFFIX, TRASH, Report, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import make_folders
from sessiontree.storage.place import Place, is_address, path_of


class Location(NamedTuple):
    """A session, or a store of sessions.

    Attributes:
        file: the path, or the address without a password.
        is_store: whether it has sessions below it, and is none itself.
        place: the place of an address; None for a path.
        prefix: what the names in the place begin with.
    """

    file: str
    is_store: bool
    place: Place | None = None
    prefix: str = ""

    @property
    def base(self) -> str:
        """The name of a session without its folder."""
        return os.path.basename(self.file if self.place is None else self.prefix)

    @property
    def real(self) -> str:
        """The path without links, or the address: the same for the same location."""
        return os.path.realpath(self.file) if self.place is None else self.file

    def at(self, name: str) -> str:
        """The path or address of a session of this store."""
        if self.place is None:
            return os.path.join(self.file, name)
        return self.place.address(_below(self.prefix) + name)

    def states(self, report: Report) -> dict[str, object]:
        """The sessions of this store by name, each with what changes when it is written.

        Those in the trash are left out.

        Raises:
            StorageError: the store cannot be read.
        """
        return dict(sorted(self._found(report)))

    def _found(self, report: Report) -> Iterator[tuple[str, object]]:
        if self.place is not None:
            prefix = _below(self.prefix)
            for found in self.place.list(prefix):
                name = found.name.removeprefix(prefix)
                if name.endswith(SUFFIX) and not name.startswith(f"{TRASH}/"):
                    yield name, (found.size, found.modified)
            return
        for file in session_files(self.file, report) if os.path.isdir(self.file) else ():
            try:
                state = os.stat(file)
            except OSError:  # gone meanwhile
                continue
            yield os.path.relpath(file, self.file), (state.st_ino, state.st_size, state.st_mtime)

    @property
    def trash(self) -> Location:
        """The trash of this store, which may not be there."""
        if self.place is None:
            return Location(os.path.join(self.file, TRASH), True)
        prefix = _below(self.prefix) + TRASH
        return Location(self.place.address(prefix), True, self.place, prefix)

    def make_room(self, fs: FileSystem, file: str) -> None:
        """Make the folder of a session of this location."""
        if self.place is None:
            make_folders(fs, os.path.dirname(os.path.realpath(file)))


def source_at(given: str) -> Location:
    """What a path or an address names, which must be there.

    Raises:
        SessionNotFoundError: there is nothing.
        UsageError: it is not an address.
    """
    if not is_address(given):
        path = path_of(given)
        if not os.path.lexists(path):
            raise SessionNotFoundError(f"there is no file or folder {path}; check the path", path)
        return Location(path, os.path.isdir(path))
    place, name = place_of(given)
    name = name.rstrip("/")
    file = place.address(name)
    if name and place.find(name) is not None:
        return Location(file, False, place, name)
    is_empty = name and next(iter(place.list(_below(name))), None) is None
    if name.endswith(SUFFIX) or is_empty:
        raise SessionNotFoundError(f"there is no session at {file}; check the address", file)
    return Location(file, True, place, name)


def target_at(given: str) -> Location:
    """What a path or an address names, where a session or a store may be made.

    A name that ends in `.jsonl` is that of a session, as long as there is no folder with it.
    """
    if is_address(given):
        place, name = place_of(given)
        name = name.rstrip("/")
        return Location(place.address(name), not name.endswith(SUFFIX), place, name)
    path = path_of(given)
    if not path:
        raise UsageError("an empty path names nothing; give a file or a folder")
    return Location(path, os.path.isdir(path) or not path.endswith(SUFFIX))


def _below(prefix: str) -> str:
    return f"{prefix}/" if prefix else ""


def check_apart(one: Location, other: Location) -> None:
    """Check that two locations are not the same, and no store is in the other one.

    Raises:
        UsageError: they are.
    """
    if one.real == other.real:
        raise UsageError(f"{one.file} and {other.file} are the same; give two")
    for inner, outer in ((one, other), (other, one)):
        if inner.is_store and _is_in(inner, outer):
            raise UsageError(f"{inner.file} is in {outer.file}; give two stores that are apart")


def _is_in(inner: Location, outer: Location) -> bool:
    if inner.place is not None or outer.place is not None:
        is_same = inner.place is outer.place
        return is_same and inner.prefix.startswith(_below(outer.prefix))
    return inner.real.startswith(os.path.join(outer.real, ""))
