"""The open places of this process, by their addresses; each kind is imported when it is needed.

Invariant: a process has one place for each address, which serves all its sessions.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from sessiontree.errors import SessionExistsError, UsageError
from sessiontree.storage.atomic import check_free, create_file
from sessiontree.storage.fs import Durability, FileSystem, real_path
from sessiontree.storage.log import FileLog, Log
from sessiontree.storage.names import SUFFIX

if TYPE_CHECKING:
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.place import Address, Place

_places: dict[tuple[str, tuple[tuple[str, str], ...]], Place] = {}
_lock: Final = threading.RLock()


def _is_address(file: str) -> bool:
    """See `place.is_address`; a path needs no look at it."""
    if ":/" not in file:
        return False
    from sessiontree.storage.place import is_address  # few sessions have an address

    return is_address(file)


class Location(NamedTuple):
    """What a path or an address names: a session, or a store of sessions."""

    place: Place | None  # None: the file system
    name: str  # the name there, or its start; a path in the file system

    @property
    def file(self) -> str:
        """The path, or the address without a password."""
        return self.name if self.place is None else self.place.address(self.name)

    @property
    def real(self) -> str:
        """The path without links, or the address: the same for the same location."""
        return os.path.realpath(self.name) if self.place is None else self.file

    @property
    def is_session(self) -> bool:
        """Whether it is the address of one session; nothing looks whether that is there."""
        return self.place is not None and self.name.rstrip("/").endswith(SUFFIX)


def located(file: str) -> Location:
    """Take a path or an address apart, once, where it comes in.

    Raises:
        UsageError: it is neither, or a library that its place needs is not installed.
    """
    if _is_address(file):
        return Location(*place_of(file))
    if not file.startswith("file://"):
        return Location(None, file)
    from sessiontree.storage.place import path_of  # few paths are a URL

    return Location(None, path_of(file))


def place_of(url: str) -> tuple[Place, str]:
    """The place of an address, and the name in it.

    An address without a password finds the place that was opened with one.

    Raises:
        UsageError: it is not the address of a place, or a library that it needs is not installed.
    """
    from sessiontree.storage.place import address  # few sessions have an address

    found = address(url)
    key = found.shown, found.shown_options
    with _lock:
        place = _places.get(key)
        if place is None:
            place = _places[key] = _opener(found.scheme)(found)
    return place, found.name


def shown(file: str) -> str:
    """A path as it is, and an address without its password, which still opens its place."""
    return located(file).file if _is_address(file) else file


def _opener(scheme: str) -> Callable[[Address], Place]:
    """The function that opens the places of a scheme."""
    if scheme == "memory":
        from sessiontree.storage import memory_place

        return memory_place.MemoryPlace
    if scheme == "postgresql":
        from sessiontree.storage.postgres import place as postgres

        return postgres.PostgresPlace
    if scheme == "s3":
        from sessiontree.storage.objects import place as objects

        return objects.open_place
    raise UsageError(f"there is no kind of place with the scheme {scheme}")


def check_durability(durability: object) -> None:
    """Check the durability that a caller asks for.

    Raises:
        UsageError: it is unknown.
    """
    if durability not in ("fsync", "os"):
        raise UsageError(f"durability must be 'fsync' or 'os', not {durability!r}")


def open_log(
    fs: FileSystem, file: str, *, readonly: bool = False, durability: Durability = "fsync"
) -> Log:
    """Open the log of a session, given its path or its address.

    Raises:
        SessionNotFoundError: there is none.
        StorageError: it cannot be opened.
    """
    place, name = located(file)
    if place is not None:
        return place.log(name, readonly=readonly, durability=durability)
    return FileLog(fs, name, readonly=readonly, durability=durability)


def create_log(fs: FileSystem, file: str, blocks: Iterator[bytes]) -> None:
    """Make a session with this content, given its path or its address.

    Raises:
        SessionExistsError: there is one already.
        StorageError: it cannot be made.
        UsageError: the address is in the trash.
    """
    place, name = located(file)
    if place is None:
        create_file(fs, name, blocks)
    else:
        from sessiontree.storage.place import check_no_trash  # few sessions have an address

        check_no_trash(place.address(name), name)
        place.create(name, blocks)


def check_new_address(file: str, *, exclusive: bool = False) -> None:
    """See `place.check_new_address`; a path may have any ending."""
    if _is_address(file):
        from sessiontree.storage import place  # few sessions have an address

        place.check_new_address(file, exclusive=exclusive)


def check_new(fs: FileSystem, file: str) -> None:
    """Check that a session can have this path or address, and that none has it.

    Raises:
        SessionExistsError: there is one.
        StorageError: no session can have it.
    """
    place, name = located(file)
    if place is None:
        real_path(name)  # refuses what cannot be the name of a file
        check_free(fs, name)
        return
    from sessiontree.storage.place import check_name  # few sessions have an address

    if place.find(check_name(name, place.url)) is not None:
        file = place.address(name)
        raise SessionExistsError(f"{file} is there already; choose another name", file)


def is_same_log(one: Log, other: Log) -> bool:
    """Whether two open logs are one: at the same address, or two names of one file."""
    if _is_address(one.name) or _is_address(other.name):
        return one.name == other.name
    return one.identity == other.identity


def blobs_of(fs: FileSystem, file: str) -> Blobs:
    """The blobs of a session, given its path or its address."""
    from sessiontree.storage.blobs import Blobs  # many sessions have none

    place, name = located(file)
    return Blobs(fs, name) if place is None else place.blobs(name).open()
