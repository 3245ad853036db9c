"""When sessions last changed, by their files or by the lists of places, without a look into them.

Invariant: the sessions of an address take one list, or one request each where few are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final, NamedTuple

from sessiontree.errors import StorageError
from sessiontree.library.cache import stamp_of
from sessiontree.library.listing import Reaches, every, without_stubs
from sessiontree.library.places import files_in
from sessiontree.storage.names import Report
from sessiontree.storage.place import Place, StoredSession
from sessiontree.storage.places import located

FEW: Final = 8
"""So many sessions of a place are asked for one by one; more are found in a list."""


class ChangeStamp(NamedTuple):
    """What changes with a session: the time in nanoseconds, its size, the identity of its file."""

    modified: int
    size: int
    identity: int = 0


def changes_in(
    places: Sequence[str], report: Report, reaches: Reaches = every
) -> Iterator[tuple[str, ChangeStamp]]:
    """The files and the addresses of the sessions in some places, unordered.

    Only files that the caller `reaches`.

    Raises:
        StorageError: an address cannot be reached.
    """
    stores = [located(place) for place in places]
    folders = [folder for folder, at in zip(places, stores, strict=True) if at.place is None]
    for file in without_stubs(files_in(folders, report, reaches)):
        if (change := _of_file(file)) is not None:  # else it was removed a moment ago
            yield file, change
    for place, name in stores:
        if place is not None:
            from sessiontree.library.catalogs import Remote  # few stores have an address

            for file, found in Remote(place, name).found():
                yield file, _of_found(found)


def changes_of(files: Iterable[str]) -> dict[str, ChangeStamp | None]:
    """The changes of some sessions; None for one that is not there.

    Raises:
        StorageError: an address cannot be reached.
    """
    made: dict[str, ChangeStamp | None] = {}
    at: defaultdict[Place, dict[str, str]] = defaultdict(dict)
    for file in files:
        place, name = located(file)
        if place is None:
            made[file] = _of_file(name)
        else:
            at[place][name] = file
    for place, names in at.items():
        made |= _of_names(place, names)
    return made


def _of_names(place: Place, names: dict[str, str]) -> dict[str, ChangeStamp | None]:
    """The changes of sessions of a place, whose addresses are given by their names."""
    each: dict[str, StoredSession | None] | None = None
    if len(names) <= FEW:
        with suppress(StorageError):  # a damaged one; a list has it, too
            each = {name: place.find(name) for name in names}
    if each is None:
        each = {one.name: one for one in place.list(_start_of(names))}
    found = {file: each.get(name) for name, file in names.items()}
    return {file: None if one is None else _of_found(one) for file, one in found.items()}


def _start_of(names: Iterable[str]) -> str:
    """The folder that names have in common, with a slash; empty if they have none."""
    folders = [name.split("/")[:-1] for name in names]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return "".join(f"{parts[0]}/" for parts in shared)


def _of_file(file: str) -> ChangeStamp | None:
    size, modified, _, inode = stamp_of([file])
    return ChangeStamp(modified, size, inode) if size >= 0 else None


def _of_found(found: StoredSession) -> ChangeStamp:
    return ChangeStamp(int(found.modified * 1e9), found.size)
