"""The stamps of files and sessions: what changes when they are written."""

from __future__ import annotations

import os
from typing import Final, Protocol

from sessiontree.catalog.base import Catalog
from sessiontree.storage.backends import place_of
from sessiontree.storage.files import SUFFIX, TRASH
from sessiontree.storage.place import Found, is_address

Stamp = tuple[int, ...]
"""For each of some paths the size, both times in nanoseconds and the inode; -1 for none."""

ABSENT: Final[Stamp] = (-1, -1, -1, -1)
"""The stamp of nothing."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


class Stamps(Protocol):
    """The stamps of the sessions of a store, also of those in its trash.

    Attributes:
        catalog: the sessions, but those in the trash.
    """

    catalog: Catalog

    def stamp(self, file: str) -> Stamp:
        """The stamp of a session, as of this moment or of the last `look`."""

    def look(self, file: str = "") -> None:
        """Let the stamps be those of now: of one session, or of all."""

    def files(self) -> list[str]:
        """The files of all sessions but those in the trash, sorted."""

    def has_trash(self) -> bool:
        """Whether a session may be in the trash."""

    def is_trashed(self, file: str) -> bool:
        """Whether a session is in the trash."""


def stamps_in(catalog: Catalog) -> Stamps:
    """The stamps of the sessions of a store."""
    return _InPlace(catalog) if is_address(catalog.root) else _InFolder(catalog)


class _InFolder:
    """Those in a folder of this machine; see `Stamps`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._trash = os.path.join(catalog.root, TRASH, "")

    def stamp(self, file: str) -> Stamp:
        return stamp_of(file)

    def look(self, file: str = "") -> None:
        """Do nothing: each stamp is of its moment."""

    def files(self) -> list[str]:
        return sorted(self.catalog.files(None, lambda problem: None))

    def has_trash(self) -> bool:
        return os.path.isdir(self._trash)

    def is_trashed(self, file: str) -> bool:
        return file.startswith(self._trash)


class _InPlace:
    """Those at an address, of one list that also has the trash; see `Stamps`."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._place, name = place_of(catalog.root)
        self._prefix = f"{name.strip('/')}/" if name.strip("/") else ""
        self._stamps: dict[str, Stamp] | None = None

    def _all(self) -> dict[str, Stamp]:
        if self._stamps is None:
            found = self._place.list(self._prefix)
            self._stamps = {self._place.address(one.name): _stamp(one) for one in found}
        return self._stamps

    def stamp(self, file: str) -> Stamp:
        return self._all().get(file, ABSENT)

    def look(self, file: str = "") -> None:
        if not file:
            self._stamps = None
        elif self._stamps is not None:
            found = self._place.find(self._place.name(file))
            self._stamps[file] = ABSENT if found is None else _stamp(found)

    def files(self) -> list[str]:
        kept = (file for file in self._all() if not self.is_trashed(file))
        return sorted(file for file in kept if self._place.name(file).endswith(SUFFIX))

    def has_trash(self) -> bool:
        return any(map(self.is_trashed, self._all()))

    def is_trashed(self, file: str) -> bool:
        return self._place.name(file).startswith(f"{self._prefix}{TRASH}/")


def _stamp(found: Found) -> Stamp:
    return found.size, int(found.modified * 1e9), 0, 0
