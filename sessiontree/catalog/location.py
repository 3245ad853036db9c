"""Location: what a path or an address names: one session, or a store of sessions."""

from __future__ import annotations

import os
from typing import NamedTuple

from sessiontree.catalog.base import Catalog
from sessiontree.catalog.folder import Folder
from sessiontree.catalog.listing import Reaches, every
from sessiontree.errors import SessionNotFoundError, UsageError
from sessiontree.storage.files import SUFFIX
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.place import is_address, is_session_address, name_in, path_of


class Location(NamedTuple):
    """A session, or a store of sessions.

    Attributes:
        file: the path, or the address without a password.
        store: the sessions below it, by their names; None for one session.
    """

    file: str
    store: Catalog | None

    @property
    def base(self) -> str:
        """The name of a session without its folder."""
        return os.path.basename(name_in(self.file) if is_address(self.file) else self.file)

    @property
    def real(self) -> str:
        """The path without links, or the address: the same for the same location."""
        return self.file if is_address(self.file) else os.path.realpath(self.file)


def catalog_at(root: str, fs: FileSystem, reaches: Reaches = every) -> Catalog:
    """The sessions in a folder, or at an address; in a folder, only those that `reaches` lets in.

    Raises:
        UsageError: it is no path and no address.
    """
    if not is_address(root):
        return Folder(path_of(root), fs, reaches)
    from sessiontree.catalog.remote import Remote  # few stores have an address

    return Remote.at(root)


def source_at(given: str, fs: FileSystem) -> Location:
    """What a path or an address names, which must be there.

    Raises:
        SessionNotFoundError: there is nothing.
        UsageError: it is not an address.
    """
    if is_address(given):
        return _address_at(given, fs)
    path = path_of(given)
    if not os.path.lexists(path):
        raise SessionNotFoundError(f"there is no file or folder {path}; check the path", path)
    return Location(path, catalog_at(path, fs) if os.path.isdir(path) else None)


def _address_at(given: str, fs: FileSystem) -> Location:
    from sessiontree.storage.backends import place_of  # few sessions have an address

    place, name = place_of(given)
    name = name.rstrip("/")
    file = place.address(name)
    if name and place.find(name) is not None:
        return Location(file, None)
    is_empty = name and next(iter(place.list(f"{name}/")), None) is None
    if is_session_address(file) or is_empty:
        raise SessionNotFoundError(f"there is no session at {file}; check the address", file)
    return Location(file, catalog_at(given, fs))


def target_at(given: str, fs: FileSystem) -> Location:
    """What a path or an address names, where a session or a store may be made.

    A name that ends in `.jsonl` is that of a session, as long as there is no folder with it.
    """
    if is_address(given):
        from sessiontree.storage.backends import shown  # few sessions have an address

        is_session = is_session_address(given)
        return Location(shown(given), None if is_session else catalog_at(given, fs))
    path = path_of(given)
    if not path:
        raise UsageError("an empty path names nothing; give a file or a folder")
    is_session = path.endswith(SUFFIX) and not os.path.isdir(path)
    return Location(path, None if is_session else catalog_at(path, fs))


def make_room(fs: FileSystem, file: str) -> None:
    """Make the folder of a session that is a file."""
    if not is_address(file):
        from sessiontree.storage.move import make_folders  # a store needs none of it

        make_folders(fs, os.path.dirname(os.path.realpath(file)))


def check_apart(one: Location, other: Location) -> None:
    """Check that two locations are not the same, and no store is in the other one.

    Raises:
        UsageError: they are.
    """
    if one.real == other.real:
        raise UsageError(f"{one.file} and {other.file} are the same; give two")
    for inner, outer in ((one, other), (other, one)):
        if inner.store is not None and outer.store is not None and outer.store.holds(inner.file):
            raise UsageError(f"{inner.file} is in {outer.file}; give two stores that are apart")
