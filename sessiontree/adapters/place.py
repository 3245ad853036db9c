"""Where the session of an SDK's id is: one file for each id, in a folder of a store.

A store at an address has no folders: there, the names of sessions begin with the name of a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from typing import Final

from sessiontree.catalog import location
from sessiontree.errors import SessionExistsError, UsageError
from sessiontree.storage.backends import create_log, open_log, place_of
from sessiontree.storage.fs import DISK
from sessiontree.storage.move import moving
from sessiontree.storage.place import is_address
from sessiontree.store import PathLike, Store

ENDING: Final = ".jsonl"
_LOCK: Final = ".lock"
"""The name of the log that is held where a folder has a lock; no list has it."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_WORDS: Final = 60


class Place:
    """A folder of a store.

    Args:
        root: the folder or the address of a store, or a `Store`; None for the store of the user.
        name: the name of the folder.

    Attributes:
        store: the store.
        folder: the path or the address of the folder.
    """

    def __init__(self, root: PathLike | Store | None, name: str) -> None:
        self.store = root if isinstance(root, Store) else Store(root)
        self._name = name
        self._catalog = location.catalog_at(self.store.root, DISK)
        self.folder = self._catalog.file(name)

    def file_of(self, id: str) -> str:
        """Return the file of the session of an id; ids that differ have other files."""
        return self._catalog.file(f"{self._name}/{_name_of(id)}{ENDING}")

    def inside(self, id: str) -> Place:
        """Return the folder of an id in this folder; ids that differ have other folders."""
        return Place(self.store, f"{self._name}/{_name_of(id)}")

    def files(self) -> Iterator[str]:
        """Yield the files of the sessions in the folder, by name; none if it is not there."""
        files, _ = self._names()
        yield from (self._catalog.file(f"{self._name}/{name}") for name in sorted(files))

    def folders(self) -> Iterator[Place]:
        """Yield the folders in the folder, by name; none if it is not there."""
        _, folders = self._names()
        yield from (Place(self.store, f"{self._name}/{name}") for name in sorted(folders))

    def _names(self) -> tuple[set[str], set[str]]:
        """The names of the sessions in the folder, and those of the folders in it."""
        files: set[str] = set()
        folders: set[str] = set()
        if is_address(self.folder):
            below = location.catalog_at(self.folder, DISK)
            for name, _ in below.states(lambda problem: None):
                first, slash, _ = name.partition("/")
                (folders if slash else files).add(first)
            return files, folders
        with suppress(FileNotFoundError), os.scandir(self.folder) as listed:
            for each in listed:
                if each.name.endswith(ENDING):
                    files.add(each.name)
                elif each.is_dir(follow_symlinks=False) and ENDING not in each.name:
                    folders.add(each.name)
        return files, folders

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep out all other programs that call this for the folder, which is made."""
        if not is_address(self.folder):
            self.make_room(self._catalog.file(f"{self._name}/{_LOCK}"))
            with moving(DISK, self.folder):
                yield
            return
        lock = self._catalog.file(f"{self._name}/{_LOCK}")
        with suppress(SessionExistsError):
            create_log(DISK, lock, iter([b"{}\n"]))
        with closing(open_log(DISK, lock)) as log, log.hold():
            yield

    @staticmethod
    def has(file: str) -> bool:
        """Whether there is a session with this file."""
        if not is_address(file):
            return os.path.exists(file)
        place, name = place_of(file)
        return place.find(name) is not None

    @staticmethod
    def make_room(file: str) -> None:
        """Make the folder of a file."""
        location.make_room(DISK, file)


def _name_of(id: str) -> str:
    if not isinstance(id, str):
        raise UsageError(f"an id is a text, not {id!r:.60} of type {type(id).__name__}")
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    words = _UNSAFE.sub("-", id[:_MOST_WORDS]).strip("-.").lower()
    return f"{words or 'session'}-{digest}"
