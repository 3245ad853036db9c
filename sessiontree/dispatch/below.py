"""What lies below a place of a scope: paths below a folder, addresses below an address.

Invariants: nothing is opened to find out, so no server hears of an address that leads elsewhere;
an address that lies below is given back in the spelling of the place, with none of its own options.
"""

from __future__ import annotations

import os

from sessiontree.errors import UsageError
from sessiontree.storage.place import Address, address, address_of, names_place, path_of


def below(given: str, place: str) -> str | None:
    """A path or an address as it is to be used, if it is a place or lies below it; else None.

    An address without options is one with those of the place.
    """
    try:
        if names_place(given) != names_place(place):
            return None
        if names_place(given):
            return _address_below(address(given), address(place))
        path = path_of(given)
    except UsageError:  # no address at all, or the file of another machine
        return None
    return path if is_path_below(path, place) else None


def is_path_below(path: str, folder: str) -> bool:
    """Whether a path, its links followed, is a folder or below it."""
    try:
        real = os.path.realpath(path)
    except ValueError:  # a NUL in it
        return False
    return os.path.join(real, "").startswith(os.path.join(os.path.realpath(folder), ""))


def address_in(place: str, name: str) -> str | None:
    """The address of a name that begins in a place at an address; None if it leads elsewhere."""
    at = address(place)
    return _address_below(at._replace(name=f"{at.name.rstrip('/')}/{name}".removeprefix("/")), at)


def _address_below(given: Address, place: Address) -> str | None:
    if given.shown != place.shown or given.shown_options not in ((), place.shown_options):
        return None
    name, start = given.name.rstrip("/"), place.name.strip("/")
    if "\0" in name or (name and any(part in ("", ".", "..") for part in name.split("/"))):
        return None
    if start and name != start and not name.startswith(f"{start}/"):
        return None
    return address_of(place.shown, name, place.shown_options)
