"""The keys of an entry some of whose strings lie in blobs.

Invariants: a key that nothing was spilled from costs no blob; the others are put
back whole when they are asked for, once, or raise; nothing ever gives the text
of a handle for the string it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from sessiontree.core.spill import Fetch, restore
from sessiontree.errors import BlobMissingError

_SPILLED = "spilled"


def spilled_body(stored: Mapping[str, Any], fetch: Fetch | None) -> Mapping[str, Any]:
    """The keys of a line whose `spilled` may be anything, as a damaged file has it."""
    return SpilledBody(stored, fetch or out_of_reach)


def out_of_reach(handle: str) -> NoReturn:
    """What an entry's blobs are read with where nobody knows the file it came from."""
    raise BlobMissingError(
        f"{handle} cannot be read: the entry was decoded apart from its session's file", ""
    )


class SpilledBody(Mapping[str, Any]):
    """A mapping of the keys of a line, each whole.

    Attributes:
        stored: the keys as they stand in the line.
    """

    __slots__ = ("_fetch", "_whole", "stored")

    def __init__(self, stored: Mapping[str, Any], fetch: Fetch) -> None:
        self.stored = stored
        self._fetch = fetch
        self._whole: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        """The value of a key, whole.

        Raises:
            KeyError: there is no such key.
            BlobError: a blob is missing or wrong.
            EntryError: `spilled` is not what the format says.
        """
        if key not in self._whole:
            value = self.stored[key]
            places = self._places(key)
            if places:
                value = restore({key: value, _SPILLED: places}, self._fetch)[key]
            self._whole[key] = value
        return self._whole[key]

    def _places(self, key: str) -> Any:
        """What `spilled` says of one key; all that it says where that is no list of places."""
        spilled = self.stored[_SPILLED]
        try:
            return [place for place in spilled if place[0][0] == key]
        except (TypeError, IndexError, KeyError):
            return spilled

    def __contains__(self, key: object) -> bool:
        return key in self.stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)
