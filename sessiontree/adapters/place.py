"""Where the session of an SDK's id is: one file for each id, in a folder of a store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from sessiontree.errors import UsageError
from sessiontree.store import PathLike, Store

ENDING: Final = ".jsonl"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_WORDS: Final = 60


class Place:
    """A folder of a store.

    Args:
        root: the folder of a store, or a `Store`; None for the store of the user.
        name: the name of the folder.

    Attributes:
        store: the store.
        folder: the path of the folder.
    """

    def __init__(self, root: PathLike | Store | None, name: str) -> None:
        self.store = root if isinstance(root, Store) else Store(root)
        self.folder = os.path.join(self.store.root, name)

    def file_of(self, id: str) -> str:
        """Return the path of the session of an id; ids that differ have other paths."""
        return os.path.join(self.folder, _name_of(id) + ENDING)

    def inside(self, id: str) -> Place:
        """Return the folder of an id in this folder; ids that differ have other folders."""
        return Place(self.store, os.path.join(self.folder, _name_of(id)))

    def files(self) -> Iterator[str]:
        """Yield the paths of the sessions in the folder, by name; none if it is not there."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as listed:
            names = sorted(each.name for each in listed if each.name.endswith(ENDING))
            yield from (os.path.join(self.folder, name) for name in names)

    def folders(self) -> Iterator[Place]:
        """Yield the folders in the folder, by name; none if it is not there."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as listed:
            names = sorted(each.name for each in listed if each.is_dir(follow_symlinks=False))
            inside = (name for name in names if ENDING not in name)
            yield from (Place(self.store, os.path.join(self.folder, name)) for name in inside)


def _name_of(id: str) -> str:
    if not isinstance(id, str):
        raise UsageError(f"an id is a text, not {id!r:.60} of type {type(id).__name__}")
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    words = _UNSAFE.sub("-", id[:_MOST_WORDS]).strip("-.").lower()
    return f"{words or 'session'}-{digest}"
